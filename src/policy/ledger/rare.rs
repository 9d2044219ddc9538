//! Every event but requests and frees.

use super::{Ledger, Outcome};
use crate::policy::Policy;
use crate::space::{Request, Space, State};
use crate::trace::{ANY_STREAM, Event, Slot};

impl Ledger {
    /// Every event but requests and frees.
    #[inline(never)]
    pub(super) fn rare<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        event: &Event,
    ) -> Outcome {
        match *event {
            Event::Attempt { .. } => {
                let request = Request::of(event).expect("an event that asks");
                self.attempt(policy, space, &request)
            }
            Event::Complete { slot } => self.complete(policy, space, slot),
            Event::FreeAgain { .. } => {
                self.totals.double_frees += 1;
                Outcome::DoubleFree
            }
            Event::FreeUnknown { .. } => self.unknown_free(Outcome::UnknownFree),
            Event::FreeAt { address } => self.free_at(policy, space, address),
            Event::Compact => match policy.compact(space) {
                Some(done) => Outcome::Compacted {
                    moves: done.moves,
                    moved_bytes: done.moved_bytes,
                },
                None => Outcome::Unsupported,
            },
            _ => {
                self.order_or_hint(policy, space, event);
                Outcome::Done
            }
        }
    }

    /// Events that ask for nothing and free nothing.
    fn order_or_hint<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        event: &Event,
    ) {
        match *event {
            Event::Record { stream, event } => space.record(stream, event),
            Event::Wait { stream, event } => {
                space.wait_event(stream, event);
                policy.ordered(space);
            }
            Event::Sync { stream } => {
                space.sync(stream);
                policy.ordered(space);
            }
            Event::Use { slot, stream } => {
                if let Some(block) = self.slots.block_of(slot) {
                    let stream = (stream != ANY_STREAM).then_some(stream);
                    policy.use_on(block, stream, space);
                }
            }
            Event::Pin { slot } => self.pin(space, slot, true),
            Event::Unpin { slot } => self.pin(space, slot, false),
            Event::Trim => policy.trim(space),
            Event::Pool { step, pool, stream } => {
                policy.pool(step, pool, stream, space);
            }
            Event::Mark { label } => policy.mark(label, space),
            _ => unreachable!("requests and frees are handled in step"),
        }
    }

    fn pin(&self, space: &mut Space, slot: Slot, pinned: bool) {
        if let Some(block) = self.slots.block_of(slot) {
            space.set_pinned(block, pinned);
        }
    }

    fn attempt<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        request: &Request,
    ) -> Outcome {
        let block = match self.ask(policy, space, request) {
            Ok(block) => block,
            Err(outcome) => return outcome,
        };
        self.count_served(1);
        let (address, bytes) = (space.base(block), space.bytes(block));
        policy.free(block, request.stream, false, space);
        self.totals.instants += 1;
        self.totals.first_instant.get_or_insert(space.event());
        Outcome::ServedInstant { address, bytes }
    }

    /// The end of a deferred free. A policy that completed the block by itself (a retry
    /// after a shortage) may have used its handle for something else since: the event is
    /// then ignored.
    fn complete<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        slot: Slot,
    ) -> Outcome {
        if self.blind {
            return Outcome::Done;
        }
        let awaited = self.slots.awaited(slot);
        let awaited = awaited.filter(|block| space.state(*block) == State::Pending);
        let Some(block) = awaited else {
            return Outcome::Done;
        };
        self.slots.end_wait(block);
        policy.complete(block, space);
        Outcome::Completed
    }

    /// A free of a raw offset into the first segment.
    fn free_at<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        space: &mut Space,
        offset: u64,
    ) -> Outcome {
        let Some(segment) = space.segments().next() else {
            return self.unknown_free(Outcome::OutOfRange);
        };
        if offset >= space.segment_bytes(segment) {
            return self.unknown_free(Outcome::OutOfRange);
        }
        let address = space.segment_base(segment) + offset;
        let block = space.find(address).expect("the segment is tiled");
        if space.state(block) != State::Used {
            return self.unknown_free(Outcome::UnknownPointer);
        }
        if space.base(block) != address {
            return self.unknown_free(Outcome::InteriorPointer);
        }
        let slot = self.slots.slot_of(block);
        let slot = slot.expect("every used block serves a slot");
        let outcome = self.free_as(policy, space, slot, space.stream(block), false);
        self.slots.mark_freed_by_address(slot);
        outcome
    }
}
