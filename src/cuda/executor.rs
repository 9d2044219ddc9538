//! Carries out on a card what a replay decided, step by step.
//!
//! Work that uses a block goes to the block's own stream, and what frees it follows what
//! used it, as a program that frees a block has seen to. Everything else that orders
//! streams is the trace's or the policy's: where one of them forgets to, the card finds a
//! broken pattern. A policy that leaves the order of streams to others has the executor for
//! that: each stream that it serves goes on behind all others. Before memory is unmapped or moved the host waits, as CUDA demands.

mod aliases;
mod judge;
mod pages;
mod paging;
mod steps;

use std::sync::Arc;

use super::card::{Card, CardError, Span};
use super::row::CardRow;
use super::tenants::{Tenant, Tenants};
use super::validate::{Coverage, Fault, How};
use crate::experiment::Scene;
use crate::policy::{Chosen, cuda_malloc_async};
use crate::replay::{Moment, Observer};
use crate::space::{BlockId, Device, Space};
use crate::trace::{ANY_STREAM, Event, Slot, StreamId};
use crate::units::GIB;
use pages::{Paging, Piece};
use steps::At;

/// What a run may hold beyond the capacity, staging and results of checks included.
pub(super) const BESIDE_BYTES: u64 = 2 * GIB;
/// Of a block, where only its edges are checked.
const EDGE_BYTES: u64 = 4096;
/// How long a late check is late.
const LAG_NS: u64 = 2_000_000;
/// Checks that come late; the rest would only take time.
const MOST_LAGS: u64 = 200;
/// Comparisons with the device's free memory besides those at marks.
const EVEN_LOOKS: u64 = 32;

/// What the executor must know beforehand.
#[derive(Debug, Clone)]
pub struct Plan {
    device: Arc<Device>,
    capacity_bytes: u64,
    how: How,
    /// For the driver's own pool: what it keeps when the host waits.
    pool_keeps_bytes: Option<u64>,
    /// Between two looks, in events.
    look_every: u64,
    /// Streams that the policy leaves to others to order; 0 where it orders them itself.
    streams_to_order: StreamId,
}

impl Plan {
    /// The plan for one policy over a scene. `cuda-malloc-async` is served by the
    /// driver's own pool: its steps are predictions, and only its requests are real. A
    /// `blind` policy leaves the order of streams to others: here, to the executor.
    #[must_use]
    pub fn new(scene: &Scene, chosen: &Chosen, blind: bool, how: How) -> Self {
        let pooled = chosen.algorithm == "cuda-malloc-async";
        let spec = || chosen.parameters.clone().try_into().unwrap_or_default();
        let keeps = |spec: cuda_malloc_async::Spec| spec.release_threshold;
        Plan {
            device: Arc::clone(&scene.device),
            capacity_bytes: scene.capacity.bytes,
            how,
            pool_keeps_bytes: pooled.then(|| keeps(spec())),
            look_every: (scene.trace.events.len() as u64 / EVEN_LOOKS).max(1),
            streams_to_order: if blind {
                scene.trace.streams.len() as StreamId
            } else {
                0
            },
        }
    }

    /// Whether the driver's own pool serves.
    #[must_use]
    pub fn pooled(&self) -> bool {
        self.pool_keeps_bytes.is_some()
    }
}

/// Looks on at a replay and carries it out on a card.
#[derive(Debug)]
pub struct Executor<'c> {
    card: &'c mut dyn Card,
    plan: Plan,
    tenants: Tenants,
    row: CardRow,
    /// The event of each check whose verdict is still to come.
    asked: Vec<u64>,
    /// Which block serves a slot: uses are told by slot.
    slots: Vec<Option<BlockId>>,
    /// Work was sent since the host waited last.
    busy: bool,
    /// Bytes mapped and backed on the card.
    held_bytes: u64,
    /// Free memory of the card before anything was taken.
    baseline_bytes: Option<u64>,
    staging: Option<u64>,
    /// Where the host stands behind the card.
    paging: Option<Paging>,
    stopped: Option<(u64, CardError)>,
}

impl<'c> Executor<'c> {
    /// An executor over an empty card; the steps with which the policy started are
    /// carried out.
    pub fn start(card: &'c mut dyn Card, plan: Plan, space: &Space, row: CardRow) -> Self {
        let mut executor = Executor {
            card,
            plan,
            tenants: Tenants::default(),
            row,
            asked: Vec::new(),
            slots: Vec::new(),
            busy: false,
            held_bytes: 0,
            baseline_bytes: None,
            staging: None,
            paging: None,
            stopped: None,
        };
        if let Err(error) = executor.open(space) {
            executor.stopped = Some((0, error));
        }
        executor
    }

    fn open(&mut self, space: &Space) -> Result<(), CardError> {
        self.baseline_bytes = self.card.free_bytes()?;
        self.paging = Paging::new(space, self.card.identity().page_bytes);
        if let Some(keeps_bytes) = self.plan.pool_keeps_bytes {
            self.card.open_pool(self.plan.capacity_bytes, keeps_bytes)?;
        }
        let at = At::start(space);
        for step in space.steps() {
            self.step(step, &at)?;
        }
        Ok(())
    }

    /// Checks what still lives; answers what was counted and, where the card stopped,
    /// the event and why.
    pub fn finish(mut self) -> (CardRow, Option<(u64, CardError)>) {
        if self.stopped.is_none()
            && let Err(error) = self.check_the_living()
        {
            self.stopped = Some((self.row.events, error));
        }
        (self.row, self.stopped)
    }

    fn check_the_living(&mut self) -> Result<(), CardError> {
        for tenant in self.tenants.by_age() {
            self.check(&tenant, tenant.stream, self.row.events)?;
        }
        self.collect()
    }

    fn carry_out(&mut self, moment: &Moment<'_>) -> Result<(), CardError> {
        self.order(moment.event)?;
        let at = At::of(moment);
        for step in moment.space.steps() {
            self.step(step, &at)?;
        }
        self.end_paging()?;
        if let Event::Use { slot, stream } = *moment.event
            && stream != ANY_STREAM
        {
            self.read(slot, stream)?;
        }
        self.outcome(moment)?;
        self.row.events += 1;
        let marked = matches!(moment.event, Event::Mark { .. });
        if marked || (moment.index + 1).is_multiple_of(self.plan.look_every) {
            self.look(moment.space)?;
        }
        Ok(())
    }

    /// The ordering points of the trace.
    fn order(&mut self, event: &Event) -> Result<(), CardError> {
        match *event {
            Event::Record { stream, event } => self.card.record(stream, event),
            Event::Wait { stream, event } if self.waits() => self.card.wait_event(stream, event),
            Event::Sync { stream: ANY_STREAM } => self.settle(),
            Event::Sync { stream } => self.card.sync_lane(stream),
            Event::Trim if self.plan.pooled() => {
                self.settle()?;
                self.card.trim_pool()
            }
            _ => Ok(()),
        }
    }

    /// Another stream reads a block: behind what its own stream did with it.
    fn read(&mut self, slot: Slot, stream: StreamId) -> Result<(), CardError> {
        let block = self.slots.get(slot as usize).copied().flatten();
        let Some(tenant) = block.and_then(|block| self.tenants.get_mut(block)) else {
            return Ok(());
        };
        if !tenant.users.contains(&stream) {
            tenant.users.push(stream);
        }
        let tenant = tenant.clone();
        self.follow(stream, tenant.stream)?;
        self.check(&tenant, stream, self.row.events)
    }

    /// What the program itself sees to: `stream` goes on behind `on`.
    fn follow(&mut self, stream: StreamId, on: StreamId) -> Result<(), CardError> {
        if stream == on {
            return Ok(());
        }
        self.card.wait(stream, on)
    }

    /// What a policy that knows no streams expects of others: a stream that is served
    /// goes on behind all that came before.
    fn order_behind_all(&mut self, stream: StreamId) -> Result<(), CardError> {
        if !self.waits() {
            return Ok(());
        }
        for on in 0..self.plan.streams_to_order {
            self.follow(stream, on)?;
        }
        Ok(())
    }

    /// Whether waits between streams are carried out.
    fn waits(&self) -> bool {
        self.plan.how.fault != Some(Fault::NoWait)
    }

    /// The host waits for everything, where there is anything to wait for.
    fn settle(&mut self) -> Result<(), CardError> {
        if self.busy {
            self.card.sync()?;
            self.busy = false;
        }
        Ok(())
    }

    fn fill(&mut self, tenant: &Tenant) -> Result<(), CardError> {
        self.busy = true;
        for span in self.spans(tenant) {
            self.row.filled_bytes += span.bytes();
            for piece in self.pieces(span) {
                match piece.on_host {
                    Some(page) => self.fill_on_host(tenant.stream, page, piece.span)?,
                    None => self.card.fill(tenant.stream, piece.span)?,
                }
            }
        }
        Ok(())
    }

    fn check(&mut self, tenant: &Tenant, lane: StreamId, event: u64) -> Result<(), CardError> {
        self.busy = true;
        let late = matches!(self.plan.how.fault, Some(Fault::NoWait | Fault::Late));
        if late && self.row.checks < MOST_LAGS {
            self.card.lag(lane, LAG_NS)?;
        }
        for span in self.spans(tenant) {
            self.compare(lane, span, event)?;
        }
        Ok(())
    }

    fn compare(&mut self, lane: StreamId, span: Span, event: u64) -> Result<(), CardError> {
        self.busy = true;
        self.row.checked_bytes += span.bytes();
        for piece in self.pieces(span) {
            match piece.on_host {
                Some(page) => self.compare_on_host(lane, page, piece.span)?,
                None => self.card.check(lane, piece.span)?,
            }
            self.row.checks += 1;
            self.asked.push(event);
        }
        Ok(())
    }

    /// A span cut by where its pages are.
    fn pieces(&self, span: Span) -> Vec<Piece> {
        match &self.paging {
            Some(paging) => paging.pieces(span),
            None => vec![Piece {
                span,
                on_host: None,
            }],
        }
    }

    /// The parts of a block that are filled and checked.
    fn spans(&self, tenant: &Tenant) -> impl Iterator<Item = Span> + use<> {
        let (bytes, whole) = (tenant.bytes, self.plan.how.coverage == Coverage::Full);
        let parts = if whole || bytes <= 2 * EDGE_BYTES {
            [Some((0, bytes)), None]
        } else {
            [Some((0, EDGE_BYTES)), Some((bytes - EDGE_BYTES, bytes))]
        };
        let (base, seed) = (tenant.real, tenant.seed);
        parts.into_iter().flatten().map(move |(from, to)| Span {
            base,
            from,
            to,
            seed,
        })
    }

    /// Hears the verdicts of all checks so far.
    fn collect(&mut self) -> Result<(), CardError> {
        let verdicts = self.card.verdicts()?;
        self.busy = false;
        for (wrong_bytes, event) in verdicts.into_iter().zip(self.asked.drain(..)) {
            if wrong_bytes > 0 {
                self.row.patterns_broken += 1;
                self.row.broken_bytes += wrong_bytes;
                self.row.first_broken_event.get_or_insert(event);
            }
        }
        Ok(())
    }
}

impl Observer for Executor<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        if self.stopped.is_none()
            && let Err(error) = self.carry_out(moment)
        {
            self.stopped = Some((moment.index, error));
        }
    }
}
