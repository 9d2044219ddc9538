//! Two fingers: the highest used block goes into the lowest hole that holds it.
//!
//! Source: Edwards' two-finger compaction as in Jones, Hosking and Moss, "The Garbage
//! Collection Handbook" (2012), section 3.1, which is for cells of one size; here blocks
//! have any, as in AMD GPUOpen, D3D12 Memory Allocator, "Defragmentation", whose passes
//! fill holes from the far end. The order of the blocks is not kept, and each moves once.
//!
//! One finger goes down over the used blocks of a segment, the other looks for the lowest
//! hole below the first that holds the block at its alignment. A block that no hole
//! below it holds stays, as do pinned ones and those with a free outstanding. The fingers
//! meet where no hole is left below. A segment is compacted by itself.

use super::Budget;
use super::budget::Room;
use super::relocate::relocate;
use crate::policy::Policy;
use crate::policy::holes::start_in;
use crate::space::{BlockId, SegmentId, Space, State};

/// Fills the holes of a segment from above.
pub(super) fn fill_from_above(
    policy: &mut dyn Policy,
    segment: SegmentId,
    space: &mut Space,
    budget: &mut Budget,
) {
    let of = |state: State| -> Vec<BlockId> {
        let blocks = space.blocks(segment);
        blocks.filter(|it| space.state(*it) == state).collect()
    };
    let (mut holes, mut used) = (of(State::Free), of(State::Used));
    used.retain(|block| !space.pinned(*block));
    for block in used.into_iter().rev() {
        let (base, bytes) = (space.base(block), space.bytes(block));
        // What lies above stays out of reach of all the blocks to come.
        while holes.last().is_some_and(|hole| space.base(*hole) > base) {
            holes.pop();
        }
        if holes.is_empty() {
            return;
        }
        let fits = |hole: &BlockId| place_in(*hole, block, space).is_some();
        let Some(at) = holes.iter().position(fits) else {
            continue;
        };
        let to = place_in(holes[at], block, space).expect("it fits");
        match budget.take(bytes, base - to, space) {
            Room::Taken => {}
            Room::Later => return,
            Room::Never => continue,
        }
        let padded = to > space.base(holes[at]);
        let rest = relocate(policy, block, holes[at], space);
        // The handle of the hole is its padding's, or gone with the block.
        match (padded, rest) {
            (true, Some(rest)) => holes.insert(at + 1, rest),
            (true, None) => {}
            (false, Some(rest)) => holes[at] = rest,
            (false, None) => {
                holes.remove(at);
            }
        }
    }
}

/// Where the block would lie in the hole.
fn place_in(hole: BlockId, block: BlockId, space: &Space) -> Option<u64> {
    let (from, end) = (space.base(hole), space.end(hole));
    start_in(from, end, space.bytes(block), space.align(block))
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_comb;
    use crate::policy::hand::play;

    #[test]
    fn the_highest_blocks_fill_the_lowest_holes() {
        // g goes from 6144 to 1024 and e from 4096 to 3072: two moves where sliding needs
        // three. The hole that g's free leaves shows where it lies.
        let told = after_comb(
            "compaction:over=first-fit,threshold=1,mover=two-finger",
            "compact ; A x 4096 ; F g ; A y 1024",
        );
        assert_eq!(told, ["moved 2", "4096", "ok", "1024"]);
    }

    #[test]
    fn a_pinned_block_stays() {
        // e goes to 1024 instead; below c no hole is left.
        let told = after_comb(
            "compaction:over=first-fit,threshold=1,mover=two-finger",
            "pin g ; compact ; A x 3072",
        );
        assert_eq!(told, ["ok", "moved 1", "3072"]);
    }

    #[test]
    fn a_block_that_no_hole_holds_is_passed_over() {
        // c has 2048 bytes: below it d goes to b's place, and then to a's.
        let told = play(
            "compaction:over=first-fit,threshold=1,mover=two-finger",
            4096,
            "A a 1024 ; A b 512 ; A c 2048 ; A d 512 ; F b ; compact ; F a ; compact ; A e 1024",
        )
        .told;
        assert_eq!(told[5..], ["moved 1", "ok", "moved 1", "512"]);
    }

    #[test]
    fn padding_in_front_of_an_aligned_block_is_a_hole_for_the_next() {
        // d goes from 4096 into b's hole 512..3072, to 1024; x goes into its padding, and
        // c behind it.
        let told = play(
            "compaction:over=first-fit,threshold=1,mover=two-finger",
            8192,
            "A a 512 ; A b 2560 ; A c 512 ; A x 512 ; A d 512 align=1024 ; F b ; compact ; \
             A e 512 ; F d ; A f 512 ; F x ; A g 512",
        )
        .told;
        assert_eq!(told[4..8], ["4096", "ok", "moved 3", "2048"]);
        assert_eq!(told[8..], ["ok", "1024", "ok", "512"]);
    }
}
