//! Bump: a moving offset in one block; everything is given back at once.
//!
//! Source: arena or region allocation, as in Hanson, "Fast allocation and deallocation
//! of memory based on object lifetimes" (Software: Practice and Experience 20, 1990).
//!
//! Tie-breaks: none; a request goes to the offset, rounded up to its alignment. The
//! offset goes back to 0 only when nothing is live; with `reset = "mark"` also at a
//! mark of the trace, where what is still live stays and is stepped over. Blocks may be
//! slid down by a wrapper, which gives back what was set aside.

use serde::Deserialize;

use super::{Motion, Policy};
use crate::space::{BlockId, OutOfMemory, Request, SegmentId, Space, State};
use crate::trace::StreamId;
use crate::units::{align_up, round_up, serde_align};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Sizes and offsets are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
    /// When the offset goes back.
    pub reset: Reset,
}

/// When the offset goes back to the lowest address that is not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reset {
    /// When nothing is live.
    Empty,
    /// When nothing is live, and at every mark.
    Mark,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            alignment: 256,
            reset: Reset::Empty,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct Bump {
    spec: Spec,
    /// The hole that the offset is in; `None` when the end is reached.
    hole: Option<BlockId>,
    /// Bytes of that hole; 0 where there is none.
    hole_bytes: u64,
    /// Where all of it lies, from the start on.
    segment: Option<SegmentId>,
    live: u64,
    /// A wrapper left holes since all was one.
    scattered: bool,
}

impl Bump {
    /// A bump pool by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Bump {
            spec,
            hole: None,
            hole_bytes: 0,
            segment: None,
            live: 0,
            scattered: false,
        }
    }

    /// The offset goes to the start of a hole.
    fn point_at(&mut self, hole: Option<BlockId>, space: &Space) {
        self.hole = hole;
        self.hole_bytes = hole.map_or(0, |hole| space.bytes(hole));
    }

    /// The offset goes back: retired memory is free again, neighbours are joined.
    fn reset(&mut self, space: &mut Space) {
        let mut lowest = None;
        let mut at = self.segment.map(|segment| space.first(segment));
        while let Some(block) = at {
            if space.state(block) == State::Retired {
                space.reclaim(block);
            }
            at = space.next(block);
            if space.state(block) != State::Free {
                continue;
            }
            if let Some(below) = space.free_prev(block) {
                space.merge(below, block);
            } else if lowest.is_none() {
                lowest = Some(block);
            }
        }
        self.point_at(lowest, space);
    }

    /// Sets a free block aside until the next reset, joined with waste below it.
    fn waste(block: BlockId, space: &mut Space) {
        space.forgo(block);
        space.join_retired(block);
    }

    /// Serves a request that the hole at the offset does not, or not at once.
    #[inline(never)]
    fn alloc_far(
        &mut self,
        bytes: u64,
        request: &Request,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let align = request.align;
        let Some(mut block) = self.advance(bytes, align, space) else {
            return Err(OutOfMemory::no_fit(bytes));
        };
        let start = space.base(block).next_multiple_of(align);
        if start > space.base(block) {
            let high = space.split(block, start - space.base(block));
            Self::waste(block, space);
            block = high;
        }
        let hole = if space.bytes(block) > bytes {
            Some(space.split(block, bytes))
        } else {
            next_hole(block, space)
        };
        self.point_at(hole, space);
        space.place(block, request);
        self.live += 1;
        Ok(block)
    }

    fn largest_hole_bytes(&self, space: &Space) -> u64 {
        let holes = std::iter::successors(self.hole, |hole| next_hole(*hole, space));
        holes.map(|hole| space.bytes(hole)).max().unwrap_or(0)
    }

    /// The next hole from the offset on that holds `bytes` aligned; holes passed are waste.
    fn advance(&mut self, bytes: u64, align: u64, space: &mut Space) -> Option<BlockId> {
        let mut at = self.hole;
        while let Some(block) = at {
            let start = round_up(space.base(block), align)?;
            if start.checked_add(bytes)? <= space.end(block) {
                return Some(block);
            }
            let next = next_hole(block, space);
            // The last hole stays, so that a smaller request may still be served from it.
            next?;
            Self::waste(block, space);
            self.point_at(next, space);
            at = next;
        }
        None
    }
}

/// The next free block above.
fn next_hole(block: BlockId, space: &Space) -> Option<BlockId> {
    let mut next = space.next(block);
    while let Some(above) = next.filter(|above| space.state(*above) != State::Free) {
        next = space.next(above);
    }
    next
}

impl Policy for Bump {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let all = space.map(space.capacity_bytes())?;
        self.point_at(Some(all), space);
        self.segment = Some(space.segment(all));
        Ok(())
    }

    #[inline(always)]
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = align_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        if let Some(hole) = self.hole
            && bytes < self.hole_bytes
            && space.base(hole) & (request.align - 1) == 0
        {
            self.hole = space.place_low(hole, bytes, request).1;
            self.hole_bytes -= bytes;
            self.live += 1;
            return Ok(hole);
        }
        self.alloc_far(bytes, request, space)
    }

    #[inline]
    fn free(&mut self, block: BlockId, _: StreamId, _: bool, space: &mut Space) {
        space.retire_joined(block);
        self.live -= 1;
        if self.live == 0 {
            self.reset(space);
            self.scattered = false;
        }
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    /// Where only an empty pool is reset, what is free is one hole but for what a wrapper
    /// leaves.
    #[inline]
    fn largest_free(&self, space: &Space) -> Option<u64> {
        match self.spec.reset {
            Reset::Mark => None,
            Reset::Empty if self.scattered => Some(self.largest_hole_bytes(space)),
            Reset::Empty => Some(self.hole_bytes),
        }
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let largest_bytes = self.largest_hole_bytes(space);
        largest_bytes - largest_bytes % self.spec.alignment
    }

    fn motion(&self) -> Motion {
        Motion::Slide
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        self.point_at(self.hole.filter(|hole| *hole != free), space);
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.scattered = true;
        let lower = |hole: &BlockId| space.base(*hole) < space.base(free);
        self.point_at(self.hole.filter(lower).or(Some(free)), space);
    }

    fn mark(&mut self, _: u32, space: &mut Space) {
        if self.spec.reset == Reset::Mark {
            self.reset(space);
        }
    }
}
