//! The tiling: cutting, joining and handing out, each in O(1).

use super::{
    ALIGN, Block, BlockId, NONE, Origin, PINNED, Request, SegmentId, Space, State, Step, StepKind,
};
use crate::trace::StreamId;

/// A block with all that is known of it, as it was at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) base: u64,
    pub(super) bytes: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) segment: u32,
    pub(super) state: State,
}

impl Space {
    #[inline]
    fn at(&self, block: BlockId) -> &Block {
        &self.blocks[block.0 as usize]
    }

    /// What is known of a block beyond its place.
    #[inline]
    pub(super) fn origin(&self, block: u32) -> Origin {
        let at = block as usize;
        self.origins.get(at).copied().unwrap_or_default()
    }

    /// Changes what is known of a block beyond its place.
    #[inline]
    pub(super) fn set_origin(&mut self, block: u32, origin: Origin) {
        if self.origins.is_empty() {
            if origin == Origin::default() {
                return;
            }
            self.keep_origins();
        }
        self.origins[block as usize] = origin;
    }

    /// The block belongs to this segment from here on.
    pub(super) fn set_segment(&mut self, block: BlockId, segment: u32) {
        let mut origin = self.origin(block.0);
        origin.segment = segment;
        self.set_origin(block.0, origin);
    }

    /// The first block differs from all others: from here on each is known by itself.
    #[cold]
    fn keep_origins(&mut self) {
        self.origins.resize(self.blocks.len(), Origin::default());
        self.judge_plain();
    }

    /// Where the block ends: where the next one begins, or with its segment.
    #[inline]
    pub(super) fn end_of(&self, id: BlockId, block: &Block) -> u64 {
        if block.next == NONE {
            let segment = &self.segments[self.origin(id.0).segment as usize];
            segment.base + segment.bytes
        } else {
            self.blocks[block.next as usize].base()
        }
    }

    #[inline(always)]
    pub(super) fn view(&self, block: BlockId) -> View {
        let at = self.at(block);
        if at.is(State::Gone) {
            self.broken(block.0, "use of a block that is gone");
        }
        View {
            base: at.base(),
            bytes: self.end_of(block, at) - at.base(),
            prev: at.prev,
            next: at.next,
            segment: self.origin(block.0).segment,
            state: at.state(),
        }
    }

    /// First address of the block.
    #[inline]
    #[must_use]
    pub fn base(&self, block: BlockId) -> u64 {
        self.at(block).base()
    }

    /// Bytes of the block.
    #[inline]
    #[must_use]
    pub fn bytes(&self, block: BlockId) -> u64 {
        let at = self.at(block);
        self.end_of(block, at) - at.base()
    }

    /// The address behind the block.
    #[inline]
    #[must_use]
    pub fn end(&self, block: BlockId) -> u64 {
        self.end_of(block, self.at(block))
    }

    /// State of the block.
    #[inline]
    #[must_use]
    pub fn state(&self, block: BlockId) -> State {
        self.at(block).state()
    }

    /// Stream of the request that the block serves or served last.
    #[inline]
    #[must_use]
    pub fn stream(&self, block: BlockId) -> StreamId {
        self.origin(block.0).stream
    }

    /// Alignment that the block's request asked for, in bytes.
    #[must_use]
    pub fn align(&self, block: BlockId) -> u64 {
        1 << (self.origin(block.0).flags & ALIGN)
    }

    /// Whether the block must not move.
    #[must_use]
    pub fn pinned(&self, block: BlockId) -> bool {
        self.origin(block.0).flags & PINNED != 0
    }

    /// Pins the block, or lets it move again.
    pub fn set_pinned(&mut self, block: BlockId, pinned: bool) {
        let mut origin = self.origin(block.0);
        origin.flags &= !PINNED;
        origin.flags |= if pinned { PINNED } else { 0 };
        self.set_origin(block.0, origin);
    }

    /// The segment of the block.
    #[inline]
    #[must_use]
    pub fn segment(&self, block: BlockId) -> SegmentId {
        SegmentId(self.origin(block.0).segment)
    }

    /// The block below, in the same segment.
    #[inline]
    #[must_use]
    pub fn prev(&self, block: BlockId) -> Option<BlockId> {
        let prev = self.at(block).prev;
        (prev != NONE).then_some(BlockId(prev))
    }

    /// The block above, in the same segment.
    #[inline]
    #[must_use]
    pub fn next(&self, block: BlockId) -> Option<BlockId> {
        let next = self.at(block).next;
        (next != NONE).then_some(BlockId(next))
    }

    /// The block below, where it is Free.
    #[inline]
    #[must_use]
    pub fn free_prev(&self, block: BlockId) -> Option<BlockId> {
        self.prev(block)
            .filter(|prev| self.at(*prev).is(State::Free))
    }

    /// The block above, where it is Free.
    #[inline]
    #[must_use]
    pub fn free_next(&self, block: BlockId) -> Option<BlockId> {
        self.next(block)
            .filter(|next| self.at(*next).is(State::Free))
    }

    #[inline]
    pub(super) fn new_block(&mut self, word: u64, links: (u32, u32), origin: Origin) -> BlockId {
        let id = self.plain_block(word, links);
        self.set_origin(id, origin);
        if let Some(orders) = &mut self.orders {
            orders.reset(id);
        }
        BlockId(id)
    }

    /// A block that is as all are at the beginning, between these neighbours.
    #[inline(always)]
    pub(super) fn plain_block(&mut self, word: u64, (prev, next): (u32, u32)) -> u32 {
        if self.spare_block == NONE {
            self.add_block();
        }
        let id = self.spare_block;
        // Field by field: a whole block would be put together in memory and read back at
        // once, for which a core waits.
        let block = &mut self.blocks[id as usize];
        self.spare_block = block.next;
        block.word = word;
        block.prev = prev;
        block.next = next;
        id
    }

    #[cold]
    #[inline(never)]
    fn add_block(&mut self) {
        self.blocks.push(Block {
            word: 0,
            prev: NONE,
            next: NONE,
        });
        if !self.origins.is_empty() {
            self.origins.push(Origin::default());
        }
        self.spare_block = (self.blocks.len() - 1) as u32;
    }

    #[inline]
    pub(super) fn drop_block(&mut self, block: BlockId) {
        let gone = &mut self.blocks[block.0 as usize];
        // What still uses the handle breaks a rule.
        gone.set_state(State::Gone);
        gone.next = self.spare_block;
        self.spare_block = block.0;
    }

    /// Cuts a Free, Unmapped or Retired block: the low part keeps the handle and has
    /// `bytes`; the handle of the high part is returned.
    ///
    /// # Panics
    /// If the block is in use, or `bytes` does not leave two parts.
    #[inline]
    pub fn split(&mut self, block: BlockId, bytes: u64) -> BlockId {
        let old = self.view(block);
        if matches!(
            old.state,
            State::Used | State::Pending | State::Lent | State::Gone
        ) {
            self.broken(block.0, "split of a block in use");
        }
        if bytes == 0 || bytes >= old.bytes {
            self.broken(block.0, "split that leaves no second part");
        }
        let word = Block::word(old.base + bytes, old.state);
        let high = self.new_block(word, (block.0, old.next), self.origin(block.0));
        self.blocks[block.0 as usize].next = high.0;
        if old.next != NONE {
            self.blocks[old.next as usize].prev = high.0;
        }
        if old.state == State::Free {
            self.cut_free(bytes, old.bytes - bytes);
        }
        if let Some(orders) = &mut self.orders {
            orders.copy(block.0, high.0);
        }
        if self.has_aliases() {
            self.cut_part(block, high);
        }
        high
    }

    /// Joins two neighbours of the same state; the left handle survives. Where the
    /// Space keeps the order of streams, both must belong to one stream, or one of
    /// them to a position that every stream has passed.
    ///
    /// # Panics
    /// If they are no neighbours, differ in state, are in use, or their streams differ.
    #[inline]
    pub fn merge(&mut self, left: BlockId, right: BlockId) {
        if let Some(orders) = &mut self.orders
            && !orders.merge(left.0, right.0)
        {
            self.broken(
                left.0,
                "merge of blocks of two streams without an ordering point",
            );
        }
        self.fuse(left, right);
    }

    #[inline]
    pub(super) fn fuse(&mut self, left: BlockId, right: BlockId) {
        let (low, high) = (self.view(left), self.view(right));
        if low.next != right.0 {
            self.broken(left.0, "merge of blocks that are no neighbours");
        }
        if low.state != high.state
            || matches!(
                low.state,
                State::Used | State::Pending | State::Lent | State::Gone
            )
        {
            self.broken(left.0, "merge of blocks in use or of different states");
        }
        if self.has_aliases() {
            self.check_no_part(left, "merge of a part of an alias");
            self.check_no_part(right, "merge of a part of an alias");
        }
        self.blocks[left.0 as usize].next = high.next;
        if high.next != NONE {
            self.blocks[high.next as usize].prev = left.0;
        }
        if low.state == State::Free {
            self.join_free(low.bytes, high.bytes);
        }
        self.drop_block(right);
    }

    /// Hands a Free block out to `request`, whole.
    ///
    /// # Panics
    /// If the block is not Free, too small, misaligned, or another stream may still use it.
    #[inline]
    pub fn place(&mut self, block: BlockId, request: &Request) {
        let old = self.view(block);
        if old.state != State::Free {
            self.broken(block.0, "placing on a block that is not free");
        }
        if old.bytes < request.bytes {
            self.broken(block.0, "placing on a block that is too small");
        }
        if old.base & (request.align - 1) != 0 {
            self.broken(block.0, "placing on a block that is misaligned");
        }
        if let Some(orders) = &self.orders
            && !orders.usable(block.0, request.stream)
        {
            self.broken(block.0, "reuse on another stream before an ordering point");
        }
        self.blocks[block.0 as usize].set_state(State::Used);
        let origin = Origin {
            segment: old.segment,
            stream: request.stream,
            flags: request.align.trailing_zeros() as u8,
        };
        self.set_origin(block.0, origin);
        self.lose_free(old.bytes);
        let counters = &mut self.counters;
        counters.used_bytes += old.bytes;
        counters.peak_used_bytes = counters.peak_used_bytes.max(counters.used_bytes);
        counters.used_blocks += 1;
        self.placed = (block, old.bytes);
        self.raise_high(old.segment, old.base + old.bytes);
        self.emit(Step::new(StepKind::Place(block), old.base, old.bytes));
    }

    /// Whether the block is in use and holds `bytes`.
    #[inline]
    pub(crate) fn serves(&self, block: BlockId, bytes: u64) -> bool {
        // What was handed out last is the answer that is looked at, as a rule. It is in use:
        // nothing is taken for that once anything was given back.
        let (placed, placed_bytes) = self.placed;
        if placed == block {
            placed_bytes >= bytes
        } else {
            self.bytes(block) >= bytes && self.at(block).is(State::Used)
        }
    }

    #[inline(always)]
    pub(super) fn raise_high(&mut self, segment: u32, end: u64) {
        let segment = &mut self.segments[segment as usize];
        let high = end - segment.base;
        if high > segment.high_bytes {
            self.counters.high_bytes += high - segment.high_bytes;
            segment.high_bytes = high;
            self.counters.high_water_bytes =
                self.counters.high_water_bytes.max(self.counters.high_bytes);
        }
    }
}
