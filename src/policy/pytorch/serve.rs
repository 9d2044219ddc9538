//! Serving a request from the free sets: the search, the split, and why nothing was found.

use super::{Pair, Pool, PyTorch, Version, Want, options, unlisted};
use crate::policy::cut::cut_front;
use crate::policy::pytorch::Statistics;
use crate::space::{BlockId, Cause, Request, Space, State};

impl PyTorch {
    /// The search of section 4.1; a hit is taken out of the free set.
    pub(super) fn search(&mut self, want: &Want, exp: bool, space: &Space) -> Option<BlockId> {
        let gc_on = self.gc_on();
        let pool = self.pairs[want.pair as usize].pool(want.small);
        if gc_on {
            pool.calls += 1;
        }
        let at = pool.reach(want.stream);
        let set = &pool.free[at];
        let mut found = set.first_at_least(want.bytes)?;
        let expandable = |block: u32| Self::is_expandable(space, BlockId(block));
        if exp {
            // A free block that touches the unmapped tail is the last choice.
            let reach = |block: u32| {
                let block = BlockId(block);
                let tail = space
                    .next(block)
                    .filter(|next| space.state(*next) == State::Unmapped);
                space.bytes(block) + tail.map_or(0, |tail| space.bytes(tail))
            };
            while expandable(found.block)
                && let Some(next) = set.next_after(found.bytes, found.address)
                && reach(next.block) < reach(found.block)
            {
                found = next;
            }
        } else {
            while expandable(found.block) {
                found = set.next_after(found.bytes, found.address)?;
            }
        }
        let max_split = self.options.max_split_bytes;
        if want.bytes < max_split && found.bytes >= max_split {
            return None;
        }
        let slack = self.options.max_non_split_rounding_bytes;
        if want.bytes >= max_split && found.bytes >= want.bytes.saturating_add(slack) {
            return None;
        }
        if !pool.free[at].remove(found.bytes, found.address) {
            unlisted(space);
        }
        Some(BlockId(found.block))
    }

    pub(super) fn should_split(&self, block: BlockId, want: &Want, space: &Space) -> bool {
        let rest = space.bytes(block) - want.bytes;
        if self.pairs[self.info(block).pair as usize].no_split {
            return false;
        }
        if self.info(block).small || self.options.expandable_segments {
            return rest >= options::MIN_BLOCK_BYTES;
        }
        want.bytes < self.options.max_split_bytes && rest > options::SMALL_BYTES
    }

    /// PyTorch knows no alignment beyond its quantum: a program that needs one asks for
    /// more and cuts. What lies below the first aligned address stays free.
    pub(super) fn align(&mut self, block: BlockId, align: u64, space: &mut Space) -> BlockId {
        let old = self.info(block);
        let (padding, high) = cut_front(block, align, space);
        self.set_info(high, old);
        if let Some(padding) = padding {
            let fresh = self.fresh(old);
            self.set_info(padding, fresh);
            self.enter(padding, space);
        }
        high
    }

    /// Section 4.3: splits where the rule says so, and hands the block out.
    pub(super) fn hand_out(
        &mut self,
        block: BlockId,
        want: &Want,
        request: &Request,
        space: &mut Space,
    ) {
        let old = self.info(block);
        let was_split = Self::is_split(space, block);
        let expandable = Self::is_expandable(space, block);
        let mut info = old;
        if self.should_split(block, want, space) {
            let rest = space.split(block, want.bytes);
            self.set_info(rest, old);
            info = self.fresh(old);
            self.enter(rest, space);
            if !expandable {
                let bytes = &mut self.statistics.inactive_split_bytes;
                if was_split {
                    bytes.fall(old.small, want.bytes as i64);
                } else {
                    bytes.rise(old.small, space.bytes(rest) as i64);
                    self.statistics.inactive_split.rise(old.small, 1);
                }
            }
        } else if was_split && !expandable {
            let bytes = space.bytes(block) as i64;
            self.statistics.inactive_split_bytes.fall(old.small, bytes);
            self.statistics.inactive_split.fall(old.small, 1);
        }
        info.requested_bytes = request.bytes;
        self.set_info(block, info);
        space.place(block, request);
        self.count_in(block, request.bytes, space);
    }

    /// Counts a block that was handed out.
    pub(super) fn count_in(&mut self, block: BlockId, requested_bytes: u64, space: &Space) {
        let small = self.info(block).small;
        let bytes = space.bytes(block) as i64;
        let statistics = &mut self.statistics;
        statistics.allocation.rise(small, 1);
        statistics.allocated_bytes.rise(small, bytes);
        statistics.active.rise(small, 1);
        statistics.active_bytes.rise(small, bytes);
        statistics
            .requested_bytes
            .rise(small, requested_bytes as i64);
        if bytes as u64 >= self.options.max_split_bytes {
            Statistics::oversize(&mut statistics.oversize_allocations, 1);
        }
    }

    /// Why nothing was found, for the verdict: a block that fits, but elsewhere.
    pub(super) fn cause(&self, want: &Want) -> Cause {
        let fits = |pool: &Pool, stream: Option<usize>| {
            pool.free.iter().enumerate().any(|(at, set)| {
                stream.is_none_or(|own| own != at)
                    && set.largest().is_some_and(|entry| entry.bytes >= want.bytes)
            })
        };
        let own = &self.pairs[want.pair as usize];
        let pool = if want.small { &own.small } else { &own.large };
        if fits(pool, Some(usize::from(want.stream))) {
            return Cause::Stream;
        }
        let others = |(at, pair): (usize, &Pair)| {
            at != want.pair as usize && (fits(&pair.small, None) || fits(&pair.large, None))
        };
        if self.pairs.iter().enumerate().any(others) {
            return Cause::Pool;
        }
        Cause::NoFit
    }

    /// Where the request goes, and its sizes.
    pub(super) fn want(&mut self, bytes: u64, request: &Request) -> Want {
        let pool = match (request.pool, self.routes.last()) {
            (0, Some(routed)) => *routed,
            (pool, _) => pool,
        };
        let bytes = self.options.round(bytes);
        Want {
            pair: self.pair(pool),
            small: bytes <= options::SMALL_BYTES,
            stream: request.stream,
            bytes,
            segment_bytes: self.options.segment_bytes(bytes),
        }
    }

    /// Whether a capture is in progress for this request: up to 2.12 any routing counts.
    pub(super) fn capturing(&self, request: &Request) -> bool {
        self.version < Version::V2_13 && (!self.routes.is_empty() || request.pool != 0)
    }

    /// Steps 3 and 4 of section 3: a free block, or memory from the driver.
    pub(super) fn obtain(
        &mut self,
        want: &Want,
        capturing: bool,
        space: &mut Space,
    ) -> Option<BlockId> {
        let exp = self.options.expandable_segments;
        if let Some(block) = self.search(want, exp, space) {
            return Some(block);
        }
        if self.gc_on() {
            self.collect_garbage(space);
        }
        if let Some(block) = self.grow(want, exp, false, space) {
            return Some(block);
        }
        if want.pair == 0
            && let Some(block) = self.search_overflow(want, space)
        {
            return Some(block);
        }
        if self.release_available(want, space)
            && let Some(block) = self.grow(want, exp, false, space)
        {
            return Some(block);
        }
        if capturing {
            return None;
        }
        self.release_cached(false, space);
        self.grow(want, exp, true, space)
    }

    pub(super) fn search_overflow(&mut self, want: &Want, space: &Space) -> Option<BlockId> {
        for pair in 1..self.pairs.len() as u32 {
            if self.pairs[pair as usize].use_on_oom {
                let elsewhere = Want { pair, ..*want };
                if let Some(block) = self.search(&elsewhere, false, space) {
                    return Some(block);
                }
            }
        }
        None
    }
}
