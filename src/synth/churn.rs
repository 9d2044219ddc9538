//! Random churn, the classic of the field: Knuth's simulation (The Art of Computer
//! Programming, 1, 2.5) with sizes and lifetimes of one's choice.
//!
//! The number of live allocations stays near `live`: where fewer are live, one is asked
//! for; else a random one goes first.

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::pen::{Held, Pen, Stage};
use crate::units::serde_bytes;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// How many allocations are live once the start is over.
    pub live: u64,
    /// The smallest size.
    #[serde(with = "serde_bytes")]
    pub smallest_bytes: u64,
    /// The largest size.
    #[serde(with = "serde_bytes")]
    pub largest_bytes: u64,
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage::default()
    }

    fn check(&self) -> Result<(), String> {
        if self.live == 0 {
            return Err("live = 0: at least one allocation must be live".into());
        }
        if self.smallest_bytes == 0 || self.smallest_bytes > self.largest_bytes {
            return Err("smallest_bytes must be above 0 and at most largest_bytes".into());
        }
        Ok(())
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut sizes = Dice::new("churn sizes", seed);
        let mut victims = Dice::new("churn victims", seed);
        let mut live: Vec<Held> = Vec::new();
        while !pen.done() {
            if live.len() as u64 == self.live {
                let chosen = victims.below(self.live) as usize;
                pen.free(live.swap_remove(chosen));
            }
            let bytes = sizes.log_uniform(self.smallest_bytes, self.largest_bytes);
            live.push(pen.alloc(bytes, 0, 0));
            pen.wait_ns(1000);
        }
    }
}
