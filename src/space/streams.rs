//! The order of streams: which freed range may be used by which stream.
//!
//! A free on a stream gets the stream's present position. Another stream may use the
//! range once it has waited for that position, or once the host has ([`Clocks`]).

use super::clocks::Clocks;
use super::{BlockId, Space, Step, StepKind};
use crate::trace::{ANY_STREAM, StreamId};

/// Behind which position of which stream a free range lies; position 0 is free to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tag {
    /// Stream of the free.
    pub stream: StreamId,
    /// Position of the free on that stream.
    pub seq: u64,
}

/// Clocks, and the tag of each block. Where the trace has one stream, every range is free
/// to it: no tags are kept.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    alone: bool,
    tags: Vec<Tag>,
    clocks: Clocks,
}

impl Orders {
    pub(super) fn new(streams: usize) -> Self {
        Orders {
            alone: streams == 1,
            tags: Vec::new(),
            clocks: Clocks::new(streams),
        }
    }

    /// Whether there is one stream, so that nothing needs order.
    #[inline]
    pub(super) fn alone(&self) -> bool {
        self.alone
    }

    #[inline]
    pub(super) fn reset(&mut self, block: u32) {
        if !self.alone {
            self.begin(block);
        }
    }

    fn begin(&mut self, block: u32) {
        let at = block as usize;
        if at >= self.tags.len() {
            self.tags.resize(at + 1, Tag::default());
        }
        self.tags[at] = Tag::default();
    }

    #[inline]
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        if !self.alone {
            self.tags[to as usize] = self.tags[from as usize];
        }
    }

    #[inline]
    pub(super) fn free(&mut self, block: u32, stream: StreamId) {
        let present = self.clocks.present(stream);
        if !self.alone {
            self.tags[block as usize] = present;
        }
    }

    /// The tag of a block.
    fn tag(&self, block: u32) -> Tag {
        if self.alone {
            return Tag::default();
        }
        self.tags[block as usize]
    }

    /// Whether no stream, now or later, may use the one and not the other.
    fn alike(&self, one: u32, two: u32) -> bool {
        if self.alone {
            return true;
        }
        let (one, two) = (self.tags[one as usize], self.tags[two as usize]);
        one == two || (self.clocks.settled(one) && self.clocks.settled(two))
    }

    #[inline]
    pub(super) fn usable(&self, block: u32, stream: StreamId) -> bool {
        self.alone || self.clocks.passed(self.tags[block as usize], stream)
    }

    /// Joins the tags of two blocks into the left one; false where that would lose one.
    #[inline]
    pub(super) fn merge(&mut self, left: u32, right: u32) -> bool {
        self.alone || self.join_tags(left, right)
    }

    fn join_tags(&mut self, left: u32, right: u32) -> bool {
        let (low, high) = (self.tags[left as usize], self.tags[right as usize]);
        let joined = if self.clocks.settled(low) {
            high
        } else if self.clocks.settled(high) {
            low
        } else if low.stream == high.stream {
            Tag {
                stream: low.stream,
                seq: low.seq.max(high.seq),
            }
        } else {
            return false;
        };
        self.tags[left as usize] = joined;
        true
    }
}

impl Space {
    /// Whether the Space keeps the order of streams.
    #[must_use]
    pub fn ordered(&self) -> bool {
        self.orders.is_some()
    }

    /// Whether `stream` may use the free block now; always true where no order is kept.
    #[must_use]
    pub fn usable(&self, block: BlockId, stream: StreamId) -> bool {
        self.orders
            .as_ref()
            .is_none_or(|orders| orders.usable(block.0, stream))
    }

    /// The tag of a free block, where the order of streams is kept.
    #[must_use]
    pub fn tag(&self, block: BlockId) -> Option<Tag> {
        self.orders.as_ref().map(|orders| orders.tag(block.0))
    }

    /// Whether [`merge`](Space::merge) may join the two free neighbours as they are.
    #[must_use]
    pub fn mergeable(&self, left: BlockId, right: BlockId) -> bool {
        let Some(orders) = &self.orders else {
            return true;
        };
        let (low, high) = (orders.tag(left.0), orders.tag(right.0));
        low.stream == high.stream || orders.clocks.settled(low) || orders.clocks.settled(high)
    }

    /// Whether joining the two free neighbours loses nothing: no stream, now or later,
    /// may use the one and not the other.
    #[must_use]
    pub fn alike(&self, one: BlockId, two: BlockId) -> bool {
        self.orders
            .as_ref()
            .is_none_or(|orders| orders.alike(one.0, two.0))
    }

    /// How many streams the Space keeps the order of; 0 where it keeps none.
    #[must_use]
    pub fn ordered_streams(&self) -> StreamId {
        self.orders
            .as_ref()
            .map_or(0, |orders| orders.clocks.streams() as StreamId)
    }

    /// Joins two free neighbours that `by` may both use, and orders them behind `by`
    /// at its present position.
    ///
    /// # Panics
    /// If `by` may not use one of them, or as [`merge`](Space::merge).
    pub fn join(&mut self, left: BlockId, right: BlockId, by: StreamId) {
        if !self.usable(left, by) || !self.usable(right, by) {
            self.broken(left.0, "joining a block that the stream may not use");
        }
        if let Some(orders) = &mut self.orders {
            orders.free(left.0, by);
        }
        self.fuse(left, right);
    }

    /// `event` notes the present position of `stream`.
    pub fn record(&mut self, stream: StreamId, event: u32) {
        if let Some(orders) = &mut self.orders {
            orders.clocks.record(stream, event);
        }
    }

    /// `stream` goes on only after the position noted under `event`; an event that was
    /// never recorded orders nothing, as in CUDA.
    pub fn wait_event(&mut self, stream: StreamId, event: u32) {
        if let Some(orders) = &mut self.orders {
            orders.clocks.wait_event(stream, event);
        }
    }

    /// The host waited for `stream`, or for all of them ([`ANY_STREAM`]).
    pub fn sync(&mut self, stream: StreamId) {
        if let Some(orders) = &mut self.orders {
            orders.clocks.sync(stream);
        }
    }

    /// The policy lets `stream` wait for the present position of `on`.
    pub fn wait(&mut self, stream: StreamId, on: StreamId) {
        self.counters.waits += 1;
        if let Some(orders) = &mut self.orders {
            orders.clocks.wait(stream, on);
        }
        self.emit(Step::new(StepKind::Wait { stream, on }, 0, 0));
    }

    /// The policy lets the host wait for one stream, charged.
    pub fn synchronise_stream(&mut self, stream: StreamId) {
        self.charge(self.device.sync_ns);
        self.sync(stream);
        self.emit(Step::new(StepKind::SynchroniseStream(stream), 0, 0));
    }

    /// The policy waits for the whole device: a stall, charged.
    pub fn synchronise(&mut self) {
        self.counters.stalls += 1;
        self.charge(self.device.sync_ns);
        self.sync(ANY_STREAM);
        self.emit(Step::new(StepKind::Synchronise, 0, 0));
    }
}
