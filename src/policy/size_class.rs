//! Size classes (segregated fits): a free block serves only requests of its own class.
//!
//! Source: segregated free lists without coalescing, as in Wilson, Johnstone, Neely and
//! Boles, "Dynamic storage allocation: a survey and critical review" (IWMM 1995),
//! section 3.6; with `steps = 4` the classes are spaced as in Evans, "A scalable
//! concurrent malloc(3) implementation for FreeBSD" (BSDCan 2006).
//!
//! Parameters: `alignment`, the smallest class, of which all are multiples; `steps`, how
//! many classes there are to a doubling of size (1: powers of two).
//!
//! Tie-breaks: the lowest free block of the class that the request's alignment allows;
//! where there is none, the frontier, behind which nothing was ever handed out. Blocks
//! are never cut nor joined. Padding of an aligned block at the frontier is waste.
//!
//! Moving: the highest block of a class changes places with the lowest free one; free
//! blocks below the frontier then become part of it.

use serde::Deserialize;

use super::holes::{entry, smallest, start_in};
use super::index::{BySize, Entry};
use super::{Compacted, Motion, Policy, PolicyError};
use crate::space::{BlockId, Cause, OutOfMemory, Request, SegmentId, Space, State};
use crate::trace::StreamId;
use crate::units::{round_up, serde_align};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The smallest class; all classes are multiples of it, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
    /// Classes to a doubling, a power of two.
    pub steps: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            alignment: 256,
            steps: 1,
        }
    }
}

/// The policy.
pub struct SizeClass {
    spec: Spec,
    /// Free blocks below the frontier.
    free: BySize,
    /// What was never handed out; `None` once all was.
    frontier: Option<BlockId>,
    /// Where all of it lies, from the start on.
    segment: Option<SegmentId>,
}

impl SizeClass {
    /// Size classes by `spec`.
    ///
    /// # Errors
    /// `steps` that are no power of two.
    pub fn new(spec: Spec) -> Result<Self, PolicyError> {
        if !spec.steps.is_power_of_two() {
            let what = format!("steps = {}: expected a power of two, such as 4", spec.steps);
            return Err(PolicyError::new("size-class", what));
        }
        Ok(SizeClass {
            spec,
            free: BySize::new(),
            frontier: None,
            segment: None,
        })
    }

    /// The step between the classes from `bytes`, a power of two, to its double.
    fn step(&self, bytes: u64) -> u64 {
        (bytes / self.spec.steps).max(self.spec.alignment)
    }

    /// The class of a request; `None` where it passes the largest integer.
    fn class_of(&self, bytes: u64) -> Option<u64> {
        let octave = 1 << (bytes - 1).checked_ilog2().unwrap_or(0);
        round_up(bytes, self.step(octave))
    }

    /// The largest class that is not above `bytes`; 0 where there is none.
    fn class_within(&self, bytes: u64) -> u64 {
        bytes
            .checked_ilog2()
            .map_or(0, |octave| bytes - bytes % self.step(1 << octave))
    }

    /// The lowest free block of the class at a multiple of `align`.
    fn reusable(&self, class: u64, align: u64) -> Option<Entry> {
        let mut found = self.free.first_at_least(class)?;
        while found.bytes == class {
            if found.address.is_multiple_of(align) {
                return Some(found);
            }
            found = self.free.next_after(class, found.address)?;
        }
        None
    }

    /// A new block from the frontier.
    fn advance(&mut self, class: u64, align: u64, space: &mut Space) -> Option<BlockId> {
        let frontier = self.frontier?;
        let start = start_in(space.base(frontier), space.end(frontier), class, align)?;
        let padding_bytes = start - space.base(frontier);
        let block = if padding_bytes > 0 {
            let block = space.split(frontier, padding_bytes);
            space.forgo(frontier);
            block
        } else {
            frontier
        };
        self.frontier = (space.bytes(block) > class).then(|| space.split(block, class));
        Some(block)
    }

    fn frontier_bytes(&self, space: &Space) -> u64 {
        self.frontier.map_or(0, |frontier| space.bytes(frontier))
    }

    /// The block below the frontier, or the last one where there is no frontier.
    fn last(&self, space: &Space) -> Option<BlockId> {
        match self.frontier {
            Some(frontier) => space.prev(frontier),
            None => space.blocks(self.segment?).last(),
        }
    }

    /// Free blocks that end at the frontier become part of it.
    fn retreat(&mut self, space: &mut Space) {
        while let Some(block) = self
            .last(space)
            .filter(|last| space.state(*last) == State::Free)
        {
            self.free.remove(space.bytes(block), space.base(block));
            if let Some(frontier) = self.frontier {
                space.merge(block, frontier);
            }
            self.frontier = Some(block);
        }
    }

    fn put(&mut self, free: BlockId, space: &Space) {
        let free = entry(free, space);
        self.free.insert(free.bytes, free.address, free.block);
    }
}

impl Policy for SizeClass {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let all = space.map(space.capacity_bytes())?;
        self.frontier = Some(all);
        self.segment = Some(space.segment(all));
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let class = self.class_of(bytes).ok_or(OutOfMemory::no_fit(bytes))?;
        let block = if let Some(found) = self.reusable(class, request.align) {
            self.free.remove(class, found.address);
            BlockId(found.block)
        } else if let Some(block) = self.advance(class, request.align, space) {
            block
        } else {
            let other = smallest(&self.free, bytes, request.align);
            return Err(OutOfMemory {
                wanted_bytes: class,
                cause: other.map_or(Cause::NoFit, |_| Cause::Class),
            });
        };
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        self.put(block, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        self.class_of(round_up(request.bytes, self.spec.alignment)?)
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let fresh = self.class_within(self.frontier_bytes(space));
        self.free.largest_bytes().max(fresh)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        Some(self.free.largest_bytes().max(self.frontier_bytes(space)))
    }

    fn motion(&self) -> Motion {
        Motion::Exchange
    }

    fn gather(&mut self, space: &mut Space) -> Compacted {
        let mut done = Compacted::default();
        let mut at = self.last(space);
        while let Some(block) = at {
            at = space.prev(block);
            if space.state(block) != State::Used || space.pinned(block) {
                continue;
            }
            let (class, address) = (space.bytes(block), space.base(block));
            let hole = self.reusable(class, space.align(block));
            let Some(hole) = hole.filter(|hole| hole.address < address) else {
                continue;
            };
            self.free.remove(class, hole.address);
            space.exchange(block, BlockId(hole.block));
            self.put(BlockId(hole.block), space);
            done.moves += 1;
            done.moved_bytes += class;
        }
        self.retreat(space);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;
    use super::*;
    use crate::space::SpaceConfig;

    #[test]
    fn a_free_block_serves_its_own_class_only() {
        // Classes 1024, 512, 512 and 256; b's block serves d but not e, for which the
        // frontier ends at 2560.
        let hand = play(
            "size-class",
            2560,
            "A a 600 ; A b 512 ; A c 257 ; A d 1 ; F b ; F a ; A e 300 ; A f 700 ; A g 512 ; A h 256",
        );
        assert_eq!(
            hand.told,
            [
                "0", "1024", "1536", "2048", "ok", "ok", "1024", "0", "OOM", "2304"
            ]
        );
        assert_eq!(hand.replay.space().counters().used_bytes, 2560);
    }

    #[test]
    fn padding_at_the_frontier_is_waste() {
        let hand = play("size-class", 4096, "A a 256 ; A b 256 align=1024 ; A c 256");
        assert_eq!(hand.told, ["0", "1024", "1280"]);
        assert_eq!(hand.replay.space().counters().retired_bytes, 768);
    }

    #[test]
    fn four_steps_make_classes_of_a_quarter_octave() {
        let class = SizeClass::new(Spec {
            alignment: 256,
            steps: 4,
        })
        .expect("a power of two");
        let classes = [256, 512, 1025, 4097, 6000].map(|bytes| class.class_of(bytes));
        assert_eq!(classes, [256, 512, 1280, 5120, 6144].map(Some));
        assert_eq!(
            [4097, 6000, 6144].map(|bytes| class.class_within(bytes)),
            [4096, 5120, 6144]
        );
    }

    #[test]
    fn gathering_gives_the_frontier_what_is_free_below_it() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let mut policy = SizeClass::new(Spec::default()).expect("fits");
        policy.start(&mut space).expect("room");
        let request = Request {
            bytes: 1024,
            align: 1,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        let [low, middle, high] =
            [(); 3].map(|()| policy.alloc(&request, &mut space).expect("room"));
        policy.free(low, 0, false, &mut space);
        policy.free(middle, 0, false, &mut space);
        let large = Request {
            bytes: 2048,
            ..request
        };
        assert!(policy.alloc(&large, &mut space).is_err());
        let done = policy.gather(&mut space);
        assert_eq!((done.moves, done.moved_bytes), (1, 1024));
        assert_eq!(space.base(high), 0);
        let block = policy
            .alloc(&large, &mut space)
            .expect("the frontier went back");
        assert_eq!(space.base(block), 1024);
        assert_eq!(policy.servable(&space, 0), 1024);
    }
}
