//! What an explanation holds: plain data, for words, JSON and pages alike.
//!
//! Bytes, nanoseconds and parts per million are integers. Streams and pools are numbered as
//! the trace numbers them. A stack is one line, the innermost frame first, frames apart by
//! `" < "`, as in [`Trace::tags`](crate::trace::Trace::tags); it comes from the trace and may
//! hold any characters.

use serde::Serialize;

use super::findings::{Holders, Leaks, Remedies};
use crate::observe::Verdict;

/// Why a request was not served, what was in the way, and what would have helped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Name of the trace.
    pub trace: String,
    /// Events that it holds.
    pub events: u64,
    /// Whether it has times; else an event counts 1 us.
    pub has_times: bool,
    /// The policy that is explained, as given.
    pub policy: String,
    /// How the moment was made.
    pub basis: Basis,
    /// What may be reserved.
    pub capacity_bytes: u64,
    /// Where that number comes from, in words.
    pub capacity_from: String,
    /// Name of the card.
    pub card: String,
    /// The moment that is explained.
    pub moment: At,
    /// The request of the moment; none where its event asks for nothing.
    pub asked: Option<Asked>,
    /// What lay where right after the event.
    pub memory: Memory,
    /// Why the request failed; none where nothing failed.
    pub reason: Option<Reason>,
    /// What was in the way; none where nothing failed.
    pub blockers: Option<Blockers>,
    /// What held memory the longest, up to the moment.
    pub holders: Holders,
    /// What grew from mark to mark, and what the pool only kept.
    pub leaks: Leaks,
    /// What would have served the request, and at which price.
    pub remedies: Remedies,
    /// What to do, in a sentence or two.
    pub advice: String,
}

/// How the moment was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Basis {
    /// The model was run along the recording, at its recorded addresses.
    Recorded {
        /// Placements that the recording tells.
        addresses: u64,
        /// Those that the model met.
        addresses_matched: u64,
        /// The first difference, in words; none where the model met everything.
        first_divergence: Option<String>,
    },
    /// The requests were replayed from an empty card.
    Replayed,
}

/// Why this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The event was asked for.
    Asked,
    /// A failure that the recording itself holds.
    RecordedFailure,
    /// The first failure of the replay.
    FirstFailure,
    /// Nothing failed: the greatest external fragmentation, at most free bytes.
    WorstFragmentation,
}

/// The moment that is explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct At {
    /// Number of the event, from 0.
    pub event: u64,
    /// Its time, ns.
    pub time_ns: u64,
    /// Why this one.
    pub why: Why,
    /// Requests of the whole trace that failed.
    pub failures: u64,
    /// The first events that failed, in order.
    pub failed_events: Vec<u64>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that the policy looked for, after its rounding; none where they pass 64 bits.
    pub rounded_bytes: Option<u64>,
    /// Alignment asked for, bytes.
    pub align_bytes: u64,
    /// Stream, as the trace numbers it.
    pub stream: u16,
    /// Pool, as the trace numbers it; 0 is the default.
    pub pool: u16,
    /// The trace's name of the request; none where names are addresses.
    pub id: Option<String>,
    /// The stack, where the trace has stacks.
    pub stack: Option<String>,
    /// Whether it was served.
    pub served: bool,
    /// Whether it had failed when it was recorded.
    pub failed_when_recorded: bool,
}

/// Sums over a part of the memory, bytes unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Sums {
    /// Live allocations.
    pub live: u64,
    /// What they asked for.
    pub requested_bytes: u64,
    /// Their blocks.
    pub occupied_bytes: u64,
    /// Mapped.
    pub reserved_bytes: u64,
    /// Free blocks.
    pub free_bytes: u64,
    /// How many.
    pub free_blocks: u64,
    /// The largest of them.
    pub largest_free_bytes: u64,
    /// Freed, but a stream may still use them.
    pub pending_bytes: u64,
    /// Freed, but not to be used before a reset.
    pub retired_bytes: u64,
}

/// What lay where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// All of it.
    pub total: Sums,
    /// What the driver would still give within the capacity, bytes.
    pub room_bytes: u64,
    /// 1 - largest free / free, ppm; none where nothing is free.
    pub external_fragmentation_ppm: Option<u64>,
    /// 1 - requested / occupied, ppm; none where nothing is live.
    pub internal_fragmentation_ppm: Option<u64>,
    /// occupied / capacity, ppm.
    pub utilisation_ppm: u64,
    /// By pool, in order.
    pub by_pool: Vec<Share>,
    /// By stream, in order.
    pub by_stream: Vec<Share>,
    /// The segments with the most free bytes, then the most bytes.
    pub segments: Vec<SegmentSums>,
    /// How many segments are not among them.
    pub other_segments: u64,
    /// Their sums.
    pub others: Sums,
    /// Free blocks by size.
    pub holes: Vec<SizeClass>,
}

/// A stream's or pool's part of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The stream or pool; none for what several have in common, or nobody used yet.
    pub number: Option<u16>,
    /// Its handle as recorded (of a pool: the second number of its id).
    pub handle: Option<u64>,
    /// Its sums. What is reserved, free and so on belongs to whoever used the segment.
    pub sums: Sums,
}

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SegmentSums {
    /// First address.
    pub address: u64,
    /// All of its addresses, bytes.
    pub bytes: u64,
    /// Whether pages are mapped into it one by one.
    pub expandable: bool,
    /// The only stream that used it.
    pub stream: Option<u16>,
    /// The only pool that used it.
    pub pool: Option<u16>,
    /// Its sums.
    pub sums: Sums,
    /// A map of [`MAP_LETTERS`] letters, from its first address to its last: `#` all in use,
    /// `+` half of it or more, `-` less, `.` free, `p` pending or retired, `_` not mapped.
    pub map: String,
}

/// Letters of a segment's map.
pub const MAP_LETTERS: usize = 48;

/// Blocks of `from_bytes` to less than twice that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// A power of two.
    pub from_bytes: u64,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The verdict.
    pub verdict: Verdict,
    /// What it means, for people.
    pub meaning: String,
    /// The arithmetic, a sentence each.
    pub arithmetic: Vec<String>,
    /// What is missing where it was nearest, bytes.
    pub short_by_bytes: u64,
}

/// The fewest live blocks that were found whose absence makes room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blockers {
    /// What came of the search.
    pub found: Found,
    /// The blocks, by address; empty unless `found` is `Blocks`.
    pub blocks: Vec<Blocker>,
    /// Their bytes.
    pub bytes: u64,
    /// Why there is no smaller set.
    pub fewest: Fewest,
    /// Whether the request is served, too, when they are left out of the trace from the
    /// start; none where the free-standing replay that this needs does not fail.
    pub absent_served: Option<bool>,
    /// Sets that were tried by a replay.
    pub tried: u64,
}

/// What a search for blockers came to. Every answer was proven by a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// With the blocks freed right before the event, the request is served.
    Blocks,
    /// No live block needs to go: it is served when the program waits for the device first.
    Waiting,
    /// Even with everything freed the request is not served.
    Never,
}

/// Why no smaller set of blocks makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fewest {
    /// Fewer are none, or free too few bytes to stay within the capacity.
    Arithmetic,
    /// Every smaller set was tried by a replay.
    Exhaustive,
    /// No block of it can be spared; smaller sets were tried where they looked likely.
    Likely,
}

/// A live block that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// The trace's name of the allocation; none where names are addresses.
    pub id: Option<String>,
    /// The event that allocated it.
    pub event: u64,
    /// First address.
    pub address: u64,
    /// Bytes of the block.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Events since then.
    pub age_events: u64,
    /// Time since then, ns.
    pub age_ns: u64,
    /// Stream.
    pub stream: u16,
    /// Pool.
    pub pool: u16,
    /// The stack, where the trace has stacks.
    pub stack: Option<String>,
    /// The event that frees it in the trace; none where nothing does.
    pub freed_event: Option<u64>,
}
