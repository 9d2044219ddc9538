//! Greedy packers: buffers one after the other, each where it fits among those before it.
//!
//! Orders by size, lifetime and area go back to Sekiyama, Imai, Imamichi and Kajiya,
//! "Profile-guided memory optimization for deep neural networks" (2018) and Pisarchyk and
//! Lee, "Efficient memory management for deep neural net inference" (2020); the lowest gap
//! is first fit and the smallest one best fit, as in Knuth, section 2.5.
//!
//! Tie-breaks: of equal keys the larger buffer, then the earlier one, then the lower number.

use std::cmp::Reverse;

use super::overlaps::Overlaps;
use super::packing::{Buffer, Packing};
use super::sweep::sweep;

/// Which gap a buffer goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The lowest.
    First,
    /// The smallest; of equal ones the lowest.
    Best,
}

/// In which order buffers are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The largest first.
    Size,
    /// The longest-lived first.
    Lifetime,
    /// The largest product of size and lifetime first.
    Area,
    /// As they begin: what an allocator without foresight sees.
    Start,
    /// The longest-lived first by powers of four, the largest first within one.
    Classes,
}

/// The greedy packers by name.
pub const GREEDY: [(&str, Order, Gap); 8] = [
    ("greedy by size, first fit", Order::Size, Gap::First),
    ("greedy by size, best fit", Order::Size, Gap::Best),
    ("greedy by lifetime, first fit", Order::Lifetime, Gap::First),
    ("greedy by lifetime, best fit", Order::Lifetime, Gap::Best),
    ("greedy by area, first fit", Order::Area, Gap::First),
    ("greedy by start, first fit", Order::Start, Gap::First),
    ("greedy by start, best fit", Order::Start, Gap::Best),
    (
        "greedy by lifetime class and size, best fit",
        Order::Classes,
        Gap::Best,
    ),
];

impl Order {
    /// The numbers of the buffers in this order.
    #[must_use]
    pub fn of(self, buffers: &[Buffer]) -> Vec<u32> {
        let key = |at: &u32| {
            let buffer = &buffers[*at as usize];
            let life = buffer.upper - buffer.lower;
            let first = match self {
                Order::Size => u128::from(buffer.bytes),
                Order::Lifetime => u128::from(life),
                Order::Area => u128::from(buffer.bytes) * u128::from(life),
                Order::Classes => u128::from(life.ilog2() / 2),
                Order::Start => return (Reverse(0), Reverse(0), buffer.lower, *at),
            };
            (Reverse(first), Reverse(buffer.bytes), buffer.lower, *at)
        };
        let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
        order.sort_unstable_by_key(key);
        order
    }
}

/// Buffers placed between two looks at the clock.
const LOOK: usize = 256;

/// Places buffers in a given order; keeps its memory for the next run.
#[derive(Debug)]
pub struct Placer<'a> {
    buffers: &'a [Buffer],
    placed: Overlaps,
    /// What is taken among the buffers alive together with the present one.
    taken: Vec<(u64, u64)>,
    offsets: Vec<u64>,
}

impl<'a> Placer<'a> {
    /// Nothing is placed.
    #[must_use]
    pub fn new(buffers: &'a [Buffer]) -> Self {
        Placer {
            buffers,
            placed: Overlaps::new(buffers),
            taken: Vec::new(),
            offsets: vec![0; buffers.len()],
        }
    }

    /// Places all buffers in this order and answers the height in bytes; nothing where
    /// `stop`, which is asked now and then, says that the time is over.
    pub fn run(&mut self, order: &[u32], gap: Gap, stop: &dyn Fn() -> bool) -> Option<u64> {
        self.placed.clear();
        let mut height_bytes = 0;
        for (number, at) in order.iter().enumerate() {
            if number % LOOK == LOOK - 1 && stop() {
                return None;
            }
            let at = *at as usize;
            let buffer = &self.buffers[at];
            let offset = self.find(buffer, gap);
            self.offsets[at] = offset;
            self.placed.insert(at, buffer);
            height_bytes = height_bytes.max(offset + buffer.bytes);
        }
        Some(height_bytes)
    }

    /// The offsets of the last run.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    fn find(&mut self, buffer: &Buffer, gap: Gap) -> u64 {
        let (taken, offsets, buffers) = (&mut self.taken, &self.offsets, self.buffers);
        taken.clear();
        self.placed.each(buffer, |other| {
            taken.push((offsets[other], offsets[other] + buffers[other].bytes));
        });
        taken.sort_unstable();
        let mut top = 0u64;
        let mut best: Option<(u64, u64)> = None;
        for (from, end) in taken.iter() {
            let start = top.next_multiple_of(buffer.align);
            if *from >= start + buffer.bytes {
                let room = from - top;
                if gap == Gap::First {
                    return start;
                }
                if best.is_none_or(|(least, _)| room < least) {
                    best = Some((room, start));
                }
            }
            top = top.max(*end);
        }
        best.map_or(top.next_multiple_of(buffer.align), |(_, start)| start)
    }
}

/// The best of the greedy packers whose work together stays within `pairs`, the number of
/// times that a buffer may be looked at beside another one. The sweep, which looks at no
/// pairs, always runs; `stop` ends the others, and what was found before counts.
#[must_use]
pub fn greedy(
    buffers: &[Buffer],
    load_bytes: u64,
    pairs: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Packing {
    let mut best = sweep(buffers, load_bytes);
    let mut placer = Placer::new(buffers);
    let runs = pairs / placer.placed.pairs(buffers).max(1);
    for at in RANKED.iter().take(runs.min(GREEDY.len() as u64) as usize) {
        if best.proven || stop() {
            break;
        }
        let (by, order, gap) = GREEDY[*at];
        let Some(height_bytes) = placer.run(&order.of(buffers), gap, stop) else {
            break;
        };
        if height_bytes < best.height_bytes {
            best = Packing {
                offsets: placer.offsets().to_vec(),
                height_bytes,
                by,
                proven: height_bytes == load_bytes,
            };
        }
    }
    best
}

/// The greedy packers, the most promising ones first; the sweep stands for the one by start
/// and best fit.
const RANKED: [usize; 7] = [0, 3, 4, 7, 1, 2, 5];
