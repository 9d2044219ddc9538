//! Where, when and what: streams, pools, tags, times and recorded facts of a pass.

use crate::trace::StreamId;
use crate::trace::builder::Ask;
use crate::trace::pytorch::facts::{Noted, is_fact};
use crate::trace::snapshot::{Entry, PoolId, StackId};

use super::{Forward, is_release};

/// Places, times and facts.
impl Forward<'_> {
    pub(super) fn ask(&mut self, at: usize, entry: &Entry) -> Ask {
        let pool = entry.pool.or_else(|| self.pool_of(at));
        Ask {
            bytes: entry.bytes,
            align_log2: 0,
            stream: self.stream(entry.stream),
            pool: self.pool(pool),
            tag: self.tag(entry.stack),
        }
    }

    pub(super) fn tag(&mut self, stack: Option<StackId>) -> u32 {
        stack.map_or(0, |stack| {
            self.tags
                .number(stack, &self.from.snapshot.tables, &mut self.builder)
        })
    }

    pub(super) fn stream(&mut self, raw: u64) -> StreamId {
        match self.last_stream {
            Some((last, id)) if last == raw => id,
            _ => {
                let id = self.builder.stream(raw);
                self.last_stream = Some((raw, id));
                id
            }
        }
    }

    pub(super) fn pool(&mut self, pool: Option<PoolId>) -> u16 {
        pool.map_or(0, |pool| {
            self.builder.pool(self.from.snapshot.tables.pool(pool))
        })
    }

    fn pool_of(&self, at: usize) -> Option<PoolId> {
        self.from.start.pools.get(&at).copied()
    }

    pub(super) fn tick(&mut self, entry: &Entry) {
        if let (Some(clock), Some(time_us)) = (&self.from.clock, entry.time_us()) {
            self.now_ns = self.now_ns.max(clock.nanos(time_us));
            self.builder.at(self.now_ns);
        }
    }

    /// Begins the annotated ranges that begin no later than `entry`.
    pub(super) fn marks_before(&mut self, entry: &Entry) {
        if self.next_mark == self.from.marks.len() {
            return;
        }
        if let (Some(clock), Some(time_us)) = (self.from.clock, entry.time_us()) {
            let time_ns = clock.nanos(time_us);
            while let Some((mark_ns, _)) = self.from.marks.get(self.next_mark)
                && *mark_ns <= time_ns
            {
                self.mark();
            }
        }
    }

    pub(super) fn remaining_marks(&mut self) {
        while self.next_mark < self.from.marks.len() {
            self.mark();
        }
    }

    fn mark(&mut self) {
        let (time_ns, name) = self.from.marks[self.next_mark];
        self.now_ns = self.now_ns.max(time_ns);
        self.builder.at(self.now_ns);
        self.builder.mark(name);
        self.counts.marks += 1;
        self.next_mark += 1;
    }

    /// Notes the fact of entry `at`, and of those that waited, under the last event, or
    /// under the first one to come where there is none yet.
    pub(super) fn fact_of_last(&mut self, at: usize) {
        self.fact(at, self.builder.len().saturating_sub(1));
    }

    /// Notes what still waits under the event after the last.
    pub(super) fn let_facts_go(&mut self) {
        let event = self.builder.len();
        for at in std::mem::take(&mut self.held) {
            self.note(at, event);
        }
    }

    fn fact(&mut self, at: usize, event: usize) {
        if !self.held.is_empty() {
            let mut held = std::mem::take(&mut self.held);
            for waiting in held.drain(..) {
                self.note(waiting, event);
            }
            self.held = held;
        }
        self.note(at, event);
    }

    fn note(&mut self, at: usize, event: usize) {
        let entry = &self.from.entries[at];
        if !is_fact(entry.action) {
            return;
        }
        let pool = entry.pool.or_else(|| self.pool_of(at));
        let noted = Noted {
            event: u32::try_from(event).expect("fewer than 2^32 events in memory"),
            stream: self.stream(entry.stream),
            pool: self.pool(pool),
        };
        self.notes.push(noted);
    }
}

/// Recordings without frees: a place that is used again was freed before.
impl Forward<'_> {
    pub(super) fn remember(&mut self, address: u64, bytes: u64) {
        if self.from.hidden.frees {
            let end = address.saturating_add(bytes.max(1));
            self.ranges.insert(address, end);
        }
    }

    /// Frees what lies in the way of `bytes` at `address`.
    pub(super) fn displace(&mut self, address: u64, bytes: u64) {
        if self.ranges.is_empty() {
            return;
        }
        let end = address.saturating_add(bytes.max(1));
        while let Some((&from, &to)) = self.ranges.range(..end).next_back()
            && to > address
        {
            self.forget(from);
        }
    }

    /// Frees what lies in segments that go back in a run.
    pub(super) fn displace_released(&mut self, run: &[Entry]) {
        for entry in run.iter().filter(|entry| is_release(entry.action)) {
            self.displace(entry.address(), entry.bytes);
        }
    }

    /// Frees at the end what the final segments no longer show.
    pub(in crate::trace::pytorch) fn free_unseen(&mut self, seen: impl Fn(u64) -> bool) {
        let gone: Vec<u64> = self
            .ranges
            .keys()
            .copied()
            .filter(|at| !seen(*at))
            .collect();
        for address in gone {
            self.forget(address);
            self.counts.freed_at_end += 1;
        }
    }

    fn forget(&mut self, address: u64) {
        self.ranges.remove(&address);
        self.builder.free(address, None, false);
        self.counts.inferred_frees += 1;
    }
}
