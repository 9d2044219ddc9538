//! Segments and blocks before the first entry and after the last, as recorded truth.

use crate::trace::TraceBuilder;
use crate::trace::snapshot::{BlockState, Segment, Snapshot};
use crate::trace::truth::{TruthBlock, TruthSegment, TruthState};

use super::rewind::{Held, Region, Start};

/// The segments before the first entry: what `start` says, its gaps being free blocks.
/// To be called while the builder stands before the first entry.
pub(super) fn initial(
    start: &Start,
    snapshot: &Snapshot,
    builder: &mut TraceBuilder,
) -> Vec<TruthSegment> {
    let mut segments = Vec::with_capacity(start.regions.len());
    for (&address, region) in &start.regions {
        let end = address.saturating_add(region.bytes);
        let mut blocks = Vec::new();
        let mut at = address;
        for (&from, held) in start.blocks.range(address..end.max(address)) {
            push_gap(&mut blocks, at, from);
            let block = initial_block(from, end, held, builder);
            at = at.max(from.saturating_add(block.bytes));
            blocks.push(block);
        }
        push_gap(&mut blocks, at, end);
        let Region {
            bytes,
            stream,
            pool,
            large,
            expandable,
            guessed: _,
        } = *region;
        segments.push(TruthSegment {
            address,
            bytes,
            stream: builder.stream(stream),
            pool: pool.map_or(0, |pool| builder.pool(snapshot.tables.pool(pool))),
            large,
            expandable,
            blocks,
        });
    }
    segments
}

fn initial_block(from: u64, end: u64, held: &Held, builder: &TraceBuilder) -> TruthBlock {
    TruthBlock {
        address: from,
        bytes: held.bytes.unwrap_or(held.requested_bytes).min(end - from),
        requested_bytes: held.requested_bytes,
        state: if held.pending {
            TruthState::Pending
        } else {
            TruthState::Active
        },
        slot: builder.slot(from),
    }
}

fn push_gap(blocks: &mut Vec<TruthBlock>, from: u64, to: u64) {
    if from < to {
        blocks.push(TruthBlock {
            address: from,
            bytes: to - from,
            requested_bytes: 0,
            state: TruthState::Inactive,
            slot: None,
        });
    }
}

/// The segments of `device` after the last entry, as the file shows them. To be called
/// when the builder stands behind the last entry.
pub(super) fn last(
    snapshot: &Snapshot,
    device: u32,
    builder: &mut TraceBuilder,
) -> Vec<TruthSegment> {
    let mut segments: Vec<TruthSegment> = snapshot
        .segments
        .iter()
        .filter(|segment| segment.device == device)
        .map(|segment| last_segment(segment, snapshot, builder))
        .collect();
    segments.sort_by_key(|segment| segment.address);
    segments
}

fn last_segment(
    segment: &Segment,
    snapshot: &Snapshot,
    builder: &mut TraceBuilder,
) -> TruthSegment {
    let blocks = segment.blocks.iter().map(|block| {
        let state = match block.state {
            BlockState::ActiveAllocated => TruthState::Active,
            BlockState::ActivePendingFree => TruthState::Pending,
            BlockState::Inactive => TruthState::Inactive,
        };
        TruthBlock {
            address: block.address,
            bytes: block.bytes,
            requested_bytes: block.requested_bytes.unwrap_or(block.bytes),
            state,
            slot: (state != TruthState::Inactive)
                .then(|| builder.slot(block.address))
                .flatten(),
        }
    });
    let blocks = blocks.collect();
    TruthSegment {
        address: segment.address,
        bytes: segment.total_bytes,
        stream: builder.stream(segment.stream),
        pool: segment
            .pool
            .map_or(0, |pool| builder.pool(snapshot.tables.pool(pool))),
        large: segment.large,
        expandable: segment.expandable,
        blocks,
    }
}
