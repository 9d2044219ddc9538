//! What each slot of the trace holds: 8 bytes a slot.
//!
//! Bytes asked for are kept as what the block has beyond them, which is little where
//! policies round; what does not fit, and what is adopted with more bytes asked for than
//! its block has, lies in a table aside.

use std::collections::HashMap;

use crate::space::BlockId;
use crate::trace::Slot;

/// The slot holds nothing: never allocated, or freed.
const EMPTY: u32 = u32::MAX;
/// The request was not served, or had no bytes: its free names nothing.
const REFUSED: u32 = u32::MAX - 1;
/// Marks a slot whose block was freed by its address.
const FREED_BY_ADDRESS: u32 = u32::MAX - 2;
/// The bytes asked for lie in the table aside.
const ASIDE: u32 = u32::MAX;

/// A handle, or why there is none; then what the block has beyond the request, or for a
/// slot that waits for the end of a deferred free its block.
#[derive(Debug, Clone, Copy)]
struct Held {
    block: u32,
    rest: u32,
}

const _: () = assert!(size_of::<Held>() == 8);

const NOTHING: Held = Held {
    block: EMPTY,
    rest: ASIDE,
};

/// What was taken out of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// A live block, of which so many bytes are beyond the request; `None` where the
    /// bytes asked for lie aside.
    Live(BlockId, Option<u32>),
    /// Its block was freed by its address before.
    FreedByAddress,
    /// Nothing that could be freed.
    Nothing,
}

/// The table of slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    held: Vec<Held>,
    /// Bytes asked for, where they are not told by the block. Looked up by key only.
    aside: HashMap<Slot, u64>,
    /// The slot whose free each Pending block waits for, by block handle.
    deferred_for: Vec<Slot>,
}

impl Slots {
    #[inline]
    fn reach(&mut self, slot: Slot) -> &mut Held {
        let at = slot as usize;
        if at >= self.held.len() {
            self.grow(at);
        }
        &mut self.held[at]
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.held.resize(at + 1, NOTHING);
    }

    /// Whether a live block serves the slot.
    #[inline]
    pub(super) fn is_taken(&self, slot: Slot) -> bool {
        let held = self.held.get(slot as usize);
        held.is_some_and(|held| held.block < FREED_BY_ADDRESS)
    }

    /// The slot's request of `requested_bytes` was served by a block of `bytes`.
    #[inline]
    pub(super) fn hold(&mut self, slot: Slot, block: BlockId, bytes: u64, requested_bytes: u64) {
        let rest = bytes.wrapping_sub(requested_bytes);
        let rest = if rest < u64::from(ASIDE) {
            rest as u32
        } else {
            self.aside.insert(slot, requested_bytes);
            ASIDE
        };
        *self.reach(slot) = Held {
            block: block.0,
            rest,
        };
    }

    /// The slot's request was not served.
    pub(super) fn refuse(&mut self, slot: Slot) {
        *self.reach(slot) = Held {
            block: REFUSED,
            ..NOTHING
        };
    }

    /// Empties a slot.
    #[inline]
    pub(super) fn take(&mut self, slot: Slot) -> Taken {
        let Some(held) = self.held.get_mut(slot as usize) else {
            return Taken::Nothing;
        };
        let Held { block, rest } = std::mem::replace(held, NOTHING);
        match block {
            FREED_BY_ADDRESS => Taken::FreedByAddress,
            EMPTY | REFUSED => Taken::Nothing,
            _ => Taken::Live(BlockId(block), (rest != ASIDE).then_some(rest)),
        }
    }

    /// The bytes asked for of a slot that lie aside.
    #[cold]
    pub(super) fn take_aside(&mut self, slot: Slot) -> u64 {
        let requested_bytes = self.aside.remove(&slot);
        requested_bytes.expect("bytes that the block does not tell lie aside")
    }

    /// The block of a slot was freed by its address.
    pub(super) fn mark_freed_by_address(&mut self, slot: Slot) {
        self.held[slot as usize].block = FREED_BY_ADDRESS;
    }

    /// The block that serves a slot now.
    pub(super) fn block_of(&self, slot: Slot) -> Option<BlockId> {
        let held = self.held.get(slot as usize)?;
        (held.block < FREED_BY_ADDRESS).then_some(BlockId(held.block))
    }

    /// The slot that a block serves.
    pub(super) fn slot_of(&self, block: BlockId) -> Option<Slot> {
        let at = self.held.iter().position(|held| held.block == block.0)?;
        Some(at as Slot)
    }

    /// The block of a slot is Pending: the slot's `Complete` ends that.
    pub(super) fn await_end(&mut self, slot: Slot, block: BlockId) {
        let at = block.0 as usize;
        if at >= self.deferred_for.len() {
            self.deferred_for.resize(at + 1, EMPTY);
        }
        self.deferred_for[at] = slot;
        *self.reach(slot) = Held {
            block: EMPTY,
            rest: block.0,
        };
    }

    /// The block whose end a slot waits for, where it still does.
    pub(super) fn awaited(&self, slot: Slot) -> Option<BlockId> {
        let held = self.held.get(slot as usize)?;
        let waits = held.block == EMPTY && self.deferred_for.get(held.rest as usize) == Some(&slot);
        waits.then_some(BlockId(held.rest))
    }

    /// The wait for a block's end is over.
    pub(super) fn end_wait(&mut self, block: BlockId) {
        self.deferred_for[block.0 as usize] = EMPTY;
    }
}
