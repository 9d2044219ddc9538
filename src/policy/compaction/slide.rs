//! Sliding: used blocks go down over the holes below them, in address order.
//!
//! Source: the sliding order of Lisp 2's compactor as in Jones, Hosking and Moss, "The
//! Garbage Collection Handbook" (2012), section 3.2: the order of the blocks is kept.
//! No pass for new addresses is needed, for the tiling holds the holes.
//!
//! Each block goes to the lowest multiple of its alignment behind the one before; padding
//! stays a hole. Pinned blocks and those with a free outstanding stay, and later blocks
//! slide behind them. A segment is compacted by itself, from its lowest hole up: where a
//! step ends, the holes passed so far are one, and the next step goes on there.

use super::Budget;
use super::budget::Room;
use crate::policy::Policy;
use crate::space::{BlockId, SegmentId, Space, State};
use crate::units::round_up;

/// Slides the used blocks of a segment down over its holes.
pub(super) fn slide_down(
    policy: &mut dyn Policy,
    segment: SegmentId,
    space: &mut Space,
    budget: &mut Budget,
) {
    let mut hole: Option<BlockId> = None;
    let mut at = Some(space.first(segment));
    while let Some(block) = at {
        match space.state(block) {
            State::Free | State::Retired => {
                if space.state(block) == State::Free {
                    policy.forget(block, space);
                } else {
                    space.reclaim(block);
                }
                match hole {
                    Some(below) => space.merge(below, block),
                    None => hole = Some(block),
                }
                at = space.next(hole.unwrap_or(block));
                continue;
            }
            State::Used if !space.pinned(block) => {
                hole = hole.and_then(|hole| slide_over(policy, hole, block, space, budget));
                if let Some(hole) = hole {
                    at = space.next(hole);
                    continue;
                }
                if budget.ended() {
                    return;
                }
            }
            _ => {
                if let Some(hole) = hole.take() {
                    policy.learn(hole, space);
                }
            }
        }
        at = space.next(block);
    }
    if let Some(hole) = hole {
        policy.learn(hole, space);
    }
}

/// Slides one block over the hole below it; the hole above it afterwards, or `None`
/// where its alignment or the budget keeps the block in place.
fn slide_over(
    policy: &mut dyn Policy,
    hole: BlockId,
    block: BlockId,
    space: &mut Space,
    budget: &mut Budget,
) -> Option<BlockId> {
    let padding_bytes = space.base(hole).next_multiple_of(space.align(block)) - space.base(hole);
    if padding_bytes >= space.bytes(hole) {
        policy.learn(hole, space);
        return None;
    }
    let distance = space.bytes(hole) - padding_bytes;
    if budget.take(space.bytes(block), distance, space) != Room::Taken {
        policy.learn(hole, space);
        return None;
    }
    let mut over = hole;
    if padding_bytes > 0 {
        over = space.split(hole, padding_bytes);
        policy.learn(hole, space);
    }
    space.slide(over, block);
    Some(over)
}

/// The largest hole that sliding would have left, had no block been pinned, in bytes.
pub(super) fn room_without_pins(space: &Space) -> u64 {
    let mut largest_bytes = 0;
    for segment in space.segments() {
        let mut cursor = space.segment_base(segment);
        for block in space.blocks(segment) {
            match space.state(block) {
                State::Free | State::Retired => {}
                State::Used => {
                    let start = round_up(cursor, space.align(block)).unwrap_or(u64::MAX);
                    cursor = start.min(space.base(block)) + space.bytes(block);
                }
                State::Pending | State::Unmapped => {
                    largest_bytes = largest_bytes.max(space.base(block) - cursor);
                    cursor = space.end(block);
                }
            }
        }
        let end = space.segment_base(segment) + space.segment_bytes(segment);
        largest_bytes = largest_bytes.max(end - cursor);
    }
    largest_bytes
}
