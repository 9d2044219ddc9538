//! The offset allocator of game engines and of Rust's renderers: bins that round up.
//!
//! Source: Sebastian Aaltonen's `OffsetAllocator` (github.com/sebbbi/OffsetAllocator) and its
//! port to Rust, the crate `offset-allocator` 0.2.
//!
//! It is TLSF with 8 bins a power of two, linear below 8 units: sizes are small floats of
//! 3 bits, a hole lies in the bin below its size, and a request looks from the bin above
//! its size on. A hole of exactly the size asked for is so missed unless the size is a
//! bin's own: a heap of 513 units cannot serve 513, one of 576 can.
//!
//! It also keeps a table of nodes, one for each allocation and each hole, and refuses
//! every request once the table is full.
//!
//! Tie-breaks: the smallest bin from the boundary on that is not empty, of that the hole
//! that was added last. The low part is used; neighbours are joined at once.

use serde::Deserialize;

use super::tlsf::{self, Tlsf};
use super::{Motion, Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::serde_align;

/// Bins a power of two, as a power of two: the bits of the mantissa.
const MANTISSA_BITS: u32 = 3;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// What one unit of the allocator stands for, in bytes; sizes are multiples of it.
    #[serde(with = "serde_align")]
    pub unit: u64,
    /// Nodes of its table; one of them is never used.
    pub nodes: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            unit: 256,
            nodes: 128 << 10,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct OffsetAllocator {
    inner: Tlsf,
    live: u32,
    nodes: u32,
}

impl OffsetAllocator {
    /// An offset allocator by `spec`.
    ///
    /// # Errors
    /// A table without room for an allocation and a hole.
    pub fn new(spec: &Spec) -> Result<Self, PolicyError> {
        if spec.nodes < 3 {
            let what = format!("nodes = {}: expected 3 or more", spec.nodes);
            return Err(PolicyError::new("offset-allocator", what));
        }
        let lists = tlsf::Spec {
            alignment: spec.unit,
            sli: MANTISSA_BITS,
        };
        Ok(OffsetAllocator {
            inner: Tlsf::with_lists(lists, spec.unit.ilog2()),
            live: 0,
            nodes: spec.nodes,
        })
    }

    /// Whether the table of nodes has none left.
    fn full(&self) -> bool {
        self.live + self.inner.holes() + 1 >= self.nodes
    }
}

impl Policy for OffsetAllocator {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.inner.start(space)
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        if self.full() {
            return Err(OutOfMemory::no_fit(request.bytes));
        }
        let block = self.inner.alloc(request, space)?;
        self.live += 1;
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        self.live -= 1;
        self.inner.free(block, stream, pending, space);
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        if self.full() {
            return 0;
        }
        self.inner.servable(space, stream)
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        self.inner.rounded_bytes(request)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        self.inner.largest_free(space)
    }

    fn motion(&self) -> Motion {
        self.inner.motion()
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        self.inner.forget(free, space);
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.inner.learn(free, space);
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    /// The cases of a public thread: 324 units, 255 of them used, and 67 do not fit the 69
    /// that are left (67 is looked for from 72 on); 513 of 513 fails, 513 of 576 does not.
    #[test]
    fn a_request_between_two_bins_misses_a_hole_that_would_hold_it() {
        let spec = "offset-allocator:unit=1";
        let hand = play(spec, 324, "A a 255 ; A b 67 ; A c 64");
        assert_eq!(hand.told, ["0", "OOM", "255"]);
        assert_eq!(play(spec, 513, "A a 513").told, ["OOM"]);
        assert_eq!(play(spec, 576, "A a 513").told, ["0"]);
    }

    #[test]
    fn a_full_table_refuses() {
        // Five nodes, of which one is never used: three allocations and the rest behind.
        let spec = "offset-allocator:unit=1,nodes=5";
        let hand = play(spec, 1024, "A a 8 ; A b 8 ; A c 8 ; A d 8 ; F a ; A e 8");
        assert_eq!(hand.told, ["0", "8", "16", "OOM", "ok", "OOM"]);
    }
}
