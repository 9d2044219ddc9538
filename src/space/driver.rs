//! Where the driver's addresses come from, and how many pages they touch.
//!
//! Seen on an H200 (driver 580): virtual space is taken in chunks of multiples of
//! 32 MiB from the top down; allocations above 1 MiB are placed inside chunks at steps
//! of 2 MiB, smaller ones share pages at steps of 512 bytes; the lowest hole is taken
//! first. Physical memory is counted by the pages that live allocations touch.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::Device;
use crate::units::GIB;

/// Which addresses the driver gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressOrder {
    /// From the top of the address space down, as CUDA's driver does.
    TopDown,
    /// From 0 up.
    BottomUp,
    /// New chunks in an order shuffled by a seed: to see whether a result hangs on it.
    Shuffled(u64),
    /// The addresses of a recording, fed one by one; top down where it has none.
    Recorded,
    /// These for the first mappings (what a policy takes at its start), then as `Recorded`.
    Given(Vec<u64>),
    /// A simulated driver as test benches have one: no address is given twice.
    Bench(Bench),
}

/// A simulated driver that counts on from where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bench {
    /// Where mappings begin (or end, when they go down).
    pub from: u64,
    /// Each mapping lies below the last one.
    pub down: bool,
    /// Bytes left out between mappings.
    pub gap_bytes: u64,
    /// Where reservations begin; each goes on at a whole GiB behind a GiB of distance.
    pub reserve_from: u64,
}

impl Bench {
    fn take(&mut self, bytes: u64) -> u64 {
        if self.down {
            self.from -= bytes + self.gap_bytes;
            return self.from + self.gap_bytes;
        }
        self.from += bytes + self.gap_bytes;
        self.from - bytes - self.gap_bytes
    }

    fn reserve(&mut self, bytes: u64) -> u64 {
        let base = self.reserve_from;
        self.reserve_from += bytes.next_multiple_of(GIB) + GIB;
        base
    }
}

/// Where the driver's chunks begin when they come from the top down.
const TOP: u64 = 0x7f00_0000_0000;
/// Where reservations of addresses begin.
const RESERVED_FROM: u64 = 0x2_0000_0000_0000;
/// Virtual space is taken in multiples of this.
const CHUNK_BYTES: u64 = 32 << 20;
/// Requests up to this share pages.
const SHARED_UP_TO_BYTES: u64 = 1 << 20;
/// Step of addresses inside a shared page.
const SHARED_STEP_BYTES: u64 = 512;

/// The driver's address book and page table.
#[derive(Debug, Clone)]
pub struct Driver {
    order: AddressOrder,
    page_bytes: u64,
    bottom: u64,
    top: u64,
    reserved: u64,
    chunks: u64,
    /// Recorded addresses of the mappings to come.
    fed_maps: VecDeque<u64>,
    /// Recorded addresses of the reservations to come.
    fed_reserves: VecDeque<u64>,
    /// Holes of the chunks taken so far, by address.
    holes: BTreeMap<u64, u64>,
    /// How many live ranges touch a page that none of them fills.
    shared: HashMap<u64, u32>,
}

impl Driver {
    pub(super) fn new(order: AddressOrder, device: &Device) -> Self {
        let given = match &order {
            AddressOrder::Given(addresses) => addresses.as_slice(),
            _ => &[],
        };
        Driver {
            fed_maps: given.iter().copied().collect(),
            order,
            page_bytes: device.page_bytes,
            bottom: 0,
            top: TOP,
            reserved: RESERVED_FROM,
            chunks: 0,
            fed_reserves: VecDeque::new(),
            holes: BTreeMap::new(),
            shared: HashMap::new(),
        }
    }

    /// The recorded addresses of the mappings and reservations of the event to come.
    pub fn feed(&mut self, maps: &[u64], reserves: &[u64]) {
        self.fed_maps.clear();
        self.fed_maps.extend(maps);
        self.fed_reserves.clear();
        self.fed_reserves.extend(reserves);
    }

    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        if let Some(address) = self.fed_maps.pop_front() {
            return address;
        }
        if let AddressOrder::Bench(bench) = &mut self.order {
            return bench.take(bytes.next_multiple_of(self.page_bytes));
        }
        if self.page_bytes == 1 {
            let base = self.bottom;
            self.bottom += bytes;
            return base;
        }
        let step = if bytes <= SHARED_UP_TO_BYTES {
            SHARED_STEP_BYTES
        } else {
            self.page_bytes
        };
        let size = bytes.next_multiple_of(step);
        let fits = |(base, end): (&u64, &u64)| {
            let start = base.next_multiple_of(step);
            (start + size <= *end).then_some((*base, *end, start))
        };
        let (base, end, start) = self.holes.iter().find_map(fits).unwrap_or_else(|| {
            let (base, end) = self.new_chunk(size);
            (base, end, base)
        });
        self.holes.remove(&base);
        if base < start {
            self.holes.insert(base, start);
        }
        if start + size < end {
            self.holes.insert(start + size, end);
        }
        start
    }

    fn new_chunk(&mut self, size: u64) -> (u64, u64) {
        let bytes = size.next_multiple_of(CHUNK_BYTES);
        self.chunks += 1;
        let up = match self.order {
            AddressOrder::BottomUp => true,
            AddressOrder::Shuffled(seed) => scramble(seed ^ self.chunks) & 1 == 1,
            AddressOrder::TopDown
            | AddressOrder::Recorded
            | AddressOrder::Given(_)
            | AddressOrder::Bench(_) => false,
        };
        if up {
            self.bottom += bytes;
            (self.bottom - bytes, self.bottom)
        } else {
            self.top -= bytes;
            (self.top, self.top + bytes)
        }
    }

    pub(super) fn give(&mut self, base: u64, bytes: u64) {
        let fixed = matches!(
            self.order,
            AddressOrder::Recorded | AddressOrder::Given(_) | AddressOrder::Bench(_)
        );
        if self.page_bytes == 1 || fixed {
            return;
        }
        let step = if bytes <= SHARED_UP_TO_BYTES {
            SHARED_STEP_BYTES
        } else {
            self.page_bytes
        };
        let (mut low, mut high) = (base, base + bytes.next_multiple_of(step));
        if let Some(end) = self.holes.remove(&high) {
            high = end;
        }
        if let Some((&below, &end)) = self.holes.range(..low).next_back()
            && end == low
        {
            low = below;
        }
        self.holes.insert(low, high);
    }

    pub(super) fn reserve(&mut self, bytes: u64) -> u64 {
        if let Some(address) = self.fed_reserves.pop_front() {
            return address;
        }
        if let AddressOrder::Bench(bench) = &mut self.order {
            return bench.reserve(bytes);
        }
        let base = self.reserved;
        self.reserved += bytes.next_multiple_of(CHUNK_BYTES);
        base
    }

    /// Addresses of a reservation are not handed out twice.
    pub(super) fn unreserve(&mut self, _base: u64, _bytes: u64) {}

    /// Counts the pages of a new range; the bytes of those not touched before.
    pub(super) fn touch(&mut self, base: u64, bytes: u64) -> u64 {
        let (whole, edges) = self.pages(base, bytes);
        let mut new_bytes = whole;
        for page in edges.into_iter().flatten() {
            let users = self.shared.entry(page).or_insert(0);
            *users += 1;
            if *users == 1 {
                new_bytes += self.page_bytes;
            }
        }
        new_bytes
    }

    /// Forgets the pages of a range; the bytes of those that nothing touches any more.
    pub(super) fn untouch(&mut self, base: u64, bytes: u64) -> u64 {
        let (whole, edges) = self.pages(base, bytes);
        let mut gone_bytes = whole;
        for page in edges.into_iter().flatten() {
            let users = self.shared.get_mut(&page).expect("a page that was touched");
            *users -= 1;
            if *users == 0 {
                self.shared.remove(&page);
                gone_bytes += self.page_bytes;
            }
        }
        gone_bytes
    }

    /// Bytes of the pages that the range fills, and the pages that it fills in part.
    fn pages(&self, base: u64, bytes: u64) -> (u64, [Option<u64>; 2]) {
        let page = self.page_bytes;
        let (first, last) = (base / page, (base + bytes - 1) / page);
        let head = !base.is_multiple_of(page);
        let tail = !(base + bytes).is_multiple_of(page);
        if first == last && (head || tail) {
            return (0, [Some(first), None]);
        }
        let whole = (last + 1 - first - u64::from(head) - u64::from(tail)) * page;
        (whole, [head.then_some(first), tail.then_some(last)])
    }
}

/// A fixed scrambling of 64 bits (the finaliser of SplitMix64, Steele and others 2014).
fn scramble(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
