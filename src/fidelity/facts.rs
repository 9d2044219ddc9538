//! What a recording and a model say of the same moment, in one form that can be compared.

use crate::space::{BlockId, Space, State, StepKind};
use crate::trace::Truth;
use crate::trace::truth::{TruthEntry, TruthKind, TruthSegment, TruthState};

/// A change of what is mapped: kind, address and bytes. Releases come first, by address.
pub(super) type Change = (u8, u64, u64);

fn ordered(changes: impl Iterator<Item = Change>) -> Vec<Change> {
    let (mut given, taken): (Vec<Change>, Vec<Change>) = changes.partition(|change| change.0 < 2);
    given.sort_unstable();
    given.extend(taken);
    given
}

pub(super) fn recorded_changes(facts: &[TruthEntry]) -> Vec<Change> {
    ordered(facts.iter().filter_map(|fact| {
        let kind = match fact.kind {
            TruthKind::SegmentFree => 0,
            TruthKind::SegmentUnmap => 1,
            TruthKind::SegmentAlloc => 2,
            TruthKind::SegmentMap => 3,
            _ => return None,
        };
        Some((kind, fact.address, fact.bytes))
    }))
}

pub(super) fn made_changes(space: &Space) -> Vec<Change> {
    ordered(space.steps().iter().filter_map(|step| {
        let kind = match step.kind {
            StepKind::Unmap(_) => 0,
            StepKind::Unback(_) => 1,
            StepKind::Map(_) => 2,
            StepKind::Back(_) => 3,
            _ => return None,
        };
        Some((kind, step.address, step.bytes))
    }))
}

/// Peak of what was reserved, as the recording tells it, bytes: of the running sum of its
/// segments, or of the sums that it tells itself.
#[must_use]
pub fn recorded_peak_bytes(truth: &Truth) -> u64 {
    let mut reserved: u64 = truth.initial.iter().map(|segment| segment.bytes).sum();
    let mut peak = reserved;
    for fact in &truth.entries {
        match fact.kind {
            TruthKind::SegmentAlloc | TruthKind::SegmentMap => reserved += fact.bytes,
            TruthKind::SegmentFree | TruthKind::SegmentUnmap => {
                reserved = reserved.saturating_sub(fact.bytes);
            }
            TruthKind::ReservedAfter => peak = peak.max(fact.bytes),
            _ => {}
        }
        peak = peak.max(reserved);
    }
    peak
}

/// Address, bytes and state of a block at the end; 0 free, 1 used, 2 pending.
pub(super) type LastBlock = (u64, u64, u8);

pub(super) fn final_blocks(space: &Space) -> Vec<LastBlock> {
    let shown = |block: BlockId| {
        let state = match space.state(block) {
            State::Free => 0,
            State::Used => 1,
            State::Pending => 2,
            State::Unmapped | State::Retired | State::Lent | State::Gone => return None,
        };
        Some((space.base(block), space.bytes(block), state))
    };
    let mut blocks: Vec<LastBlock> = space.walk().filter_map(shown).collect();
    blocks.sort_unstable();
    blocks
}

pub(super) fn recorded_blocks(segment: &TruthSegment) -> impl Iterator<Item = LastBlock> + '_ {
    segment.blocks.iter().map(|block| {
        let state = match block.state {
            TruthState::Inactive => 0,
            TruthState::Active => 1,
            TruthState::Pending => 2,
        };
        (block.address, block.bytes, state)
    })
}
