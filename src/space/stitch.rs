//! Stitching: a second range of addresses over pages that are mapped elsewhere already.
//!
//! Source: the virtual memory calls of CUDA (cuMemAddressReserve, cuMemMap of one
//! physical handle at a second place), as GMLake uses them (Guo and others, ASPLOS 2024).
//!
//! An alias is a segment whose pages are those of its parts, which are blocks of
//! reservations. Pages are counted once and used in one place at a time: either the
//! parts are Free, Used or Pending as any block is and the alias is Lent, or the parts are
//! Lent and the alias is tiled and used as any segment is. [`Space::lend`] and
//! [`Space::recall`] go from the one to the other without a call to the driver. Several
//! aliases may have a part in common: while one of them has its pages, the part is not
//! Free and no other can.
//!
//! On a card a part can only be mapped again page by page, since cuMemMap takes no offset
//! into a handle: what backs a reservation that will be stitched is made of one handle a
//! page, and [`Space::stitch`] charges a mapping a page.

use std::collections::HashMap;

use super::{BlockId, SegmentId, Space, State, Step, StepKind};
use crate::trace::StreamId;

/// Which blocks the aliases are made of. Looked up by key only, so that the order of a
/// hash map is never seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Aliases {
    /// The parts of an alias, by its segment, in the order of their addresses in it.
    parts: HashMap<u32, Vec<BlockId>>,
    /// The blocks of the aliases that a block is a part of.
    over: HashMap<u32, Vec<BlockId>>,
}

impl Aliases {
    /// A part was cut: its high half stands behind it in every alias.
    fn cut(&mut self, low: BlockId, high: BlockId, segment_of: impl Fn(BlockId) -> u32) {
        let Some(aliases) = self.over.get(&low.0).cloned() else {
            return;
        };
        for alias in &aliases {
            let parts = self.parts.get_mut(&segment_of(*alias));
            let parts = parts.expect("an alias has parts");
            let at = parts.iter().position(|part| *part == low);
            parts.insert(at.expect("the part knows its alias") + 1, high);
        }
        self.over.insert(high.0, aliases);
    }
}

impl Space {
    /// Joins Free blocks of reservations behind a new range of addresses, in the given
    /// order. The alias is one block, Lent: its parts go on as they are until
    /// [`lend`](Self::lend).
    ///
    /// # Panics
    /// If a block is not Free, given twice, itself of an alias, or no whole number of the
    /// pages that all of them have.
    pub fn stitch(&mut self, free: &[BlockId]) -> BlockId {
        let page_bytes = self.check_parts(free);
        let bytes = free.iter().map(|part| self.bytes(*part)).sum();
        let base = self.driver.reserve(bytes);
        self.charge_call(self.device.reserve_ns(bytes));
        let (segment, alias) = self.new_segment(base, bytes, page_bytes, State::Lent);
        self.emit(Step::new(StepKind::Reserve(segment), base, bytes));
        self.charge_call(self.device.map_ns(bytes, page_bytes));
        self.charge_call(self.device.access_ns(bytes, page_bytes));
        let mut address = base;
        for part in free {
            let (from, bytes) = (self.base(*part), self.bytes(*part));
            self.emit(Step {
                kind: StepKind::Alias(segment),
                address,
                bytes,
                from,
            });
            address += bytes;
            self.aliases.over.entry(part.0).or_default().push(alias);
        }
        self.aliases.parts.insert(segment.0, free.to_vec());
        self.judge_plain();
        alias
    }

    /// The page size of the parts.
    fn check_parts(&self, free: &[BlockId]) -> u64 {
        let first = *free.first().expect("an alias has a part");
        let page_of = |part: BlockId| self.segments[self.segment(part).0 as usize].page_bytes;
        let page_bytes = page_of(first);
        for part in free {
            let offset = self.base(*part) - self.segment_base(self.segment(*part));
            if self.state(*part) != State::Free {
                self.broken(part.0, "stitching a block that is not free");
            }
            if page_bytes == 0 || page_of(*part) != page_bytes || self.is_alias(*part) {
                self.broken(part.0, "stitching a block that has no pages of its own");
            }
            if !offset.is_multiple_of(page_bytes) || !self.bytes(*part).is_multiple_of(page_bytes) {
                self.broken(part.0, "stitching a block of no whole number of pages");
            }
        }
        let mut sorted = free.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            self.broken(first.0, "stitching a block to itself");
        }
        page_bytes
    }

    /// Takes an alias away: its range of addresses is given back, its parts stay.
    ///
    /// # Panics
    /// If the block is not a whole alias that is Lent.
    pub fn unstitch(&mut self, alias: BlockId) {
        self.check_whole(alias, State::Lent);
        let old = self.view(alias);
        let segment = SegmentId(old.segment);
        let parts = self.aliases.parts.remove(&old.segment);
        for part in parts.expect("an alias has parts") {
            let aliases = self.aliases.over.get_mut(&part.0);
            let aliases = aliases.expect("the part knows its alias");
            aliases.retain(|other| *other != alias);
            if aliases.is_empty() {
                self.aliases.over.remove(&part.0);
            }
        }
        self.judge_plain();
        let page_bytes = self.segments[old.segment as usize].page_bytes;
        self.charge_call(self.device.unmap_ns(old.bytes, page_bytes));
        self.emit(Step::new(StepKind::Unalias(segment), old.base, old.bytes));
        self.driver.unreserve(old.base, old.bytes);
        self.charge_call(self.device.reserve_ns(old.bytes));
        self.drop_segment(old.segment);
        self.drop_block(alias);
        self.emit(Step::new(StepKind::Unreserve(segment), old.base, old.bytes));
    }

    /// The parts of a Lent alias lend it their pages: they are Lent, the alias is Free,
    /// and ordered behind `by` at its present position. Calls no driver.
    ///
    /// # Panics
    /// If the block is not a whole alias that is Lent, a part is not Free, or `by` may
    /// not use it.
    pub fn lend(&mut self, alias: BlockId, by: StreamId) {
        self.check_whole(alias, State::Lent);
        let old = self.view(alias);
        let parts = self.aliases.parts.remove(&old.segment);
        let parts = parts.expect("an alias has parts");
        for part in &parts {
            if self.state(*part) != State::Free {
                self.broken(part.0, "lending the pages of a block that is not free");
            }
            if !self.usable(*part, by) {
                self.broken(part.0, "lending a block that the stream may not use");
            }
            self.lose_free(self.bytes(*part));
            self.blocks[part.0 as usize].set_state(State::Lent);
        }
        self.aliases.parts.insert(old.segment, parts);
        if let Some(orders) = &mut self.orders {
            orders.free(alias.0, by);
        }
        self.blocks[alias.0 as usize].set_state(State::Free);
        self.gain_free(old.bytes);
    }

    /// The parts of a Free alias have their pages back: they are Free, ordered as the
    /// alias was, and the alias is Lent. Calls no driver.
    ///
    /// # Panics
    /// If the block is not a whole alias that is Free.
    pub fn recall(&mut self, alias: BlockId) {
        self.check_whole(alias, State::Free);
        let old = self.view(alias);
        self.lose_free(old.bytes);
        self.blocks[alias.0 as usize].set_state(State::Lent);
        let parts = self.aliases.parts.remove(&old.segment);
        let parts = parts.expect("an alias has parts");
        for part in &parts {
            if let Some(orders) = &mut self.orders {
                orders.copy(alias.0, part.0);
            }
            self.blocks[part.0 as usize].set_state(State::Free);
            self.gain_free(self.bytes(*part));
        }
        self.aliases.parts.insert(old.segment, parts);
    }

    fn check_whole(&self, alias: BlockId, state: State) {
        let block = self.view(alias);
        let whole = self.prev(alias).is_none() && self.next(alias).is_none();
        if !self.aliases.parts.contains_key(&block.segment) || !whole || block.state != state {
            self.broken(alias.0, "the block is not a whole alias in the right state");
        }
    }

    /// Whether the block lies in an alias.
    #[must_use]
    pub fn is_alias(&self, block: BlockId) -> bool {
        self.aliases.parts.contains_key(&self.segment(block).0)
    }

    /// The parts of the alias that the block lies in, by their addresses in it; none
    /// where it lies in no alias.
    #[must_use]
    pub fn parts(&self, alias: BlockId) -> &[BlockId] {
        let parts = self.aliases.parts.get(&self.segment(alias).0);
        parts.map_or(&[], Vec::as_slice)
    }

    /// The aliases that the block is a part of, the oldest first.
    #[must_use]
    pub fn aliases(&self, part: BlockId) -> &[BlockId] {
        let aliases = self.aliases.over.get(&part.0);
        aliases.map_or(&[], Vec::as_slice)
    }

    /// Whether all pages of a Lent alias are free to be lent.
    #[must_use]
    pub fn lendable(&self, alias: BlockId) -> bool {
        let parts = self.parts(alias);
        self.state(alias) == State::Lent
            && !parts.is_empty()
            && parts.iter().all(|part| self.state(*part) == State::Free)
    }

    /// Whether anything is stitched.
    #[inline]
    pub(super) fn has_aliases(&self) -> bool {
        !self.aliases.over.is_empty()
    }

    /// A block was cut in two.
    pub(super) fn cut_part(&mut self, low: BlockId, high: BlockId) {
        let origins = &self.origins;
        let segment_of = |alias: BlockId| {
            let origin = origins.get(alias.0 as usize);
            origin.map_or(0, |origin| origin.segment)
        };
        self.aliases.cut(low, high, segment_of);
    }

    /// Breaks where the block is a part of an alias, which would lose its pages.
    pub(super) fn check_no_part(&self, block: BlockId, rule: &str) {
        if self.aliases.over.contains_key(&block.0) {
            self.broken(block.0, rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::SpaceConfig;
    use super::*;

    /// Three free parts of 1024 bytes each in reservations of their own.
    fn parts(space: &mut Space) -> [BlockId; 3] {
        [(); 3].map(|()| {
            let part = space.reserve(1024, 256);
            space.back(part, 1024).expect("there is room");
            part
        })
    }

    fn breaks(space: &Space, work: impl FnOnce(&mut Space)) -> bool {
        let mut copy = space.clone();
        catch_unwind(AssertUnwindSafe(|| work(&mut copy))).is_err()
    }

    #[test]
    fn pages_are_counted_once_and_used_in_one_place_at_a_time() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let [a, b, c] = parts(&mut space);
        let one = space.stitch(&[a, b]);
        let two = space.stitch(&[c, b]);
        assert_eq!(space.counters().reserved_bytes, 3072);
        assert_eq!(space.counters().free_bytes, 3072);
        assert_eq!(
            (space.parts(two), space.aliases(b)),
            (&[c, b][..], &[one, two][..])
        );
        space.lend(one, 0);
        assert_eq!(space.counters().free_bytes, 3072);
        assert!(!space.lendable(two) && space.state(b) == State::Lent);
        assert!(breaks(&space, |space| space.lend(two, 0)));
        assert!(breaks(&space, |space| space.unstitch(one)));
        space.recall(one);
        // A part that is cut stays a part, with both halves.
        let high = space.split(b, 256);
        assert_eq!(space.parts(one), [a, b, high]);
        assert_eq!(space.aliases(high), [one, two]);
        space.unstitch(one);
        assert_eq!((space.aliases(a), space.aliases(b)), (&[][..], &[two][..]));
    }

    #[test]
    fn what_would_lose_pages_breaks() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let [a, b, c] = parts(&mut space);
        let whole = space.map(1024).expect("there is room");
        let high = space.split(c, 100);
        let one = space.stitch(&[a, b]);
        assert!(breaks(&space, |space| space.unback(a)));
        assert!(breaks(&space, |space| {
            _ = space.stitch(&[a, a]);
        }));
        assert!(breaks(&space, |space| {
            _ = space.stitch(&[a, whole]);
        }));
        assert!(breaks(&space, |space| {
            _ = space.stitch(&[a, high]);
        }));
        assert!(breaks(&space, |space| space.recall(one)));
        let low = space.split(a, 512);
        assert!(breaks(&space, |space| space.merge(a, low)));
        space.lend(one, 0);
        assert!(breaks(&space, |space| space.unback(one)));
        assert!(breaks(&space, |space| {
            _ = space.split(a, 256);
        }));
        let tail = space.split(one, 256);
        assert!(breaks(&space, |space| space.recall(one)));
        space.merge(one, tail);
        space.recall(one);
        space.unstitch(one);
        space.merge(a, low);
        space.unback(a);
    }
}
