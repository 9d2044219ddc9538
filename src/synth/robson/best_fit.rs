//! The program against best fit: a pin of one unit for each hole that is nearly as large
//! as the largest request, as Robson (1977) shows best fit can be driven to.
//!
//! All holes so far are `period - 1` units long, each behind a pin of one unit. Fillers
//! of `period` to `largest` units fit none of them, so a row of fillers goes to fresh
//! memory. From the right end of that row to the left, the fillers are laid anew so that
//! they end where a pin shall be, with a rest before the pin on the right that is smaller
//! than any other hole: best fit takes the rest for the pin. A step of two, by way of a
//! block of two units that goes again, sets pins `period` apart. Fillers that must stay
//! on the left, where rows of `period` to `largest` cannot end everywhere, are the price
//! of a row; the next row begins behind its last pin.

use super::Player;
use crate::synth::pen::Held;

/// A step from pin to pin leaves a rest of at least one unit beside the block of two.
const LEAST_PERIOD: u64 = 4;
/// The block of two that keeps the rest before a pin small.
const STEP: u64 = 2;

/// How rows are laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// From pin to pin; a hole is one unit less.
    period: u64,
    largest: u64,
    /// From here on, fillers can end everywhere.
    first: u64,
}

impl Plan {
    fn new(period: u64, largest: u64) -> Self {
        // Rows of k fillers end from k * period to k * largest: the ranges of k and k + 1
        // touch once k * (largest - period) >= period - 1.
        let fillers = (period - 1).div_ceil(largest - period);
        Plan {
            period,
            largest,
            first: fillers * period,
        }
    }

    /// How many pins a row can have while `room` more units may be live.
    fn pins(&self, room: u64) -> u64 {
        // The row, its last pin's unit, and the filler that guards its right end.
        match room.checked_sub(self.largest + self.first + 1) {
            Some(left) => left / self.period + 1,
            None => 0,
        }
    }

    /// How far the heap reaches in the end.
    fn reach(&self, live: u64) -> u64 {
        let (mut room, mut reach) = (live, 0);
        loop {
            let pins = self.pins(room);
            if pins < 2 {
                return reach + room / self.largest * self.largest;
            }
            reach += self.first + (pins - 1) * self.period + 1;
            room -= pins + self.first;
        }
    }

    /// The sizes of fillers that end at `end`: long ones first, so that what stays the
    /// same from one end to the next is the most.
    fn row(&self, end: u64) -> Vec<u64> {
        let fillers = end.div_ceil(self.largest);
        let mut excess = fillers * self.largest - end;
        let mut sizes: Vec<u64> = (0..fillers)
            .map(|_| {
                let less = excess.min(self.largest - self.period);
                excess -= less;
                self.largest - less
            })
            .collect();
        assert_eq!(excess, 0, "fillers can end at {end}");
        sizes.reverse();
        sizes
    }
}

/// Plays the program with `live` units at most, in blocks of 1 to `largest` units.
pub fn play(live: u64, largest: u64, player: &mut Player<'_, '_>) {
    let plans = (LEAST_PERIOD..largest).map(|period| Plan::new(period, largest));
    let mut room = live;
    if let Some(plan) = plans.max_by_key(|plan| plan.reach(live)) {
        let mut base = 0;
        loop {
            let pins = plan.pins(room);
            if pins < 2 || player.done() {
                break;
            }
            Row::new(&plan, base, player).set(pins);
            room -= pins + plan.first;
            base += plan.first + (pins - 1) * plan.period + 1;
        }
    }
    while room >= largest && !player.done() {
        player.alloc(largest);
        room -= largest;
    }
}

/// A row of fillers from `base` on.
struct Row<'a, 'b, 'c> {
    plan: &'a Plan,
    base: u64,
    fillers: Vec<(u64, Held)>,
    player: &'a mut Player<'b, 'c>,
}

impl<'a, 'b, 'c> Row<'a, 'b, 'c> {
    fn new(plan: &'a Plan, base: u64, player: &'a mut Player<'b, 'c>) -> Self {
        Row {
            plan,
            base,
            fillers: Vec::new(),
            player,
        }
    }

    /// Sets pins from right to left; the fillers left of the first pin stay.
    fn set(mut self, pins: u64) {
        let last = self.plan.first + (pins - 1) * self.plan.period;
        self.fill(last + 1);
        let (guard_at, guard) = self.player.alloc(self.plan.largest);
        self.fill(last);
        self.place(1, last);
        self.player.free(guard_at, guard);
        let mut pin = last;
        while pin > self.plan.first && !self.player.done() {
            self.fill(pin - STEP);
            let step = self.place(STEP, pin - STEP);
            pin -= self.plan.period;
            self.fill(pin);
            self.place(1, pin);
            self.player
                .free(self.base + pin + self.plan.period - STEP, step);
        }
    }

    /// Lays the fillers so that they end at `end`.
    fn fill(&mut self, end: u64) {
        let sizes = self.plan.row(end);
        let same = self
            .fillers
            .iter()
            .zip(&sizes)
            .take_while(|((_, held), size)| self.player.units(held) == **size)
            .count();
        while self.fillers.len() > same {
            let (at, held) = self.fillers.pop().expect("more than stay");
            self.player.free(at, held);
        }
        let mut at: u64 = sizes[..same].iter().sum();
        for size in &sizes[same..] {
            let held = self.place(*size, at);
            self.fillers.push((self.base + at, held));
            at += size;
        }
    }

    /// A block that best fit must place at `at` of the row.
    fn place(&mut self, units: u64, at: u64) -> Held {
        let (placed, held) = self.player.alloc(units);
        assert_eq!(
            placed,
            self.base + at,
            "best fit places {units} units there"
        );
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_everywhere_behind_the_first_pin() {
        for (period, largest, first) in [(8, 16, 8), (9, 16, 18), (15, 16, 210), (4, 5, 12)] {
            let plan = Plan::new(period, largest);
            assert_eq!(plan.first, first);
            for end in first..first + 100 {
                let sizes = plan.row(end);
                assert_eq!(sizes.iter().sum::<u64>(), end);
                assert!(sizes.iter().all(|size| (period..=largest).contains(size)));
            }
        }
    }
}
