//! The model: a list of live ranges, and each rule in the plainest words. Nothing is
//! kept up to date, everything is looked for again: O(n^2), and obvious.

use std::collections::BTreeMap;

/// All sizes are multiples of this.
const GRAIN: u64 = 256;

/// A rule that the model knows exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    First,
    Next,
    Best,
    Worst,
    Bump,
    Buddy,
    Tlsf,
}

/// A range in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    pub start: u64,
    pub bytes: u64,
    pub align: u64,
    pub pinned: bool,
}

/// A rule over a card.
pub struct Model {
    rule: Rule,
    /// Whether a shortage, or a request for it, slides everything down.
    compacts: bool,
    capacity: u64,
    pub live: BTreeMap<u32, Live>,
    /// End of the last placement; of bump the offset.
    cursor: u64,
    /// The holes as they came to be, the latest last: only TLSF asks.
    history: Vec<(u64, u64)>,
}

impl Model {
    pub fn new(rule: Rule, compacts: bool, capacity: u64) -> Self {
        Model {
            rule,
            compacts,
            capacity,
            live: BTreeMap::new(),
            cursor: 0,
            history: vec![(0, capacity)],
        }
    }

    /// What is between live ranges, as starts and ends.
    fn holes(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = self
            .live
            .values()
            .map(|live| (live.start, live.start + live.bytes))
            .collect();
        ranges.sort_unstable();
        ranges.push((self.capacity, self.capacity));
        let mut holes = Vec::new();
        let mut from = 0;
        for (start, end) in ranges {
            if from < start {
                holes.push((from, start));
            }
            from = end;
        }
        holes
    }

    /// Serves a request; where it was placed, or `None`.
    pub fn alloc(&mut self, slot: u32, asked: u64, align: u64) -> Option<u64> {
        let mut bytes = asked.next_multiple_of(GRAIN);
        if self.rule == Rule::Buddy {
            bytes = bytes.max(align).next_power_of_two();
        }
        let mut start = self.choose(bytes, align);
        let free: u64 = self.holes().iter().map(|(from, to)| to - from).sum();
        if start.is_none() && self.compacts && free >= bytes {
            self.compact();
            start = self.choose(bytes, align);
        }
        let start = start?;
        let live = Live {
            start,
            bytes,
            align,
            pinned: false,
        };
        self.live.insert(slot, live);
        self.cursor = start + bytes;
        self.note_taken(start, start + bytes);
        Some(start)
    }

    pub fn free(&mut self, slot: u32) {
        let Some(gone) = self.live.remove(&slot) else {
            return;
        };
        if self.rule == Rule::Bump && self.live.is_empty() {
            self.cursor = 0;
        }
        let hole = self
            .holes()
            .into_iter()
            .find(|hole| hole.0 <= gone.start && gone.start < hole.1)
            .expect("what was freed lies in a hole");
        self.history
            .retain(|old| old.1 <= hole.0 || hole.1 <= old.0);
        self.history.push(hole);
    }

    fn note_taken(&mut self, start: u64, end: u64) {
        let at = self
            .history
            .iter()
            .position(|hole| hole.0 <= start && end <= hole.1);
        let Some(at) = at else {
            return;
        };
        let (from, to) = self.history.remove(at);
        self.history.extend(
            [(from, start), (end, to)]
                .iter()
                .filter(|hole| hole.0 < hole.1),
        );
    }

    fn choose(&self, bytes: u64, align: u64) -> Option<u64> {
        let place = |hole: &(u64, u64)| {
            let start = hole.0.next_multiple_of(align);
            (start + bytes <= hole.1).then_some(start)
        };
        let mut fits = self.holes();
        fits.retain(|hole| place(hole).is_some());
        let size = |hole: &(u64, u64)| hole.1 - hole.0;
        let hole = match self.rule {
            Rule::First => fits.first().copied(),
            Rule::Best => fits.iter().copied().min_by_key(size),
            // Of equal ones the first: the last of the reversed list.
            Rule::Worst => fits.iter().rev().copied().max_by_key(size),
            Rule::Next => fits
                .iter()
                .find(|hole| hole.1 > self.cursor)
                .or(fits.first())
                .copied(),
            Rule::Bump => {
                let rest = (self.cursor, self.capacity);
                return place(&rest);
            }
            Rule::Buddy => return self.choose_buddy(bytes),
            Rule::Tlsf => self.choose_listed(bytes + align.saturating_sub(GRAIN)),
        };
        hole.as_ref().and_then(place)
    }

    /// The lowest of the smallest halves that are free and whose whole is not.
    fn choose_buddy(&self, bytes: u64) -> Option<u64> {
        let free = |start: u64, bytes: u64| {
            let apart =
                |live: &Live| live.start + live.bytes <= start || start + bytes <= live.start;
            self.live.values().all(apart)
        };
        let mut pieces = Vec::new();
        let mut from = 0;
        while self.capacity - from >= GRAIN {
            let piece = 1 << (self.capacity - from).ilog2();
            pieces.push((from, piece));
            from += piece;
        }
        let mut size = bytes;
        while size <= self.capacity {
            for &(base, piece) in &pieces {
                let mut at = base;
                while at + size <= base + piece {
                    let whole = base + (at - base) / (2 * size) * (2 * size);
                    let joined = size < piece && free(whole, 2 * size);
                    if free(at, size) && !joined {
                        return Some(at);
                    }
                    at += size;
                }
            }
            size *= 2;
        }
        None
    }

    /// The latest hole of the smallest list from the next boundary on.
    fn choose_listed(&self, bytes: u64) -> Option<(u64, u64)> {
        let mut boundaries: Vec<u64> = (0..16).map(|list| list * 256).collect();
        for power in 12..40 {
            boundaries.extend((0..16).map(|list| (1 << power) + list * (1 << (power - 4))));
        }
        let from = boundaries.iter().position(|floor| *floor >= bytes)?;
        let list = |hole: &(u64, u64)| {
            let floors = boundaries.iter();
            floors.filter(|floor| **floor <= hole.1 - hole.0).count() - 1
        };
        let latest_first = self.history.iter().rev();
        latest_first
            .filter(|hole| list(hole) >= from)
            .min_by_key(|hole| list(hole))
            .copied()
    }

    /// Slides everything that is not pinned down, in address order.
    pub fn compact(&mut self) {
        let mut order: Vec<u32> = self.live.keys().copied().collect();
        order.sort_unstable_by_key(|slot| self.live[slot].start);
        let mut end = 0u64;
        for slot in order {
            let live = self.live.get_mut(&slot).expect("it is live");
            if !live.pinned {
                live.start = live.start.min(end.next_multiple_of(live.align));
            }
            end = live.start + live.bytes;
        }
    }

    pub fn compacts(&self) -> bool {
        self.compacts
    }
}
