//! The placed buffers by offset: those alive together with a given one, from below.
//!
//! Buffers lie in runs of at most [`RUN`], in the order of their offsets. A query looks at the
//! lifetime of every placed buffer, 64 in a row without a branch, and may stop early. Where
//! a good part of them is alive together that is far less work than to collect and sort them,
//! as [`Overlaps`](super::overlaps::Overlaps) does.

use std::ops::ControlFlow;

use super::packing::Buffer;

/// Buffers in one run.
const RUN: usize = 512;
/// Lifetimes that are compared at once.
const WORD: usize = 64;

/// Some buffers at rising offsets.
#[derive(Debug, Clone, Default)]
struct Run {
    lowers: Vec<u32>,
    uppers: Vec<u32>,
    /// Their first bytes and the ones after their last.
    ranges: Vec<(u64, u64)>,
}

/// The placed buffers.
#[derive(Debug, Clone, Default)]
pub(super) struct Layers {
    runs: Vec<Run>,
}

impl Layers {
    /// Forgets every placement.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// A buffer is placed.
    pub fn insert(&mut self, buffer: &Buffer, offset: u64) {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        let above = |run: &Run| run.ranges[0].0 <= offset;
        let number = self.runs[1..].partition_point(above);
        let run = &mut self.runs[number];
        let at = run.ranges.partition_point(|range| range.0 <= offset);
        run.lowers.insert(at, buffer.lower);
        run.uppers.insert(at, buffer.upper);
        run.ranges.insert(at, (offset, offset + buffer.bytes));
        if run.ranges.len() == RUN {
            let upper_half = Run {
                lowers: run.lowers.split_off(RUN / 2),
                uppers: run.uppers.split_off(RUN / 2),
                ranges: run.ranges.split_off(RUN / 2),
            };
            self.runs.insert(number + 1, upper_half);
        }
    }

    /// Calls `found` with what is taken by each placed buffer that is alive at some moment with
    /// `buffer`, by rising offset, until it breaks.
    pub fn each(&self, buffer: &Buffer, mut found: impl FnMut(u64, u64) -> ControlFlow<()>) {
        let (lower, upper) = (buffer.lower, buffer.upper);
        for run in &self.runs {
            let words = run.lowers.chunks(WORD).zip(run.uppers.chunks(WORD));
            for ((lowers, uppers), ranges) in words.zip(run.ranges.chunks(WORD)) {
                let mut alive = 0u64;
                for (at, (begin, end)) in lowers.iter().zip(uppers).enumerate() {
                    alive |= u64::from((*begin < upper) & (*end > lower)) << at;
                }
                while alive != 0 {
                    let (from, end) = ranges[alive.trailing_zeros() as usize];
                    if found(from, end).is_break() {
                        return;
                    }
                    alive &= alive - 1;
                }
            }
        }
    }
}
