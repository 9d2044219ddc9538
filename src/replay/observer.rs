//! Who looks on, and what there is to see.

use super::{Outcome, Totals};
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

/// Looks on; sees every event once, after it happened.
pub trait Observer {
    /// One event happened.
    fn see(&mut self, moment: &Moment<'_>);
}

impl Observer for () {
    #[inline]
    fn see(&mut self, _: &Moment<'_>) {}
}

impl<O: Observer + ?Sized> Observer for &mut O {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        (**self).see(moment);
    }
}

impl<O: Observer + ?Sized> Observer for Box<O> {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        (**self).see(moment);
    }
}

impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        if let Some(observer) = self {
            observer.see(moment);
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
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        self.0.see(moment);
        self.1.see(moment);
    }
}
