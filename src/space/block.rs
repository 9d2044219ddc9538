//! A block as the Space keeps it: its state, 16 bytes of place, and what is kept aside.

use crate::trace::StreamId;
use crate::units::ADDRESS_LIMIT;

/// What a block is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Part of a reservation without pages behind it.
    Unmapped,
    /// Mapped, and nobody uses it.
    Free,
    /// Handed out.
    Used,
    /// Freed, but a stream may still use it.
    Pending,
    /// Freed, but not reusable before a reset (a bump pool): waste, not free.
    Retired,
    /// Mapped, but its pages are counted and used at another address at the moment: a
    /// part of an alias that is in use, or an alias that is not.
    Lent,
    /// No block any more: it was joined with a neighbour, or its segment is gone.
    Gone,
}

/// 16 bytes a block. It ends where the next one of its segment begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// First address, above the bits of the state.
    pub(super) word: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
}

const _: () = assert!(size_of::<Block>() == 16);

/// Bits of a block's word that hold its state.
const STATE_BITS: u32 = 3;
const _: () = assert!(ADDRESS_LIMIT <= 1 << (u64::BITS - STATE_BITS));
const STATE: u64 = (1 << STATE_BITS) - 1;
const STATES: [State; 8] = [
    State::Unmapped,
    State::Free,
    State::Used,
    State::Pending,
    State::Retired,
    State::Lent,
    State::Gone,
    State::Gone,
];

impl Block {
    #[inline]
    pub(super) fn word(base: u64, state: State) -> u64 {
        base << STATE_BITS | state as u64
    }

    #[inline]
    pub(super) fn base(&self) -> u64 {
        self.word >> STATE_BITS
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        STATES[(self.word & STATE) as usize]
    }

    #[inline]
    pub(super) fn is(&self, state: State) -> bool {
        self.word & STATE == state as u64
    }

    #[inline]
    pub(super) fn set_base(&mut self, base: u64) {
        self.word = base << STATE_BITS | self.word & STATE;
    }

    #[inline]
    pub(super) fn set_state(&mut self, state: State) {
        self.word = self.word & !STATE | state as u64;
    }
}

/// What else is known of a block: kept from the moment on at which the first block differs
/// from what all blocks are at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Origin {
    pub(super) segment: u32,
    pub(super) stream: StreamId,
    /// Bit 7: pinned. Bits 0 to 5: log2 of the alignment asked for.
    pub(super) flags: u8,
}

pub(super) const PINNED: u8 = 0x80;
pub(super) const ALIGN: u8 = 0x3f;
const _: () = assert!(size_of::<Origin>() == 8);
