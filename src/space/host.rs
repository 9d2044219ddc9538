//! Memory of the host behind the card's: what a policy that oversubscribes moves there.

use super::{Space, Step, StepKind};

impl Space {
    /// Lets `host_bytes` more be reserved than the card and the capacity have: what does
    /// not fit lies on the host, by the rules of the policy that asked for it. To be
    /// called before anything is reserved.
    ///
    /// # Panics
    /// If something is reserved already: managed memory goes around other policies, not
    /// beside them.
    pub fn oversubscribe(&mut self, host_bytes: u64) {
        assert!(
            self.counters.reserved_bytes == 0,
            "event {}: oversubscribed after something was reserved",
            self.event
        );
        self.host_bytes += host_bytes;
        self.capacity_bytes = self.capacity_bytes.saturating_add(host_bytes);
    }

    /// Bytes of the host that count as capacity.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    /// Bytes that the card has, and the host behind it.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.device.total_bytes.saturating_add(self.host_bytes)
    }

    /// Copies pages of `page_bytes` at these addresses to the host, in one transfer that
    /// is charged and that requests wait for.
    pub fn page_out(&mut self, pages: &[u64], page_bytes: u64) {
        self.transfer(StepKind::PageOut, pages, page_bytes);
    }

    /// Copies pages of `page_bytes` at these addresses back to the card, in one transfer
    /// that is charged and that requests wait for.
    pub fn page_in(&mut self, pages: &[u64], page_bytes: u64) {
        self.transfer(StepKind::PageIn, pages, page_bytes);
    }

    fn transfer(&mut self, kind: StepKind, pages: &[u64], page_bytes: u64) {
        if pages.is_empty() {
            return;
        }
        let bytes = page_bytes.saturating_mul(pages.len() as u64);
        let cost_ns = self.device.host_copy_ns(bytes);
        self.counters.paged_bytes += bytes;
        self.pause(cost_ns);
        for page in pages {
            self.emit(Step::new(kind, *page, page_bytes));
        }
    }
}
