//! The smallest trace that still shows something: for bug reports and for papers.
//!
//! Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input"
//! (2002): delta debugging. Chunks of what is left are taken away, half as large from round
//! to round, down to single ones, until none can go. First allocations with all their
//! events, then single other events (ends of allocations, uses, marks, ordering points),
//! then sizes: halved, then bisected to a round number. All of it again until nothing
//! changes. The capacity stays that of the original.
//!
//! Several candidates are judged beside each other, and the first in order that holds is
//! taken: the result does not depend on the number of threads, nor do the counts.
//!
//! Facts of a recording: where `diverges` is asked they are kept with their events, sizes
//! stay as they are, and the model must leave the recording at the same event in the same
//! way, having met every fact before it that is left. No allocator has run the smaller
//! trace; its facts are those of the original. Otherwise facts are left out where the trace
//! shows the same without them, as they are no longer what happened.

pub mod draft;
pub mod judge;
pub mod keep;

use rayon::prelude::*;

use crate::trace::{Event, Trace};
use draft::{Draft, Piece};
use judge::{Judge, Verdict};

/// So many candidates are judged beside each other at most; a number of its own, so that
/// counts do not depend on the machine.
const MOST_ABREAST: usize = 16;
/// Sizes end on multiples of the largest power of two that is not above this part of them.
const GRAIN: u64 = 128;

/// What is being done, for whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Events that are left.
    pub events: usize,
    /// Candidates judged so far.
    pub candidates: u64,
    /// What is tried.
    pub phase: &'static str,
}

/// What it took, and whether it came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Effort {
    /// Candidates judged.
    pub candidates: u64,
    /// Replays that they took.
    pub replays: u64,
    /// Times that everything was tried.
    pub rounds: u64,
    /// Whether nothing more can go; else the most candidates were reached.
    pub minimal: bool,
}

/// A trace that got smaller.
#[derive(Debug)]
pub struct Shrunk {
    /// The draft; [`Draft::finish`] makes a trace of it.
    pub draft: Draft,
    /// What it took.
    pub effort: Effort,
}

/// Shrinks a trace as long as `judge` says that it shows what is to be kept, which the
/// original must. `with_facts` says whether recorded facts are asked for, `most_candidates`
/// when to stop before the end.
#[must_use]
pub fn shrink(
    original: &Trace,
    judge: &Judge<'_>,
    with_facts: bool,
    most_candidates: Option<u64>,
    progress: &dyn Fn(Status),
) -> Shrunk {
    let mut shrinker = Shrinker {
        judge,
        draft: Draft::of(original, true),
        effort: Effort::default(),
        most: most_candidates.unwrap_or(u64::MAX),
        progress,
        phase: "",
    };
    if original.truth.is_some() && !with_facts {
        shrinker.try_one(Draft::of(original, false));
    }
    if let Some(last) = judge.decided_at(&shrinker.draft) {
        shrinker.try_one(shrinker.draft.up_to(last));
    }
    loop {
        shrinker.effort.rounds += 1;
        let mut smaller = shrinker.leave_out("allocations", Draft::allocations);
        smaller |= shrinker.leave_out("other events", Draft::others);
        smaller |= !with_facts && shrinker.sizes();
        if !smaller || shrinker.spent() {
            break;
        }
    }
    shrinker.effort.minimal = !shrinker.spent();
    Shrunk {
        draft: shrinker.draft,
        effort: shrinker.effort,
    }
}

struct Shrinker<'a> {
    judge: &'a Judge<'a>,
    draft: Draft,
    effort: Effort,
    most: u64,
    progress: &'a dyn Fn(Status),
    phase: &'static str,
}

impl Shrinker<'_> {
    fn spent(&self) -> bool {
        self.effort.candidates >= self.most
    }

    fn count(&mut self, verdict: Verdict) -> bool {
        self.effort.candidates += 1;
        self.effort.replays += verdict.replays;
        (self.progress)(Status {
            events: self.draft.trace.events.len(),
            candidates: self.effort.candidates,
            phase: self.phase,
        });
        verdict.holds
    }

    /// Takes a candidate if it holds.
    fn try_one(&mut self, candidate: Draft) -> bool {
        let holds = !self.spent() && self.count(self.judge.verdict(&candidate));
        if holds {
            self.draft = candidate;
        }
        holds
    }

    /// Leaves out pieces, in chunks from all down to single ones, until no single one can
    /// go. Whether anything went.
    fn leave_out(&mut self, phase: &'static str, split: fn(&Draft) -> Vec<Piece>) -> bool {
        self.phase = phase;
        let mut pieces = split(&self.draft);
        let mut size = pieces.len();
        let (mut any, mut smaller) = (false, false);
        while size > 0 && !pieces.is_empty() && !self.spent() {
            size = size.min(pieces.len());
            let mut from = 0;
            while let Some(at) = self.first_to_go(&pieces, from, size) {
                // What is left keeps its order: the pieces before stay, and have been tried.
                pieces = split(&self.draft);
                (from, smaller) = (at, true);
            }
            any |= smaller;
            size = match size {
                // Once more: what went may have made room for what stands before it.
                1 if smaller => 1,
                1 => 0,
                _ => size.div_ceil(2),
            };
            smaller = false;
        }
        any
    }

    /// Leaves out the first chunk from a place on that can go; where it stood.
    fn first_to_go(&mut self, pieces: &[Piece], from: usize, size: usize) -> Option<usize> {
        let starts: Vec<usize> = (from..pieces.len()).step_by(size).collect();
        let (mut at, mut abreast) = (0, 1);
        while at < starts.len() && !self.spent() {
            let batch = &starts[at..starts.len().min(at + abreast)];
            let judged: Vec<(Draft, Verdict)> = batch
                .par_iter()
                .map(|start| {
                    let chunk = &pieces[*start..pieces.len().min(start + size)];
                    let candidate = self.draft.without(chunk);
                    let verdict = self.judge.verdict(&candidate);
                    (candidate, verdict)
                })
                .collect();
            for (start, (candidate, verdict)) in batch.iter().zip(judged) {
                if self.count(verdict) {
                    self.draft = candidate;
                    return Some(*start);
                }
            }
            at += batch.len();
            abreast = MOST_ABREAST.min(abreast * 2);
        }
        None
    }

    /// Makes requests smaller, one by one, small ones first: those often matter least, and can
    /// go in the next round. Whether any became so.
    fn sizes(&mut self) -> bool {
        self.phase = "sizes";
        let mut any = false;
        let mut requests: Vec<(u64, usize)> = Vec::new();
        for (at, event) in self.draft.trace.events.iter().enumerate() {
            if let Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. } = *event {
                requests.push((bytes, at));
            }
        }
        requests.sort_unstable();
        for (bytes, event) in requests {
            if self.spent() {
                break;
            }
            any |= self.smaller_request(event, bytes);
        }
        any
    }

    /// Halves the bytes of a request as long as that holds, then looks for a round number
    /// between the last two.
    fn smaller_request(&mut self, event: usize, bytes: u64) -> bool {
        let mut least = bytes;
        let mut too_small = 0;
        while least > 1 {
            let half = round(least / 2);
            if !self.try_one(self.draft.resized(event, half)) {
                too_small = half;
                break;
            }
            least = half;
        }
        loop {
            let middle = round(too_small + (least - too_small) / 2);
            if middle <= too_small || middle >= least {
                break;
            }
            if self.try_one(self.draft.resized(event, middle)) {
                least = middle;
            } else {
                too_small = middle;
            }
        }
        least = self.rounder_request(event, least, too_small);
        least < bytes
    }

    /// The roundest bytes below the least that holds, if any between are as good.
    fn rounder_request(&mut self, event: usize, least: u64, too_small: u64) -> u64 {
        let mut size = grain(least);
        while size > 1 {
            let rounder = least - least % size;
            if rounder == least {
                return least;
            }
            if rounder > too_small && self.try_one(self.draft.resized(event, rounder)) {
                return rounder;
            }
            size /= 2;
        }
        least
    }
}

/// What sizes are multiples of: the largest power of two that is a small part of them.
fn grain(bytes: u64) -> u64 {
    1 << (bytes / GRAIN).checked_ilog2().unwrap_or(0)
}

/// Rounds down to a number of few digits in binary; 1 and more stays so.
fn round(bytes: u64) -> u64 {
    (bytes - bytes % grain(bytes)).max(1)
}
