//! Who looks on, and what there is to see.

use super::{Glance, Glances, Outcome, Totals};
use crate::policy::ledger::time_of;
use crate::space::Space;
use crate::trace::Event;

/// What observers see after each event.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// Number of the event.
    pub index: u64,
    /// Trace time, ns.
    pub time_ns: u64,
    /// The event.
    pub event: &'a Event,
    /// What it came to.
    pub outcome: Outcome,
    /// The Space after it.
    pub space: &'a Space,
    /// Sums so far.
    pub totals: &'a Totals,
    /// Largest Free block, bytes.
    pub largest_free_bytes: u64,
    /// What the policy holds of the card, bytes: reserved, or what lies below the
    /// high-water mark where it took its whole capacity at the start.
    pub footprint_bytes: u64,
}

impl Moment<'_> {
    /// How things stand after the event.
    #[inline]
    #[must_use]
    pub fn glance(&self) -> Glance {
        let counters = self.space.counters();
        Glance {
            requested_bytes: self.totals.requested_bytes,
            used_bytes: counters.used_bytes,
            free_bytes: counters.free_bytes,
            largest_free_bytes: self.largest_free_bytes,
            reserved_bytes: counters.reserved_bytes,
            footprint_bytes: self.footprint_bytes,
        }
    }
}

/// Events in a row that each served a request or gave a block back.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Number of the first.
    pub first_event: u64,
    /// Trace time of each, ns; empty where an event counts
    /// [`DEFAULT_STEP_NS`](crate::trace::DEFAULT_STEP_NS).
    pub times_ns: &'a [u64],
    /// How things stood after each; there is one at least.
    pub glances: &'a Glances,
}

impl Run<'_> {
    /// Trace time of the event at a place, ns.
    #[must_use]
    pub fn time_ns(&self, at: usize) -> u64 {
        time_of(self.times_ns, at, self.first_event + at as u64)
    }

    /// Trace times of the first event and of the last, ns.
    #[must_use]
    pub fn span_ns(&self) -> (u64, u64) {
        let last = self.glances.len().saturating_sub(1);
        (self.time_ns(0), self.time_ns(last))
    }
}

/// Looks on; sees every event once, after it happened.
pub trait Observer {
    /// One event happened.
    fn see(&mut self, moment: &Moment<'_>);

    /// Whether the observer looks at every event by itself. One that does not writes
    /// [`see_run`](Self::see_run): it is shown runs of plain events, and moments of the others,
    /// which is faster.
    fn wants_moments(&self) -> bool {
        true
    }

    /// Plain events in a row happened, for an observer that wants no moments.
    fn see_run(&mut self, run: &Run<'_>) {
        let _ = run;
    }
}

impl Observer for () {
    #[inline]
    fn see(&mut self, _: &Moment<'_>) {}

    fn wants_moments(&self) -> bool {
        false
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        (**self).see(moment);
    }

    fn wants_moments(&self) -> bool {
        (**self).wants_moments()
    }

    fn see_run(&mut self, run: &Run<'_>) {
        (**self).see_run(run);
    }
}

impl<O: Observer + ?Sized> Observer for Box<O> {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        (**self).see(moment);
    }

    fn wants_moments(&self) -> bool {
        (**self).wants_moments()
    }

    fn see_run(&mut self, run: &Run<'_>) {
        (**self).see_run(run);
    }
}

impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        if let Some(observer) = self {
            observer.see(moment);
        }
    }

    fn wants_moments(&self) -> bool {
        self.as_ref().is_some_and(O::wants_moments)
    }

    fn see_run(&mut self, run: &Run<'_>) {
        if let Some(observer) = self {
            observer.see_run(run);
        }
    }
}

impl<O: Observer> Observer for Vec<O> {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        for observer in self {
            observer.see(moment);
        }
    }

    fn wants_moments(&self) -> bool {
        self.iter().any(O::wants_moments)
    }

    fn see_run(&mut self, run: &Run<'_>) {
        for observer in self {
            observer.see_run(run);
        }
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        self.0.see(moment);
        self.1.see(moment);
    }

    fn wants_moments(&self) -> bool {
        self.0.wants_moments() || self.1.wants_moments()
    }

    fn see_run(&mut self, run: &Run<'_>) {
        self.0.see_run(run);
        self.1.see_run(run);
    }
}
