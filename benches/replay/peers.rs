//! The peers: allocators of other crates, and an ordered set as PyTorch and XLA keep theirs,
//! each in the smallest loop over the same events. They see requests and frees, count in
//! granules of 256 bytes, and keep no sums; only the ordered set is asked for its largest
//! block, as nothing else knows it exactly.

use std::collections::BTreeSet;
use std::hint::black_box;

use offset_allocator::{Allocation, Allocator};
use range_alloc::RangeAllocator;
use vramlab::trace::Event;
use xalloc::{SysTlsf, SysTlsfRegion};

/// What all sizes are multiples of, here and in the policies.
const GRANULE_BYTES: u64 = 256;

/// An allocator of another crate.
pub trait Peer {
    /// What it names an allocation by.
    type Handle;

    /// An empty one of so many granules.
    fn begin(granules: u64) -> Self;

    /// Serves a request.
    fn alloc(&mut self, granules: u64) -> Option<Self::Handle>;

    /// Takes it back.
    fn free(&mut self, handle: Self::Handle);
}

impl Peer for Allocator<u32> {
    type Handle = Allocation<u32>;

    fn begin(granules: u64) -> Self {
        let most = u32::try_from(granules).unwrap_or(u32::MAX);
        Allocator::with_max_allocs(most, 4 << 20)
    }

    fn alloc(&mut self, granules: u64) -> Option<Self::Handle> {
        self.allocate(granules as u32)
    }

    fn free(&mut self, handle: Self::Handle) {
        Allocator::free(self, handle);
    }
}

impl Peer for SysTlsf<u32> {
    type Handle = SysTlsfRegion;

    fn begin(granules: u64) -> Self {
        SysTlsf::new(u32::try_from(granules).unwrap_or(u32::MAX))
    }

    fn alloc(&mut self, granules: u64) -> Option<Self::Handle> {
        Some(SysTlsf::alloc(self, granules as u32)?.0)
    }

    fn free(&mut self, handle: Self::Handle) {
        self.dealloc(handle).expect("a region of its own");
    }
}

impl Peer for RangeAllocator<u64> {
    type Handle = std::ops::Range<u64>;

    fn begin(granules: u64) -> Self {
        RangeAllocator::new(0..granules)
    }

    fn alloc(&mut self, granules: u64) -> Option<Self::Handle> {
        self.allocate_range(granules).ok()
    }

    fn free(&mut self, handle: Self::Handle) {
        self.free_range(handle);
    }
}

/// "No block" in the links.
const NONE: u32 = u32::MAX;

/// A block between its neighbours.
#[derive(Clone, Copy)]
struct Block {
    base: u64,
    bytes: u64,
    prev: u32,
    next: u32,
    free: bool,
}

/// Best fit over an ordered set of free blocks by size, then address.
pub struct OrderedSet {
    blocks: Vec<Block>,
    spare: Vec<u32>,
    free: BTreeSet<(u64, u64, u32)>,
}

impl OrderedSet {
    fn enter(&mut self, at: u32) {
        let block = self.blocks[at as usize];
        self.free.insert((block.bytes, block.base, at));
    }

    fn leave(&mut self, at: u32) {
        let block = self.blocks[at as usize];
        self.free.remove(&(block.bytes, block.base, at));
    }

    /// The left one takes its right neighbour in.
    fn join(&mut self, left: u32, right: u32) {
        let gone = self.blocks[right as usize];
        let kept = &mut self.blocks[left as usize];
        kept.bytes += gone.bytes;
        kept.next = gone.next;
        if gone.next != NONE {
            self.blocks[gone.next as usize].prev = left;
        }
        self.spare.push(right);
    }

    fn is_free(&self, at: u32) -> bool {
        self.blocks.get(at as usize).is_some_and(|block| block.free)
    }
}

impl Peer for OrderedSet {
    type Handle = u32;

    fn begin(granules: u64) -> Self {
        let all = Block {
            base: 0,
            bytes: granules,
            prev: NONE,
            next: NONE,
            free: true,
        };
        OrderedSet {
            blocks: vec![all],
            spare: Vec::new(),
            free: BTreeSet::from([(granules, 0, 0)]),
        }
    }

    fn alloc(&mut self, granules: u64) -> Option<u32> {
        let found = *self.free.range((granules, 0, 0)..).next()?;
        self.free.remove(&found);
        let at = found.2;
        self.blocks[at as usize].free = false;
        let old = self.blocks[at as usize];
        if old.bytes > granules {
            let rest = Block {
                base: old.base + granules,
                bytes: old.bytes - granules,
                prev: at,
                next: old.next,
                free: true,
            };
            let high = self.spare.pop().unwrap_or_else(|| {
                self.blocks.push(rest);
                (self.blocks.len() - 1) as u32
            });
            self.blocks[high as usize] = rest;
            if old.next != NONE {
                self.blocks[old.next as usize].prev = high;
            }
            self.blocks[at as usize].bytes = granules;
            self.blocks[at as usize].next = high;
            self.enter(high);
        }
        black_box(self.free.last());
        Some(at)
    }

    fn free(&mut self, mut at: u32) {
        let Block { prev, next, .. } = self.blocks[at as usize];
        if self.is_free(next) {
            self.leave(next);
            self.join(at, next);
        }
        if self.is_free(prev) {
            self.leave(prev);
            self.join(prev, at);
            at = prev;
        }
        self.blocks[at as usize].free = true;
        self.enter(at);
        black_box(self.free.last());
    }
}

/// A peer with what each slot holds.
pub struct Loop<P: Peer> {
    peer: P,
    slots: Vec<Option<P::Handle>>,
}

impl<P: Peer> Loop<P> {
    /// An empty one.
    pub fn new(capacity_bytes: u64) -> Self {
        Loop {
            peer: P::begin(capacity_bytes / GRANULE_BYTES),
            slots: Vec::new(),
        }
    }

    /// Carries events out.
    ///
    /// # Panics
    /// Where a request fails: the loads leave room for all.
    pub fn feed(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Alloc { slot, bytes, .. } if bytes > 0 => {
                    let granules = bytes.div_ceil(GRANULE_BYTES);
                    let handle = self.peer.alloc(granules).expect("room for all");
                    let at = slot as usize;
                    if at >= self.slots.len() {
                        self.slots.resize_with(at + 1, || None);
                    }
                    self.slots[at] = Some(handle);
                }
                Event::Free { slot, .. } => {
                    let held = self.slots.get_mut(slot as usize);
                    if let Some(handle) = held.and_then(Option::take) {
                        self.peer.free(handle);
                    }
                }
                _ => {}
            }
        }
    }
}
