//! Pages that requests below a page share.
//!
//! Best fit over the holes of all shared pages; among equals the one that has been free
//! longest; its low part is handed out. A page that nobody uses goes back at once.

use std::collections::BTreeMap;

/// Size of a hole, and when it became one.
type Rank = (u64, u64);

/// The holes of all shared pages.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    page_bytes: u64,
    by_rank: BTreeMap<Rank, u64>,
    by_base: BTreeMap<u64, Rank>,
    changes: u64,
}

impl Shared {
    pub(super) fn new(page_bytes: u64) -> Self {
        Shared {
            page_bytes,
            by_rank: BTreeMap::new(),
            by_base: BTreeMap::new(),
            changes: 0,
        }
    }

    /// A place of `bytes` in a page that is open, where there is one.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let ((hole_bytes, _), base) = self.by_rank.range((bytes, 0)..).next()?;
        let (hole_bytes, base) = (*hole_bytes, *base);
        self.remove(base);
        self.insert(base + bytes, hole_bytes - bytes);
        Some(base)
    }

    /// Opens a new page and takes its first `bytes`.
    pub(super) fn open(&mut self, page: u64, bytes: u64) -> u64 {
        self.insert(page + bytes, self.page_bytes - bytes);
        page
    }

    /// A range comes back; the page, where nobody uses it any more.
    pub(super) fn give(&mut self, base: u64, bytes: u64) -> Option<u64> {
        let page = base - base % self.page_bytes;
        let (mut low, mut high) = (base, base + bytes);
        let below = self.by_base.range(page..low).next_back();
        if let Some((hole, (hole_bytes, _))) = below.map(|(hole, rank)| (*hole, *rank))
            && hole + hole_bytes == low
        {
            self.remove(hole);
            low = hole;
        }
        if high < page + self.page_bytes
            && let Some((hole_bytes, _)) = self.by_base.get(&high).copied()
        {
            self.remove(high);
            high += hole_bytes;
        }
        if high - low == self.page_bytes {
            return Some(page);
        }
        self.insert(low, high - low);
        None
    }

    fn insert(&mut self, base: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let rank = (bytes, self.changes);
        self.changes += 1;
        self.by_rank.insert(rank, base);
        self.by_base.insert(base, rank);
    }

    fn remove(&mut self, base: u64) {
        let rank = self.by_base.remove(&base).expect("a hole");
        self.by_rank.remove(&rank);
    }
}
