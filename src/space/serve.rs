//! The two common paths in one go: cutting a block out of a hole and handing it out, taking
//! a block back and joining it with its neighbours.
//!
//! Both do what [`split`](Space::split), [`place`](Space::place), [`release`](Space::release)
//! and [`merge`](Space::merge) do one after another, with one look at each block and one
//! change of each sum. Where something is out of the ordinary (a broken rule, several
//! streams in order, aliases, tracked sizes) those steps are taken instead.

use super::{Block, BlockId, NONE, Request, Space, State, Step, StepKind};
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
    /// Whether nothing needs more than the tiling and its sums.
    #[inline]
    fn is_plain(&self) -> bool {
        self.largest.is_none()
            && !self.has_aliases()
            && self
                .orders
                .as_ref()
                .is_none_or(super::streams::Orders::alone)
    }

    /// Hands the low `bytes` of a Free block out to `request`; the handle of the hole that
    /// is left above, if any.
    ///
    /// # Panics
    /// As [`split`](Self::split) and [`place`](Self::place).
    #[inline]
    pub fn place_low(&mut self, block: BlockId, bytes: u64, request: &Request) -> Option<BlockId> {
        let old = self.view(block);
        let is_common = old.state == State::Free
            && (request.bytes..=old.bytes).contains(&bytes)
            && old.base & (request.align - 1) == 0
            && self.is_plain();
        if !is_common {
            return self.place_low_in_steps(block, bytes, request);
        }
        let mut next = old.next;
        let above = (bytes < old.bytes).then(|| {
            let Block { stream, flags, .. } = self.blocks[block.0 as usize];
            let high = self.new_block(Block {
                base: old.base + bytes,
                prev: block.0,
                next,
                segment: old.segment,
                stream,
                state: State::Free,
                flags,
            });
            if next != NONE {
                self.blocks[next as usize].prev = high.0;
            }
            next = high.0;
            high
        });
        let placed = &mut self.blocks[block.0 as usize];
        placed.next = next;
        placed.state = State::Used;
        placed.stream = request.stream;
        placed.flags = request.align.trailing_zeros() as u8;
        let counters = &mut self.counters;
        counters.free_bytes -= bytes;
        counters.free_blocks -= u64::from(above.is_none());
        counters.used_bytes += bytes;
        counters.peak_used_bytes = counters.peak_used_bytes.max(counters.used_bytes);
        counters.used_blocks += 1;
        self.raise_high(old.segment, old.base + bytes);
        self.emit(Step::new(StepKind::Place(block), old.base, bytes));
        above
    }

    #[cold]
    #[inline(never)]
    fn place_low_in_steps(
        &mut self,
        block: BlockId,
        bytes: u64,
        request: &Request,
    ) -> Option<BlockId> {
        let above = (self.bytes(block) > bytes).then(|| self.split(block, bytes));
        self.place(block, request);
        above
    }

    #[inline]
    fn hole(&self, block: BlockId) -> Hole {
        let view = self.view(block);
        Hole {
            block,
            base: view.base,
            bytes: view.bytes,
        }
    }

    /// Takes a block in use back on `stream` and joins it with the Free blocks beside it.
    ///
    /// # Panics
    /// As [`release`](Self::release) and [`merge`](Self::merge).
    #[inline]
    pub fn release_joined(&mut self, block: BlockId, stream: StreamId) -> Joined {
        let old = self.view(block);
        if old.state != State::Used || !self.is_plain() {
            return self.release_joined_in_steps(block, stream);
        }
        let below = self.free_prev(block).map(|below| self.hole(below));
        let above = self.free_next(block).map(|above| self.hole(above));
        let freed = &mut self.blocks[block.0 as usize];
        freed.state = State::Free;
        freed.flags = 0;
        let mut whole = Hole {
            block,
            base: old.base,
            bytes: old.bytes,
        };
        let mut next = old.next;
        if let Some(above) = above {
            whole.bytes += above.bytes;
            next = self.blocks[above.block.0 as usize].next;
            self.drop_block(above.block);
        }
        if let Some(below) = below {
            whole = Hole {
                bytes: below.bytes + whole.bytes,
                ..below
            };
            self.drop_block(block);
        }
        if above.is_some() || below.is_some() {
            self.blocks[whole.block.0 as usize].next = next;
            if next != NONE {
                self.blocks[next as usize].prev = whole.block.0;
            }
        }
        let counters = &mut self.counters;
        counters.used_bytes -= old.bytes;
        counters.used_blocks -= 1;
        counters.free_bytes += old.bytes;
        let gone = u64::from(below.is_some()) + u64::from(above.is_some());
        counters.free_blocks = counters.free_blocks + 1 - gone;
        self.emit(Step::new(StepKind::Release(block), old.base, old.bytes));
        Joined {
            whole,
            below,
            above,
        }
    }

    #[cold]
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
