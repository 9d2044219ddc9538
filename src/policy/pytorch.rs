//! PyTorch's native CUDA caching allocator.
//!
//! Source: the behaviour of PyTorch 2.11 to 2.15 as specified in sections 1 to 7 and 10
//! to 13 of the project's specification, tested line by line against the official
//! library's answers.
//!
//! Parameters: the option string of `PYTORCH_CUDA_ALLOC_CONF` (`conf`) and the release
//! (`version`: its order of equal-size blocks).
//!
//! Tie-breaks: the free set of a pool is ordered by stream handle, then size, then (up to
//! 2.11) address, (2.12) creation number of the block object, (2.13 on) creation number
//! of the segment and address. The first block that is large enough is taken, its low
//! part handed out.
//!
//! The identity of PyTorch's block objects matters for its statistics and its order:
//! here a handle's `Info` moves along. A split makes a new object of the low part; the
//! block that was freed or mapped last survives a merge.

mod adopt;
mod events;
mod grow;
pub mod options;
mod release;
mod servable;
mod serve;
pub mod stats;

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

pub use options::Options;
pub use stats::Statistics;

use super::cut::padded_bytes;
use super::index::BySize;
use super::{Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::truth::TruthSegment;
use crate::trace::{PoolId, PoolStep, Slot, StreamId};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The option string, as in `PYTORCH_CUDA_ALLOC_CONF`.
    pub conf: String,
    /// The release whose order of equal-size blocks is followed.
    pub version: Version,
}

/// Which release's order of equal-size free blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Default)]
pub enum Version {
    /// Up to 2.11: by address.
    #[default]
    #[serde(rename = "2.11")]
    V2_11,
    /// 2.12: by creation number of the block object.
    #[serde(rename = "2.12")]
    V2_12,
    /// 2.13 on: by creation number of the segment, then address.
    #[serde(rename = "2.13")]
    V2_13,
}

/// What PyTorch keeps in a block object beside its place in the tiling.
#[derive(Debug, Clone, Copy, Default)]
struct Info {
    requested_bytes: u64,
    /// Creation number of the object.
    number: u64,
    /// `calls` of the pool when the block last entered the free set.
    gc_base: u64,
    /// Index of the pool pair.
    pair: u32,
    /// Events that must pass before the block is free.
    events: u32,
    stream: StreamId,
    small: bool,
}

/// The free set of one kind of block of one pool pair.
#[derive(Default)]
struct Pool {
    /// Mapped, inactive blocks, by stream.
    free: Vec<BySize>,
    /// Parts of reservations without pages, by stream and address.
    unmapped: Vec<BTreeMap<u64, BlockId>>,
    /// Searches, for the ages of garbage collection.
    calls: u64,
}

impl Pool {
    fn reach(&mut self, stream: StreamId) -> usize {
        let at = usize::from(stream);
        if at >= self.free.len() {
            self.free.resize_with(at + 1, BySize::new);
            self.unmapped.resize_with(at + 1, BTreeMap::new);
        }
        at
    }
}

/// A pool of small and one of large blocks: the default one, or a private one.
#[derive(Default)]
struct Pair {
    small: Pool,
    large: Pool,
    uses: i64,
    /// Outstanding driver allocations (counted as PyTorch counts them).
    driver_allocations: i64,
    no_split: bool,
    use_on_oom: bool,
    freeable: bool,
}

impl Pair {
    fn pool(&mut self, small: bool) -> &mut Pool {
        if small {
            &mut self.small
        } else {
            &mut self.large
        }
    }
}

/// The policy.
pub struct PyTorch {
    options: Options,
    version: Version,
    cap_bytes: Option<u64>,
    pairs: Vec<Pair>,
    /// The pool pair of each pool of the trace.
    pair_of: BTreeMap<PoolId, u32>,
    /// Pools that requests are routed to at present, the most recent last.
    routes: Vec<PoolId>,
    infos: Vec<Info>,
    /// Creation numbers of segments, by handle.
    segment_numbers: Vec<u64>,
    next_number: u64,
    next_segment: u64,
    /// Streams that use a block, until it is freed.
    uses: BTreeMap<BlockId, Vec<Option<StreamId>>>,
    /// Blocks whose free waits for an event, by the stream of the event.
    queues: BTreeMap<Option<StreamId>, VecDeque<BlockId>>,
    /// Frees during a capture, to be looked at after it.
    deferred: Vec<BlockId>,
    /// Whether all events are over at the next request; `None` lets the trace say so.
    events_over: Option<bool>,
    statistics: Statistics,
}

impl PyTorch {
    /// The allocator by `spec`.
    ///
    /// # Errors
    /// An option string that PyTorch would refuse.
    pub fn new(spec: &Spec) -> Result<Self, PolicyError> {
        let mut options = Options::default();
        options
            .parse(&spec.conf)
            .map_err(|what| PolicyError::new("pytorch", what))?;
        Ok(PyTorch {
            options,
            version: spec.version,
            cap_bytes: None,
            pairs: vec![Pair::default()],
            pair_of: BTreeMap::from([(0, 0)]),
            routes: Vec::new(),
            infos: Vec::new(),
            segment_numbers: Vec::new(),
            next_number: 0,
            next_segment: 0,
            uses: BTreeMap::new(),
            queues: BTreeMap::new(),
            deferred: Vec::new(),
            events_over: None,
            statistics: Statistics::default(),
        })
    }

    /// The options in force; a program may parse a new string in the middle of a run.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The options in force.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The program made a pool for later use.
    pub fn create_pool(&mut self, pool: PoolId) {
        let pair = self.pair(pool);
        self.pairs[pair as usize].uses += 1;
    }

    /// PyTorch's own statistics.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Caps what the process may take, in bytes; `None` lifts it.
    pub fn set_cap(&mut self, cap_bytes: Option<u64>) {
        self.cap_bytes = cap_bytes;
    }

    /// Says whether all recorded events are over, instead of the trace.
    pub fn set_events_over(&mut self, over: bool) {
        self.events_over = Some(over);
    }

    /// Blocks of the pool are never split.
    pub fn set_no_split(&mut self, pool: PoolId) {
        let pair = self.pair(pool);
        self.pairs[pair as usize].no_split = true;
    }

    /// The pool may serve default requests that would fail.
    pub fn set_use_on_oom(&mut self, pool: PoolId, on: bool) {
        let pair = self.pair(pool);
        self.pairs[pair as usize].use_on_oom = on;
    }

    /// Bytes that the block's last request asked for (stale where it is free).
    #[must_use]
    pub fn requested_bytes(&self, block: BlockId) -> u64 {
        self.infos[block.0 as usize].requested_bytes
    }

    /// Whether the block belongs to a pool of small blocks.
    #[must_use]
    pub fn is_small(&self, block: BlockId) -> bool {
        self.infos[block.0 as usize].small
    }

    /// Stream that the block belongs to.
    #[must_use]
    pub fn stream_of(&self, block: BlockId) -> StreamId {
        self.infos[block.0 as usize].stream
    }

    /// Pool of the trace that the block belongs to.
    #[must_use]
    pub fn pool_of(&self, block: BlockId) -> PoolId {
        let pair = self.infos[block.0 as usize].pair;
        self.pair_of
            .iter()
            .find(|(_, known)| **known == pair)
            .map_or(0, |(pool, _)| *pool)
    }

    fn pair(&mut self, pool: PoolId) -> u32 {
        if pool == 0 {
            return 0;
        }
        *self.pair_of.entry(pool).or_insert_with(|| {
            self.pairs.push(Pair::default());
            (self.pairs.len() - 1) as u32
        })
    }

    fn info(&self, block: BlockId) -> Info {
        self.infos[block.0 as usize]
    }

    fn set_info(&mut self, block: BlockId, info: Info) {
        let at = block.0 as usize;
        if at >= self.infos.len() {
            self.infos.resize(at + 1, Info::default());
        }
        self.infos[at] = info;
    }

    /// A new block object of the same pool and stream.
    fn fresh(&mut self, like: Info) -> Info {
        self.next_number += 1;
        Info {
            requested_bytes: 0,
            number: self.next_number,
            gc_base: 0,
            events: 0,
            ..like
        }
    }

    fn is_expandable(space: &Space, block: BlockId) -> bool {
        space.segment_page(space.segment(block)).is_some()
    }

    fn is_split(space: &Space, block: BlockId) -> bool {
        space.prev(block).is_some() || space.next(block).is_some()
    }

    /// The second key of the free set, by release.
    fn order(&self, block: BlockId, space: &Space) -> u64 {
        match self.version {
            Version::V2_11 => space.base(block),
            Version::V2_12 => self.info(block).number,
            Version::V2_13 => {
                let segment = space.segment(block);
                let offset = space.base(block) - space.segment_base(segment);
                self.segment_numbers[segment.0 as usize] << 42 | offset
            }
        }
    }

    fn enter(&mut self, block: BlockId, space: &Space) {
        let info = self.info(block);
        let order = self.order(block, space);
        let pool = self.pairs[info.pair as usize].pool(info.small);
        let at = pool.reach(info.stream);
        pool.free[at].insert(space.bytes(block), order, block.0);
        self.infos[block.0 as usize].gc_base = pool.calls;
    }

    fn leave(&mut self, block: BlockId, space: &Space) {
        let info = self.info(block);
        let order = self.order(block, space);
        let pool = self.pairs[info.pair as usize].pool(info.small);
        let at = pool.reach(info.stream);
        let was_there = pool.free[at].remove(space.bytes(block), order);
        if !was_there {
            unlisted(space);
        }
    }

    fn gc_on(&self) -> bool {
        self.cap_bytes.is_some() && self.options.gc_threshold > 0.0
    }
}

/// A free block was not in its free set.
#[cold]
#[inline(never)]
fn unlisted(space: &Space) -> ! {
    panic!(
        "event {}: a free block was not in its free set",
        space.event()
    )
}

/// A request with its rounded size and its pool.
#[derive(Debug, Clone, Copy)]
struct Want {
    pair: u32,
    small: bool,
    stream: StreamId,
    /// Rounded request.
    bytes: u64,
    /// What the driver would be asked for.
    segment_bytes: u64,
}

impl Policy for PyTorch {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        space.claim_capacity();
        let total = space.device().total_bytes;
        let fraction = self.options.memory_fraction;
        let by_option = (fraction < 1.0).then_some((fraction * total as f64) as u64);
        let by_capacity = (space.capacity_bytes() < total).then_some(space.capacity_bytes());
        self.cap_bytes = by_option.into_iter().chain(by_capacity).min();
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let padded = padded_bytes(request.bytes, request.align, options::MIN_BLOCK_BYTES);
        let Some(padded) = padded.filter(|bytes| *bytes < options::TOO_LARGE_BYTES) else {
            return Err(OutOfMemory::overflow(request.bytes));
        };
        let capturing = self.capturing(request);
        if !capturing {
            self.process_events(space);
        }
        let mut want = self.want(padded, request);
        let Some(mut block) = self.obtain(&want, capturing, space) else {
            self.statistics.num_ooms += 1;
            let cause = self.cause(&want);
            return Err(OutOfMemory {
                wanted_bytes: want.bytes,
                cause,
            });
        };
        if padded > request.bytes {
            block = self.align(block, request.align, space);
            want.bytes = self.options.round(request.bytes);
        }
        self.hand_out(block, &want, request, space);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, _: StreamId, pending: bool, space: &mut Space) {
        self.give_back(block, pending, space);
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        for queue in self.queues.values_mut() {
            queue.retain(|waiting| *waiting != block);
        }
        self.deferred.retain(|waiting| *waiting != block);
        self.finish(block, space);
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, _: &mut Space) {
        self.record_stream(block, stream);
    }

    fn trim(&mut self, space: &mut Space) {
        let routed = self.version < Version::V2_13 && !self.routes.is_empty();
        self.release_cached(routed, space);
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, _: StreamId, _: &mut Space) {
        let pair = self.pair(pool) as usize;
        match step {
            PoolStep::Begin => {
                self.pairs[pair].uses += 1;
                self.routes.push(pool);
            }
            PoolStep::End => {
                if let Some(at) = self.routes.iter().rposition(|routed| *routed == pool) {
                    self.routes.remove(at);
                }
            }
            PoolStep::Release => {
                self.pairs[pair].uses -= 1;
                self.pairs[pair].freeable = self.pairs[pair].uses <= 0;
            }
        }
    }

    fn blind(&self) -> bool {
        false
    }

    fn adopt(
        &mut self,
        segments: &[TruthSegment],
        space: &mut Space,
    ) -> Option<Vec<(Slot, BlockId)>> {
        Some(self.take_over(segments, space))
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        self.statistics.named()
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        // Asked at every event: plain loops over what are a few sets as a rule.
        let mut largest_bytes = 0;
        for pair in &self.pairs {
            for set in &pair.small.free {
                largest_bytes = largest_bytes.max(set.largest_bytes());
            }
            for set in &pair.large.free {
                largest_bytes = largest_bytes.max(set.largest_bytes());
            }
        }
        Some(largest_bytes)
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        let is_sane = request.bytes < options::TOO_LARGE_BYTES;
        is_sane.then(|| self.options.round(request.bytes))
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        self.largest_servable(space, stream)
    }
}
