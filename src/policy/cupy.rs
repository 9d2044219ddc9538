//! `cupy-pool`: CuPy's memory pool.
//!
//! Source: CuPy 14.2, `cupy.cuda.MemoryPool`: its documentation and the project's
//! recordings, whose every placement, used and reserved byte these rules explain.
//!
//! Sizes are multiples of 512 bytes. Each stream has an arena; a chunk belongs to the
//! arena of the stream that it was taken from the driver for, whoever frees it. The
//! smallest free chunk that is large enough is taken and split wherever anything is left;
//! neighbours of one driver allocation join when freed. The pool grows by exactly the
//! request. At the limit, and where the driver refuses, all chunks that are whole driver
//! allocations go back and the request is tried once more; so does a trim
//! (`free_all_blocks`).
//!
//! Tie-breaks: among chunks of one size CuPy pops an arbitrary one of a Python set, whose
//! order hangs on the addresses of Python objects. Here it is the one that was freed
//! last, which is right in half of the ties that were recorded (`tests/recordings.rs`);
//! the lowest or the highest address and the oldest are right less often.
//!
//! Streams: the pool leaves it to the program that a chunk is freed only after all uses.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Policy;
use super::cut::{cut_back, cut_front, padded_bytes};
use super::index::{BySize, Entry};
use super::limit::{Limit, room_after_bytes};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::round_up;

/// Sizes are multiples of this, in bytes.
pub const QUANTUM_BYTES: u64 = 512;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// What the pool may hold (`set_limit`, `CUPY_GPU_MEMORY_LIMIT`).
    pub limit: Limit,
    /// Free allocations go back before a request fails at the limit; releases before
    /// cupy#7679 failed at once.
    pub flush_at_limit: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            limit: Limit::Capacity,
            flush_at_limit: true,
        }
    }
}

/// What the pool knows of a chunk beside its place.
#[derive(Debug, Clone, Copy, Default)]
struct Chunk {
    stream: StreamId,
    /// Its key among free chunks of its size: smaller where it was freed later.
    order: u64,
}

/// The policy.
pub struct CuPy {
    spec: Spec,
    limit_bytes: u64,
    arenas: BTreeMap<StreamId, BySize>,
    /// By the handle of the block.
    chunks: Vec<Chunk>,
    frees: u64,
    preferred: Option<u64>,
    ties: u64,
    told_otherwise: u64,
}

impl CuPy {
    /// A pool by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        CuPy {
            spec,
            limit_bytes: u64::MAX,
            arenas: BTreeMap::new(),
            chunks: Vec::new(),
            frees: 0,
            preferred: None,
            ties: 0,
            told_otherwise: 0,
        }
    }

    /// Of chunks that tie at the next request, the one at this address is taken: what a
    /// recording can tell and the rules cannot.
    pub fn prefer(&mut self, address: u64) {
        self.preferred = Some(address);
    }

    fn set_stream(&mut self, block: BlockId, stream: StreamId) {
        let at = block.0 as usize;
        if at >= self.chunks.len() {
            self.chunks.resize(at + 1, Chunk::default());
        }
        self.chunks[at].stream = stream;
    }

    fn enter(&mut self, block: BlockId, space: &Space) {
        self.frees += 1;
        let chunk = &mut self.chunks[block.0 as usize];
        chunk.order = u64::MAX - self.frees;
        let arena = self.arenas.entry(chunk.stream).or_default();
        arena.insert(space.bytes(block), chunk.order, block.0);
    }

    fn leave(&mut self, block: BlockId, space: &Space) {
        let chunk = self.chunks[block.0 as usize];
        let arena = self.arenas.get_mut(&chunk.stream);
        let was_there = arena.is_some_and(|arena| arena.remove(space.bytes(block), chunk.order));
        assert!(
            was_there,
            "event {}: a free chunk was in no arena",
            space.event()
        );
    }

    /// The smallest chunk that is large enough, out of its arena.
    fn search(&mut self, bytes: u64, stream: StreamId, space: &Space) -> Option<BlockId> {
        let preferred = self.preferred.take();
        let arena = self.arenas.get(&stream)?;
        let first = arena.first_at_least(bytes)?;
        let after = |entry: &Entry| {
            let next = arena.next_after(entry.bytes, entry.address);
            next.filter(|next| next.bytes == first.bytes)
        };
        let mut choice = first;
        if after(&first).is_some() {
            self.ties += 1;
            let base = |entry: &Entry| Some(space.base(BlockId(entry.block)));
            let mut tied = std::iter::successors(Some(first), after);
            choice = tied.find(|entry| base(entry) == preferred).unwrap_or(first);
            self.told_otherwise += u64::from(choice != first);
        }
        let block = BlockId(choice.block);
        self.leave(block, space);
        Some(block)
    }

    /// Takes exactly `bytes` from the driver, below the limit.
    fn grow(&mut self, bytes: u64, stream: StreamId, space: &mut Space) -> Option<BlockId> {
        let within =
            |space: &Space| bytes <= self.limit_bytes.saturating_sub(space.own_reserved_bytes());
        let mut block = within(space).then(|| space.map(bytes).ok()).flatten();
        if block.is_none() && (self.spec.flush_at_limit || within(space)) {
            self.trim(space);
            let left = self.limit_bytes.saturating_sub(space.own_reserved_bytes());
            block = (bytes <= left).then(|| space.map(bytes).ok()).flatten();
        }
        let block = block?;
        self.set_stream(block, stream);
        Some(block)
    }

    fn idle(&self, space: &Space) -> Vec<BlockId> {
        let chunks = self.arenas.values().flat_map(BySize::iter);
        let whole = |block: &BlockId| space.prev(*block).is_none() && space.next(*block).is_none();
        chunks
            .map(|entry| BlockId(entry.block))
            .filter(whole)
            .collect()
    }
}

impl Policy for CuPy {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.limit_bytes = self.spec.limit.bytes(space).unwrap_or(u64::MAX);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, QUANTUM_BYTES);
        let padded = bytes.and_then(|bytes| padded_bytes(bytes, request.align, QUANTUM_BYTES));
        let (Some(bytes), Some(padded)) = (bytes, padded) else {
            return Err(OutOfMemory::overflow(request.bytes));
        };
        let stream = request.stream;
        let block = match self.search(padded, stream, space) {
            Some(block) => block,
            None => self
                .grow(padded, stream, space)
                .ok_or(OutOfMemory::no_fit(bytes))?,
        };
        let (padding, block) = cut_front(block, request.align, space);
        self.set_stream(block, stream);
        let rest = cut_back(block, bytes, space);
        for part in [padding, rest].into_iter().flatten() {
            self.set_stream(part, stream);
            self.enter(part, space);
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, mut block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        if let Some(above) = space.free_next(block) {
            self.leave(above, space);
            space.merge(block, above);
        }
        if let Some(below) = space.free_prev(block) {
            self.leave(below, space);
            space.merge(below, block);
            block = below;
        }
        self.enter(block, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, QUANTUM_BYTES)
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let own = self.arenas.get(&stream).and_then(BySize::largest);
        let reserved = space.own_reserved_bytes();
        let left = self.limit_bytes.saturating_sub(reserved);
        let idle = self.idle(space);
        let idle_bytes: u64 = idle.iter().map(|block| space.bytes(*block)).sum();
        let left_after = self.limit_bytes.saturating_sub(reserved - idle_bytes);
        let mut more = left.min(space.room_bytes());
        let after = left_after.min(room_after_bytes(&idle, space));
        // Without a flush at the limit only the driver's refusal gives allocations back.
        more = more.max(if self.spec.flush_at_limit {
            after
        } else {
            after.min(left)
        });
        own.map_or(0, |found| found.bytes)
            .max(more - more % QUANTUM_BYTES)
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        let largest = self.arenas.values().filter_map(BySize::largest);
        Some(largest.map(|found| found.bytes).max().unwrap_or(0))
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        vec![
            ("ties".to_owned(), self.ties as i64),
            ("ties_told_otherwise".to_owned(), self.told_otherwise as i64),
        ]
    }

    fn trim(&mut self, space: &mut Space) {
        for block in self.idle(space) {
            self.leave(block, space);
            space.unmap(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    /// By hand: two allocations of 512 and 1,024 bytes; the freed second one serves 512
    /// and keeps 512, which a third request of the same stream takes and one of another
    /// stream does not.
    #[test]
    fn arenas_and_splits_by_hand() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let mut pool = CuPy::new(Spec::default());
        pool.start(&mut space).expect("nothing is taken");
        let ask = |bytes, stream| Request {
            bytes,
            align: 1,
            stream,
            pool: 0,
            tag: 0,
        };
        let mut bases = Vec::new();
        let mut place = |bytes, stream, pool: &mut CuPy, space: &mut Space| {
            let block = pool.alloc(&ask(bytes, stream), space).expect("room");
            bases.push(space.base(block));
            block
        };
        place(1, 0, &mut pool, &mut space);
        let two = place(1000, 0, &mut pool, &mut space);
        pool.free(two, 1, false, &mut space);
        place(512, 0, &mut pool, &mut space);
        place(512, 1, &mut pool, &mut space);
        place(512, 0, &mut pool, &mut space);
        assert_eq!(bases, [0, 512, 512, 1536, 1024]);
        assert_eq!(space.counters().reserved_bytes, 2048);
    }
}
