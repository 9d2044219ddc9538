//! The primitives and the stitched blocks over them.

use std::collections::BTreeMap;

use super::Spec;
use crate::policy::index::{BySize, Entry};
use crate::space::{BlockId, OutOfMemory, SegmentId, Space, State};
use crate::trace::StreamId;

/// Stream, bytes and address of a stitched block.
type Key = (StreamId, u64, u64);

/// What was done how often.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    exact: i64,
    reused: i64,
    single: i64,
    several: i64,
    insufficient: i64,
    collected: i64,
}

/// All large blocks.
pub(super) struct Cache {
    chunk_bytes: u64,
    fragment_limit: u64,
    stitched_limit: u64,
    keep_split: bool,
    /// Free primitives by stream.
    free: Vec<BySize>,
    /// The stream of each segment that is ours, by its handle.
    owners: Vec<Option<StreamId>>,
    stitched: BTreeMap<Key, BlockId>,
    /// Stitched blocks by their last use, the longest ago first.
    by_use: BTreeMap<u64, BlockId>,
    last_use: BTreeMap<BlockId, u64>,
    uses: u64,
    stitched_bytes: u64,
    counts: Counts,
}

impl Cache {
    pub(super) fn new(spec: &Spec) -> Self {
        Cache {
            chunk_bytes: spec.chunk,
            fragment_limit: spec.fragment_limit,
            stitched_limit: spec.stitched_limit,
            keep_split: spec.keep_split,
            free: Vec::new(),
            owners: Vec::new(),
            stitched: BTreeMap::new(),
            by_use: BTreeMap::new(),
            last_use: BTreeMap::new(),
            uses: 0,
            stitched_bytes: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn start(&mut self, space: &Space) {
        self.chunk_bytes = self.chunk_bytes.next_multiple_of(space.device().page_bytes);
    }

    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    pub(super) fn statistics(&self) -> Vec<(String, i64)> {
        let counts = &self.counts;
        let named = [
            ("stitching.exact", counts.exact),
            ("stitching.reused", counts.reused),
            ("stitching.single", counts.single),
            ("stitching.several", counts.several),
            ("stitching.insufficient", counts.insufficient),
            ("stitching.collected", counts.collected),
            ("stitching.stitched_bytes", self.stitched_bytes as i64),
        ];
        named.map(|(name, count)| (name.to_owned(), count)).into()
    }

    fn owner(&self, segment: SegmentId) -> Option<StreamId> {
        self.owners.get(segment.0 as usize).copied().flatten()
    }

    pub(super) fn owns(&self, block: BlockId, space: &Space) -> bool {
        self.owner(space.segment(block)).is_some()
    }

    fn own(&mut self, segment: SegmentId, stream: Option<StreamId>) {
        let at = segment.0 as usize;
        if at >= self.owners.len() {
            self.owners.resize(at + 1, None);
        }
        self.owners[at] = stream;
    }

    fn of(&mut self, stream: StreamId) -> &mut BySize {
        let at = usize::from(stream);
        if at >= self.free.len() {
            self.free.resize_with(at + 1, BySize::new);
        }
        &mut self.free[at]
    }

    fn enter(&mut self, block: BlockId, space: &Space) {
        let stream = self.owner(space.segment(block)).expect("it is ours");
        let (bytes, base) = (space.bytes(block), space.base(block));
        self.of(stream).insert(bytes, base, block.0);
    }

    fn leave(&mut self, block: BlockId, space: &Space) {
        let stream = self.owner(space.segment(block)).expect("it is ours");
        let (bytes, base) = (space.bytes(block), space.base(block));
        assert!(self.of(stream).remove(bytes, base), "a free primitive");
    }

    /// What the driver and the capacity leave, in bytes.
    fn room_bytes(&self, space: &Space) -> u64 {
        let reserved_bytes = space.counters().reserved_bytes;
        let left_bytes = space.capacity_bytes().saturating_sub(reserved_bytes);
        let room_bytes = left_bytes.min(space.room_bytes());
        room_bytes - room_bytes % self.chunk_bytes
    }

    /// S1.
    pub(super) fn exact(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Option<BlockId> {
        let fit = self.of(stream).first_at_least(bytes);
        if let Some(fit) = fit.filter(|fit| fit.bytes == bytes) {
            self.counts.exact += 1;
            self.of(stream).remove(fit.bytes, fit.address);
            return Some(BlockId(fit.block));
        }
        let same = self
            .stitched
            .range((stream, bytes, 0)..=(stream, bytes, u64::MAX));
        let (_, alias) = same
            .into_iter()
            .find(|(_, alias)| space.lendable(**alias))?;
        let alias = *alias;
        self.counts.reused += 1;
        self.lend(alias, stream, space);
        Some(alias)
    }

    /// S2.
    pub(super) fn single(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Option<BlockId> {
        let least_bytes = bytes.max(self.fragment_limit);
        let fit = self.of(stream).first_at_least(least_bytes)?;
        self.counts.single += 1;
        self.of(stream).remove(fit.bytes, fit.address);
        let low = BlockId(fit.block);
        let high = space.split(low, bytes);
        self.enter(high, space);
        if self.keep_split {
            self.stitch(&[low, high], stream, space);
            self.collect(space);
        }
        Some(low)
    }

    /// S3 and S4.
    pub(super) fn several(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let (mut parts, sum_bytes) = self.candidates(bytes, stream);
        if sum_bytes < bytes {
            let new = self.grow(bytes - sum_bytes, stream, space)?;
            if parts.is_empty() {
                return Ok(new);
            }
            self.counts.insufficient += 1;
            self.remove_all(&parts, stream);
            parts.push(entry(new, space));
        } else {
            self.counts.several += 1;
            self.remove_all(&parts, stream);
            let last = parts.last().expect("a sum has parts");
            let surplus_bytes = sum_bytes - bytes;
            if surplus_bytes > 0 {
                let high = space.split(BlockId(last.block), last.bytes - surplus_bytes);
                self.enter(high, space);
            }
        }
        let parts: Vec<BlockId> = parts.iter().map(|part| BlockId(part.block)).collect();
        let alias = self.stitch(&parts, stream, space);
        // Out of the index by now: only the Space has to know.
        space.lend(alias, stream);
        self.collect(space);
        Ok(alias)
    }

    /// Primitives below `bytes` that may be stitched, the largest first, until they
    /// suffice; and their sum.
    fn candidates(&mut self, bytes: u64, stream: StreamId) -> (Vec<Entry>, u64) {
        let limit = self.fragment_limit;
        let index = self.of(stream);
        let (mut parts, mut sum_bytes) = (Vec::new(), 0);
        let mut next = index.prev_before(bytes, 0);
        while let Some(part) = next.filter(|part| part.bytes >= limit && sum_bytes < bytes) {
            sum_bytes += part.bytes;
            parts.push(part);
            next = index.prev_before(part.bytes, part.address);
        }
        (parts, sum_bytes)
    }

    fn remove_all(&mut self, parts: &[Entry], stream: StreamId) {
        for part in parts {
            self.of(stream).remove(part.bytes, part.address);
        }
    }

    /// A new primitive, not in the index.
    pub(super) fn grow(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        if bytes > self.room_bytes(space) {
            return Err(OutOfMemory::no_fit(bytes));
        }
        let block = space.reserve(bytes, self.chunk_bytes);
        if let Err(shortage) = space.back(block, bytes) {
            space.unreserve(block);
            return Err(shortage);
        }
        self.own(space.segment(block), Some(stream));
        Ok(block)
    }

    /// Stitches free primitives and remembers the block.
    fn stitch(&mut self, parts: &[BlockId], stream: StreamId, space: &mut Space) -> BlockId {
        let alias = space.stitch(parts);
        self.own(space.segment(alias), Some(stream));
        let bytes = space.bytes(alias);
        self.stitched
            .insert((stream, bytes, space.base(alias)), alias);
        self.stitched_bytes += bytes;
        self.note_use(alias);
        alias
    }

    fn note_use(&mut self, alias: BlockId) {
        if let Some(before) = self.last_use.insert(alias, self.uses) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.uses, alias);
        self.uses += 1;
    }

    fn lend(&mut self, alias: BlockId, stream: StreamId, space: &mut Space) {
        for part in space.parts(alias).to_vec() {
            self.leave(part, space);
        }
        space.lend(alias, stream);
        self.note_use(alias);
    }

    /// StitchFree: the stitched blocks used longest ago go until the rest is within the
    /// limit; those in use stay.
    fn collect(&mut self, space: &mut Space) {
        while self.stitched_bytes > self.stitched_limit {
            let idle = |alias: &&BlockId| space.state(**alias) == State::Lent;
            let Some(oldest) = self.by_use.values().find(idle).copied() else {
                return;
            };
            self.counts.collected += 1;
            self.unstitch(oldest, space);
        }
    }

    fn unstitch(&mut self, alias: BlockId, space: &mut Space) {
        let segment = space.segment(alias);
        let stream = self.owner(segment).expect("it is ours");
        let bytes = space.bytes(alias);
        self.stitched.remove(&(stream, bytes, space.base(alias)));
        self.stitched_bytes -= bytes;
        if let Some(used) = self.last_use.remove(&alias) {
            self.by_use.remove(&used);
        }
        space.unstitch(alias);
        self.own(segment, None);
    }

    /// A used or pending block of ours is free again.
    pub(super) fn take_back(&mut self, block: BlockId, space: &mut Space) {
        space.release(block, space.stream(block));
        if !space.is_alias(block) {
            return self.enter(block, space);
        }
        space.recall(block);
        for part in space.parts(block).to_vec() {
            self.enter(part, space);
        }
    }

    /// Gives every free primitive back, and the stitched blocks over it.
    pub(super) fn release(&mut self, space: &mut Space) {
        for stream in 0..self.free.len() {
            let all: Vec<Entry> = self.free[stream].iter().collect();
            self.free[stream].clear();
            for part in all {
                self.release_part(BlockId(part.block), space);
            }
        }
    }

    fn release_part(&mut self, part: BlockId, space: &mut Space) {
        for alias in space.aliases(part).to_vec() {
            self.unstitch(alias, space);
        }
        space.unback(part);
        let unmapped = |block: &BlockId| space.state(*block) == State::Unmapped;
        let above = space.next(part).filter(unmapped);
        let below = space.prev(part).filter(unmapped);
        if let Some(above) = above {
            space.merge(part, above);
        }
        let mut whole = part;
        if let Some(below) = below {
            space.merge(below, part);
            whole = below;
        }
        if space.prev(whole).is_none() && space.next(whole).is_none() {
            let segment = space.segment(whole);
            space.unreserve(whole);
            self.own(segment, None);
        }
    }

    /// The largest request that the five states but the last serve, in bytes.
    pub(super) fn servable(&self, stream: StreamId, space: &Space) -> u64 {
        let room_bytes = self.room_bytes(space);
        let Some(index) = self.free.get(usize::from(stream)) else {
            return room_bytes;
        };
        let limit = self.fragment_limit;
        let stitchable = index.iter().map(|part| part.bytes);
        let stitchable: u64 = stitchable.filter(|bytes| *bytes >= limit).sum();
        let all = self
            .stitched
            .range((stream, 0, 0)..=(stream, u64::MAX, u64::MAX));
        let mut lendable = all.rev().filter(|(_, alias)| space.lendable(**alias));
        let largest = lendable.next().map_or(0, |((_, bytes, _), _)| *bytes);
        (stitchable + room_bytes)
            .max(index.largest_bytes())
            .max(largest)
    }
}

fn entry(block: BlockId, space: &Space) -> Entry {
    Entry {
        address: space.base(block),
        bytes: space.bytes(block),
        block: block.0,
    }
}
