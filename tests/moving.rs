//! Defragmentation in passes, as in a report on D3D12 Memory Allocator (its issue 91): many
//! allocations over many blocks of device memory, 10 moves a frame; a sixth of its size. Only the
//! direction is compared: waste falls pass by pass to a small rest, and stops at more where alignment is tight.

use vramlab::policy::Registry;
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;
use vramlab::trace::Event;
use vramlab::units::{GIB, MIB};

const ALLOCATIONS: u32 = 3_000;
const MOVES: u64 = 10;

/// What is reserved beyond what is asked for, in bytes, before the first pass and after each.
/// Requests are 16 to 216 KiB; of ten, six at random are freed.
fn waste(align_log2: u8, passes: usize) -> Vec<u64> {
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
    let mut events: Vec<Event> = (0..ALLOCATIONS)
        .map(|slot| Event::Alloc {
            slot,
            bytes: (16 + draw(200)) * 1024 + draw(1024),
            align_log2,
            stream: 0,
            pool: 0,
            tag: 0,
        })
        .collect();
    let freed = (0..ALLOCATIONS).filter(|_| draw(10) < 6);
    events.extend(freed.map(|slot| Event::Free {
        slot,
        stream: 0,
        deferred: false,
    }));
    replay.feed(&events, &[], &mut ());
    let wasted = |replay: &Replay| {
        replay.space().counters().reserved_bytes - replay.totals().requested_bytes
    };
    let mut waste = vec![wasted(&replay)];
    for _ in 0..passes {
        let moves = replay.space().counters().moves;
        replay.feed(&[Event::Mark { label: 0 }], &[], &mut ());
        assert!(replay.space().counters().moves <= moves + MOVES);
        waste.push(wasted(&replay));
    }
    waste
}

#[test]
fn ten_moves_a_pass_leave_a_small_rest_and_more_where_alignment_is_tight() {
    let loose = waste(8, 100);
    let tight = waste(16, 100);
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
