//! Taking blocks back: for reuse, after a stream, or not before a reset.

use super::tiling::View;
use super::{BlockId, NONE, Space, State, Step, StepKind};
use crate::trace::StreamId;

impl Space {
    #[inline]
    fn leave_use(&mut self, block: BlockId, to: State) -> View {
        let old = self.view(block);
        match old.state {
            State::Used => {
                self.counters.used_bytes -= old.bytes;
                self.counters.used_blocks -= 1;
            }
            State::Pending => self.counters.pending_bytes -= old.bytes,
            _ => self.broken(block.0, "release of a block that is not in use"),
        }
        self.blocks[block.0 as usize].set_state(to);
        self.placed.0 = BlockId(NONE);
        let mut origin = self.origin(block.0);
        origin.flags = 0;
        self.set_origin(block.0, origin);
        old
    }

    /// Takes a Used or Pending block back on `stream`: it is Free.
    ///
    /// # Panics
    /// If the block is not in use.
    #[inline]
    pub fn release(&mut self, block: BlockId, stream: StreamId) {
        let old = self.leave_use(block, State::Free);
        if let Some(orders) = &mut self.orders {
            orders.free(block.0, stream);
        }
        self.gain_free(old.bytes);
        self.emit(Step::new(StepKind::Release(block), old.base, old.bytes));
    }

    /// Takes a Used block back; a stream may still use it, so it is Pending.
    ///
    /// # Panics
    /// If the block is not Used.
    pub fn defer(&mut self, block: BlockId) {
        if self.state(block) != State::Used {
            self.broken(block.0, "deferred free of a block that is not used");
        }
        let old = self.leave_use(block, State::Pending);
        self.counters.pending_bytes += old.bytes;
        self.emit(Step::new(StepKind::Defer(block), old.base, old.bytes));
    }

    /// Takes a Used or Pending block back, but not for reuse: it is Retired.
    ///
    /// # Panics
    /// If the block is not in use.
    #[inline]
    pub fn retire(&mut self, block: BlockId) {
        let old = self.leave_use(block, State::Retired);
        self.counters.retired_bytes += old.bytes;
        self.emit(Step::new(StepKind::Release(block), old.base, old.bytes));
    }

    /// A Free block is set aside until a reset: it is Retired (padding of a bump pool).
    ///
    /// # Panics
    /// If the block is not Free.
    pub fn forgo(&mut self, block: BlockId) {
        let old = self.view(block);
        if old.state != State::Free {
            self.broken(block.0, "setting aside a block that is not free");
        }
        self.blocks[block.0 as usize].set_state(State::Retired);
        self.lose_free(old.bytes);
        self.counters.retired_bytes += old.bytes;
    }

    /// A Retired block becomes Free (the reset of a bump pool).
    ///
    /// # Panics
    /// If the block is not Retired.
    pub fn reclaim(&mut self, block: BlockId) {
        let old = self.view(block);
        if old.state != State::Retired {
            self.broken(block.0, "reclaim of a block that is not retired");
        }
        self.blocks[block.0 as usize].set_state(State::Free);
        self.counters.retired_bytes -= old.bytes;
        self.gain_free(old.bytes);
    }
}
