//! The Vulkan Memory Allocator: blocks of device memory that begin small, TLSF inside.
//!
//! Source: AMD GPUOpen, Vulkan Memory Allocator 3.3 (its documentation and the behaviour
//! of its default pool for memory that the host cannot see, default strategy).
//!
//! Device memory comes in blocks of `block` bytes (an eighth of the heap where the heap
//! is at most 1 GiB). The first blocks are an eighth, a quarter and a half of that, as
//! long as they are larger than every block there is and hold the request twice. Where
//! the driver refuses a block, halves are tried. Requests over half a block get memory of
//! their own first; the others do when no block serves them. No new block is begun once
//! the heap's budget, 80 % of it, would not hold it. An empty block is kept, a second one
//! goes back.
//!
//! Tie-breaks: blocks are tried in the order of their list, which is kept nearly sorted by
//! free bytes: after each request and each free the first pair out of order swaps.
//! Inside a block see `vma/lists.rs`. A block that compaction emptied goes back like any other:
//! one is kept.

mod lists;

use serde::Deserialize;

use super::{Motion, Policy};
use crate::space::{BlockId, OutOfMemory, Request, SegmentId, Space, State};
use crate::trace::StreamId;
use crate::units::{GIB, MIB, round_up, serde_align, serde_bytes};
use lists::{Links, MemoryBlock};

/// How often a block may be halved from the preferred size.
const HALVINGS: u32 = 3;
/// Heaps up to here have blocks of an eighth.
const SMALL_HEAP_BYTES: u64 = GIB;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The preferred size of a block on a heap of more than 1 GiB, in bytes.
    #[serde(with = "serde_bytes")]
    pub block: u64,
    /// What the driver asks of every buffer: sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            block: 256 * MIB,
            alignment: 256,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct Vma {
    spec: Spec,
    /// The preferred size of a block on this heap.
    preferred_bytes: u64,
    /// 80 % of the heap.
    budget_bytes: u64,
    reserved_bytes: u64,
    /// In the order in which they are tried.
    blocks: Vec<MemoryBlock>,
    /// The neighbours of each hole in its list, by handle.
    links: Links,
}

impl Vma {
    /// A Vulkan memory allocator by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Vma {
            preferred_bytes: spec.block,
            budget_bytes: 0,
            reserved_bytes: 0,
            blocks: Vec::new(),
            links: Links::default(),
            spec,
        }
    }

    /// Device memory of its own for one request. In Vulkan its start has every alignment;
    /// where the address here has not, padding in front is waste.
    fn dedicated(&mut self, bytes: u64, align: u64, space: &mut Space) -> Option<BlockId> {
        let mut block = space.map(bytes).ok()?;
        if !space.base(block).is_multiple_of(align) {
            space.unmap(block);
            block = map_aligned(bytes.checked_add(align)?, align, space)?;
        }
        self.reserved_bytes += space.segment_bytes(space.segment(block));
        Some(block)
    }

    /// A place in a block that there is, or in a new one.
    fn pooled(&mut self, bytes: u64, align: u64, space: &mut Space) -> Option<BlockId> {
        if bytes > self.preferred_bytes {
            return None;
        }
        let links = &mut self.links;
        let mut found = self
            .blocks
            .iter_mut()
            .find_map(|block| block.alloc(bytes, align, links, space));
        if found.is_none() {
            let mut block = self.new_block(bytes, space)?;
            found = block.alloc(bytes, align, &mut self.links, space);
            self.blocks.push(block);
        }
        self.sort_a_little();
        found
    }

    /// A new block for a request of `bytes`, as far as the budget and the driver let it.
    fn new_block(&mut self, bytes: u64, space: &mut Space) -> Option<MemoryBlock> {
        let left_bytes = self.budget_bytes.saturating_sub(self.reserved_bytes);
        if left_bytes < bytes {
            return None;
        }
        let largest_bytes = self
            .blocks
            .iter()
            .map(MemoryBlock::bytes)
            .max()
            .unwrap_or(0);
        let (mut block_bytes, mut halvings) = (self.preferred_bytes, 0);
        while halvings < HALVINGS
            && block_bytes / 2 > largest_bytes
            && block_bytes / 2 >= bytes.saturating_mul(2)
        {
            block_bytes /= 2;
            halvings += 1;
        }
        loop {
            let mapped = (block_bytes <= left_bytes).then(|| space.map(block_bytes).ok());
            if let Some(all) = mapped.flatten() {
                self.reserved_bytes += block_bytes;
                return Some(MemoryBlock::new(all, space));
            }
            if halvings == HALVINGS || block_bytes / 2 < bytes {
                return None;
            }
            block_bytes /= 2;
            halvings += 1;
        }
    }

    /// The first pair out of order swaps: more is not done at once.
    fn sort_a_little(&mut self) {
        let free = |at: usize| self.blocks[at].free_bytes();
        if let Some(at) = (1..self.blocks.len()).find(|at| free(at - 1) > free(*at)) {
            self.blocks.swap(at - 1, at);
        }
    }

    /// Where the block of a segment stands; `None` for memory of one request's own.
    fn place_of(&self, segment: SegmentId) -> Option<usize> {
        self.blocks
            .iter()
            .position(|block| block.segment() == segment)
    }

    /// Gives a block that holds nothing back to the driver.
    fn give_back(&mut self, at: usize, space: &mut Space) {
        let block = self.blocks.remove(at);
        self.reserved_bytes -= block.bytes();
        space.unmap(space.first(block.segment()));
    }

    /// After a free in the block at `at`: a second empty block goes back, or any empty one
    /// where the budget is used up.
    fn tidy(&mut self, at: usize, had_empty: bool, space: &mut Space) {
        let over_budget = self.reserved_bytes >= self.budget_bytes;
        let last = self.blocks.len() - 1;
        if self.blocks[at].is_empty() {
            if had_empty || over_budget {
                self.give_back(at, space);
            }
        } else if had_empty && self.blocks[last].is_empty() {
            self.give_back(last, space);
        }
    }
}

/// Maps `bytes`, of which the part in front of the first multiple of `align` is set aside.
fn map_aligned(bytes: u64, align: u64, space: &mut Space) -> Option<BlockId> {
    let block = space.map(bytes).ok()?;
    let skip = space.base(block).next_multiple_of(align) - space.base(block);
    if skip == 0 {
        return Some(block);
    }
    let aligned = space.split(block, skip);
    space.forgo(block);
    Some(aligned)
}

impl Policy for Vma {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let heap_bytes = space.capacity_bytes();
        if heap_bytes <= SMALL_HEAP_BYTES {
            self.preferred_bytes = heap_bytes / 8;
        }
        self.preferred_bytes = self.preferred_bytes.next_multiple_of(32);
        self.budget_bytes = (u128::from(heap_bytes) * 8 / 10) as u64;
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let align = request.align.max(self.spec.alignment);
        let found = if bytes > self.preferred_bytes / 2 {
            self.dedicated(bytes, request.align, space)
                .or_else(|| self.pooled(bytes, align, space))
        } else {
            self.pooled(bytes, align, space)
                .or_else(|| self.dedicated(bytes, request.align, space))
        };
        let block = found.ok_or(OutOfMemory::no_fit(bytes))?;
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        let Some(at) = self.place_of(space.segment(block)) else {
            self.reserved_bytes -= space.segment_bytes(space.segment(block));
            space.release(block, stream);
            let Some(padding) = space.prev(block) else {
                return space.unmap(block);
            };
            if space.state(padding) == State::Retired {
                space.reclaim(padding);
            }
            space.merge(padding, block);
            space.unmap(padding);
            return;
        };
        let had_empty = self.blocks.iter().any(MemoryBlock::is_empty);
        space.release(block, stream);
        self.blocks[at].free(block, &mut self.links, space);
        self.tidy(at, had_empty, space);
        self.sort_a_little();
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let largest = |block: &MemoryBlock| block.largest_bytes(&self.links, space);
        let pooled_bytes = self.blocks.iter().map(largest).max().unwrap_or(0);
        let largest_bytes = pooled_bytes.max(space.room_bytes());
        largest_bytes - largest_bytes % self.spec.alignment
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    fn motion(&self) -> Motion {
        Motion::Slide
    }

    /// Padding of one request's own memory is in no list.
    fn forget(&mut self, free: BlockId, space: &Space) {
        if let Some(at) = self.place_of(space.segment(free)) {
            self.blocks[at].forget(free, &mut self.links, space);
        }
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        if let Some(at) = self.place_of(space.segment(free)) {
            self.blocks[at].learn(free, &mut self.links, space);
        }
    }

    fn evacuates(&self) -> bool {
        true
    }

    fn release_segment(&mut self, all: BlockId, space: &mut Space) {
        let empty = self.blocks.iter().filter(|block| block.is_empty());
        if empty.count() > 1 {
            let at = self.place_of(space.segment(all));
            self.give_back(
                at.expect("memory of one request's own is never empty"),
                space,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    /// On a heap of 8192 bytes a block is 1024, and begins as an eighth of that.
    #[test]
    fn blocks_grow_by_halves_and_large_requests_have_their_own_memory() {
        let spec = "vma:alignment=1";
        // 64 fits an eighth (128) twice: block 0..128. The next ones need a quarter (256)
        // and a half (512); 600 is over half a block and gets memory of its own.
        let hand = play(spec, 8192, "A a 64 ; A b 100 ; A c 200 ; A d 600");
        assert_eq!(hand.told, ["0", "128", "384", "896"]);
        assert_eq!(
            hand.replay.space().counters().reserved_bytes,
            128 + 256 + 512 + 600
        );
        let hand = play(spec, 8192, "A a 600 ; F a ; A b 64 ; F b ; A c 64");
        assert_eq!(hand.replay.space().counters().reserved_bytes, 128);
    }

    /// One empty block stays, the second goes back.
    #[test]
    fn a_second_empty_block_goes_back() {
        let spec = "vma:alignment=1";
        let hand = play(spec, 8192, "A a 64 ; A b 100 ; F a");
        assert_eq!(hand.replay.space().counters().reserved_bytes, 384);
        let hand = play(spec, 8192, "A a 64 ; A b 100 ; F a ; F b");
        assert_eq!(hand.replay.space().counters().reserved_bytes, 128);
    }
}
