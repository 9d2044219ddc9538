//! What is placed so far, what follows from it, and how to take it back.

use std::ops::Range;

use super::mix;
use super::sections::Sections;
use crate::bound::packing::Buffer;

/// The floor of a section in which nothing is left to be placed: a wall.
pub(super) const WALL: u64 = u64::MAX;

/// What does not work, as the sections in which it lies.
pub(super) type Culprit = Range<usize>;

/// How far a section is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ground {
    /// The next buffer lies here or higher.
    pub floor: u64,
    /// The end of the highest placed buffer.
    pub base: u64,
    /// The next buffer does not rest on this floor.
    pub is_barred: bool,
}

const EMPTY: Ground = Ground {
    floor: 0,
    base: 0,
    is_barred: false,
};

/// One change, so that it can be taken back: what was there before.
#[derive(Debug, Clone)]
enum Change {
    Placed(u32),
    Ground(u32, Ground),
    Bound(u32, u64),
    Last(u32, (u64, u32)),
    /// The grounds of the first sections followed from those of the second ones.
    Because(Range<usize>, Culprit),
}

/// What is decided next.
#[derive(Debug)]
pub(super) struct Choice {
    /// In which section.
    pub at: usize,
    /// The sections at its floor between higher ones.
    pub run: Range<usize>,
    /// The buffers that may rest on the floor there, in the order of their ranks.
    pub options: Vec<u32>,
    /// Whether the next buffer may lie higher.
    pub may_bar: bool,
    /// What the options depend on.
    pub culprit: Culprit,
}

/// The state of a search.
pub(super) struct State<'a> {
    pub buffers: &'a [Buffer],
    pub sections: &'a Sections,
    pub height_bytes: u64,
    /// Which buffer is tried first.
    pub rank: Vec<u32>,
    pub ground: Vec<Ground>,
    /// What the offset of a buffer cannot fall below any more.
    bound: Vec<u64>,
    /// The offsets of those that are placed.
    pub offsets: Vec<u64>,
    pub placed: Vec<bool>,
    /// Bytes that are still to be placed in each section.
    pub rest_bytes: Vec<u64>,
    /// Unplaced buffers that reach over the border before each section.
    crossing: Vec<u32>,
    /// How many twins of a buffer rank before it.
    turn: Vec<u32>,
    /// How many of those that are twins of the first are placed.
    gone: Vec<u32>,
    /// End and rank of the buffer of each group that was placed last.
    last: Vec<(u64, u32)>,
    /// How often each section was the one that did not work out; never 0.
    pub blame: Vec<u64>,
    log: Vec<Change>,
    /// Scratch: earliest offsets and bytes within a section.
    releases: Vec<(u64, u64)>,
    /// Scratch: differences of counts from section to section.
    pub counts: Vec<i64>,
}

/// The sections from the first to the last of two ranges.
pub(super) fn hull(one: &Range<usize>, two: &Range<usize>) -> Range<usize> {
    one.start.min(two.start)..one.end.max(two.end)
}

impl<'a> State<'a> {
    pub fn new(buffers: &'a [Buffer], sections: &'a Sections) -> Self {
        State {
            buffers,
            sections,
            height_bytes: 0,
            rank: vec![0; buffers.len()],
            ground: vec![EMPTY; sections.len()],
            bound: vec![0; buffers.len()],
            offsets: vec![0; buffers.len()],
            placed: vec![false; buffers.len()],
            rest_bytes: vec![0; sections.len()],
            crossing: vec![0; sections.len()],
            turn: vec![0; buffers.len()],
            gone: vec![0; buffers.len()],
            last: vec![(WALL, 0); buffers.len()],
            blame: vec![1; sections.len()],
            log: Vec::new(),
            releases: Vec::new(),
            counts: vec![0; sections.len() + 1],
        }
    }

    /// Nothing is placed.
    pub fn reset(&mut self, order: &[u32], height_bytes: u64) {
        self.gone.fill(0);
        for (rank, at) in order.iter().enumerate() {
            let number = *at as usize;
            self.rank[number] = rank as u32;
            let before = &mut self.gone[self.sections.twin[number] as usize];
            self.turn[number] = *before;
            *before += 1;
        }
        self.gone.fill(0);
        self.height_bytes = height_bytes;
        self.log.clear();
        self.ground.fill(EMPTY);
        self.bound.fill(0);
        self.placed.fill(false);
        self.last.fill((WALL, 0));
        self.rest_bytes.copy_from_slice(&self.sections.load_bytes);
        self.crossing.fill(0);
        for number in 0..self.buffers.len() {
            for border in self.sections.span(number).skip(1) {
                self.crossing[border] += 1;
            }
        }
    }

    /// The parts of a range that unplaced buffers do not join.
    pub fn parts(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let (mut parts, mut from) = (Vec::new(), range.start);
        for at in range.start + 1..=range.end {
            if at == range.end || self.crossing[at] == 0 {
                if self.rest_bytes[from..at].iter().any(|rest| *rest > 0) {
                    parts.push(from..at);
                }
                from = at;
            }
        }
        parts
    }

    /// The sections of the unplaced buffers of one section.
    pub fn meeting(&self, section: usize) -> Culprit {
        let live = self.sections.live(section).iter().map(|at| *at as usize);
        live.filter(|at| !self.placed[*at])
            .fold(section..section + 1, |all, at| {
                hull(&all, &self.sections.span(at))
            })
    }

    /// Whether a buffer would lie right upon one of its group that ranks behind it. The
    /// two could change places: one order of such neighbours is enough.
    pub fn is_passed(&self, number: usize, floor: u64) -> bool {
        let (end, rank) = self.last[self.sections.group[number] as usize];
        end == floor && self.rank[number] < rank
    }

    /// Whether a buffer has a twin that ranks before it and is not placed yet. Twins lie in the
    /// order of their ranks: any two of them could change places.
    pub fn has_twin_before(&self, number: usize) -> bool {
        self.turn[number] != self.gone[self.sections.twin[number] as usize]
    }

    /// Places a buffer on the floor of its sections, which is the same in all of them.
    pub fn place(&mut self, at: u32) -> Result<(), Culprit> {
        let number = at as usize;
        let Buffer { bytes, align, .. } = self.buffers[number];
        let span = self.sections.span(number);
        let offset = self.ground[span.start].floor.next_multiple_of(align);
        let end = offset + bytes;
        self.placed[number] = true;
        self.offsets[number] = offset;
        self.log.push(Change::Placed(at));
        self.gone[self.sections.twin[number] as usize] += 1;
        let group = self.sections.group[number];
        self.log
            .push(Change::Last(group, self.last[group as usize]));
        self.last[group as usize] = (end, self.rank[number]);
        for section in span.clone() {
            if section > span.start {
                self.crossing[section] -= 1;
            }
            self.rest_bytes[section] -= bytes;
            let is_full = self.rest_bytes[section] == 0;
            let ground = Ground {
                floor: if is_full { WALL } else { end },
                base: end,
                is_barred: false,
            };
            self.set(section, ground);
        }
        if end > self.height_bytes {
            return Err(span);
        }
        self.raise(span, end)
    }

    /// Decides that the next buffer of a section does not rest on its floor.
    pub fn bar(&mut self, section: usize) {
        let ground = self.ground[section];
        self.set(
            section,
            Ground {
                is_barred: true,
                ..ground
            },
        );
    }

    pub fn set(&mut self, section: usize, ground: Ground) {
        let old = std::mem::replace(&mut self.ground[section], ground);
        self.log.push(Change::Ground(section as u32, old));
    }

    /// The floors of these sections rose: buffers cannot lie below any more.
    pub fn raise(&mut self, run: Range<usize>, floor: u64) -> Result<(), Culprit> {
        let sections = self.sections;
        let mut all = run.clone();
        for at in run.flat_map(|section| sections.live(section)) {
            let number = *at as usize;
            if self.placed[number] || self.bound[number] >= floor {
                continue;
            }
            let bound = floor.next_multiple_of(self.buffers[number].align);
            let old = std::mem::replace(&mut self.bound[number], bound);
            self.log.push(Change::Bound(*at, old));
            all = hull(&all, &sections.span(number));
        }
        self.check(all)
    }

    /// Whether the sections can still hold their rests: within each, buffers stacked by
    /// their earliest offsets must end below the height.
    fn check(&mut self, range: Range<usize>) -> Result<(), Culprit> {
        let sections = self.sections;
        for section in range {
            let rest = self.rest_bytes[section];
            if rest == 0 {
                continue;
            }
            let live = sections.live(section).iter().map(|at| *at as usize);
            let left = live.filter(|at| !self.placed[*at]);
            let bounds = left.map(|at| self.bound[at]);
            let (least, most) = bounds.fold((u64::MAX, 0), |(least, most), bound| {
                (least.min(bound), most.max(bound))
            });
            let fits = least + rest <= self.height_bytes
                && (most + rest <= self.height_bytes || self.stacks(section));
            if !fits {
                self.blame[section] += 1;
                return Err(self.meeting(section));
            }
        }
        Ok(())
    }

    /// Whether the rest of a section can be stacked from its earliest offsets.
    fn stacks(&mut self, section: usize) -> bool {
        let live = self.sections.live(section).iter().map(|at| *at as usize);
        let left = live.filter(|at| !self.placed[*at]);
        let releases = left.map(|at| (self.bound[at], self.buffers[at].bytes));
        self.releases.clear();
        self.releases.extend(releases);
        self.releases.sort_unstable();
        let top = |top: u64, (from, bytes): &(u64, u64)| top.max(*from) + bytes;
        self.releases.iter().fold(0, top) <= self.height_bytes
    }

    /// A point to go back to.
    pub fn mark(&self) -> usize {
        self.log.len()
    }

    /// Whether anything changed in these sections since the mark.
    pub fn has_changed(&self, mark: usize, sections: &Range<usize>) -> bool {
        self.log[mark..].iter().any(|change| match change {
            Change::Ground(at, _) => sections.contains(&(*at as usize)),
            _ => false,
        })
    }

    /// Notes why the grounds of some sections are as they are.
    pub fn because(&mut self, sections: Range<usize>, of: Culprit) {
        self.log.push(Change::Because(sections, of));
    }

    /// The culprit as it was at the mark: with all that led to the grounds of its sections
    /// without a decision.
    pub fn traced(&self, mark: usize, mut culprit: Culprit) -> Culprit {
        let mut before = 0..0;
        while before != culprit {
            before = culprit.clone();
            for change in self.log[mark..].iter().rev() {
                if let Change::Because(what, of) = change
                    && what.start < culprit.end
                    && culprit.start < what.end
                {
                    culprit = hull(&culprit, of);
                }
            }
        }
        culprit
    }

    /// Takes everything back since the mark.
    pub fn undo(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop().expect("the log is longer than the mark") {
                Change::Ground(at, old) => self.ground[at as usize] = old,
                Change::Bound(at, old) => self.bound[at as usize] = old,
                Change::Last(at, old) => self.last[at as usize] = old,
                Change::Because(..) => {}
                Change::Placed(at) => {
                    let number = at as usize;
                    self.placed[number] = false;
                    self.gone[self.sections.twin[number] as usize] -= 1;
                    let span = self.sections.span(number);
                    for section in span.clone() {
                        if section > span.start {
                            self.crossing[section] += 1;
                        }
                        self.rest_bytes[section] += self.buffers[number].bytes;
                    }
                }
            }
        }
    }

    /// What the rest of a search depends on, as a hash of 128 bits: how far the sections
    /// of a part are filled, which buffers are left, and which of them have been passed.
    pub fn key(&self, part: &Range<usize>) -> u128 {
        let (mut low, mut high) = (0u64, 0u64);
        let mut add = |what: u64, of: u64| {
            let one = mix(what.wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ of;
            low = low.wrapping_add(mix(one));
            high = high.wrapping_add(mix(one ^ 0xabcd_ef01_2345_6789));
        };
        for section in part.clone() {
            let ground = &self.ground[section];
            if ground.floor == WALL {
                continue;
            }
            let name = (section as u64) << 2;
            add(ground.floor << 1 | u64::from(ground.is_barred), name | 1);
            add(ground.base, name | 2);
            for at in self.sections.starts(section) {
                if !self.placed[*at as usize] {
                    let passed = self.is_passed(*at as usize, ground.floor);
                    add(u64::from(passed), u64::from(*at) << 2);
                }
            }
        }
        u128::from(high) << 64 | u128::from(low)
    }
}
