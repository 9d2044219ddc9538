//! Whole pages, taken from chunks of virtual space.
//!
//! The newest chunk that holds a fitting hole is used; in it the smallest such hole, the
//! lowest among equals, its low part. Where no chunk has one, a new chunk is made: the
//! pages rounded up to 32 MiB, aligned to 32 MiB. To align it the driver asks the kernel
//! for 32 MiB more and returns the margins, so only a gap of the address space that
//! holds the surplus will do; the kernel gives the highest. A chunk that is wholly free
//! goes back at once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Chunks are multiples of this, and aligned to it.
pub(super) const CHUNK_BYTES: u64 = 32 << 20;
/// Where the context's last chunk ends, the highest of all.
const TOP: u64 = 0x7000_0000_0000;
/// Where chunks begin when they come from the bottom up.
const BOTTOM: u64 = 1 << 32;
/// Pages of the context below its last chunk.
const CONTEXT_PAGES: u64 = 240;
/// The context's lone free page lies this many pages below its last chunk.
const LONE_PAGE_BELOW: u64 = 33;

/// Which gap of the address space a new chunk is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The highest, its upper end.
    Highest,
    /// The highest below an address.
    Below(u64),
    /// The lowest, its lower end.
    Lowest,
}

#[derive(Debug, Clone)]
struct Chunk {
    end: u64,
    /// Creation number.
    number: u64,
    used_bytes: u64,
    /// Free ranges, base to end.
    holes: BTreeMap<u64, u64>,
}

impl Chunk {
    /// The smallest hole of at least `bytes`, the lowest among equals.
    fn best_fit(&self, bytes: u64) -> Option<u64> {
        let fitting = self
            .holes
            .iter()
            .filter(|(base, end)| **end - **base >= bytes);
        fitting
            .min_by_key(|(base, end)| (**end - **base, **base))
            .map(|(base, _)| *base)
    }

    fn carve(&mut self, hole: u64, bytes: u64) {
        let end = self.holes.remove(&hole).expect("a hole that was found");
        if hole + bytes < end {
            self.holes.insert(hole + bytes, end);
        }
        self.used_bytes += bytes;
    }

    fn fill(&mut self, base: u64, bytes: u64) {
        let (mut low, mut high) = (base, base + bytes);
        if let Some(end) = self.holes.remove(&high) {
            high = end;
        }
        if let Some((&below, &end)) = self.holes.range(..low).next_back()
            && end == low
        {
            low = below;
        }
        self.holes.insert(low, high);
        self.used_bytes -= bytes;
    }
}

/// All chunks.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    page_bytes: u64,
    by_base: BTreeMap<u64, Chunk>,
    /// Base by creation number, the newest first.
    newest: BTreeMap<Reverse<u64>, u64>,
    made: u64,
}

impl Chunks {
    pub(super) fn new(page_bytes: u64) -> Self {
        Chunks {
            page_bytes,
            by_base: BTreeMap::new(),
            newest: BTreeMap::new(),
            made: 0,
        }
    }

    /// The context's chunks: the last one with `last_pages` free at its end, below it
    /// those that the context fills, but for one page where `lone_page` is set.
    pub(super) fn begin_context(&mut self, last_pages: u64, lone_page: bool) {
        let (page, base) = (self.page_bytes, TOP - CHUNK_BYTES);
        self.add(base, CHUNK_BYTES);
        let free_bytes = (last_pages * page).min(CHUNK_BYTES);
        self.keep(base, &[(TOP - free_bytes, TOP)]);
        let below = base - CONTEXT_PAGES * page;
        self.add(below, CONTEXT_PAGES * page);
        let lone = base - LONE_PAGE_BELOW * page;
        let free = [(lone, lone + page)];
        self.keep(below, if lone_page { &free } else { &[] });
    }

    /// Only `free` stays free in a new chunk; the rest is the context's for good.
    fn keep(&mut self, base: u64, free: &[(u64, u64)]) {
        let chunk = self.by_base.get_mut(&base).expect("a chunk just made");
        chunk.holes = free
            .iter()
            .copied()
            .filter(|(low, high)| low < high)
            .collect();
        let free_bytes: u64 = free.iter().map(|(low, high)| high - low).sum();
        chunk.used_bytes = chunk.end - base - free_bytes;
    }

    /// Chunks made so far.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Pages from a chunk that has them.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let find = |base: &u64| Some((*base, self.by_base[base].best_fit(bytes)?));
        let (base, hole) = self.newest.values().find_map(find)?;
        let chunk = self.by_base.get_mut(&base).expect("a chunk in the list");
        chunk.carve(hole, bytes);
        Some(hole)
    }

    /// Pages from a new chunk.
    pub(super) fn take_new(&mut self, bytes: u64, side: Side) -> u64 {
        let chunk_bytes = bytes.next_multiple_of(CHUNK_BYTES);
        let base = match side {
            Side::Highest => self.highest_gap(TOP, chunk_bytes),
            Side::Below(ceiling) => self.highest_gap(ceiling, chunk_bytes),
            Side::Lowest => self.lowest_gap(chunk_bytes),
        };
        self.add(base, chunk_bytes);
        let chunk = self.by_base.get_mut(&base).expect("a chunk just made");
        chunk.carve(base, bytes);
        base
    }

    fn add(&mut self, base: u64, bytes: u64) {
        let chunk = Chunk {
            end: base + bytes,
            number: self.made,
            used_bytes: 0,
            holes: BTreeMap::from([(base, base + bytes)]),
        };
        self.newest.insert(Reverse(self.made), base);
        self.by_base.insert(base, chunk);
        self.made += 1;
    }

    fn highest_gap(&self, ceiling: u64, bytes: u64) -> u64 {
        let mut top = ceiling;
        for (base, chunk) in self.by_base.range(..ceiling).rev() {
            if chunk.end + bytes + CHUNK_BYTES <= top {
                break;
            }
            top = top.min(*base);
        }
        top - bytes
    }

    fn lowest_gap(&self, bytes: u64) -> u64 {
        let mut low = BOTTOM;
        for (base, chunk) in &self.by_base {
            if low + bytes + CHUNK_BYTES <= *base {
                break;
            }
            low = chunk.end;
        }
        low
    }

    fn holder(&self, address: u64) -> Option<u64> {
        let (base, chunk) = self.by_base.range(..=address).next_back()?;
        (address < chunk.end).then_some(*base)
    }

    /// Whether the address lies in a chunk.
    pub(super) fn hold(&self, address: u64) -> bool {
        self.holder(address).is_some()
    }

    /// Pages come back.
    pub(super) fn give(&mut self, base: u64, bytes: u64) {
        let holder = self.holder(base).expect("pages of a chunk");
        let chunk = self
            .by_base
            .get_mut(&holder)
            .expect("a chunk that was found");
        chunk.fill(base, bytes);
        if chunk.used_bytes == 0 {
            let number = Reverse(chunk.number);
            self.newest.remove(&number);
            self.by_base.remove(&holder);
        }
    }
}
