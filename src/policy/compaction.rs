//! Compaction: moves the blocks of another policy together, so that what is free is in
//! one piece.
//!
//! Source: sliding as in Jones and Lins, Garbage Collection (1996), chapter 5, with
//! pinned blocks left where they are; the triggers (a shortage; fragmentation above
//! 30 %, at most every 5 minutes) are those that operators of GPU clusters describe.
//!
//! When: on a shortage, where the free bytes together would do; at an event that leaves
//! external fragmentation above `threshold`, but not within `interval` of trace time
//! after the last compaction of any kind; and whenever the trace asks. A passing of the
//! threshold that meets the interval is counted once as held back, and the compaction
//! runs at the first event after the interval if it is still due. `threshold = 1` never
//! passes, and `on_failure = false` leaves shortages alone.
//!
//! How: where the policy lets blocks slide, used blocks go down in address order, each
//! to the lowest multiple of its alignment behind the one before; padding stays a hole.
//! Pinned blocks and those with a free outstanding stay, and later blocks slide behind
//! them. Where blocks have fixed sizes the policy exchanges them ([`Policy::gather`]).
//! A policy that orders streams waits for the device first. Every segment is compacted
//! by itself.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Deserializer};

use super::{Compacted, Motion, Policy, PolicyError, Tallies};
use crate::space::{BlockId, Cause, OutOfMemory, Request, SegmentId, Space, State};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::{round_up, serde_nanos};

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
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            over: "best-fit".into(),
            threshold_ppm: 300_000,
            interval_ns: 300_000_000_000,
            on_failure: true,
        }
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
}

impl Compaction {
    /// Compaction over `inner`.
    ///
    /// # Errors
    /// A policy whose blocks must stay where they are.
    pub fn new(spec: Spec, inner: Box<dyn Policy>) -> Result<Self, PolicyError> {
        if inner.motion() == Motion::Fixed {
            let what = format!(
                "over = '{}': the blocks of this policy must stay where they are; \
                 name one such as best-fit or buddy",
                spec.over
            );
            return Err(PolicyError::new("compaction", what));
        }
        Ok(Compaction {
            inner,
            spec,
            tallies: Tallies::default(),
            last_ns: None,
            holding: false,
        })
    }

    fn run(&mut self, space: &mut Space) -> Compacted {
        if space.ordered() {
            space.synchronise();
            self.inner.ordered(space);
        }
        self.tallies.compactions += 1;
        self.last_ns = Some(space.now_ns());
        self.holding = false;
        if self.inner.motion() == Motion::Exchange {
            return self.inner.gather(space);
        }
        let segments: Vec<SegmentId> = space.segments().collect();
        let mut done = Compacted::default();
        for segment in segments {
            slide_down(&mut *self.inner, segment, space, &mut done);
        }
        done
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
            self.run(space);
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
        let free_bytes = counters.free_bytes + counters.retired_bytes;
        let hopeless = shortage.cause == Cause::Overflow || free_bytes < shortage.wanted_bytes;
        if !self.spec.on_failure || hopeless {
            return Err(shortage);
        }
        self.run(space);
        self.inner.alloc(request, space).map_err(|shortage| {
            let slides = self.inner.motion() == Motion::Slide;
            let pins = space.walk().any(|block| space.pinned(block));
            if pins && (!slides || room_without_pins(space) >= shortage.wanted_bytes) {
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

/// Slides the used blocks of a segment down over its holes.
fn slide_down(
    policy: &mut dyn Policy,
    segment: SegmentId,
    space: &mut Space,
    done: &mut Compacted,
) {
    let mut hole: Option<BlockId> = None;
    let mut at = Some(space.first(segment));
    while let Some(block) = at {
        match space.state(block) {
            State::Free | State::Retired => {
                if space.state(block) == State::Free {
                    policy.forget(block, space);
                } else {
                    space.reclaim(block);
                }
                match hole {
                    Some(below) => space.merge(below, block),
                    None => hole = Some(block),
                }
                at = space.next(hole.unwrap_or(block));
                continue;
            }
            State::Used if !space.pinned(block) => {
                hole = hole.and_then(|hole| slide_over(policy, hole, block, space, done));
                if let Some(hole) = hole {
                    at = space.next(hole);
                    continue;
                }
            }
            _ => {
                if let Some(hole) = hole.take() {
                    policy.learn(hole, space);
                }
            }
        }
        at = space.next(block);
    }
    if let Some(hole) = hole {
        policy.learn(hole, space);
    }
}

/// Slides one block over the hole below it; the hole above it afterwards, or `None`
/// where its alignment keeps the block in place.
fn slide_over(
    policy: &mut dyn Policy,
    hole: BlockId,
    block: BlockId,
    space: &mut Space,
    done: &mut Compacted,
) -> Option<BlockId> {
    let padding_bytes = space.base(hole).next_multiple_of(space.align(block)) - space.base(hole);
    if padding_bytes >= space.bytes(hole) {
        policy.learn(hole, space);
        return None;
    }
    let mut over = hole;
    if padding_bytes > 0 {
        over = space.split(hole, padding_bytes);
        policy.learn(hole, space);
    }
    space.slide(over, block);
    done.moves += 1;
    done.moved_bytes += space.bytes(block);
    Some(over)
}

/// The largest hole that sliding would have left, had no block been pinned, in bytes.
fn room_without_pins(space: &Space) -> u64 {
    let mut largest_bytes = 0;
    for segment in space.segments() {
        let mut cursor = space.segment_base(segment);
        for block in space.blocks(segment) {
            match space.state(block) {
                State::Free | State::Retired => {}
                State::Used => {
                    let start = round_up(cursor, space.align(block)).unwrap_or(u64::MAX);
                    cursor = start.min(space.base(block)) + space.bytes(block);
                }
                State::Pending | State::Unmapped | State::Lent => {
                    largest_bytes = largest_bytes.max(space.base(block) - cursor);
                    cursor = space.end(block);
                }
            }
        }
        let end = space.segment_base(segment) + space.segment_bytes(segment);
        largest_bytes = largest_bytes.max(end - cursor);
    }
    largest_bytes
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
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.inner.pool(step, pool, stream, space);
    }

    fn ordered(&mut self, space: &mut Space) {
        self.inner.ordered(space);
    }

    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        Some(self.run(space))
    }

    fn tallies(&self) -> Tallies {
        self.tallies
    }
}
