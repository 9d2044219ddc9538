//! RAPIDS Memory Manager (RMM): its resources as policies, and what they share.
//!
//! Source: the behaviour of librmm 26.10 as the project's specification tells it
//! (part B), met line by line against the official library, and its recordings.
//!
//! All sizes are multiples of 256 bytes. RMM hands memory from stream to stream by
//! events that it waits for itself, so these policies are not blind: a wait is a
//! [`Space::wait`]. A free that the trace defers to a `complete` stays Pending until then.

pub mod arena;
pub mod binning;
pub mod fixed;
mod lists;
pub mod pool;
mod superblocks;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::space::{BlockId, Space};
use crate::trace::StreamId;

/// Sizes are multiples of this, in bytes.
pub const QUANTUM_BYTES: u64 = 256;

/// In which order the lists of other streams are tried. The library goes by the handles
/// of its events, that is by the addresses of objects in the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventOrder {
    /// By first use.
    #[default]
    Ascending,
    /// By first use, backwards; what a resource took at its start still comes first.
    Descending,
}

/// Blocks whose free waits for a `complete`, with the stream they were freed on.
#[derive(Debug, Default)]
struct Deferred(BTreeMap<BlockId, StreamId>);

impl Deferred {
    fn defer(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        space.defer(block);
        self.0.insert(block, stream);
    }

    fn complete(&mut self, block: BlockId, space: &Space) -> StreamId {
        self.0.remove(&block).unwrap_or_else(|| {
            panic!(
                "event {}: the end of a free that was not deferred",
                space.event()
            )
        })
    }
}

/// Joins two free neighbours that `by` may both use.
fn join(low: BlockId, high: BlockId, by: StreamId, space: &mut Space) {
    if space.mergeable(low, high) {
        space.merge(low, high);
    } else {
        space.join(low, high, by);
    }
}
