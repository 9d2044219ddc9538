//! Planned: every request goes where a plan made beforehand says, the rest to a pool.
//!
//! Source: Guo et al., "STAlloc: enhancing memory efficiency in large-scale model training
//! with spatio-temporal planning" (2025): a static plan of offsets for requests that come
//! back the same in every iteration, and a caching allocator for those that do not;
//! Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018).
//!
//! Parameters: `plan`, a `plan.csv` of another run of the workload; without one the plan is
//! made from the trace that is about to be replayed ([`Foresight`]); where there is no trace
//! ahead either, everything goes to the pool. `alignment`, of which sizes and offsets of a
//! plan from the trace are multiples. `over`, the pool, which must order streams.
//!
//! At the start each region of the plan is mapped whole: it holds the packing of one
//! stream, as memory of a stream cannot go to another one before an ordering point. A block
//! is planned to last until it may really be used again: to the end of a deferred free.
//! A request is looked for in the plan by its bytes and stream, at the place that comes
//! next or not more than 256 requests away. It goes to the pool where the plan does not
//! know it, and where its place is still taken, misaligned, or behind another stream.
//!
//! Tie-breaks: of several places for a request the next one of the plan. What is
//! [`servable`](Policy::servable) is what the pool could serve, whatever is planned.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::holes::start_in;
use super::{Policy, PolicyError, Tallies};
use crate::space::{BlockId, OutOfMemory, Request, Share, Space};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::serde_align;
use plan::Cursor;
pub use plan::{Foresight, Place, Plan};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// A plan of another run; empty for one that is made from the trace itself.
    pub plan: String,
    /// Sizes and offsets of a plan from the trace are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
    /// The policy of what is not planned, as the registry finds it.
    pub over: String,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            plan: String::new(),
            alignment: 512,
            over: "pytorch".into(),
        }
    }
}

/// One region of the plan, as it is mapped.
struct Region {
    segment: u32,
    base: u64,
    /// Free blocks by their first byte in the region.
    free: BTreeMap<u64, BlockId>,
}

/// The policy.
pub struct Planned {
    plan: Arc<Plan>,
    cursor: Cursor,
    regions: Vec<Region>,
    pool: Box<dyn Policy>,
    /// What the plan leaves of the capacity.
    share: Share,
}

impl Planned {
    /// Follows the plan that the spec names, or the one that foresight makes.
    ///
    /// # Errors
    /// A plan that cannot be read, or a pool that leaves the order of streams to others.
    pub fn new(
        spec: &Spec,
        pool: Box<dyn Policy>,
        foresight: Option<&dyn Foresight>,
    ) -> Result<Self, PolicyError> {
        let fail = |what: String| PolicyError::new("planned", what);
        if pool.blind() {
            let what = format!(
                "over = '{}' leaves the order of streams to others; name a policy that keeps \
                 it, such as pytorch",
                spec.over
            );
            return Err(fail(what));
        }
        let plan = match (spec.plan.as_str(), foresight) {
            ("", Some(foresight)) => foresight.plan(spec.alignment),
            ("", None) => Arc::default(),
            (path, _) => Arc::new(Plan::read(path.as_ref()).map_err(fail)?),
        };
        Ok(Planned {
            plan,
            cursor: Cursor::default(),
            regions: Vec::new(),
            pool,
            share: Share::new(0),
        })
    }

    /// Calls the pool with the Space narrowed to what the plan leaves.
    fn in_pool<T>(
        &mut self,
        space: &mut Space,
        call: impl FnOnce(&mut dyn Policy, &mut Space) -> T,
    ) -> T {
        let pool = &mut *self.pool;
        space.within(&mut self.share, |space| call(pool, space))
    }

    /// The region that a block lies in; `None` for a block of the pool.
    fn region_of(&self, block: BlockId, space: &Space) -> Option<usize> {
        let segment = space.segment(block).0;
        self.regions
            .iter()
            .position(|region| region.segment == segment)
    }

    /// Serves a request at its place, where that is free for it.
    fn at_place(&mut self, place: &Place, request: &Request, space: &mut Space) -> Option<BlockId> {
        let region = &mut self.regions[usize::from(place.region)];
        let offset = place.offset?;
        let (from, hole) = region.free.range(..=offset).next_back()?;
        let (from, hole) = (*from, *hole);
        let base = region.base;
        let start = start_in(
            base + offset,
            space.end(hole),
            place.block_bytes,
            request.align,
        )?;
        if start != base + offset || !space.usable(hole, request.stream) {
            return None;
        }
        region.free.remove(&from);
        let mut block = hole;
        if offset > from {
            block = space.split(hole, offset - from);
            region.free.insert(from, hole);
        }
        if space.bytes(block) > place.block_bytes {
            let rest = space.split(block, place.block_bytes);
            region.free.insert(space.base(rest) - base, rest);
        }
        space.place(block, request);
        Some(block)
    }

    /// A block of a region is Free: it joins its neighbours, where one stream freed both.
    fn give_back(&mut self, region: usize, mut block: BlockId, space: &mut Space) {
        let region = &mut self.regions[region];
        if let Some(above) = space
            .free_next(block)
            .filter(|it| space.mergeable(block, *it))
        {
            region.free.remove(&(space.base(above) - region.base));
            space.merge(block, above);
        }
        if let Some(below) = space
            .free_prev(block)
            .filter(|it| space.mergeable(*it, block))
        {
            space.merge(below, block);
            block = below;
        }
        region.free.insert(space.base(block) - region.base, block);
    }
}

impl Policy for Planned {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        for bytes in self.plan.region_bytes.iter().filter(|bytes| **bytes > 0) {
            let block = space.map(*bytes)?;
            self.regions.push(Region {
                segment: space.segment(block).0,
                base: space.base(block),
                free: BTreeMap::from([(0, block)]),
            });
        }
        let planned_bytes: u64 = self.plan.region_bytes.iter().sum();
        self.share = Share::new(space.capacity_bytes() - planned_bytes);
        self.in_pool(space, |pool, space| pool.start(space))
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let plan = Arc::clone(&self.plan);
        let place = self.cursor.find(&plan, request.bytes, request.stream);
        let planned = place.and_then(|place| self.at_place(&place, request, space));
        match planned {
            Some(block) => Ok(block),
            None => self.in_pool(space, |pool, space| pool.alloc(request, space)),
        }
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        match self.region_of(block, space) {
            None => self.in_pool(space, |pool, space| {
                pool.free(block, stream, pending, space)
            }),
            Some(_) if pending => space.defer(block),
            Some(region) => {
                space.release(block, stream);
                self.give_back(region, block, space);
            }
        }
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        match self.region_of(block, space) {
            None => self.in_pool(space, |pool, space| pool.complete(block, space)),
            Some(region) => {
                // The wait for the other streams is over: the block is its own stream's again.
                space.release(block, space.stream(block));
                self.give_back(region, block, space);
            }
        }
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        self.pool.servable(space, stream)
    }

    fn blind(&self) -> bool {
        false
    }

    fn joins(&self) -> bool {
        self.pool.joins()
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        if self.region_of(block, space).is_none() {
            self.in_pool(space, |pool, space| pool.use_on(block, stream, space));
        }
    }

    fn trim(&mut self, space: &mut Space) {
        self.in_pool(space, |pool, space| pool.trim(space));
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.in_pool(space, |pool, space| pool.mark(label, space));
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.in_pool(space, |inner, space| inner.pool(step, pool, stream, space));
    }

    fn ordered(&mut self, space: &mut Space) {
        self.in_pool(space, |pool, space| pool.ordered(space));
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        self.pool.statistics()
    }

    fn tallies(&self) -> Tallies {
        self.pool.tallies()
    }
}

#[cfg(test)]
mod tests;
