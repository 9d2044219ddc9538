//! The largest of many rectangles, a bounded number of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is compared by area.
pub(super) trait Area: Copy {
    /// Bytes times events.
    fn area(&self) -> u128;
    /// Tells rectangles apart; of two of one area the lower one is kept. Sorts the result.
    fn key(&self) -> (u64, u64);
}

/// Keeps the largest.
#[derive(Debug)]
pub(super) struct Largest<T> {
    most: usize,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
}

#[derive(Debug, Clone, Copy)]
struct Ranked<T>(T);

impl<T: Area> Ranked<T> {
    fn rank(&self) -> (u128, Reverse<(u64, u64)>) {
        (self.0.area(), Reverse(self.0.key()))
    }
}

impl<T: Area> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T: Area> Eq for Ranked<T> {}

impl<T: Area> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Area> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<T: Area> Largest<T> {
    pub fn new(most: usize) -> Self {
        Largest {
            most,
            heap: BinaryHeap::new(),
        }
    }

    /// Takes one in; answers the smallest where there are too many.
    pub fn push(&mut self, one: T) -> Option<T> {
        self.heap.push(Reverse(Ranked(one)));
        if self.heap.len() <= self.most {
            return None;
        }
        self.heap.pop().map(|Reverse(Ranked(small))| small)
    }

    /// All that were kept, by their keys.
    pub fn into_sorted(self) -> Vec<T> {
        let mut all: Vec<T> = self
            .heap
            .into_iter()
            .map(|Reverse(Ranked(one))| one)
            .collect();
        all.sort_unstable_by_key(Area::key);
        all
    }
}
