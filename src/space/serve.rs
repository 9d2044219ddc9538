//! The common paths in one go: cutting a block out of a hole and handing it out, taking a
//! block back and joining it with its neighbours.
//!
//! They do what [`split`](Space::split), [`place`](Space::place), [`release`](Space::release)
//! and [`merge`](Space::merge) do one after another, with one look at each block and one
//! change of each sum. Where something is out of the ordinary (a broken rule, several
//! segments or streams, an alignment, aliases, tracked sizes, steps to record) those steps are
//! taken instead.

use super::{Block, BlockId, NONE, Request, Space, State};
use crate::trace::StreamId;

/// A hole: its block, its first address and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The block.
    pub block: BlockId,
    /// First address.
    pub base: u64,
    /// Length, in bytes.
    pub bytes: u64,
}

/// What a released block was joined with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// The hole that it is now, or is part of.
    pub whole: Hole,
    /// The hole below, as it was: the whole has its handle and its address.
    pub below: Option<Hole>,
    /// The hole above, as it was; its handle is gone.
    pub above: Option<Hole>,
}

impl Space {
    /// Finds out anew whether nothing needs more than the tiling and its sums.
    pub(super) fn judge_plain(&mut self) {
        let orders = self.orders.as_ref();
        self.is_plain = !self.record_steps
            && self.largest.is_none()
            && self.origins.is_empty()
            && !self.has_aliases()
            && orders.is_none_or(super::streams::Orders::alone);
    }

    /// Hands the low `bytes` of a Free block out to `request`: what the hole was, and the
    /// handle of the hole that is left above, if any.
    ///
    /// # Panics
    /// As [`split`](Self::split) and [`place`](Self::place).
    #[inline(always)]
    pub fn place_low(
        &mut self,
        block: BlockId,
        bytes: u64,
        request: &Request,
    ) -> (Hole, Option<BlockId>) {
        let old = self.blocks[block.0 as usize];
        let base = old.base();
        let hole = Hole {
            block,
            base,
            bytes: self.end_of(block, &old).wrapping_sub(base),
        };
        let above = if self.is_common(&old, hole.bytes, bytes, request) {
            self.cut_low(hole, old.next, bytes)
        } else {
            self.place_low_in_steps(hole, bytes, *request)
        };
        (hole, above)
    }

    /// Whether a request for the low `bytes` of a block needs nothing but the tiling.
    #[inline(always)]
    fn is_common(&self, old: &Block, hole_bytes: u64, bytes: u64, request: &Request) -> bool {
        self.is_plain
            && old.is(State::Free)
            && request.bytes <= bytes
            && bytes <= hole_bytes
            && (request.align, request.stream) == (1, 0)
    }

    /// Hands the low `bytes` of a hole out, with the block above it.
    #[inline(always)]
    fn cut_low(&mut self, hole: Hole, next: u32, bytes: u64) -> Option<BlockId> {
        let mut above = None;
        if bytes < hole.bytes {
            let word = Block::word(hole.base + bytes, State::Free);
            let high = self.plain_block(word, (hole.block.0, next));
            if let Some(upper) = self.blocks.get_mut(next as usize) {
                upper.prev = high;
            }
            self.blocks[hole.block.0 as usize].next = high;
            above = Some(BlockId(high));
        }
        self.blocks[hole.block.0 as usize].word = Block::word(hole.base, State::Used);
        self.placed = (hole.block, bytes);
        let counters = &mut self.counters;
        counters.free_bytes -= bytes;
        counters.free_blocks -= u64::from(above.is_none());
        counters.used_bytes += bytes;
        if counters.used_bytes > counters.peak_used_bytes {
            counters.peak_used_bytes = counters.used_bytes;
        }
        counters.used_blocks += 1;
        let end = hole.base + bytes;
        if end > self.plain_end {
            self.raise_high(0, end);
            self.plain_end = end;
        }
        above
    }

    #[inline(never)]
    fn place_low_in_steps(&mut self, hole: Hole, bytes: u64, request: Request) -> Option<BlockId> {
        let above = (hole.bytes > bytes).then(|| self.split(hole.block, bytes));
        self.place(hole.block, &request);
        above
    }

    /// The block with its place, as holes are told.
    #[inline]
    #[must_use]
    pub fn hole(&self, block: BlockId) -> Hole {
        let at = self.blocks[block.0 as usize];
        Hole {
            block,
            base: at.base(),
            bytes: self.end_of(block, &at).wrapping_sub(at.base()),
        }
    }

    /// Takes a block in use back on `stream` and joins it with the Free blocks beside it.
    ///
    /// # Panics
    /// As [`release`](Self::release) and [`merge`](Self::merge).
    #[inline(always)]
    pub fn release_joined(&mut self, block: BlockId, stream: StreamId) -> Joined {
        if !(self.is_plain && self.blocks[block.0 as usize].is(State::Used)) {
            return self.release_joined_in_steps(block, stream);
        }
        let (joined, bytes) = self.leave_joined(block, State::Free);
        let counters = &mut self.counters;
        counters.free_bytes += bytes;
        let gone = u64::from(joined.below.is_some()) + u64::from(joined.above.is_some());
        counters.free_blocks = counters.free_blocks + 1 - gone;
        joined
    }

    /// Takes a block in use back, but not for reuse, and joins it with the Retired blocks
    /// beside it.
    ///
    /// # Panics
    /// As [`retire`](Self::retire) and [`merge`](Self::merge).
    #[inline(always)]
    pub fn retire_joined(&mut self, block: BlockId) {
        if self.is_plain && self.blocks[block.0 as usize].is(State::Used) {
            let (_, bytes) = self.leave_joined(block, State::Retired);
            self.counters.retired_bytes += bytes;
            return;
        }
        self.retire(block);
        self.join_retired(block);
    }

    /// Joins a Retired block with the Retired blocks beside it.
    pub fn join_retired(&mut self, block: BlockId) {
        let is_retired = |space: &Self, block: &BlockId| space.state(*block) == State::Retired;
        if let Some(above) = self.next(block).filter(|above| is_retired(self, above)) {
            self.merge(block, above);
        }
        if let Some(below) = self.prev(block).filter(|below| is_retired(self, below)) {
            self.merge(below, block);
        }
    }

    /// A Used block goes over to a state, with the blocks beside it that are in it already;
    /// and the bytes it had. The sums of the state are the caller's.
    #[inline(always)]
    fn leave_joined(&mut self, block: BlockId, to: State) -> (Joined, u64) {
        let old = self.blocks[block.0 as usize];
        let base = old.base();
        let (mut end, mut next, mut above) = (self.end_of(block, &old), old.next, None);
        let bytes = end - base;
        if let Some(upper) = self.blocks.get(next as usize).copied()
            && upper.is(to)
        {
            let id = BlockId(next);
            end = self.end_of(id, &upper);
            above = Some(Hole {
                block: id,
                base: upper.base(),
                bytes: end - upper.base(),
            });
            self.drop_block(id);
            next = upper.next;
        }
        let (mut whole, mut first, mut below) = (block, base, None);
        if let Some(lower) = self.blocks.get(old.prev as usize).copied()
            && lower.is(to)
        {
            (whole, first) = (BlockId(old.prev), lower.base());
            below = Some(Hole {
                block: whole,
                base: first,
                bytes: base - first,
            });
            self.drop_block(block);
        }
        let joined = &mut self.blocks[whole.0 as usize];
        joined.set_state(to);
        joined.next = next;
        if let Some(upper) = self.blocks.get_mut(next as usize) {
            upper.prev = whole.0;
        }
        self.counters.used_bytes -= bytes;
        self.counters.used_blocks -= 1;
        self.placed.0 = BlockId(NONE);
        let whole = Hole {
            block: whole,
            base: first,
            bytes: end - first,
        };
        let joined = Joined {
            whole,
            below,
            above,
        };
        (joined, bytes)
    }

    #[inline(never)]
    fn release_joined_in_steps(&mut self, block: BlockId, stream: StreamId) -> Joined {
        self.release(block, stream);
        let mut whole = block;
        let above = self.free_next(block).map(|above| self.hole(above));
        if let Some(above) = above {
            self.merge(block, above.block);
        }
        let below = self.free_prev(block).map(|below| self.hole(below));
        if let Some(below) = below {
            self.merge(below.block, block);
            whole = below.block;
        }
        Joined {
            whole: self.hole(whole),
            below,
            above,
        }
    }
}
