//! The loop: events in, a policy decides over a Space, observers look on.
//!
//! A replay holds one policy. Events are fed in batches, so that one read of a trace
//! can feed many replays and a long trace need not be held.

use std::collections::HashMap;

use crate::policy::Policy;
use crate::space::{BlockId, OutOfMemory, Request, Space, SpaceConfig, State};
use crate::trace::truth::TruthSegment;
use crate::trace::{ANY_STREAM, Event, Slot, StreamId};

/// What an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request was served by the block.
    Served(BlockId),
    /// A request that failed when it was recorded was served for an instant, here at
    /// this address, and given back at once.
    ServedInstant {
        /// Address it had.
        address: u64,
        /// Bytes of the block.
        bytes: u64,
    },
    /// The request was not served.
    Failed(OutOfMemory),
    /// A request of no bytes: nothing is handed out.
    ZeroSize,
    /// A block was given back.
    Freed {
        /// Address it had.
        address: u64,
        /// Bytes of the block.
        bytes: u64,
        /// Bytes that had been asked for.
        requested_bytes: u64,
        /// The block was Pending afterwards.
        deferred: bool,
    },
    /// A deferred free became reusable.
    Completed,
    /// A free of an allocation that was freed before: nothing happens.
    DoubleFree,
    /// A free of something never allocated, of no bytes, or of a failed request: nothing happens.
    UnknownFree,
    /// A free of an address inside a used block: nothing happens.
    InteriorPointer,
    /// A free of an address that no block in use holds: nothing happens.
    UnknownPointer,
    /// A free of an address outside the segment: nothing happens.
    OutOfRange,
    /// A compaction on request ran.
    Compacted {
        /// Blocks moved.
        moves: u64,
        /// Bytes moved.
        moved_bytes: u64,
    },
    /// The policy does not compact.
    Unsupported,
    /// The event was carried out, or had nothing to act on.
    Done,
}

/// Sums over the events so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Requests, of every outcome.
    pub requests: u64,
    /// Requests served.
    pub served: u64,
    /// Requests not served, overflows included.
    pub failed: u64,
    /// Requests of no bytes.
    pub zero_sizes: u64,
    /// Requests whose rounded size passes the largest integer.
    pub overflows: u64,
    /// Frees of what was freed before.
    pub double_frees: u64,
    /// Frees of what was never allocated, had failed or had no bytes, and of bad pointers.
    pub unknown_frees: u64,
    /// Requests that arrived while blocks were being moved.
    pub delayed_requests: u64,
    /// Bytes asked for by live blocks at the moment.
    pub requested_bytes: u64,
    /// Requests that failed when recorded and were served here for an instant.
    pub instants: u64,
    /// Number of the first event of those; what follows it is counterfactual.
    pub first_instant: Option<u64>,
}

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
    fn see(&mut self, _: &Moment<'_>) {}
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn see(&mut self, moment: &Moment<'_>) {
        (**self).see(moment);
    }
}

impl<O: Observer + ?Sized> Observer for Box<O> {
    fn see(&mut self, moment: &Moment<'_>) {
        (**self).see(moment);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Some(observer) = self {
            observer.see(moment);
        }
    }
}

impl<O: Observer> Observer for Vec<O> {
    fn see(&mut self, moment: &Moment<'_>) {
        for observer in self {
            observer.see(moment);
        }
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0.see(moment);
        self.1.see(moment);
    }
}

/// What a slot holds: a block, or why there is none.
#[derive(Debug, Clone, Copy)]
struct Held {
    requested_bytes: u64,
    block: u32,
}

/// The slot holds nothing: never allocated, or freed.
const EMPTY: u32 = u32::MAX;
/// The request was not served, or had no bytes: its free names nothing.
const REFUSED: u32 = u32::MAX - 1;
/// Marks a slot whose block was freed by its address.
const FREED_BY_ADDRESS: u32 = u32::MAX - 2;

/// One policy over one Space.
pub struct Replay {
    policy: Box<dyn Policy>,
    space: Space,
    slots: Vec<Held>,
    /// The slot whose free each Pending block waits for, by block handle.
    deferred_for: Vec<Slot>,
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
            slots: Vec::new(),
            deferred_for: Vec::new(),
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
        for (at, event) in events.iter().enumerate() {
            let index = self.totals.events;
            let time_ns = times_ns
                .get(at)
                .copied()
                .unwrap_or(index * crate::trace::DEFAULT_STEP_NS);
            self.space.begin_event(index, time_ns);
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
            let at = slot as usize;
            if at >= self.slots.len() {
                self.slots.resize(
                    at + 1,
                    Held {
                        requested_bytes: 0,
                        block: EMPTY,
                    },
                );
            }
            if self.space.state(block) == State::Pending {
                self.await_end(slot, block);
                continue;
            }
            let requested_bytes = asked.get(&slot).copied().unwrap_or(0);
            self.slots[at] = Held {
                requested_bytes,
                block: block.0,
            };
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
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        if self.knows_largest {
            self.policy.largest_free(&self.space).unwrap_or(0)
        } else {
            self.space.tracked_largest()
        }
    }

    /// What the policy holds of the card now, in bytes.
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
        let held = self.slots.get(slot as usize)?;
        (held.block < FREED_BY_ADDRESS).then_some(BlockId(held.block))
    }

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

    /// Counts a request, and serves it if it can be.
    fn ask(&mut self, request: &Request, time_ns: u64) -> Outcome {
        self.totals.requests += 1;
        if time_ns < self.space.paused_until_ns() {
            self.totals.delayed_requests += 1;
        }
        if request.bytes == 0 {
            self.totals.zero_sizes += 1;
            return Outcome::ZeroSize;
        }
        match self.policy.alloc(request, &mut self.space) {
            Ok(block) => {
                if self.space.state(block) != State::Used || self.space.bytes(block) < request.bytes
                {
                    panic!(
                        "event {}: the policy answered with a block that does not serve the \
                         request of {} bytes",
                        self.totals.events, request.bytes
                    );
                }
                self.totals.served += 1;
                Outcome::Served(block)
            }
            Err(shortage) => {
                self.totals.failed += 1;
                if shortage.cause == crate::space::Cause::Overflow {
                    self.totals.overflows += 1;
                }
                Outcome::Failed(shortage)
            }
        }
    }

    fn alloc(&mut self, slot: Slot, request: &Request, time_ns: u64) -> Outcome {
        let outcome = self.ask(request, time_ns);
        let at = slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(
                at + 1,
                Held {
                    requested_bytes: 0,
                    block: EMPTY,
                },
            );
        }
        let held = &mut self.slots[at];
        assert!(
            held.block >= FREED_BY_ADDRESS,
            "event {}: slot {slot} is taken by a live block",
            self.totals.events
        );
        if let Outcome::Served(block) = outcome {
            *held = Held {
                requested_bytes: request.bytes,
                block: block.0,
            };
            self.totals.requested_bytes += request.bytes;
        } else {
            *held = Held {
                requested_bytes: 0,
                block: REFUSED,
            };
        }
        outcome
    }

    fn attempt(&mut self, request: &Request, time_ns: u64) -> Outcome {
        let outcome = self.ask(request, time_ns);
        let Outcome::Served(block) = outcome else {
            return outcome;
        };
        let (address, bytes) = (self.space.base(block), self.space.bytes(block));
        self.policy
            .free(block, request.stream, false, &mut self.space);
        self.totals.instants += 1;
        self.totals.first_instant.get_or_insert(self.totals.events);
        Outcome::ServedInstant { address, bytes }
    }

    fn free(&mut self, slot: Slot, stream: StreamId, deferred: bool) -> Outcome {
        let held = match self.slots.get_mut(slot as usize) {
            Some(held) => std::mem::replace(
                held,
                Held {
                    requested_bytes: 0,
                    block: EMPTY,
                },
            ),
            None => Held {
                requested_bytes: 0,
                block: EMPTY,
            },
        };
        match held.block {
            FREED_BY_ADDRESS => {
                self.totals.double_frees += 1;
                return Outcome::DoubleFree;
            }
            EMPTY | REFUSED => return self.unknown_free(Outcome::UnknownFree),
            _ => {}
        }
        let block = BlockId(held.block);
        let (address, bytes) = (self.space.base(block), self.space.bytes(block));
        self.totals.requested_bytes -= held.requested_bytes;
        let pending = deferred && !self.blind;
        self.policy.free(block, stream, pending, &mut self.space);
        if pending {
            self.await_end(slot, block);
        }
        Outcome::Freed {
            address,
            bytes,
            requested_bytes: held.requested_bytes,
            deferred: pending,
        }
    }

    /// The block of a slot is Pending: the slot's `Complete` ends that.
    fn await_end(&mut self, slot: Slot, block: BlockId) {
        let at = block.0 as usize;
        if at >= self.deferred_for.len() {
            self.deferred_for.resize(at + 1, EMPTY);
        }
        self.deferred_for[at] = slot;
        self.slots[slot as usize] = Held {
            requested_bytes: u64::from(block.0),
            block: EMPTY,
        };
    }

    /// The end of a deferred free. A policy that completed the block by itself (a retry
    /// after a shortage) may have used its handle for something else since: the event is
    /// then ignored.
    fn complete(&mut self, slot: Slot) -> Outcome {
        if self.blind {
            return Outcome::Done;
        }
        let Some(held) = self.slots.get(slot as usize) else {
            return Outcome::Done;
        };
        let block = held.requested_bytes as u32;
        let waits = held.block == EMPTY
            && self.deferred_for.get(block as usize) == Some(&slot)
            && self.space.state(BlockId(block)) == State::Pending;
        if !waits {
            return Outcome::Done;
        }
        self.deferred_for[block as usize] = EMPTY;
        self.policy.complete(BlockId(block), &mut self.space);
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
        let slot = self.slots.iter().position(|held| held.block == block.0);
        let slot = slot.expect("every used block serves a slot") as Slot;
        let outcome = self.free(slot, self.space.stream(block), false);
        self.slots[slot as usize].block = FREED_BY_ADDRESS;
        outcome
    }
}
