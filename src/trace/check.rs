//! The rules that every trace keeps: checked where one comes from outside, and where
//! one is written, so that a replay may rely on them.

use super::{ANY_STREAM, Event, Slot, StreamId, Trace};

/// Which rule an event breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Slots are handed out densely: the first use of each is the next number.
    #[error("slot {0} is used before the slots below it")]
    SlotGap(Slot),
    /// A request into a slot that is live or awaits its completion.
    #[error("slot {0} is taken already")]
    Taken(Slot),
    /// A free, use or pin of a slot that is not live.
    #[error("slot {0} is not live")]
    NotLive(Slot),
    /// A completion of a slot without a deferred free.
    #[error("slot {0} awaits no completion")]
    NotPending(Slot),
    /// A stream past the trace's table.
    #[error("stream {0} is not in the trace's table")]
    Stream(StreamId),
    /// A pool past the trace's table.
    #[error("pool {0} is not in the trace's table")]
    Pool(u16),
    /// A label past the trace's table.
    #[error("label {0} is not in the trace's table")]
    Label(u32),
    /// A tag past the trace's table.
    #[error("tag {0} is not in the trace's table")]
    Tag(u32),
    /// What the recording knows beyond its requests does not fit them.
    #[error("recorded facts: {0}")]
    Truth(String),
    /// An alignment that is no power of two below 2^64.
    #[error("alignment 2^{0} is out of range")]
    Align(u8),
    /// The trace's own counts differ from what its events show.
    #[error("{what}: the trace says {says}, its events show {shows}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// What the trace says.
        says: u64,
        /// What the events show.
        shows: u64,
    },
}

/// Follows the events of a trace and finds the first that breaks a rule.
#[derive(Debug, Clone, Default)]
pub struct Checker {
    states: Vec<State>,
    streams: usize,
    pools: usize,
    labels: usize,
    requests: u64,
    highest_tag: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Spare,
    Live,
    Pending,
}

impl Checker {
    /// A checker by the tables of `head`: streams, pools and labels.
    #[must_use]
    pub fn new(head: &Trace) -> Self {
        Checker {
            streams: head.streams.len(),
            pools: head.pools.len(),
            labels: head.labels.len(),
            ..Checker::default()
        }
    }

    /// Follows one event.
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn step(&mut self, event: &Event) -> Result<(), Fault> {
        match *event {
            Event::Alloc {
                slot,
                align_log2,
                stream,
                pool,
                tag,
                ..
            } => {
                self.request(align_log2, stream, pool, tag)?;
                self.take(slot)
            }
            Event::Attempt {
                align_log2,
                stream,
                pool,
                tag,
                ..
            } => self.request(align_log2, stream, pool, tag),
            Event::Free {
                slot,
                stream,
                deferred,
            } => {
                self.stream(stream)?;
                let next = if deferred {
                    State::Pending
                } else {
                    State::Spare
                };
                self.turn(slot, State::Live, next, Fault::NotLive(slot))
            }
            Event::Complete { slot } => {
                self.turn(slot, State::Pending, State::Spare, Fault::NotPending(slot))
            }
            Event::Use { slot, stream } => {
                self.stream_or_any(stream)?;
                self.held(slot)
            }
            Event::Pin { slot } | Event::Unpin { slot } => self.held(slot),
            Event::Record { stream, .. } | Event::Wait { stream, .. } => self.stream(stream),
            Event::Sync { stream } => self.stream_or_any(stream),
            Event::Pool { pool, stream, .. } => {
                self.stream(stream)?;
                self.pool(pool)
            }
            Event::Mark { label } if label as usize >= self.labels => Err(Fault::Label(label)),
            Event::Mark { .. }
            | Event::FreeAgain { .. }
            | Event::FreeUnknown { .. }
            | Event::FreeAt { .. }
            | Event::Compact
            | Event::Trim => Ok(()),
        }
    }

    /// How many slots the events have named so far.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.states.len() as u32
    }

    /// Compares what the events showed with what `trace` says of them.
    ///
    /// # Errors
    /// The first difference.
    pub fn end(&self, trace: &Trace, events: u64) -> Result<(), Fault> {
        let same = |what, says, shows| {
            if says == shows {
                Ok(())
            } else {
                Err(Fault::Count { what, says, shows })
            }
        };
        same("slots", u64::from(trace.slots), u64::from(self.slots()))?;
        match &trace.ids {
            super::Ids::Ordinal => {}
            super::Ids::Numbers(ids) => same("ids", ids.len() as u64, self.requests)?,
            super::Ids::Names(ids) => same("ids", ids.len() as u64, self.requests)?,
        }
        let initial = trace.initial_events as u64;
        same("initial events", initial, initial.min(events))?;
        if self.highest_tag as usize >= trace.tags.len().max(1) {
            return Err(Fault::Tag(self.highest_tag));
        }
        let truth = trace.truth.as_deref();
        truth.map_or(Ok(()), |truth| {
            truth.sound(trace, events).map_err(Fault::Truth)
        })
    }

    fn request(&mut self, align_log2: u8, stream: u16, pool: u16, tag: u32) -> Result<(), Fault> {
        self.requests += 1;
        self.highest_tag = self.highest_tag.max(tag);
        if align_log2 >= 64 {
            return Err(Fault::Align(align_log2));
        }
        self.stream(stream)?;
        self.pool(pool)
    }

    fn take(&mut self, slot: Slot) -> Result<(), Fault> {
        let fresh = self.states.len();
        match self.states.get_mut(slot as usize) {
            Some(state @ State::Spare) => *state = State::Live,
            Some(_) => return Err(Fault::Taken(slot)),
            None if slot as usize == fresh => self.states.push(State::Live),
            None => return Err(Fault::SlotGap(slot)),
        }
        Ok(())
    }

    fn turn(&mut self, slot: Slot, from: State, to: State, fault: Fault) -> Result<(), Fault> {
        match self.states.get_mut(slot as usize) {
            Some(state) if *state == from => {
                *state = to;
                Ok(())
            }
            _ => Err(fault),
        }
    }

    fn held(&self, slot: Slot) -> Result<(), Fault> {
        match self.states.get(slot as usize) {
            Some(State::Live | State::Pending) => Ok(()),
            _ => Err(Fault::NotLive(slot)),
        }
    }

    fn stream(&self, stream: StreamId) -> Result<(), Fault> {
        if usize::from(stream) < self.streams {
            Ok(())
        } else {
            Err(Fault::Stream(stream))
        }
    }

    fn stream_or_any(&self, stream: StreamId) -> Result<(), Fault> {
        if stream == ANY_STREAM {
            Ok(())
        } else {
            self.stream(stream)
        }
    }

    fn pool(&self, pool: u16) -> Result<(), Fault> {
        if usize::from(pool) < self.pools {
            Ok(())
        } else {
            Err(Fault::Pool(pool))
        }
    }
}

/// Checks a whole trace.
///
/// # Errors
/// The number of the first event that breaks a rule (the number of events where the
/// trace's own counts are wrong), and the rule.
pub fn check(trace: &Trace) -> Result<(), (usize, Fault)> {
    let mut checker = Checker::new(trace);
    for (at, event) in trace.events.iter().enumerate() {
        checker.step(event).map_err(|fault| (at, fault))?;
    }
    let events = trace.events.len();
    if trace.has_times() && trace.times_ns.len() != events {
        let fault = Fault::Count {
            what: "times",
            says: trace.times_ns.len() as u64,
            shows: events as u64,
        };
        return Err((events, fault));
    }
    checker
        .end(trace, events as u64)
        .map_err(|fault| (events, fault))
}
