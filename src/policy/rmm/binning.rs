//! `rmm-binning`: RMM's resource of bins, each of blocks of one size, over a pool.
//!
//! Source: librmm 26.10, `binning_memory_resource` with bins of powers of two over
//! `pool_memory_resource`, and its recordings.
//!
//! Tie-breaks: a request goes to the smallest bin that holds it, and above the largest
//! bin to the pool. Bins fill themselves from the pool at the start, the smallest first;
//! see [`super::fixed`] and [`super::pool`] for the rest. What a bin took
//! never goes back to the pool.

use serde::Deserialize;

use super::fixed::Blocks;
use super::pool::Pool;
use super::{Deferred, EventOrder, fixed, pool};
use crate::policy::limit::Limit;
use crate::policy::{Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{MIB, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Base-2 logarithm of the smallest bin's blocks.
    pub smallest_log2: u32,
    /// Base-2 logarithm of the largest bin's blocks.
    pub largest_log2: u32,
    /// Blocks that a bin takes from the pool at once.
    pub blocks_to_preallocate: u32,
    /// What the pool takes at the start, in bytes.
    #[serde(with = "serde_bytes")]
    pub initial: u64,
    /// What the pool may hold.
    pub maximum: Limit,
    /// In which order the lists of other streams are tried.
    pub events: EventOrder,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            smallest_log2: 10,
            largest_log2: 22,
            blocks_to_preallocate: 128,
            initial: 256 * MIB,
            maximum: Limit::Capacity,
            events: EventOrder::Ascending,
        }
    }
}

/// The policy.
pub struct Binning {
    bins: Vec<Blocks>,
    pool: Pool,
    deferred: Deferred,
}

impl Binning {
    /// The resource by `spec`.
    ///
    /// # Errors
    /// Bins that are not between 2^8 and 2^40, no blocks at once, or sizes that the pool
    /// refuses.
    pub fn new(spec: &Spec) -> Result<Self, PolicyError> {
        let (low, high) = (spec.smallest_log2, spec.largest_log2);
        if !(8..=40).contains(&low) || !(low..=40).contains(&high) {
            let what = format!("bins from 2^{low} to 2^{high}: expected 2^8 to 2^40, rising");
            return Err(PolicyError::new("rmm-binning", what));
        }
        if spec.blocks_to_preallocate == 0 {
            let what = "blocks_to_preallocate 0: expected at least 1";
            return Err(PolicyError::new("rmm-binning", what));
        }
        let bin = |log2: u32| fixed::Spec {
            block: 1 << log2,
            blocks_to_preallocate: spec.blocks_to_preallocate,
            events: spec.events,
        };
        Ok(Binning {
            bins: (low..=high).map(|log2| Blocks::new(&bin(log2))).collect(),
            pool: Pool::new(pool::Spec {
                initial: spec.initial,
                maximum: spec.maximum,
                events: spec.events,
                ..pool::Spec::default()
            })?,
            deferred: Deferred::default(),
        })
    }

    /// The bin for `bytes`; `None` above the largest.
    fn bin(&self, bytes: u64) -> Option<usize> {
        let at = self.bins.partition_point(|bin| bin.block_bytes < bytes);
        (at < self.bins.len()).then_some(at)
    }

    fn put(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        match self.bin(space.bytes(block)) {
            Some(bin) => self.bins[bin].put(block, stream, space),
            None => self.pool.free(block, stream, false, space),
        }
    }
}

impl Policy for Binning {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.pool.start(space)?;
        for bin in &mut self.bins {
            bin.start(&mut self.pool, space)?;
        }
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        match self.bin(request.bytes) {
            Some(bin) => self.bins[bin].alloc(request, &mut self.pool, space),
            None => self.pool.alloc(request, space),
        }
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            return self.deferred.defer(block, stream, space);
        }
        self.put(block, stream, space);
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let stream = self.deferred.complete(block, space);
        self.put(block, stream, space);
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let by_pool = self.pool.servable_bytes(space);
        let by_bins = self
            .bins
            .iter()
            .map(|bin| bin.servable_bytes(by_pool, space))
            .max();
        let beyond = self.bins.last().map_or(0, |bin| bin.block_bytes);
        let by_pool = if by_pool > beyond { by_pool } else { 0 };
        by_pool.max(by_bins.unwrap_or(0))
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        let bins = self.bins.iter().map(|bin| bin.largest_bytes(space)).max();
        Some(bins.unwrap_or(0).max(self.pool.largest_bytes(space)))
    }

    fn blind(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    /// By hand: bins of 256 and 512 bytes, two blocks each, lie at the start of the
    /// pool; what is larger comes from behind them.
    #[test]
    fn two_bins_and_a_pool_by_hand() {
        let spec = Spec {
            smallest_log2: 8,
            largest_log2: 9,
            blocks_to_preallocate: 2,
            initial: 4096,
            ..Spec::default()
        };
        let mut policy = Binning::new(&spec).expect("valid");
        let mut space = Space::new(SpaceConfig {
            blind: false,
            ..SpaceConfig::bare(4096)
        });
        policy.start(&mut space).expect("room");
        let mut base = |bytes: u64| {
            let request = Request {
                bytes,
                align: 1,
                stream: 0,
                pool: 0,
                tag: 0,
            };
            let block = policy.alloc(&request, &mut space).expect("room");
            space.base(block)
        };
        assert_eq!(
            [base(1), base(256), base(257), base(513)],
            [0, 256, 512, 1536]
        );
        assert_eq!([base(256), base(256), base(256)], [2304, 2560, 2816]);
        assert_eq!(policy.servable(&space, 0), 1024 - 256);
    }
}
