//! Random churn, the classic of the field: Knuth's simulation (The Art of Computer
//! Programming, 1, 2.5) with sizes and lifetimes of one's choice.
//!
//! One request at a time: what has lived its time goes first, then the request is made.
//! Without lifetimes a random victim goes wherever `live` are live already.

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::dues::Dues;
use super::law::{Lives, Sizes};
use super::pen::{Held, Pen, Stage};
use crate::trace::StreamId;
use crate::units::serde_nanos;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// How large requests are.
    pub sizes: Sizes,
    /// How long they live.
    pub lives: Lives,
    /// How many streams ask, each as often as any other.
    #[serde(default = "one")]
    pub streams: u16,
    /// The time from one request to the next.
    #[serde(default = "microsecond", with = "serde_nanos")]
    pub pause: u64,
    /// Whether that is the mean of a Poisson process, and not the same each time.
    #[serde(default)]
    pub poisson: bool,
}

fn one() -> u16 {
    1
}

fn microsecond() -> u64 {
    1000
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            streams: self.streams,
            ..Stage::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=1024).contains(&self.streams) {
            let streams = self.streams;
            return Err(format!("streams = {streams}: expected 1 to 1024"));
        }
        if self.lives.is_timed() && self.pause == 0 {
            return Err("pause = \"0ns\": lifetimes are times, and no time would pass".into());
        }
        self.sizes.check()?;
        self.lives.check()
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut sizes = Dice::new("churn sizes", seed);
        let mut lives = Dice::new("churn lifetimes", seed);
        let mut arrivals = Dice::new("churn arrivals", seed);
        let mut streams = Dice::new("churn streams", seed);
        let (mut mortal, mut victims): (Dues<Held>, Vec<Held>) = Default::default();
        let most = match self.lives {
            Lives::RandomVictim { live } => live,
            _ => u64::MAX,
        };
        let mut requests = 0;
        while !pen.done() {
            let now = if self.lives.is_timed() {
                pen.now_ns()
            } else {
                requests
            };
            while let Some(held) = mortal.due(now) {
                pen.free(held);
            }
            if victims.len() as u64 == most {
                let chosen = lives.below(most) as usize;
                pen.free(victims.swap_remove(chosen));
            }
            let bytes = self.sizes.draw(&mut sizes);
            let stream = streams.below(u64::from(self.streams)) as StreamId;
            let held = pen.alloc(bytes, stream, 0);
            match self.lives.draw(bytes, &mut lives) {
                Some(life) => mortal.add(now.saturating_add(life.max(1)), held),
                None => victims.push(held),
            }
            requests += 1;
            pen.wait_ns(if self.poisson {
                arrivals.exponential(self.pause)
            } else {
                self.pause
            });
        }
    }
}
