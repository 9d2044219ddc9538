//! Stitching on a card: handles of pages that are mapped already are mapped once more.

use super::Executor;
use crate::cuda::card::CardError;
use crate::cuda::validate::Fault;
use crate::space::Step;

impl Executor<'_> {
    /// A part of an alias; with the last one the whole range is opened.
    pub(super) fn alias(&mut self, step: &Step) -> Result<(), CardError> {
        let (at, backing) = self.tenants.real(step.address);
        let (from, parts) = self.tenants.real(step.from);
        let page_bytes = parts.page_bytes;
        let device = &self.plan.device;
        let model_ns = device.map_ns(step.bytes, page_bytes);
        let first = self.tenants.add_part(at, step.bytes, from, backing.real);
        if self.plan.how.fault == Some(Fault::PageTwice) && at != backing.real {
            // Every page of the part is the first one of the alias.
            for page in (at..at + step.bytes).step_by(page_bytes as usize) {
                self.card.alias(page, first, page_bytes)?;
            }
        } else {
            self.timed(model_ns, |card| card.alias(at, from, step.bytes))?;
        }
        self.row.aliased_bytes += step.bytes;
        let (base, bytes) = (backing.real, backing.bytes);
        if at + step.bytes == base + bytes {
            let model_ns = self.plan.device.access_ns(bytes, page_bytes);
            self.timed(model_ns, |card| card.open(base, bytes))?;
        }
        Ok(())
    }

    /// All of an alias goes; its pages stay where they were mapped first.
    pub(super) fn unalias(&mut self, step: &Step) -> Result<(), CardError> {
        self.settle()?;
        let (base, backing) = self.tenants.real(step.address);
        self.tenants.remove_parts(base, backing.bytes);
        let model_ns = self.plan.device.unmap_ns(step.bytes, backing.page_bytes);
        self.timed(model_ns, |card| card.unback(base, backing.bytes))
    }
}
