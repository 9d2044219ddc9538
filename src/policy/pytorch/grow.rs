//! Growing: whole segments, or pages of a reservation (sections 5.1 and 5.2).

use super::options::SMALL_SEGMENT_BYTES;
use super::{Info, PyTorch, Statistics, Want};
use crate::space::{BlockId, Space, State};

impl PyTorch {
    /// Asks the driver for memory; the block is in no set.
    pub(super) fn grow(
        &mut self,
        want: &Want,
        exp: bool,
        retry: bool,
        space: &mut Space,
    ) -> Option<BlockId> {
        if retry {
            self.statistics.num_alloc_retries += 1;
        }
        let total = space.own_reserved_bytes();
        if self
            .cap_bytes
            .is_some_and(|cap| total + want.segment_bytes > cap)
        {
            return None;
        }
        if exp {
            self.grow_expandable(want, space)
        } else {
            self.grow_segment(want, space)
        }
    }

    fn grow_segment(&mut self, want: &Want, space: &mut Space) -> Option<BlockId> {
        let block = space.map(want.segment_bytes).ok()?;
        self.number_segment(block, space);
        let info = self.fresh(want.info());
        self.set_info(block, info);
        self.pairs[want.pair as usize].driver_allocations += 1;
        let bytes = want.segment_bytes;
        self.statistics.segment.change(want.small, 1);
        self.statistics
            .reserved_bytes
            .change(want.small, bytes as i64);
        self.statistics.num_device_alloc += 1;
        if bytes >= self.options.max_split_bytes {
            Statistics::oversize(&mut self.statistics.oversize_segments, 1);
        }
        Some(block)
    }

    pub(super) fn number_segment(&mut self, block: BlockId, space: &Space) {
        let at = space.segment(block).0 as usize;
        if at >= self.segment_numbers.len() {
            self.segment_numbers.resize(at + 1, 0);
        }
        self.next_segment += 1;
        self.segment_numbers[at] = self.next_segment;
    }

    fn page_bytes(&self, small: bool) -> u64 {
        if small {
            SMALL_SEGMENT_BYTES
        } else {
            self.options.large_segment_bytes
        }
    }

    /// Free blocks and unmapped parts that lie together can become one block.
    fn allocatable(space: &Space, block: BlockId) -> bool {
        matches!(space.state(block), State::Free | State::Unmapped)
    }

    /// Where growth begins: the lowest place at which neighbours reach the size.
    fn candidate(&mut self, want: &Want, space: &mut Space) -> BlockId {
        let pool = self.pairs[want.pair as usize].pool(want.small);
        let at = pool.reach(want.stream);
        for unmapped in pool.unmapped[at].values() {
            let below = space
                .prev(*unmapped)
                .filter(|below| Self::allocatable(space, *below));
            let start = below.unwrap_or(*unmapped);
            let (mut sum, mut next) = (0, Some(start));
            while let Some(block) = next.filter(|block| Self::allocatable(space, *block)) {
                sum += space.bytes(block);
                if sum >= want.bytes {
                    return start;
                }
                next = space.next(block);
            }
        }
        let page = self.page_bytes(want.small);
        let block = space.reserve(Self::reservation_bytes(page, space), page);
        self.number_segment(block, space);
        let info = self.fresh(want.info());
        self.set_info(block, info);
        self.enter_unmapped(block, space);
        block
    }

    /// A reservation is nine eighths of the card, in whole pages.
    pub(super) fn reservation_bytes(page: u64, space: &Space) -> u64 {
        let total = space.total_bytes();
        (total + total / 8).next_multiple_of(page)
    }

    fn grow_expandable(&mut self, want: &Want, space: &mut Space) -> Option<BlockId> {
        let mut block = self.candidate(want, space);
        if space.state(block) == State::Unmapped {
            let bytes = space.bytes(block).min(want.bytes);
            block = self.map_part(block, bytes, space)?;
        }
        while space.bytes(block) < want.bytes {
            let above = space
                .next(block)
                .expect("the candidate's neighbours reach the size");
            let bytes = (want.bytes - space.bytes(block)).min(space.bytes(above));
            block = self.map_part(above, bytes, space)?;
        }
        self.pairs[want.pair as usize].driver_allocations += 1;
        self.leave(block, space);
        Some(block)
    }

    /// Maps pages behind the first `bytes` of an unmapped part and joins the free
    /// neighbours; the block is in the free set.
    fn map_part(&mut self, part: BlockId, bytes: u64, space: &mut Space) -> Option<BlockId> {
        let info = self.info(part);
        let page = self.page_of(part, space);
        let bytes = bytes.next_multiple_of(page);
        let leaves_rest = bytes < space.bytes(part);
        self.leave_unmapped(part, space);
        if space.back(part, bytes).is_err() {
            self.enter_unmapped(part, space);
            return None;
        }
        if leaves_rest {
            let rest = space.next(part).expect("mapping a part leaves the rest");
            let fresh = self.fresh(info);
            self.set_info(rest, fresh);
            self.enter_unmapped(rest, space);
        }
        let mut block = part;
        if let Some(below) = space.free_prev(block) {
            block = self.absorb_below(below, block, space);
        }
        if let Some(above) = space.free_next(block) {
            self.absorb_above(block, above, space);
        }
        self.enter(block, space);
        self.statistics
            .reserved_bytes
            .change(info.small, bytes as i64);
        self.statistics.num_device_alloc += 1;
        Some(block)
    }

    fn page_of(&self, block: BlockId, space: &Space) -> u64 {
        space
            .segment_page(space.segment(block))
            .expect("a part of a reservation")
    }

    pub(super) fn enter_unmapped(&mut self, block: BlockId, space: &Space) {
        let info = self.info(block);
        let pool = self.pairs[info.pair as usize].pool(info.small);
        let at = pool.reach(info.stream);
        pool.unmapped[at].insert(space.base(block), block);
    }

    pub(super) fn leave_unmapped(&mut self, block: BlockId, space: &Space) {
        let info = self.info(block);
        let pool = self.pairs[info.pair as usize].pool(info.small);
        let at = pool.reach(info.stream);
        let was = pool.unmapped[at].remove(&space.base(block));
        assert!(
            was.is_some(),
            "event {}: an unmapped part was in no set",
            space.event()
        );
    }
}

impl Want {
    fn info(&self) -> Info {
        Info {
            pair: self.pair,
            small: self.small,
            stream: self.stream,
            ..Info::default()
        }
    }
}
