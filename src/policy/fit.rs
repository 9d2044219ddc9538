//! One segment of all the capacity, cut by a rule: what first, next, best and worst fit share.
//!
//! Sizes are rounded up to the alignment. A block is cut at the low end of the hole that
//! the rule chooses; freed blocks are joined with free neighbours at once.

use serde::Deserialize;

use super::holes::{Holes, KnowsLargest, entry, serve, take_back};
use super::index::Entry;
use super::{Motion, Policy};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{align_up, round_up, serde_align};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec { alignment: 256 }
    }
}

/// Which hole a request is cut from.
pub trait Rule: Default + Send {
    /// The index that answers the rule's question.
    type Holes: KnowsLargest;

    /// The hole for `bytes` at a multiple of `align`.
    fn choose(&self, holes: &Self::Holes, bytes: u64, align: u64) -> Option<Entry>;

    /// A block was placed up to `end`.
    fn placed(&mut self, end: u64) {
        let _ = end;
    }
}

/// The policy of a rule.
pub struct Fit<R: Rule> {
    spec: Spec,
    rule: R,
    holes: R::Holes,
}

impl<R: Rule> Fit<R> {
    /// The rule's policy by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Fit {
            spec,
            rule: R::default(),
            holes: R::Holes::default(),
        }
    }
}

impl<R: Rule> Policy for Fit<R> {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let all = space.map(space.capacity_bytes())?;
        self.holes.add(entry(all, space));
        Ok(())
    }

    #[inline(always)]
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = align_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let hole = self
            .rule
            .choose(&self.holes, bytes, request.align)
            .ok_or(OutOfMemory::no_fit(bytes))?;
        let block = serve(&mut self.holes, hole, bytes, request, space);
        self.rule.placed(space.end(block));
        Ok(block)
    }

    #[inline]
    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        take_back(&mut self.holes, block, stream, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    fn servable(&self, _: &Space, _: StreamId) -> u64 {
        let largest_bytes = self.holes.largest_bytes();
        largest_bytes - largest_bytes % self.spec.alignment
    }

    #[inline]
    fn largest_free(&self, _: &Space) -> Option<u64> {
        Some(self.holes.largest_bytes())
    }

    fn motion(&self) -> Motion {
        Motion::Slide
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        self.holes.remove(entry(free, space));
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.holes.add(entry(free, space));
    }
}
