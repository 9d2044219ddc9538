//! The loop: events in, a policy decides over a Space, observers look on.
//!
//! A replay holds one policy. Events are fed in batches, so that one read of a trace
//! can feed many replays and a long trace need not be held.

mod observer;
mod outcome;
mod slots;

use std::collections::HashMap;
use std::hint::black_box;

pub use observer::{Moment, Observer};
pub use outcome::{Outcome, Totals};
use slots::{Slots, Taken};

use crate::policy::Policy;
use crate::space::{BlockId, Cause, OutOfMemory, Request, Space, SpaceConfig, State};
use crate::trace::truth::TruthSegment;
use crate::trace::{ANY_STREAM, Event, Slot, StreamId};

/// From so many blocks on the replay looks ahead: they fill the second cache of a core.
const LOOK_AHEAD_BLOCKS: usize = 40_000;

/// One policy over one Space.
pub struct Replay {
    policy: Box<dyn Policy>,
    space: Space,
    slots: Slots,
    totals: Totals,
    blind: bool,
    knows_largest: bool,
    takes_all: bool,
}

impl Replay {
    /// Starts a policy over a new Space; `config.blind` is set from the policy.
    ///
    /// # Errors
    /// [`OutOfMemory`] where the policy could not take what it starts with.
    pub fn new(mut policy: Box<dyn Policy>, mut config: SpaceConfig) -> Result<Self, OutOfMemory> {
        let blind = policy.blind();
        config.blind = blind;
        let mut space = Space::new(config);
        policy.start(&mut space)?;
        let knows_largest = policy.largest_free(&space).is_some();
        if !knows_largest {
            space.track_largest();
        }
        let takes_all = space.counters().reserved_bytes >= space.capacity_bytes();
        Ok(Replay {
            policy,
            space,
            takes_all,
            slots: Slots::default(),
            totals: Totals::default(),
            blind,
            knows_largest,
        })
    }

    /// Feeds a batch of events. `times_ns` has one time an event, or is empty: then an
    /// event counts [`DEFAULT_STEP_NS`](crate::trace::DEFAULT_STEP_NS).
    ///
    /// # Panics
    /// If the policy breaks a rule of the Space (the panic names the event), or a slot
    /// is used in a way that no reader of the crate lets through.
    pub fn feed<O: Observer>(&mut self, events: &[Event], times_ns: &[u64], observer: &mut O) {
        let is_large = self.space.blocks_made() >= LOOK_AHEAD_BLOCKS;
        for (at, event) in events.iter().enumerate() {
            let index = self.totals.events;
            let time_ns = times_ns
                .get(at)
                .copied()
                .unwrap_or(index * crate::trace::DEFAULT_STEP_NS);
            self.space.begin_event(index, time_ns);
            if is_large {
                self.look_ahead(events, at);
            }
            let outcome = self.step(event, time_ns);
            self.totals.events += 1;
            let largest_free_bytes = self.largest_free_bytes();
            observer.see(&Moment {
                index,
                time_ns,
                event,
                outcome,
                space: &self.space,
                totals: &self.totals,
                largest_free_bytes,
                footprint_bytes: self.footprint_bytes(),
            });
        }
    }

    /// Reads what the frees soon to come will read, so that the misses of the cache overlap
    /// instead of following one another: slots first, then blocks, then their neighbours.
    #[inline]
    fn look_ahead(&self, events: &[Event], at: usize) {
        let slot_at = |ahead: usize| match events.get(at + ahead) {
            Some(Event::Free { slot, .. }) => Some(*slot),
            _ => None,
        };
        let block_at = |ahead: usize| self.slots.block_of(slot_at(ahead)?);
        black_box(block_at(24));
        black_box(block_at(16).map(|block| self.space.base(block)));
        if let Some(block) = block_at(8) {
            black_box(self.space.free_prev(block));
            black_box(self.space.free_next(block));
        }
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
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let mut asked: HashMap<Slot, u64> = HashMap::new();
        asked.extend(blocks.filter_map(|block| Some((block.slot?, block.requested_bytes))));
        for (slot, block) in placed {
            if self.space.state(block) == State::Pending {
                self.slots.await_end(slot, block);
                continue;
            }
            let requested_bytes = asked.get(&slot).copied().unwrap_or(0);
            let bytes = self.space.bytes(block);
            self.slots.hold(slot, block, bytes, requested_bytes);
            self.totals.requested_bytes += requested_bytes;
        }
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
        &self.totals
    }

    /// The largest Free block now, in bytes.
    #[inline]
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        if self.knows_largest {
            self.policy.largest_free(&self.space).unwrap_or(0)
        } else {
            self.space.tracked_largest()
        }
    }

    /// What the policy holds of the card now, in bytes.
    #[inline]
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        let counters = self.space.counters();
        if self.takes_all {
            counters.high_bytes
        } else {
            counters.reserved_bytes
        }
    }

    /// Whether the policy took its whole capacity at the start.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// The block that serves a slot now.
    #[must_use]
    pub fn block_of(&self, slot: Slot) -> Option<BlockId> {
        self.slots.block_of(slot)
    }

    #[inline]
    fn step(&mut self, event: &Event, time_ns: u64) -> Outcome {
        match *event {
            Event::Alloc {
                slot,
                bytes,
                align_log2,
                stream,
                pool,
                tag,
            } => {
                let request = Request {
                    bytes,
                    align: 1 << align_log2,
                    stream,
                    pool,
                    tag,
                };
                self.alloc(slot, &request, time_ns)
            }
            Event::Free {
                slot,
                stream,
                deferred,
            } => self.free(slot, stream, deferred),
            _ => self.rare(event, time_ns),
        }
    }

    /// Every event but requests and frees.
    #[inline(never)]
    fn rare(&mut self, event: &Event, time_ns: u64) -> Outcome {
        match *event {
            Event::Attempt {
                bytes,
                align_log2,
                stream,
                pool,
                tag,
            } => {
                let request = Request {
                    bytes,
                    align: 1 << align_log2,
                    stream,
                    pool,
                    tag,
                };
                self.attempt(&request, time_ns)
            }
            Event::Complete { slot } => self.complete(slot),
            Event::FreeAgain { .. } => {
                self.totals.double_frees += 1;
                Outcome::DoubleFree
            }
            Event::FreeUnknown { .. } => self.unknown_free(Outcome::UnknownFree),
            Event::FreeAt { address } => self.free_at(address),
            Event::Compact => match self.policy.compact(&mut self.space) {
                Some(done) => Outcome::Compacted {
                    moves: done.moves,
                    moved_bytes: done.moved_bytes,
                },
                None => Outcome::Unsupported,
            },
            _ => {
                self.order_or_hint(event);
                Outcome::Done
            }
        }
    }

    /// Events that ask for nothing and free nothing.
    fn order_or_hint(&mut self, event: &Event) {
        match *event {
            Event::Record { stream, event } => self.space.record(stream, event),
            Event::Wait { stream, event } => {
                self.space.wait_event(stream, event);
                self.policy.ordered(&mut self.space);
            }
            Event::Sync { stream } => {
                self.space.sync(stream);
                self.policy.ordered(&mut self.space);
            }
            Event::Use { slot, stream } => {
                if let Some(block) = self.block_of(slot) {
                    let stream = (stream != ANY_STREAM).then_some(stream);
                    self.policy.use_on(block, stream, &mut self.space);
                }
            }
            Event::Pin { slot } => self.pin(slot, true),
            Event::Unpin { slot } => self.pin(slot, false),
            Event::Trim => self.policy.trim(&mut self.space),
            Event::Pool { step, pool, stream } => {
                self.policy.pool(step, pool, stream, &mut self.space);
            }
            Event::Mark { label } => self.policy.mark(label, &mut self.space),
            _ => unreachable!("requests and frees are handled in step"),
        }
    }

    fn pin(&mut self, slot: Slot, pinned: bool) {
        if let Some(block) = self.block_of(slot) {
            self.space.set_pinned(block, pinned);
        }
    }

    /// Counts a request, and serves it if it can be: the block and its bytes, or what
    /// became of the request.
    #[inline]
    fn ask(&mut self, request: &Request, time_ns: u64) -> Result<(BlockId, u64), Outcome> {
        self.totals.requests += 1;
        if time_ns < self.space.paused_until_ns() {
            self.totals.delayed_requests += 1;
        }
        if request.bytes == 0 {
            self.totals.zero_sizes += 1;
            return Err(Outcome::ZeroSize);
        }
        match self.policy.alloc(request, &mut self.space) {
            Ok(block) => {
                let bytes = self.space.bytes(block);
                if self.space.state(block) != State::Used || bytes < request.bytes {
                    self.unserved(request);
                }
                self.totals.served += 1;
                Ok((block, bytes))
            }
            Err(shortage) => {
                self.totals.failed += 1;
                if shortage.cause == Cause::Overflow {
                    self.totals.overflows += 1;
                }
                Err(Outcome::Failed(shortage))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn unserved(&self, request: &Request) -> ! {
        panic!(
            "event {}: the policy answered with a block that does not serve the request of {} \
             bytes",
            self.totals.events, request.bytes
        )
    }

    #[inline]
    fn alloc(&mut self, slot: Slot, request: &Request, time_ns: u64) -> Outcome {
        let answer = self.ask(request, time_ns);
        assert!(
            !self.slots.is_taken(slot),
            "event {}: slot {slot} is taken by a live block",
            self.totals.events
        );
        match answer {
            Ok((block, bytes)) => {
                self.slots.hold(slot, block, bytes, request.bytes);
                self.totals.requested_bytes += request.bytes;
                Outcome::Served(block)
            }
            Err(outcome) => {
                self.slots.refuse(slot);
                outcome
            }
        }
    }

    fn attempt(&mut self, request: &Request, time_ns: u64) -> Outcome {
        let (block, bytes) = match self.ask(request, time_ns) {
            Ok(served) => served,
            Err(outcome) => return outcome,
        };
        let address = self.space.base(block);
        self.policy
            .free(block, request.stream, false, &mut self.space);
        self.totals.instants += 1;
        self.totals.first_instant.get_or_insert(self.totals.events);
        Outcome::ServedInstant { address, bytes }
    }

    #[inline]
    fn free(&mut self, slot: Slot, stream: StreamId, deferred: bool) -> Outcome {
        let (block, rest) = match self.slots.take(slot) {
            Taken::Live(block, rest) => (block, rest),
            Taken::FreedByAddress => {
                self.totals.double_frees += 1;
                return Outcome::DoubleFree;
            }
            Taken::Nothing => return self.unknown_free(Outcome::UnknownFree),
        };
        let (address, bytes) = (self.space.base(block), self.space.bytes(block));
        let requested_bytes = match rest {
            Some(rest) => bytes - u64::from(rest),
            None => self.slots.take_aside(slot),
        };
        self.totals.requested_bytes -= requested_bytes;
        let pending = deferred && !self.blind;
        self.policy.free(block, stream, pending, &mut self.space);
        if pending {
            self.slots.await_end(slot, block);
        }
        Outcome::Freed {
            address,
            bytes,
            requested_bytes,
            deferred: pending,
        }
    }

    /// The end of a deferred free. A policy that completed the block by itself (a retry
    /// after a shortage) may have used its handle for something else since: the event is
    /// then ignored.
    fn complete(&mut self, slot: Slot) -> Outcome {
        if self.blind {
            return Outcome::Done;
        }
        let awaited = self.slots.awaited(slot);
        let awaited = awaited.filter(|block| self.space.state(*block) == State::Pending);
        let Some(block) = awaited else {
            return Outcome::Done;
        };
        self.slots.end_wait(block);
        self.policy.complete(block, &mut self.space);
        Outcome::Completed
    }

    fn unknown_free(&mut self, outcome: Outcome) -> Outcome {
        self.totals.unknown_frees += 1;
        outcome
    }

    /// A free of a raw offset into the first segment.
    fn free_at(&mut self, offset: u64) -> Outcome {
        let Some(segment) = self.space.segments().next() else {
            return self.unknown_free(Outcome::OutOfRange);
        };
        if offset >= self.space.segment_bytes(segment) {
            return self.unknown_free(Outcome::OutOfRange);
        }
        let address = self.space.segment_base(segment) + offset;
        let block = self.space.find(address).expect("the segment is tiled");
        if self.space.state(block) != State::Used {
            return self.unknown_free(Outcome::UnknownPointer);
        }
        if self.space.base(block) != address {
            return self.unknown_free(Outcome::InteriorPointer);
        }
        let slot = self.slots.slot_of(block);
        let slot = slot.expect("every used block serves a slot");
        let outcome = self.free(slot, self.space.stream(block), false);
        self.slots.mark_freed_by_address(slot);
        outcome
    }
}
