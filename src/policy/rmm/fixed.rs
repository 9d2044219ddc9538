//! `rmm-fixed`: RMM's resource of blocks of one size.
//!
//! Source: librmm 26.10, `fixed_size_memory_resource`, and its recordings.
//!
//! Tie-breaks: each stream's free blocks are a queue, first in, first out; a new
//! upstream block is cut into blocks that join it by rising address. Other streams'
//! queues are tried as in the pool. Nothing is ever given back upstream.

use serde::Deserialize;

use super::lists::{Lists, Queue};
use super::pool::Pool;
use super::{Deferred, EventOrder};
use crate::policy::{Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{MIB, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Size of every block, in bytes; larger requests fail.
    #[serde(with = "serde_bytes")]
    pub block: u64,
    /// Blocks taken from the driver at once, the first time at the start.
    pub blocks_to_preallocate: u32,
    /// In which order the queues of other streams are tried.
    pub events: EventOrder,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            block: MIB,
            blocks_to_preallocate: 128,
            events: EventOrder::Ascending,
        }
    }
}

/// Where blocks are cut from.
pub(super) trait Upstream {
    /// A free range of `bytes` for `stream`.
    fn take(&mut self, bytes: u64, stream: StreamId, space: &mut Space) -> Option<BlockId>;
}

/// The driver.
struct Cuda;

impl Upstream for Cuda {
    fn take(&mut self, bytes: u64, _: StreamId, space: &mut Space) -> Option<BlockId> {
        space.map(bytes).ok()
    }
}

impl Upstream for Pool {
    fn take(&mut self, bytes: u64, stream: StreamId, space: &mut Space) -> Option<BlockId> {
        Pool::take(self, bytes, stream, space)
    }
}

/// Blocks of one size over an upstream.
pub(super) struct Blocks {
    pub(super) block_bytes: u64,
    at_once: u64,
    lists: Lists<Queue>,
}

impl Blocks {
    pub(super) fn new(spec: &Spec) -> Self {
        Blocks {
            block_bytes: spec.block,
            at_once: u64::from(spec.blocks_to_preallocate),
            lists: Lists::new(spec.events),
        }
    }

    /// Takes upstream memory and cuts it; the blocks by rising address.
    fn refill(
        &mut self,
        stream: StreamId,
        upstream: &mut dyn Upstream,
        space: &mut Space,
    ) -> Result<Vec<BlockId>, OutOfMemory> {
        let bytes = self.block_bytes * self.at_once;
        let whole = upstream
            .take(bytes, stream, space)
            .ok_or(OutOfMemory::no_fit(bytes))?;
        let mut blocks = vec![whole];
        for _ in 1..self.at_once {
            let rest = space.split(blocks[blocks.len() - 1], self.block_bytes);
            blocks.push(rest);
        }
        Ok(blocks)
    }

    pub(super) fn start(
        &mut self,
        upstream: &mut dyn Upstream,
        space: &mut Space,
    ) -> Result<(), OutOfMemory> {
        for block in self.refill(0, upstream, space)? {
            self.lists.put_at_start(block, space);
        }
        Ok(())
    }

    pub(super) fn alloc(
        &mut self,
        request: &Request,
        upstream: &mut dyn Upstream,
        space: &mut Space,
    ) -> Result<BlockId, OutOfMemory> {
        let refused = OutOfMemory::no_fit(self.block_bytes);
        if request.bytes > self.block_bytes {
            return Err(OutOfMemory::no_fit(request.bytes));
        }
        let stream = request.stream;
        let found = self.lists.search(request.bytes, stream, space);
        let block = match found {
            Some((block, _)) => block,
            None => {
                let blocks = self.refill(stream, upstream, space).map_err(|_| refused)?;
                for block in &blocks[1..] {
                    self.lists.put(*block, stream, space);
                }
                blocks[0]
            }
        };
        if !space.base(block).is_multiple_of(request.align) {
            // The resource knows no alignment beyond its blocks'.
            self.lists.put(block, stream, space);
            return Err(refused);
        }
        space.place(block, request);
        Ok(block)
    }

    pub(super) fn put(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        space.release(block, stream);
        self.lists.put(block, stream, space);
    }

    pub(super) fn largest_bytes(&self, space: &Space) -> u64 {
        self.lists.largest_bytes(space)
    }

    /// The largest request that would be served, where `more` bytes could be had upstream.
    pub(super) fn servable_bytes(&self, more: u64, space: &Space) -> u64 {
        let refills = more >= self.block_bytes * self.at_once;
        if refills {
            self.block_bytes
        } else {
            self.largest_bytes(space)
        }
    }
}

/// The policy.
pub struct Fixed {
    blocks: Blocks,
    deferred: Deferred,
}

impl Fixed {
    /// The resource by `spec`.
    ///
    /// # Errors
    /// A block that is no multiple of 256 bytes, or no blocks at once.
    pub fn new(spec: &Spec) -> Result<Self, PolicyError> {
        if spec.block == 0 || !spec.block.is_multiple_of(super::QUANTUM_BYTES) {
            let what = format!("block {}: expected a multiple of 256", spec.block);
            return Err(PolicyError::new("rmm-fixed", what));
        }
        if spec.blocks_to_preallocate == 0 {
            let what = "blocks_to_preallocate 0: expected at least 1";
            return Err(PolicyError::new("rmm-fixed", what));
        }
        Ok(Fixed {
            blocks: Blocks::new(spec),
            deferred: Deferred::default(),
        })
    }
}

impl Policy for Fixed {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.blocks.start(&mut Cuda, space)
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        self.blocks.alloc(request, &mut Cuda, space)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            return self.deferred.defer(block, stream, space);
        }
        self.blocks.put(block, stream, space);
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let stream = self.deferred.complete(block, space);
        self.blocks.put(block, stream, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        Some(self.blocks.block_bytes.max(request.bytes))
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        self.blocks.servable_bytes(space.room_bytes(), space)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        Some(self.blocks.largest_bytes(space))
    }

    fn blind(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    /// By hand: two blocks of 1 KiB; what was freed first comes last; a third block
    /// needs a second pair, which lies above the first.
    #[test]
    fn a_queue_by_hand() {
        let spec = Spec {
            block: 1024,
            blocks_to_preallocate: 2,
            ..Spec::default()
        };
        let mut fixed = Fixed::new(&spec).expect("valid");
        let config = SpaceConfig {
            blind: false,
            ..SpaceConfig::bare(4096)
        };
        let mut space = Space::new(config);
        fixed.start(&mut space).expect("room");
        let ask = |bytes| Request {
            bytes,
            align: 1,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        let one = fixed.alloc(&ask(10), &mut space).expect("room");
        fixed.free(one, 0, false, &mut space);
        let mut bases = Vec::new();
        for _ in 0..3 {
            let block = fixed.alloc(&ask(1024), &mut space).expect("room");
            bases.push(space.base(block));
        }
        assert_eq!(bases, [1024, 0, 2048]);
        assert_eq!(
            fixed.alloc(&ask(1025), &mut space),
            Err(OutOfMemory::no_fit(1025))
        );
        assert!(fixed.alloc(&ask(1), &mut space).is_ok());
        assert_eq!(
            fixed.alloc(&ask(1), &mut space),
            Err(OutOfMemory::no_fit(1024))
        );
    }
}
