//! How a moment is made, as often as it is wanted: a trace, a policy, a card, and whether
//! the replay follows a recording at its own addresses or begins on an empty card.

use std::ops::Range;
use std::sync::Arc;

use super::ExplainError;
use crate::experiment::{RecordError, Scene, caught};
use crate::fidelity::{self, Along};
use crate::policy::{Chosen, Registry};
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::{AddressOrder, SpaceConfig};
use crate::trace::{Event, Slot, Trace};
use crate::whatif::feed_range;

/// Where the driver's addresses begin that no recording tells: far from all that one does.
const MADE_UP_FROM: u64 = 0x1000_0000_0000;
/// The distance between two of them, more than any card has.
const MADE_UP_STEP: u64 = 1 << 40;
/// So many are at hand for one event.
const MADE_UP: u64 = 64;

/// A trace under a policy on a card.
#[derive(Clone, Copy)]
pub(super) struct Stage<'a> {
    pub scene: &'a Scene,
    pub registry: &'a Registry,
    pub chosen: &'a Chosen,
    /// The replay follows the recording.
    pub along: bool,
}

impl<'a> Stage<'a> {
    pub fn trace(&self) -> &'a Trace {
        &self.scene.trace
    }

    /// The first event that is replayed; what comes before is there at the start.
    pub fn first(&self) -> usize {
        if self.along {
            self.trace().initial_events
        } else {
            0
        }
    }

    fn config(&self) -> SpaceConfig {
        let addresses = if self.along {
            AddressOrder::Recorded
        } else {
            AddressOrder::TopDown
        };
        SpaceConfig {
            addresses,
            ..self.scene.config(true)
        }
    }

    /// The replay before the first event.
    fn start(&self) -> Result<Replay, ExplainError> {
        let policy = self.registry.build_for(self.chosen, self.scene);
        let policy = policy.map_err(RecordError::from)?;
        if self.along {
            return Ok(fidelity::start(self.trace(), policy, self.config())?);
        }
        let started = Replay::new(policy, self.config());
        let mut replay = started.map_err(|shortage| RecordError::NotStarted {
            policy: self.chosen.label.clone(),
            wanted_bytes: shortage.wanted_bytes,
        })?;
        replay.name_streams(&self.trace().streams);
        Ok(replay)
    }

    /// Replays the events before `to`. The observer hears the number of each event in the
    /// trace; `begun` is called before the first.
    pub fn run<O: Observer>(
        &self,
        to: usize,
        observer: &mut O,
        begun: impl FnOnce(&Replay, &mut O),
    ) -> Result<Replay, ExplainError> {
        self.guarded(|| {
            let mut replay = self.start()?;
            begun(&replay, observer);
            self.feed(&mut replay, self.first()..to, observer);
            Ok(replay)
        })
    }

    /// Replays up to the event, carries `before` out, then the event: what came of it.
    pub fn retry(&self, event: usize, before: &[Event]) -> Result<Outcome, ExplainError> {
        self.guarded(|| {
            let mut replay = self.start()?;
            self.feed(&mut replay, self.first()..event, &mut ());
            self.insert(&mut replay, event, before);
            let mut last = Last(Outcome::Done);
            let time_ns = [self.trace().time_ns(event)];
            replay.feed(&self.trace().events[event..=event], &time_ns, &mut last);
            Ok(last.0)
        })
    }

    /// Carries events out that are not of the trace, at the time of `event`.
    pub fn insert(&self, replay: &mut Replay, event: usize, events: &[Event]) {
        if self.along {
            let made_up = |from: u64| -> Vec<u64> {
                let numbers = from..from + MADE_UP;
                numbers.map(|at| MADE_UP_FROM + at * MADE_UP_STEP).collect()
            };
            replay.feed_addresses(&made_up(0), &made_up(MADE_UP));
        }
        let times_ns = vec![self.trace().time_ns(event); events.len()];
        replay.feed(events, &times_ns, &mut ());
    }

    fn feed<O: Observer>(&self, replay: &mut Replay, range: Range<usize>, observer: &mut O) {
        let trace = self.trace();
        let mut numbered = Numbered {
            skipped: self.first() as u64,
            observer,
        };
        let Some(truth) = trace.truth.as_deref().filter(|_| self.along) else {
            return feed_range(trace, replay, range, &mut numbered);
        };
        let mut along = Along::new(truth);
        for index in range {
            along.prepare(index, replay);
            let time_ns = [trace.time_ns(index)];
            replay.feed(&trace.events[index..=index], &time_ns, &mut numbered);
        }
    }

    /// A policy that breaks a rule is told by its name.
    pub fn guarded<T>(
        &self,
        work: impl FnOnce() -> Result<T, ExplainError>,
    ) -> Result<T, ExplainError> {
        caught(work).unwrap_or_else(|what| {
            let policy = self.chosen.label.clone();
            Err(RecordError::Broke { policy, what }.into())
        })
    }
}

/// The number of an event is that of the trace, also where the first ones are left out.
struct Numbered<'a, O> {
    skipped: u64,
    observer: &'a mut O,
}

impl<O: Observer> Observer for Numbered<'_, O> {
    fn see(&mut self, moment: &Moment<'_>) {
        self.observer.see(&Moment {
            index: moment.index + self.skipped,
            ..*moment
        });
    }
}

/// What came of the last event.
struct Last(Outcome);

impl Observer for Last {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0 = moment.outcome;
    }
}

/// The trace without some of its allocations, named by their slots and events. An event
/// that does nothing keeps each place, and so the numbers of all others.
pub(super) fn without(trace: &Trace, gone: &[(Slot, u64)]) -> Arc<Trace> {
    let mut left_out = vec![false; trace.slots as usize];
    let mut shorter = trace.clone();
    let nothing = Event::Use {
        slot: trace.slots,
        stream: 0,
    };
    for (index, event) in shorter.events.iter_mut().enumerate() {
        let Some(slot) = slot_of(event) else {
            continue;
        };
        if matches!(event, Event::Alloc { .. }) {
            left_out[slot as usize] = gone.contains(&(slot, index as u64));
        }
        if left_out[slot as usize] {
            *event = nothing;
        }
    }
    Arc::new(shorter)
}

fn slot_of(event: &Event) -> Option<Slot> {
    match *event {
        Event::Alloc { slot, .. }
        | Event::Free { slot, .. }
        | Event::Use { slot, .. }
        | Event::Complete { slot }
        | Event::Pin { slot }
        | Event::Unpin { slot } => Some(slot),
        _ => None,
    }
}
