//! Freeing, and the events that a free may have to wait for (section 6).

use super::{PyTorch, Statistics, Version};
use crate::space::{BlockId, Space, State};
use crate::trace::StreamId;

impl PyTorch {
    /// Another stream uses the block; its own stream counts for nothing.
    pub(super) fn record_stream(&mut self, block: BlockId, stream: Option<StreamId>) {
        if stream == Some(self.info(block).stream) {
            return;
        }
        let users = self.uses.entry(block).or_default();
        if !users.contains(&stream) {
            users.push(stream);
        }
    }

    /// The program gives a block back (section 6.1).
    pub(super) fn give_back(&mut self, block: BlockId, pending: bool, space: &mut Space) {
        let info = self.info(block);
        let bytes = space.bytes(block);
        self.statistics.allocation.fall(info.small, 1);
        self.statistics
            .allocated_bytes
            .fall(info.small, bytes as i64);
        if bytes >= self.options.max_split_bytes {
            Statistics::oversize(&mut self.statistics.oversize_allocations, -1);
        }
        if pending && !self.uses.contains_key(&block) {
            // The recording shows a delay, but not for which stream.
            self.uses.insert(block, vec![None]);
        }
        // Where the trace says when a free completes, uses that it does not name end at once.
        let waits = self.uses.contains_key(&block) && (pending || self.events_over.is_some());
        if !waits {
            self.uses.remove(&block);
            self.finish(block, space);
            return;
        }
        space.defer(block);
        if self.version < Version::V2_13 && !self.routes.is_empty() {
            self.deferred.push(block);
        } else {
            self.record_events(block);
        }
    }

    fn record_events(&mut self, block: BlockId) {
        let users = self.uses.remove(&block).unwrap_or_default();
        self.infos[block.0 as usize].events = users.len() as u32;
        for stream in users {
            self.queues.entry(stream).or_default().push_back(block);
        }
    }

    /// Section 6.3: what is over is completed, queue by queue, first in first out.
    pub(super) fn process_events(&mut self, space: &mut Space) {
        for block in std::mem::take(&mut self.deferred) {
            self.record_events(block);
        }
        if self.events_over == Some(true) {
            self.complete_queues(space);
        }
    }

    /// Completes every block that waits for an event.
    pub(super) fn complete_queues(&mut self, space: &mut Space) {
        while let Some(mut entry) = self.queues.first_entry() {
            let Some(block) = entry.get_mut().pop_front() else {
                entry.remove();
                continue;
            };
            let events = &mut self.infos[block.0 as usize].events;
            *events -= 1;
            if *events == 0 {
                self.finish(block, space);
            }
        }
    }

    /// Section 6.2: the block is free, joins its neighbours and enters the free set.
    pub(super) fn finish(&mut self, block: BlockId, space: &mut Space) {
        let info = self.info(block);
        let own_bytes = space.bytes(block);
        let expandable = Self::is_expandable(space, block);
        space.release(block, info.stream);
        self.infos[block.0 as usize].events = 0;
        let (mut count, mut bytes) = (0, 0);
        let mut merged = block;
        if let Some(below) = space.free_prev(merged) {
            (count, bytes) = (count - 1, bytes - space.bytes(below) as i64);
            merged = self.absorb_below(below, merged, space);
        }
        if let Some(above) = space.free_next(merged) {
            (count, bytes) = (count - 1, bytes - space.bytes(above) as i64);
            self.absorb_above(merged, above, space);
        }
        self.enter(merged, space);
        if Self::is_split(space, merged) {
            (count, bytes) = (count + 1, bytes + space.bytes(merged) as i64);
        }
        let statistics = &mut self.statistics;
        if !expandable {
            statistics.inactive_split.change(info.small, count);
            statistics.inactive_split_bytes.change(info.small, bytes);
        }
        statistics.active.fall(info.small, 1);
        statistics.active_bytes.fall(info.small, own_bytes as i64);
        statistics
            .requested_bytes
            .fall(info.small, info.requested_bytes as i64);
    }

    /// Joins the free block below; the object of `block` survives at the lower address.
    pub(super) fn absorb_below(
        &mut self,
        below: BlockId,
        block: BlockId,
        space: &mut Space,
    ) -> BlockId {
        self.drop_from_sets(below, space);
        self.set_info(below, self.info(block));
        space.merge(below, block);
        below
    }

    /// Joins the free block above; the object of `block` survives.
    pub(super) fn absorb_above(&mut self, block: BlockId, above: BlockId, space: &mut Space) {
        self.drop_from_sets(above, space);
        space.merge(block, above);
    }

    fn drop_from_sets(&mut self, block: BlockId, space: &Space) {
        if space.state(block) == State::Unmapped {
            self.leave_unmapped(block, space);
        } else {
            self.leave(block, space);
        }
    }
}
