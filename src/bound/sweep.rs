//! Best fit in the order of time, in O(n log n): the packer for any number of buffers.
//!
//! What an allocator without foresight does that takes the smallest gap (Knuth, section
//! 2.5); it finds what [`greedy`](super::greedy) by start and best fit finds, without
//! looking at pairs. Tie-breaks: the lowest of equal gaps.

use std::collections::{BTreeMap, BTreeSet};

use super::packing::{Buffer, Packing};

/// The gaps below the top, by address and by size.
#[derive(Default)]
struct Gaps {
    by_address: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    /// Where nothing is taken any more.
    top: u64,
}

impl Gaps {
    fn add(&mut self, from: u64, end: u64) {
        if from < end {
            self.by_address.insert(from, end);
            self.by_size.insert((end - from, from));
        }
    }

    fn remove(&mut self, from: u64, end: u64) {
        self.by_address.remove(&from);
        self.by_size.remove(&(end - from, from));
    }

    /// Takes bytes from the smallest gap that holds them, else from the top.
    fn take(&mut self, buffer: &Buffer) -> u64 {
        let start = |from: u64| from.next_multiple_of(buffer.align);
        let mut large = self.by_size.range((buffer.bytes, 0)..);
        let gap = large.find(|(size, from)| start(*from) + buffer.bytes <= from + size);
        let Some((size, from)) = gap.copied() else {
            let (top, offset) = (self.top, start(self.top));
            self.add(top, offset);
            self.top = offset + buffer.bytes;
            return offset;
        };
        self.remove(from, from + size);
        self.add(from, start(from));
        self.add(start(from) + buffer.bytes, from + size);
        start(from)
    }

    /// Gives a range back; it joins the gaps beside it, and one at the top goes.
    fn give(&mut self, mut from: u64, mut end: u64) {
        if let Some((below, _)) = self
            .by_address
            .range(..from)
            .next_back()
            .filter(|it| *it.1 == from)
        {
            let below = *below;
            self.remove(below, from);
            from = below;
        }
        if let Some(above) = self.by_address.get(&end).copied() {
            self.remove(end, above);
            end = above;
        }
        if end == self.top {
            self.top = from;
        } else {
            self.add(from, end);
        }
    }
}

/// Packs the buffers as they come and go.
#[must_use]
pub fn sweep(buffers: &[Buffer], load_bytes: u64) -> Packing {
    let mut moments: Vec<(u32, bool, usize)> = Vec::with_capacity(2 * buffers.len());
    for (at, buffer) in buffers.iter().enumerate() {
        moments.push((buffer.lower, true, at));
        moments.push((buffer.upper, false, at));
    }
    moments.sort_unstable();
    let (mut gaps, mut offsets, mut height_bytes) = (Gaps::default(), vec![0; buffers.len()], 0);
    for (_, begins, at) in moments {
        let bytes = buffers[at].bytes;
        if begins {
            offsets[at] = gaps.take(&buffers[at]);
            height_bytes = height_bytes.max(offsets[at] + bytes);
        } else {
            gaps.give(offsets[at], offsets[at] + bytes);
        }
    }
    Packing {
        offsets,
        height_bytes,
        by: "greedy by start, best fit",
        proven: height_bytes == load_bytes,
    }
}
