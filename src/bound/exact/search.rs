//! One depth-first search: is there a packing of at most so many bytes?

use std::collections::HashSet;
use std::ops::Range;

use super::sections::Sections;
use super::state::{Choice, State, hull};
use crate::bound::packing::Buffer;

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// A packing was found.
    Found,
    /// There is none, already because of what lies within these sections.
    Impossible(Range<usize>),
    /// The budget was used up, or the time.
    GaveUp,
}

/// Failed states that are kept; 16 bytes each.
const MOST_SEEN: usize = 1 << 21;
/// Tries between two looks at the clock.
const LOOK: u64 = 256;
/// Decisions above one another; a search that goes deeper gives up.
const DEEPEST: u32 = 10_000;

/// A search, in one order after the other.
pub(super) struct Search<'a> {
    state: State<'a>,
    /// Hashes of the states that failed.
    seen: HashSet<u128>,
    /// Decisions tried so far, in all runs.
    pub tries: u64,
    last_try: u64,
    depth: u32,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Search<'a> {
    pub fn new(
        buffers: &'a [Buffer],
        sections: &'a Sections,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        Search {
            state: State::new(buffers, sections),
            seen: HashSet::new(),
            tries: 0,
            last_try: 0,
            depth: 0,
            stop,
        }
    }

    /// How often each section was the one that did not work out.
    pub fn blame(&mut self) -> &mut [u64] {
        &mut self.state.blame
    }

    /// Where the buffers are, after a packing was found.
    pub fn into_offsets(self) -> Vec<u64> {
        self.state.offsets
    }

    /// Searches for a packing of `height_bytes` with at most `tries` decisions; `order`
    /// ranks the buffers.
    pub fn run(&mut self, order: &[u32], height_bytes: u64, tries: u64) -> End {
        self.last_try = self.tries + tries;
        self.seen.clear();
        self.state.reset(order, height_bytes);
        if self
            .state
            .sections
            .load_bytes
            .iter()
            .any(|load| *load > height_bytes)
        {
            return End::Impossible(0..0);
        }
        self.parts(&(0..self.state.sections.len()))
    }

    /// What is left falls apart into parts that no buffer joins: each for itself, the
    /// smallest first.
    fn parts(&mut self, range: &Range<usize>) -> End {
        let mut parts = self.state.parts(range);
        parts.sort_by_key(ExactSizeIterator::len);
        for part in parts {
            let mark = self.state.mark();
            match self.part(&part) {
                End::Found => {}
                End::GaveUp => return End::GaveUp,
                End::Impossible(found) => {
                    let found = self.state.traced(mark, found);
                    self.state.undo(mark);
                    return End::Impossible(found);
                }
            }
        }
        End::Found
    }

    /// Packs what lies within one part.
    fn part(&mut self, part: &Range<usize>) -> End {
        let choice = match self.state.settle(part) {
            Ok(choice) => choice,
            Err(culprit) => return End::Impossible(culprit),
        };
        let key = self.state.key(part);
        if self.seen.contains(&key) {
            return End::Impossible(part.clone());
        }
        if self.depth == DEEPEST {
            return End::GaveUp;
        }
        self.depth += 1;
        let end = self.branch(part, choice);
        self.depth -= 1;
        if matches!(end, End::Impossible(_)) && self.seen.len() < MOST_SEEN {
            self.seen.insert(key);
        }
        end
    }

    /// Tries every buffer that may come next in the chosen section, and none at last. If
    /// what does not work lies where the last decision changed nothing, no other decision
    /// helps.
    fn branch(&mut self, part: &Range<usize>, choice: Choice) -> End {
        let mut culprit = choice.culprit;
        let options = choice.options.into_iter().map(Some);
        for option in options.chain(choice.may_bar.then_some(None)) {
            if self.tries >= self.last_try || (self.tries.is_multiple_of(LOOK) && (self.stop)()) {
                return End::GaveUp;
            }
            self.tries += 1;
            let mark = self.state.mark();
            let worked = match option {
                Some(at) => self.state.place(at),
                None => {
                    self.state.bar(choice.at);
                    Ok(())
                }
            };
            let end = match worked {
                Ok(()) => self.parts(part),
                Err(found) => End::Impossible(found),
            };
            let End::Impossible(found) = end else {
                return end;
            };
            let is_concerned = self.state.has_changed(mark, &found);
            self.state.undo(mark);
            if !is_concerned {
                return End::Impossible(found);
            }
            culprit = hull(&culprit, &found);
        }
        self.state.blame[choice.at] += 1;
        End::Impossible(culprit)
    }
}
