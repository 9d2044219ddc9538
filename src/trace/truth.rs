//! What a recording knows beyond its requests: kept beside the events, read only by
//! `fidelity` and its observers, so that no policy can peek at an address.

use super::Trace;
use crate::units::ADDRESS_LIMIT;

/// What a recorded entry tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthKind {
    /// A request was served at `address`; `bytes` as requested.
    Alloc,
    /// A block was given back by the program.
    FreeRequested,
    /// A block became reusable.
    FreeCompleted,
    /// The driver gave a segment of `bytes` at `address`.
    SegmentAlloc,
    /// A segment went back to the driver.
    SegmentFree,
    /// Pages of a reservation were mapped.
    SegmentMap,
    /// Pages of a reservation were unmapped.
    SegmentUnmap,
    /// A request failed; `bytes` is the rounded request, `address` the device-free bytes.
    Oom,
    /// Bytes in use after the event (`bytes`), as the allocator says.
    UsedAfter,
    /// Bytes reserved after the event (`bytes`).
    ReservedAfter,
    /// Largest free block after the event (`bytes`).
    LargestFreeAfter,
    /// Device-free bytes after the event (`bytes`).
    DeviceFreeAfter,
    /// Host time of the call in ns (`bytes`).
    HostNs,
}

/// One recorded fact, in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruthEntry {
    /// The event of the trace that it belongs to (the event during which it happened);
    /// the number of events where it came after the last one.
    pub event: u32,
    /// Which fact.
    pub kind: TruthKind,
    /// Stream as the trace numbers it.
    pub stream: u16,
    /// Pool as the trace numbers it, where known; else 0.
    pub pool: u16,
    /// Absolute address as recorded.
    pub address: u64,
    /// Bytes, as the kind says.
    pub bytes: u64,
}

/// State of a recorded block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruthState {
    /// Live.
    Active,
    /// Freed, a stream may still use it.
    Pending,
    /// Free.
    Inactive,
}

/// A block of a recorded segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruthBlock {
    /// Absolute address.
    pub address: u64,
    /// Bytes of the block; of an initial block whose size is not known, the best inference.
    pub bytes: u64,
    /// Bytes requested (stale where inactive).
    pub requested_bytes: u64,
    /// State.
    pub state: TruthState,
    /// The slot of the trace that it is, where it is live in it.
    pub slot: Option<u32>,
}

/// A segment as recorded: one driver allocation, or one mapped run of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruthSegment {
    /// Absolute address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Stream as the trace numbers it.
    pub stream: u16,
    /// Pool as the trace numbers it.
    pub pool: u16,
    /// Whether it belongs to the pool of large blocks.
    pub large: bool,
    /// Whether it is a mapped run of a virtual reservation.
    pub expandable: bool,
    /// Its blocks in address order.
    pub blocks: Vec<TruthBlock>,
}

impl TruthEntry {
    /// Whether it ends where no address is.
    fn passes_the_end(&self) -> bool {
        let is_mapping = matches!(self.kind, TruthKind::SegmentAlloc | TruthKind::SegmentMap);
        let most = if is_mapping { ADDRESS_LIMIT } else { u64::MAX };
        let end = self.address.checked_add(self.bytes);
        end.is_none_or(|end| end > most)
    }
}

impl TruthSegment {
    /// What of it cannot be.
    fn unsound(&self, trace: &Trace) -> Option<String> {
        let shown = format!("segment at 0x{:x}", self.address);
        let end = self.address.checked_add(self.bytes);
        let Some(end) = end.filter(|end| *end <= ADDRESS_LIMIT) else {
            return Some(format!("{shown} passes the end of the address space"));
        };
        if usize::from(self.stream) >= trace.streams.len().max(1) {
            return Some(format!(
                "{shown} is of stream {}, which is not there",
                self.stream
            ));
        }
        if usize::from(self.pool) >= trace.pools.len().max(1) {
            return Some(format!(
                "{shown} is of pool {}, which is not there",
                self.pool
            ));
        }
        let mut from = self.address;
        for block in &self.blocks {
            let inside = block.address >= from && block.bytes <= end.saturating_sub(block.address);
            if !inside || block.slot.is_some_and(|slot| slot >= trace.slots) {
                return Some(format!(
                    "block at 0x{:x} does not fit in {shown}",
                    block.address
                ));
            }
            from = block.address + block.bytes;
        }
        None
    }
}

impl Truth {
    /// Checks that segments, blocks and facts can be what they say, and fit the trace of
    /// so many events.
    ///
    /// # Errors
    /// The first that cannot, in words.
    pub fn sound(&self, trace: &Trace, events: u64) -> Result<(), String> {
        let segments = self.initial.iter().chain(&self.last);
        if let Some(what) = segments.filter_map(|it| it.unsound(trace)).next() {
            return Err(what);
        }
        let wrong = self.entries.iter().find(|fact| {
            u64::from(fact.event) > events
                || usize::from(fact.stream) >= trace.streams.len().max(1)
                || usize::from(fact.pool) >= trace.pools.len().max(1)
                || fact.passes_the_end()
        });
        match wrong {
            None => Ok(()),
            Some(fact) => Err(format!("{fact:?} does not fit the trace")),
        }
    }
}

/// All that a recording knows beyond its requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truth {
    /// What made the recording: `pytorch`, `rmm`, `plain`.
    pub source: String,
    /// Facts in file order.
    pub entries: Vec<TruthEntry>,
    /// Segments before the first event.
    pub initial: Vec<TruthSegment>,
    /// Segments at the end, as the recording shows them.
    pub last: Vec<TruthSegment>,
    /// Settings by name (`PYTORCH_CUDA_ALLOC_CONF`, `max_split_size`, ...).
    pub settings: Vec<(String, String)>,
}
