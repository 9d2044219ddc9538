//! PyTorch's memory snapshot, decoded and owned but not interpreted.
//!
//! This is the file that `torch.cuda.memory._dump_snapshot` writes: the allocator's segments and blocks
//! at one moment, and what happened before it, device by device. [`read`] takes the dialects of PyTorch
//! 2.0 to 2.15, those of TorchScript's pickler and bare lists of segments; [`write()`] makes a file that
//! PyTorch's own viewer opens. Bytes are what the file says: requested sizes where it has requested
//! sizes, rounded ones where it has rounded ones (see [`Entry::bytes`]).

mod ahead;
mod decode;
mod error;
mod finish;
mod plan;
mod record;
mod settings;
mod table;
mod word;
mod write;

pub use error::SnapshotError;
pub use settings::{Setting, Settings};
pub use table::{Frame, FrameId, PoolId, StackId, Tables, TextId};
pub use write::write;

pub use super::pickle::looks_like_pickle;

/// A decoded snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Segments of all devices, in the order of the file.
    pub segments: Vec<Segment>,
    /// What happened, one list a device, oldest first.
    pub device_traces: Vec<Vec<Entry>>,
    /// The allocator's settings; absent before PyTorch 2.3.
    pub settings: Option<Settings>,
    /// What the program annotated with `record_function`; empty before PyTorch 2.5.
    pub annotations: Vec<Annotation>,
    /// Texts, call stacks and pools that the above name.
    pub tables: Tables,
    /// Keys that this reader does not know, sorted by name, and how often they occurred.
    pub ignored_keys: Vec<(String, u64)>,
    /// Actions that this reader does not know, sorted by name, and how many entries had them.
    pub unknown_actions: Vec<(String, u64)>,
    /// What else was left out, in sentences.
    pub notes: Vec<String>,
}

/// A stretch of device memory that the allocator got from the driver.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Device number.
    pub device: u32,
    /// First byte.
    pub address: u64,
    /// Length.
    pub total_bytes: u64,
    /// Sum of the sizes of its allocated blocks.
    pub allocated_bytes: u64,
    /// The same with blocks whose free is pending.
    pub active_bytes: u64,
    /// What was asked for in its active blocks; absent in the oldest files.
    pub requested_bytes: Option<u64>,
    /// The stream that it serves, 0 being the default stream.
    pub stream: u64,
    /// Whether it belongs to the pool of large blocks.
    pub large: bool,
    /// The private pool that owns it, (0, 0) being none; absent before PyTorch 2.1.
    pub pool: Option<PoolId>,
    /// Whether it is a mapped run of an expandable reservation.
    pub expandable: bool,
    /// Where the program made it.
    pub stack: Option<StackId>,
    /// Its blocks in address order.
    pub blocks: Vec<Block>,
}

/// A block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// What was asked for; stale where the block is inactive, absent in the oldest files.
    pub requested_bytes: Option<u64>,
    /// Whether it is in use.
    pub state: BlockState,
    /// Where the program allocated it.
    pub stack: Option<StackId>,
}

/// Whether a block is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// In use.
    ActiveAllocated,
    /// Freed, but another stream may still use it.
    ActivePendingFree,
    /// Free.
    Inactive,
}

/// What an entry of a trace tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// The program freed a block.
    FreeRequested,
    /// The block became reusable.
    FreeCompleted,
    /// A segment was got from the driver.
    SegmentAlloc,
    /// A segment was given back.
    SegmentFree,
    /// Pages of an expandable reservation were mapped.
    SegmentMap,
    /// Pages of an expandable reservation were unmapped.
    SegmentUnmap,
    /// A snapshot was taken.
    Snapshot,
    /// A request failed.
    Oom,
    /// A live allocation got a note, held in [`Entry::user_metadata`].
    Annotate,
    /// An action of this name, which this reader does not know.
    Unknown(TextId),
}

/// One entry of a device's trace, in 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// What happened.
    pub action: Action,
    /// How much: requested bytes for `alloc` and frees, real bytes for segments, the rounded request for
    /// `oom`, active bytes for `snapshot`.
    pub bytes: u64,
    /// The stream, 0 being the default stream.
    pub stream: u64,
    /// Where in the program, if call stacks were recorded.
    pub stack: Option<StackId>,
    /// The private pool; absent before PyTorch 2.12.
    pub pool: Option<PoolId>,
    /// What the program said about itself at that time, if anything.
    pub user_metadata: Option<TextId>,
    /// The compiled region it was in, if any.
    pub compile_context: Option<TextId>,
    /// The address; for `oom`, which has none, what the device had free ([`UNKNOWN_FREE`] if unknown).
    place: u64,
    /// The time, [`NO_TIME`] if unknown.
    time_us: i64,
}

const UNKNOWN_FREE: u64 = u64::MAX;
const NO_TIME: i64 = i64::MIN;

impl Entry {
    /// An entry without a time, a call stack and the like. The address of an `oom` is ignored.
    pub fn new(action: Action, address: u64, bytes: u64, stream: u64) -> Self {
        Entry {
            action,
            bytes,
            stream,
            stack: None,
            pool: None,
            user_metadata: None,
            compile_context: None,
            place: if action == Action::Oom {
                UNKNOWN_FREE
            } else {
                address
            },
            time_us: NO_TIME,
        }
    }

    /// Where; 0 for `oom` and `snapshot`.
    pub fn address(&self) -> u64 {
        if self.action == Action::Oom {
            0
        } else {
            self.place
        }
    }

    /// What the device had free; told by `oom` alone.
    pub fn device_free_bytes(&self) -> Option<u64> {
        (self.action == Action::Oom && self.place != UNKNOWN_FREE).then_some(self.place)
    }

    /// Sets what the device had free. Does nothing unless the entry is an `oom`.
    pub fn set_device_free_bytes(&mut self, free_bytes: Option<u64>) {
        if self.action == Action::Oom {
            self.place = free_bytes.unwrap_or(UNKNOWN_FREE);
        }
    }

    /// Microseconds since 1970; absent before PyTorch 2.2. Neither strict nor even monotone.
    pub fn time_us(&self) -> Option<i64> {
        (self.time_us != NO_TIME).then_some(self.time_us)
    }

    /// Sets the time.
    pub fn set_time_us(&mut self, time_us: Option<i64>) {
        self.time_us = time_us.unwrap_or(NO_TIME);
    }
}

/// The beginning or end of a range that the program named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The name.
    pub name: String,
    /// "START" or "END".
    pub stage: String,
    /// Device number.
    pub device: u32,
    /// Microseconds since 1970.
    pub time_us: i64,
}

/// Decodes the uncompressed bytes of a snapshot.
///
/// As [`read_from`].
///
/// # Errors
/// [`SnapshotError`]: the pickle is damaged or would run code (with the byte offset), or it is sound but
/// not a snapshot (with the entry, the key, and what was expected there).
pub fn read(bytes: &[u8]) -> Result<Snapshot, SnapshotError> {
    read_from(bytes)
}

/// Decodes the uncompressed bytes of a snapshot while they are read.
///
/// A large file is read by the calling thread, decoded by a second, and its entries are put together
/// by a third; what comes out is the same. The file itself is not held. Memory stays proportionate to it: for a trace less than twice its
/// size, at most some dozens of times for a hostile one.
///
/// # Errors
/// As [`read`], and what the reader says.
pub fn read_from(input: impl std::io::Read) -> Result<Snapshot, SnapshotError> {
    let (document, records, entries) = ahead::decode(input, ahead::SMALL_BYTES)?;
    finish::Finish::new(document.store, records, entries)
        .snapshot(document.root, document.trailing_bytes)
}
