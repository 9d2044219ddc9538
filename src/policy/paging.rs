//! Paging: a pool of equal blocks, taken at the start, for keys and values; the rest to
//! another policy.
//!
//! Source: Kwon et al., "Efficient memory management for large language model serving with
//! PagedAttention" (SOSP 2023), sections 4.2 and 4.3; the order of free blocks is that of
//! vLLM's queue (version 1, 2025): first in, first out.
//!
//! Parameters: `block`, the bytes of a block: tokens of a block times the bytes of a token;
//! `share`, the percentage of the capacity that is the pool's, rounded down to whole
//! blocks; `over`, the policy of everything else (weights, workspace), which has what the
//! pool leaves (with a share of 100 it may be nothing, so that it must not take memory at
//! the start) and must order streams if the trace has several.
//!
//! A request of exactly `block` bytes is a block's and is served from the pool or not at
//! all; one of any other size is no block. So nothing is lost between blocks, whichever
//! order they come and go in. What a block holds, for how many requests, and which one is
//! given up when room is needed is decided above, where the tokens are known: layouts
//! `blocks` and `shared` of the workload `serving` count references and keep blocks for
//! prompts that begin alike, the longest unused goes first.
//!
//! Tie-breaks: at the start by rising address; then the block that was given back first, of
//! those that the stream may use and that are aligned.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;

use super::{Policy, PolicyError, Tallies};
use crate::space::{BlockId, Cause, OutOfMemory, Request, SegmentId, Share, Space};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::serde_bytes;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Size of a block, in bytes.
    #[serde(with = "serde_bytes")]
    pub block: u64,
    /// What the pool has of the capacity, in percent.
    pub share: u64,
    /// The policy of everything else, as the registry finds it.
    pub over: String,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            block: 2 << 20,
            share: 50,
            over: "pytorch".into(),
        }
    }
}

/// The policy.
pub struct Paging {
    spec: Spec,
    /// Where the pool lies; `None` where the capacity holds no block.
    pool: Option<SegmentId>,
    /// Free blocks, the one to be handed out next first.
    free: VecDeque<BlockId>,
    /// Blocks that a stream may still use, with the stream they were freed on.
    deferred: BTreeMap<BlockId, StreamId>,
    over: Box<dyn Policy>,
    /// What the pool leaves of the capacity.
    share: Share,
}

impl Paging {
    /// A pool by `spec`, beside `over`.
    ///
    /// # Errors
    /// A block of no bytes, or a share outside 1 to 100 percent.
    pub fn new(spec: Spec, over: Box<dyn Policy>) -> Result<Self, PolicyError> {
        let fail = |what: String| Err(PolicyError::new("paging", what));
        if spec.block == 0 {
            return fail("block = 0: expected the bytes of a block, such as 2MiB".into());
        }
        if !(1..=100).contains(&spec.share) {
            return fail(format!(
                "share = {}: expected percent of the capacity from 1 to 100, such as 50",
                spec.share
            ));
        }
        Ok(Paging {
            spec,
            pool: None,
            free: VecDeque::new(),
            deferred: BTreeMap::new(),
            over,
            share: Share::new(0),
        })
    }

    /// Calls the other policy with the Space narrowed to what the pool leaves.
    fn beside<T>(
        &mut self,
        space: &mut Space,
        call: impl FnOnce(&mut dyn Policy, &mut Space) -> T,
    ) -> T {
        let over = &mut *self.over;
        space.within(&mut self.share, |space| call(over, space))
    }

    fn in_pool(&self, block: BlockId, space: &Space) -> bool {
        self.pool == Some(space.segment(block))
    }

    /// Takes the pool and cuts it into blocks.
    fn take_pool(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let capacity_bytes = space.capacity_bytes();
        let most_bytes = u128::from(capacity_bytes) * u128::from(self.spec.share) / 100;
        let pool_bytes = most_bytes as u64 / self.spec.block * self.spec.block;
        if pool_bytes > 0 {
            let mut last = space.map(pool_bytes)?;
            self.pool = Some(space.segment(last));
            while space.bytes(last) > self.spec.block {
                let rest = space.split(last, self.spec.block);
                self.free.push_back(last);
                last = rest;
            }
            self.free.push_back(last);
        }
        // The pool's last page is the pool's alone.
        let taken_bytes = pool_bytes.next_multiple_of(space.device().page_bytes);
        self.share = Share::new(capacity_bytes.saturating_sub(taken_bytes));
        Ok(())
    }

    fn block_for(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let fits = |block: &BlockId| {
            space.usable(*block, request.stream) && space.base(*block).is_multiple_of(request.align)
        };
        let Some(at) = self.free.iter().position(fits) else {
            let other_stream = self.free.iter().any(|block| {
                space.base(*block).is_multiple_of(request.align)
                    && !space.usable(*block, request.stream)
            });
            return Err(OutOfMemory {
                wanted_bytes: self.spec.block,
                cause: if other_stream {
                    Cause::Stream
                } else {
                    Cause::NoFit
                },
            });
        };
        let block = self.free.remove(at).expect("it was found there");
        space.place(block, request);
        Ok(block)
    }

    fn give_back(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        space.release(block, stream);
        self.free.push_back(block);
    }
}

impl Policy for Paging {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.take_pool(space)?;
        self.beside(space, |over, space| over.start(space))
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        if request.bytes == self.spec.block {
            return self.block_for(request, space);
        }
        self.beside(space, |over, space| over.alloc(request, space))
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if !self.in_pool(block, space) {
            return self.beside(space, |over, space| {
                over.free(block, stream, pending, space);
            });
        }
        if pending {
            space.defer(block);
            self.deferred.insert(block, stream);
        } else {
            self.give_back(block, stream, space);
        }
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        if request.bytes == self.spec.block {
            return Some(request.bytes);
        }
        self.over.rounded_bytes(request)
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let block_bytes = self.spec.block;
        let has_block = self.free.iter().any(|block| space.usable(*block, stream));
        match self.over.servable(space, stream) {
            bytes if bytes < block_bytes && has_block => block_bytes,
            // A block's own size is served from the pool alone.
            bytes if bytes == block_bytes && !has_block => block_bytes - 1,
            bytes => bytes,
        }
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        let block_bytes = self.free.front().map_or(0, |_| self.spec.block);
        Some(self.over.largest_free(space)?.max(block_bytes))
    }

    fn blind(&self) -> bool {
        self.over.blind()
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        match self.deferred.remove(&block) {
            Some(stream) => self.give_back(block, stream, space),
            None => self.beside(space, |over, space| over.complete(block, space)),
        }
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        if !self.in_pool(block, space) {
            self.beside(space, |over, space| over.use_on(block, stream, space));
        }
    }

    fn trim(&mut self, space: &mut Space) {
        self.beside(space, |over, space| over.trim(space));
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.beside(space, |over, space| over.mark(label, space));
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.beside(space, |over, space| over.pool(step, pool, stream, space));
    }

    fn ordered(&mut self, space: &mut Space) {
        self.beside(space, |over, space| over.ordered(space));
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        self.over.statistics()
    }

    fn tallies(&self) -> Tallies {
        self.over.tallies()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::super::hand::play;

    /// Half of 4608 is 2304: four blocks of 512 at 0, 512, 1024, 1536 and no fifth. b and
    /// a go, in this order, and come back in it, behind d's block that was never used.
    #[test]
    fn blocks_come_back_in_the_order_in_which_they_went() {
        let hand = play(
            "paging:block=512,share=50,over=best-fit",
            4608,
            "A a 512 ; A b 512 ; A c 512 ; F b ; F a ; A d 512 ; A e 512 ; A f 512 ; A g 512 ; \
             F c ; A h 512",
        );
        assert_eq!(
            hand.told,
            [
                "0", "512", "1024", "ok", "ok", "1536", "512", "0", "OOM", "ok", "1024"
            ]
        );
        assert_eq!(hand.replay.space().counters().free_bytes, 4608 - 4 * 512);
    }

    /// The rest, 2560 bytes, is best fit's, in multiples of 256, from 2048 on: a block's
    /// size never goes there, and no other size to the pool.
    #[test]
    fn other_sizes_go_to_the_other_policy() {
        let hand = play(
            "paging:block=512,share=50,over=best-fit",
            4608,
            "A a 513 ; A b 512 ; A c 100 ; A d 1537 ; A e 1536",
        );
        assert_eq!(hand.told, ["2048", "0", "2816", "OOM", "3072"]);
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        // Nothing but blocks is left.
        assert_eq!(policy.servable(space, 0), 512);
    }

    /// 3000 bytes are two blocks of 1024; the 952 that are left are best fit's.
    #[test]
    fn all_of_a_card_may_be_blocks() {
        let hand = play(
            "paging:block=1024,share=100,over=best-fit",
            3000,
            "A a 1024 ; A b 1024 align=1024 ; A c 1024",
        );
        assert_eq!(hand.told, ["0", "1024", "OOM"]);
    }

    #[test]
    fn what_makes_no_pool_is_told() {
        for (spec, part) in [
            ("paging:block=0", "block = 0"),
            ("paging:share=0", "share = 0"),
            ("paging:share=101", "share = 101"),
        ] {
            let error = Registry::default().find(spec).err().expect("refused");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
