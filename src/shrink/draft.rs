//! A trace on its way to a smaller one: what can be left out together, and the trace
//! without it.
//!
//! A draft holds the events and what a replay reads of them. Ids, tags and labels stay with
//! the original until the end: they would only be copied for every candidate.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::trace::truth::{TruthEntry, TruthKind};
use crate::trace::{Event, Ids, Slot, Trace, Truth};
use crate::units::format_count;

/// Events that are left out together, by number and in order.
pub type Piece = Vec<u32>;

/// A candidate.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The events with slots, times, streams, pools and facts; no ids, tags and labels.
    pub trace: Arc<Trace>,
    /// The number of each event in the original; the number of events of the original for
    /// what comes after the last one.
    pub origins: Vec<u32>,
}

/// Whether a fact tells a sum over everything that was there.
fn is_sum(kind: TruthKind) -> bool {
    matches!(
        kind,
        TruthKind::UsedAfter
            | TruthKind::ReservedAfter
            | TruthKind::LargestFreeAfter
            | TruthKind::DeviceFreeAfter
    )
}

impl Draft {
    /// The original itself, with its facts or without.
    ///
    /// # Panics
    /// If it has 2^32 events.
    #[must_use]
    pub fn of(original: &Trace, facts: bool) -> Self {
        let events = u32::try_from(original.events.len()).expect("events are counted in 32 bits");
        let trace = Trace {
            name: original.name.clone(),
            events: original.events.clone(),
            times_ns: original.times_ns.clone(),
            slots: original.slots,
            initial_events: original.initial_events,
            streams: original.streams.clone(),
            pools: original.pools.clone(),
            capacity_bytes: original.capacity_bytes,
            device: original.device,
            truth: original.truth.clone().filter(|_| facts),
            ..Trace::default()
        };
        Draft {
            trace: Arc::new(trace),
            origins: (0..=events).collect(),
        }
    }

    /// The same without the events of some pieces.
    #[must_use]
    pub fn without(&self, pieces: &[Piece]) -> Self {
        let old = &*self.trace;
        let mut kept = vec![true; old.events.len()];
        for event in pieces.iter().flatten() {
            kept[*event as usize] = false;
        }
        let mut made = Trace {
            name: old.name.clone(),
            streams: old.streams.clone(),
            pools: old.pools.clone(),
            capacity_bytes: old.capacity_bytes,
            device: old.device,
            ..Trace::default()
        };
        let mut slots = Slots::new(old.slots);
        let mut origins = Vec::with_capacity(old.events.len() + 1);
        for (at, event) in old.events.iter().enumerate().filter(|(at, _)| kept[*at]) {
            made.events.push(slots.renamed(event));
            made.times_ns.extend(old.times_ns.get(at));
            made.initial_events += usize::from(at < old.initial_events);
            origins.push(self.origins[at]);
        }
        origins.push(self.origins[old.events.len()]);
        made.slots = slots.named;
        let truth = old.truth.as_deref();
        made.truth = truth.map(|truth| Box::new(aligned(truth, &kept)));
        Draft {
            trace: Arc::new(made),
            origins,
        }
    }

    /// The first events up to one, that one included.
    #[must_use]
    pub fn up_to(&self, last: usize) -> Self {
        let after = last + 1..self.trace.events.len();
        self.without(&[after.map(|event| event as u32).collect()])
    }

    /// The same with other bytes of the request at an event.
    ///
    /// # Panics
    /// If the event is no request.
    #[must_use]
    pub fn resized(&self, event: usize, to_bytes: u64) -> Self {
        let mut draft = self.clone();
        match &mut Arc::make_mut(&mut draft.trace).events[event] {
            Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. } => *bytes = to_bytes,
            other => panic!("event {event} is no request: {other:?}"),
        }
        draft
    }

    /// Each allocation with all its events, in order of the requests. What a recording
    /// shows in its first state stays: a model takes it over as a whole.
    #[must_use]
    pub fn allocations(&self) -> Vec<Piece> {
        let adopted = self.adopted_events();
        let mut pieces = self.by_request();
        pieces.retain(|piece| piece[0] as usize >= adopted);
        pieces
    }

    /// What can be left out besides whole allocations: their ends, uses and pins, and every
    /// event that belongs to none.
    #[must_use]
    pub fn others(&self) -> Vec<Piece> {
        let adopted = self.adopted_events();
        let mut pieces: BTreeMap<u32, Piece> = BTreeMap::new();
        let mut end_of = vec![0; self.trace.slots as usize];
        for (at, event) in self.trace.events.iter().enumerate() {
            let mut head = at as u32;
            match *event {
                Event::Alloc { .. } | Event::Attempt { .. } => continue,
                Event::Free { slot, .. } => end_of[slot as usize] = head,
                // The end of a deferred free goes with it.
                Event::Complete { slot } => head = end_of[slot as usize],
                _ => {}
            }
            if at >= adopted {
                pieces.entry(head).or_default().push(at as u32);
            }
        }
        pieces.into_values().collect()
    }

    fn adopted_events(&self) -> usize {
        let truth = self.trace.truth.as_deref();
        let adopts = truth.is_some_and(|truth| !truth.initial.is_empty());
        if adopts { self.trace.initial_events } else { 0 }
    }

    /// The events of each request.
    fn by_request(&self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut holder = vec![0; self.trace.slots as usize];
        for (at, event) in self.trace.events.iter().enumerate() {
            let at = at as u32;
            match *event {
                Event::Alloc { slot, .. } => {
                    holder[slot as usize] = pieces.len();
                    pieces.push(vec![at]);
                }
                Event::Attempt { .. } => pieces.push(vec![at]),
                Event::Free { slot, .. }
                | Event::Use { slot, .. }
                | Event::Complete { slot }
                | Event::Pin { slot }
                | Event::Unpin { slot } => pieces[holder[slot as usize]].push(at),
                _ => {}
            }
        }
        pieces
    }

    /// The trace with the original's ids, and of its tags and labels those that are used.
    #[must_use]
    pub fn finish(&self, original: &Trace, from: &str) -> Trace {
        let mut trace = (*self.trace).clone();
        let (mut tags, mut labels) = (Table::default(), Table::default());
        // Tag 0 is none.
        tags.rename(0, &original.tags);
        for event in &mut trace.events {
            match event {
                Event::Alloc { tag, .. } | Event::Attempt { tag, .. } => {
                    *tag = tags.rename(*tag, &original.tags);
                }
                Event::Mark { label } => *label = labels.rename(*label, &original.labels),
                _ => {}
            }
        }
        (trace.tags, trace.labels) = (tags.texts, labels.texts);
        trace.ids = self.ids(original);
        trace.report = original.report.clone();
        trace.report.events = trace.events.len() as u64;
        let events = format_count(original.events.len() as u64);
        trace
            .report
            .note(1, format!("shrunk from {events} events; {from}"));
        trace
    }

    /// The names that the original gave the requests.
    fn ids(&self, original: &Trace) -> Ids {
        let is_request =
            |event: &Event| matches!(event, Event::Alloc { .. } | Event::Attempt { .. });
        let mut ordinals = vec![0; original.events.len()];
        let mut requests = 0;
        for (at, event) in original.events.iter().enumerate() {
            ordinals[at] = requests;
            requests += usize::from(is_request(event));
        }
        let events = self.trace.events.iter().zip(&self.origins);
        let kept = events.filter(|(event, _)| is_request(event));
        let kept = kept.map(|(_, origin)| ordinals[*origin as usize]);
        match &original.ids {
            Ids::Ordinal => Ids::Numbers(kept.map(|ordinal| ordinal as u64).collect()),
            Ids::Numbers(all) => Ids::Numbers(kept.map(|ordinal| all[ordinal]).collect()),
            Ids::Names(all) => Ids::Names(kept.map(|ordinal| all[ordinal].clone()).collect()),
        }
    }
}

/// Texts that are used, numbered anew in order of their first use.
#[derive(Default)]
struct Table {
    texts: Vec<String>,
    numbers: BTreeMap<u32, u32>,
}

impl Table {
    fn rename(&mut self, old: u32, texts: &[String]) -> u32 {
        let next = self.texts.len() as u32;
        let number = *self.numbers.entry(old).or_insert(next);
        if number == next {
            let text = texts.get(old as usize).cloned();
            self.texts.push(text.unwrap_or_default());
        }
        number
    }
}

/// New slots for old ones, dense and used again.
struct Slots {
    new_of: Vec<Slot>,
    spare: Vec<Slot>,
    named: u32,
}

impl Slots {
    fn new(old: u32) -> Self {
        Slots {
            new_of: vec![0; old as usize],
            spare: Vec::new(),
            named: 0,
        }
    }

    /// The event with its new slot.
    fn renamed(&mut self, event: &Event) -> Event {
        let mut event = *event;
        let mut ends = None;
        match &mut event {
            Event::Alloc { slot, .. } => {
                let old = *slot as usize;
                *slot = self.spare.pop().unwrap_or_else(|| {
                    self.named += 1;
                    self.named - 1
                });
                self.new_of[old] = *slot;
            }
            Event::Free { slot, deferred, .. } => {
                *slot = self.new_of[*slot as usize];
                ends = (!*deferred).then_some(*slot);
            }
            Event::Complete { slot } => {
                *slot = self.new_of[*slot as usize];
                ends = Some(*slot);
            }
            Event::Use { slot, .. } | Event::Pin { slot } | Event::Unpin { slot } => {
                *slot = self.new_of[*slot as usize];
            }
            _ => {}
        }
        self.spare.extend(ends);
        event
    }
}

/// The facts of the events that are kept, numbered as these are. Sums hold only up to the
/// first event that is left out, and the last state not at all once one is. The slots of the
/// first state keep their numbers: its events are never left out.
fn aligned(truth: &Truth, kept: &[bool]) -> Truth {
    let first_gone = kept.iter().position(|kept| !kept);
    let Some(first_gone) = first_gone else {
        return truth.clone();
    };
    let mut numbers = Vec::with_capacity(kept.len());
    let mut next = 0;
    for kept in kept {
        numbers.push(next);
        next += u32::from(*kept);
    }
    let stays = |fact: &&TruthEntry| {
        let event = fact.event as usize;
        let there = kept.get(event).copied().unwrap_or(false);
        there && (event < first_gone || !is_sum(fact.kind))
    };
    let entries = truth.entries.iter().filter(stays).map(|fact| TruthEntry {
        event: numbers[fact.event as usize],
        ..*fact
    });
    Truth {
        source: truth.source.clone(),
        entries: entries.collect(),
        initial: truth.initial.clone(),
        last: Vec::new(),
        settings: truth.settings.clone(),
    }
}
