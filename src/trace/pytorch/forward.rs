//! The entries of one device, first to last, as events of a trace and recorded facts.
//!
//! Everything that one `malloc` did stands together in the file and ends with its `alloc`
//! or `oom` (section 9.3 of the specification). So the entries are read in *runs*: the
//! delayed completions and segment entries up to the next entry of another kind, which
//! decides what they were.

mod place;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::trace::builder::{Ask, Freed};
use crate::trace::relay::Giver;
use crate::trace::snapshot::{Action, Entry, Snapshot};
use crate::trace::{Event, StreamId, TraceBuilder};

use super::caches::{After, Cause, Limits};
use super::clock::Clock;
use super::facts::Noted;
use super::hidden::Hidden;
use super::notes::Counts;
use super::rewind::{Held, Start, region_of};
use super::tags::Tags;

/// What a pass over the entries needs to know.
pub(super) struct Source<'a> {
    pub snapshot: &'a Snapshot,
    pub entries: &'a [Entry],
    pub start: &'a Start,
    pub limits: Limits<'a>,
    pub hidden: Hidden,
    pub clock: Option<Clock>,
    pub marks: Vec<(u64, &'a str)>,
}

/// The pass itself.
pub(super) struct Forward<'a> {
    from: Source<'a>,
    pub builder: TraceBuilder,
    /// What is noted of recorded facts, in file order.
    notes: Giver<Noted>,
    pub counts: Counts,
    tags: Tags,
    /// Entries whose fact waits for the event during which it happened.
    held: Vec<usize>,
    /// Live ranges by address, kept only where frees are left out of the recording.
    ranges: BTreeMap<u64, u64>,
    reserved_bytes: u64,
    next_mark: usize,
    now_ns: u64,
    last_stream: Option<(u64, StreamId)>,
}

impl<'a> Forward<'a> {
    /// A pass over `from` that has emitted what was live before the first entry.
    pub fn new(name: &str, from: Source<'a>) -> Self {
        let mut pass = Forward {
            builder: TraceBuilder::new(name),
            notes: Giver::default(),
            counts: Counts::default(),
            tags: Tags::new(from.snapshot),
            held: Vec::new(),
            ranges: BTreeMap::new(),
            reserved_bytes: from.start.reserved_bytes,
            next_mark: 0,
            now_ns: 0,
            last_stream: None,
            from,
        };
        pass.initial();
        pass
    }

    /// Emits every entry; what is to be noted of facts goes to `notes`.
    pub fn run(&mut self, notes: Giver<Noted>) -> Giver<Noted> {
        self.notes = notes;
        let entries = self.from.entries;
        let mut at = 0;
        while at < entries.len() {
            let from = at;
            while at < entries.len() && in_run(entries[at].action) {
                at += 1;
            }
            self.marks_before(&entries[from]);
            let late = self.make_room(from..at, entries.get(at));
            at = self.step(at);
            for address in late {
                self.late_completion(address);
            }
        }
        self.remaining_marks();
        self.let_facts_go();
        std::mem::take(&mut self.notes)
    }

    /// What was live before the first entry: an allocation each, and a deferred free
    /// where it was pending.
    fn initial(&mut self) {
        let start = self.from.start;
        for (&address, held) in &start.blocks {
            let ask = self.initial_ask(address, held);
            // The addresses of a map are distinct, so none can be live already.
            let _ = self.builder.alloc(address, ask);
            self.counts.initial_live += 1;
            self.remember(address, held.requested_bytes);
            if held.pending {
                self.builder.free(address, None, true);
                self.counts.initial_pending += 1;
            }
        }
        self.builder.initial_done();
    }

    fn initial_ask(&mut self, address: u64, held: &Held) -> Ask {
        let region = region_of(&self.from.start.regions, address);
        let pool = held.pool.or(region.and_then(|(_, region)| region.pool));
        Ask {
            bytes: held.requested_bytes,
            align_log2: 0,
            stream: self.stream(held.stream),
            pool: self.pool(pool),
            tag: self.tag(held.stack),
        }
    }

    /// Decides what the run was, emits its events that come before the entry that ends
    /// it, and tells the addresses whose completion belongs behind that entry.
    ///
    /// A retry synchronises after its search has missed. A completion that it caused
    /// would let a replay hit where the recording missed, so those come after the request.
    fn make_room(&mut self, run: Range<usize>, ending: Option<&Entry>) -> Vec<u64> {
        if run.is_empty() {
            return Vec::new();
        }
        let entries = &self.from.entries[run.clone()];
        let first_release = entries.iter().position(|entry| is_release(entry.action));
        let cause = first_release.map(|first| self.cause(entries, first, ending));
        let fails = ending.is_some_and(|entry| entry.action == Action::Oom);
        let mut late = Vec::new();
        self.displace_released(entries);
        let mut trim = None;
        for (offset, entry) in entries.iter().enumerate() {
            let at = run.start + offset;
            let released = first_release.is_some_and(|first| offset > first);
            self.reserved_bytes = reserved_after(self.reserved_bytes, entry);
            if is_release(entry.action) && cause == Some(Cause::Emptied) {
                // One event for the group, unless a completion came between.
                if trim.is_none_or(|event| event + 1 != self.builder.len()) {
                    trim = Some(self.trim(at));
                }
                self.fact_of_last(at);
            } else if entry.action != Action::FreeCompleted {
                self.held.push(at);
            } else if match cause {
                None => fails,
                Some(Cause::Emptied) => false,
                Some(Cause::Retried) => true,
                Some(Cause::Collected) => released || fails,
            } {
                self.held.push(at);
                late.push(entry.address());
            } else {
                self.complete(at);
            }
        }
        late
    }

    /// Why the first release of a run and those after it happened, with its count.
    fn cause(&mut self, run: &[Entry], first: usize, ending: Option<&Entry>) -> Cause {
        let grown = |entry: &&Entry| is_growth(entry.action);
        let growth = run[first..].iter().rev().find(grown);
        let after = match (ending.map(|entry| entry.action), growth) {
            (Some(Action::Oom), _) => After::Oom,
            (Some(Action::Alloc), Some(growth)) => {
                let rules = self.from.limits.rules;
                let rounded_bytes = rules.rounded(ending.map_or(0, |entry| entry.bytes));
                let mapped = growth.action == Action::SegmentMap;
                After::Growth {
                    stream: growth.stream,
                    rounded_bytes,
                    segment_bytes: if mapped {
                        rules.segment(rounded_bytes)
                    } else {
                        growth.bytes
                    },
                }
            }
            _ => After::Other,
        };
        let reserved_bytes = run[..first]
            .iter()
            .fold(self.reserved_bytes, reserved_after);
        let releases = run.iter().filter(|entry| is_release(entry.action));
        let cause = self.from.limits.cause(releases, reserved_bytes, after);
        let growing = matches!(after, After::Growth { .. });
        match cause {
            Cause::Emptied if growing => self.counts.emptied_before_growth += 1,
            Cause::Emptied => self.counts.emptied += 1,
            Cause::Retried if growing => self.counts.retries += 1,
            Cause::Retried => {}
            Cause::Collected => self.counts.collected += 1,
        }
        cause
    }

    /// Emits the entry that ended a run; the entry after it is told back.
    fn step(&mut self, at: usize) -> usize {
        let Some(entry) = self.from.entries.get(at) else {
            return at;
        };
        match entry.action {
            Action::Alloc => self.alloc(at, entry),
            Action::FreeRequested => return self.free(at, entry),
            Action::Oom => self.oom(at, entry),
            Action::Snapshot => self.counts.snapshots += 1,
            Action::Annotate => self.counts.annotates += 1,
            _ => self.counts.unknown_actions += 1,
        }
        at + 1
    }

    fn alloc(&mut self, at: usize, entry: &Entry) {
        self.tick(entry);
        self.displace(entry.address(), entry.bytes);
        let ask = self.ask(at, entry);
        if self.builder.alloc(entry.address(), ask).is_err() {
            self.counts.unfreed += 1;
            self.builder.free(entry.address(), None, false);
            // Its key has just been freed, so this one cannot fail.
            let _ = self.builder.alloc(entry.address(), ask);
        }
        self.remember(entry.address(), entry.bytes);
        self.fact_of_last(at);
    }

    fn oom(&mut self, at: usize, entry: &Entry) {
        self.tick(entry);
        let ask = self.ask(at, entry);
        self.builder.attempt(entry.address(), ask);
        self.counts.ooms += 1;
        self.fact_of_last(at);
    }

    /// A requested free, with its completion where that follows at once.
    fn free(&mut self, at: usize, entry: &Entry) -> usize {
        self.tick(entry);
        let completes = self.from.entries.get(at + 1).is_some_and(|next| {
            next.action == Action::FreeCompleted && next.address() == entry.address()
        });
        let deferred = !completes && !self.from.hidden.completions;
        match self.builder.free(entry.address(), None, deferred) {
            Freed::Live => self.counts.deferred += u64::from(deferred),
            Freed::Again => self.counts.freed_again += 1,
            Freed::Unknown => self.counts.freed_unknown += 1,
        }
        self.fact_of_last(at);
        if completes {
            self.fact_of_last(at + 1);
            return at + 2;
        }
        at + 1
    }

    /// A delayed completion; of a block that is live, it is a free whose request the
    /// recording leaves out.
    fn complete(&mut self, at: usize) {
        let entry = &self.from.entries[at];
        self.tick(entry);
        if self.builder.complete(entry.address()) {
            self.fact_of_last(at);
        } else if self.builder.is_live(entry.address()) {
            self.builder.free(entry.address(), None, false);
            self.counts.unrequested += 1;
            self.fact_of_last(at);
        } else {
            self.counts.orphan_completions += 1;
            self.held.push(at);
        }
    }

    fn late_completion(&mut self, address: u64) {
        if !self.builder.complete(address) {
            self.counts.orphan_completions += 1;
        }
    }

    /// An emptied cache; the number of its event is told back.
    fn trim(&mut self, at: usize) -> usize {
        self.tick(&self.from.entries[at]);
        self.builder.push(Event::Trim);
        self.builder.len() - 1
    }
}

/// Whether an entry of this kind, met by itself, belongs to what follows it.
fn in_run(action: Action) -> bool {
    action == Action::FreeCompleted || is_release(action) || is_growth(action)
}

fn is_release(action: Action) -> bool {
    matches!(action, Action::SegmentFree | Action::SegmentUnmap)
}

fn is_growth(action: Action) -> bool {
    matches!(action, Action::SegmentAlloc | Action::SegmentMap)
}

fn reserved_after(reserved_bytes: u64, entry: &Entry) -> u64 {
    if is_growth(entry.action) {
        reserved_bytes.saturating_add(entry.bytes)
    } else if is_release(entry.action) {
        reserved_bytes.saturating_sub(entry.bytes)
    } else {
        reserved_bytes
    }
}
