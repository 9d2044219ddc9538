//! Hybrid: small requests to one policy, large ones to another, at a threshold.
//!
//! Source: the separate treatment of small and large blocks in Lea, "A memory allocator"
//! (1996) and Hanson, "C Interfaces and Implementations" (1997); on GPUs the practice of
//! a pool for what is small and frequent beside the driver for what is large.
//!
//! Parameters: `small` and `large`, the two policies; `threshold`, up to which a request
//! is small; `share`, the percentage of the capacity that is the small one's, rounded up
//! to 512 bytes; `spill`, whether a small request that its policy cannot serve is tried
//! with the large one.
//!
//! Each policy lives in segments of its own and sees its share as the whole capacity
//! ([`Space::within`]), so that any two policies of the crate go together, as long as
//! both order streams or neither does. A policy that tells its `servable` from the room
//! of the card, and not from what it has taken, tells too much here.
//!
//! Tie-breaks: those of the two policies.

use serde::Deserialize;

use super::{Compacted, Motion, Policy, PolicyError, Tallies};
use crate::space::{BlockId, OutOfMemory, Request, Share, Space};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::serde_bytes;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The policy of small requests, as the registry finds it.
    pub small: String,
    /// The policy of large requests, as the registry finds it.
    pub large: String,
    /// Requests up to this are small, in bytes.
    #[serde(with = "serde_bytes")]
    pub threshold: u64,
    /// What the small policy has of the capacity, in percent.
    pub share: u64,
    /// Whether small requests go to the large policy on a shortage.
    pub spill: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            small: "size-class".into(),
            large: "best-fit".into(),
            threshold: 1 << 20,
            share: 10,
            spill: true,
        }
    }
}

/// The small share is a multiple of this, so that the large one begins aligned, in bytes.
const SHARE_STEP_BYTES: u64 = 512;

/// One of the two policies, with its share of the capacity.
struct Side {
    policy: Box<dyn Policy>,
    share: Share,
}

impl Side {
    fn new(policy: Box<dyn Policy>) -> Self {
        let share = Share::new(0);
        Side { policy, share }
    }

    /// Calls the policy with the Space narrowed to its share.
    fn call<T>(
        &mut self,
        space: &mut Space,
        call: impl FnOnce(&mut dyn Policy, &mut Space) -> T,
    ) -> T {
        let policy = &mut *self.policy;
        space.within(&mut self.share, |space| call(policy, space))
    }
}

const SMALL: usize = 0;
const LARGE: usize = 1;

/// The wrapper.
pub struct Hybrid {
    spec: Spec,
    sides: [Side; 2],
    /// The side of each segment, by its handle.
    owners: Vec<u8>,
}

impl Hybrid {
    /// Two policies side by side.
    ///
    /// # Errors
    /// A share outside 1 to 99 percent, or policies of which only one orders streams.
    pub fn new(
        spec: Spec,
        small: Box<dyn Policy>,
        large: Box<dyn Policy>,
    ) -> Result<Self, PolicyError> {
        let fail = |what: String| Err(PolicyError::new("hybrid", what));
        if !(1..=99).contains(&spec.share) {
            return fail(format!(
                "share = {}: expected percent of the capacity from 1 to 99, such as 10",
                spec.share
            ));
        }
        if small.blind() != large.blind() {
            return fail(format!(
                "small = '{}', large = '{}': only one of them orders streams; name two that \
                 do, or two that do not",
                spec.small, spec.large
            ));
        }
        Ok(Hybrid {
            spec,
            sides: [Side::new(small), Side::new(large)],
            owners: Vec::new(),
        })
    }

    fn side_of(&mut self, block: BlockId, space: &Space) -> &mut Side {
        let owner = self.owners[space.segment(block).0 as usize];
        &mut self.sides[usize::from(owner)]
    }

    /// Notes that a segment is a side's.
    fn own(&mut self, segment: u32, side: usize) {
        let at = segment as usize;
        if at >= self.owners.len() {
            self.owners.resize(at + 1, 0);
        }
        self.owners[at] = side as u8;
    }

    fn ask(
        &mut self,
        side: usize,
        request: &Request,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let block = self.sides[side].call(space, |policy, space| policy.alloc(request, space))?;
        self.own(space.segment(block).0, side);
        Ok(block)
    }

    /// Calls both policies, the small one first.
    fn both<T>(
        &mut self,
        space: &mut Space,
        mut call: impl FnMut(&mut dyn Policy, &mut Space) -> T,
    ) -> [T; 2] {
        let [small, large] = &mut self.sides;
        [small.call(space, &mut call), large.call(space, &mut call)]
    }
}

/// The sum of two compactions.
fn sum([small, large]: [Compacted; 2]) -> Compacted {
    Compacted {
        moves: small.moves + large.moves,
        moved_bytes: small.moved_bytes + large.moved_bytes,
    }
}

impl Policy for Hybrid {
    fn joins(&self) -> bool {
        self.sides.iter().all(|side| side.policy.joins())
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let all_bytes = space.capacity_bytes();
        let part_bytes = u128::from(all_bytes) * u128::from(self.spec.share) / 100;
        // Whole pages for each, or the two together would take one more than there are.
        let step_bytes = SHARE_STEP_BYTES.max(space.device().page_bytes);
        let small_bytes = (part_bytes as u64)
            .next_multiple_of(step_bytes)
            .min(all_bytes);
        let shares = [small_bytes, all_bytes - small_bytes];
        for (side, share_bytes) in shares.into_iter().enumerate() {
            self.sides[side].share = Share::new(share_bytes);
            self.sides[side].call(space, |policy, space| policy.start(space))?;
            let known = self.owners.len();
            let segments: Vec<_> = space.segments().map(|segment| segment.0).collect();
            for segment in segments {
                if segment as usize >= known {
                    self.own(segment, side);
                }
            }
        }
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        if request.bytes > self.spec.threshold {
            return self.ask(LARGE, request, space);
        }
        let answer = self.ask(SMALL, request, space);
        if answer.is_err() && self.spec.spill {
            return self.ask(LARGE, request, space);
        }
        answer
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        self.side_of(block, space).call(space, |policy, space| {
            policy.free(block, stream, pending, space);
        });
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        let [small, large] = [SMALL, LARGE].map(|side| &self.sides[side].policy);
        let large_bytes = large.rounded_bytes(request);
        match request.bytes <= self.spec.threshold {
            true if self.spec.spill => small.rounded_bytes(request).min(large_bytes),
            true => small.rounded_bytes(request),
            false => large_bytes,
        }
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let [small, large] = &self.sides;
        let small_bytes = small.policy.servable(space, stream);
        let small_bytes = small_bytes.min(self.spec.threshold);
        let large_bytes = large.policy.servable(space, stream);
        if self.spec.spill || large_bytes > self.spec.threshold {
            small_bytes.max(large_bytes)
        } else {
            small_bytes
        }
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        let [small, large] = &self.sides;
        let small_bytes = small.policy.largest_free(space)?;
        Some(small_bytes.max(large.policy.largest_free(space)?))
    }

    fn blind(&self) -> bool {
        self.sides[LARGE].policy.blind()
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        self.side_of(block, space)
            .call(space, |policy, space| policy.complete(block, space));
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        self.side_of(block, space)
            .call(space, |policy, space| policy.use_on(block, stream, space));
    }

    fn trim(&mut self, space: &mut Space) {
        self.both(space, |policy, space| policy.trim(space));
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.both(space, |policy, space| policy.mark(label, space));
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.both(space, |policy, space| {
            policy.pool(step, pool, stream, space);
        });
    }

    fn ordered(&mut self, space: &mut Space) {
        self.both(space, |policy, space| policy.ordered(space));
    }

    fn motion(&self) -> Motion {
        let [small, large] = &self.sides;
        if small.policy.motion() == large.policy.motion() {
            large.policy.motion()
        } else {
            Motion::Fixed
        }
    }

    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        let done = self.both(space, |policy, space| policy.compact(space));
        if done == [None; 2] {
            return None;
        }
        Some(sum(done.map(Option::unwrap_or_default)))
    }

    fn gather(&mut self, space: &mut Space) -> Compacted {
        sum(self.both(space, |policy, space| policy.gather(space)))
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        self.side_of(free, space).policy.forget(free, space);
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.side_of(free, space).policy.learn(free, space);
    }

    fn tallies(&self) -> Tallies {
        let [small, large] = [SMALL, LARGE].map(|side| self.sides[side].policy.tallies());
        Tallies {
            compactions: small.compactions + large.compactions,
            held_back: small.held_back + large.held_back,
            longest_pause_ns: small.longest_pause_ns.max(large.longest_pause_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::super::hand::play;

    #[test]
    fn small_requests_have_a_share_of_their_own_and_spill_over() {
        // 10 % of 10240 is 1024: the third small request spills behind the large ones,
        // and the large one that asks for the share's worth does not get it.
        let hand = play(
            "hybrid:small=first-fit,large=best-fit,threshold=512",
            10_240,
            "A a 512 ; A b 1024 ; A c 300 ; A d 8448 ; A e 200 ; F e ; F a ; A f 1024 ; A g 200",
        );
        assert_eq!(
            hand.told,
            ["0", "1024", "512", "OOM", "2048", "ok", "ok", "2048", "0"]
        );
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        assert_eq!(policy.servable(space, 0), 7168);
        assert_eq!(space.counters().reserved_bytes, 10_240);
    }

    #[test]
    fn a_growing_side_stays_within_its_share() {
        let hand = play(
            "hybrid:small=\"growing:growth=exact,initial=0\",large=\"growing:growth=exact,initial=0\",\
             threshold=1024,share=50,spill=false",
            4096,
            "A a 1024 ; A b 2048 ; A c 1024 ; A d 256 ; A e 2048 ; F c ; A f 256",
        );
        assert_eq!(hand.told, ["0", "1024", "3072", "OOM", "OOM", "ok", "3072"]);
    }

    #[test]
    fn each_side_keeps_to_its_own_segment() {
        // Bump goes back to the start of its own segment, at 512, not to that of the other.
        let hand = play(
            "hybrid:small=size-class,large=bump,threshold=256,share=12",
            4096,
            "A a 256 ; A b 1024 ; A c 2048 ; F b ; F c ; A d 3072 ; A e 300",
        );
        assert_eq!(hand.told, ["0", "512", "1536", "ok", "ok", "512", "3584"]);
    }

    #[test]
    fn policies_that_differ_in_streams_do_not_go_together() {
        let error = Registry::default()
            .find("hybrid:small=stream-first-fit")
            .err()
            .expect("one is blind");
        assert!(error.to_string().contains("orders streams"), "{error}");
    }
}
