//! A trace: what a program asked of an allocator, and never where it was placed.
//!
//! Events are 24 bytes. Allocations are named by *slots*: small numbers that are used
//! again once nothing can refer to the allocation any more, so that a replay keeps
//! its state in a dense table. The ids a file used are kept beside the events.
//!
//! What a recording knows beyond the requests (addresses, segments, settings) is
//! [`Truth`], kept apart: only `fidelity` and its observers read it.

pub mod builder;
pub mod check;
pub mod csv;
pub mod error;
pub mod keys;
pub mod minimalloc;
pub mod open;
pub mod pickle;
pub mod plain;
pub mod pytorch;
#[cfg(test)]
pub mod random;
mod relay;
pub mod rep;
pub mod rmm;
pub mod scale;
pub mod snapshot;
pub mod text;
pub mod truth;
pub mod unpack;
pub mod vlt;
pub mod wee;

pub use builder::TraceBuilder;
pub use error::TraceError;
pub use open::{OpenOptions, open};
pub use truth::Truth;

/// Dense number of a stream within one trace; the raw handle is in [`Trace::streams`].
pub type StreamId = u16;
/// Dense number of an allocator pool within one trace; 0 is the default pool.
pub type PoolId = u16;
/// Dense, recycled name of an allocation.
pub type Slot = u32;

/// In [`Event::Sync`]: the whole device. In [`Event::Use`]: which stream is not known.
pub const ANY_STREAM: StreamId = StreamId::MAX;

/// What happens to an allocator pool (a CUDA graph's private pool, a `MemPool`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolStep {
    /// Requests go to the pool from here on.
    Begin,
    /// Requests no longer go to the pool.
    End,
    /// Nobody needs the pool any more: its memory may go back at the next trim.
    Release,
}

/// One thing that a program did. A slot is live from its `Alloc` to its `Free`, and
/// stays taken until the `Complete` of a deferred free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are named and told in each variant's line"
)]
pub enum Event {
    /// A request; `align_log2` is 0 unless the trace asks for an alignment.
    Alloc {
        slot: Slot,
        bytes: u64,
        align_log2: u8,
        stream: StreamId,
        pool: PoolId,
        tag: u32,
    },
    /// A request that failed when it was recorded. A replay that can serve it gives
    /// it back at once, and what follows is counterfactual.
    Attempt {
        bytes: u64,
        align_log2: u8,
        stream: StreamId,
        pool: PoolId,
        tag: u32,
    },
    /// The program gave the block back; `deferred` where another stream may still
    /// use it until the slot's `Complete`.
    Free {
        slot: Slot,
        stream: StreamId,
        deferred: bool,
    },
    /// A second free of an allocation that is no longer live; `id` as the file had it.
    FreeAgain { id: u64 },
    /// A free of something never allocated; `id` as the file had it.
    FreeUnknown { id: u64 },
    /// A free of a raw offset from the start of the first segment.
    FreeAt { address: u64 },
    /// Another stream reads the block (PyTorch's `record_stream`).
    Use { slot: Slot, stream: StreamId },
    /// The stream's position is noted under `event`.
    Record { stream: StreamId, event: u32 },
    /// The stream goes on only after the position noted under `event`.
    Wait { stream: StreamId, event: u32 },
    /// The host waited for a stream, or for all of them ([`ANY_STREAM`]).
    Sync { stream: StreamId },
    /// A deferred free became reusable.
    Complete { slot: Slot },
    /// The block must not move.
    Pin { slot: Slot },
    /// The block may move again.
    Unpin { slot: Slot },
    /// The program asks for compaction.
    Compact,
    /// The program asks to give cached memory back (`empty_cache`).
    Trim,
    /// A pool step.
    Pool {
        step: PoolStep,
        pool: PoolId,
        stream: StreamId,
    },
    /// A phase or iteration begins; `label` indexes [`Trace::labels`].
    Mark { label: u32 },
}

const _: () = assert!(size_of::<Event>() == 24);

/// The names that a file gave its allocations, one for each `Alloc` or `Attempt` in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ids {
    /// The number of the allocation itself: 0, 1, 2, ...
    #[default]
    Ordinal,
    /// Numbers, as in a log of pointers or of ids.
    Numbers(Vec<u64>),
    /// Words, as in a hand-written file.
    Names(Vec<String>),
}

impl Ids {
    /// The name of the `ordinal`-th allocation of the trace.
    #[must_use]
    pub fn name(&self, ordinal: usize) -> String {
        match self {
            Ids::Ordinal => ordinal.to_string(),
            Ids::Numbers(numbers) => numbers
                .get(ordinal)
                .map_or_else(|| ordinal.to_string(), u64::to_string),
            Ids::Names(names) => names
                .get(ordinal)
                .cloned()
                .unwrap_or_else(|| ordinal.to_string()),
        }
    }
}

/// One line of an import report: something that was inferred or could not be carried over.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// How often.
    pub count: u64,
    /// What, and why, in a sentence.
    pub what: String,
}

/// What an importer says about its work; never silence.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ImportReport {
    /// The format as found by content, such as `pytorch snapshot`.
    pub format: String,
    /// Entries that the file held (rows, trace entries).
    pub entries: u64,
    /// Events that the trace holds.
    pub events: u64,
    /// What was inferred, and what could not be carried over and why.
    pub notes: Vec<Note>,
}

impl ImportReport {
    /// Adds a note unless `count` is 0.
    pub fn note(&mut self, count: u64, what: impl Into<String>) {
        if count > 0 {
            self.notes.push(Note {
                count,
                what: what.into(),
            });
        }
    }
}

/// A whole trace in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// A short name, from the file's.
    pub name: String,
    /// The events in order.
    pub events: Vec<Event>,
    /// Time of each event in ns since the start; empty where the file has no times
    /// (a replay then counts 1 us an event and says so).
    pub times_ns: Vec<u64>,
    /// How many slots the events name.
    pub slots: u32,
    /// The leading events that rebuild what was live before a recording began.
    pub initial_events: usize,
    /// The file's names of the allocations.
    pub ids: Ids,
    /// The raw handle of each [`StreamId`]; `[0]` where the file has no streams.
    pub streams: Vec<u64>,
    /// The raw id of each [`PoolId`]; index 0 is the default pool `(0, 0)`.
    pub pools: Vec<(u64, u64)>,
    /// The words of [`Event::Mark`].
    pub labels: Vec<String>,
    /// What each `tag` stands for (a stack, a phrase of the file); tag 0 is "none".
    pub tags: Vec<String>,
    /// The capacity that the trace itself tells (a cap, a pool's size), in bytes.
    pub capacity_bytes: Option<u64>,
    /// Which device of a recording of several.
    pub device: u32,
    /// What the recording knows beyond the requests.
    pub truth: Option<Box<Truth>>,
    /// What the importer says.
    pub report: ImportReport,
}

/// The time between two events of a trace without times.
pub const DEFAULT_STEP_NS: u64 = 1_000;

impl Trace {
    /// The time of the `index`-th event in ns since the start.
    #[must_use]
    pub fn time_ns(&self, index: usize) -> u64 {
        self.times_ns
            .get(index)
            .copied()
            .unwrap_or(index as u64 * DEFAULT_STEP_NS)
    }

    /// Whether the file had times.
    #[must_use]
    pub fn has_times(&self) -> bool {
        !self.times_ns.is_empty()
    }

    /// How many requests the trace makes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.events
            .iter()
            .filter(|event| matches!(event, Event::Alloc { .. } | Event::Attempt { .. }))
            .count() as u64
    }
}
