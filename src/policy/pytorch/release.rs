//! Giving memory back: garbage collection, oversize blocks, and everything cached
//! (sections 5.3 to 5.5).

use super::options::UNLIMITED;
use super::{Pool, PyTorch, Statistics, Want};
use crate::space::{BlockId, Space, State};
use crate::trace::StreamId;

impl PyTorch {
    /// Gives a whole segment back; the block is in the free set.
    fn release_segment(&mut self, block: BlockId, space: &mut Space) {
        let info = self.info(block);
        let bytes = space.bytes(block);
        self.leave(block, space);
        self.pairs[info.pair as usize].driver_allocations -= 1;
        self.statistics.num_device_free += 1;
        self.statistics.segment.change(info.small, -1);
        self.statistics
            .reserved_bytes
            .change(info.small, -(bytes as i64));
        if bytes >= self.options.max_split_bytes {
            Statistics::oversize(&mut self.statistics.oversize_segments, -1);
        }
        space.unmap(block);
    }

    /// Streams of a pool, by their handles.
    fn streams(pool: &Pool, space: &Space) -> Vec<usize> {
        let mut streams: Vec<usize> = (0..pool.free.len()).collect();
        streams.sort_by_key(|stream| space.stream_handle(*stream as StreamId));
        streams
    }

    /// Section 5.3: whole segments of the default large pool that have been idle longest.
    pub(super) fn collect_garbage(&mut self, space: &mut Space) {
        let cap = self.cap_bytes.unwrap_or(UNLIMITED);
        let limit = (self.options.gc_threshold * cap as f64) as u64;
        let total = space.own_reserved_bytes();
        if total <= limit {
            return;
        }
        let target = total - limit;
        let whole = |space: &Space, block: BlockId| {
            !Self::is_split(space, block) && !Self::is_expandable(space, block)
        };
        let calls = self.pairs[0].large.calls;
        let (mut ages, mut count) = (0u64, 0u64);
        for block in self.large_blocks(space) {
            if whole(space, block) {
                ages += calls - self.info(block).gc_base;
                count += 1;
            }
        }
        let (mut reclaimed, mut freed) = (0, true);
        while reclaimed < target && freed && count > 0 {
            freed = false;
            let threshold = ages as f64 / count as f64;
            for block in self.large_blocks(space) {
                let age = calls - self.info(block).gc_base;
                if whole(space, block) && age as f64 >= threshold {
                    (freed, ages, count) = (true, ages - age, count - 1);
                    reclaimed += space.bytes(block);
                    self.release_segment(block, space);
                }
            }
        }
    }

    /// The free blocks of the default large pool in the order of the set.
    fn large_blocks(&self, space: &Space) -> Vec<BlockId> {
        Self::pool_blocks(&self.pairs[0].large, space)
    }

    fn pool_blocks(pool: &Pool, space: &Space) -> Vec<BlockId> {
        let streams = Self::streams(pool, space);
        let blocks = streams
            .into_iter()
            .flat_map(|stream| pool.free[stream].iter());
        blocks.map(|entry| BlockId(entry.block)).collect()
    }

    /// Section 5.4: gives back an unsplittable block that is large enough, or several.
    pub(super) fn release_available(&mut self, want: &Want, space: &mut Space) -> bool {
        let max_split = self.options.max_split_bytes;
        if max_split == UNLIMITED {
            return false;
        }
        let bytes = want.bytes.max(max_split);
        let pool = self.pairs[want.pair as usize].pool(want.small);
        let at = pool.reach(want.stream);
        let set = &pool.free[at];
        let Some(found) = set.first_at_least(bytes) else {
            return self.release_from_the_top(want, bytes, space);
        };
        let block = BlockId(found.block);
        if Self::is_expandable(space, block) {
            return self.release_below(want, bytes, (found.bytes, found.address), space);
        }
        self.release_if_whole(block, space)
    }

    fn release_from_the_top(&mut self, want: &Want, bytes: u64, space: &mut Space) -> bool {
        self.release_below(want, bytes, (UNLIMITED, UNLIMITED), space)
    }

    /// Walks down the set from below `key` and gives back what is unsplittable.
    fn release_below(
        &mut self,
        want: &Want,
        bytes: u64,
        mut key: (u64, u64),
        space: &mut Space,
    ) -> bool {
        let mut released = 0;
        while released < bytes {
            let pool = self.pairs[want.pair as usize].pool(want.small);
            let at = pool.reach(want.stream);
            let Some(entry) = pool.free[at].prev_before(key.0, key.1) else {
                break;
            };
            if entry.bytes < self.options.max_split_bytes {
                break;
            }
            key = (entry.bytes, entry.address);
            let block = BlockId(entry.block);
            if !Self::is_expandable(space, block) && self.release_if_whole(block, space) {
                released += entry.bytes;
            }
        }
        released >= bytes
    }

    /// PyTorch does not look whether the block is a whole segment (section 11.2); a part
    /// is kept here, since the driver takes no part back.
    fn release_if_whole(&mut self, block: BlockId, space: &mut Space) -> bool {
        if Self::is_split(space, block) {
            return false;
        }
        self.release_segment(block, space);
        true
    }

    /// Section 5.5: waits for all streams and gives back everything that is whole.
    pub(super) fn release_cached(&mut self, routed: bool, space: &mut Space) {
        if !routed {
            self.statistics.num_sync_all_streams += 1;
            space.synchronise();
            for block in std::mem::take(&mut self.deferred) {
                self.uses.remove(&block);
                self.finish(block, space);
            }
            self.complete_queues(space);
            self.release_pool(0, false, space);
            self.release_pool(0, true, space);
        }
        for pair in 1..self.pairs.len() {
            if self.pairs[pair].freeable {
                self.release_pool(pair, true, space);
                self.release_pool(pair, false, space);
            }
        }
    }

    fn release_pool(&mut self, pair: usize, small: bool, space: &mut Space) {
        let blocks = Self::pool_blocks(self.pairs[pair].pool(small), space);
        let mut in_reservations = Vec::new();
        for block in blocks {
            if Self::is_expandable(space, block) {
                in_reservations.push(block);
            } else if !Self::is_split(space, block) {
                self.release_segment(block, space);
            }
        }
        for block in in_reservations {
            self.unmap_pages(block, space);
        }
    }

    /// Unmaps the whole pages inside a free block of a reservation.
    fn unmap_pages(&mut self, block: BlockId, space: &mut Space) {
        let segment = space.segment(block);
        let page = space
            .segment_page(segment)
            .expect("a part of a reservation");
        let base = space.segment_base(segment);
        let from = base + (space.base(block) - base).next_multiple_of(page);
        let to = base + (space.end(block) - base) / page * page;
        if from >= to {
            return;
        }
        let info = self.info(block);
        self.leave(block, space);
        let mut middle = block;
        if from > space.base(block) {
            middle = space.split(block, from - space.base(block));
            self.set_info(middle, info);
            let fragment = self.fresh(info);
            self.set_info(block, fragment);
            self.enter(block, space);
        }
        if to < space.end(middle) {
            let above = space.split(middle, to - from);
            let fragment = self.fresh(info);
            self.set_info(above, fragment);
            self.enter(above, space);
        }
        space.unback(middle);
        self.statistics
            .reserved_bytes
            .change(info.small, -((to - from) as i64));
        self.statistics.num_device_free += 1;
        self.pairs[info.pair as usize].driver_allocations -= 1;
        self.join_unmapped(middle, space);
    }

    fn join_unmapped(&mut self, mut block: BlockId, space: &mut Space) {
        let unmapped = |block: &BlockId, space: &Space| space.state(*block) == State::Unmapped;
        if let Some(below) = space.prev(block).filter(|below| unmapped(below, space)) {
            block = self.absorb_below(below, block, space);
        }
        if let Some(above) = space.next(block).filter(|above| unmapped(above, space)) {
            self.absorb_above(block, above, space);
        }
        if Self::is_split(space, block) {
            self.enter_unmapped(block, space);
        } else {
            space.unreserve(block);
        }
    }
}
