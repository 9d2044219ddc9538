//! Policies of engines against the libraries that they follow, request by request.

use offset_allocator::{Allocation, Allocator};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use vramlab::policy::Registry;
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;
use vramlab::trace::Event;

/// Sizes of every magnitude, in units.
fn size(dice: &mut ChaCha8Rng, most: u32) -> u32 {
    let bits = dice.next_u32() % (most.ilog2() + 1);
    1 + dice.next_u32() % (1 << bits)
}

/// Plays one random program against the crate; answers how many requests were served and
/// refused.
fn against_the_crate(seed: u64, units: u32, nodes: u32, most: u32) -> [u64; 2] {
    let registry = Registry::default();
    let spec = format!("offset-allocator:unit=1,nodes={nodes}");
    let chosen = registry.find(&spec).expect("a policy");
    let policy = registry.build(&chosen).expect("a policy");
    let mut replay = Replay::new(policy, SpaceConfig::bare(u64::from(units))).expect("it starts");
    let mut theirs = Allocator::<u32>::with_max_allocs(units, nodes);
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut live: Vec<(u32, Allocation)> = Vec::new();
    let mut spare: Vec<u32> = Vec::new();
    let (mut slots, mut met) = (0, [0, 0]);
    for step in 0..4000_u64 {
        if !live.is_empty() && dice.next_u32() % 100 < 48 {
            let at = dice.next_u32() as usize % live.len();
            let (slot, allocation) = live.swap_remove(at);
            theirs.free(allocation);
            let free = Event::Free {
                slot,
                stream: 0,
                deferred: false,
            };
            replay.feed(&[free], &[step], &mut ());
            spare.push(slot);
            continue;
        }
        let bytes = size(&mut dice, most);
        let slot = spare.pop().unwrap_or_else(|| {
            slots += 1;
            slots - 1
        });
        let alloc = Event::Alloc {
            slot,
            bytes: u64::from(bytes),
            align_log2: 0,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        replay.feed(&[alloc], &[step], &mut ());
        let allocation = theirs.allocate(bytes);
        let space = replay.space();
        let ours = replay
            .block_of(slot)
            .map(|block| space.base(block) - space.segment_base(space.segment(block)));
        let offset = allocation.map(|allocation| u64::from(allocation.offset));
        assert_eq!(ours, offset, "seed {seed}, step {step}: {bytes} units");
        met[usize::from(offset.is_none())] += 1;
        match allocation {
            Some(allocation) => live.push((slot, allocation)),
            None => spare.push(slot),
        }
        let report = theirs.storage_report();
        // The crate reports nothing where its table is full.
        if report.total_free_space > 0 {
            let servable = replay.policy().servable(replay.space(), 0);
            assert_eq!(
                servable,
                u64::from(report.largest_free_region),
                "step {step}"
            );
        }
    }
    met
}

#[test]
fn the_offset_allocator_places_as_the_crate_does() {
    let mut met = [0, 0];
    for (seed, units, nodes, most) in [
        (1, 1 << 20, 1 << 12, 1 << 14),
        (2, 1 << 15, 1 << 12, 1 << 13),
        (3, 10_000, 1 << 12, 1 << 12),
        (4, 1_000_003, 200, 1 << 12),
        (5, u32::MAX, 1 << 12, 1 << 30),
        (6, 777, 1 << 12, 64),
    ] {
        let [served, refused] = against_the_crate(seed, units, nodes, most);
        met = [met[0] + served, met[1] + refused];
    }
    assert!(met[0] > 5000 && met[1] > 200, "served, refused: {met:?}");
}
