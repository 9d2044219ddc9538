//! Who lives where on the card: real addresses of segments and of live blocks.

use std::collections::BTreeMap;

use crate::space::BlockId;
use crate::trace::StreamId;

/// A segment or a reservation on the card.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backing {
    /// Its address on the card.
    pub real: u64,
    pub bytes: u64,
    /// Of a reservation; 0 for a segment that was mapped whole.
    pub page_bytes: u64,
}

/// A live block.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    /// Number of the event that placed it.
    pub event: u64,
    /// Its address on the card, where its pattern lies.
    pub real: u64,
    pub bytes: u64,
    pub seed: u64,
    pub stream: StreamId,
    /// Other streams that were told to use it.
    pub users: Vec<StreamId>,
    /// It was freed, but a stream may still use it.
    pub deferred: bool,
}

/// The executor's books. Addresses of the Space name segments; the rest is the card's.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    segments: BTreeMap<u64, Backing>,
    live: BTreeMap<BlockId, Tenant>,
    /// First and last address of each live block on the card, where its pages were
    /// mapped first: an alias has none of its own.
    ranges: BTreeMap<u64, u64>,
    /// Parts of aliases on the card: first address to bytes and where their pages are.
    parts: BTreeMap<u64, (u64, u64)>,
}

impl Tenants {
    pub fn add_segment(&mut self, address: u64, backing: Backing) {
        self.segments.insert(address, backing);
    }

    pub fn remove_segment(&mut self, address: u64) -> Option<Backing> {
        self.segments.remove(&address)
    }

    /// The segment that holds an address of the Space, and the card's address for it.
    ///
    /// # Panics
    /// If none does: a step named memory that no step mapped.
    pub fn real(&self, address: u64) -> (u64, Backing) {
        let below = self.segments.range(..=address).next_back();
        let (base, backing) = below.expect("a step lies in a segment that was mapped");
        assert!(
            address - base < backing.bytes,
            "a step lies in a segment that was mapped"
        );
        (backing.real + (address - base), *backing)
    }

    /// Whether a segment holds a range of the Space.
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let below = self.segments.range(..=address).next_back();
        below.is_some_and(|(base, backing)| address + bytes <= base + backing.bytes)
    }

    /// Takes in that the pages at `from` are mapped at `at` too, in the alias at `base`;
    /// answers where the alias's first page is.
    pub fn add_part(&mut self, at: u64, bytes: u64, from: u64, base: u64) -> u64 {
        self.parts.insert(at, (bytes, from));
        self.parts.get(&base).map_or(from, |(_, first)| *first)
    }

    /// An alias is gone.
    pub fn remove_parts(&mut self, base: u64, bytes: u64) {
        self.parts
            .retain(|at, _| !(base..base + bytes).contains(at));
    }

    /// Where the bytes of a range are, in ranges of pages that are mapped once.
    fn origins(&self, real: u64, bytes: u64) -> Vec<(u64, u64)> {
        let (mut at, end) = (real, real + bytes);
        let mut origins = Vec::new();
        while at < end {
            let part = self.parts.range(..=at).next_back();
            let part = part.filter(|(base, (bytes, _))| at - **base < *bytes);
            let Some((base, (bytes, from))) = part else {
                origins.push((at, end));
                break;
            };
            let (start, length) = (from + (at - base), (base + bytes).min(end) - at);
            origins.push((start, start + length));
            at += length;
        }
        origins
    }

    /// Takes a block in; whether it overlaps one that lives.
    pub fn enter(&mut self, block: BlockId, tenant: Tenant) -> bool {
        let mut overlaps = false;
        for (from, to) in self.origins(tenant.real, tenant.bytes) {
            overlaps |= self.occupy(from, to);
        }
        self.live.insert(block, tenant);
        overlaps
    }

    pub fn leave(&mut self, block: BlockId) -> Option<Tenant> {
        let tenant = self.live.remove(&block)?;
        for (from, _) in self.origins(tenant.real, tenant.bytes) {
            self.ranges.remove(&from);
        }
        Some(tenant)
    }

    /// Whether a live block has bytes in a range of the card.
    pub fn touched(&self, from: u64, bytes: u64) -> bool {
        let before = self.ranges.range(..from + bytes).next_back();
        before.is_some_and(|(_, end)| *end > from)
    }

    /// The live blocks that have bytes in a range of the card, by their addresses.
    pub fn touching(&self, from: u64, bytes: u64) -> Vec<Tenant> {
        let below = self.ranges.range(..from + bytes).rev();
        let inside = below.take_while(|(_, end)| **end > from);
        let found: Vec<u64> = inside.map(|(real, _)| *real).collect();
        let mut touching: Vec<Tenant> = self
            .live
            .values()
            .filter(|tenant| found.contains(&tenant.real))
            .cloned()
            .collect();
        touching.sort_by_key(|tenant| tenant.real);
        touching
    }

    pub fn get_mut(&mut self, block: BlockId) -> Option<&mut Tenant> {
        self.live.get_mut(&block)
    }

    /// All that live, the oldest first.
    pub fn by_age(&self) -> Vec<Tenant> {
        let mut all: Vec<Tenant> = self.live.values().cloned().collect();
        all.sort_by_key(|tenant| tenant.event);
        all
    }

    /// The length of the block that begins at an address of the card.
    pub fn bytes_at(&self, real: u64) -> Option<u64> {
        Some(self.ranges.get(&real)? - real)
    }

    fn occupy(&mut self, real: u64, end: u64) -> bool {
        let before = self.ranges.range(..end).next_back();
        let overlaps = before.is_some_and(|(_, last)| *last > real);
        self.ranges.insert(real, end);
        overlaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(real: u64, bytes: u64) -> Tenant {
        Tenant {
            event: real,
            real,
            bytes,
            seed: 0,
            stream: 0,
            users: Vec::new(),
            deferred: false,
        }
    }

    #[test]
    fn blocks_that_share_a_byte_overlap_and_neighbours_do_not() {
        let mut tenants = Tenants::default();
        assert!(!tenants.enter(BlockId(1), tenant(100, 50)));
        assert!(!tenants.enter(BlockId(2), tenant(150, 50)));
        assert!(!tenants.enter(BlockId(3), tenant(50, 50)));
        assert!(tenants.enter(BlockId(4), tenant(199, 1)));
        assert!(tenants.enter(BlockId(5), tenant(20, 31)));
        assert_eq!(tenants.leave(BlockId(5)).map(|gone| gone.bytes), Some(31));
        assert!(!tenants.enter(BlockId(6), tenant(20, 30)));
        assert_eq!(tenants.bytes_at(150), Some(50));
    }

    #[test]
    fn an_alias_overlaps_what_lives_on_its_pages() {
        let mut tenants = Tenants::default();
        assert_eq!(tenants.add_part(1000, 64, 128, 1000), 128);
        assert_eq!(tenants.add_part(1064, 64, 512, 1000), 128);
        assert!(!tenants.enter(BlockId(1), tenant(1000, 100)));
        assert!(tenants.touched(128, 64) && tenants.touched(540, 8));
        assert!(!tenants.touched(548, 100), "36 bytes of the second part");
        assert!(tenants.enter(BlockId(2), tenant(520, 4)));
        tenants.leave(BlockId(2));
        tenants.leave(BlockId(1));
        tenants.remove_parts(1000, 128);
        assert!(!tenants.enter(BlockId(3), tenant(512, 64)));
    }

    #[test]
    fn an_address_of_the_space_has_its_place_on_the_card() {
        let mut tenants = Tenants::default();
        let backing = Backing {
            real: 0x7000,
            bytes: 64,
            page_bytes: 0,
        };
        tenants.add_segment(1024, backing);
        assert_eq!(tenants.real(1030).0, 0x7006);
    }
}
