//! Compaction: moves the blocks of another policy together, so that what is free is in
//! one piece, all at once or step by step.
//!
//! Source: Jones, Hosking and Moss, "The Garbage Collection Handbook" (2012), chapter 3,
//! with pinned blocks left where they are; each mover names its own in its file. Steps
//! with limits on blocks and bytes are what the defragmentation of D3D12MA and VMA has.
//! The triggers by a shortage and by fragmentation above 30 %, at most every 5 minutes,
//! are those that operators of GPU clusters describe.
//!
//! How: by `mover`: `slide` closes holes from below, `two-finger` fills them from
//! above, `evacuate` empties segments, which go back to the driver. Where blocks have
//! fixed sizes the policy exchanges them ([`Policy::gather`]), all at once.
//! A policy that orders streams waits for the device first.
//!
//! When everything is moved: on a shortage, where the free bytes together would do, unless
//! `on_failure = false`; and whenever the trace asks.
//!
//! When a step is made, which moves no more than `step_moves` blocks, `step_bytes` bytes
//! and `step_time` of simulated copies: after every `requests` requests, at every mark
//! of the trace where `marks`, and at an event that leaves external fragmentation above
//! `threshold`, but not within `interval` of trace time after the last step or compaction
//! of any kind. A passing of the threshold that meets the interval is counted once as held back,
//! and the step is made at the first event after the interval if it is still due.
//! `threshold = 1` never passes; `threshold = 0` with an interval is a budget by time.
//! Without limits a step moves everything.
//!
//! Tie-breaks: a block that is more than a whole step may move stays, as if it were
//! pinned. At the first that is more than what is left the step ends. Segments are taken
//! in the order of their handles; within one, the movers say which block is next.

mod budget;
mod evacuate;
mod relocate;
mod slide;
#[cfg(test)]
mod tests;
mod two_finger;

use serde::{Deserialize, Deserializer};

use super::{Compacted, Motion, Policy, PolicyError, Tallies};
use crate::space::{BlockId, Cause, OutOfMemory, Request, SegmentId, Space};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::{serde_bytes, serde_nanos};
use budget::{Amount, Budget};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The policy whose blocks are moved, as the registry finds it.
    pub over: String,
    /// External fragmentation above which a compaction is due; in TOML a ratio from 0
    /// to 1, here parts per million.
    #[serde(rename = "threshold", deserialize_with = "ratio")]
    pub threshold_ppm: u64,
    /// Trace time that must pass before a threshold compacts again, ns.
    #[serde(rename = "interval", with = "serde_nanos")]
    pub interval_ns: u64,
    /// Whether a shortage compacts.
    pub on_failure: bool,
    /// How blocks are moved.
    pub mover: Mover,
    /// A step after every so many requests; 0 is never.
    pub requests: u64,
    /// Whether every mark of the trace makes a step.
    pub marks: bool,
    /// Blocks that a step moves at most.
    pub step_moves: u64,
    /// Bytes that a step moves at most.
    #[serde(with = "serde_bytes")]
    pub step_bytes: u64,
    /// Simulated time that a step's moves take at most, ns.
    #[serde(rename = "step_time", with = "serde_nanos")]
    pub step_time_ns: u64,
}

/// How blocks are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mover {
    /// Each down over the hole below it.
    Slide,
    /// The highest into the lowest hole that holds it.
    TwoFinger,
    /// Those of the emptiest segment into holes of the others.
    Evacuate,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            over: "best-fit".into(),
            threshold_ppm: 300_000,
            interval_ns: 300_000_000_000,
            on_failure: true,
            mover: Mover::Slide,
            requests: 0,
            marks: false,
            step_moves: u64::MAX,
            step_bytes: u64::MAX,
            step_time_ns: u64::MAX,
        }
    }
}

impl Spec {
    /// The most that a step moves.
    fn step(&self) -> Amount {
        Amount {
            moves: self.step_moves,
            bytes: self.step_bytes,
            time_ns: self.step_time_ns,
        }
    }

    /// What `inner` does not let this compaction do, and the way out.
    fn refused_by(&self, inner: &dyn Policy) -> Option<String> {
        let over = &self.over;
        if inner.motion() == Motion::Fixed {
            return Some(format!(
                "over = '{over}': the blocks of this policy must stay where they are; \
                 name one such as best-fit or buddy"
            ));
        }
        let stepwise = self.mover != Mover::Slide || self.step() != Amount::ALL;
        if inner.motion() == Motion::Exchange && stepwise {
            return Some(format!(
                "over = '{over}': this policy exchanges blocks of one size, all at once; \
                 leave mover and the limits of a step out, or name one such as best-fit"
            ));
        }
        (self.mover == Mover::Evacuate && !inner.evacuates()).then(|| {
            format!(
                "over = '{over}': this policy gives no segment back; evacuation needs one \
                 that does, such as growing or vma"
            )
        })
    }
}

/// Reads a ratio as parts per million.
fn ratio<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let ratio = f64::deserialize(from)?;
    if !(0.0..=1.0).contains(&ratio) {
        let what = format!("threshold = {ratio}: expected a ratio from 0 to 1, such as 0.3");
        return Err(serde::de::Error::custom(what));
    }
    Ok((ratio * 1e6).round() as u64)
}

/// The wrapper.
pub struct Compaction {
    inner: Box<dyn Policy>,
    spec: Spec,
    tallies: Tallies,
    /// Trace time of the last compaction, ns.
    last_ns: Option<u64>,
    /// The interval holds a compaction back that is due.
    holding: bool,
    /// Requests since the last step by their number.
    requests: u64,
}

impl Compaction {
    /// Compaction over `inner`.
    ///
    /// # Errors
    /// A policy whose blocks must stay where they are, or cannot be moved in this way.
    pub fn new(spec: Spec, inner: Box<dyn Policy>) -> Result<Self, PolicyError> {
        if let Some(what) = spec.refused_by(&*inner) {
            return Err(PolicyError::new("compaction", what));
        }
        Ok(Compaction {
            inner,
            spec,
            tallies: Tallies::default(),
            last_ns: None,
            holding: false,
            requests: 0,
        })
    }

    /// Moves as much as `most`.
    fn run(&mut self, most: Amount, space: &mut Space) -> Compacted {
        if space.ordered() {
            space.synchronise();
            self.inner.ordered(space);
        }
        let before_ns = space.counters().pause_ns;
        self.tallies.compactions += 1;
        self.last_ns = Some(space.now_ns());
        self.holding = false;
        let done = self.move_blocks(most, space);
        let pause_ns = space.counters().pause_ns - before_ns;
        self.tallies.longest_pause_ns = self.tallies.longest_pause_ns.max(pause_ns);
        done
    }

    fn move_blocks(&mut self, most: Amount, space: &mut Space) -> Compacted {
        let inner = &mut *self.inner;
        if inner.motion() == Motion::Exchange {
            return inner.gather(space);
        }
        let mut budget = Budget::new(most);
        let segments: Vec<SegmentId> = space.segments().collect();
        match self.spec.mover {
            Mover::Evacuate => evacuate::evacuate(inner, space, &mut budget),
            Mover::Slide => {
                for segment in segments {
                    slide::slide_down(inner, segment, space, &mut budget);
                }
            }
            Mover::TwoFinger => {
                for segment in segments {
                    two_finger::fill_from_above(inner, segment, space, &mut budget);
                }
            }
        }
        budget.done
    }

    /// A request was answered: a step where their number says so.
    fn count(&mut self, space: &mut Space) {
        self.requests += 1;
        if self.requests == self.spec.requests {
            self.requests = 0;
            self.run(self.spec.step(), space);
        }
    }

    /// Compacts where the threshold is passed and the interval is over.
    fn watch(&mut self, space: &mut Space) {
        let free_bytes = space.counters().free_bytes;
        let largest_bytes = self
            .inner
            .largest_free(space)
            .unwrap_or_else(|| space.tracked_largest());
        let apart = u128::from(free_bytes - largest_bytes) * 1_000_000;
        if apart <= u128::from(free_bytes) * u128::from(self.spec.threshold_ppm) {
            self.holding = false;
            return;
        }
        let since = self
            .last_ns
            .map(|last_ns| space.now_ns().saturating_sub(last_ns));
        if since.is_none_or(|since| since >= self.spec.interval_ns) {
            self.run(self.spec.step(), space);
        } else if !self.holding {
            self.holding = true;
            self.tallies.held_back += 1;
        }
    }

    /// Compacts after a shortage where that may help, and asks again.
    fn retry(
        &mut self,
        request: &Request,
        shortage: OutOfMemory,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let counters = space.counters();
        let mut free_bytes = counters.free_bytes + counters.retired_bytes;
        if self.spec.mover == Mover::Evacuate {
            free_bytes += space.room_bytes();
        }
        let hopeless = shortage.cause == Cause::Overflow || free_bytes < shortage.wanted_bytes;
        if !self.spec.on_failure || hopeless {
            return Err(shortage);
        }
        self.run(Amount::ALL, space);
        let slides = self.inner.motion() == Motion::Slide && self.spec.mover == Mover::Slide;
        self.inner.alloc(request, space).map_err(|shortage| {
            let pins = space.walk().any(|block| space.pinned(block));
            if pins && (!slides || slide::room_without_pins(space) >= shortage.wanted_bytes) {
                OutOfMemory {
                    cause: Cause::Pinned,
                    ..shortage
                }
            } else {
                shortage
            }
        })
    }
}

impl Policy for Compaction {
    fn joins(&self) -> bool {
        self.inner.joins()
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.inner.start(space)?;
        if self.inner.largest_free(space).is_none() {
            space.track_largest();
        }
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let mut answer = self.inner.alloc(request, space);
        if let Err(shortage) = answer {
            answer = self.retry(request, shortage, space);
        }
        self.watch(space);
        self.count(space);
        answer
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        self.inner.free(block, stream, pending, space);
        self.watch(space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        self.inner.rounded_bytes(request)
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        self.inner.servable(space, stream)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        self.inner.largest_free(space)
    }

    fn blind(&self) -> bool {
        self.inner.blind()
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        self.inner.complete(block, space);
        self.watch(space);
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        self.inner.use_on(block, stream, space);
    }

    fn trim(&mut self, space: &mut Space) {
        self.inner.trim(space);
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.inner.mark(label, space);
        if self.spec.marks {
            self.run(self.spec.step(), space);
        }
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.inner.pool(step, pool, stream, space);
    }

    fn ordered(&mut self, space: &mut Space) {
        self.inner.ordered(space);
    }

    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        Some(self.run(Amount::ALL, space))
    }

    fn tallies(&self) -> Tallies {
        self.tallies
    }
}
