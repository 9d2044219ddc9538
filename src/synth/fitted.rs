//! A workload fitted to a recording: what it asked for, for how long, and when.
//!
//! It imitates the recorded program, after Zorn and Grunwald ("Evaluating Models of Memory
//! Allocation", ACM TOMACS 4, 1994), who found that a synthetic trace predicts how an
//! allocator fares only where sizes and lifetimes are drawn together and change with the
//! program's phases. `vramlab trace synth-from` makes the file.
//!
//! A pass goes through the windows of the recording in order. A window deals its cards:
//! so many requests of each kind, a kind being a narrow range of sizes with a narrow range
//! of lifetimes, between its first and its last place in the window. The seed decides the
//! places (the cards of a kind are spread evenly, each anywhere in its share of the range),
//! and size and lifetime within the kind. At the end of a pass everything is given back, and the next pass begins.

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::dues::Dues;
use super::pen::{Held, Pen, Stage};
use crate::trace::StreamId;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// How many streams there are.
    pub streams: u16,
    /// The labels of marks.
    pub labels: Vec<String>,
    /// The windows in order.
    pub windows: Vec<Window>,
}

/// A stretch of the recording in which nothing is told apart but kinds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The label of the mark at its beginning, where a phase begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// The time from request to request, ns.
    pub pause_ns: u64,
    /// How many requests of which kind.
    pub kinds: Vec<Kind>,
}

/// Requests that are alike; in TOML a row of eight numbers in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "[u64; 8]", into = "[u64; 8]")]
pub struct Kind {
    /// How many there are in the window.
    pub count: u64,
    /// The stream.
    pub stream: u64,
    /// The smallest.
    pub smallest_bytes: u64,
    /// The largest.
    pub largest_bytes: u64,
    /// The shortest lifetime, in requests made meanwhile; 0 with `longest` 0: it stays
    /// to the end of the pass.
    pub shortest: u64,
    /// The longest lifetime.
    pub longest: u64,
    /// Its first place in the window, from 0.
    pub first: u64,
    /// Its last place in the window.
    pub last: u64,
}

impl From<[u64; 8]> for Kind {
    fn from(row: [u64; 8]) -> Self {
        let [
            count,
            stream,
            smallest_bytes,
            largest_bytes,
            shortest,
            longest,
            first,
            last,
        ] = row;
        Kind {
            count,
            stream,
            smallest_bytes,
            largest_bytes,
            shortest,
            longest,
            first,
            last,
        }
    }
}

impl From<Kind> for [u64; 8] {
    fn from(kind: Kind) -> Self {
        [
            kind.count,
            kind.stream,
            kind.smallest_bytes,
            kind.largest_bytes,
            kind.shortest,
            kind.longest,
            kind.first,
            kind.last,
        ]
    }
}

/// A window never deals more cards: they are held while it lasts.
const MOST_CARDS: u64 = 1 << 24;
/// Parts of a place, as bits.
const PLACE_BITS: u32 = 24;

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            streams: self.streams,
            labels: self.labels.clone(),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.windows.iter().all(|window| window.kinds.is_empty()) {
            return Err("windows: at least one with a kind of request is needed".into());
        }
        for (at, window) in self.windows.iter().enumerate() {
            let told = |what: &str| Err(format!("window {at}: {what}"));
            let labels = self.labels.len() as u32;
            if window.mark.is_some_and(|mark| mark >= labels) {
                return told("its mark is not in labels");
            }
            let cards = window.kinds.iter().map(|kind| kind.count);
            if cards.fold(0, u64::saturating_add) > MOST_CARDS {
                return told("more than 16777216 requests; cut it in several windows");
            }
            for kind in &window.kinds {
                if kind.stream >= u64::from(self.streams) {
                    return told("a kind's stream is not below streams");
                }
                let sizes = kind.smallest_bytes <= kind.largest_bytes;
                let both_zero = kind.smallest_bytes == 0 && kind.largest_bytes > 0;
                let ordered = kind.shortest <= kind.longest && kind.first <= kind.last;
                if !sizes || both_zero || !ordered || kind.last > MOST_CARDS {
                    return told(
                        "a kind is [count, stream, smallest, largest, shortest, longest, first, last]",
                    );
                }
            }
        }
        Ok(())
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut dice = Dice::new("fitted", seed);
        let (mut mortal, mut lasting): (Dues<Held>, Vec<Held>) = Default::default();
        let mut requests = 0;
        while !pen.done() {
            for window in &self.windows {
                if let Some(mark) = window.mark {
                    pen.mark(mark);
                }
                for kind in dealt(window, &mut dice) {
                    if pen.done() {
                        return;
                    }
                    while let Some(held) = mortal.due(requests) {
                        pen.free(held);
                    }
                    let held = pen.alloc(size(kind, &mut dice), kind.stream as StreamId, 0);
                    match kind.longest {
                        0 => lasting.push(held),
                        _ => {
                            let life = dice.between(kind.shortest.max(1), kind.longest);
                            mortal.add(requests + life, held);
                        }
                    }
                    requests += 1;
                    pen.wait_ns(window.pause_ns);
                }
            }
            while let Some((_, held)) = mortal.pop() {
                pen.free(held);
            }
            for held in lasting.drain(..) {
                pen.free(held);
            }
        }
    }
}

/// The cards of a window in the order of their places; of equal places the dice decide.
fn dealt<'w>(window: &'w Window, dice: &mut Dice) -> Vec<&'w Kind> {
    let mut cards = Vec::new();
    for kind in &window.kinds {
        // In parts of a place, so that a share of a short range is a range too.
        let range = (kind.last - kind.first + 1) << PLACE_BITS;
        for card in 0..kind.count {
            let from = u128::from(range) * u128::from(card) / u128::from(kind.count);
            let to = u128::from(range) * u128::from(card + 1) / u128::from(kind.count);
            let within = dice.between(from as u64, (to as u64 - 1).max(from as u64));
            cards.push(((kind.first << PLACE_BITS) + within, kind));
        }
    }
    cards.sort_by_key(|(place, _)| *place);
    cards.into_iter().map(|(_, kind)| kind).collect()
}

/// A size of the kind, in bytes.
fn size(kind: &Kind, dice: &mut Dice) -> u64 {
    if kind.largest_bytes == 0 {
        return 0;
    }
    dice.log_uniform(kind.smallest_bytes, kind.largest_bytes)
}
