//! Evacuation: the emptiest segment is emptied into the holes of the others, and goes back.
//!
//! Source: giving away the emptiest as in Berger et al., "Hoard" (ASPLOS 2000), whose heaps
//! pass on mostly empty superblocks; moving what is live out of a region and releasing it
//! whole as in Jones, Hosking and Moss, "The Garbage Collection Handbook" (2012), chapter
//! 10; AMD GPUOpen, Vulkan Memory Allocator, "Defragmentation", frees blocks of device
//! memory in this way.
//!
//! The emptiest segment has the fewest bytes in use; of equal ones the largest, then the
//! lowest. A segment that is empty already goes back without a move, where the policy
//! gives it. Left alone are segments without a hole, with a pinned block, or with a block
//! whose free is outstanding. Blocks go from the largest to the smallest, of equal ones the lowest,
//! each into the smallest hole of another segment that is in use, of equal ones the lowest. Unless
//! all of a segment's blocks find a hole and may move in some step, none is moved, and the
//! next emptiest is tried. A step that ends within a segment leaves it emptier, so that the next
//! one goes on with it; what the policy places there meanwhile is moved too.

use super::Budget;
use super::budget::Room;
use super::relocate::relocate;
use crate::policy::Policy;
use crate::policy::holes::start_in;
use crate::space::{BlockId, SegmentId, Space, State};

/// A block and the address that it goes to.
type Planned = (BlockId, u64);

/// Empties segments as long as one can be, and the budget lasts.
pub(super) fn evacuate(policy: &mut dyn Policy, space: &mut Space, budget: &mut Budget) {
    loop {
        give_back(policy, space);
        let plan = candidates(space)
            .into_iter()
            .find_map(|segment| plan(segment, space, budget));
        let Some(plan) = plan else { return };
        for (block, to) in plan {
            let distance = space.base(block).abs_diff(to);
            if budget.take(space.bytes(block), distance, space) != Room::Taken {
                return;
            }
            let hole = space.find(to).expect("the plan names holes");
            relocate(policy, block, hole, space);
        }
    }
}

/// Gives back what is empty.
fn give_back(policy: &mut dyn Policy, space: &mut Space) {
    let segments: Vec<SegmentId> = space.segments().collect();
    for segment in segments {
        if is_empty(segment, space) {
            let all = space.first(segment);
            policy.release_segment(all, space);
        }
    }
}

fn is_empty(segment: SegmentId, space: &Space) -> bool {
    let all = space.first(segment);
    space.state(all) == State::Free && space.next(all).is_none()
}

/// The segments that may be emptied, the emptiest first.
fn candidates(space: &Space) -> Vec<SegmentId> {
    let used_bytes = |segment: SegmentId| -> Option<u64> {
        let (mut used_bytes, mut holes) = (0, 0);
        for block in space.blocks(segment) {
            match space.state(block) {
                State::Free => holes += 1,
                State::Used if !space.pinned(block) => used_bytes += space.bytes(block),
                _ => return None,
            }
        }
        (holes > 0 && used_bytes > 0).then_some(used_bytes)
    };
    let whole = space
        .segments()
        .filter(|segment| space.segment_page(*segment).is_none());
    let mut found: Vec<_> = whole
        .filter_map(|segment| Some((used_bytes(segment)?, segment)))
        .collect();
    found.sort_by_key(|(used_bytes, segment)| {
        let size = std::cmp::Reverse(space.segment_bytes(*segment));
        (*used_bytes, size, space.segment_base(*segment))
    });
    found.into_iter().map(|(_, segment)| segment).collect()
}

/// Where the blocks of a segment go; `None` where one finds no hole or is never moved.
fn plan(segment: SegmentId, space: &Space, budget: &Budget) -> Option<Vec<Planned>> {
    let mut holes: Vec<(u64, u64)> = space
        .segments()
        .filter(|other| *other != segment && !is_empty(*other, space))
        .flat_map(|other| space.blocks(other))
        .filter(|block| space.state(*block) == State::Free)
        .map(|block| (space.base(block), space.end(block)))
        .collect();
    let mut blocks: Vec<BlockId> = space
        .blocks(segment)
        .filter(|block| space.state(*block) == State::Used)
        .collect();
    blocks.sort_by_key(|block| (std::cmp::Reverse(space.bytes(*block)), space.base(*block)));
    let mut plan = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (bytes, align) = (space.bytes(block), space.align(block));
        let fits = |at: &usize| start_in(holes[*at].0, holes[*at].1, bytes, align).is_some();
        let at = (0..holes.len())
            .filter(fits)
            .min_by_key(|at| (holes[*at].1 - holes[*at].0, holes[*at].0))?;
        let (from, end) = holes.swap_remove(at);
        let to = start_in(from, end, bytes, align)?;
        if !budget.ever(bytes, space.base(block).abs_diff(to), space) {
            return None;
        }
        let pieces = [(from, to), (to + bytes, end)];
        holes.extend(pieces.into_iter().filter(|(from, end)| from < end));
        plan.push((block, to));
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use crate::policy::hand::{Hand, play};

    /// Two regions, 0..1024 with 256 bytes in use and 1024..3072 with 1024, and then `program`.
    fn two_regions(limit: &str, program: &str) -> Hand {
        let over = "growing:growth=exact,initial=0";
        play(
            &format!("compaction:over=\"{over}\",threshold=1,mover=evacuate,marks=true{limit}"),
            8192,
            &format!("A a 1024 ; A b 2048 ; F a ; A c 256 ; F b ; A d 1024 ; {program}"),
        )
    }

    fn reserved_bytes(hand: &Hand) -> u64 {
        hand.replay.space().counters().reserved_bytes
    }

    #[test]
    fn the_emptiest_region_is_emptied_and_goes_back() {
        // c goes from 0 to 2048, behind d. The region that is left begins at 1024: e lies
        // at 2304.
        let hand = two_regions("", "compact ; A e 768");
        assert_eq!(hand.told[3..], ["0", "ok", "1024", "moved 1", "1280"]);
        assert_eq!(reserved_bytes(&hand), 2048);
    }

    #[test]
    fn a_region_that_cannot_be_emptied_is_left_alone() {
        let hand = two_regions("", "pin c ; compact");
        assert_eq!(hand.told[7], "moved 0");
        // c and e together find room behind d, f does not.
        let hand = two_regions("", "A e 256 ; A f 512 ; A g 512 ; compact");
        assert_eq!(hand.told[6..], ["256", "512", "2048", "moved 0"]);
        assert_eq!(reserved_bytes(&hand), 3072);
    }

    #[test]
    fn a_region_is_emptied_over_several_steps() {
        let hand = two_regions(",step_moves=1", "A e 256 ; mark");
        assert_eq!(reserved_bytes(&hand), 3072);
        let hand = two_regions(",step_moves=1", "A e 256 ; mark ; mark");
        assert_eq!(reserved_bytes(&hand), 2048);
        let counters = hand.replay.space().counters();
        assert_eq!((counters.moves, counters.moved_bytes), (2, 512));
    }

    #[test]
    fn an_empty_region_goes_back_without_a_move() {
        let hand = two_regions(",step_moves=0", "F c ; mark");
        let counters = hand.replay.space().counters();
        assert_eq!((counters.reserved_bytes, counters.moves), (2048, 0));
    }
}
