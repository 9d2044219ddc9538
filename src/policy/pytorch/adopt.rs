//! Taking over what was there before a recording began (section 9.1).

use crate::policy::Policy;
use std::collections::BTreeMap;

use super::options::SMALL_SEGMENT_BYTES;
use super::{Info, PyTorch};
use crate::space::{BlockId, Request, Space};
use crate::trace::Slot;
use crate::trace::truth::{TruthBlock, TruthSegment, TruthState};

impl PyTorch {
    /// Rebuilds the segments at their recorded addresses; the blocks of the live slots.
    pub(super) fn take_over(
        &mut self,
        segments: &[TruthSegment],
        space: &mut Space,
    ) -> Vec<(Slot, BlockId)> {
        let mut placed = Vec::new();
        // Runs of one stream and pool lie in one reservation, as far as anyone can tell.
        let mut rests: BTreeMap<(u16, u16, bool), BlockId> = BTreeMap::new();
        for segment in segments {
            let info = Info {
                pair: self.pair(segment.pool),
                small: !segment.large,
                stream: segment.stream,
                ..Info::default()
            };
            let block = if segment.expandable {
                let key = (segment.stream, segment.pool, segment.large);
                self.adopt_run(segment, info, rests.get(&key).copied(), space)
                    .map(|(run, rest)| {
                        match rest {
                            Some(rest) => rests.insert(key, rest),
                            None => rests.remove(&key),
                        };
                        run
                    })
            } else {
                self.adopt_segment(segment, info, space)
            };
            if let Some(block) = block {
                self.carve(segment, block, info, space, &mut placed);
            }
        }
        placed
    }

    fn adopt_segment(
        &mut self,
        segment: &TruthSegment,
        info: Info,
        space: &mut Space,
    ) -> Option<BlockId> {
        space.driver_mut().feed(&[segment.address], &[]);
        let block = space.map(segment.bytes).ok()?;
        self.number_segment(block, space);
        let fresh = self.fresh(info);
        self.set_info(block, fresh);
        self.pairs[info.pair as usize].driver_allocations += 1;
        self.statistics.segment.change(info.small, 1);
        self.statistics
            .reserved_bytes
            .change(info.small, segment.bytes as i64);
        Some(block)
    }

    /// Maps one run into the reservation whose unmapped tail is `rest`, or into a new one
    /// that begins at the run.
    fn adopt_run(
        &mut self,
        segment: &TruthSegment,
        info: Info,
        rest: Option<BlockId>,
        space: &mut Space,
    ) -> Option<(BlockId, Option<BlockId>)> {
        let page = if info.small {
            SMALL_SEGMENT_BYTES
        } else {
            self.options.large_segment_bytes
        };
        let inside = |rest: &BlockId| {
            space.base(*rest) <= segment.address
                && segment.address + segment.bytes <= space.end(*rest)
                && (segment.address - space.base(*rest)).is_multiple_of(page)
        };
        let mut tail = match rest.filter(inside) {
            Some(tail) => {
                self.leave_unmapped(tail, space);
                tail
            }
            None => self.reserve_at(segment.address, info, page, space),
        };
        let before = segment.address - space.base(tail);
        if before > 0 {
            let above = space.split(tail, before);
            let fresh = self.fresh(info);
            self.set_info(above, fresh);
            self.enter_unmapped(tail, space);
            tail = above;
        }
        let leaves_rest = segment.bytes < space.bytes(tail);
        space.back(tail, segment.bytes).ok()?;
        self.pairs[info.pair as usize].driver_allocations += 1;
        self.statistics
            .reserved_bytes
            .change(info.small, segment.bytes as i64);
        let rest = leaves_rest.then(|| space.next(tail).expect("mapping a part leaves the rest"));
        if let Some(rest) = rest {
            let fresh = self.fresh(info);
            self.set_info(rest, fresh);
            self.enter_unmapped(rest, space);
        }
        Some((tail, rest))
    }

    fn reserve_at(&mut self, address: u64, info: Info, page: u64, space: &mut Space) -> BlockId {
        space.driver_mut().feed(&[], &[address]);
        let block = space.reserve(Self::reservation_bytes(page, space), page);
        self.number_segment(block, space);
        let fresh = self.fresh(info);
        self.set_info(block, fresh);
        block
    }

    /// Cuts a segment into its recorded blocks, places the live ones and lists the rest.
    fn carve(
        &mut self,
        segment: &TruthSegment,
        block: BlockId,
        info: Info,
        space: &mut Space,
        placed: &mut Vec<(Slot, BlockId)>,
    ) {
        let mut at = block;
        for recorded in &segment.blocks {
            let bytes = recorded.bytes.min(space.bytes(at));
            let rest = (bytes < space.bytes(at)).then(|| space.split(at, bytes));
            if let Some(rest) = rest {
                let fresh = self.fresh(info);
                self.set_info(rest, fresh);
            }
            self.settle(recorded, at, info, space, placed);
            match rest {
                Some(rest) => at = rest,
                None => return,
            }
        }
        self.settle_free(at, space);
    }

    fn settle(
        &mut self,
        recorded: &TruthBlock,
        block: BlockId,
        info: Info,
        space: &mut Space,
        placed: &mut Vec<(Slot, BlockId)>,
    ) {
        let mut own = self.info(block);
        own.requested_bytes = recorded.requested_bytes;
        self.set_info(block, own);
        let live = recorded
            .slot
            .filter(|_| recorded.state != TruthState::Inactive);
        let Some(slot) = live else {
            return self.settle_free(block, space);
        };
        let bytes = recorded.requested_bytes.clamp(1, space.bytes(block));
        let (stream, pool) = (info.stream, 0);
        space.place(
            block,
            &Request {
                bytes,
                align: 1,
                stream,
                pool,
                tag: 0,
            },
        );
        self.count_in(block, recorded.requested_bytes, space);
        if recorded.state == TruthState::Pending {
            Policy::free(self, block, stream, true, space);
        }
        placed.push((slot, block));
    }

    fn settle_free(&mut self, block: BlockId, space: &Space) {
        self.enter(block, space);
        let small = self.info(block).small;
        if Self::is_split(space, block) && !Self::is_expandable(space, block) {
            self.statistics.inactive_split.change(small, 1);
            self.statistics
                .inactive_split_bytes
                .change(small, space.bytes(block) as i64);
        }
    }
}
