//! Which of the placed buffers are alive together with a given one.
//!
//! A segment tree over the buffers in the order of their first moments; each node keeps
//! the latest end of those that are placed. A query costs O(log n) and O(log n) more for
//! each buffer that it finds.

use super::packing::Buffer;

/// The placed buffers.
#[derive(Debug, Clone)]
pub(super) struct Overlaps {
    /// Buffers by first moment.
    order: Vec<u32>,
    /// First moments in that order.
    lowers: Vec<u32>,
    /// The place of each buffer in that order.
    place: Vec<u32>,
    /// Latest end of a placed buffer below each node; 0 where none is placed.
    latest: Vec<u32>,
    leaves: usize,
}

impl Overlaps {
    /// Nothing is placed.
    pub fn new(buffers: &[Buffer]) -> Self {
        let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
        order.sort_by_key(|at| buffers[*at as usize].lower);
        let mut place = vec![0; buffers.len()];
        for (at, buffer) in order.iter().enumerate() {
            place[*buffer as usize] = at as u32;
        }
        let leaves = buffers.len().next_power_of_two();
        Overlaps {
            lowers: order.iter().map(|at| buffers[*at as usize].lower).collect(),
            order,
            place,
            latest: vec![0; 2 * leaves],
            leaves,
        }
    }

    /// How many pairs of buffers are alive together at some moment.
    pub fn pairs(&self, buffers: &[Buffer]) -> u64 {
        let mut uppers: Vec<u32> = buffers.iter().map(|buffer| buffer.upper).collect();
        uppers.sort_unstable();
        let begun = |moment: u32| self.lowers.partition_point(|lower| *lower < moment);
        let ended = |moment: u32| uppers.partition_point(|upper| *upper <= moment);
        let alive = buffers
            .iter()
            .map(|it| begun(it.upper) - ended(it.lower) - 1);
        alive.map(|others| others as u64).sum::<u64>() / 2
    }

    /// Forgets every placement.
    pub fn clear(&mut self) {
        self.latest.fill(0);
    }

    /// Buffer number `at` is placed.
    pub fn insert(&mut self, at: usize, buffer: &Buffer) {
        let mut node = self.leaves + self.place[at] as usize;
        while node > 0 && self.latest[node] < buffer.upper {
            self.latest[node] = buffer.upper;
            node /= 2;
        }
    }

    /// Calls `found` with every placed buffer that is alive at some moment with `buffer`.
    pub fn each(&self, buffer: &Buffer, mut found: impl FnMut(usize)) {
        let end = self.lowers.partition_point(|lower| *lower < buffer.upper);
        let mut stack = [(1usize, 0usize, self.leaves); 40];
        let mut depth = 1;
        while depth > 0 {
            depth -= 1;
            let (node, from, width) = stack[depth];
            if from >= end || self.latest[node] <= buffer.lower {
                continue;
            }
            if width == 1 {
                found(self.order[from] as usize);
                continue;
            }
            let half = width / 2;
            stack[depth] = (2 * node + 1, from + half, half);
            stack[depth + 1] = (2 * node, from, half);
            depth += 2;
        }
    }
}
