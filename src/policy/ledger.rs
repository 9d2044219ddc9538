//! What the program holds at a policy, the sums over all events, and how one event changes
//! both: the step of a replay.
//!
//! It stands beside the policies because of [`Policy::carry`]: the loop over plain requests
//! and frees is compiled once for every policy, which then costs one virtual call a batch.

mod glances;
mod outcome;
mod rare;
mod run;
mod slots;

use std::collections::HashMap;

pub use glances::{Columns, Glance, Glances, RUN};
pub use outcome::{Outcome, Totals};
pub use run::{Batch, Carried};
pub(crate) use run::{looks_ahead, time_of};
use slots::{Slots, Taken};

use super::Policy;
use crate::space::{BlockId, Cause, OutOfMemory, Request, Space, State};
use crate::trace::truth::TruthSegment;
use crate::trace::{Event, Slot, StreamId};

/// The blocks of the slots, and the sums.
#[derive(Debug)]
pub struct Ledger {
    slots: Slots,
    totals: Totals,
    blind: bool,
    takes_all: bool,
}

impl Ledger {
    /// An empty ledger for a policy that has started over `space`, whose sizes are kept in
    /// order from here on where the policy does not know its largest block.
    pub(crate) fn new(policy: &dyn Policy, space: &mut Space) -> Self {
        if policy.largest_free(space).is_none() {
            space.track_largest();
        }
        Ledger {
            blind: policy.blind(),
            takes_all: space.counters().reserved_bytes >= space.capacity_bytes(),
            slots: Slots::default(),
            totals: Totals::default(),
        }
    }

    /// The sums so far.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Whether the policy took its whole capacity at the start.
    pub(crate) fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// The block that serves a slot now.
    #[inline]
    pub(crate) fn block_of(&self, slot: Slot) -> Option<BlockId> {
        self.slots.block_of(slot)
    }

    /// The largest Free block now, in bytes.
    #[inline]
    pub(crate) fn largest_free_bytes<P: Policy + ?Sized>(&self, policy: &P, space: &Space) -> u64 {
        match policy.largest_free(space) {
            Some(bytes) => bytes,
            None => space.tracked_largest(),
        }
    }

    /// What the policy holds of the card now, in bytes.
    #[inline]
    pub(crate) fn footprint_bytes(&self, space: &Space) -> u64 {
        let counters = space.counters();
        if self.takes_all {
            counters.high_bytes
        } else {
            counters.reserved_bytes
        }
    }

    /// Takes over the blocks that were placed before a recording began.
    pub(crate) fn adopt(
        &mut self,
        placed: Vec<(Slot, BlockId)>,
        segments: &[TruthSegment],
        space: &Space,
    ) {
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let mut asked: HashMap<Slot, u64> = HashMap::new();
        asked.extend(blocks.filter_map(|block| Some((block.slot?, block.requested_bytes))));
        for (slot, block) in placed {
            if space.state(block) == State::Pending {
                self.slots.await_end(slot, block);
                continue;
            }
            let requested_bytes = asked.get(&slot).copied().unwrap_or(0);
            self.slots.hold(slot, block, requested_bytes);
            self.totals.requested_bytes += requested_bytes;
        }
    }

    /// Carries one event out.
    #[inline]
    pub(crate) fn step<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        event: &Event,
    ) -> Outcome {
        let outcome = match *event {
            Event::Alloc { slot, .. } => {
                let request = Request::of(event).expect("an event that asks");
                match self.alloc(policy, space, slot, &request) {
                    Ok(block) => {
                        self.count_served(1);
                        Outcome::Served(block)
                    }
                    Err(outcome) => outcome,
                }
            }
            Event::Free {
                slot,
                stream,
                deferred,
            } => self.free_as(policy, space, slot, stream, deferred),
            _ => self.rare(policy, space, event),
        };
        self.totals.events += 1;
        outcome
    }

    fn free_as<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        slot: Slot,
        stream: StreamId,
        deferred: bool,
    ) -> Outcome {
        let (block, requested_bytes) = match self.take(slot) {
            Ok(taken) => taken,
            Err(outcome) => return outcome,
        };
        let (address, bytes) = (space.base(block), space.bytes(block));
        let deferred = self.give_back(policy, space, slot, block, (stream, deferred));
        Outcome::Freed {
            address,
            bytes,
            requested_bytes,
            deferred,
        }
    }

    /// Serves a request if it can be: the block, or what became of the request. Who asks
    /// counts what was served.
    #[inline(always)]
    fn ask<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        request: &Request,
    ) -> Result<BlockId, Outcome> {
        if space.now_ns() < space.paused_until_ns() {
            self.totals.delayed_requests += 1;
        }
        if request.bytes == 0 {
            return Err(self.nothing());
        }
        match policy.alloc(request, space) {
            Ok(block) => {
                if !space.serves(block, request.bytes) {
                    unserved(request.bytes, space);
                }
                Ok(block)
            }
            Err(shortage) => Err(self.short(shortage)),
        }
    }

    #[cold]
    #[inline(never)]
    fn nothing(&mut self) -> Outcome {
        self.totals.requests += 1;
        self.totals.zero_sizes += 1;
        Outcome::ZeroSize
    }

    #[cold]
    #[inline(never)]
    fn short(&mut self, shortage: OutOfMemory) -> Outcome {
        self.totals.requests += 1;
        self.totals.failed += 1;
        if shortage.cause == Cause::Overflow {
            self.totals.overflows += 1;
        }
        Outcome::Failed(shortage)
    }

    /// Counts requests that were served.
    #[inline]
    fn count_served(&mut self, count: u64) {
        self.totals.requests += count;
        self.totals.served += count;
    }

    #[inline(always)]
    fn alloc<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        slot: Slot,
        request: &Request,
    ) -> Result<BlockId, Outcome> {
        let answer = self.ask(policy, space, request);
        let was_empty = match answer {
            Ok(block) => self.slots.hold(slot, block, request.bytes),
            Err(_) => self.slots.refuse(slot),
        };
        if !was_empty {
            taken(slot, space);
        }
        if answer.is_ok() {
            self.totals.requested_bytes += request.bytes;
        }
        answer
    }

    /// Empties a slot: its block and the bytes asked for, or why there is nothing to free.
    #[inline]
    fn take(&mut self, slot: Slot) -> Result<(BlockId, u64), Outcome> {
        match self.slots.take(slot) {
            Taken::Live(block, requested_bytes) => {
                self.totals.requested_bytes -= requested_bytes;
                Ok((block, requested_bytes))
            }
            Taken::FreedByAddress => {
                self.totals.double_frees += 1;
                Err(Outcome::DoubleFree)
            }
            Taken::Nothing => Err(self.unknown_free(Outcome::UnknownFree)),
        }
    }

    /// Gives the block of an emptied slot back to the policy; whether it is Pending now.
    #[inline]
    fn give_back<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        slot: Slot,
        block: BlockId,
        (stream, deferred): (StreamId, bool),
    ) -> bool {
        let pending = deferred && !self.blind;
        policy.free(block, stream, pending, space);
        if pending {
            self.slots.await_end(slot, block);
        }
        pending
    }

    fn unknown_free(&mut self, outcome: Outcome) -> Outcome {
        self.totals.unknown_frees += 1;
        outcome
    }
}

#[cold]
#[inline(never)]
fn unserved(bytes: u64, space: &Space) -> ! {
    panic!(
        "event {}: the policy answered with a block that does not serve the request of {bytes} bytes",
        space.event(),
    )
}

#[cold]
#[inline(never)]
fn taken(slot: Slot, space: &Space) -> ! {
    panic!(
        "event {}: slot {slot} is taken by a live block",
        space.event()
    )
}
