//! One depth-first search: is there a packing of at most so many bytes?

use std::collections::HashSet;

use super::sections::Sections;
use crate::bound::packing::Buffer;

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A packing was found.
    Found,
    /// There is none.
    Impossible,
    /// The budget was used up, or the time.
    GaveUp,
}

/// Failed states that are kept; 16 bytes each.
const MOST_SEEN: usize = 1 << 21;
/// Smaller parts are searched again rather than looked up.
const LEAST_SEEN: usize = 4;
/// Tries between two looks at the clock.
const LOOK: u64 = 256;

/// One change, so that it can be taken back.
#[derive(Debug, Clone, Copy)]
enum Change {
    Placed,
    Floor(u64),
    Bound(u64),
}

/// The state of the search.
pub(super) struct Search<'a> {
    buffers: &'a [Buffer],
    sections: &'a Sections,
    height_bytes: u64,
    /// Which of two buffers at the same offset is placed first.
    rank: Vec<u32>,
    /// The lowest offset of each buffer above what is placed below it.
    floor: Vec<u64>,
    /// The same or more: what the offset cannot fall below any more.
    bound: Vec<u64>,
    /// The offsets of those that are placed.
    pub offsets: Vec<u64>,
    placed: Vec<bool>,
    /// Bytes that are still to be placed in each section.
    rest_bytes: Vec<u64>,
    /// How often each section was the one that did not work out.
    pub blame: Vec<u64>,
    log: Vec<(u32, Change)>,
    /// Hashes of the states that failed.
    seen: HashSet<u128>,
    /// Scratch: earliest offsets and bytes within a section.
    releases: Vec<(u64, u64)>,
    /// Placements tried so far, in all runs.
    pub tries: u64,
    last_try: u64,
    stop: &'a (dyn Fn() -> bool + Sync),
}

/// A point in the order in which buffers are placed: by offset, then rank.
type Turn = (u64, u32);

impl<'a> Search<'a> {
    pub fn new(
        buffers: &'a [Buffer],
        sections: &'a Sections,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        let count = buffers.len();
        Search {
            buffers,
            sections,
            height_bytes: 0,
            rank: vec![0; count],
            floor: vec![0; count],
            bound: vec![0; count],
            offsets: vec![0; count],
            placed: vec![false; count],
            rest_bytes: vec![0; sections.len()],
            blame: vec![0; sections.len()],
            log: Vec::new(),
            seen: HashSet::new(),
            releases: Vec::new(),
            tries: 0,
            last_try: 0,
            stop,
        }
    }

    /// Searches for a packing of `height_bytes` with at most `tries` placements; `order`
    /// ranks the buffers.
    pub fn run(&mut self, order: &[u32], height_bytes: u64, tries: u64) -> End {
        for (rank, at) in order.iter().enumerate() {
            self.rank[*at as usize] = rank as u32;
        }
        self.height_bytes = height_bytes;
        self.last_try = self.tries + tries;
        self.seen.clear();
        self.log.clear();
        self.floor.fill(0);
        self.bound.fill(0);
        self.placed.fill(false);
        self.rest_bytes.copy_from_slice(&self.sections.load_bytes);
        if self.rest_bytes.iter().any(|rest| *rest > height_bytes) {
            return End::Impossible;
        }
        let mut all: Vec<u32> = (0..self.buffers.len() as u32).collect();
        all.sort_by_key(|at| self.sections.span[*at as usize].0);
        self.parts(&all, (0, 0))
    }

    /// What is left falls apart into parts that share no section: each for itself, the
    /// smallest first. `list` is in the order of first sections.
    fn parts(&mut self, list: &[u32], turn: Turn) -> End {
        let (mut cuts, mut end) = (vec![0], 0);
        for (number, at) in list.iter().enumerate() {
            let span = self.sections.span[*at as usize];
            if number > 0 && span.0 >= end {
                cuts.push(number);
            }
            end = end.max(span.1);
        }
        cuts.push(list.len());
        let mut parts: Vec<&[u32]> = cuts.windows(2).map(|cut| &list[cut[0]..cut[1]]).collect();
        parts.retain(|part| !part.is_empty());
        parts.sort_by_key(|part| part.len());
        for part in parts {
            let end = self.part(part, turn);
            if end != End::Found {
                return end;
            }
        }
        End::Found
    }

    /// Places the buffers of one part, none of them before `turn`.
    fn part(&mut self, part: &[u32], turn: Turn) -> End {
        let key = self.key(part, turn);
        if key.is_some_and(|key| self.seen.contains(&key)) {
            return End::Impossible;
        }
        let mark = self.log.len();
        let end = if self.lift(part, turn) {
            self.branch(part, turn)
        } else {
            End::Impossible
        };
        if end != End::Found {
            self.undo(mark);
        }
        if let Some(key) = key
            && end == End::Impossible
            && self.seen.len() < MOST_SEEN
        {
            self.seen.insert(key);
        }
        end
    }

    /// Tries every buffer that may come next.
    fn branch(&mut self, part: &[u32], turn: Turn) -> End {
        for (offset, rank, at) in self.candidates(part, turn) {
            if self.tries >= self.last_try || (self.tries.is_multiple_of(LOOK) && (self.stop)()) {
                return End::GaveUp;
            }
            self.tries += 1;
            let mark = self.log.len();
            let (is_covered, works) = self.place(at, offset);
            let mut end = End::Impossible;
            if works {
                let rest: Vec<u32> = part.iter().copied().filter(|it| *it != at).collect();
                end = self.parts(&rest, (offset, rank));
            }
            if end == End::Found {
                return end;
            }
            self.undo(mark);
            // Nothing that is left meets this buffer: another turn for it changes nothing.
            if end == End::GaveUp || !is_covered {
                return end;
            }
        }
        End::Impossible
    }

    /// The buffers that may be placed next, in the order of their turns. Not before
    /// `turn`: solutions are canonical. Not so high that some section could not hold its
    /// rest above it. Not where another buffer would fit below: that one may go first.
    fn candidates(&self, part: &[u32], turn: Turn) -> Vec<(u64, u32, u32)> {
        let (from, end) = self.sections.hull(part);
        let rests = self.rest_bytes[from..end].iter();
        let most_rest = rests.max().copied().unwrap_or(0);
        let highest = self.height_bytes - most_rest;
        let top = |at: &u32| self.floor[*at as usize] + self.buffers[*at as usize].bytes;
        let lowest_top = part.iter().map(top).min().unwrap_or(0);
        let mut found: Vec<(u64, u32, u32)> = part
            .iter()
            .map(|at| (self.floor[*at as usize], self.rank[*at as usize], *at))
            .filter(|(offset, rank, _)| {
                *offset < lowest_top && *offset <= highest && (*offset, *rank) >= turn
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Places a buffer; whether one that is left lies above it, and whether every section
    /// can still hold its rest.
    fn place(&mut self, at: u32, offset: u64) -> (bool, bool) {
        let number = at as usize;
        let bytes = self.buffers[number].bytes;
        self.placed[number] = true;
        self.offsets[number] = offset;
        self.log.push((at, Change::Placed));
        let (mut from, mut end) = self.sections.span[number];
        for rest in &mut self.rest_bytes[from as usize..end as usize] {
            *rest -= bytes;
        }
        let sections = self.sections;
        let mut is_covered = false;
        for other in sections.near(number) {
            let to = *other as usize;
            if self.placed[to] {
                continue;
            }
            is_covered = true;
            let floor = (offset + bytes).next_multiple_of(self.buffers[to].align);
            if self.floor[to] < floor {
                self.log.push((*other, Change::Floor(self.floor[to])));
                self.floor[to] = floor;
                if self.bound[to] < floor {
                    self.raise(*other, floor);
                    from = from.min(sections.span[to].0);
                    end = end.max(sections.span[to].1);
                }
            }
        }
        (is_covered, self.works(from, end))
    }

    fn raise(&mut self, at: u32, bound: u64) {
        self.log.push((at, Change::Bound(self.bound[at as usize])));
        self.bound[at as usize] = bound;
    }

    /// A buffer whose turn has passed must be lifted by another one that is still to be
    /// placed below it; false where none can.
    fn lift(&mut self, part: &[u32], turn: Turn) -> bool {
        let sections = self.sections;
        let (mut from, mut end) = (u32::MAX, 0);
        for at in part {
            let number = *at as usize;
            if (self.floor[number], self.rank[number]) >= turn {
                continue;
            }
            let left = sections.near(number).iter().map(|other| *other as usize);
            let tops = left
                .filter(|other| !self.placed[*other])
                .map(|other| self.bound[other].max(turn.0) + self.buffers[other].bytes);
            let span = sections.span[number];
            match tops.min() {
                Some(top) if top + self.buffers[number].bytes <= self.height_bytes => {
                    if top > self.bound[number] {
                        self.raise(*at, top);
                        (from, end) = (from.min(span.0), end.max(span.1));
                    }
                }
                _ => {
                    self.blame[span.0 as usize] += 1;
                    return false;
                }
            }
        }
        from >= end || self.works(from, end)
    }

    /// Whether the sections can still hold their rests: within each, buffers stacked by
    /// their earliest offsets must end below the height.
    fn works(&mut self, from: u32, end: u32) -> bool {
        let sections = self.sections;
        for section in from as usize..end as usize {
            let rest = self.rest_bytes[section];
            if rest == 0 {
                continue;
            }
            let (mut least, mut most) = (u64::MAX, 0);
            for at in sections.live(section) {
                if !self.placed[*at as usize] {
                    let bound = self.bound[*at as usize];
                    least = least.min(bound);
                    most = most.max(bound);
                }
            }
            let fits = least + rest <= self.height_bytes
                && (most + rest <= self.height_bytes || self.stacks(section));
            if !fits {
                self.blame[section] += 1;
                return false;
            }
        }
        true
    }

    /// Whether the rest of a section can be stacked from its earliest offsets.
    fn stacks(&mut self, section: usize) -> bool {
        let sections = self.sections;
        let left = sections.live(section).iter().map(|at| *at as usize);
        let left = left.filter(|at| !self.placed[*at]);
        let releases = left.map(|at| (self.bound[at], self.buffers[at].bytes));
        self.releases.clear();
        self.releases.extend(releases);
        self.releases.sort_unstable();
        let top = |top: u64, (from, bytes): &(u64, u64)| top.max(*from) + bytes;
        self.releases.iter().fold(0, top) <= self.height_bytes
    }

    fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            let (at, change) = self.log.pop().expect("the log is longer than the mark");
            let number = at as usize;
            match change {
                Change::Floor(old) => self.floor[number] = old,
                Change::Bound(old) => self.bound[number] = old,
                Change::Placed => {
                    self.placed[number] = false;
                    let (from, end) = self.sections.span[number];
                    for rest in &mut self.rest_bytes[from as usize..end as usize] {
                        *rest += self.buffers[number].bytes;
                    }
                }
            }
        }
    }

    /// What the rest of a search depends on, as a hash of 128 bits: which buffers are left,
    /// their floors, whose turn has passed, and the turn's offset.
    fn key(&self, part: &[u32], turn: Turn) -> Option<u128> {
        if part.len() < LEAST_SEEN {
            return None;
        }
        let (mut low, mut high) = (mix(turn.0), mix(!turn.0));
        for at in part {
            let number = *at as usize;
            let passed = (self.floor[number], self.rank[number]) < turn;
            let one = mix(self.floor[number].wrapping_mul(0x9e37_79b9_7f4a_7c15))
                ^ (u64::from(*at) << 1 | u64::from(passed));
            low = low.wrapping_add(mix(one));
            high = high.wrapping_add(mix(one ^ 0xabcd_ef01_2345_6789));
        }
        Some(u128::from(high) << 64 | u128::from(low))
    }
}

/// Scrambles 64 bits: the finaliser of `SplitMix64` (Steele, Lea and Flood 2014).
pub(super) fn mix(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
