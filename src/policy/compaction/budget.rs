//! What one step may move: blocks, bytes, and the time of the card's copies.
//!
//! Source: `MaxAllocationsPerPass` and `MaxBytesPerPass` of AMD GPUOpen, D3D12 Memory
//! Allocator, "Defragmentation" (its documentation); the limit on time is ours.

use crate::policy::Compacted;
use crate::space::Space;

/// So much of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    /// Blocks.
    pub moves: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Simulated time of their copies, ns.
    pub time_ns: u64,
}

impl Amount {
    /// Without limit.
    pub const ALL: Amount = Amount {
        moves: u64::MAX,
        bytes: u64::MAX,
        time_ns: u64::MAX,
    };

    fn holds(self, need: Amount) -> bool {
        need.moves <= self.moves && need.bytes <= self.bytes && need.time_ns <= self.time_ns
    }
}

/// Whether a block may move in this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// It may, and what it takes is spent.
    Taken,
    /// In a later step: this one ends.
    Later,
    /// In none: it is more than a whole step.
    Never,
}

/// What is left of a step.
#[derive(Debug)]
pub(super) struct Budget {
    whole: Amount,
    left: Amount,
    ended: bool,
    /// What was moved.
    pub done: Compacted,
}

impl Budget {
    /// A step that may move `whole`.
    pub fn new(whole: Amount) -> Self {
        Budget {
            whole,
            left: whole,
            ended: false,
            done: Compacted::default(),
        }
    }

    /// Spends what a move of `bytes` by `distance` takes, where it is left.
    pub fn take(&mut self, bytes: u64, distance: u64, space: &Space) -> Room {
        let need = need(bytes, distance, space);
        if !self.whole.holds(need) {
            return Room::Never;
        }
        if self.ended || !self.left.holds(need) {
            self.ended = true;
            return Room::Later;
        }
        self.left.moves -= need.moves;
        self.left.bytes -= need.bytes;
        self.left.time_ns -= need.time_ns;
        self.done.moves += 1;
        self.done.moved_bytes += bytes;
        Room::Taken
    }

    /// Whether a whole step holds such a move.
    pub fn ever(&self, bytes: u64, distance: u64, space: &Space) -> bool {
        self.whole.holds(need(bytes, distance, space))
    }

    /// Whether a move was put off to a later step.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

/// What a move takes.
fn need(bytes: u64, distance: u64, space: &Space) -> Amount {
    Amount {
        moves: 1,
        bytes,
        time_ns: space.device().move_ns(bytes, distance),
    }
}
