//! Where the pages of managed memory are.

use std::collections::{BTreeMap, BTreeSet};

use crate::cuda::card::Span;
use crate::cuda::tenants::Tenant;
use crate::space::{BlockId, Space};

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Card,
    /// The ticket of its copy; none where nothing was ever written.
    Host(Option<u64>),
}

/// The page table of managed memory, by addresses of the card.
#[derive(Debug, Default)]
pub(super) struct Paging {
    pub page_bytes: u64,
    host_bytes: u64,
    /// What the policy has reserved, on either side.
    pub reserved_bytes: u64,
    pub places: BTreeMap<u64, Place>,
    /// Blocks of this event, to be filled once pages have made room.
    pub placed: Vec<(BlockId, Tenant)>,
    /// Pages that come and go again within this event.
    pub passing: BTreeSet<u64>,
    /// What this event's transfers moved: out, and back.
    pub moved_bytes: [u64; 2],
    /// A page to use what lies on the host.
    pub spare: Option<u64>,
}

/// Bytes of a block that lie in one place.
pub(super) struct Piece {
    pub span: Span,
    /// The page, where it is on the host.
    pub on_host: Option<u64>,
}

impl Paging {
    /// The page table, where the policy lets the host stand behind the card.
    pub fn new(space: &Space, page_bytes: u64) -> Option<Self> {
        (space.host_bytes() > 0).then(|| Paging {
            page_bytes,
            host_bytes: space.host_bytes(),
            ..Paging::default()
        })
    }

    /// Bytes that the steps so far leave on the card.
    pub fn resident_bytes(&self) -> u64 {
        let places = self.places.values();
        places.filter(|place| **place == Place::Card).count() as u64 * self.page_bytes
    }

    /// Bytes of the card beside them.
    pub fn beside_bytes(&self) -> u64 {
        self.spare.map_or(0, |_| self.page_bytes)
    }

    /// Whether card and host hold no `wanted_bytes` more.
    pub fn full(&self, capacity_bytes: u64, wanted_bytes: u64) -> bool {
        let after = self.reserved_bytes.saturating_add(wanted_bytes);
        after > capacity_bytes.saturating_add(self.host_bytes)
    }

    pub fn pages(&self, from: u64, to: u64) -> impl Iterator<Item = u64> + use<> {
        let first = from - from % self.page_bytes;
        (first..to).step_by(self.page_bytes as usize)
    }

    /// Cuts a span where it goes from one place to the other.
    pub fn pieces(&self, span: Span) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let (start, end) = (span.base + span.from, span.base + span.to);
        for page in self.pages(start, end) {
            let from = start.max(page) - span.base;
            let to = end.min(page + self.page_bytes) - span.base;
            let on_host = matches!(self.places.get(&page), Some(Place::Host(_))).then_some(page);
            match pieces.last_mut() {
                Some(last) if last.on_host.is_none() && on_host.is_none() => last.span.to = to,
                _ => pieces.push(Piece {
                    span: Span { from, to, ..span },
                    on_host,
                }),
            }
        }
        pieces
    }
}

/// Pages side by side as ranges: first address and bytes.
pub(super) fn runs(pages: &[u64], page_bytes: u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((at, bytes)) if *at + *bytes == *page => *bytes += page_bytes,
            _ => runs.push((*page, page_bytes)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_cut_where_a_page_lies_on_the_host() {
        let mut paging = Paging {
            page_bytes: 100,
            ..Paging::default()
        };
        for page in [1000, 1100, 1300] {
            paging.places.insert(page, Place::Card);
        }
        paging.places.insert(1200, Place::Host(None));
        let span = Span {
            base: 1010,
            from: 20,
            to: 320,
            seed: 0,
        };
        let pieces = paging.pieces(span);
        let found: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.span.from, piece.span.to, piece.on_host))
            .collect();
        let want = [(20, 190, None), (190, 290, Some(1200)), (290, 320, None)];
        assert_eq!(found, want);
        assert_eq!(paging.resident_bytes(), 300);
    }

    #[test]
    fn pages_side_by_side_are_one_range() {
        assert_eq!(runs(&[0, 10, 30], 10), [(0, 20), (30, 10)]);
        assert_eq!(runs(&[], 10), []);
    }
}
