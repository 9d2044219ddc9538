//! Fresh addresses for every request: the plainest use of virtual memory against holes.
//!
//! Source: the virtual memory calls of CUDA, as the row `vm-stitch` of the hand-sized
//! scenarios describes them: pages of 2 MiB, a fresh range of addresses for every block,
//! never one twice.
//!
//! All that is free is one block behind the last address handed out. A request takes its
//! low end. What is freed has its pages unmapped and mapped again behind that block, so
//! that scattered pages serve any request that is no larger than all of them. The price:
//! a wait for the device, an unmapping and a mapping at every free, and whole pages.
//!
//! Parameters: `alignment`, of which sizes are multiples; at least the device's page.
//!
//! Tie-breaks: none, there is one free block. A range of addresses is sixteen times the
//! capacity; when it is used up the free block moves to a new one, and the old one goes
//! back once all of it is unmapped. Addresses that an alignment skips are not used.

use serde::Deserialize;

use super::Policy;
use crate::space::{BlockId, OutOfMemory, Request, SegmentId, Space, State};
use crate::trace::StreamId;
use crate::units::{round_up, serde_align};

/// Capacities that a range of addresses has room for.
const RANGE_CAPACITIES: u64 = 16;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec { alignment: 256 }
    }
}

/// The policy.
pub struct StitchingPages {
    spec: Spec,
    page_bytes: u64,
    range_bytes: u64,
    range: Option<SegmentId>,
    /// All that is free.
    spare: Option<BlockId>,
    /// The addresses behind it that were never used.
    rest: Option<BlockId>,
}

impl StitchingPages {
    /// The policy by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        StitchingPages {
            page_bytes: spec.alignment,
            spec,
            range_bytes: 0,
            range: None,
            spare: None,
            rest: None,
        }
    }

    fn spare_bytes(&self, space: &Space) -> u64 {
        self.spare.map_or(0, |spare| space.bytes(spare))
    }

    fn room_bytes(&self, space: &Space) -> u64 {
        let room_bytes = space.room_bytes();
        room_bytes - room_bytes % self.page_bytes
    }

    /// Lets the free block have `more_bytes` more and begin at a multiple of `align`.
    fn extend(
        &mut self,
        more_bytes: u64,
        align: u64,
        space: &mut Space,
    ) -> Result<(), OutOfMemory> {
        let start = self
            .spare
            .or(self.rest)
            .map_or(0, |first| space.base(first));
        let behind_bytes = self.rest.map_or(0, |rest| space.bytes(rest));
        if !start.is_multiple_of(align) || behind_bytes < more_bytes {
            return self.move_on(more_bytes, align, space);
        }
        let Some(rest) = self.rest.filter(|_| more_bytes > 0) else {
            return Ok(());
        };
        space.back(rest, more_bytes)?;
        self.rest = space.next(rest);
        match self.spare {
            Some(spare) => space.merge(spare, rest),
            None => self.spare = Some(rest),
        }
        Ok(())
    }

    /// Moves the free block to the next address that is a multiple of `align`, in a new
    /// range where this one has no room left, with `more_bytes` more.
    fn move_on(
        &mut self,
        more_bytes: u64,
        align: u64,
        space: &mut Space,
    ) -> Result<(), OutOfMemory> {
        let bytes = self.spare_bytes(space) + more_bytes;
        self.give_spare_back(space);
        let skip = |from: BlockId, space: &Space| {
            let base = space.base(from);
            round_up(base, align).map_or(u64::MAX, |start| start - base)
        };
        let here = self.rest.take();
        let fits = |rest: &BlockId| {
            let left_bytes = space.bytes(*rest);
            left_bytes > skip(*rest, space) && left_bytes - skip(*rest, space) >= bytes
        };
        let mut region = match here.filter(fits) {
            Some(region) => region,
            None => {
                let past = self.range.take();
                if let (Some(here), Some(_)) = (here, past) {
                    self.leave_hole(here, space);
                }
                let all_bytes = bytes.max(self.range_bytes).saturating_add(align);
                let new =
                    space.reserve(all_bytes.next_multiple_of(self.page_bytes), self.page_bytes);
                self.range = Some(space.segment(new));
                new
            }
        };
        let skipped_bytes = skip(region, space);
        if skipped_bytes > 0 {
            region = space.split(region, skipped_bytes);
        }
        self.rest = Some(region);
        self.extend(bytes, 1, space)
    }

    /// Unmaps the free block: its addresses are the first of the rest.
    fn give_spare_back(&mut self, space: &mut Space) {
        let Some(spare) = self.spare.take() else {
            return;
        };
        space.unback(spare);
        if let Some(rest) = self.rest {
            space.merge(spare, rest);
        }
        self.rest = Some(spare);
    }

    /// Unmapped addresses that were used: joined, and given back with a past range.
    fn leave_hole(&mut self, hole: BlockId, space: &mut Space) {
        let rest = self.rest;
        let past = |block: &BlockId| space.state(*block) == State::Unmapped && rest != Some(*block);
        let (below, above) = (space.prev(hole).filter(past), space.next(hole).filter(past));
        if let Some(above) = above {
            space.merge(hole, above);
        }
        let mut whole = hole;
        if let Some(below) = below {
            space.merge(below, hole);
            whole = below;
        }
        let alone = space.prev(whole).is_none() && space.next(whole).is_none();
        if alone && self.range != Some(space.segment(whole)) {
            space.unreserve(whole);
        }
    }
}

impl Policy for StitchingPages {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.page_bytes = self.spec.alignment.max(space.device().page_bytes);
        self.range_bytes = space.capacity_bytes().saturating_mul(RANGE_CAPACITIES);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes =
            round_up(request.bytes, self.page_bytes).ok_or(OutOfMemory::overflow(request.bytes))?;
        let more_bytes = bytes.saturating_sub(self.spare_bytes(space));
        if more_bytes > self.room_bytes(space) {
            return Err(OutOfMemory::no_fit(bytes));
        }
        self.extend(more_bytes, request.align, space)?;
        let block = self.spare.expect("it was extended to what is asked");
        let split = space.bytes(block) > bytes;
        self.spare = split.then(|| space.split(block, bytes));
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        let bytes = space.bytes(block);
        space.release(block, stream);
        // No page can be unmapped that the device may still use.
        space.charge(space.device().sync_ns);
        space.unback(block);
        self.leave_hole(block, space);
        let again = self.extend(bytes, 1, space);
        again.expect("the pages were ours before");
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        self.spare_bytes(space) + self.room_bytes(space)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        Some(self.spare_bytes(space))
    }

    fn trim(&mut self, space: &mut Space) {
        self.give_spare_back(space);
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn every_request_has_fresh_addresses_over_any_pages() {
        // b and d leave 1024 in two places: one range from 2048 on serves e. f skips to
        // 4096, with the pages of the last hole.
        let hand = play(
            "stitching-pages",
            2048,
            "A a 512 ; A b 512 ; A c 512 ; A d 512 ; F b ; F d ; A e 1000 ; F a ; \
             A f 256 align=4096 ; A g 256 ; A h 1",
        );
        assert_eq!(
            hand.told,
            [
                "0", "512", "1024", "1536", "ok", "ok", "2048", "ok", "4096", "4352", "OOM"
            ]
        );
        let counters = hand.replay.space().counters();
        assert_eq!((counters.reserved_bytes, counters.free_bytes), (2048, 0));
    }

    #[test]
    fn a_used_up_range_goes_back_when_its_blocks_are_freed() {
        // Ranges have 16 * 1024 bytes and one for alignment: the 17th turn is in the second.
        let turns = "A a 1024 ; F a ; ".replace('a', "x");
        let program: String = (0..40)
            .map(|turn| turns.replace('x', &format!("x{turn}")))
            .collect();
        let hand = play("stitching-pages", 1024, program.trim_end_matches("; "));
        assert!(!hand.told.contains(&"OOM".to_owned()));
        let space = hand.replay.space();
        assert_eq!(space.segments().count(), 1);
        assert!(space.counters().segments_made > 1);
        assert_eq!(space.counters().free_bytes, 1024);
    }
}
