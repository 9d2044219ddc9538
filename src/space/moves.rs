//! The two movers: neighbours swap places, or a block changes with a free one of its size.

use super::{BlockId, NONE, Space, State, Step, StepKind};

impl Space {
    /// A Free block and the Used block above it swap places: the used one moves down by
    /// the free one's size, and both handles survive. Charged; requests wait for it.
    ///
    /// # Panics
    /// If they are no such neighbours, the used block is pinned or in flight, or would
    /// lose its alignment.
    pub fn slide(&mut self, free: BlockId, used: BlockId) {
        let low = self.view(free);
        let high = self.view(used);
        if low.next != used.0 || low.state != State::Free {
            self.broken(
                free.0,
                "sliding over a block that is not the free one below",
            );
        }
        self.check_movable(used);
        if low.base & (self.align(used) - 1) != 0 {
            self.broken(used.0, "a move that loses the alignment");
        }
        let (lower, upper) = (low.prev, high.next);
        let moved = &mut self.blocks[used.0 as usize];
        moved.set_base(low.base);
        (moved.prev, moved.next) = (lower, free.0);
        let hole = &mut self.blocks[free.0 as usize];
        hole.set_base(low.base + high.bytes);
        (hole.prev, hole.next) = (used.0, upper);
        if lower == NONE {
            self.segments[low.segment as usize].first = used.0;
        } else {
            self.blocks[lower as usize].next = used.0;
        }
        if upper != NONE {
            self.blocks[upper as usize].prev = free.0;
        }
        self.raise_high(low.segment, low.base + high.bytes);
        self.charge_move(used, high.base, low.base, high.bytes);
    }

    /// A Used block takes the place of a Free one of the same size, and the free one
    /// takes its place; both handles survive. Charged; requests wait for it.
    ///
    /// # Panics
    /// If the sizes differ, `fresh` is not Free, or `used` must not move.
    pub fn exchange(&mut self, used: BlockId, fresh: BlockId) {
        let old = self.view(used);
        let new = self.view(fresh);
        if new.state != State::Free || new.bytes != old.bytes {
            self.broken(
                fresh.0,
                "exchange with a block that is not free or of another size",
            );
        }
        self.check_movable(used);
        if new.base & (self.align(used) - 1) != 0 {
            self.broken(used.0, "a move that loses the alignment");
        }
        self.relink(used, fresh);
        self.raise_high(new.segment, new.base + new.bytes);
        self.charge_move(used, old.base, new.base, old.bytes);
    }

    fn check_movable(&self, used: BlockId) {
        if self.state(used) != State::Used {
            self.broken(used.0, "a move of a block that is not used");
        }
        if self.pinned(used) {
            self.broken(used.0, "a move of a pinned block");
        }
    }

    /// Swaps the places (base, segment and neighbours) of two blocks of equal size.
    fn relink(&mut self, one: BlockId, two: BlockId) {
        let swap = |id: u32| match id {
            id if id == one.0 => two.0,
            id if id == two.0 => one.0,
            id => id,
        };
        let (a, b) = (self.view(one), self.view(two));
        for (id, place) in [(one, b), (two, a)] {
            let block = &mut self.blocks[id.0 as usize];
            block.set_base(place.base);
            block.prev = swap(place.prev);
            block.next = swap(place.next);
            self.set_segment(id, place.segment);
        }
        for id in [one, two] {
            let block = self.view(id);
            match block.prev {
                NONE => self.segments[block.segment as usize].first = id.0,
                prev => self.blocks[prev as usize].next = id.0,
            }
            if block.next != NONE {
                self.blocks[block.next as usize].prev = id.0;
            }
        }
    }

    fn charge_move(&mut self, block: BlockId, from: u64, to: u64, bytes: u64) {
        let distance = from.abs_diff(to);
        let cost_ns = self.device.move_ns(bytes, distance);
        self.counters.moves += 1;
        self.counters.moved_bytes += bytes;
        self.pause(cost_ns);
        self.emit(Step {
            kind: StepKind::Move { block },
            address: to,
            bytes,
            from,
        });
    }
}
