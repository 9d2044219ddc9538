//! The loop: events in, a policy decides over a Space, observers look on.
//!
//! A replay holds one policy. Events are fed in batches, so that one read of a trace
//! can feed many replays and a long trace need not be held.

mod observer;

pub use observer::{Moment, Observer, Run};

use crate::policy::Policy;
use crate::policy::ledger::{Batch, Ledger, looks_ahead, time_of};
pub use crate::policy::ledger::{Columns, Glance, Glances, Outcome, Totals};
use crate::space::{BlockId, OutOfMemory, Space, SpaceConfig};
use crate::trace::truth::TruthSegment;
use crate::trace::{Event, Slot};

/// One policy over one Space.
pub struct Replay {
    policy: Box<dyn Policy>,
    space: Space,
    ledger: Ledger,
    glances: Box<Glances>,
}

impl Replay {
    /// Starts a policy over a new Space; `config.blind` is set from the policy.
    ///
    /// # Errors
    /// [`OutOfMemory`] where the policy could not take what it starts with.
    pub fn new(mut policy: Box<dyn Policy>, mut config: SpaceConfig) -> Result<Self, OutOfMemory> {
        config.blind = policy.blind();
        let mut space = Space::new(config);
        policy.start(&mut space)?;
        let ledger = Ledger::new(&*policy, &mut space);
        Ok(Replay {
            policy,
            space,
            ledger,
            glances: Box::default(),
        })
    }

    /// Feeds a batch of events. `times_ns` has one time an event, or is empty: then an
    /// event counts [`DEFAULT_STEP_NS`](crate::trace::DEFAULT_STEP_NS).
    ///
    /// # Panics
    /// If the policy breaks a rule of the Space (the panic names the event), or a slot
    /// is used in a way that no reader of the crate lets through.
    // Out of line, so that what lies below it can be told apart in a profile.
    #[inline(never)]
    pub fn feed<O: Observer>(&mut self, events: &[Event], times_ns: &[u64], observer: &mut O) {
        if observer.wants_moments() || self.space.records_steps() {
            self.feed_singly(events, times_ns, observer);
            return;
        }
        let mut from = 0;
        while from < events.len() {
            let first_index = self.totals().events;
            let batch = Batch {
                events,
                times_ns,
                from,
                glances: &mut self.glances,
            };
            let carried = self.policy.carry(&mut self.ledger, &mut self.space, batch);
            if carried.plain > 0 {
                observer.see_run(&Run {
                    first_event: first_index,
                    times_ns: times_ns.get(from..from + carried.plain).unwrap_or_default(),
                    glances: &self.glances,
                });
            }
            from += carried.plain;
            if let Some(outcome) = carried.other {
                self.show(&events[from], outcome, observer);
                from += 1;
            }
        }
    }

    /// Feeds event by event, for observers that look at each.
    fn feed_singly<O: Observer>(&mut self, events: &[Event], times_ns: &[u64], observer: &mut O) {
        let is_large = looks_ahead(&self.space);
        for (at, event) in events.iter().enumerate() {
            let index = self.totals().events;
            self.space.begin_event(index, time_of(times_ns, at, index));
            if is_large {
                self.ledger.look_ahead(&self.space, events, at);
            }
            let outcome = self.ledger.step(&mut *self.policy, &mut self.space, event);
            self.show(event, outcome, observer);
        }
    }

    /// Shows the event that was carried out last.
    #[inline]
    fn show<O: Observer>(&self, event: &Event, outcome: Outcome, observer: &mut O) {
        observer.see(&Moment {
            index: self.space.event(),
            time_ns: self.space.now_ns(),
            event,
            outcome,
            space: &self.space,
            totals: self.ledger.totals(),
            largest_free_bytes: self.largest_free_bytes(),
            footprint_bytes: self.footprint_bytes(),
        });
    }

    /// Tells the raw handles of the trace's streams, which some allocators order by.
    pub fn name_streams(&mut self, handles: &[u64]) {
        self.space.name_streams(handles);
    }

    /// Takes over what was there before a recording began; false where the policy
    /// cannot. `requested_bytes` of the live slots are taken from the blocks.
    pub fn adopt(&mut self, segments: &[TruthSegment]) -> bool {
        let Some(placed) = self.policy.adopt(segments, &mut self.space) else {
            return false;
        };
        self.ledger.adopt(placed, segments, &self.space);
        true
    }

    /// The recorded driver addresses of the event to come.
    pub fn feed_addresses(&mut self, maps: &[u64], reserves: &[u64]) {
        self.space.driver_mut().feed(maps, reserves);
    }

    /// The memory of the program's context is given back to the driver's addresses.
    pub fn give_context_back(&mut self) {
        self.space.driver_mut().give_context_back();
    }

    /// The Space as it is now.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The policy as it is now.
    #[must_use]
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// The sums so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        self.ledger.totals()
    }

    /// The largest Free block now, in bytes.
    #[inline]
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        self.ledger.largest_free_bytes(&*self.policy, &self.space)
    }

    /// What the policy holds of the card now, in bytes.
    #[inline]
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        self.ledger.footprint_bytes(&self.space)
    }

    /// Whether the policy took its whole capacity at the start.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.ledger.takes_all()
    }

    /// The block that serves a slot now.
    #[must_use]
    pub fn block_of(&self, slot: Slot) -> Option<BlockId> {
        self.ledger.block_of(slot)
    }
}
