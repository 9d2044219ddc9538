//! The model of a GPU's global memory: segments, each tiled by blocks in address order.
//!
//! Two live blocks cannot overlap, because the tiling cannot say so: a block is cut in
//! two, two neighbours become one, a block changes its state, and nothing else happens.
//! What can still be wrong is asserted, always, and a broken rule panics with the
//! number of the event: placing on what is not free, too small or misaligned, merging
//! across segments, moving a pinned block, reuse on another stream before an ordering
//! point by a policy that claims to order streams.
//!
//! The driver lives inside: where addresses come from ([`driver`]), what its calls
//! cost ([`device`]), and how many pages are taken.

mod block;
mod clocks;
pub mod device;
pub mod driver;
mod host;
mod largest;
mod moves;
mod release;
mod segments;
mod serve;
mod share;
pub mod step;
mod stitch;
mod streams;
#[cfg(test)]
mod tests;
mod tiling;

use std::sync::Arc;

pub use block::State;
use block::{ALIGN, Block, Origin, PINNED};
pub use clocks::Clocks;
pub use device::Device;
pub use driver::{AddressOrder, Bench, Driver};
pub use serve::{Hole, Joined};
pub use share::Share;
pub use step::{Step, StepKind};
pub use streams::Tag;

use crate::trace::{Event, PoolId, StreamId};

/// The handle of a block. It stays valid while the block exists; the survivor of a
/// merge is the left block, and the low part of a split keeps its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// "No block" in the links of the tiling.
pub(crate) const NONE: u32 = u32::MAX;

/// The handle of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub u32);

/// One answer of the driver: a mapped range, or a reservation whose pages come and go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    base: u64,
    bytes: u64,
    first: u32,
    /// Highest end of a block ever handed out, from the segment's base.
    high_bytes: u64,
    /// Page size of a reservation; 0 for a segment mapped whole.
    page_bytes: u64,
    live: bool,
}

/// One request, as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Bytes asked for; never 0.
    pub bytes: u64,
    /// Alignment asked for, a power of two; 1 where none.
    pub align: u64,
    /// Stream that will use the block first.
    pub stream: StreamId,
    /// Pool that the program routed the request to; 0 is the default.
    pub pool: PoolId,
    /// What the trace says of the request's origin (a stack); 0 is nothing.
    pub tag: u32,
}

impl Request {
    /// What an event asks for; `None` where it asks for nothing.
    #[inline]
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let (Event::Alloc {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
            ..
        }
        | Event::Attempt {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
        }) = *event
        else {
            return None;
        };
        Some(Request {
            bytes,
            align: 1 << align_log2,
            stream,
            pool,
            tag,
        })
    }
}

/// Why a request could not be served, as far as the policy knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No block was large enough and the driver gave no more.
    NoFit,
    /// Rounding the request up passed the largest integer.
    Overflow,
    /// A block that fits is there, but belongs to another pool.
    Pool,
    /// A block that fits is there, but another stream may still use it.
    Stream,
    /// A block that fits is there, but belongs to another size class.
    Class,
    /// Compaction would have made room, had a block not been pinned.
    Pinned,
}

/// A shortage: a value, not a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Bytes that the policy looked for, after its rounding.
    pub wanted_bytes: u64,
    /// Why, as far as the policy knows.
    pub cause: Cause,
}

impl OutOfMemory {
    /// Nothing fits.
    #[must_use]
    pub fn no_fit(wanted_bytes: u64) -> Self {
        OutOfMemory {
            wanted_bytes,
            cause: Cause::NoFit,
        }
    }

    /// The rounded size passes the largest integer.
    #[must_use]
    pub fn overflow(bytes: u64) -> Self {
        OutOfMemory {
            wanted_bytes: bytes,
            cause: Cause::Overflow,
        }
    }
}

/// Sums that the Space keeps at every moment; all in bytes unless the name says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Mapped from the driver.
    pub reserved_bytes: u64,
    /// Peak of `reserved_bytes`, also within an event.
    pub peak_reserved_bytes: u64,
    /// Used blocks.
    pub used_bytes: u64,
    /// Peak of `used_bytes`, also within an event.
    pub peak_used_bytes: u64,
    /// Free blocks.
    pub free_bytes: u64,
    /// Pending blocks.
    pub pending_bytes: u64,
    /// Retired blocks.
    pub retired_bytes: u64,
    /// Sum over live segments of the highest end ever handed out.
    pub high_bytes: u64,
    /// Peak of `high_bytes`.
    pub high_water_bytes: u64,
    /// Physical pages taken from the card, in bytes.
    pub page_bytes: u64,
    /// How many Used blocks.
    pub used_blocks: u64,
    /// Calls to the driver.
    pub driver_calls: u64,
    /// Segments mapped or reservations made so far.
    pub segments_made: u64,
    /// Segments given back to the driver so far, which waits for the device to do so.
    pub segments_given_back: u64,
    /// Blocks moved.
    pub moves: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Bytes copied to the host and back.
    pub paged_bytes: u64,
    /// Time that requests had to wait for moves and for transfers, ns.
    pub pause_ns: u64,
    /// Times that a policy waited for the whole device.
    pub stalls: u64,
    /// Waits of one stream for another that a policy inserted.
    pub waits: u64,
    /// Simulated cost of driver calls, moves, transfers and stalls, ns.
    pub cost_ns: u64,
    /// How many Free blocks.
    pub free_blocks: u64,
}

/// How to set up a Space.
#[derive(Debug, Clone)]
pub struct SpaceConfig {
    /// The card: its size, page and costs.
    pub device: Arc<Device>,
    /// What may be reserved, in bytes.
    pub capacity_bytes: u64,
    /// Whether the policy leaves the order of streams to others: no tags are kept.
    pub blind: bool,
    /// How many streams the trace names.
    pub streams: usize,
    /// Where addresses come from.
    pub addresses: AddressOrder,
    /// Whether steps are recorded for observers.
    pub record_steps: bool,
}

impl SpaceConfig {
    /// A bare card of `capacity_bytes` with pages of one byte, no costs and addresses
    /// from 0 up: what hand-sized examples and tests use.
    #[must_use]
    pub fn bare(capacity_bytes: u64) -> Self {
        SpaceConfig {
            device: Arc::new(Device::bare(capacity_bytes)),
            capacity_bytes,
            blind: true,
            streams: 1,
            addresses: AddressOrder::BottomUp,
            record_steps: false,
        }
    }
}

/// The address space, its blocks and the driver below.
#[derive(Debug, Clone)]
pub struct Space {
    blocks: Vec<Block>,
    /// One a block, or empty while all are as at the beginning: of the first segment, on
    /// stream 0, of no alignment and not pinned.
    origins: Vec<Origin>,
    /// Nothing needs more than the tiling and its sums: see `serve`.
    is_plain: bool,
    /// No block was placed above this by the short way since the first segment began.
    plain_end: u64,
    /// The block that was handed out last, and its bytes; none where any was given back since.
    placed: (BlockId, u64),
    /// The handle dropped last; each such block names the one dropped before it as its next.
    spare_block: u32,
    segments: Vec<Segment>,
    spare_segments: Vec<u32>,
    counters: Counters,
    device: Arc<Device>,
    driver: Driver,
    capacity_bytes: u64,
    capacity_claimed: bool,
    /// What of the capacity lies on the host.
    host_bytes: u64,
    /// Reserved outside the share that the Space is narrowed to.
    elsewhere_bytes: u64,
    orders: Option<streams::Orders>,
    largest: Option<largest::Sizes>,
    aliases: stitch::Aliases,
    steps: Vec<Step>,
    record_steps: bool,
    now_ns: u64,
    event: u64,
    paused_until_ns: u64,
    stream_handles: Vec<u64>,
}

impl Space {
    /// An empty space.
    #[must_use]
    pub fn new(config: SpaceConfig) -> Self {
        let driver = Driver::new(config.addresses, &config.device);
        let mut space = Space {
            blocks: Vec::new(),
            origins: Vec::new(),
            is_plain: false,
            plain_end: 0,
            placed: (BlockId(NONE), 0),
            spare_block: NONE,
            segments: Vec::new(),
            spare_segments: Vec::new(),
            counters: Counters::default(),
            driver,
            capacity_bytes: config.capacity_bytes,
            capacity_claimed: false,
            host_bytes: 0,
            elsewhere_bytes: 0,
            orders: (!config.blind).then(|| streams::Orders::new(config.streams)),
            largest: None,
            aliases: stitch::Aliases::default(),
            steps: Vec::new(),
            record_steps: config.record_steps,
            now_ns: 0,
            event: 0,
            paused_until_ns: 0,
            stream_handles: Vec::new(),
            device: config.device,
        };
        space.judge_plain();
        space
    }

    /// Tells the raw handles of the streams, which some allocators order by.
    pub fn name_streams(&mut self, handles: &[u64]) {
        self.stream_handles = handles.to_vec();
    }

    /// The raw handle of a stream; its number where none was told.
    #[must_use]
    pub fn stream_handle(&self, stream: crate::trace::StreamId) -> u64 {
        let at = usize::from(stream);
        self.stream_handles
            .get(at)
            .copied()
            .unwrap_or(u64::from(stream))
    }

    /// The sums of the moment.
    #[inline]
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many handles there are, of blocks that are there and of blocks that were.
    #[must_use]
    pub fn blocks_made(&self) -> usize {
        self.blocks.len()
    }

    /// The card.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's addresses, for a replay that feeds recorded ones.
    pub fn driver_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// What may be reserved, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The policy checks the capacity by a rule of its own from here on; the driver
    /// then refuses only what the card cannot hold.
    pub fn claim_capacity(&mut self) {
        self.capacity_claimed = true;
    }

    /// Bytes that the driver would still give.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        let card = self.total_bytes().saturating_sub(self.counters.page_bytes);
        if self.capacity_claimed {
            card
        } else {
            let own_bytes = self.counters.reserved_bytes - self.elsewhere_bytes;
            card.min(self.capacity_bytes.saturating_sub(own_bytes))
        }
    }

    /// Trace time of the present event, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Number of the present event.
    #[must_use]
    pub fn event(&self) -> u64 {
        self.event
    }

    /// The end of the present pause in trace time, ns.
    #[must_use]
    #[inline]
    pub fn paused_until_ns(&self) -> u64 {
        self.paused_until_ns
    }

    /// An event begins: its number and time; the steps of the last one are dropped.
    #[inline(always)]
    pub fn begin_event(&mut self, event: u64, now_ns: u64) {
        self.event = event;
        self.now_ns = now_ns;
        if self.record_steps {
            self.steps.clear();
        }
    }

    /// Whether steps are recorded, so that each event begins with none.
    #[must_use]
    pub(crate) fn records_steps(&self) -> bool {
        self.record_steps
    }

    /// As [`begin_event`](Self::begin_event), where no steps are recorded.
    #[inline(always)]
    pub(crate) fn begin_plain_event(&mut self, event: u64, now_ns: u64) {
        self.event = event;
        self.now_ns = now_ns;
    }

    /// The steps of the present event.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    #[inline]
    fn emit(&mut self, step: Step) {
        if self.record_steps {
            self.steps.push(step);
        }
    }

    /// Charges time to the simulated clock, ns.
    pub fn charge(&mut self, cost_ns: u64) {
        self.counters.cost_ns += cost_ns;
    }

    /// Charges time that requests have to wait for, ns.
    fn pause(&mut self, cost_ns: u64) {
        self.counters.pause_ns += cost_ns;
        self.charge(cost_ns);
        self.paused_until_ns = self.paused_until_ns.max(self.now_ns) + cost_ns;
    }

    fn charge_call(&mut self, cost_ns: u64) {
        self.counters.driver_calls += 1;
        self.counters.cost_ns += cost_ns;
    }

    /// A broken rule: told with the number of the event.
    #[cold]
    #[inline(never)]
    fn broken(&self, block: u32, rule: &str) -> ! {
        let shown = self.blocks.get(block as usize);
        let shown = shown.map(|block| (block.base(), block.state(), block.prev, block.next));
        let origin = self
            .origins
            .get(block as usize)
            .copied()
            .unwrap_or_default();
        panic!(
            "event {}: {rule} (block {block}: base, state, neighbours {shown:?}, {origin:?})",
            self.event
        )
    }
}
