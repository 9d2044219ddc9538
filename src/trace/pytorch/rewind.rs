//! The state before the first entry of a trace: the final segments with every entry
//! undone from the end.
//!
//! Source: the project's specification of PyTorch's caching allocator, section 9.1. A
//! completed free makes a block pending again, a requested free makes it live, an
//! allocation makes it vanish; a segment given back is there again, one got from the
//! driver is not.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use crate::trace::snapshot::{Action, BlockState, Entry, PoolId, Snapshot, StackId};

use super::hidden::Hidden;
use super::sizes::{SMALL_LIMIT_BYTES, SMALL_SEGMENT_BYTES, SizeRules};

/// A segment, or a mapped run of an expandable reservation, at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub bytes: u64,
    pub stream: u64,
    /// `None` where the recording does not tell.
    pub pool: Option<PoolId>,
    pub large: bool,
    pub expandable: bool,
    /// Whether `large` was guessed from the region's size.
    pub guessed: bool,
}

/// A block that is live or pending at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub requested_bytes: u64,
    /// `None` where the block was freed inside the trace: its size must be inferred.
    pub bytes: Option<u64>,
    pub pending: bool,
    pub stream: u64,
    pub pool: Option<PoolId>,
    pub stack: Option<StackId>,
}

/// What the recording began with, and what undoing it met on the way.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub regions: BTreeMap<u64, Region>,
    pub blocks: BTreeMap<u64, Held>,
    /// The private pool of those entries whose region tells one.
    pub pools: HashMap<usize, PoolId, RandomState>,
    /// Bytes reserved before the first entry.
    pub reserved_bytes: u64,
    /// The most bytes reserved at any moment of the recording.
    pub peak_reserved_bytes: u64,
    /// Frees and allocations that contradict what follows them.
    pub contradictions: u64,
    /// Segment entries whose segment is not where it should be.
    pub stray_segments: u64,
    /// Segments given back inside the trace whose pool no entry tells.
    pub poolless_segments: u64,
}

/// Undoes `entries` of one device from the end.
pub(super) fn rewind(
    snapshot: &Snapshot,
    device: u32,
    entries: &[Entry],
    rules: &SizeRules,
    hidden: Hidden,
) -> Start {
    let mut back = Back::at_end(snapshot, device, rules, hidden);
    let mut left = entries;
    while let Some((entry, before)) = left.split_last() {
        left = match before.split_last() {
            // As a rule a free completes at once: both are undone together.
            Some((request, before)) if Back::completes(request, entry) => {
                back.undo_whole_free(entry);
                before
            }
            _ => {
                back.undo(before.len(), entry);
                before
            }
        };
    }
    back.into_start()
}

/// The state while it is undone. Blocks are hashed on the way and sorted at the end.
struct Back<'a> {
    rules: &'a SizeRules,
    hidden: Hidden,
    blocks: HashMap<u64, Held, RandomState>,
    reserved_bytes: u64,
    private: bool,
    start: Start,
}

impl<'a> Back<'a> {
    /// The state after the last entry, as the segments show it.
    fn at_end(snapshot: &Snapshot, device: u32, rules: &'a SizeRules, hidden: Hidden) -> Self {
        let mut back = Back {
            rules,
            hidden,
            blocks: HashMap::default(),
            reserved_bytes: 0,
            private: false,
            start: Start::default(),
        };
        let default_pool = |pool: PoolId| snapshot.tables.pool(pool) == (0, 0);
        for segment in snapshot.segments.iter().filter(|s| s.device == device) {
            let pool = segment.pool.filter(|pool| !default_pool(*pool));
            back.private |= pool.is_some();
            let region = Region {
                bytes: segment.total_bytes,
                stream: segment.stream,
                pool: segment.pool,
                large: segment.large,
                expandable: segment.expandable,
                guessed: false,
            };
            back.start.regions.insert(segment.address, region);
            for block in &segment.blocks {
                if block.state == BlockState::Inactive {
                    continue;
                }
                let held = Held {
                    requested_bytes: block.requested_bytes.unwrap_or(block.bytes),
                    bytes: Some(block.bytes),
                    pending: block.state == BlockState::ActivePendingFree,
                    stream: segment.stream,
                    pool: segment.pool,
                    stack: block.stack,
                };
                back.blocks.insert(block.address, held);
            }
        }
        back.reserved_bytes = back
            .start
            .regions
            .values()
            .fold(0, |sum, region| u64::saturating_add(sum, region.bytes));
        back.start.peak_reserved_bytes = back.reserved_bytes;
        back
    }

    fn undo(&mut self, at: usize, entry: &Entry) {
        match entry.action {
            Action::Alloc => self.undo_alloc(at, entry),
            Action::FreeRequested => self.undo_free(entry),
            Action::FreeCompleted => self.undo_completion(entry),
            Action::SegmentAlloc => self.undo_segment_alloc(at, entry),
            Action::SegmentFree => self.undo_segment_free(entry),
            Action::SegmentMap => self.undo_map(at, entry),
            Action::SegmentUnmap => self.undo_unmap(entry),
            Action::Snapshot | Action::Oom | Action::Annotate | Action::Unknown(_) => {}
        }
    }

    fn undo_alloc(&mut self, at: usize, entry: &Entry) {
        if self.private
            && entry.pool.is_none()
            && let Some(pool) = self.pool_at(entry.address())
        {
            self.start.pools.insert(at, pool);
        }
        if self.blocks.remove(&entry.address()).is_none() && !self.hidden.frees {
            self.start.contradictions += 1;
        }
    }

    fn undo_free(&mut self, entry: &Entry) {
        match self.blocks.get_mut(&entry.address()) {
            Some(held) if held.pending => held.pending = false,
            Some(_) => self.start.contradictions += 1,
            None => {
                self.start.contradictions += u64::from(!self.hidden.completions);
                self.blocks
                    .insert(entry.address(), held_again(entry, false));
            }
        }
    }

    /// Whether `entry` completes the free that `request`, the entry before it, asks for.
    fn completes(request: &Entry, entry: &Entry) -> bool {
        entry.action == Action::FreeCompleted
            && request.action == Action::FreeRequested
            && entry.address() == request.address()
    }

    /// Undoes a completion and the request before it: the block is live again.
    fn undo_whole_free(&mut self, completion: &Entry) {
        let held = held_again(completion, false);
        let before = self.blocks.insert(completion.address(), held);
        self.start.contradictions += u64::from(before.is_some());
    }

    fn undo_completion(&mut self, entry: &Entry) {
        // Where requests are left out, a block is taken as live until its completion.
        let held = held_again(entry, !self.hidden.requests);
        let before = self.blocks.insert(entry.address(), held);
        self.start.contradictions += u64::from(before.is_some());
    }

    fn undo_segment_alloc(&mut self, at: usize, entry: &Entry) {
        self.shrank(entry.bytes);
        match self.start.regions.remove(&entry.address()) {
            Some(region) => self.note_pool(at, entry, region.pool),
            None => self.start.stray_segments += 1,
        }
    }

    fn undo_segment_free(&mut self, entry: &Entry) {
        self.grew(entry.bytes);
        self.start.poolless_segments += u64::from(entry.pool.is_none());
        let region = Region {
            bytes: entry.bytes,
            stream: entry.stream,
            pool: entry.pool,
            large: entry.bytes != SMALL_SEGMENT_BYTES,
            expandable: false,
            guessed: true,
        };
        if self.start.regions.insert(entry.address(), region).is_some() {
            self.start.stray_segments += 1;
        }
    }

    fn undo_map(&mut self, at: usize, entry: &Entry) {
        self.shrank(entry.bytes);
        let end = entry.address().saturating_add(entry.bytes);
        let touched: Vec<(u64, Region)> = self
            .start
            .regions
            .range(..end)
            .rev()
            .take_while(|(address, region)| address.saturating_add(region.bytes) > entry.address())
            .map(|(address, region)| (*address, *region))
            .collect();
        if touched.is_empty() {
            self.start.stray_segments += 1;
        }
        for (address, region) in touched {
            self.note_pool(at, entry, region.pool);
            self.start.regions.remove(&address);
            let mut keep = |from: u64, to: u64| {
                if from < to {
                    let bytes = to - from;
                    self.start.regions.insert(from, Region { bytes, ..region });
                }
            };
            keep(address, entry.address());
            keep(end, address.saturating_add(region.bytes));
        }
    }

    /// The unmapped range is mapped again, and one with the mapped runs that it touches.
    fn undo_unmap(&mut self, entry: &Entry) {
        self.grew(entry.bytes);
        let mut address = entry.address();
        let mut region = Region {
            bytes: entry.bytes,
            stream: entry.stream,
            pool: entry.pool,
            large: entry
                .bytes
                .is_multiple_of(self.rules.large_segment_bytes.max(1)),
            expandable: true,
            guessed: true,
        };
        let joins = |other: &Region| other.expandable && other.stream == entry.stream;
        let end = address.saturating_add(entry.bytes);
        if let Some(right) = self.start.regions.get(&end).copied().filter(joins) {
            self.start.regions.remove(&end);
            let bytes = region.bytes.saturating_add(right.bytes);
            region = Region { bytes, ..right };
        }
        let left = self.start.regions.range(..address).next_back();
        if let Some((&from, &left)) = left
            && joins(&left)
            && from.saturating_add(left.bytes) == address
        {
            address = from;
            let bytes = region.bytes.saturating_add(left.bytes);
            region = Region { bytes, ..left };
        }
        self.start.regions.insert(address, region);
    }

    fn grew(&mut self, bytes: u64) {
        self.reserved_bytes = self.reserved_bytes.saturating_add(bytes);
        self.start.peak_reserved_bytes = self.start.peak_reserved_bytes.max(self.reserved_bytes);
    }

    fn shrank(&mut self, bytes: u64) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(bytes);
    }

    fn note_pool(&mut self, at: usize, entry: &Entry, pool: Option<PoolId>) {
        if let Some(pool) = pool.filter(|_| self.private && entry.pool.is_none()) {
            self.start.pools.insert(at, pool);
        }
    }

    fn pool_at(&self, address: u64) -> Option<PoolId> {
        region_of(&self.start.regions, address).and_then(|(_, region)| region.pool)
    }

    fn into_start(mut self) -> Start {
        self.start.reserved_bytes = self.reserved_bytes;
        self.start.blocks = self.blocks.into_iter().collect();
        settle_guesses(&mut self.start, self.rules);
        if !self.private {
            self.start.poolless_segments = 0;
        }
        self.start
    }
}

/// The region that holds `address`, with its first byte.
pub(super) fn region_of(regions: &BTreeMap<u64, Region>, address: u64) -> Option<(u64, &Region)> {
    let (&from, region) = regions.range(..=address).next_back()?;
    (address - from < region.bytes).then_some((from, region))
}

/// The block that a free names, before it; its size is not in the entry.
fn held_again(entry: &Entry, pending: bool) -> Held {
    Held {
        requested_bytes: entry.bytes,
        bytes: None,
        pending,
        stream: entry.stream,
        pool: entry.pool,
        stack: None,
    }
}

/// A block inside a region tells which pool the region serves better than its size does.
fn settle_guesses(start: &mut Start, rules: &SizeRules) {
    for (&address, region) in &mut start.regions {
        if !region.guessed {
            continue;
        }
        let end = address.saturating_add(region.bytes);
        if let Some((_, held)) = start.blocks.range(address..end.max(address)).next() {
            region.large = rules.rounded(held.requested_bytes) > SMALL_LIMIT_BYTES;
        }
    }
}
