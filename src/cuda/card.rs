//! What the executor asks of a card. A lane is a stream of the trace, by its number.

use std::fmt;

use serde::Serialize;

use crate::trace::StreamId;

/// Why a card did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// The card, or the pool, has no room: a shortage.
    #[error("the driver has no room for {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A call of the driver failed.
    #[error("{call}: {what}")]
    Driver {
        /// The call.
        call: &'static str,
        /// What the driver says.
        what: String,
    },
    /// More would be taken than the run may take.
    #[error("{wanted_bytes} bytes would be held, and the run may hold {most_bytes}")]
    Budget {
        /// Bytes held then.
        wanted_bytes: u64,
        /// The capacity and what may come on top.
        most_bytes: u64,
    },
    /// There is no card, or none with that number.
    #[error("{0}")]
    NoCard(String),
    /// What the policy did has no counterpart on the card.
    #[error("{0}")]
    NotCarriedOut(String),
}

/// What a card is, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// A name: the model, or the short name that a device file is for.
    pub name: String,
    /// One line for people: model, memory, driver.
    pub about: String,
    /// All of its memory, in bytes.
    pub total_bytes: u64,
    /// What physical memory comes in multiples of, in bytes.
    pub page_bytes: u64,
}

/// The bytes from `from` up to `to` of a block at `base` whose pattern has the `seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Address of the block.
    pub base: u64,
    /// First byte, from the base.
    pub from: u64,
    /// The byte behind the last one, from the base.
    pub to: u64,
    /// What the pattern is made from.
    pub seed: u64,
}

impl Span {
    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }
}

/// What a pool of the driver says of itself, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolSizes {
    /// Physical memory that it holds.
    pub reserved_bytes: u64,
    /// What of it is handed out.
    pub used_bytes: u64,
}

/// Memory of the host that keeps what was on the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMemory {
    /// Its pages stay where they are: the card copies by itself.
    Pinned,
    /// As a program's own: the driver copies in pieces through pinned memory.
    Pageable,
}

type Done<T = ()> = Result<T, CardError>;

/// A card: memory, streams, and kernels that fill and check.
///
/// Work on a lane happens in the order in which it was asked for, and beside the work of
/// other lanes; calls that map and unmap happen at once, whatever the lanes do.
#[allow(
    clippy::missing_errors_doc,
    reason = "every call fails as the driver does: with a CardError"
)]
pub trait Card: fmt::Debug {
    /// Which card.
    fn identity(&self) -> Identity;
    /// Memory that the driver would still give, in bytes; `None` where others use the
    /// card too, so that the figure says nothing.
    fn free_bytes(&mut self) -> Done<Option<u64>>;

    /// Maps memory (cuMemAlloc); its address.
    fn map(&mut self, bytes: u64) -> Done<u64>;
    /// Gives mapped memory back (cuMemFree).
    fn unmap(&mut self, base: u64) -> Done;
    /// Reserves addresses (cuMemAddressReserve); the first.
    fn reserve(&mut self, bytes: u64) -> Done<u64>;
    /// Gives reserved addresses back.
    fn unreserve(&mut self, base: u64) -> Done;
    /// Puts pages of `page_bytes` behind reserved addresses (cuMemCreate, cuMemMap,
    /// cuMemSetAccess). Where it fails nothing has changed.
    fn back(&mut self, at: u64, bytes: u64, page_bytes: u64) -> Done;
    /// Takes pages away again (cuMemUnmap, and cuMemRelease of those that were not mapped
    /// by `alias`).
    fn unback(&mut self, at: u64, bytes: u64) -> Done;
    /// Maps whole pages that are mapped at `from` at reserved addresses too (cuMemMap of
    /// their handles); to be used once they are [`open`](Self::open).
    fn alias(&mut self, at: u64, from: u64, bytes: u64) -> Done;
    /// Lets mapped addresses be used (cuMemSetAccess).
    fn open(&mut self, at: u64, bytes: u64) -> Done;

    /// Has memory of the host ready for a copy of that size: pinning takes longer than copying.
    fn make_ready(&mut self, bytes: u64, kept_in: HostMemory) -> Done;
    /// What the driver took of the card to pin memory of the host (its page tables), in
    /// bytes, since the card was cleared.
    fn pinning_bytes(&self) -> u64;
    /// Copies memory that nothing writes to the host, waited for; a ticket for the copy.
    fn save(&mut self, at: u64, bytes: u64, kept_in: HostMemory) -> Done<u64>;
    /// Copies what is kept under a ticket to the card, waited for.
    fn load(&mut self, ticket: u64, at: u64) -> Done;
    /// Keeps a copy no longer.
    fn forget(&mut self, ticket: u64) -> Done;

    /// Opens a stream-ordered pool of at most `most_bytes`, which keeps `keep_bytes` when
    /// the host waits (cuMemPoolCreate).
    fn open_pool(&mut self, most_bytes: u64, keep_bytes: u64) -> Done;
    /// Takes memory from the pool on a lane; its address.
    fn take(&mut self, bytes: u64, lane: StreamId) -> Done<u64>;
    /// Gives it back on a lane.
    fn give(&mut self, address: u64, lane: StreamId) -> Done;
    /// Gives back what the pool does not need.
    fn trim_pool(&mut self) -> Done;
    /// What the pool says of itself.
    fn pool_sizes(&mut self) -> Done<PoolSizes>;

    /// `event` notes the present position of a lane.
    fn record(&mut self, lane: StreamId, event: u32) -> Done;
    /// The lane goes on behind the position noted under `event`, if there is one.
    fn wait_event(&mut self, lane: StreamId, event: u32) -> Done;
    /// The lane goes on behind the present position of `on`.
    fn wait(&mut self, lane: StreamId, on: StreamId) -> Done;
    /// The host waits for a lane.
    fn sync_lane(&mut self, lane: StreamId) -> Done;
    /// The host waits for everything.
    fn sync(&mut self) -> Done;

    /// Copies bytes that do not overlap.
    fn copy(&mut self, lane: StreamId, to: u64, from: u64, bytes: u64) -> Done;
    /// Writes the pattern.
    fn fill(&mut self, lane: StreamId, span: Span) -> Done;
    /// Compares memory with the pattern; [`verdicts`](Self::verdicts) tells.
    fn check(&mut self, lane: StreamId, span: Span) -> Done;
    /// Keeps a lane busy for so long: what comes after it on the lane comes late.
    fn lag(&mut self, lane: StreamId, for_ns: u64) -> Done;
    /// Waits for all, and tells how many bytes of each check since the last call were
    /// wrong, in the order of the checks.
    fn verdicts(&mut self) -> Done<Vec<u64>>;

    /// Gives back everything that was taken, whatever state the card is in.
    fn clear(&mut self);
}
