//! CUDA's stream-ordered pool (cudaMallocAsync), as far as recordings show it.
//!
//! Source: four recorded programs on an H200 (driver 580.159.04) and two training runs
//! under PyTorch's `backend:cudaMallocAsync`. The driver is closed: this is a model that
//! comes near in what it reserves, and it claims no more.
//!
//! Rules as fitted: sizes are multiples of 512 bytes; physical memory comes in chunks;
//! the range of addresses only grows at its end; a free range is joined with its
//! neighbours where the order of streams allows. Where the range grows, chunks that
//! nobody uses are moved there before new ones are taken. At an ordering point whole
//! free chunks go back while more than `release_threshold` is reserved. On a shortage
//! the device is waited for, all is joined, and the request is tried once more.
//!
//! Parameters: `chunk`; `release_threshold` (bytes, or `max`: never).
//!
//! Tie-breaks: the free range that has been one for longest, and fits; its low part.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};

use super::Policy;
use super::holes::start_in;
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{parse_bytes, round_up, serde_bytes};

/// Sizes are multiples of this, in bytes.
const STEP_BYTES: u64 = 512;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Physical memory comes in this, in bytes.
    #[serde(with = "serde_bytes")]
    pub chunk: u64,
    /// What stays reserved at an ordering point, in bytes; the largest number is all.
    #[serde(deserialize_with = "threshold")]
    pub release_threshold: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            chunk: 32 << 20,
            release_threshold: u64::MAX,
        }
    }
}

/// Bytes, with a unit or without, or `max`.
fn threshold<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bytes(u64),
        Text(String),
    }
    match Written::deserialize(from)? {
        Written::Bytes(bytes) => Ok(bytes),
        Written::Text(text) if text == "max" => Ok(u64::MAX),
        Written::Text(text) => parse_bytes(&text).map_err(serde::de::Error::custom),
    }
}

/// The policy.
#[derive(Debug)]
pub struct CudaMallocAsync {
    spec: Spec,
    /// Free blocks, the one that has been free longest first.
    by_age: BTreeSet<(u64, BlockId)>,
    /// Since when a free block is one, by handle.
    ages: Vec<u64>,
    changes: u64,
    /// The part of the range that was never backed.
    tail: Option<BlockId>,
}

impl CudaMallocAsync {
    /// A pool by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        CudaMallocAsync {
            spec,
            by_age: BTreeSet::new(),
            ages: Vec::new(),
            changes: 0,
            tail: None,
        }
    }

    fn chunk_bytes(&self, space: &Space) -> u64 {
        self.spec
            .chunk
            .max(1)
            .next_multiple_of(space.device().page_bytes)
    }

    fn enter(&mut self, block: BlockId, age: u64) {
        let at = block.0 as usize;
        if at >= self.ages.len() {
            self.ages.resize(at + 1, 0);
        }
        self.ages[at] = age;
        self.by_age.insert((age, block));
    }

    fn leave(&mut self, block: BlockId) -> u64 {
        let age = self.ages[block.0 as usize];
        let known = self.by_age.remove(&(age, block));
        assert!(known, "a free block is in the index");
        age
    }

    fn find(&self, bytes: u64, request: &Request, space: &Space) -> Option<BlockId> {
        let fits = |block: BlockId| {
            let (base, end) = (space.base(block), space.end(block));
            start_in(base, end, bytes, request.align).is_some()
                && space.usable(block, request.stream)
        };
        let mut blocks = self.by_age.iter().map(|(_, block)| *block);
        blocks.find(|block| fits(*block))
    }

    /// Cuts `bytes` out of a free block that holds them.
    fn carve(&mut self, free: BlockId, bytes: u64, align: u64, space: &mut Space) -> BlockId {
        let age = self.leave(free);
        let base = space.base(free);
        let skip = base.next_multiple_of(align) - base;
        let mut block = free;
        if skip > 0 {
            block = space.split(free, skip);
            self.enter(free, age);
        }
        if space.bytes(block) > bytes {
            let rest = space.split(block, bytes);
            self.enter(rest, age);
        }
        block
    }

    /// The free block before the tail, where `stream` may use it.
    fn before_tail(&self, stream: StreamId, space: &Space) -> Option<BlockId> {
        let before = space.free_prev(self.tail?)?;
        space.usable(before, stream).then_some(before)
    }

    /// Makes the range longer: a free block that holds the request.
    fn grow(
        &mut self,
        bytes: u64,
        request: &Request,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let (chunk, shortage) = (self.chunk_bytes(space), OutOfMemory::no_fit(bytes));
        let lack = |from: u64, tail: u64| {
            let start = round_up(from, request.align)?;
            round_up(start.checked_add(bytes)?.saturating_sub(tail), chunk)
        };
        let mut before = self.before_tail(request.stream, space);
        let mut need = self.tail.and_then(|tail| {
            let from = before.map_or(space.base(tail), |before| space.base(before));
            lack(from, space.base(tail)).filter(|need| *need <= space.bytes(tail))
        });
        if need.is_none() {
            // A whole card of addresses holds what a card can hold.
            let range = round_up(space.capacity_bytes(), chunk).and_then(|all| all.checked_mul(2));
            let most = bytes.checked_add(request.align).ok_or(shortage)?;
            let range = range.filter(|range| most <= *range).ok_or(shortage)?;
            let tail = space.reserve(range, chunk);
            self.tail = Some(tail);
            before = None;
            need = lack(space.base(tail), space.base(tail));
        }
        let (tail, need) = (self.tail.ok_or(shortage)?, need.ok_or(shortage)?);
        self.take_back(need, before, Some(request.stream), space);
        space.back(tail, need)?;
        self.tail = space.next(tail);
        let grown = match before {
            Some(before) => {
                self.leave(before);
                space.join(before, tail, request.stream);
                before
            }
            None => tail,
        };
        self.changes += 1;
        self.enter(grown, self.changes);
        Ok(grown)
    }

    /// Whole chunks inside a free block: first byte and bytes.
    fn whole_chunks(&self, block: BlockId, space: &Space) -> (u64, u64) {
        let chunk = self.chunk_bytes(space);
        let origin = space.segment_base(space.segment(block));
        let from = (space.base(block) - origin).next_multiple_of(chunk);
        let to = (space.end(block) - origin) / chunk * chunk;
        (origin + from, to.saturating_sub(from))
    }

    /// Whether `stream`, or every stream where it is `None`, may use the block.
    fn usable(block: BlockId, stream: Option<StreamId>, space: &Space) -> bool {
        match stream {
            Some(stream) => space.usable(block, stream),
            None => (0..space.ordered_streams()).all(|stream| space.usable(block, stream)),
        }
    }

    /// Unmaps up to `bytes` of chunks that nobody uses, but not of `keep`.
    fn take_back(
        &mut self,
        bytes: u64,
        keep: Option<BlockId>,
        stream: Option<StreamId>,
        space: &mut Space,
    ) {
        let mut left = bytes;
        let blocks: Vec<BlockId> = self.by_age.iter().map(|(_, block)| *block).collect();
        for block in blocks {
            if left == 0 {
                return;
            }
            let (from, whole) = self.whole_chunks(block, space);
            if whole == 0 || Some(block) == keep || !Self::usable(block, stream, space) {
                continue;
            }
            let part = whole.min(left);
            left -= part;
            self.unback(block, from + whole - part, part, space);
        }
    }

    /// Unmaps a part of a free block.
    fn unback(&mut self, block: BlockId, from: u64, bytes: u64, space: &mut Space) {
        let age = self.leave(block);
        let mut part = block;
        if from > space.base(block) {
            part = space.split(block, from - space.base(block));
            self.enter(block, age);
        }
        if space.bytes(part) > bytes {
            let rest = space.split(part, bytes);
            self.enter(rest, age);
        }
        space.unback(part);
    }

    /// Takes a released block into the index, joined with its free neighbours.
    fn settle(&mut self, block: BlockId, space: &mut Space) {
        let mut joined = block;
        if let Some(next) = space.free_next(joined)
            && space.mergeable(joined, next)
        {
            self.leave(next);
            space.merge(joined, next);
        }
        if let Some(prev) = space.free_prev(joined)
            && space.mergeable(prev, joined)
        {
            self.leave(prev);
            space.merge(prev, joined);
            joined = prev;
        }
        self.changes += 1;
        self.enter(joined, self.changes);
    }

    /// Joins what an ordering point allows to join.
    fn settle_all(&mut self, space: &mut Space) {
        let blocks: Vec<(u64, BlockId)> = self.by_age.iter().copied().collect();
        for (age, block) in blocks {
            let next = space.free_next(block);
            // A block that was joined is no longer in the index.
            if self.by_age.contains(&(age, block))
                && next.is_some_and(|next| space.mergeable(block, next))
            {
                self.leave(block);
                self.settle(block, space);
            }
        }
    }

    fn release_down_to(&mut self, bytes: u64, space: &mut Space) {
        let chunk = self.chunk_bytes(space);
        let surplus = space.counters().reserved_bytes.saturating_sub(bytes);
        self.take_back(surplus / chunk * chunk, None, None, space);
    }

    fn serve(
        &mut self,
        bytes: u64,
        request: &Request,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let free = match self.find(bytes, request, space) {
            Some(free) => free,
            None => self.grow(bytes, request, space)?,
        };
        Ok(self.carve(free, bytes, request.align, space))
    }
}

impl Policy for CudaMallocAsync {
    fn joins(&self) -> bool {
        false
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, STEP_BYTES);
        let bytes = bytes.ok_or_else(|| OutOfMemory::overflow(request.bytes))?;
        let block = match self.serve(bytes, request, space) {
            Ok(block) => block,
            Err(_) => {
                space.synchronise();
                self.settle_all(space);
                self.serve(bytes, request, space)?
            }
        };
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            space.defer(block);
        } else {
            space.release(block, stream);
            self.settle(block, space);
        }
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        space.release(block, space.stream(block));
        self.settle(block, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, STEP_BYTES)
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let chunk = self.chunk_bytes(space);
        let usable = || {
            let blocks = self.by_age.iter().map(|(_, block)| *block);
            blocks.filter(|block| space.usable(*block, stream))
        };
        let found = usable().map(|block| space.bytes(block)).max().unwrap_or(0);
        let room = space.room_bytes() / chunk * chunk;
        let chunks = |keep: Option<BlockId>| -> u64 {
            let spare = usable().filter(|block| Some(*block) != keep);
            spare.map(|block| self.whole_chunks(block, space).1).sum()
        };
        let before = self.before_tail(stream, space);
        let tail_bytes = self.tail.map_or(0, |tail| space.bytes(tail));
        let behind = before.map_or(0, |before| space.bytes(before));
        let longer = behind + (room + chunks(before)).min(tail_bytes);
        let range = (round_up(space.capacity_bytes(), chunk).unwrap_or(0)).saturating_mul(2);
        let fresh = (room + chunks(None)).min(range);
        let grown = if longer > behind || before.is_none() {
            longer
        } else {
            0
        };
        let steps = found
            .max(grown)
            .max(if fresh > tail_bytes { fresh } else { 0 });
        steps / STEP_BYTES * STEP_BYTES
    }

    fn blind(&self) -> bool {
        false
    }

    fn ordered(&mut self, space: &mut Space) {
        self.settle_all(space);
        if self.spec.release_threshold < u64::MAX {
            self.release_down_to(self.spec.release_threshold, space);
        }
    }

    fn trim(&mut self, space: &mut Space) {
        space.synchronise();
        self.settle_all(space);
        self.release_down_to(0, space);
    }
}
