//! Stream hazards: requests served from memory that a stream may still use.
//!
//! A blind policy leaves the order of streams to others. This observer keeps that order
//! beside it: every freed range stays behind the position of the stream that freed it,
//! and behind the streams that were told to use it; a deferred one until its `Complete`.
//! A request that is served from such a range by a stream that has not passed the
//! position is one hazard, however many ranges it touches. A range that was handed out
//! in spite of it keeps what it was behind.
//!
//! Ordering points are the trace's events and what waits for the whole device: a stall
//! of the policy, a segment that goes back to the driver (cudaFree waits), a move, a free
//! of a raw address.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::replay::{Moment, Observer, Outcome};
use crate::space::{Clocks, Tag};
use crate::trace::{ANY_STREAM, Event, Slot, StreamId};

/// Hazards kept in full.
const KEEP: usize = 100;

/// One hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Hazard {
    /// Number of the event whose request was served.
    pub event: u64,
    /// Address that it got.
    pub address: u64,
    /// Bytes of its block.
    pub bytes: u64,
    /// Its stream, as the trace numbers it.
    pub stream: StreamId,
    /// A stream that may still use the range; `None` where that is a deferred free that
    /// has not completed.
    pub behind: Option<StreamId>,
}

/// Counts hazards and keeps the first ones.
#[derive(Debug, Clone)]
pub struct Hazards {
    clocks: Clocks,
    /// Ranges by their first address; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
    /// Streams that were told to use a slot.
    uses: BTreeMap<Slot, Vec<StreamId>>,
    /// Range of each deferred free that has not completed.
    deferred: BTreeMap<Slot, (u64, u64)>,
    device_waits: u64,
    count: u64,
    first: Vec<Hazard>,
}

/// A range up to `end` and what it is behind.
#[derive(Debug, Clone)]
struct Piece {
    end: u64,
    holds: Vec<Hold>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Until the position is passed.
    Behind(Tag),
    /// Until the slot's deferred free completes.
    Until(Slot),
}

impl Hazards {
    /// `None` where there can be no hazard: a single stream, or a policy that orders
    /// streams itself, whose Space refuses such a reuse.
    #[must_use]
    pub fn new(streams: usize, blind: bool) -> Option<Self> {
        (streams > 1 && blind).then(|| Hazards {
            clocks: Clocks::new(streams),
            pieces: BTreeMap::new(),
            uses: BTreeMap::new(),
            deferred: BTreeMap::new(),
            device_waits: 0,
            count: 0,
            first: Vec::new(),
        })
    }

    /// How many requests were served too early.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first ones, in order.
    #[must_use]
    pub fn first(&self) -> &[Hazard] {
        &self.first
    }

    fn serve(&mut self, event: u64, address: u64, bytes: u64, stream: StreamId) {
        let end = address + bytes;
        self.cut(address);
        self.cut(end);
        let (clocks, mut early) = (&self.clocks, None);
        let mut empty = Vec::new();
        for (base, piece) in self.pieces.range_mut(address..end) {
            piece.holds.retain(|hold| match hold {
                Hold::Behind(tag) => !clocks.passed(*tag, stream),
                Hold::Until(_) => true,
            });
            match piece.holds.first() {
                None => empty.push(*base),
                Some(hold) => early = early.or(Some(*hold)),
            }
        }
        for base in empty {
            self.pieces.remove(&base);
        }
        let Some(hold) = early else {
            return;
        };
        self.count += 1;
        if self.first.len() < KEEP {
            self.first.push(Hazard {
                event,
                address,
                bytes,
                stream,
                behind: match hold {
                    Hold::Behind(tag) => Some(tag.stream),
                    Hold::Until(_) => None,
                },
            });
        }
    }

    fn free(&mut self, address: u64, bytes: u64, holds: &[Hold]) {
        let end = address + bytes;
        self.cut(address);
        self.cut(end);
        let mut gaps = Vec::new();
        let mut at = address;
        for (base, piece) in self.pieces.range_mut(address..end) {
            piece.holds.extend_from_slice(holds);
            if at < *base {
                gaps.push((at, *base));
            }
            at = piece.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        for (base, end) in gaps {
            let holds = holds.to_vec();
            self.pieces.insert(base, Piece { end, holds });
        }
    }

    /// Cuts the range that holds `address`, so that one begins there.
    fn cut(&mut self, address: u64) {
        if let Some((_, piece)) = self.pieces.range_mut(..address).next_back()
            && piece.end > address
        {
            let upper = piece.clone();
            piece.end = address;
            self.pieces.insert(address, upper);
        }
    }

    fn free_slot(&mut self, slot: Slot, stream: StreamId, deferred: bool, at: (u64, u64)) {
        let mut holds = vec![Hold::Behind(self.clocks.present(stream))];
        for user in self.uses.remove(&slot).unwrap_or_default() {
            holds.push(Hold::Behind(self.clocks.present(user)));
        }
        if deferred {
            holds.push(Hold::Until(slot));
            self.deferred.insert(slot, at);
        }
        self.free(at.0, at.1, &holds);
    }

    fn complete(&mut self, slot: Slot) {
        let Some((address, bytes)) = self.deferred.remove(&slot) else {
            return;
        };
        for (_, piece) in self.pieces.range_mut(address..address + bytes) {
            piece.holds.retain(|hold| *hold != Hold::Until(slot));
        }
    }

    /// The whole device was waited for: nothing uses anything that was freed.
    fn settle(&mut self) {
        self.clocks.sync(ANY_STREAM);
        self.pieces.clear();
        self.deferred.clear();
    }

    /// Whether the policy waited for the device during the event.
    fn waited(&mut self, moment: &Moment<'_>) -> bool {
        let counters = moment.space.counters();
        let waits = counters.stalls + counters.segments_given_back + counters.moves;
        std::mem::replace(&mut self.device_waits, waits) != waits
    }

    /// A request was served; what the policy waited for came before.
    fn request(&mut self, moment: &Moment<'_>, stream: StreamId) {
        match moment.outcome {
            Outcome::Served(block) => {
                let space = moment.space;
                self.serve(moment.index, space.base(block), space.bytes(block), stream);
            }
            Outcome::ServedInstant { address, bytes } => {
                self.serve(moment.index, address, bytes, stream);
                let behind = Hold::Behind(self.clocks.present(stream));
                self.free(address, bytes, &[behind]);
            }
            _ => {}
        }
    }
}

impl Observer for Hazards {
    fn see(&mut self, moment: &Moment<'_>) {
        let waited = self.waited(moment);
        match *moment.event {
            Event::Alloc { stream, .. } | Event::Attempt { stream, .. } => {
                if waited {
                    self.settle();
                }
                self.request(moment, stream);
                return;
            }
            Event::Free {
                slot,
                stream,
                deferred,
            } => {
                if let Outcome::Freed { address, bytes, .. } = moment.outcome {
                    self.free_slot(slot, stream, deferred, (address, bytes));
                }
            }
            Event::FreeAt { .. } if matches!(moment.outcome, Outcome::Freed { .. }) => {
                self.settle();
            }
            Event::Use { slot, stream } if stream != ANY_STREAM => {
                let users = self.uses.entry(slot).or_default();
                if !users.contains(&stream) {
                    users.push(stream);
                }
            }
            Event::Complete { slot } => self.complete(slot),
            Event::Record { stream, event } => self.clocks.record(stream, event),
            Event::Wait { stream, event } => self.clocks.wait_event(stream, event),
            Event::Sync { stream: ANY_STREAM } => self.settle(),
            Event::Sync { stream } => self.clocks.sync(stream),
            _ => {}
        }
        if waited {
            self.settle();
        }
    }
}

#[cfg(test)]
mod tests;
