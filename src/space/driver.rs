//! Where the driver's addresses come from, and how many pages they touch.
//!
//! The rule was learned from 8,300 recorded calls of cudaMalloc on an H200 (driver 580)
//! and meets each of them: requests below 2 MiB share pages (`shared`), larger ones
//! take whole pages of chunks (`chunks`), which come from the kernel's free address
//! space. Physical memory is counted by the pages that live allocations touch.

mod chunks;
pub mod context;
mod shared;

use std::collections::{HashMap, VecDeque};

use chunks::{CHUNK_BYTES, Chunks, Side};
use shared::Shared;

use super::Device;
use crate::units::{ADDRESS_LIMIT, GIB, TIB};

/// Which addresses the driver gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressOrder {
    /// As CUDA's driver: new chunks from the top of the address space down.
    TopDown,
    /// New chunks from the bottom up.
    BottomUp,
    /// New chunks at places shuffled by a seed: to see whether a result hangs on them.
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

/// Where reservations of addresses begin.
const RESERVED_FROM: u64 = 0x2_0000_0000_0000;
/// Free pages at the end of the context's last chunk, as PyTorch's programs find them.
const CONTEXT_LAST_PAGES: u64 = 12;
/// Step of addresses inside a shared page.
const SHARED_STEP_BYTES: u64 = 512;

/// The driver's address book and page table.
#[derive(Debug, Clone)]
pub struct Driver {
    order: AddressOrder,
    page_bytes: u64,
    bottom: u64,
    reserved: u64,
    chunks: Chunks,
    shared: Shared,
    /// Recorded addresses of the mappings to come.
    fed_maps: VecDeque<u64>,
    /// Recorded addresses of the reservations to come.
    fed_reserves: VecDeque<u64>,
    /// How many live ranges touch a page that none of them fills.
    touched: HashMap<u64, u32>,
}

impl Driver {
    pub(super) fn new(order: AddressOrder, device: &Device) -> Self {
        let given = match &order {
            AddressOrder::Given(addresses) => addresses.iter().copied().collect(),
            _ => VecDeque::new(),
        };
        let mut driver = Driver {
            order,
            page_bytes: device.page_bytes,
            bottom: 0,
            reserved: RESERVED_FROM,
            chunks: Chunks::new(device.page_bytes),
            shared: Shared::new(device.page_bytes),
            fed_maps: given,
            fed_reserves: VecDeque::new(),
            touched: HashMap::new(),
        };
        driver.begin_context(CONTEXT_LAST_PAGES, true);
        driver
    }

    /// Says which pages the program's context leaves free for the first allocations:
    /// `last_pages` at the end of its last chunk, and one between its own where
    /// `lone_page` is set. It hangs on what the program loaded before; to be called
    /// before the first allocation. Without effect unless addresses come from the top
    /// down.
    pub fn begin_context(&mut self, last_pages: u64, lone_page: bool) {
        if self.has_context() {
            self.chunks = Chunks::new(self.page_bytes);
            self.chunks.begin_context(last_pages, lone_page);
        }
    }

    /// The context moved: what it leaves serves later allocations ([`context`]). To be
    /// called once at most; without effect as [`begin_context`](Self::begin_context).
    pub fn give_context_back(&mut self) {
        if self.has_context() {
            self.chunks.give_context_back();
        }
    }

    fn has_context(&self) -> bool {
        self.order == AddressOrder::TopDown && self.page_bytes > 1
    }

    /// The recorded addresses of the mappings and reservations of the event to come.
    pub fn feed(&mut self, maps: &[u64], reserves: &[u64]) {
        self.fed_maps.clear();
        self.fed_maps.extend(maps);
        self.fed_reserves.clear();
        self.fed_reserves.extend(reserves);
    }

    /// Addresses for a mapping; `None` where they run out.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        if let Some(address) = self.fed_maps.pop_front() {
            let end = address.checked_add(bytes);
            return end.filter(|end| *end <= ADDRESS_LIMIT).map(|_| address);
        }
        if let AddressOrder::Bench(bench) = &mut self.order {
            return Some(bench.take(bytes.next_multiple_of(self.page_bytes)));
        }
        if self.page_bytes == 1 {
            let base = self.bottom;
            self.bottom = base
                .checked_add(bytes)
                .filter(|end| *end <= ADDRESS_LIMIT)?;
            return Some(base);
        }
        Some(self.take_whole(bytes))
    }

    fn take_whole(&mut self, bytes: u64) -> u64 {
        let size = bytes.next_multiple_of(SHARED_STEP_BYTES);
        if size < self.page_bytes {
            return self.shared.take(size).unwrap_or_else(|| {
                let page = self.take_pages(self.page_bytes);
                self.shared.open(page, size)
            });
        }
        self.take_pages(size.next_multiple_of(self.page_bytes))
    }

    fn take_pages(&mut self, bytes: u64) -> u64 {
        if let Some(base) = self.chunks.take(bytes) {
            return base;
        }
        let side = match self.order {
            AddressOrder::BottomUp => Side::Lowest,
            AddressOrder::Shuffled(seed) => {
                let number = scramble(seed ^ scramble(self.chunks.made()));
                Side::Below((16 + number % 64) * TIB)
            }
            _ => Side::Highest,
        };
        self.chunks.take_new(bytes, side)
    }

    pub(super) fn give(&mut self, base: u64, bytes: u64) {
        if self.page_bytes == 1 || !self.chunks.hold(base) {
            return;
        }
        let size = bytes.next_multiple_of(SHARED_STEP_BYTES);
        if size >= self.page_bytes {
            let size = size.next_multiple_of(self.page_bytes);
            self.chunks.give(base, size);
        } else if let Some(page) = self.shared.give(base, size) {
            self.chunks.give(page, self.page_bytes);
        }
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
            let users = self.touched.entry(page).or_insert(0);
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
            let users = self
                .touched
                .get_mut(&page)
                .expect("a page that was touched");
            *users -= 1;
            if *users == 0 {
                self.touched.remove(&page);
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
