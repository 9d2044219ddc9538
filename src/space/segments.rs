//! Segments: mapped whole as by cudaMalloc, or reserved and backed page by page.

use super::{
    Block, BlockId, Cause, NONE, Origin, OutOfMemory, Segment, SegmentId, Space, State, Step,
    StepKind,
};

use crate::units::ADDRESS_LIMIT;

impl Space {
    /// Maps a segment of `bytes` from the driver: one Free block (cudaMalloc).
    ///
    /// # Errors
    /// [`OutOfMemory`] where the capacity or the card does not hold it; the refused
    /// call is charged.
    pub fn map(&mut self, bytes: u64) -> Result<BlockId, OutOfMemory> {
        self.charge_call(self.device.malloc_ns(bytes));
        if bytes == 0 || bytes > self.room_bytes() {
            return Err(self.refuse(bytes));
        }
        let Some(base) = self.driver.take(bytes) else {
            return Err(self.refuse(bytes));
        };
        let pages = self.driver.touch(base, bytes);
        if self.counters.page_bytes + pages > self.total_bytes() {
            self.driver.untouch(base, bytes);
            self.driver.give(base, bytes);
            return Err(self.refuse(bytes));
        }
        self.counters.page_bytes += pages;
        self.raise_reserved(bytes);
        let (segment, block) = self.new_segment(base, bytes, 0, State::Free);
        self.gain_free(bytes);
        self.emit(Step::new(StepKind::Map(segment), base, bytes));
        Ok(block)
    }

    /// Gives a segment back to the driver (cudaFree): the block must be all of it.
    ///
    /// # Panics
    /// If the block is not Free or not the whole of a mapped segment.
    pub fn unmap(&mut self, block: BlockId) {
        let old = self.view(block);
        if old.state != State::Free || old.prev != NONE || old.next != NONE {
            self.broken(block.0, "unmap of a block that is not a whole free segment");
        }
        if self.segments[old.segment as usize].page_bytes != 0 {
            self.broken(block.0, "unmap of a part of a reservation");
        }
        self.lose_free(old.bytes);
        self.counters.reserved_bytes -= old.bytes;
        self.counters.page_bytes -= self.driver.untouch(old.base, old.bytes);
        self.driver.give(old.base, old.bytes);
        self.counters.segments_given_back += 1;
        self.charge_call(self.device.free_ns(old.bytes));
        self.drop_segment(old.segment);
        self.drop_block(block);
        self.emit(Step::new(
            StepKind::Unmap(SegmentId(old.segment)),
            old.base,
            old.bytes,
        ));
    }

    /// Reserves a range of addresses for pages of `page_bytes`: one Unmapped block.
    ///
    /// # Panics
    /// If `bytes` is 0 or no multiple of the page, or addresses run out.
    pub fn reserve(&mut self, bytes: u64, page_bytes: u64) -> BlockId {
        assert!(
            page_bytes > 0 && bytes > 0 && bytes.is_multiple_of(page_bytes),
            "event {}: a reservation of {bytes} bytes in pages of {page_bytes}",
            self.event
        );
        let base = self.driver.reserve(bytes);
        self.charge_call(self.device.reserve_ns(bytes));
        let (segment, block) = self.new_segment(base, bytes, page_bytes, State::Unmapped);
        self.emit(Step::new(StepKind::Reserve(segment), base, bytes));
        block
    }

    /// Gives a reservation back: the block must be all of it, Unmapped.
    ///
    /// # Panics
    /// If it is not.
    pub fn unreserve(&mut self, block: BlockId) {
        let old = self.view(block);
        if old.state != State::Unmapped || old.prev != NONE || old.next != NONE {
            self.broken(
                block.0,
                "unreserve of a block that is not a whole unmapped reservation",
            );
        }
        self.driver.unreserve(old.base, old.bytes);
        self.charge_call(self.device.reserve_ns(old.bytes));
        self.drop_segment(old.segment);
        self.drop_block(block);
        self.emit(Step::new(
            StepKind::Unreserve(SegmentId(old.segment)),
            old.base,
            old.bytes,
        ));
    }

    /// Maps pages behind the first `bytes` of an Unmapped block, which becomes Free
    /// with that size; the rest stays Unmapped behind it. Where the card runs out
    /// nothing changes.
    ///
    /// # Errors
    /// [`OutOfMemory`] where the capacity or the card does not hold them.
    ///
    /// # Panics
    /// If the block is not Unmapped, or `bytes` no whole number of its pages.
    pub fn back(&mut self, block: BlockId, bytes: u64) -> Result<(), OutOfMemory> {
        let old = self.view(block);
        let page = self.segments[old.segment as usize].page_bytes;
        if old.state != State::Unmapped {
            self.broken(block.0, "mapping pages into a block that is not unmapped");
        }
        if bytes == 0 || bytes > old.bytes || !bytes.is_multiple_of(page) {
            self.broken(block.0, "mapping a range that is no whole number of pages");
        }
        self.charge_call(self.device.back_ns(bytes, page));
        if bytes > self.room_bytes() {
            return Err(self.refuse(bytes));
        }
        if bytes < old.bytes {
            self.split(block, bytes);
        }
        self.blocks[block.0 as usize].set_state(State::Free);
        self.counters.page_bytes += bytes;
        self.raise_reserved(bytes);
        self.gain_free(bytes);
        self.emit(Step::new(
            StepKind::Back(SegmentId(old.segment)),
            old.base,
            bytes,
        ));
        Ok(())
    }

    /// Unmaps the pages behind a Free block of a reservation: it is Unmapped.
    ///
    /// # Panics
    /// If the block is not Free, not of a reservation, or no whole number of pages.
    pub fn unback(&mut self, block: BlockId) {
        let old = self.view(block);
        let segment = self.segments[old.segment as usize];
        let page = segment.page_bytes;
        self.check_no_part(block, "unmapping pages of a part of an alias");
        if old.state != State::Free || page == 0 || self.is_alias(block) {
            self.broken(
                block.0,
                "unmapping pages of a block that is not free in a reservation",
            );
        }
        if !(old.base - segment.base).is_multiple_of(page) || !old.bytes.is_multiple_of(page) {
            self.broken(
                block.0,
                "unmapping a range that is no whole number of pages",
            );
        }
        self.blocks[block.0 as usize].set_state(State::Unmapped);
        self.lose_free(old.bytes);
        self.counters.page_bytes -= old.bytes;
        self.counters.reserved_bytes -= old.bytes;
        self.charge_call(self.device.unback_ns(old.bytes, page));
        self.emit(Step::new(
            StepKind::Unback(SegmentId(old.segment)),
            old.base,
            old.bytes,
        ));
    }

    fn refuse(&mut self, bytes: u64) -> OutOfMemory {
        self.emit(Step::new(StepKind::Refused, 0, bytes));
        OutOfMemory {
            wanted_bytes: bytes,
            cause: Cause::NoFit,
        }
    }

    fn raise_reserved(&mut self, bytes: u64) {
        let counters = &mut self.counters;
        counters.reserved_bytes += bytes;
        counters.peak_reserved_bytes = counters.peak_reserved_bytes.max(counters.reserved_bytes);
    }

    pub(super) fn new_segment(
        &mut self,
        base: u64,
        bytes: u64,
        page_bytes: u64,
        state: State,
    ) -> (SegmentId, BlockId) {
        assert!(
            base.checked_add(bytes)
                .is_some_and(|end| end <= ADDRESS_LIMIT),
            "event {}: a segment of {bytes} bytes at {base} passes the end of all addresses",
            self.event
        );
        let id = self.spare_segments.pop().unwrap_or_else(|| {
            self.segments.push(Segment {
                base: 0,
                bytes: 0,
                first: NONE,
                high_bytes: 0,
                page_bytes: 0,
                live: false,
            });
            (self.segments.len() - 1) as u32
        });
        let origin = Origin {
            segment: id,
            ..Origin::default()
        };
        let block = self.new_block(Block::word(base, state), (NONE, NONE), origin);
        self.segments[id as usize] = Segment {
            base,
            bytes,
            first: block.0,
            high_bytes: 0,
            page_bytes,
            live: true,
        };
        self.plain_end = 0;
        self.counters.segments_made += 1;
        (SegmentId(id), block)
    }

    pub(super) fn drop_segment(&mut self, segment: u32) {
        let gone = &mut self.segments[segment as usize];
        gone.live = false;
        self.counters.high_bytes -= gone.high_bytes;
        self.spare_segments.push(segment);
    }

    /// The live segments, in the order of their handles.
    pub fn segments(&self) -> impl Iterator<Item = SegmentId> + '_ {
        let live = |(id, segment): (usize, &Segment)| segment.live.then_some(SegmentId(id as u32));
        self.segments.iter().enumerate().filter_map(live)
    }

    /// First address of the segment.
    #[must_use]
    pub fn segment_base(&self, segment: SegmentId) -> u64 {
        self.segments[segment.0 as usize].base
    }

    /// Bytes of the segment (of a reservation: all of its addresses).
    #[must_use]
    pub fn segment_bytes(&self, segment: SegmentId) -> u64 {
        self.segments[segment.0 as usize].bytes
    }

    /// Page size of a reservation; `None` for a segment mapped whole.
    #[must_use]
    pub fn segment_page(&self, segment: SegmentId) -> Option<u64> {
        let page = self.segments[segment.0 as usize].page_bytes;
        (page != 0).then_some(page)
    }

    /// The lowest block of the segment.
    #[must_use]
    pub fn first(&self, segment: SegmentId) -> BlockId {
        BlockId(self.segments[segment.0 as usize].first)
    }

    /// The blocks of a segment in address order.
    pub fn blocks(&self, segment: SegmentId) -> impl Iterator<Item = BlockId> + '_ {
        std::iter::successors(Some(self.first(segment)), |block| self.next(*block))
    }

    /// All blocks, segment by segment: for observers and checks, not for every event.
    pub fn walk(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.segments().flat_map(|segment| self.blocks(segment))
    }

    /// The block that holds `address`, by a walk.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<BlockId> {
        self.walk()
            .find(|block| (self.base(*block)..self.end(*block)).contains(&address))
    }
}
