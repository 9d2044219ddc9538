//! The loop over plain requests and frees, compiled once for each policy.

use std::hint::black_box;

use super::{Glance, Glances, Ledger, Outcome, RUN};
use crate::policy::Policy;
use crate::space::{Request, Space};
use crate::trace::{DEFAULT_STEP_NS, Event};

/// From so many blocks on a run looks ahead: they fill the second cache of a core.
const LOOK_AHEAD_BLOCKS: usize = 40_000;

/// Events to carry out, and where to note how things stand after each.
#[derive(Debug)]
pub struct Batch<'a> {
    /// All events at hand.
    pub events: &'a [Event],
    /// Their times in ns; empty where they have none.
    pub times_ns: &'a [u64],
    /// The first event to carry out.
    pub from: usize,
    /// Of each event that is carried out.
    pub glances: &'a mut Glances,
}

/// How far a batch got.
#[derive(Debug)]
pub struct Carried {
    /// So many events served a request or gave a block back; a glance is there for each.
    pub plain: usize,
    /// What the event behind them came to, where it did anything else: it is carried out
    /// too, and nothing behind it.
    pub other: Option<Outcome>,
}

/// Whether what is soon to be read should be read beforehand.
#[inline]
pub(crate) fn looks_ahead(space: &Space) -> bool {
    space.blocks_made() >= LOOK_AHEAD_BLOCKS
}

/// The time of the event at a place of a batch, which is event `index` of the trace, ns.
#[inline]
pub(crate) fn time_of(times_ns: &[u64], at: usize, index: u64) -> u64 {
    let time_ns = times_ns.get(at).copied();
    time_ns.unwrap_or(index * DEFAULT_STEP_NS)
}

impl Ledger {
    /// Carries events out until there is no more room to note anything, or one does
    /// anything but serve a request or give a block back.
    #[inline]
    pub(crate) fn carry<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        batch: Batch<'_>,
    ) -> Carried {
        let Batch {
            events,
            times_ns,
            from,
            glances,
        } = batch;
        let is_large = looks_ahead(space);
        let first = self.totals.events;
        let (mut plain, mut served, mut other) = (0, 0, None);
        let times_ns = times_ns.get(from..).unwrap_or_default();
        for event in events[from..].iter().take(RUN) {
            let index = first + plain as u64;
            space.begin_plain_event(index, time_of(times_ns, plain, index));
            if is_large {
                self.look_ahead(space, events, from + plain);
            }
            match self.plain(policy, space, event) {
                Ok(count) => served += count,
                Err(outcome) => {
                    other = Some(outcome);
                    break;
                }
            }
            let counters = space.counters();
            let glance = Glance {
                requested_bytes: self.totals.requested_bytes,
                used_bytes: counters.used_bytes,
                free_bytes: counters.free_bytes,
                largest_free_bytes: self.largest_free_bytes(policy, space),
                reserved_bytes: counters.reserved_bytes,
                footprint_bytes: self.footprint_bytes(space),
            };
            glances.note(plain, glance);
            plain += 1;
        }
        glances.close(plain);
        self.count_served(served);
        self.totals.events = first + plain as u64 + u64::from(other.is_some());
        Carried { plain, other }
    }

    /// Carries an event out that serves a request or gives a block back: how many requests
    /// were served. Else what the event came to.
    #[inline(always)]
    fn plain<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        event: &Event,
    ) -> Result<u64, Outcome> {
        match *event {
            Event::Alloc { slot, .. } => {
                let request = Request::of(event).expect("an event that asks");
                self.alloc(policy, space, slot, &request).map(|_| 1)
            }
            Event::Free {
                slot,
                stream,
                deferred,
            } => {
                let (block, _) = self.take(slot)?;
                self.give_back(policy, space, slot, block, (stream, deferred));
                Ok(0)
            }
            _ => Err(self.rare(policy, space, event)),
        }
    }

    /// Reads what the frees soon to come will read, so that the misses of the cache overlap
    /// instead of following one another: slots first, then blocks, then their neighbours.
    #[inline]
    pub(crate) fn look_ahead(&self, space: &Space, events: &[Event], at: usize) {
        let slot_at = |ahead: usize| match events.get(at + ahead) {
            Some(Event::Free { slot, .. }) => Some(*slot),
            _ => None,
        };
        let block_at = |ahead: usize| self.slots.block_of(slot_at(ahead)?);
        black_box(block_at(24));
        black_box(block_at(16).map(|block| space.base(block)));
        if let Some(block) = block_at(8) {
            black_box(space.free_prev(block));
            black_box(space.free_next(block));
        }
    }
}
