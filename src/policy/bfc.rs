//! Best fit with coalescing over regions: the mechanism under [`xla`] and [`ort`].
//!
//! Source: the behaviour of TensorFlow 2.21's and XLA's BFC allocator as the project's
//! specification tells it (part A), met line by line against the official library; and of
//! the arena of ONNX Runtime, which began as a copy of it.
//!
//! Tie-breaks: the smallest free chunk that is large enough; of equal ones the lowest
//! address (the bins of the original are ordered by size, then address, so that its
//! search comes to the same). The low part of a split is handed out. Regions without a
//! used chunk are given back all together, in address order.
//!
//! Streams: the framework runs all compute on one stream and orders copies around it
//! before it hands a buffer back, so the allocator knows of none: the policy is blind.
//! Requests aligned beyond 256 bytes are padded, as newer XLA does; what is cut off in
//! front stays free.

mod grow;
pub mod ort;
mod slots;
pub mod xla;

use super::Policy;
use super::cut::{cut_back, cut_front, padded_bytes};
use super::index::{BySize, Entry};
use super::limit::Limit;
use crate::space::{BlockId, OutOfMemory, Request, SegmentId, Space};
use crate::trace::StreamId;
use crate::units::{MIB, round_up};
use slots::Slots;

/// Sizes and addresses are multiples of this, in bytes.
pub const QUANTUM_BYTES: u64 = 256;
/// A chunk is split for what is this much smaller, whatever its size.
const SPLIT_SLACK_BYTES: u64 = 128 * MIB;

/// How large the next region is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Growth {
    /// As large as the request.
    AsRequested,
    /// At least `first_bytes`, then twice as much each time.
    Doubling {
        first_bytes: u64,
        /// What doubling without need stops at; it then also doubles where the driver
        /// refuses (ONNX Runtime).
        most_bytes: Option<u64>,
    },
}

/// When a chunk is split although it is less than twice the request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Slack {
    /// The rest is at least so many bytes.
    Bytes(u64),
    /// The rest is at least this part of the limit.
    Fraction(f64),
}

/// What tells one allocator of this kind from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rules {
    limit: Limit,
    growth: Growth,
    slack: Slack,
    /// Free regions go back to the driver before a request fails.
    collects: bool,
    /// New memory continues the region below it.
    continues: bool,
    /// A refused extension is tried smaller down to this, in bytes.
    retry_down_to_bytes: u64,
    /// Free regions go back at a trim, and the next region has so many bytes.
    shrinks_to_bytes: Option<u64>,
}

/// What the allocator says of itself.
#[derive(Debug, Clone, Copy, Default)]
struct Statistics {
    num_allocs: i64,
    bytes_in_use: i64,
    peak_bytes_in_use: i64,
    largest_alloc_size: i64,
    pool_bytes: i64,
    peak_pool_bytes: i64,
    endless_extensions: i64,
}

/// The policy.
pub struct Bfc {
    rules: Rules,
    limit_bytes: u64,
    slack_bytes: u64,
    region_bytes: u64,
    free: BySize,
    slots: Slots,
    /// The unmapped rest of the reservation that regions continue in.
    tail: Option<BlockId>,
    first_region: Option<SegmentId>,
    statistics: Statistics,
}

impl Bfc {
    fn new(rules: Rules) -> Self {
        Bfc {
            rules,
            limit_bytes: 0,
            slack_bytes: 0,
            region_bytes: 0,
            free: BySize::new(),
            slots: Slots::default(),
            tail: None,
            first_region: None,
            statistics: Statistics::default(),
        }
    }

    /// Bytes that the last owner of the chunk's slot had asked for: what a memory map
    /// shows, stale where the chunk is free.
    #[must_use]
    pub fn requested_bytes(&self, block: BlockId) -> u64 {
        self.slots.requested_bytes(block)
    }

    fn enter(&mut self, block: BlockId, space: &Space) {
        let (bytes, base) = (space.bytes(block), space.base(block));
        self.free.insert(bytes, base, block.0);
    }

    fn leave(&mut self, block: BlockId, space: &Space) {
        let was_there = self.free.remove(space.bytes(block), space.base(block));
        assert!(
            was_there,
            "event {}: a free chunk was in no bin",
            space.event()
        );
    }

    /// The chunk becomes free: joined with its free neighbours, and into its bin.
    fn settle(&mut self, mut block: BlockId, space: &mut Space) {
        if let Some(above) = space.free_next(block) {
            self.leave(above, space);
            self.slots.drop(above);
            space.merge(block, above);
        }
        if let Some(below) = space.free_prev(block) {
            self.leave(below, space);
            self.slots.drop(block);
            space.merge(below, block);
            block = below;
        }
        self.enter(block, space);
    }

    /// Hands the found chunk out, split where the rule says so.
    fn hand_out(
        &mut self,
        found: Entry,
        bytes: u64,
        request: &Request,
        space: &mut Space,
    ) -> BlockId {
        let whole = BlockId(found.block);
        self.leave(whole, space);
        let (padding, block) = cut_front(whole, request.align, space);
        if let Some(padding) = padding {
            self.slots.take(block);
            self.enter(padding, space);
        }
        let rest_bytes = space.bytes(block) - bytes;
        if (rest_bytes >= bytes || rest_bytes >= self.slack_bytes)
            && let Some(rest) = cut_back(block, bytes, space)
        {
            self.slots.take(rest);
            self.enter(rest, space);
        }
        self.slots.set_requested(block, request.bytes);
        space.place(block, request);
        self.count_in(space.bytes(block));
        block
    }

    fn count_in(&mut self, bytes: u64) {
        let statistics = &mut self.statistics;
        statistics.num_allocs += 1;
        statistics.bytes_in_use += bytes as i64;
        statistics.peak_bytes_in_use = statistics.peak_bytes_in_use.max(statistics.bytes_in_use);
        statistics.largest_alloc_size = statistics.largest_alloc_size.max(bytes as i64);
    }

    fn pool_bytes(&self) -> u64 {
        self.statistics.pool_bytes as u64
    }
}

impl Policy for Bfc {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.limit_bytes = self.rules.limit.bytes(space).unwrap_or(u64::MAX);
        self.slack_bytes = match self.rules.slack {
            Slack::Bytes(bytes) => bytes,
            Slack::Fraction(part) => (part * self.limit_bytes as f64) as u64,
        };
        self.region_bytes = match self.rules.growth {
            Growth::AsRequested => 0,
            Growth::Doubling { first_bytes, .. } => {
                let first_bytes = first_bytes.min(self.limit_bytes);
                round_up(first_bytes, QUANTUM_BYTES).unwrap_or(first_bytes)
            }
        };
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, QUANTUM_BYTES);
        let look_for = bytes.and_then(|bytes| padded_bytes(bytes, request.align, QUANTUM_BYTES));
        let (Some(bytes), Some(look_for)) = (bytes, look_for) else {
            return Err(OutOfMemory::overflow(request.bytes));
        };
        let mut found = self.free.first_at_least(look_for);
        if found.is_none() && self.extend(look_for, space) {
            found = self.free.first_at_least(look_for);
        }
        if found.is_none()
            && self.rules.collects
            && self.collect(look_for, space)
            && self.extend(look_for, space)
        {
            found = self.free.first_at_least(look_for);
        }
        let found = found.ok_or(OutOfMemory::no_fit(bytes))?;
        Ok(self.hand_out(found, bytes, request, space))
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        self.statistics.bytes_in_use -= space.bytes(block) as i64;
        space.release(block, stream);
        self.settle(block, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, QUANTUM_BYTES)
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let mut more = self.extension_bytes(self.available_bytes(), space.room_bytes());
        if self.rules.collects {
            more = more.max(self.collected_bytes(space));
        }
        self.free.largest_bytes().max(more)
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        Some(self.free.largest_bytes())
    }

    fn trim(&mut self, space: &mut Space) {
        if let Some(next_bytes) = self.rules.shrinks_to_bytes {
            self.shrink(next_bytes, space);
        }
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        let statistics = &self.statistics;
        let limit = i64::try_from(self.limit_bytes).unwrap_or(i64::MAX);
        [
            ("num_allocs", statistics.num_allocs),
            ("bytes_in_use", statistics.bytes_in_use),
            ("peak_bytes_in_use", statistics.peak_bytes_in_use),
            ("largest_alloc_size", statistics.largest_alloc_size),
            ("bytes_limit", limit),
            ("pool_bytes", statistics.pool_bytes),
            ("peak_pool_bytes", statistics.peak_pool_bytes),
            ("endless_extensions", statistics.endless_extensions),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .to_vec()
    }
}
