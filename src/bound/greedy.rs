//! Greedy packers: buffers one after the other, each where it fits among those before it.
//!
//! Orders by size, lifetime and area go back to Sekiyama, Imai, Imamichi and Kajiya,
//! "Profile-guided memory optimization for deep neural networks" (2018) and Pisarchyk and
//! Lee, "Efficient memory management for deep neural net inference" (2020); the lowest gap
//! is first fit and the smallest one best fit, as in Knuth, section 2.5.
//!
//! Tie-breaks: of equal keys the larger buffer, then the earlier one, then the lower number.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use super::layers::Layers;
use super::overlaps::Overlaps;
use super::packing::{Buffer, Packing};
use super::sweep::{Swept, sweep};

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
/// Where at least one in so many pairs of buffers is alive together, looking at all of them by
/// offset costs less than finding and sorting these.
const DENSE: u64 = 50;

/// Places buffers in a given order; keeps its memory for the next run.
#[derive(Debug)]
pub struct Placer<'a> {
    buffers: &'a [Buffer],
    placed: Placed,
    offsets: Vec<u64>,
}

/// The buffers placed so far, for the question of what they leave to another one.
#[derive(Debug)]
enum Placed {
    /// Many are alive together.
    Dense(Layers),
    /// Few are; with what is taken among those alive with the present one.
    Sparse(Overlaps, Vec<(u64, u64)>),
}

impl<'a> Placer<'a> {
    /// Nothing is placed.
    #[must_use]
    pub fn new(buffers: &'a [Buffer]) -> Self {
        let overlaps = Overlaps::new(buffers);
        let all_pairs = buffers.len() as u64 * buffers.len() as u64 / 2;
        let placed = if overlaps.pairs(buffers) > all_pairs / DENSE {
            Placed::Dense(Layers::default())
        } else {
            Placed::Sparse(overlaps, Vec::new())
        };
        Placer {
            buffers,
            placed,
            offsets: vec![0; buffers.len()],
        }
    }

    /// Places all buffers in this order and answers the height in bytes; nothing where
    /// `stop`, which is asked now and then, says that the time is over.
    pub fn run(&mut self, order: &[u32], gap: Gap, stop: &dyn Fn() -> bool) -> Option<u64> {
        self.run_below(order, gap, u64::MAX, stop)
    }

    /// As [`run`](Self::run), and nothing as soon as the height reaches `limit_bytes`.
    pub fn run_below(
        &mut self,
        order: &[u32],
        gap: Gap,
        limit_bytes: u64,
        stop: &dyn Fn() -> bool,
    ) -> Option<u64> {
        match &mut self.placed {
            Placed::Dense(layers) => layers.clear(),
            Placed::Sparse(overlaps, _) => overlaps.clear(),
        }
        let mut height_bytes = 0;
        for (number, at) in order.iter().enumerate() {
            if number % LOOK == LOOK - 1 && stop() {
                return None;
            }
            let at = *at as usize;
            let buffer = &self.buffers[at];
            let offset = self.find(buffer, gap);
            self.offsets[at] = offset;
            match &mut self.placed {
                Placed::Dense(layers) => layers.insert(buffer, offset),
                Placed::Sparse(overlaps, _) => overlaps.insert(at, buffer),
            }
            height_bytes = height_bytes.max(offset + buffer.bytes);
            if height_bytes >= limit_bytes {
                return None;
            }
        }
        Some(height_bytes)
    }

    /// The offsets of the last run that answered.
    #[must_use]
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    fn find(&mut self, buffer: &Buffer, gap: Gap) -> u64 {
        let mut search = Search {
            buffer,
            gap,
            top: 0,
            best: None,
        };
        match &mut self.placed {
            Placed::Dense(layers) => layers.each(buffer, |from, end| search.see(from, end)),
            Placed::Sparse(overlaps, taken) => {
                let (offsets, buffers) = (&self.offsets, self.buffers);
                taken.clear();
                overlaps.each(buffer, |other| {
                    taken.push((offsets[other], offsets[other] + buffers[other].bytes));
                });
                taken.sort_unstable();
                let mut all = taken.iter();
                let _ = all.try_for_each(|(from, end)| search.see(*from, *end));
            }
        }
        search.offset()
    }
}

/// The search for a gap, from below.
struct Search<'a> {
    buffer: &'a Buffer,
    gap: Gap,
    /// Everything below is taken or a gap that was seen.
    top: u64,
    /// The smallest gap that holds the buffer, and where it would begin there.
    best: Option<(u64, u64)>,
}

impl Search<'_> {
    /// The next range that is taken; breaks where no later gap can be better.
    fn see(&mut self, from: u64, end: u64) -> ControlFlow<()> {
        if from > self.top {
            let start = self.top.next_multiple_of(self.buffer.align);
            let room = from - self.top;
            let is_better = self.best.is_none_or(|(least, _)| room < least);
            if from >= start + self.buffer.bytes && is_better {
                self.best = Some((room, start));
                if self.gap == Gap::First || room == self.buffer.bytes {
                    return ControlFlow::Break(());
                }
            }
        }
        self.top = self.top.max(end);
        ControlFlow::Continue(())
    }

    fn offset(&self) -> u64 {
        let above = self.top.next_multiple_of(self.buffer.align);
        self.best.map_or(above, |(_, start)| start)
    }
}

/// The best of the greedy packers whose work together stays within `pairs`, the number of
/// times that a buffer may be looked at beside another one. The sweep, which looks at no
/// pairs, always runs; `stop` ends the others, and what was found before counts.
#[must_use]
pub fn greedy(buffers: &[Buffer], pairs: u64, stop: &(dyn Fn() -> bool + Sync)) -> Swept {
    let mut swept = sweep(buffers);
    let best = &mut swept.packing;
    let runs = (pairs / swept.pairs.max(1)).min(RANKED.len() as u64);
    if best.proven || runs == 0 {
        return swept;
    }
    let mut placer = Placer::new(buffers);
    for at in RANKED.iter().take(runs as usize) {
        if best.proven || stop() {
            break;
        }
        let (by, order, gap) = GREEDY[*at];
        let limit_bytes = best.height_bytes;
        let lower = placer.run_below(&order.of(buffers), gap, limit_bytes, stop);
        if let Some(height_bytes) = lower {
            *best = Packing {
                offsets: placer.offsets().to_vec(),
                height_bytes,
                by,
                proven: height_bytes == swept.load_bytes,
            };
        }
    }
    swept
}

/// The greedy packers, the most promising ones first; the sweep stands for the one by start
/// and best fit.
const RANKED: [usize; 7] = [0, 3, 4, 7, 1, 2, 5];

#[cfg(test)]
mod tests {
    use super::*;

    /// More buffers than one run of layers holds, at two densities: both ways of looking at
    /// what is placed find the same places.
    #[test]
    fn dense_and_sparse_placers_agree() {
        let mut random = 1u64;
        let mut draw = |below: u64| {
            // Knuth's MMIX generator; its upper bits.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for longest in [30, 3000] {
            let buffers: Vec<Buffer> = (0..1500)
                .map(|_| {
                    let lower = draw(6000) as u32;
                    Buffer {
                        lower,
                        upper: lower + 1 + draw(longest) as u32,
                        bytes: 1 + draw(1000),
                        align: 1 << draw(4),
                    }
                })
                .collect();
            let chosen = Placer::new(&buffers);
            let is_dense = matches!(chosen.placed, Placed::Dense(_));
            assert_eq!(is_dense, longest > 100, "lives of up to {longest}");
            for (by, order, gap) in GREEDY {
                let order = order.of(&buffers);
                let placed = [
                    Placed::Dense(Layers::default()),
                    Placed::Sparse(Overlaps::new(&buffers), Vec::new()),
                ];
                let run = |placed| {
                    let mut placer = Placer {
                        placed,
                        ..Placer::new(&buffers)
                    };
                    let height = placer.run(&order, gap, &|| false);
                    (height, placer.offsets().to_vec())
                };
                let [dense, sparse] = placed.map(run);
                assert_eq!(dense, sparse, "{by}");
            }
        }
    }
}
