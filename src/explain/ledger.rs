//! Observers of an explanation: one finds the moment, one keeps what is live until it.

use super::data::Why;
use crate::observe::{Failure, Failures};
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::{BlockId, OutOfMemory, SegmentId, Space, StepKind};
use crate::trace::{Event, PoolId, Slot, StreamId, Trace, Truth};
use crate::units::ppm;

/// Failed events that are told by number.
const TOLD: usize = 20;

/// Looks for the moment that is worth explaining.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub failures: u64,
    pub failed_events: Vec<u64>,
    /// The first request that had failed when recorded, and fails here.
    pub recorded: Option<u64>,
    /// The worst external fragmentation: ppm, free bytes, and the event.
    worst: Option<(u64, u64, u64)>,
}

impl Scan {
    /// The event to explain where none was asked for; the last of all where nothing was
    /// ever free.
    pub fn choose(&self, last: u64) -> (u64, Why) {
        if let Some(event) = self.recorded {
            return (event, Why::RecordedFailure);
        }
        if let Some(event) = self.failed_events.first() {
            return (*event, Why::FirstFailure);
        }
        let event = self.worst.map_or(last, |(_, _, event)| event);
        (event, Why::WorstFragmentation)
    }
}

impl Observer for Scan {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Outcome::Failed(_) = moment.outcome {
            self.failures += 1;
            if self.failed_events.len() < TOLD {
                self.failed_events.push(moment.index);
            }
            if matches!(moment.event, Event::Attempt { .. }) {
                self.recorded.get_or_insert(moment.index);
            }
        }
        let free_bytes = moment.space.counters().free_bytes;
        if free_bytes == 0 || self.failures > 0 {
            return;
        }
        let apart = ppm(free_bytes - moment.largest_free_bytes, free_bytes);
        let (worst_ppm, worst_bytes, _) = self.worst.unwrap_or_default();
        if self.worst.is_none() || (apart, free_bytes) > (worst_ppm, worst_bytes) {
            self.worst = Some((apart, free_bytes, moment.index));
        }
    }
}

/// A live allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub slot: Slot,
    pub block: BlockId,
    /// Number of the request among all requests.
    pub ordinal: u64,
    pub event: u64,
    pub time_ns: u64,
    /// Bytes asked for.
    pub bytes: u64,
    pub stream: StreamId,
    pub pool: PoolId,
    pub tag: u32,
    address: u64,
}

/// Who used a segment, of streams or of pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Users {
    #[default]
    Nobody,
    One(u16),
    Several,
}

impl Users {
    fn add(&mut self, user: u16) {
        *self = match *self {
            Users::Nobody => Users::One(user),
            Users::One(known) if known == user => *self,
            _ => Users::Several,
        };
    }

    /// The only one.
    pub fn one(self) -> Option<u16> {
        match self {
            Users::One(user) => Some(user),
            _ => None,
        }
    }
}

/// Who used a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Owner {
    pub streams: Users,
    pub pools: Users,
}

/// Live bytes of one allocation come or go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub event: u64,
    pub time_ns: u64,
    pub bytes: u64,
    pub tag: u32,
    pub comes: bool,
}

/// All that was seen of the moment.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub space: Space,
    pub live: Vec<Live>,
    pub owners: Vec<Owner>,
    pub requested_bytes: u64,
    pub shortage: Option<OutOfMemory>,
    pub failure: Option<Failure>,
    pub served: bool,
    /// Number of the moment's request among all requests.
    pub ordinal: u64,
}

/// Keeps what is live, and takes everything down at one event.
pub(super) struct Ledger<'a> {
    at: u64,
    truth: Option<&'a Truth>,
    live: Vec<Option<Live>>,
    owners: Vec<Owner>,
    requests: u64,
    /// In the order of time.
    pub changes: Vec<Change>,
    pub taken: Option<Taken>,
}

impl<'a> Ledger<'a> {
    /// Takes everything down after the event `at`.
    pub fn new(trace: &'a Trace, at: u64) -> Self {
        Ledger {
            at,
            truth: trace.truth.as_deref(),
            live: vec![None; trace.slots as usize],
            owners: Vec::new(),
            requests: 0,
            changes: Vec::new(),
            taken: None,
        }
    }

    /// What is there before the first event: what a recording began with.
    pub fn begin(&mut self, trace: &Trace, first: usize, replay: &Replay) {
        for (index, event) in trace.events[..first].iter().enumerate() {
            let Event::Alloc { slot, .. } = *event else {
                continue;
            };
            if let Some(block) = replay.block_of(slot) {
                let time_ns = trace.time_ns(index);
                self.comes(event, block, replay.space(), (index as u64, time_ns));
            }
            self.requests += 1;
        }
        if self.at < first as u64 {
            self.take(replay.space(), replay.totals().requested_bytes);
        }
    }

    fn owner(&mut self, segment: SegmentId) -> &mut Owner {
        let at = segment.0 as usize;
        if at >= self.owners.len() {
            self.owners.resize(at + 1, Owner::default());
        }
        &mut self.owners[at]
    }

    fn comes(&mut self, event: &Event, block: BlockId, space: &Space, when: (u64, u64)) {
        let Event::Alloc {
            slot,
            bytes,
            stream,
            pool,
            tag,
            ..
        } = *event
        else {
            return;
        };
        let owner = self.owner(space.segment(block));
        owner.streams.add(stream);
        owner.pools.add(pool);
        let (event, time_ns) = when;
        self.live[slot as usize] = Some(Live {
            slot,
            block,
            ordinal: self.requests,
            event,
            time_ns,
            bytes,
            stream,
            pool,
            tag,
            address: space.base(block),
        });
        self.changes.push(Change {
            event,
            time_ns,
            bytes,
            tag,
            comes: true,
        });
    }

    fn goes(&mut self, moment: &Moment<'_>, address: u64) {
        let slot = match *moment.event {
            Event::Free { slot, .. } => Some(slot as usize),
            _ => {
                let at = |it: &Option<Live>| it.is_some_and(|live| live.address == address);
                self.live.iter().position(at)
            }
        };
        let Some(live) = slot.and_then(|slot| self.live[slot].take()) else {
            return;
        };
        self.changes.push(Change {
            event: moment.index,
            time_ns: moment.time_ns,
            bytes: live.bytes,
            tag: live.tag,
            comes: false,
        });
    }

    fn take(&mut self, space: &Space, requested_bytes: u64) {
        self.taken = Some(Taken {
            space: space.clone(),
            live: self.live.iter().flatten().copied().collect(),
            owners: self.owners.clone(),
            requested_bytes,
            shortage: None,
            failure: None,
            served: false,
            ordinal: self.requests,
        });
    }

    fn take_moment(&mut self, moment: &Moment<'_>) {
        self.take(moment.space, moment.totals.requested_bytes);
        let Some(taken) = &mut self.taken else {
            return;
        };
        match moment.outcome {
            Outcome::Failed(shortage) => {
                let mut failures = Failures::new(1, self.truth);
                failures.see(moment);
                taken.shortage = Some(shortage);
                taken.failure = failures.records().first().copied();
            }
            Outcome::Served(_) | Outcome::ServedInstant { .. } => taken.served = true,
            _ => {}
        }
    }
}

impl Observer for Ledger<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        for step in moment.space.steps() {
            if let StepKind::Map(segment) | StepKind::Reserve(segment) = step.kind {
                *self.owner(segment) = Owner::default();
            }
        }
        match moment.outcome {
            Outcome::Served(block) => {
                let when = (moment.index, moment.time_ns);
                self.comes(moment.event, block, moment.space, when);
            }
            Outcome::Freed { address, .. } => self.goes(moment, address),
            _ => {}
        }
        if moment.index == self.at {
            self.take_moment(moment);
        }
        if matches!(moment.event, Event::Alloc { .. } | Event::Attempt { .. }) {
            self.requests += 1;
        }
    }
}
