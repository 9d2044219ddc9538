//! Requests served at a fixed capacity: the workload `serving` over a policy that may
//! refuse.
//!
//! A trace asks for what it asks for, whatever the policy answers. A service does not: a
//! request for which there is no memory waits. So here the service and the policy run
//! together, over keys and values alone, and what is counted is what Kwon et al.,
//! PagedAttention, SOSP 2023, count in their figures 2 and 13: which share of the reserved
//! memory held tokens, and how many requests were served.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Serialize;

use super::{RecordError, caught};
use crate::policy::{Chosen, Registry};
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::{AddressOrder, Device, OutOfMemory, SpaceConfig};
use crate::synth::serving::{Iteration, Spec};
use crate::synth::{Answer, Family, Pen, SynthError};

/// A service: a workload of the family `serving`, and for how long.
#[derive(Debug, Clone)]
pub struct Service {
    /// The workload; its budget is the capacity.
    pub spec: Spec,
    /// The seed of its requests.
    pub seed: u64,
    /// What begins before this is not counted, in ns of the workload's clock.
    pub warm_up_ns: u64,
    /// How much is counted then, in ns.
    pub span_ns: u64,
    /// The card below the policy.
    pub device: Arc<Device>,
}

/// What a service did. Shares are of the reserved bytes, over the time of all iterations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Served {
    /// How keys and values lie in memory.
    pub layout: String,
    /// The policy, as given.
    pub policy: String,
    /// What keys and values may take.
    pub capacity_bytes: u64,
    /// For how long requests were served, ns.
    pub span_ns: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests put back to wait, as growth found no room.
    pub preempted: u64,
    /// Requests given up, as they found no room although they were alone.
    pub lost: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Prompt tokens computed, those of requests put back included.
    pub computed_tokens: u64,
    /// Prompt tokens that were there already.
    pub shared_tokens: u64,
    /// Requests running at once, in the mean, in millionths.
    pub mean_running_ppm: u64,
    /// The share of the time in which a request waited.
    pub waiting_ppm: u64,
    /// Bytes of tokens.
    pub token_ppm: u64,
    /// Bytes of blocks that are kept for prompts that begin alike.
    pub kept_ppm: u64,
    /// Bytes that tokens of the same request will fill.
    pub later_ppm: u64,
    /// Bytes asked for that no token will fill.
    pub inside_ppm: u64,
    /// Bytes reserved that nobody asked for: rounding, holes, and free blocks.
    pub outside_ppm: u64,
    /// Tokens and kept blocks, of the bytes asked for instead of those reserved.
    pub asked_token_ppm: u64,
}

/// Sums over time, in bytes x ns, or requests x ns.
#[derive(Default)]
struct Sums {
    lasts_ns: u128,
    waiting_ns: u128,
    running: u128,
    held: u128,
    kept: u128,
    later: u128,
    asked: u128,
    reserved: u128,
}

impl Sums {
    fn add(&mut self, seen: &Iteration, reserved_bytes: u64) {
        let lasts_ns = u128::from(seen.lasts_ns);
        self.lasts_ns += lasts_ns;
        self.waiting_ns += if seen.waiting { lasts_ns } else { 0 };
        self.running += u128::from(seen.running) * lasts_ns;
        self.held += u128::from(seen.held_bytes) * lasts_ns;
        self.kept += u128::from(seen.kept_bytes) * lasts_ns;
        self.later += u128::from(seen.later_bytes) * lasts_ns;
        self.asked += u128::from(seen.asked_bytes) * lasts_ns;
        self.reserved += u128::from(reserved_bytes) * lasts_ns;
    }

    fn tell(&self, served: &mut Served) {
        let inside = self.asked - self.held - self.kept - self.later;
        served.mean_running_ppm = share(self.running, self.lasts_ns);
        served.waiting_ppm = share(self.waiting_ns, self.lasts_ns);
        served.token_ppm = share(self.held, self.reserved);
        served.kept_ppm = share(self.kept, self.reserved);
        served.later_ppm = share(self.later, self.reserved);
        served.inside_ppm = share(inside, self.reserved);
        served.outside_ppm = share(self.reserved - self.asked, self.reserved);
        served.asked_token_ppm = share(self.held + self.kept, self.asked);
    }
}

/// In ppm, rounded down; 0 of nothing.
fn share(part: u128, whole: u128) -> u64 {
    (part * 1_000_000).checked_div(whole).unwrap_or(0) as u64
}

impl Service {
    /// A service whose keys and values may take `capacity_bytes`.
    ///
    /// # Errors
    /// A capacity that does not hold the longest request.
    pub fn within(mut self, capacity_bytes: u64) -> Result<Self, SynthError> {
        self.spec.budget_bytes = capacity_bytes;
        let checked = self.spec.check();
        checked.map(|()| self).map_err(|what| SynthError {
            workload: "serving".into(),
            what,
        })
    }

    /// Serves under a policy.
    ///
    /// # Errors
    /// [`RecordError`]: the policy cannot be built, cannot start, or breaks a rule.
    pub fn run(&self, registry: &Registry, chosen: &Chosen) -> Result<Served, RecordError> {
        let policy = registry.build(chosen)?;
        let config = SpaceConfig {
            device: Arc::clone(&self.device),
            capacity_bytes: self.spec.budget_bytes,
            blind: true,
            streams: 1,
            addresses: AddressOrder::TopDown,
            record_steps: false,
        };
        let name = || chosen.label.clone();
        match caught(|| Replay::new(policy, config).map(|replay| self.play(replay))) {
            Ok(Ok(mut served)) => {
                served.policy = name();
                Ok(served)
            }
            Ok(Err(OutOfMemory { wanted_bytes, .. })) => Err(RecordError::NotStarted {
                policy: name(),
                wanted_bytes,
            }),
            Err(what) => Err(RecordError::Broke {
                policy: name(),
                what,
            }),
        }
    }

    fn play(&self, replay: Replay) -> Served {
        let mut served = Served {
            layout: self.spec.layout.to_string(),
            capacity_bytes: self.spec.budget_bytes,
            span_ns: self.span_ns,
            ..Served::default()
        };
        let mut sums = Sums::default();
        let replay = RefCell::new(replay);
        let mut write = |event, time_ns| {
            let mut last = Last::default();
            replay.borrow_mut().feed(&[event], &[time_ns], &mut last);
            if last.refused {
                Answer::Refused
            } else {
                Answer::Taken
            }
        };
        let mut pen = Pen::new(&mut write, u64::MAX);
        self.spec.play_cache(self.seed, &mut pen, &mut |seen| {
            if seen.begins_ns < self.warm_up_ns {
                return ControlFlow::Continue(());
            }
            if seen.begins_ns + seen.lasts_ns - self.warm_up_ns > self.span_ns {
                return ControlFlow::Break(());
            }
            sums.add(seen, replay.borrow().space().counters().reserved_bytes);
            served.answered += seen.answered;
            served.preempted += seen.preempted;
            served.lost += seen.lost;
            served.generated_tokens += seen.running;
            served.computed_tokens += seen.computed_tokens;
            served.shared_tokens += seen.shared_tokens;
            ControlFlow::Continue(())
        });
        sums.tell(&mut served);
        served
    }
}

/// Whether the last request was refused.
#[derive(Default)]
struct Last {
    refused: bool,
}

impl Observer for Last {
    fn see(&mut self, moment: &Moment<'_>) {
        self.refused = matches!(moment.outcome, Outcome::Failed(_));
    }
}
