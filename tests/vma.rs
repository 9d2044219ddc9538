//! The policy `vma` against the Vulkan Memory Allocator itself, request by request.
//!
//! The library runs over a Vulkan made here: a device with one heap that hands out
//! numbers for memory and counts bytes. What it does with them is its own.

#![allow(
    unsafe_code,
    reason = "the library is C++, and the Vulkan below it is a table of C functions"
)]

use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex};

use ash::vk::{self, Handle};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use vk_mem::{Alloc, Allocation, AllocationCreateInfo, Allocator, AllocatorCreateInfo};
use vramlab::policy::Registry;
use vramlab::replay::Replay;
use vramlab::space::{AddressOrder, Bench, Device, SpaceConfig};
use vramlab::trace::Event;

/// Pages of the card, on both sides: no alignment is asked for beyond it.
const PAGE_BYTES: u64 = 64 << 10;

/// The heap, and every piece of memory taken so far: bytes, 0 once given back.
struct Card {
    heap_bytes: u64,
    taken: Vec<u64>,
}

static CARD: Mutex<Card> = Mutex::new(Card {
    heap_bytes: 0,
    taken: Vec::new(),
});

fn card() -> std::sync::MutexGuard<'static, Card> {
    CARD.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

unsafe extern "system" fn properties(
    _: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceProperties,
) {
    let mut told = vk::PhysicalDeviceProperties::default();
    told.limits.buffer_image_granularity = 1;
    told.limits.non_coherent_atom_size = 1;
    told.limits.max_memory_allocation_count = u32::MAX;
    // SAFETY: the library passes room for one structure.
    unsafe { out.write(told) };
}

unsafe extern "system" fn memory_properties(
    _: vk::PhysicalDevice,
    out: *mut vk::PhysicalDeviceMemoryProperties,
) {
    let mut told = vk::PhysicalDeviceMemoryProperties {
        memory_type_count: 1,
        memory_heap_count: 1,
        ..Default::default()
    };
    told.memory_types[0].property_flags = vk::MemoryPropertyFlags::DEVICE_LOCAL;
    told.memory_heaps[0] = vk::MemoryHeap {
        size: card().heap_bytes,
        flags: vk::MemoryHeapFlags::DEVICE_LOCAL,
    };
    // SAFETY: the library passes room for one structure.
    unsafe { out.write(told) };
}

unsafe extern "system" fn allocate(
    _: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    _: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeviceMemory,
) -> vk::Result {
    // SAFETY: the library passes a whole structure.
    let bytes = unsafe { (*info).allocation_size };
    let mut card = card();
    let pages = |bytes: &u64| bytes.next_multiple_of(PAGE_BYTES);
    if card.taken.iter().map(pages).sum::<u64>() + pages(&bytes) > card.heap_bytes {
        return vk::Result::ERROR_OUT_OF_DEVICE_MEMORY;
    }
    card.taken.push(bytes);
    // SAFETY: the library passes room for one handle.
    unsafe { out.write(vk::DeviceMemory::from_raw(card.taken.len() as u64)) };
    vk::Result::SUCCESS
}

unsafe extern "system" fn give_back(
    _: vk::Device,
    memory: vk::DeviceMemory,
    _: *const vk::AllocationCallbacks<'_>,
) {
    if memory != vk::DeviceMemory::null() {
        card().taken[memory.as_raw() as usize - 1] = 0;
    }
}

unsafe extern "system" fn by_name(name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings; each function has the type that its name says.
    unsafe {
        let function: *const () = match CStr::from_ptr(name).to_str() {
            Ok("vkGetDeviceProcAddr") => device_function as *const (),
            Ok("vkGetPhysicalDeviceProperties") => properties as *const (),
            Ok("vkGetPhysicalDeviceMemoryProperties") => memory_properties as *const (),
            Ok("vkAllocateMemory") => allocate as *const (),
            Ok("vkFreeMemory") => give_back as *const (),
            _ => std::ptr::null(),
        };
        std::mem::transmute(function)
    }
}

unsafe extern "system" fn instance_function(
    _: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings.
    unsafe { by_name(name) }
}

unsafe extern "system" fn device_function(
    _: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: names are C strings.
    unsafe { by_name(name) }
}

/// The library over a card of that size.
fn library(heap_bytes: u64) -> Allocator {
    *card() = Card {
        heap_bytes,
        taken: Vec::new(),
    };
    let table = ash::StaticFn {
        get_instance_proc_addr: instance_function,
    };
    // SAFETY: the handles are numbers that only the functions above ever see.
    unsafe {
        let instance = ash::Instance::load(&table, vk::Instance::from_raw(1));
        let device = ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(1));
        let physical = vk::PhysicalDevice::from_raw(1);
        Allocator::new(AllocatorCreateInfo::new(&instance, &device, physical))
            .expect("an allocator over a card")
    }
}

/// One request of both; where it went: how much memory lies below the offset, and there.
struct Both {
    theirs: Allocator,
    ours: Replay,
    slots: u32,
    spare: Vec<u32>,
    live: Vec<(u32, Allocation)>,
}

impl Both {
    fn new(heap_bytes: u64) -> Self {
        let registry = Registry::default();
        let chosen = registry.find("vma").expect("a preset");
        let policy = registry.build(&chosen).expect("a policy");
        let mut config = SpaceConfig::bare(heap_bytes);
        config.device = Arc::new(Device {
            page_bytes: PAGE_BYTES,
            ..Device::bare(heap_bytes)
        });
        config.addresses = AddressOrder::Bench(Bench {
            from: 0,
            down: false,
            gap_bytes: 0,
            reserve_from: 1 << 60,
        });
        Both {
            theirs: library(heap_bytes),
            ours: Replay::new(policy, config).expect("it starts"),
            slots: 0,
            spare: Vec::new(),
            live: Vec::new(),
        }
    }

    fn feed(&mut self, event: Event) {
        self.ours.feed(&[event], &[0], &mut ());
    }

    /// Whether both served it; the piece of memory and the offset must agree.
    fn alloc(&mut self, bytes: u64, align_log2: u8) -> bool {
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.feed(Event::Alloc {
            slot,
            bytes,
            align_log2,
            stream: 0,
            pool: 0,
            tag: 0,
        });
        let asked = vk::MemoryRequirements {
            size: bytes.next_multiple_of(256),
            alignment: 256.max(1 << align_log2),
            memory_type_bits: 1,
        };
        // SAFETY: what is asked for is valid, and freed before the library goes.
        let theirs = unsafe {
            let info = AllocationCreateInfo::default();
            self.theirs.allocate_memory(&asked, &info)
        };
        let space = self.ours.space();
        let ours = self.ours.block_of(slot).map(|block| {
            let segment = space.segment(block);
            (
                space.base(block) - space.segment_base(segment),
                space.segment_bytes(segment),
            )
        });
        let Ok(allocation) = theirs else {
            assert_eq!(ours, None, "{bytes} bytes: the library refuses");
            self.spare.push(slot);
            return false;
        };
        let info = self.theirs.get_allocation_info(&allocation);
        let memory_bytes = card().taken[info.device_memory.as_raw() as usize - 1];
        assert_eq!(ours, Some((info.offset, memory_bytes)), "{bytes} bytes");
        self.live.push((slot, allocation));
        true
    }

    fn free(&mut self, at: usize) {
        let (slot, mut allocation) = self.live.swap_remove(at);
        // SAFETY: it is live, and not used again.
        unsafe { self.theirs.free_memory(&mut allocation) };
        self.feed(Event::Free {
            slot,
            stream: 0,
            deferred: false,
        });
        self.spare.push(slot);
    }

    /// Both hold the same memory of the card, piece by piece.
    fn compare(&self) {
        let mut theirs: Vec<u64> = card().taken.iter().copied().filter(|it| *it > 0).collect();
        let space = self.ours.space();
        let mut ours: Vec<u64> = space.segments().map(|it| space.segment_bytes(it)).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs);
    }
}

/// Plays one random program; answers how many requests were served and refused.
fn play(seed: u64, heap_bytes: u64, largest_bytes: u64) -> [u64; 2] {
    let mut both = Both::new(heap_bytes);
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut met = [0, 0];
    for step in 0..3000_u64 {
        // It fills up, empties, and fills up again.
        let frees = if step / 500 % 2 == 0 { 40 } else { 58 };
        if !both.live.is_empty() && dice.next_u64() % 100 < frees {
            let at = dice.next_u64() as usize % both.live.len();
            both.free(at);
        } else {
            let bits = dice.next_u64() % u64::from(largest_bytes.ilog2());
            let align_log2 = [0, 0, 0, 0, 12, 16][dice.next_u64() as usize % 6];
            let served = both.alloc(1 + dice.next_u64() % (2 << bits), align_log2);
            met[usize::from(!served)] += 1;
        }
        both.compare();
    }
    while !both.live.is_empty() {
        both.free(0);
    }
    both.compare();
    met
}

/// One test: the card below the library is one for the whole process.
#[test]
fn every_request_goes_where_the_library_puts_it() {
    let mut met = [0, 0];
    for (seed, heap_bytes, largest_bytes) in [
        (1, 16 << 30, 1 << 28),
        (2, 2 << 30, 1 << 29),
        (3, 1 << 30, 1 << 28),
        (4, 64 << 20, 1 << 25),
        (5, 3 << 30, 1 << 20),
        (6, 256 << 20, 1 << 26),
    ] {
        let [served, refused] = play(seed, heap_bytes, largest_bytes);
        met = [met[0] + served, met[1] + refused];
    }
    println!("served, refused: {met:?}");
    assert!(met[0] > 5000 && met[1] > 100, "served, refused: {met:?}");
}
