//! Policies: who decides where a request goes.
//!
//! A policy is one file: its source, its parameters, its tie-breaks, its hand-computed
//! test. It keeps only its index over free blocks and its rules; the [`Space`] owns the
//! tiling. Left out of the trait on purpose: names, statistics, clocks, randomness,
//! input and output, and any look ahead.
//!
//! Adding a policy touches one new file, one variant of [`Spec`] and one arm of its `build`.

pub mod best_fit;
pub mod bfc;
pub mod buddy;
pub mod bump;
pub mod compaction;
pub mod cuda_malloc;
pub mod cuda_malloc_async;
pub mod cupy;
mod cut;
pub mod first_fit;
pub mod fit;
pub mod growing;
#[cfg(test)]
mod hand;
pub mod holes;
pub mod hybrid;
pub mod index;
pub mod ledger;
pub mod lifetime;
pub mod limit;
pub mod llama_cpp_pool;
pub mod managed;
pub mod next_fit;
pub mod offset_allocator;
pub mod paging;
pub mod planned;
pub mod pytorch;
pub mod registry;
pub mod rmm;
pub mod size_class;
pub mod spec;
pub mod stitching;
pub mod stitching_pages;
pub mod stream_first_fit;
pub mod tlsf;
pub mod uniform;
pub mod vma;
pub mod worst_fit;

pub use registry::{Chosen, PolicyError, Registry};
pub use spec::Spec;

use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::truth::TruthSegment;
use crate::trace::{PoolId, PoolStep, Slot, StreamId};
use ledger::{Batch, Carried, Ledger};

/// How the blocks of a policy may be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// Blocks must stay.
    Fixed,
    /// Holes may be closed by sliding blocks down: the policy accepts any tiling that
    /// [`Policy::forget`] and [`Policy::learn`] leave.
    Slide,
    /// Blocks may only change places with free ones of the same size;
    /// [`Policy::gather`] does it.
    Exchange,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Blocks moved.
    pub moves: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
}

/// Counts that only some policies have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tallies {
    /// Compactions that ran.
    pub compactions: u64,
    /// Compactions that their interval held back.
    pub held_back: u64,
    /// The longest that the moves of one compaction took, ns.
    pub longest_pause_ns: u64,
}

/// The rules of an allocator. Every call happens during one event of a trace.
pub trait Policy: Send {
    /// Takes what the policy takes before the first request.
    ///
    /// # Errors
    /// [`OutOfMemory`] where the driver does not give it.
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let _ = space;
        Ok(())
    }

    /// Serves a request: the returned block was placed by [`Space::place`] for it.
    ///
    /// # Errors
    /// [`OutOfMemory`]: the request is not served, and the policy is as before, but for
    /// what its rules do on a shortage (giving caches back, merging, growing in part).
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory>;

    /// Takes a block back on `stream`. Where `pending` (never for a blind policy), a
    /// stream may still use it: the policy defers it ([`Space::defer`]) and hears of its
    /// end by [`complete`](Self::complete), unless it synchronises and completes by itself.
    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space);

    /// The largest request on `stream` that would be served now, in bytes, mapping more
    /// included, but without moving a block or waiting for the device.
    fn servable(&self, space: &Space, stream: StreamId) -> u64;

    /// The fewest bytes of a block that serves the request: its bytes as the policy rounds
    /// them, without what is left over where a block is not split. `None` where they pass
    /// the largest integer.
    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        Some(request.bytes)
    }

    /// The largest Free block, in bytes, where the policy's index knows it; else the
    /// replay lets the Space keep all sizes in order, which is slower. A policy answers
    /// always or never.
    fn largest_free(&self, space: &Space) -> Option<u64> {
        let _ = space;
        None
    }

    /// Whether the policy leaves the order of streams to others: it then hears of no
    /// pending frees, and reuse before an ordering point is counted as a hazard.
    fn blind(&self) -> bool {
        true
    }

    /// Whether free neighbours become one block sooner or later, so that memory that is
    /// all free lies in one piece a segment.
    fn joins(&self) -> bool {
        true
    }

    /// A deferred block became reusable.
    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let _ = (block, space);
    }

    /// Another stream reads the block (`record_stream`); `None` where it is not known which.
    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        let _ = (block, stream, space);
    }

    /// The program asks to give cached memory back.
    fn trim(&mut self, space: &mut Space) {
        let _ = space;
    }

    /// A phase begins.
    fn mark(&mut self, label: u32, space: &mut Space) {
        let _ = (label, space);
    }

    /// A pool begins, ends or is released.
    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        let _ = (step, pool, stream, space);
    }

    /// An ordering point between streams passed.
    fn ordered(&mut self, space: &mut Space) {
        let _ = space;
    }

    /// How blocks may be moved.
    fn motion(&self) -> Motion {
        Motion::Fixed
    }

    /// Moves blocks together, where the policy does so by itself; `None` where it does not.
    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        let _ = space;
        None
    }

    /// Moves used blocks into free ones of their size, so that what is free joins, for a
    /// wrapper around a policy of [`Motion::Exchange`].
    fn gather(&mut self, space: &mut Space) -> Compacted {
        let _ = space;
        Compacted::default()
    }

    /// A free block is about to be moved or joined by a wrapper: drop it from the index.
    fn forget(&mut self, free: BlockId, space: &Space) {
        let _ = (free, space);
    }

    /// A free block lies where a wrapper left it: take it into the index.
    fn learn(&mut self, free: BlockId, space: &Space) {
        let _ = (free, space);
    }

    /// Whether a wrapper may move blocks into any hole of any segment, and
    /// [`release_segment`](Self::release_segment) gives segments back.
    fn evacuates(&self) -> bool {
        false
    }

    /// A wrapper emptied a segment: `all` of it is Free, in the index. Gives it back to
    /// the driver, unless the policy keeps it.
    fn release_segment(&mut self, all: BlockId, space: &mut Space) {
        let _ = (all, space);
    }

    /// Rebuilds what was there before a recording began, at its recorded addresses: the
    /// blocks of the live slots. `None` where the policy cannot.
    fn adopt(
        &mut self,
        segments: &[TruthSegment],
        space: &mut Space,
    ) -> Option<Vec<(Slot, BlockId)>> {
        let _ = (segments, space);
        None
    }

    /// Whether every request is a mapping of its own: recorded addresses of requests are
    /// then the driver's.
    fn maps_each(&self) -> bool {
        false
    }

    /// The statistics that the modelled allocator keeps, by its own names.
    fn statistics(&self) -> Vec<(String, i64)> {
        Vec::new()
    }

    #[doc(hidden)]
    /// Carries a batch of events out. No policy writes this: the loop stands in the trait so
    /// that it is compiled for each policy, which then costs one virtual call a batch.
    fn carry(&mut self, ledger: &mut Ledger, space: &mut Space, batch: Batch<'_>) -> Carried {
        ledger.carry(self, space, batch)
    }

    /// What this kind of policy counts besides the Space's sums.
    fn tallies(&self) -> Tallies {
        Tallies::default()
    }
}
