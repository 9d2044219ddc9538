//! What an event came to, and the sums over all of them.

use crate::space::{BlockId, OutOfMemory};

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request was served by the block.
    Served(BlockId),
    /// A request that failed when it was recorded was served for an instant, here at
    /// this address, and given back at once.
    ServedInstant {
        /// Address it had.
        address: u64,
        /// Bytes of the block.
        bytes: u64,
    },
    /// The request was not served.
    Failed(OutOfMemory),
    /// A request of no bytes: nothing is handed out.
    ZeroSize,
    /// A block was given back.
    Freed {
        /// Address it had.
        address: u64,
        /// Bytes of the block.
        bytes: u64,
        /// Bytes that had been asked for.
        requested_bytes: u64,
        /// The block was Pending afterwards.
        deferred: bool,
    },
    /// A deferred free became reusable.
    Completed,
    /// A free of an allocation that was freed before: nothing happens.
    DoubleFree,
    /// A free of something never allocated, of no bytes, or of a failed request: nothing happens.
    UnknownFree,
    /// A free of an address inside a used block: nothing happens.
    InteriorPointer,
    /// A free of an address that no block in use holds: nothing happens.
    UnknownPointer,
    /// A free of an address outside the segment: nothing happens.
    OutOfRange,
    /// A compaction on request ran.
    Compacted {
        /// Blocks moved.
        moves: u64,
        /// Bytes moved.
        moved_bytes: u64,
    },
    /// The policy does not compact.
    Unsupported,
    /// The event was carried out, or had nothing to act on.
    Done,
}

/// Sums over the events so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Requests, of every outcome.
    pub requests: u64,
    /// Requests served.
    pub served: u64,
    /// Requests not served, overflows included.
    pub failed: u64,
    /// Requests of no bytes.
    pub zero_sizes: u64,
    /// Requests whose rounded size passes the largest integer.
    pub overflows: u64,
    /// Frees of what was freed before.
    pub double_frees: u64,
    /// Frees of what was never allocated, had failed or had no bytes, and of bad pointers.
    pub unknown_frees: u64,
    /// Requests that arrived while blocks were being moved.
    pub delayed_requests: u64,
    /// Bytes asked for by live blocks at the moment.
    pub requested_bytes: u64,
    /// Requests that failed when recorded and were served here for an instant.
    pub instants: u64,
    /// Number of the first event of those; what follows it is counterfactual.
    pub first_instant: Option<u64>,
}
