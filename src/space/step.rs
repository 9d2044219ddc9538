//! What a policy did to the Space during one event, for observers and for a real device.

use super::{BlockId, SegmentId};
use crate::trace::StreamId;

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The driver mapped a segment at `address` (cudaMalloc).
    Map(SegmentId),
    /// The driver took a segment back (cudaFree).
    Unmap(SegmentId),
    /// The driver refused `bytes`, of a segment or of pages.
    Refused,
    /// A range of addresses was reserved.
    Reserve(SegmentId),
    /// A reservation was given back.
    Unreserve(SegmentId),
    /// Pages were mapped into a reservation.
    Back(SegmentId),
    /// Pages of a reservation were unmapped.
    Unback(SegmentId),
    /// Pages that are mapped at `from` were mapped at `address` of an alias too, page by
    /// page (cuMemMap of the handles that back `from`, cuMemSetAccess).
    Alias(SegmentId),
    /// All of an alias was unmapped; its pages stay where its parts are (cuMemUnmap).
    Unalias(SegmentId),
    /// A block was handed out.
    Place(BlockId),
    /// A block became free.
    Release(BlockId),
    /// A block was freed, but a stream may still use it.
    Defer(BlockId),
    /// A used block moved from `from` to `address`.
    Move {
        /// The block.
        block: BlockId,
    },
    /// A page was copied to the host.
    PageOut,
    /// A page was copied back to the card.
    PageIn,
    /// A stream waits for another.
    Wait {
        /// The stream that waits.
        stream: StreamId,
        /// The stream it waits for.
        on: StreamId,
    },
    /// The host waited for the whole device.
    Synchronise,
    /// The host waited for one stream.
    SynchroniseStream(StreamId),
}

/// One step; 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub kind: StepKind,
    /// Absolute address, where the step has one.
    pub address: u64,
    /// Bytes, where the step has some.
    pub bytes: u64,
    /// The old address of a move, or where the pages of an alias are backed; else 0.
    pub from: u64,
}

const _: () = assert!(size_of::<Step>() == 32);

impl Step {
    /// A step without an old address.
    #[must_use]
    pub fn new(kind: StepKind, address: u64, bytes: u64) -> Self {
        Step {
            kind,
            address,
            bytes,
            from: 0,
        }
    }
}
