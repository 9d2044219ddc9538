//! Managed memory on a card: addresses are reserved, pages are there where a block in use
//! touches them, and what the policy says goes to the host and comes back.
//!
//! CUDA's own managed memory decides by itself which pages go. Here the policy decides, so
//! the executor carries its word out by the calls of virtual memory: a page that goes is
//! copied to pinned memory of the host and unmapped, one that comes back is mapped anew
//! and filled from the copy, and the patterns on it are compared at once. The capacity
//! holds for what is on the card. A page that is used where it lies on the host (a block
//! larger than the card, a free of what was paged out) is copied to a spare page for that.

use std::time::Instant;

use super::Executor;
use super::pages::{Paging, Place, runs};
use crate::cuda::card::{CardError, HostMemory, Span};
use crate::cuda::tenants::{Backing, Tenant};
use crate::cuda::validate::Fault;
use crate::space::{BlockId, Step, StepKind};
use crate::trace::StreamId;
use crate::units::{GIB, TIB, format_bytes};

/// Addresses that are reserved around the first mapping, both ways.
const AROUND_BYTES: u64 = TIB;

impl Executor<'_> {
    fn paging(&mut self) -> &mut Paging {
        self.paging.as_mut().expect("the policy pages")
    }

    /// A step under managed memory; false where it is the same as elsewhere.
    pub(super) fn paged_step(&mut self, step: &Step) -> Result<bool, CardError> {
        if self.paging.is_none() {
            return Ok(false);
        }
        match step.kind {
            StepKind::Map(_) => {
                self.paging().reserved_bytes += step.bytes;
                self.window(step)?;
            }
            StepKind::Back(_) => self.paging().reserved_bytes += step.bytes,
            StepKind::Unmap(_) | StepKind::Unback(_) => {
                self.paging().reserved_bytes -= step.bytes;
            }
            StepKind::PageOut => self.page_out(step)?,
            StepKind::PageIn => self.page_in(step)?,
            StepKind::Alias(_) | StepKind::Unalias(_) | StepKind::Move { .. } => {
                let what = "managed memory over a policy that moves or stitches is not carried out";
                return Err(CardError::NotCarriedOut(what.into()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Addresses for everything that is mapped, at the distances that the Space has: small
    /// mappings share pages.
    fn window(&mut self, step: &Step) -> Result<(), CardError> {
        if self.tenants.holds(step.address, step.bytes) {
            return Ok(());
        }
        let base = step.address.saturating_sub(AROUND_BYTES) / GIB * GIB;
        let bytes = 2 * AROUND_BYTES;
        if step.address + step.bytes > base + bytes {
            let what = format!("a mapping of {} is too large", format_bytes(step.bytes));
            return Err(CardError::NotCarriedOut(what));
        }
        let backing = Backing {
            real: self.card.reserve(bytes)?,
            bytes,
            page_bytes: self.paging().page_bytes,
        };
        self.tenants.add_segment(base, backing);
        Ok(())
    }

    /// A block is handed out; it is filled when the event's pages are where they belong.
    pub(super) fn place_later(&mut self, block: BlockId, tenant: Tenant) {
        self.paging().placed.push((block, tenant));
    }

    /// Fills what this event handed out, and charges what its transfers cost by the model.
    pub(super) fn end_paging(&mut self) -> Result<(), CardError> {
        if self.paging.is_none() {
            return Ok(());
        }
        let moved_bytes = std::mem::take(&mut self.paging().moved_bytes);
        for bytes in moved_bytes.into_iter().filter(|bytes| *bytes > 0) {
            self.row.paging_model_ns += self.plan.device.host_copy_ns(bytes);
        }
        self.fill_placed()?;
        self.paging().passing.clear();
        Ok(())
    }

    pub(super) fn fill_placed(&mut self) -> Result<(), CardError> {
        if self.paging.is_none() {
            return Ok(());
        }
        for (block, tenant) in std::mem::take(&mut self.paging().placed) {
            let paging = self.paging();
            let touched = paging.pages(tenant.real, tenant.real + tenant.bytes);
            let fresh: Vec<u64> = touched
                .filter(|page| !paging.places.contains_key(page))
                .collect();
            let room = self.room_pages().min(fresh.len());
            self.back_pages(&fresh[..room])?;
            self.leave_on_host(&fresh[room..]);
            self.settle_in(block, tenant)?;
        }
        Ok(())
    }

    /// Pages that the capacity has room for.
    fn room_pages(&mut self) -> usize {
        let room_bytes = self.plan.capacity_bytes.saturating_sub(self.held_bytes);
        (room_bytes / self.paging().page_bytes) as usize
    }

    /// New pages that find no room, as nothing may go for them.
    fn leave_on_host(&mut self, pages: &[u64]) {
        self.row.pages_across += pages.len() as u64;
        let places = &mut self.paging().places;
        places.extend(pages.iter().map(|page| (*page, Place::Host(None))));
    }

    fn back_pages(&mut self, pages: &[u64]) -> Result<(), CardError> {
        let page_bytes = self.paging().page_bytes;
        for (at, bytes) in runs(pages, page_bytes) {
            self.hold(bytes)?;
            let backed = self.card.back(at, bytes, page_bytes);
            if let Err(CardError::OutOfMemory { .. }) = backed {
                self.row.failures_unpredicted += 1;
            }
            backed?;
        }
        let places = &mut self.paging().places;
        places.extend(pages.iter().map(|page| (*page, Place::Card)));
        Ok(())
    }

    /// Takes pages from the card that no block in use touches any more.
    pub(super) fn drop_pages(&mut self, tenant: &Tenant) -> Result<(), CardError> {
        let Some(paging) = &self.paging else {
            return Ok(());
        };
        let page_bytes = paging.page_bytes;
        let touched = paging.pages(tenant.real, tenant.real + tenant.bytes);
        let idle: Vec<u64> = touched
            .filter(|page| !self.tenants.touched(*page, page_bytes))
            .collect();
        if idle.is_empty() {
            return Ok(());
        }
        self.settle()?;
        let mut on_card = Vec::new();
        for page in idle {
            match self.paging().places.remove(&page) {
                Some(Place::Card) => on_card.push(page),
                Some(Place::Host(Some(ticket))) => self.card.forget(ticket)?,
                _ => {}
            }
        }
        for (at, bytes) in runs(&on_card, page_bytes) {
            self.card.unback(at, bytes)?;
            self.held_bytes -= bytes;
        }
        Ok(())
    }

    /// The page of a step, and where it is.
    fn page(&mut self, step: &Step) -> Result<(u64, Option<Place>), CardError> {
        let page_bytes = self.paging().page_bytes;
        let (page, _) = self.tenants.real(step.address);
        if step.bytes != page_bytes || !page.is_multiple_of(page_bytes) {
            let (asked, has) = (format_bytes(step.bytes), format_bytes(page_bytes));
            let what = format!("pages of {asked}: the card maps pages of {has}");
            return Err(CardError::NotCarriedOut(what));
        }
        Ok((page, self.paging().places.get(&page).copied()))
    }

    fn page_out(&mut self, step: &Step) -> Result<(), CardError> {
        let (page, place) = self.page(step)?;
        self.paging().moved_bytes[0] += step.bytes;
        match place {
            Some(Place::Card) => {
                self.settle()?;
                self.card.make_ready(step.bytes, HostMemory::Pinned)?;
                let ticket = self.transfer(|executor| {
                    executor.card.save(page, step.bytes, HostMemory::Pinned)
                })?;
                self.row.paged_bytes += step.bytes;
                self.card.unback(page, step.bytes)?;
                self.held_bytes -= step.bytes;
                let place = Place::Host(Some(ticket));
                self.paging().places.insert(page, place);
            }
            Some(Place::Host(_)) => {
                self.paging().passing.insert(page);
            }
            // A new block is larger than the card: this page of it never was there.
            None => {
                self.paging().places.insert(page, Place::Host(None));
            }
        }
        Ok(())
    }

    fn page_in(&mut self, step: &Step) -> Result<(), CardError> {
        let (page, place) = self.page(step)?;
        self.paging().moved_bytes[1] += step.bytes;
        let Some(Place::Host(ticket)) = place else {
            return Ok(());
        };
        // What goes again before anything else happens is used where it lies.
        if self.paging().passing.remove(&page) {
            return Ok(());
        }
        if self.room_pages() == 0 {
            self.row.pages_across += 1;
            return Ok(());
        }
        self.back_pages(&[page])?;
        if let Some(ticket) = ticket {
            if self.plan.how.fault != Some(Fault::LostPage) {
                self.transfer(|executor| executor.card.load(ticket, page))?;
            }
            self.card.forget(ticket)?;
            self.row.paged_bytes += step.bytes;
        }
        self.row.pages_checked += 1;
        self.check_page(page, step.bytes)
    }

    fn transfer<T>(
        &mut self,
        copy: impl FnOnce(&mut Self) -> Result<T, CardError>,
    ) -> Result<T, CardError> {
        let started = Instant::now();
        let answer = copy(self)?;
        self.row.paging_ns += started.elapsed().as_nanos() as u64;
        Ok(answer)
    }

    /// Compares what blocks in use have on a page that came back.
    fn check_page(&mut self, page: u64, page_bytes: u64) -> Result<(), CardError> {
        for tenant in self.tenants.touching(page, page_bytes) {
            let spans: Vec<Span> = self.spans(&tenant).collect();
            for span in spans {
                let from = span.from.max(page.saturating_sub(tenant.real));
                let to = span.to.min((page + page_bytes).saturating_sub(tenant.real));
                if from < to {
                    let span = Span { from, to, ..span };
                    self.compare(tenant.stream, span, self.row.events)?;
                }
            }
        }
        Ok(())
    }

    /// Brings the bytes of a page that lies on the host to the spare page, and answers
    /// the span there.
    fn across(&mut self, page: u64, span: Span) -> Result<Span, CardError> {
        self.settle()?;
        let page_bytes = self.paging().page_bytes;
        let spare = match self.paging().spare {
            Some(spare) => spare,
            None => {
                let spare = self.card.map(page_bytes)?;
                self.paging().spare = Some(spare);
                spare
            }
        };
        if let Some(Place::Host(Some(ticket))) = self.paging().places.get(&page).copied() {
            self.card.load(ticket, spare)?;
        }
        let base = span.base.wrapping_add(spare).wrapping_sub(page);
        Ok(Span { base, ..span })
    }

    /// Compares bytes that lie on the host.
    pub(super) fn compare_on_host(
        &mut self,
        lane: StreamId,
        page: u64,
        span: Span,
    ) -> Result<(), CardError> {
        let span = self.across(page, span)?;
        self.busy = true;
        self.card.check(lane, span)
    }

    /// Fills bytes that lie on the host.
    pub(super) fn fill_on_host(
        &mut self,
        lane: StreamId,
        page: u64,
        span: Span,
    ) -> Result<(), CardError> {
        let span = self.across(page, span)?;
        self.card.fill(lane, span)?;
        self.card.sync()?;
        let paging = self.paging();
        let (page_bytes, spare) = (paging.page_bytes, paging.spare.expect("just used"));
        let ticket = self.card.save(spare, page_bytes, HostMemory::Pinned)?;
        let place = Place::Host(Some(ticket));
        if let Some(Place::Host(Some(old))) = self.paging().places.insert(page, place) {
            self.card.forget(old)?;
        }
        Ok(())
    }
}
