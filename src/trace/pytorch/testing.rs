//! Small snapshots for the tests of this room.

use crate::trace::snapshot::{Action, Block, BlockState, Entry, Segment, Snapshot};

/// An entry of the default stream without a time.
pub(super) fn entry(action: Action, address: u64, bytes: u64) -> Entry {
    Entry::new(action, address, bytes, 0)
}

/// A segment of the default stream; `blocks` as (bytes, requested bytes, state).
pub(super) fn segment(address: u64, large: bool, blocks: &[(u64, u64, BlockState)]) -> Segment {
    let mut at = address;
    let mut tiles = Vec::new();
    for &(bytes, requested_bytes, state) in blocks {
        tiles.push(Block {
            address: at,
            bytes,
            requested_bytes: Some(requested_bytes),
            state,
            stack: None,
        });
        at += bytes;
    }
    Segment {
        device: 0,
        address,
        total_bytes: at - address,
        allocated_bytes: 0,
        active_bytes: 0,
        requested_bytes: None,
        stream: 0,
        large,
        pool: None,
        expandable: false,
        stack: None,
        blocks: tiles,
    }
}

/// A snapshot of one device.
pub(super) fn snapshot(segments: Vec<Segment>, entries: Vec<Entry>) -> Snapshot {
    Snapshot {
        segments,
        device_traces: vec![entries],
        ..Snapshot::default()
    }
}
