//! GMLake: scattered pages are joined behind one address.
//!
//! Source: Guo and others, "GMLake: Efficient and Transparent GPU Memory Defragmentation
//! for Large-scale DNN Training with Virtual Memory Stitching", ASPLOS 2024, and the
//! parameters of its tutorial.
//!
//! A primitive block owns pages; a stitched block is a second range of addresses over
//! the pages of several primitives. A free gives nothing back. A request of `bytes` is
//! served by the first that holds:
//! - S1, exact match: a free primitive of `bytes`, else a stitched block of `bytes` all of
//!   whose primitives are free;
//! - S2, single block: the smallest primitive above `bytes` is cut; with `keep_split` its
//!   two halves are stitched to a block of the old size, for its next request;
//! - S3, multiple blocks: primitives below `bytes`, the largest first, until they suffice;
//!   the last one is cut to the exact sum; all are stitched;
//! - S4, insufficient blocks: all of those and a new primitive of what they lack;
//! - S5, out of memory: the device is waited for, all that is free goes back to the
//!   driver, and the request is tried once more.
//!
//! Parameters: `small`, the policy of requests below `small_limit`; `fragment_limit`, below
//! which a primitive is neither cut nor stitched; `chunk`, of which primitives are
//! multiples (one handle of physical memory each); `stitched_limit`, the addresses that
//! stitched blocks may take before those used longest ago go (StitchFree); `keep_split`;
//! `on_shortage`, to stitch only where the driver has no more (S4 without S3 before it).
//!
//! Tie-breaks: of equal primitives the lowest address, in S3 the highest; of equal
//! stitched blocks the oldest address. Primitives serve the stream that they were made
//! for. An alignment above `chunk` is refused.

mod cache;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use super::{Policy, PolicyError, Tallies};
use crate::space::{BlockId, Cause, OutOfMemory, Request, Space};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::{round_up, serde_align, serde_bytes};
use cache::Cache;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The policy of small requests, as the registry finds it.
    pub small: String,
    /// Requests below this are small, in bytes.
    #[serde(with = "serde_bytes")]
    pub small_limit: u64,
    /// Primitives below this are neither cut nor stitched, in bytes.
    #[serde(with = "serde_bytes")]
    pub fragment_limit: u64,
    /// Primitives are multiples of this, in bytes; at least the device's page.
    #[serde(with = "serde_align")]
    pub chunk: u64,
    /// Addresses that stitched blocks may take together, in bytes.
    #[serde(with = "serde_bytes")]
    pub stitched_limit: u64,
    /// Whether the halves of a cut are stitched to a block of the old size.
    pub keep_split: bool,
    /// Whether to stitch only where the driver has no more.
    pub on_shortage: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            small: "pytorch".into(),
            small_limit: 2 << 20,
            fragment_limit: 512 << 20,
            chunk: 2 << 20,
            stitched_limit: 1000 << 30,
            keep_split: true,
            on_shortage: false,
        }
    }
}

/// The policy.
pub struct Stitching {
    spec: Spec,
    small: Box<dyn Policy>,
    cache: Cache,
    /// Blocks of ours whose free is outstanding.
    deferred: Vec<BlockId>,
}

impl Stitching {
    /// Stitching beside `small`.
    ///
    /// # Errors
    /// A chunk of less than a byte of a small request.
    pub fn new(spec: Spec, small: Box<dyn Policy>) -> Result<Self, PolicyError> {
        if spec.fragment_limit < spec.chunk {
            let what = format!(
                "fragment_limit = {}: expected at least chunk = {}",
                spec.fragment_limit, spec.chunk
            );
            return Err(PolicyError::new("stitching", what));
        }
        Ok(Stitching {
            cache: Cache::new(&spec),
            spec,
            small,
            deferred: Vec::new(),
        })
    }

    /// A free block of exactly `bytes`, by the five states but the last.
    fn obtain(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        if let Some(block) = self.cache.exact(bytes, stream, space) {
            return Ok(block);
        }
        if let Some(block) = self.cache.single(bytes, stream, space) {
            return Ok(block);
        }
        if self.spec.on_shortage
            && let Ok(block) = self.cache.grow(bytes, stream, space)
        {
            return Ok(block);
        }
        self.cache.several(bytes, stream, space)
    }

    /// Waits for the device and gives everything back that is free.
    fn release_all(&mut self, space: &mut Space) {
        space.synchronise();
        self.small.ordered(space);
        for block in std::mem::take(&mut self.deferred) {
            self.cache.take_back(block, space);
        }
        self.small.trim(space);
        self.cache.release(space);
    }

    fn ask_small(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        match self.small.alloc(request, space) {
            Err(shortage) if shortage.cause != Cause::Overflow => {
                self.release_all(space);
                self.small.alloc(request, space)
            }
            answer => answer,
        }
    }
}

impl Policy for Stitching {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.cache.start(space);
        self.small.start(space)
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        if request.bytes < self.spec.small_limit {
            return self.ask_small(request, space);
        }
        let chunk_bytes = self.cache.chunk_bytes();
        let bytes =
            round_up(request.bytes, chunk_bytes).ok_or(OutOfMemory::overflow(request.bytes))?;
        if request.align > chunk_bytes {
            return Err(OutOfMemory::no_fit(bytes));
        }
        let block = match self.obtain(bytes, request.stream, space) {
            Ok(block) => block,
            Err(_) => {
                self.release_all(space);
                self.obtain(bytes, request.stream, space)?
            }
        };
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if !self.cache.owns(block, space) {
            self.small.free(block, stream, pending, space);
        } else if pending {
            space.defer(block);
            self.deferred.push(block);
        } else {
            self.cache.take_back(block, space);
        }
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        if self.cache.owns(block, space) {
            self.deferred.retain(|waiting| *waiting != block);
            self.cache.take_back(block, space);
        } else {
            self.small.complete(block, space);
        }
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let large_bytes = self.cache.servable(stream, space);
        if large_bytes >= self.spec.small_limit {
            return large_bytes;
        }
        let small_bytes = self.small.servable(space, stream);
        small_bytes.min(self.spec.small_limit.saturating_sub(1))
    }

    fn blind(&self) -> bool {
        self.small.blind()
    }

    fn joins(&self) -> bool {
        false
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        if !self.cache.owns(block, space) {
            self.small.use_on(block, stream, space);
        }
    }

    fn trim(&mut self, space: &mut Space) {
        self.release_all(space);
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.small.mark(label, space);
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.small.pool(step, pool, stream, space);
    }

    fn ordered(&mut self, space: &mut Space) {
        self.small.ordered(space);
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        let mut all = self.small.statistics();
        all.extend(self.cache.statistics());
        all
    }

    fn tallies(&self) -> Tallies {
        self.small.tallies()
    }
}
