//! The driver itself: every request a cudaMalloc, every free a cudaFree.
//!
//! Source: 8,300 recorded calls on an H200 (driver 580.159.04); the rule of its addresses
//! is the Space's own ([`driver`](crate::space::driver)).
//!
//! Parameters: what the program's context leaves free for the first allocations,
//! `context_pages` at the end of its last chunk and the `lone_page` below it.
//!
//! Tie-breaks: the driver's. Physical pages are shared, so no request fails by
//! fragmentation; a free waits for the device, so no stream can be surprised.

use serde::Deserialize;

use super::Policy;
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Free pages at the end of the context's last chunk.
    pub context_pages: u64,
    /// A free page between those of the context.
    pub lone_page: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            context_pages: 12,
            lone_page: true,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct CudaMalloc {
    spec: Spec,
}

impl CudaMalloc {
    /// The driver by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        CudaMalloc { spec }
    }
}

impl Policy for CudaMalloc {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let Spec {
            context_pages,
            lone_page,
        } = self.spec;
        space.driver_mut().begin_context(context_pages, lone_page);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let mut block = space.map(request.bytes)?;
        if !space.base(block).is_multiple_of(request.align) {
            space.unmap(block);
            let bytes = request.bytes.checked_add(request.align);
            let bytes = bytes.ok_or_else(|| OutOfMemory::overflow(request.bytes))?;
            block = space.map(bytes)?;
            let base = space.base(block);
            let skip = base.next_multiple_of(request.align) - base;
            if skip > 0 {
                block = space.split(block, skip);
            }
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        let mut whole = block;
        if let Some(skipped) = space.free_prev(block) {
            space.merge(skipped, block);
            whole = skipped;
        }
        space.unmap(whole);
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        space.room_bytes()
    }

    fn maps_each(&self) -> bool {
        true
    }
}
