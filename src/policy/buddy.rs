//! Buddy: blocks of powers of two that are halved and joined with their other half.
//!
//! Source: Knowlton, "A fast storage allocator" (CACM 8, 1965); Knuth, The Art of
//! Computer Programming, volume 1, section 2.5, algorithms R and S.
//!
//! A capacity that is no power of two is cut into falling powers of two from its start;
//! what is left below the minimum is never handed out. A request takes the next power
//! of two of its bytes, of its alignment and of the minimum, whichever is largest.
//!
//! Tie-breaks: the smallest sufficient order, of that the lowest address; the low half
//! is kept at a split; halves are joined at once. An alignment that the segment itself
//! does not have cannot be promised and is refused.
//!
//! Moving: a block changes places with a free one of its order, small orders first, the
//! highest block into the lowest hole, so that the holes behind it join.

use serde::Deserialize;

use super::holes::{Holes, entry};
use super::index::BySize;
use super::{Compacted, Motion, Policy};
use crate::space::{BlockId, OutOfMemory, Request, SegmentId, Space, State};
use crate::trace::StreamId;
use crate::units::{round_up, serde_align};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The smallest block, a power of two, in bytes.
    #[serde(with = "serde_align")]
    pub minimum: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec { minimum: 256 }
    }
}

/// The policy.
pub struct Buddy {
    spec: Spec,
    /// All sizes are powers of two, so that the best fit is the smallest order.
    free: BySize,
    base: u64,
    /// The segment that it took at the start.
    own: Option<SegmentId>,
    /// Blocks that a compaction looks at; kept for its memory.
    used: Vec<BlockId>,
}

impl Buddy {
    /// A buddy system by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Buddy {
            spec,
            free: BySize::new(),
            base: 0,
            own: None,
            used: Vec::new(),
        }
    }

    /// Joins a free block with its other half as long as that is free, and indexes it.
    fn settle(&mut self, mut block: BlockId, space: &mut Space) {
        loop {
            let bytes = space.bytes(block);
            let is_low = (space.base(block) - self.base) & bytes == 0;
            let half = if is_low {
                space.free_next(block)
            } else {
                space.free_prev(block)
            };
            let Some(half) = half.filter(|half| space.bytes(*half) == bytes) else {
                break;
            };
            Holes::remove(&mut self.free, entry(half, space));
            let (low, high) = if is_low { (block, half) } else { (half, block) };
            space.merge(low, high);
            block = low;
        }
        self.free.add(entry(block, space));
    }
}

impl Policy for Buddy {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let mut rest = space.map(space.capacity_bytes())?;
        self.base = space.base(rest);
        self.own = Some(space.segment(rest));
        while space.bytes(rest) >= self.spec.minimum {
            let piece_bytes = 1 << space.bytes(rest).ilog2();
            let more = space.bytes(rest) > piece_bytes;
            let next = more.then(|| space.split(rest, piece_bytes));
            self.free.add(entry(rest, space));
            let Some(next) = next else {
                return Ok(());
            };
            rest = next;
        }
        space.forgo(rest);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let rounded = round_up(request.bytes, self.spec.minimum)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let no_fit = OutOfMemory::no_fit(rounded);
        let bytes = rounded
            .max(request.align)
            .checked_next_power_of_two()
            .ok_or(no_fit)?;
        if !self.base.is_multiple_of(request.align) {
            return Err(no_fit);
        }
        let hole = self.free.first_at_least(bytes).ok_or(no_fit)?;
        Holes::remove(&mut self.free, hole);
        let block = BlockId(hole.block);
        while space.bytes(block) > bytes {
            let high = space.split(block, space.bytes(block) / 2);
            self.free.add(entry(high, space));
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        self.settle(block, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        let bytes = request.bytes.checked_next_power_of_two()?;
        Some(bytes.max(self.spec.minimum).max(request.align))
    }

    fn servable(&self, _: &Space, _: StreamId) -> u64 {
        self.free.largest_bytes()
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        Some(self.free.largest_bytes())
    }

    fn motion(&self) -> Motion {
        Motion::Exchange
    }

    fn gather(&mut self, space: &mut Space) -> Compacted {
        let mut used = std::mem::take(&mut self.used);
        let movable = |block: &BlockId| space.state(*block) == State::Used && !space.pinned(*block);
        let own = self.own.into_iter().flat_map(|own| space.blocks(own));
        used.extend(own.filter(movable));
        used.sort_unstable_by_key(|block| {
            (space.bytes(*block), std::cmp::Reverse(space.base(*block)))
        });
        let mut done = Compacted::default();
        for block in used.drain(..) {
            let (bytes, address) = (space.bytes(block), space.base(block));
            let hole = self.free.first_at_least(bytes);
            let Some(hole) = hole.filter(|hole| hole.bytes == bytes && hole.address < address)
            else {
                continue;
            };
            Holes::remove(&mut self.free, hole);
            let hole = BlockId(hole.block);
            space.exchange(block, hole);
            self.settle(hole, space);
            done.moves += 1;
            done.moved_bytes += bytes;
        }
        self.used = used;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn orders_are_halved_low_and_joined_as_by_hand() {
        // 3584 = 2048 + 1024 + 512: the first two requests take the pieces of 1024 and
        // 512 whole; the third halves 2048 twice and keeps the low part.
        let hand = play(
            "buddy",
            3584,
            "A a 600 ; A b 400 ; A c 512 ; A d 1024 ; F c ; A e 2048 ; F d ; A e 2048",
        );
        assert_eq!(
            hand.told,
            ["2048", "3072", "0", "1024", "ok", "OOM", "ok", "0"]
        );
        assert_eq!(hand.replay.space().counters().used_bytes, 1024 + 512 + 2048);
    }

    #[test]
    fn an_alignment_takes_a_block_of_its_size() {
        let hand = play("buddy", 4096, "A a 100 ; A b 256 align=1024 ; A c 300");
        assert_eq!(hand.told, ["0", "1024", "512"]);
        assert_eq!(hand.replay.space().counters().used_bytes, 256 + 1024 + 512);
    }

    #[test]
    fn a_rest_below_the_minimum_is_never_free() {
        let hand = play("buddy", 1000, "A a 512 ; A b 256 ; A c 1");
        assert_eq!(hand.told, ["0", "512", "OOM"]);
        assert_eq!(hand.replay.space().counters().retired_bytes, 232);
    }
}
