//! What the simulator said, held against the card: failures, and free memory.

use super::Executor;
use crate::cuda::card::CardError;
use crate::cuda::moving::STAGING_BYTES;
use crate::replay::{Moment, Outcome};
use crate::space::{OutOfMemory, Space};
use crate::trace::{Event, StreamId};

impl Executor<'_> {
    /// What the event came to.
    pub(super) fn outcome(&mut self, moment: &Moment<'_>) -> Result<(), CardError> {
        match (moment.outcome, *moment.event) {
            (Outcome::Served(block), Event::Alloc { slot, .. }) => {
                let at = slot as usize;
                if at >= self.slots.len() {
                    self.slots.resize(at + 1, None);
                }
                self.slots[at] = Some(block);
                Ok(())
            }
            (
                Outcome::Failed(shortage),
                Event::Alloc { bytes, stream, .. } | Event::Attempt { bytes, stream, .. },
            ) => {
                self.row.failures_predicted += 1;
                let met = if self.plan.pooled() {
                    self.pool_refuses(bytes, stream)?
                } else {
                    self.driver_refuses(shortage)?
                };
                if met {
                    self.row.failures_met += 1;
                } else {
                    self.row.failures_by_rule += 1;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether the driver's pool does not serve the request either.
    fn pool_refuses(&mut self, bytes: u64, stream: StreamId) -> Result<bool, CardError> {
        match self.card.take(bytes, stream) {
            Ok(address) => self.card.give(address, stream).map(|()| false),
            Err(CardError::OutOfMemory { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether the driver does not give what the policy lacks: beyond the capacity by what
    /// is held on the card, else it is asked.
    fn driver_refuses(&mut self, shortage: OutOfMemory) -> Result<bool, CardError> {
        if let Some(paging) = &self.paging
            && paging.full(self.plan.capacity_bytes, shortage.wanted_bytes)
        {
            return Ok(true);
        }
        let after = self.held_bytes.saturating_add(shortage.wanted_bytes);
        if after > self.plan.capacity_bytes {
            return Ok(true);
        }
        match self.card.map(shortage.wanted_bytes) {
            Ok(address) => {
                self.settle()?;
                self.card.unmap(address).map(|()| false)
            }
            Err(CardError::OutOfMemory { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Compares what is free on the card, or held by its pool, with what was predicted.
    pub(super) fn look(&mut self, space: &Space) -> Result<(), CardError> {
        if self.plan.pooled() {
            return self.look_at_pool(space);
        }
        let (Some(baseline), Some(read)) = (self.baseline_bytes, self.card.free_bytes()?) else {
            return Ok(());
        };
        let mut beside = self.staging.map_or(0, |_| STAGING_BYTES);
        let mut taken = space.counters().page_bytes;
        if let Some(paging) = &self.paging {
            taken = paging.resident_bytes();
            beside = paging.beside_bytes() + self.card.pinning_bytes();
        }
        let predicted = baseline.saturating_sub(taken + beside);
        let row = &mut self.row;
        row.looks += 1;
        row.looks_met += u64::from(predicted == read);
        row.free_predicted_bytes = Some(predicted);
        row.free_read_bytes = Some(read);
        let difference = predicted.abs_diff(read);
        row.free_difference_bytes = row.free_difference_bytes.max(Some(difference));
        Ok(())
    }

    fn look_at_pool(&mut self, space: &Space) -> Result<(), CardError> {
        let read = self.card.pool_sizes()?;
        let counters = space.counters();
        let used = counters.used_bytes + counters.pending_bytes;
        let predicted = counters.reserved_bytes;
        let row = &mut self.row;
        row.looks += 1;
        row.looks_met += u64::from((predicted, used) == (read.reserved_bytes, read.used_bytes));
        let most = |known: &mut Option<u64>, seen: u64| *known = (*known).max(Some(seen));
        most(&mut row.pool_reserved_predicted_bytes, predicted);
        most(&mut row.pool_reserved_read_bytes, read.reserved_bytes);
        let difference = predicted.abs_diff(read.reserved_bytes);
        most(&mut row.pool_difference_bytes, difference);
        Ok(())
    }
}
