//! S42: defragmentation in passes, as in a report on D3D12 Memory Allocator (its issue 91): 18,000
//! allocations over 700 blocks of device memory, 10 moves a frame. Only the direction is compared:
//! waste falls pass by pass to a small rest, and stops at more where alignment is tight.

use vramlab::policy::Registry;
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;
use vramlab::trace::Event;
use vramlab::units::{GIB, MIB};

const MOVES: u64 = 10;

/// What is reserved beyond what is asked for, in bytes, before the first pass and after each,
/// and the blocks of device memory at the start. Requests are 16 KiB to `most_kib` more; of ten,
/// six at random are freed.
fn waste(allocations: u32, most_kib: u64, align_log2: u8, passes: usize) -> (Vec<u64>, usize) {
    let spec = format!(
        "compaction:over=\"vma:block=4MiB\",threshold=1,mover=evacuate,marks=true,step_moves={MOVES}"
    );
    let registry = Registry::default();
    let chosen = registry.find(&spec).expect("a policy");
    let policy = registry.build(&chosen).expect("a policy");
    let mut replay = Replay::new(policy, SpaceConfig::bare(8 * GIB)).expect("it starts");
    let mut random = 1u64;
    let mut draw = |below: u64| {
        // Knuth's MMIX generator; its upper bits.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut events: Vec<Event> = (0..allocations)
        .map(|slot| Event::Alloc {
            slot,
            bytes: (16 + draw(most_kib)) * 1024 + draw(1024),
            align_log2,
            stream: 0,
            pool: 0,
            tag: 0,
        })
        .collect();
    let freed = (0..allocations).filter(|_| draw(10) < 6);
    events.extend(freed.map(|slot| Event::Free {
        slot,
        stream: 0,
        deferred: false,
    }));
    replay.feed(&events[..allocations as usize], &[], &mut ());
    let blocks = replay.space().segments().count();
    replay.feed(&events[allocations as usize..], &[], &mut ());
    let wasted = |replay: &Replay| {
        replay.space().counters().reserved_bytes - replay.totals().requested_bytes
    };
    let mut waste = vec![wasted(&replay)];
    for _ in 0..passes {
        let moves = replay.space().counters().moves;
        replay.feed(&[Event::Mark { label: 0 }], &[], &mut ());
        let moved = replay.space().counters().moves - moves;
        assert!(moved <= MOVES);
        waste.push(wasted(&replay));
        // Where nothing can be moved any more, later passes change nothing.
        if moved == 0 {
            break;
        }
    }
    let last = *waste.last().expect("one before the first pass");
    waste.resize(passes + 1, last);
    (waste, blocks)
}

#[test]
fn ten_moves_a_pass_leave_a_small_rest_and_more_where_alignment_is_tight() {
    let (loose, _) = waste(3_000, 200, 8, 100);
    let (tight, _) = waste(3_000, 200, 16, 100);
    for (name, waste) in [("256 B", &loose), ("64 KiB", &tight)] {
        let mib: Vec<u64> = waste.iter().step_by(20).map(|it| it / MIB).collect();
        println!("alignment {name}: waste in MiB at every 20th pass: {mib:?}");
        assert!(waste.is_sorted_by(|a, b| a >= b), "a pass never adds waste");
    }
    let last = |waste: &[u64]| *waste.last().expect("passes");
    assert!(loose[0] > 150 * MIB, "{}", loose[0]);
    assert!(last(&loose) < loose[0] / 10, "{}", last(&loose));
    assert!(last(&tight) > 2 * last(&loose), "{}", last(&tight));
}

/// The report's own size: some 700 blocks, more than 1 GiB useless, less than 100 MiB after
/// passes of 10 moves; where every allocation is aligned to 64 KiB, more stays.
#[test]
fn s42_a_gib_of_waste_becomes_less_than_a_hundred_mib() {
    let (loose, blocks) = waste(18_000, 280, 8, 600);
    let (tight, _) = waste(18_000, 280, 16, 600);
    let mib =
        |waste: &[u64]| -> Vec<u64> { waste.iter().step_by(100).map(|it| it / MIB).collect() };
    println!("{blocks} blocks; {:?}; {:?}", mib(&loose), mib(&tight));
    assert!((600..=800).contains(&blocks), "{blocks} blocks");
    assert!(loose[0] > GIB, "{}", loose[0]);
    assert!(loose[600] < 100 * MIB, "{}", loose[600]);
    assert!(tight[600] > 120 * MIB, "{}", tight[600]);
}
