//! Superblocks: ranges that arenas pass on as a whole, each with its own free blocks.

use crate::policy::index::ByAddress;
use crate::space::{BlockId, Space};

/// A superblock and the free blocks inside it.
#[derive(Default)]
pub(super) struct Superblock {
    base: u64,
    bytes: u64,
    free: ByAddress,
}

impl Superblock {
    /// One free block and nothing else.
    pub(super) fn whole(block: BlockId, space: &Space) -> Self {
        let mut made = Superblock {
            base: space.base(block),
            bytes: space.bytes(block),
            free: ByAddress::new(),
        };
        made.free.insert(made.base, made.bytes, block.0);
        made
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// The free block that is all of it.
    pub(super) fn empty(&self) -> Option<BlockId> {
        let first = self.free.floor(self.base)?;
        (first.bytes == self.bytes).then_some(BlockId(first.block))
    }

    fn largest_bytes(&self) -> u64 {
        self.free.largest_bytes()
    }

    /// The lowest free block that holds `bytes`, cut to them.
    fn take(&mut self, bytes: u64, space: &mut Space) -> Option<BlockId> {
        let found = self.free.first_fit(bytes)?;
        self.free.remove(found.address);
        let block = BlockId(found.block);
        if found.bytes > bytes {
            let rest = space.split(block, bytes);
            self.free
                .insert(space.base(rest), space.bytes(rest), rest.0);
        }
        Some(block)
    }

    /// Takes a freed block back and joins it with its free neighbours inside.
    fn put(&mut self, mut block: BlockId, space: &mut Space) {
        if let Some(above) = space
            .free_next(block)
            .filter(|above| space.base(*above) < self.end())
        {
            self.free.remove(space.base(above));
            space.merge(block, above);
        }
        if let Some(below) = space
            .free_prev(block)
            .filter(|below| space.base(*below) >= self.base)
        {
            self.free.remove(space.base(below));
            space.merge(below, block);
            block = below;
        }
        self.free
            .insert(space.base(block), space.bytes(block), block.0);
    }
}

/// Superblocks by address, with the largest free block of each.
#[derive(Default)]
pub(super) struct Superblocks {
    index: ByAddress,
    slots: Vec<Superblock>,
    spare: Vec<u32>,
}

impl Superblocks {
    pub(super) fn insert(&mut self, superblock: Superblock) {
        let (base, largest_bytes) = (superblock.base, superblock.largest_bytes());
        let slot = self.spare.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(superblock);
        } else {
            self.slots[slot as usize] = superblock;
        }
        self.index.insert(base, largest_bytes, slot);
    }

    fn remove(&mut self, base: u64) -> Option<Superblock> {
        let entry = self.index.remove(base)?;
        self.spare.push(entry.block);
        Some(std::mem::take(&mut self.slots[entry.block as usize]))
    }

    /// The lowest superblock with a free block of `bytes`, taken out.
    pub(super) fn take_first_fit(&mut self, bytes: u64) -> Option<Superblock> {
        let found = self.index.first_fit(bytes)?;
        self.remove(found.address)
    }

    /// Serves `bytes` from the lowest superblock that has them.
    pub(super) fn take(&mut self, bytes: u64, space: &mut Space) -> Option<BlockId> {
        let found = self.index.first_fit(bytes)?;
        self.take_at(found.address, bytes, space)
    }

    /// Serves `bytes` from the superblock at `base`.
    pub(super) fn take_at(&mut self, base: u64, bytes: u64, space: &mut Space) -> Option<BlockId> {
        let mut superblock = self.remove(base)?;
        let block = superblock.take(bytes, space);
        self.insert(superblock);
        block
    }

    /// Takes a freed block back if it lies in one of these; then tells its base.
    pub(super) fn put(&mut self, block: BlockId, space: &mut Space) -> Option<u64> {
        let holds = self.index.floor(space.base(block))?;
        let superblock = &mut self.slots[holds.block as usize];
        if space.base(block) >= superblock.end() {
            return None;
        }
        superblock.put(block, space);
        self.index
            .set_bytes(holds.address, superblock.largest_bytes());
        Some(holds.address)
    }

    /// Whether the block lies in one of these.
    pub(super) fn hold(&self, block: BlockId, space: &Space) -> bool {
        let below = self.index.floor(space.base(block));
        below.is_some_and(|below| space.base(block) < self.slots[below.block as usize].end())
    }

    /// Joins the empty superblock at `base` with empty ones that touch it.
    pub(super) fn coalesce(&mut self, base: u64, space: &mut Space) {
        let at =
            |set: &Self, base: u64| set.index.floor(base).filter(|found| found.address == base);
        let empty = |set: &Self, slot: u32| set.slots[slot as usize].empty();
        let Some(mut block) = at(self, base).and_then(|found| empty(self, found.block)) else {
            return;
        };
        let end = space.end(block);
        if let Some(above) = at(self, end)
            && let Some(next) = empty(self, above.block)
        {
            self.remove(end);
            space.merge(block, next);
        }
        if base > 0
            && let Some(below) = self.index.floor(base - 1)
            && self.slots[below.block as usize].end() == base
            && let Some(prev) = empty(self, below.block)
        {
            self.remove(below.address);
            space.merge(prev, block);
            block = prev;
        }
        self.remove(base);
        self.insert(Superblock::whole(block, space));
    }

    /// Takes all empty superblocks out.
    pub(super) fn drain_empty(&mut self) -> Vec<Superblock> {
        let empty = |slot: u32| self.slots[slot as usize].empty().is_some();
        let entries = self.index.iter().filter(|entry| empty(entry.block));
        let bases: Vec<u64> = entries.map(|entry| entry.address).collect();
        bases
            .into_iter()
            .filter_map(|base| self.remove(base))
            .collect()
    }

    pub(super) fn largest_bytes(&self) -> u64 {
        self.index.largest_bytes()
    }
}
