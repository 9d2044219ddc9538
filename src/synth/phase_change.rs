//! A program in phases: the mix of sizes and the live set change from one to the next.
//!
//! Source: Wilson, Johnstone, Neely and Boles, "Dynamic Storage Allocation: A Survey and
//! Critical Review" (1995), section 2.3: programs build ramps, plateaus and peaks, and a
//! change of phase is where what was learnt of the last one stops being true.
//!
//! In each phase random victims make room under `live_bytes`. When the next one begins,
//! every allocation stays with a chance of `keep_ppm`; the survivors are what wedges the
//! holes. After the last phase the first begins again.

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::law::Sizes;
use super::pen::{Held, Pen, Stage};
use crate::units::{format_bytes_exact, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The phases in order.
    pub phases: Vec<Phase>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name: the label of the mark at its beginning.
    pub label: String,
    /// How many requests it makes.
    pub requests: u64,
    /// What it keeps live at most.
    #[serde(with = "serde_bytes")]
    pub live_bytes: u64,
    /// How large requests are.
    pub sizes: Sizes,
    /// In how many of a million cases an allocation outlives the phase.
    pub keep_ppm: u64,
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            labels: self
                .phases
                .iter()
                .map(|phase| phase.label.clone())
                .collect(),
            ..Stage::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.phases.is_empty() {
            return Err("phases: at least one is needed".into());
        }
        for phase in &self.phases {
            let fail = |what: String| Err(format!("phase '{}': {what}", phase.label));
            phase.sizes.check().or_else(fail)?;
            let largest_bytes = phase.sizes.largest_bytes();
            if largest_bytes > phase.live_bytes {
                return fail(format!(
                    "requests of up to {} do not fit live_bytes = {}",
                    format_bytes_exact(largest_bytes),
                    format_bytes_exact(phase.live_bytes)
                ));
            }
            if phase.requests == 0 {
                return fail("requests = 0: expected at least 1".into());
            }
            if phase.keep_ppm > 1_000_000 {
                let keep_ppm = phase.keep_ppm;
                return fail(format!("keep_ppm = {keep_ppm}: expected at most 1000000"));
            }
        }
        Ok(())
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut dice = Dice::new("phase-change", seed);
        let mut live = Live::default();
        loop {
            for (label, phase) in (0..).zip(&self.phases) {
                pen.mark(label);
                for _ in 0..phase.requests {
                    if pen.done() {
                        return;
                    }
                    let bytes = phase.sizes.draw(&mut dice);
                    live.make_room(phase.live_bytes - bytes, &mut dice, pen);
                    live.bytes += bytes;
                    live.held.push(pen.alloc(bytes, 0, 0));
                    pen.wait_ns(1000);
                }
                live.end_phase(phase.keep_ppm, &mut dice, pen);
            }
        }
    }
}

/// What is live.
#[derive(Debug, Default)]
struct Live {
    held: Vec<Held>,
    bytes: u64,
}

impl Live {
    /// Random victims go until at most `most_bytes` are live.
    fn make_room(&mut self, most_bytes: u64, dice: &mut Dice, pen: &mut Pen<'_>) {
        while self.bytes > most_bytes {
            let chosen = dice.below(self.held.len() as u64) as usize;
            let held = self.held.swap_remove(chosen);
            self.bytes -= held.bytes;
            pen.free(held);
        }
    }

    /// Each allocation stays with the given chance.
    fn end_phase(&mut self, keep_ppm: u64, dice: &mut Dice, pen: &mut Pen<'_>) {
        for held in std::mem::take(&mut self.held) {
            if dice.chance(keep_ppm) {
                self.held.push(held);
            } else {
                self.bytes -= held.bytes;
                pen.free(held);
            }
        }
    }
}
