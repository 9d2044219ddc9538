//! Positions of streams, and which of them each stream and the host have seen.
//!
//! Positions that a stream has seen form a vector clock (Mattern 1989), carried by
//! events. The Space keeps one for policies that order streams; the observer of hazards
//! keeps one for those that do not. A position ends when somebody notes it: what happens
//! between two such points has equal tags, since nobody could ever wait for one of them
//! and not for the other.

use std::collections::HashMap;

use super::Tag;
use crate::trace::{ANY_STREAM, StreamId};

/// One vector clock a stream, and one for the host.
#[derive(Debug, Clone)]
pub struct Clocks {
    position: Vec<u64>,
    settled: Vec<u64>,
    seen: Vec<Vec<u64>>,
    events: HashMap<u32, Vec<u64>>,
}

impl Clocks {
    /// Clocks of so many streams, all at position 1, of which nobody has seen any.
    #[must_use]
    pub fn new(streams: usize) -> Self {
        Clocks {
            position: vec![1; streams],
            settled: vec![0; streams],
            seen: vec![Vec::new(); streams],
            events: HashMap::new(),
        }
    }

    /// The stream's present position.
    #[must_use]
    pub fn present(&self, stream: StreamId) -> Tag {
        let seq = self.position[usize::from(stream)];
        Tag { stream, seq }
    }

    /// How many streams there are.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.position.len()
    }

    /// Whether the host has waited for the position, so that every stream is behind it.
    #[must_use]
    pub fn settled(&self, tag: Tag) -> bool {
        tag.seq <= self.settled[usize::from(tag.stream)]
    }

    /// Whether `stream` comes after the position: its own, settled, or waited for.
    #[must_use]
    pub fn passed(&self, tag: Tag, stream: StreamId) -> bool {
        tag.stream == stream || self.settled(tag) || tag.seq <= self.seen_of(stream, tag.stream)
    }

    /// The position of `of` that `stream` has seen; 0 where it has seen none.
    fn seen_of(&self, stream: StreamId, of: StreamId) -> u64 {
        let row = &self.seen[usize::from(stream)];
        row.get(usize::from(of)).copied().unwrap_or(0)
    }

    /// `event` notes the present position of `stream`.
    pub fn record(&mut self, stream: StreamId, event: u32) {
        let clock = self.clock(stream);
        self.events.insert(event, clock);
    }

    /// `stream` goes on only after the position noted under `event`; an event that was
    /// never recorded orders nothing, as in CUDA.
    pub fn wait_event(&mut self, stream: StreamId, event: u32) {
        if let Some(clock) = self.events.get(&event) {
            learn(&mut self.seen[usize::from(stream)], clock);
        }
    }

    /// `stream` goes on only after the present position of `on`.
    pub fn wait(&mut self, stream: StreamId, on: StreamId) {
        let clock = self.clock(on);
        learn(&mut self.seen[usize::from(stream)], &clock);
    }

    /// The host waited for `stream`, or for all of them ([`ANY_STREAM`]).
    pub fn sync(&mut self, stream: StreamId) {
        if stream == ANY_STREAM {
            self.settled.clone_from(&self.position);
            for position in &mut self.position {
                *position += 1;
            }
        } else {
            let clock = self.clock(stream);
            learn(&mut self.settled, &clock);
        }
    }

    /// Notes what a stream has seen and where it is; its next position begins.
    fn clock(&mut self, stream: StreamId) -> Vec<u64> {
        let at = usize::from(stream);
        let mut clock = self.seen[at].clone();
        clock.resize(clock.len().max(at + 1), 0);
        clock[at] = self.position[at];
        self.position[at] += 1;
        clock
    }
}

/// Takes in what `from` has seen; a row is only as long as what was seen asks for, so
/// that thousands of streams that never wait cost nothing.
fn learn(seen: &mut Vec<u64>, from: &[u64]) {
    seen.resize(seen.len().max(from.len()), 0);
    for (known, new) in seen.iter_mut().zip(from) {
        *known = (*known).max(*new);
    }
}
