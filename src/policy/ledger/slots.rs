//! What each slot of the trace holds: 8 bytes a slot.
//!
//! Bytes asked for that pass 32 bits lie in a table aside.

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

/// A handle, or why there is none; then the bytes asked for, or for a slot that waits for
/// the end of a deferred free its block.
#[derive(Debug, Clone, Copy)]
struct Held {
    block: u32,
    asked: u32,
}

const _: () = assert!(size_of::<Held>() == 8);

const NOTHING: Held = Held {
    block: EMPTY,
    asked: ASIDE,
};

/// What was taken out of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// A live block, and the bytes asked for.
    Live(BlockId, u64),
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
            return self.grow(at);
        }
        &mut self.held[at]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: usize) -> &mut Held {
        self.held.resize(at + 1, NOTHING);
        &mut self.held[at]
    }

    /// The slot's request was served by a block; false where a live one serves the slot.
    #[inline]
    pub(super) fn hold(&mut self, slot: Slot, block: BlockId, requested_bytes: u64) -> bool {
        let asked = if requested_bytes < u64::from(ASIDE) {
            requested_bytes as u32
        } else {
            self.put_aside(slot, requested_bytes)
        };
        let held = self.reach(slot);
        let was_empty = held.block >= FREED_BY_ADDRESS;
        held.block = block.0;
        held.asked = asked;
        was_empty
    }

    #[inline(never)]
    fn put_aside(&mut self, slot: Slot, requested_bytes: u64) -> u32 {
        self.aside.insert(slot, requested_bytes);
        ASIDE
    }

    /// The slot's request was not served; false where a live block serves the slot.
    pub(super) fn refuse(&mut self, slot: Slot) -> bool {
        let held = self.reach(slot);
        let was_empty = held.block >= FREED_BY_ADDRESS;
        *held = Held {
            block: REFUSED,
            ..NOTHING
        };
        was_empty
    }

    /// Empties a slot.
    #[inline]
    pub(super) fn take(&mut self, slot: Slot) -> Taken {
        let Some(held) = self.held.get_mut(slot as usize) else {
            return Taken::Nothing;
        };
        let Held { block, asked } = *held;
        held.block = EMPTY;
        held.asked = ASIDE;
        if block < FREED_BY_ADDRESS {
            let requested_bytes = if asked == ASIDE {
                self.take_aside(slot)
            } else {
                u64::from(asked)
            };
            return Taken::Live(BlockId(block), requested_bytes);
        }
        match block {
            FREED_BY_ADDRESS => Taken::FreedByAddress,
            _ => Taken::Nothing,
        }
    }

    #[inline(never)]
    fn take_aside(&mut self, slot: Slot) -> u64 {
        let requested_bytes = self.aside.remove(&slot);
        requested_bytes.expect("bytes that pass 32 bits lie aside")
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
            asked: block.0,
        };
    }

    /// The block whose end a slot waits for, where it still does.
    pub(super) fn awaited(&self, slot: Slot) -> Option<BlockId> {
        let held = self.held.get(slot as usize)?;
        let waits =
            held.block == EMPTY && self.deferred_for.get(held.asked as usize) == Some(&slot);
        waits.then_some(BlockId(held.asked))
    }

    /// The wait for a block's end is over.
    pub(super) fn end_wait(&mut self, block: BlockId) {
        self.deferred_for[block.0 as usize] = EMPTY;
    }
}
