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
                State::Pending | State::Unmapped | State::Lent | State::Gone => {
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

#[cfg(test)]
mod tests {
    use super::super::tests::after_comb;
    use crate::policy::hand::play;

    #[test]
    fn a_step_after_each_request_moves_one_block() {
        // x lies at 1024..1536; c slides from 2048 to 1536 and leaves 2560..4096. After y
        // the lowest hole is at 5120: g slides there from 6144.
        let program = "A x 512 ; A y 1536 ; A z 2048";
        let told = after_comb(
            "compaction:over=first-fit,threshold=1,on_failure=false,requests=1,step_moves=1",
            program,
        );
        assert_eq!(told, ["1024", "2560", "6144"]);
        let told = after_comb(
            "compaction:over=first-fit,threshold=1,on_failure=false",
            program,
        );
        assert_eq!(told, ["1024", "OOM", "OOM"]);
    }

    #[test]
    fn a_mark_makes_a_step_of_so_many_bytes() {
        // c slides to 1024 and e to 2048; g would be the third. It is the second step's.
        let told = after_comb(
            "compaction:over=first-fit,threshold=1,marks=true,step_bytes=3000",
            "mark ; A x 3072 ; F x ; mark ; A y 4096",
        );
        assert_eq!(told, ["ok", "3072", "ok", "ok", "4096"]);
    }

    #[test]
    fn a_block_above_the_bytes_of_a_step_stays_and_later_ones_slide_behind_it() {
        // b has 2048 bytes and stays behind the hole at 0; d slides from 3072 to 2560.
        let told = play(
            "compaction:over=first-fit,threshold=1,on_failure=false,marks=true,step_bytes=1024",
            4096,
            "A a 512 ; A b 2048 ; A c 512 ; A d 512 ; F a ; F c ; mark ; A x 1024 ; A y 512",
        )
        .told;
        assert_eq!(told[7..], ["3072", "0"]);
    }
}
