//! What follows without a decision, and which decision comes next.
//!
//! Sections at one floor between higher ones are a *valley*. A packing in which no buffer
//! can sink tells for each section of a valley which buffer rests on its floor, or that
//! none does, and valleys may be asked in any order. Where none rests on any section of a
//! valley, the next buffer reaches over its rim: the floor is lifted to the lower side.

use std::ops::Range;

use super::state::{Choice, Culprit, Ground, State, WALL, hull};
use crate::bound::packing::Buffer;

/// Choices are compared by options for a blame, in this unit.
const UNIT: u64 = 1_000_000;

/// Sections at one floor between higher ones.
struct Valley {
    run: Range<usize>,
    floor: u64,
    /// The lower one of its sides.
    side: u64,
    /// The run and its neighbours within the part.
    around: Culprit,
}

impl State<'_> {
    /// Bars and lifts what must be, and chooses where the fewest options are left for the
    /// blame; of equal ones the first.
    pub fn settle(&mut self, part: &Range<usize>) -> Result<Choice, Culprit> {
        'lifted: loop {
            let mut best: Option<(u64, Choice)> = None;
            let mut from = part.start;
            while from < part.end {
                let floor = self.ground[from].floor;
                let same = self.ground[from..part.end].iter();
                let run = from..from + same.take_while(|it| it.floor == floor).count();
                from = run.end;
                let Some(valley) = self.valley(run, part) else {
                    continue;
                };
                match self.count(&valley.run) {
                    None => {
                        self.lift(&valley)?;
                        continue 'lifted;
                    }
                    Some(least_bytes) => self.choose(&valley, least_bytes, &mut best)?,
                }
            }
            let (_, mut choice) = best.expect("something is left, so there is a lowest valley");
            let live = self.sections.live(choice.at).iter().copied();
            choice.options = live.filter(|at| self.rests(*at, &choice.run)).collect();
            let rank = |at: &u32| self.rank[*at as usize];
            choice.options.sort_unstable_by_key(rank);
            return Ok(choice);
        }
    }

    /// A run of sections at one floor, if both sides are higher.
    fn valley(&self, run: Range<usize>, part: &Range<usize>) -> Option<Valley> {
        let floor = self.ground[run.start].floor;
        let around = run.start.saturating_sub(1).max(part.start)..(run.end + 1).min(part.end);
        let sides = (around.start..run.start).chain(run.end..around.end);
        let side = sides.map(|at| self.ground[at].floor).min().unwrap_or(WALL);
        let side = side.max(floor);
        let is_lower = (around.start..around.end).any(|at| self.ground[at].floor < floor);
        (floor != WALL && !is_lower).then_some(Valley {
            run,
            floor,
            side,
            around,
        })
    }

    /// Whether a buffer may rest on the floor of a run: nowhere barred, somewhere upon
    /// another buffer, and before its later twins.
    fn rests(&self, at: u32, run: &Range<usize>) -> bool {
        let number = at as usize;
        let span = self.sections.span(number);
        if self.placed[number]
            || span.start < run.start
            || span.end > run.end
            || self.has_twin_before(number)
        {
            return false;
        }
        let ground = &self.ground[span];
        ground.iter().all(|it| !it.is_barred)
            && ground.iter().any(|it| it.base == it.floor)
            && !self.is_passed(number, ground[0].floor)
    }

    /// Counts the buffers that may rest on each section of a run; the bytes of the
    /// smallest one, if there is any.
    fn count(&mut self, run: &Range<usize>) -> Option<u64> {
        self.counts[run.start..=run.end].fill(0);
        let mut least_bytes: Option<u64> = None;
        for section in run.clone() {
            if self.ground[section].is_barred {
                continue;
            }
            for at in self.sections.starts(section) {
                if self.rests(*at, run) {
                    let bytes = self.buffers[*at as usize].bytes;
                    least_bytes = Some(least_bytes.map_or(bytes, |least| least.min(bytes)));
                    let span = self.sections.span(*at as usize);
                    self.counts[span.start] += 1;
                    self.counts[span.end] -= 1;
                }
            }
        }
        least_bytes
    }

    /// Bars the sections of a valley on which nothing can rest, and compares the others
    /// with the best choice so far.
    fn choose(
        &mut self,
        valley: &Valley,
        least_bytes: u64,
        best: &mut Option<(u64, Choice)>,
    ) -> Result<(), Culprit> {
        let lift_bytes = least_bytes.min(valley.side - valley.floor);
        let mut count = 0;
        for at in valley.run.clone() {
            count += self.counts[at];
            if self.ground[at].is_barred {
                continue;
            }
            // A barred section loses what it is lifted by at least.
            let slack_bytes = self.height_bytes - valley.floor - self.rest_bytes[at];
            let may_bar = slack_bytes >= lift_bytes;
            if count == 0 && may_bar {
                self.bar(at);
                self.because(at..at + 1, self.meeting(at));
                continue;
            }
            if count == 0 {
                self.blame[at] += 1;
                return Err(hull(&self.meeting(at), &valley.around));
            }
            let options = count.unsigned_abs() + u64::from(may_bar);
            let score = match options {
                1 => 0,
                _ => options * UNIT / self.blame[at],
            };
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                let choice = Choice {
                    at,
                    run: valley.run.clone(),
                    options: Vec::new(),
                    may_bar,
                    culprit: hull(&self.meeting(at), &valley.around),
                };
                *best = Some((score, choice));
            }
        }
        Ok(())
    }

    /// Nothing rests on a valley: lifts it to its lower side. A buffer that would fit into
    /// the gap must not be left, as it could sink into it.
    fn lift(&mut self, valley: &Valley) -> Result<(), Culprit> {
        let Valley { run, side, .. } = valley;
        for at in run.clone() {
            if side.saturating_add(self.rest_bytes[at]) > self.height_bytes {
                self.blame[at] += 1;
                return Err(hull(&self.meeting(at), &valley.around));
            }
            for it in self.sections.starts(at) {
                let number = *it as usize;
                let span = self.sections.span(number);
                if self.placed[number] || span.end > run.end {
                    continue;
                }
                let Buffer { bytes, align, .. } = self.buffers[number];
                let bases = self.ground[span].iter().map(|it| it.base);
                let base = bases.max().unwrap_or(0).next_multiple_of(align);
                if base + bytes <= *side {
                    return Err(valley.around.clone());
                }
            }
        }
        for at in run.clone() {
            let ground = Ground {
                floor: *side,
                is_barred: false,
                ..self.ground[at]
            };
            self.set(at, ground);
        }
        self.because(run.clone(), valley.around.clone());
        self.raise(run.clone(), *side)
    }
}
