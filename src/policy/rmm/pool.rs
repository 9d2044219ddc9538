//! `rmm-pool`: RMM's pool, coalescing best fit over upstream blocks.
//!
//! Source: librmm 26.10, `pool_memory_resource`; part B of the project's specification.
//!
//! Tie-breaks: the smallest block that is large enough, of equal ones the lowest address,
//! in the list of the own stream, then in the first other list that has one; else all
//! lists are merged; else the pool grows. Every multiple of 256 bytes left over becomes
//! a free block, in the list that the block came from. Where the maximum leaves no room,
//! wholly free upstream blocks go back, lowest address first, until it does.
//!
//! Kept as the library has them: growth by half of what the maximum leaves, blocks that
//! are no multiples of 256, and a maximum passed by up to 255 bytes, after which the
//! headroom wraps and the pool neither grows nor gives back.

use serde::Deserialize;

use super::lists::{Coalescing, Lists};
use super::{Deferred, EventOrder, QUANTUM_BYTES};
use crate::policy::cut::{cut_back, cut_front, padded_bytes};
use crate::policy::limit::{Limit, room_after_bytes};
use crate::policy::{Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{MIB, round_up, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Taken at the start, in bytes; no more than the run may use.
    #[serde(with = "serde_bytes")]
    pub initial: u64,
    /// What the pool may hold; with none it doubles until the driver refuses.
    pub maximum: Limit,
    /// Wholly free upstream blocks go back where the maximum leaves no room (26.10; not
    /// before).
    pub reclaim: bool,
    /// In which order the lists of other streams are tried.
    pub events: EventOrder,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            initial: 256 * MIB,
            maximum: Limit::Capacity,
            reclaim: true,
            events: EventOrder::Ascending,
        }
    }
}

/// The policy.
pub struct Pool {
    spec: Spec,
    lists: Lists<Coalescing>,
    maximum_bytes: Option<u64>,
    pool_bytes: u64,
    deferred: Deferred,
}

impl Pool {
    /// A pool by `spec`.
    ///
    /// # Errors
    /// Sizes that are no multiples of 256, or an initial size above the maximum.
    pub fn new(spec: Spec) -> Result<Self, PolicyError> {
        let fail = |what: String| Err(PolicyError::new("rmm-pool", what));
        if !spec.initial.is_multiple_of(QUANTUM_BYTES) {
            return fail(format!(
                "initial {}: expected a multiple of 256",
                spec.initial
            ));
        }
        if let Limit::Bytes(maximum) = spec.maximum {
            if !maximum.is_multiple_of(QUANTUM_BYTES) {
                return fail(format!("maximum {maximum}: expected a multiple of 256"));
            }
            if spec.initial > maximum {
                return fail(format!(
                    "initial {} is above the maximum {maximum}",
                    spec.initial
                ));
            }
        }
        Ok(Pool {
            lists: Lists::new(spec.events),
            spec,
            maximum_bytes: None,
            pool_bytes: 0,
            deferred: Deferred::default(),
        })
    }

    /// Bytes that the pool holds.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        self.pool_bytes
    }

    /// A free block of `bytes`, a multiple of 256, that is in no list any more.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Option<BlockId> {
        let (block, list) = match self.lists.search(bytes, stream, space) {
            Some(found) => found,
            None => {
                let block = self.grow(bytes, stream, space)?;
                (block, self.lists.own(stream, space).1)
            }
        };
        if let Some(rest) = cut_back(block, bytes, space) {
            self.lists.put_into(list, rest, stream, space);
        }
        Some(block)
    }

    fn left_bytes(&self, maximum: u64) -> u64 {
        maximum.wrapping_sub(self.pool_bytes)
    }

    /// How much the pool would grow by; 0 where the maximum leaves no room.
    fn growth_bytes(&self, bytes: u64) -> u64 {
        let Some(maximum) = self.maximum_bytes else {
            return bytes.max(self.pool_bytes);
        };
        // Rounded up in 64 bits that wrap, as the library does.
        let left = self.left_bytes(maximum).wrapping_add(QUANTUM_BYTES - 1) & !(QUANTUM_BYTES - 1);
        if bytes <= left {
            bytes.max(left / 2)
        } else {
            0
        }
    }

    fn grow(&mut self, bytes: u64, stream: StreamId, space: &mut Space) -> Option<BlockId> {
        let mut want = self.growth_bytes(bytes);
        if want == 0
            && self.spec.reclaim
            && let Some(maximum) = self.maximum_bytes.filter(|maximum| bytes <= *maximum)
        {
            self.reclaim(bytes, maximum, stream, space);
            want = self.growth_bytes(bytes);
        }
        while want > 0 {
            if let Ok(block) = space.map(want) {
                self.pool_bytes += want;
                return Some(block);
            }
            if want == bytes {
                return None;
            }
            want = bytes.max(want / 2);
        }
        None
    }

    /// Gives wholly free upstream blocks back, by address, until the maximum leaves room.
    /// After the merge of all lists the own one holds all that is free.
    fn reclaim(&mut self, bytes: u64, maximum: u64, stream: StreamId, space: &mut Space) {
        let whole = |block: &BlockId| space.prev(*block).is_none() && space.next(*block).is_none();
        let (own, _) = self.lists.own(stream, space);
        let entries = own.0.iter().map(|entry| BlockId(entry.block));
        let mut blocks: Vec<BlockId> = entries.filter(whole).collect();
        blocks.sort_unstable_by_key(|block| space.base(*block));
        for block in blocks {
            if self.left_bytes(maximum) >= bytes {
                return;
            }
            let (own, _) = self.lists.own(stream, space);
            own.0.remove(space.bytes(block), space.base(block));
            self.pool_bytes -= space.bytes(block);
            space.unmap(block);
        }
    }

    pub(super) fn largest_bytes(&self, space: &Space) -> u64 {
        self.lists.largest_bytes(space)
    }

    /// The largest request that would be served: after a merge of all lists, or by growth.
    pub(super) fn servable_bytes(&self, space: &Space) -> u64 {
        let (mut run, mut largest, mut below) = (0, 0, None);
        let mut whole = Vec::new();
        for block in self.lists.blocks(space) {
            let touches = below.is_some() && space.prev(block) == below;
            let bytes = space.bytes(block);
            run = if touches { run + bytes } else { bytes };
            largest = largest.max(run);
            if run == space.segment_bytes(space.segment(block)) {
                whole.push(space.first(space.segment(block)));
            }
            below = Some(block);
        }
        let servable = largest.max(self.grown_bytes(&whole, space));
        servable - servable % QUANTUM_BYTES
    }

    /// The largest request that growth would serve, where these upstream blocks are
    /// wholly free.
    fn grown_bytes(&self, whole: &[BlockId], space: &Space) -> u64 {
        let Some(maximum) = self.maximum_bytes else {
            return space.room_bytes();
        };
        let mut left = maximum.saturating_sub(self.pool_bytes);
        let mut most = left.min(space.room_bytes());
        if !self.spec.reclaim || self.pool_bytes > maximum {
            return most;
        }
        for given in 1..=whole.len() {
            let below = left;
            left += space.segment_bytes(space.segment(whole[given - 1]));
            let served = left.min(room_after_bytes(&whole[..given], space));
            if served > below {
                most = most.max(served);
            }
        }
        most
    }
}

impl Policy for Pool {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let maximum = self.spec.maximum.bytes(space);
        self.maximum_bytes = maximum.map(|bytes| bytes - bytes % QUANTUM_BYTES);
        let initial = self
            .spec
            .initial
            .min(self.maximum_bytes.unwrap_or(u64::MAX));
        if initial > 0 {
            let block = space.map(initial)?;
            self.pool_bytes = initial;
            self.lists.put_at_start(block, space);
        }
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, QUANTUM_BYTES);
        let padded = bytes.and_then(|bytes| padded_bytes(bytes, request.align, QUANTUM_BYTES));
        let (Some(bytes), Some(padded)) = (bytes, padded) else {
            return Err(OutOfMemory::overflow(request.bytes));
        };
        let block = self
            .take(padded, request.stream, space)
            .ok_or(OutOfMemory::no_fit(bytes))?;
        let (padding, block) = cut_front(block, request.align, space);
        for part in [padding, cut_back(block, bytes, space)]
            .into_iter()
            .flatten()
        {
            self.lists.put(part, request.stream, space);
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            return self.deferred.defer(block, stream, space);
        }
        space.release(block, stream);
        self.lists.put(block, stream, space);
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let stream = self.deferred.complete(block, space);
        space.release(block, stream);
        self.lists.put(block, stream, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, QUANTUM_BYTES)
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        self.servable_bytes(space)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        Some(self.largest_bytes(space))
    }

    fn blind(&self) -> bool {
        false
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        let tally = self.lists.tally();
        vec![
            ("pool_size".to_owned(), self.pool_bytes as i64),
            ("steals".to_owned(), tally.steals as i64),
            ("merges".to_owned(), tally.merges as i64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    fn pool(initial: u64, maximum: u64, reclaim: bool) -> (Pool, Space) {
        let spec = Spec {
            initial,
            maximum: Limit::Bytes(maximum),
            reclaim,
            ..Spec::default()
        };
        let mut pool = Pool::new(spec).expect("valid");
        let config = SpaceConfig {
            blind: false,
            streams: 3,
            ..SpaceConfig::bare(1 << 20)
        };
        let mut space = Space::new(config);
        pool.start(&mut space).expect("room");
        (pool, space)
    }

    fn ask(bytes: u64, stream: StreamId) -> Request {
        Request {
            bytes,
            align: 1,
            stream,
            pool: 0,
            tag: 0,
        }
    }

    /// By hand: stream 1 takes from the initial block of the null stream; what it frees
    /// is its own; stream 2 finds nothing large enough and merges, which joins all 4,096
    /// bytes again.
    #[test]
    fn a_steal_and_a_merge_by_hand() {
        let (mut pool, mut space) = pool(4096, 4096, true);
        let one = pool.alloc(&ask(1000, 1), &mut space).expect("room");
        assert_eq!(
            (space.base(one), space.bytes(one), space.counters().waits),
            (0, 1024, 1)
        );
        pool.free(one, 1, false, &mut space);
        assert_eq!(pool.largest_free(&space), Some(3072));
        let all = pool.alloc(&ask(4096, 2), &mut space).expect("merged");
        assert_eq!(
            (space.base(all), space.bytes(all), space.counters().waits),
            (0, 4096, 3)
        );
        let refused = pool.alloc(&ask(1, 2), &mut space);
        assert_eq!(refused, Err(OutOfMemory::no_fit(256)));
    }

    #[test]
    fn a_size_that_wraps_when_rounded_is_an_error_never_a_success() {
        let (mut pool, mut space) = pool(0, 4096, true);
        let asked = 18_446_744_073_709_551_612;
        assert_eq!(
            pool.alloc(&ask(asked, 0), &mut space),
            Err(OutOfMemory::overflow(asked))
        );
    }

    #[test]
    fn sizes_that_the_library_refuses_are_refused() {
        let odd = Spec {
            initial: 100,
            ..Spec::default()
        };
        assert!(Pool::new(odd).is_err());
        let above = Spec {
            initial: 512,
            maximum: Limit::Bytes(256),
            ..Spec::default()
        };
        assert!(Pool::new(above).is_err());
    }

    #[test]
    fn a_deferred_free_is_nobodys_until_it_completes() {
        let (mut pool, mut space) = pool(1024, 1024, true);
        let block = pool.alloc(&ask(1024, 0), &mut space).expect("room");
        pool.free(block, 0, true, &mut space);
        assert!(pool.alloc(&ask(256, 0), &mut space).is_err());
        pool.complete(block, &mut space);
        assert!(pool.alloc(&ask(256, 0), &mut space).is_ok());
    }
}
