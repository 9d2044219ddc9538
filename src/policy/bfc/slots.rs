//! Slots of chunk objects: they are used again, last in first out, and keep what their
//! last owner had asked for. Only a memory map shows it.

use crate::space::BlockId;

/// The slot of every chunk, and what each slot remembers.
#[derive(Default)]
pub(super) struct Slots {
    /// By the handle of the block.
    of: Vec<u32>,
    spare: Vec<u32>,
    requested_bytes: Vec<u64>,
}

impl Slots {
    /// A new chunk takes a slot.
    pub(super) fn take(&mut self, block: BlockId) {
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.requested_bytes.push(0);
            (self.requested_bytes.len() - 1) as u32
        });
        let at = block.0 as usize;
        if at >= self.of.len() {
            self.of.resize(at + 1, 0);
        }
        self.of[at] = slot;
    }

    /// A chunk is no more.
    pub(super) fn drop(&mut self, block: BlockId) {
        self.spare.push(self.of[block.0 as usize]);
    }

    pub(super) fn set_requested(&mut self, block: BlockId, bytes: u64) {
        let slot = self.of[block.0 as usize];
        self.requested_bytes[slot as usize] = bytes;
    }

    pub(super) fn requested_bytes(&self, block: BlockId) -> u64 {
        self.requested_bytes[self.of[block.0 as usize] as usize]
    }
}
