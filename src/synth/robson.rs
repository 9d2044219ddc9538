//! Adversaries: the programs that make first fit and best fit need the most memory.
//!
//! Sources: Robson, "An estimate of the store size necessary for dynamic storage
//! allocation" (J. ACM 18, 1971); "Bounds for some functions concerning dynamic storage
//! allocation" (J. ACM 21, 1974), by which no policy that cannot move gets by with less than M (log2 n / 2 + 1) - n + 1
//! units for M live ones in blocks of 1, 2, 4, ... n; "Worst case fragmentation of first fit
//! and best fit storage allocation strategies" (The Computer Journal 20, 1977), by which
//! best fit may need nearly M n.
//!
//! An adversary must see where blocks lie. Both policies are deterministic, so the program
//! holds a small model of the one it plays against, and the trace is fixed: it works
//! against that policy with room enough, sizes rounded to at most `unit_bytes`, and is an
//! ordinary trace for the others.

mod best_fit;
mod first_fit;
mod heap;

use serde::{Deserialize, Serialize};

use super::Family;
use super::pen::{Held, Pen, Stage};
use crate::units::serde_bytes;
use heap::Heap;

/// Parameters. There is no chance in it: every seed gives the same trace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The policy it is made against.
    pub against: Against,
    /// What is live at most (M).
    #[serde(with = "serde_bytes")]
    pub live_bytes: u64,
    /// The largest request (n).
    #[serde(with = "serde_bytes")]
    pub largest_bytes: u64,
    /// The smallest request, of which all others are multiples.
    #[serde(with = "serde_bytes")]
    pub unit_bytes: u64,
}

/// The policy that an adversary is made against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The lowest hole.
    FirstFit,
    /// The smallest hole, of equal ones the lowest.
    BestFit,
}

impl Spec {
    /// How many bytes the policy needs for the whole program: exactly so many.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        let mut ignored = |_, _| crate::synth::Answer::Taken;
        let mut pen = Pen::new(&mut ignored, u64::MAX);
        self.run(&mut pen) * self.unit_bytes
    }

    /// Plays the program and answers how far the heap reached, in units.
    fn run(&self, pen: &mut Pen<'_>) -> u64 {
        let mut player = Player {
            pen,
            heap: Heap::new(self.against),
            unit_bytes: self.unit_bytes,
        };
        let live = self.live_bytes / self.unit_bytes;
        let largest = self.largest_bytes / self.unit_bytes;
        match self.against {
            Against::FirstFit => first_fit::play(live, largest, &mut player),
            Against::BestFit => best_fit::play(live, largest, &mut player),
        }
        player.heap.high_water()
    }
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage::default()
    }

    fn check(&self) -> Result<(), String> {
        if self.unit_bytes == 0 {
            return Err("unit_bytes = 0: expected at least 1".into());
        }
        let largest = self.largest_bytes / self.unit_bytes;
        if !largest.is_power_of_two() || !self.largest_bytes.is_multiple_of(self.unit_bytes) {
            return Err("largest_bytes must be unit_bytes times a power of two".into());
        }
        if self.live_bytes < self.largest_bytes
            || !self.live_bytes.is_multiple_of(self.largest_bytes)
        {
            return Err("live_bytes must be a multiple of largest_bytes".into());
        }
        Ok(())
    }

    fn play(&self, _: u64, pen: &mut Pen<'_>) {
        self.run(pen);
    }
}

/// Writes the program and follows where the policy places it.
struct Player<'p, 's> {
    pen: &'p mut Pen<'s>,
    heap: Heap,
    unit_bytes: u64,
}

impl Player<'_, '_> {
    fn done(&self) -> bool {
        self.pen.done()
    }

    fn units(&self, held: &Held) -> u64 {
        held.bytes / self.unit_bytes
    }

    fn alloc(&mut self, units: u64) -> (u64, Held) {
        self.pen.wait_ns(1000);
        let at = self.heap.place(units);
        (at, self.pen.alloc(units * self.unit_bytes, 0, 0))
    }

    fn free(&mut self, at: u64, held: Held) {
        self.pen.wait_ns(1000);
        self.heap.release(at, self.units(&held));
        self.pen.free(held);
    }
}
