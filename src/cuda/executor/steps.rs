//! Each step of a replay, on the card.

use std::time::Instant;

use super::{BESIDE_BYTES, Executor};
use crate::cuda::card::{Card, CardError};
use crate::cuda::moving::{Move, STAGING_BYTES, move_block, overlaps};
use crate::cuda::pattern::seed;
use crate::cuda::tenants::{Backing, Tenant};
use crate::cuda::validate::Fault;
use crate::replay::Moment;
use crate::space::{BlockId, Space, Step, StepKind};
use crate::trace::{Event, StreamId};

/// Addresses of the card are those of the Space but for the place of their segment: they
/// agree in the bits below this.
const COMMON_ALIGN_BYTES: u64 = 512;
/// By how much a planted fault shifts an address.
const SHIFT_BYTES: u64 = 64;
/// How much of its end a planted fault takes from a move.
const LOST_TAIL_BYTES: u64 = 1024;

/// Where in the trace a step happens.
pub(super) struct At<'a> {
    event: u64,
    /// The stream that asks or frees, where the event has one.
    stream: Option<StreamId>,
    align: u64,
    space: &'a Space,
}

impl<'a> At<'a> {
    /// Before the first event.
    pub fn start(space: &'a Space) -> Self {
        At {
            event: 0,
            stream: None,
            align: 1,
            space,
        }
    }

    pub fn of(moment: &Moment<'a>) -> Self {
        let (stream, align) = match *moment.event {
            Event::Alloc {
                stream, align_log2, ..
            }
            | Event::Attempt {
                stream, align_log2, ..
            } => (Some(stream), 1 << align_log2),
            Event::Free { stream, .. } => (Some(stream), 1),
            _ => (None, 1),
        };
        At {
            event: moment.index,
            stream,
            align,
            space: moment.space,
        }
    }
}

impl Executor<'_> {
    /// Carries out one step. A pool of the driver maps for itself: there the steps that
    /// map are predictions.
    pub(super) fn step(&mut self, step: &Step, at: &At<'_>) -> Result<(), CardError> {
        let pooled = self.plan.pooled();
        if self.paged_step(step)? {
            return Ok(());
        }
        match step.kind {
            StepKind::Map(_)
            | StepKind::Unmap(_)
            | StepKind::Reserve(_)
            | StepKind::Unreserve(_)
            | StepKind::Back(_)
            | StepKind::Unback(_)
                if pooled =>
            {
                Ok(())
            }
            StepKind::Map(_) => self.map(step),
            StepKind::Unmap(_) => self.unmap(step),
            StepKind::Reserve(segment) => {
                self.reserve(step, at.space.segment_page(segment).unwrap_or(0))
            }
            StepKind::Unreserve(_) => self.unreserve(step),
            StepKind::Back(_) => self.back(step),
            StepKind::Unback(_) => self.unback(step),
            StepKind::Alias(_) => self.alias(step),
            StepKind::Unalias(_) => self.unalias(step),
            StepKind::PageOut | StepKind::PageIn => {
                unreachable!("pages go to the host under managed memory alone")
            }
            // What a refusal comes to is judged by the outcome of the event.
            StepKind::Refused => Ok(()),
            StepKind::Place(block) => self.place(block, step, at),
            StepKind::Release(block) => self.release(block, at),
            StepKind::Defer(block) => {
                if let Some(tenant) = self.tenants.get_mut(block) {
                    tenant.deferred = true;
                }
                Ok(())
            }
            StepKind::Move { block } => self.relocate(block, step, at),
            StepKind::Wait { stream, on } if self.waits() => self.card.wait(stream, on),
            StepKind::Wait { .. } => Ok(()),
            StepKind::Synchronise => self.settle(),
            StepKind::SynchroniseStream(stream) => self.card.sync_lane(stream),
        }
    }

    /// A call of the driver, timed, beside what the model charges for it.
    pub(super) fn timed<T>(
        &mut self,
        model_ns: u64,
        call: impl FnOnce(&mut dyn Card) -> Result<T, CardError>,
    ) -> Result<T, CardError> {
        let started = Instant::now();
        let answer = call(self.card);
        self.row.driver_ns += started.elapsed().as_nanos() as u64;
        self.row.driver_model_ns += model_ns;
        self.row.driver_calls += 1;
        if let Err(CardError::OutOfMemory { .. }) = answer {
            self.row.failures_unpredicted += 1;
        }
        answer
    }

    /// Counts what is to be held; more than the run may hold is refused before it is asked.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), CardError> {
        let wanted_bytes = self.held_bytes.saturating_add(bytes);
        let most_bytes = self.plan.capacity_bytes.saturating_add(BESIDE_BYTES);
        if wanted_bytes > most_bytes {
            return Err(CardError::Budget {
                wanted_bytes,
                most_bytes,
            });
        }
        self.held_bytes = wanted_bytes;
        self.row.held_peak_bytes = self.row.held_peak_bytes.max(wanted_bytes);
        Ok(())
    }

    fn map(&mut self, step: &Step) -> Result<(), CardError> {
        self.hold(step.bytes)?;
        let model_ns = self.plan.device.malloc_ns(step.bytes);
        let real = self.timed(model_ns, |card| card.map(step.bytes))?;
        let backing = Backing {
            real,
            bytes: step.bytes,
            page_bytes: 0,
        };
        self.tenants.add_segment(step.address, backing);
        Ok(())
    }

    fn unmap(&mut self, step: &Step) -> Result<(), CardError> {
        self.settle()?;
        let gone = self.tenants.remove_segment(step.address);
        let gone = gone.expect("what is unmapped was mapped");
        self.held_bytes -= gone.bytes;
        let model_ns = self.plan.device.free_ns(gone.bytes);
        self.timed(model_ns, |card| card.unmap(gone.real))
    }

    fn reserve(&mut self, step: &Step, page_bytes: u64) -> Result<(), CardError> {
        let model_ns = self.plan.device.reserve_ns(step.bytes);
        let real = self.timed(model_ns, |card| card.reserve(step.bytes))?;
        let backing = Backing {
            real,
            bytes: step.bytes,
            page_bytes,
        };
        self.tenants.add_segment(step.address, backing);
        Ok(())
    }

    fn unreserve(&mut self, step: &Step) -> Result<(), CardError> {
        let gone = self.tenants.remove_segment(step.address);
        let gone = gone.expect("what is given back was reserved");
        let model_ns = self.plan.device.reserve_ns(gone.bytes);
        self.timed(model_ns, |card| card.unreserve(gone.real))
    }

    fn back(&mut self, step: &Step) -> Result<(), CardError> {
        self.hold(step.bytes)?;
        let (real, backing) = self.tenants.real(step.address);
        let device = &self.plan.device;
        let model_ns = device.back_ns(step.bytes, backing.page_bytes);
        self.timed(model_ns, |card| {
            card.back(real, step.bytes, backing.page_bytes)
        })
    }

    fn unback(&mut self, step: &Step) -> Result<(), CardError> {
        self.settle()?;
        let (real, backing) = self.tenants.real(step.address);
        self.held_bytes -= step.bytes;
        let device = &self.plan.device;
        let model_ns = device.unback_ns(step.bytes, backing.page_bytes);
        self.timed(model_ns, |card| card.unback(real, step.bytes))
    }

    fn place(&mut self, block: BlockId, step: &Step, at: &At<'_>) -> Result<(), CardError> {
        let stream = at.stream.unwrap_or(0);
        let Some(mut real) = self.address(step, stream)? else {
            return Ok(());
        };
        let shared = if self.plan.pooled() {
            0
        } else {
            (real ^ step.address) & (COMMON_ALIGN_BYTES - 1)
        };
        if shared != 0 || real & (at.align - 1) != 0 {
            self.row.misaligned += 1;
        }
        if self.plan.how.fault == Some(Fault::Shift) {
            real += self.shift(real + step.bytes);
        }
        let tenant = Tenant {
            event: at.event,
            real,
            bytes: step.bytes,
            seed: seed(at.event),
            stream,
            users: Vec::new(),
            deferred: false,
        };
        self.row.allocations += 1;
        if self.paging.is_some() {
            self.place_later(block, tenant);
            return Ok(());
        }
        self.settle_in(block, tenant)
    }

    /// Fills a block that was placed, and takes it into the books.
    pub(super) fn settle_in(&mut self, block: BlockId, tenant: Tenant) -> Result<(), CardError> {
        self.order_behind_all(tenant.stream)?;
        self.fill(&tenant)?;
        // A planted fault must be found by the card, not by the books.
        if self.tenants.enter(block, tenant) && self.plan.how.fault != Some(Fault::Shift) {
            self.row.overlaps += 1;
        }
        Ok(())
    }

    /// Where a block is to be; `None` where the driver's pool has no room for it.
    fn address(&mut self, step: &Step, stream: StreamId) -> Result<Option<u64>, CardError> {
        if !self.plan.pooled() {
            return Ok(Some(self.tenants.real(step.address).0));
        }
        let mut taken = self.card.take(step.bytes, stream);
        if matches!(taken, Err(CardError::OutOfMemory { .. })) {
            self.settle()?;
            taken = self.card.take(step.bytes, stream);
        }
        match taken {
            Ok(real) => Ok(Some(real)),
            Err(CardError::OutOfMemory { .. }) => {
                self.row.failures_unpredicted += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// How far a planted fault shifts a block that ends at `end`: into a live neighbour.
    fn shift(&self, end: u64) -> u64 {
        let above = self.tenants.bytes_at(end).unwrap_or(0);
        above.min(SHIFT_BYTES)
    }

    /// A block is freed: it is checked where it was used last, behind all who used it.
    fn release(&mut self, block: BlockId, at: &At<'_>) -> Result<(), CardError> {
        self.fill_placed()?;
        let Some(tenant) = self.tenants.leave(block) else {
            // The driver's pool had not served it.
            return Ok(());
        };
        let mut lane = at.stream.unwrap_or(tenant.stream);
        if tenant.deferred {
            // It is reusable because its users have passed: the host saw them pass.
            lane = tenant.stream;
            for user in &tenant.users {
                self.card.sync_lane(*user)?;
            }
        } else {
            for user in &tenant.users {
                self.follow(lane, *user)?;
            }
        }
        self.follow(lane, tenant.stream)?;
        self.check(&tenant, lane, at.event)?;
        self.drop_pages(&tenant)?;
        if self.plan.pooled() {
            self.card.give(tenant.real, lane)?;
        }
        Ok(())
    }

    /// A block moves; the host waits before and after, and the result is checked.
    fn relocate(&mut self, block: BlockId, step: &Step, at: &At<'_>) -> Result<(), CardError> {
        self.settle()?;
        let (to, _) = self.tenants.real(step.address);
        let moved = self.tenants.leave(block);
        let mut tenant = moved.expect("what moves was placed");
        let lost = match self.plan.how.fault {
            Some(Fault::ShortMove) => LOST_TAIL_BYTES.min(step.bytes),
            _ => 0,
        };
        let started = Instant::now();
        self.copy(tenant.stream, to, tenant.real, step.bytes - lost)?;
        self.card.sync()?;
        self.row.move_ns += started.elapsed().as_nanos() as u64;
        let distance = step.from.abs_diff(step.address);
        self.row.move_model_ns += self.plan.device.move_ns(step.bytes, distance);
        self.row.moved_bytes += step.bytes;
        self.row.moves_checked += 1;
        tenant.real = to;
        self.check(&tenant, tenant.stream, at.event)?;
        if self.tenants.enter(block, tenant) {
            self.row.overlaps += 1;
        }
        Ok(())
    }

    /// Copies, where a move overlaps itself through a buffer that is mapped when first
    /// needed.
    fn copy(&mut self, lane: StreamId, to: u64, from: u64, bytes: u64) -> Result<(), CardError> {
        let staging = match self.staging {
            None if overlaps(to, from, bytes) => {
                let staging = self.card.map(STAGING_BYTES)?;
                self.staging = Some(staging);
                staging
            }
            known => known.unwrap_or(0),
        };
        move_block(self.card, lane, staging, Move { to, from, bytes })
    }
}
