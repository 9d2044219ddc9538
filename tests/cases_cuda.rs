//! Complaints and measurements about CUDA's own allocators, and about every allocator,
//! as small cases.

use std::sync::Arc;

use vramlab::policy::Registry;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::{AddressOrder, Device, SpaceConfig};
use vramlab::trace::{ANY_STREAM, Event};
use vramlab::units::{GIB, MIB};

/// Collects what events came to.
#[derive(Default)]
struct Told(Vec<Outcome>);

impl Observer for Told {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0.push(moment.outcome);
    }
}

fn start(policy: &str, capacity_bytes: u64) -> Replay {
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    let device = Device {
        page_bytes: 2 * MIB,
        ..Device::bare(capacity_bytes)
    };
    let config = SpaceConfig {
        device: Arc::new(device),
        capacity_bytes,
        blind: false,
        streams: 1,
        addresses: AddressOrder::TopDown,
        record_steps: false,
    };
    Replay::new(registry.build(&chosen).expect("builds"), config).expect("starts")
}

fn alloc(slot: u32, bytes: u64) -> Event {
    let (align_log2, stream, pool, tag) = (0, 0, 0, 0);
    Event::Alloc {
        slot,
        bytes,
        align_log2,
        stream,
        pool,
        tag,
    }
}

fn free(slot: u32) -> Event {
    let (stream, deferred) = (0, false);
    Event::Free {
        slot,
        stream,
        deferred,
    }
}

/// Whether a request is served.
fn serves(replay: &mut Replay, slot: u32, bytes: u64) -> bool {
    let mut told = Told::default();
    replay.feed(&[alloc(slot, bytes)], &[], &mut told);
    matches!(told.0[0], Outcome::Served(_))
}

/// S7, pytorch/pytorch#110194, with the checkerboard that was measured on an H200: half
/// of a 4 GiB pool is free in pieces of 8 MiB, and 16 MiB are refused; cudaMalloc, which
/// maps scattered pages, serves them.
#[test]
fn s7_a_stream_ordered_pool_fails_on_a_checkerboard_and_cudamalloc_does_not() {
    let checkerboard = |policy: &str| {
        let mut replay = start(policy, 4 * GIB);
        for slot in 0..512 {
            assert!(serves(&mut replay, slot, 8 * MIB), "{policy}: block {slot}");
        }
        let holes: Vec<Event> = (0..512).step_by(2).map(free).collect();
        replay.feed(&holes, &[], &mut ());
        replay.feed(&[Event::Sync { stream: ANY_STREAM }], &[], &mut ());
        serves(&mut replay, 512, 16 * MIB)
    };
    assert!(!checkerboard("cuda-malloc-async"));
    assert!(checkerboard("cuda-malloc"));
}

/// S33, JuliaGPU/CUDA.jl#1540: with a release threshold of 9·10⁹ bytes, dropping the
/// garbage of ten steps brings what is reserved down to the threshold, not to what is used.
#[test]
fn s33_what_is_reserved_falls_to_the_threshold() {
    let mut replay = start("cuda-malloc-async:release_threshold=9000000000", 16 * GIB);
    for slot in 0..10 {
        assert!(serves(&mut replay, slot, GIB));
    }
    assert!(replay.space().counters().reserved_bytes >= 10 * GIB);
    let garbage: Vec<Event> = (0..8).map(free).collect();
    replay.feed(&garbage, &[], &mut ());
    replay.feed(&[Event::Sync { stream: ANY_STREAM }], &[], &mut ());
    let counters = replay.space().counters();
    assert_eq!(counters.used_bytes, 2 * GIB);
    // Memory goes back in chunks of 32 MiB while no less than the threshold stays.
    let kept = counters.reserved_bytes;
    assert!(
        (9_000_000_000..9_000_000_000 + 32 * MIB).contains(&kept),
        "{kept}"
    );
}

/// S31, intel/compute-runtime#298: a request of no bytes must never alias a live block,
/// and its free must not take a neighbour along; under every policy.
#[test]
fn s31_requests_of_no_bytes_alias_nothing() {
    for (policy, _) in vramlab::policy::registry::PRESETS {
        let mut replay = start(policy, 8 * GIB);
        let mut told = Told::default();
        let program = [
            alloc(0, 1),
            alloc(1, 1),
            alloc(2, 0),
            alloc(3, 0),
            free(2),
            free(3),
        ];
        replay.feed(&program, &[], &mut told);
        assert_eq!(told.0[2..4], [Outcome::ZeroSize; 2], "{policy}");
        assert_eq!(told.0[4..], [Outcome::UnknownFree; 2], "{policy}");
        assert_eq!(replay.space().counters().used_blocks, 2, "{policy}");
        let (one, two) = (replay.block_of(0), replay.block_of(1));
        assert!(one.is_some() && two.is_some() && one != two, "{policy}");
    }
}
