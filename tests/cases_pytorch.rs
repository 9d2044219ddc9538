//! Complaints from public threads about PyTorch's caching allocator, as small cases.

use std::sync::Arc;

use vramlab::policy::Registry;
use vramlab::policy::pytorch::Options;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::{AddressOrder, Device, SpaceConfig};
use vramlab::trace::Event;
use vramlab::units::{GIB, MIB};

/// A card under one policy; allocations are named by numbers.
struct Card {
    replay: Replay,
}

/// Whether the last request was served.
struct Served(bool);

impl Observer for Served {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0 = matches!(moment.outcome, Outcome::Served(_));
    }
}

impl Card {
    fn new(conf: &str, capacity_bytes: u64) -> Self {
        Self::on_streams(conf, capacity_bytes, 1)
    }

    fn on_streams(conf: &str, capacity_bytes: u64, streams: usize) -> Self {
        let registry = Registry::default();
        let spec = match conf {
            "" => "pytorch".to_owned(),
            conf => format!("pytorch:{conf}"),
        };
        let chosen = registry.find(&spec).expect("its settings");
        let device = Device {
            page_bytes: 2 * MIB,
            ..Device::bare(capacity_bytes.next_multiple_of(2 * MIB))
        };
        let config = SpaceConfig {
            device: Arc::new(device),
            capacity_bytes,
            blind: false,
            streams,
            addresses: AddressOrder::TopDown,
            record_steps: false,
        };
        let built = registry.build(&chosen).expect("builds");
        let replay = Replay::new(built, config).expect("starts");
        Card { replay }
    }

    /// Whether the request was served.
    fn alloc(&mut self, slot: u32, bytes: u64) -> bool {
        let event = Event::Alloc {
            slot,
            bytes,
            align_log2: 0,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        let mut served = Served(false);
        self.replay.feed(&[event], &[], &mut served);
        served.0
    }

    fn free(&mut self, slot: u32) {
        let event = Event::Free {
            slot,
            stream: 0,
            deferred: false,
        };
        self.replay.feed(&[event], &[], &mut ());
    }

    fn reserved_mib(&self) -> u64 {
        self.replay.space().counters().reserved_bytes / MIB
    }

    fn peak_reserved_mib(&self) -> u64 {
        self.replay.space().counters().peak_reserved_bytes / MIB
    }

    fn used_mib(&self) -> u64 {
        self.replay.space().counters().used_bytes / MIB
    }
}

/// S1, pytorch/devlogs 2026-06-01: the order of sizes decides what is reserved.
#[test]
fn s1_largest_first_reserves_half() {
    let run = |conf: &str, sizes: [(u32, u64); 2]| {
        let mut card = Card::new(conf, 80 * GIB);
        let mut mapped = Vec::new();
        for (count, mib) in sizes {
            for slot in 0..count {
                assert!(card.alloc(slot, mib * MIB));
                mapped.push(card.reserved_mib());
            }
            (0..count).for_each(|slot| card.free(slot));
        }
        (card.peak_reserved_mib(), mapped)
    };
    assert_eq!(run("", [(8, 16), (4, 32)]).0, 256);
    assert_eq!(run("", [(4, 32), (8, 16)]).0, 128);
    let (_, mapped) = run("expandable_segments:True", [(8, 16), (4, 32)]);
    assert_eq!(mapped[..8], [20, 40, 60, 80, 80, 100, 120, 140]);
    // A page of 20 MiB for the large pool, then one of 2 MiB for the small pool.
    let mut card = Card::new("expandable_segments:True", 80 * GIB);
    assert!(card.alloc(0, 2 * MIB));
    assert_eq!(card.reserved_mib(), 20);
    assert!(card.alloc(1, MIB / 2));
    assert_eq!(card.reserved_mib(), 22);
}

/// S2, pytorch/pytorch#193400 and #123548: allocated and reserved MiB after each cycle.
fn s2(conf: &str, guarded: bool) -> (Vec<(u64, u64)>, u64) {
    let mut card = Card::new(conf, 80 * GIB);
    assert!(card.alloc(0, 64 * MIB));
    let mut cycles = Vec::new();
    for cycle in 0..=100 {
        assert!(card.alloc(1, 91 * MIB) && card.alloc(2, 91 * MIB / 2));
        assert!(!guarded || card.alloc(3 + cycle, 2 * MIB));
        card.free(1);
        card.free(2);
        cycles.push((card.used_mib(), card.reserved_mib()));
    }
    (cycles, card.peak_reserved_mib())
}

#[test]
fn s2_a_split_limit_with_expandable_segments_grows_without_end() {
    let (cycles, _) = s2("max_split_size_mb:128,expandable_segments:True", true);
    let told: Vec<_> = cycles.into_iter().step_by(20).collect();
    let thread = [
        (66, 220),
        (106, 2980),
        (146, 5760),
        (186, 8520),
        (226, 11300),
        (266, 14060),
    ];
    assert_eq!(told, thread);
    let controls = [
        ("expandable_segments:True", true),
        ("max_split_size_mb:128", true),
        ("max_split_size_mb:128,expandable_segments:True", false),
    ];
    for (conf, guarded) in controls {
        let (_, peak) = s2(conf, guarded);
        assert!(peak < 500, "{conf}, guarded {guarded}: {peak} MiB");
    }
}

/// S4, pytorch/pytorch#35901: small blocks nibble at a segment of 11,643,387,904 bytes.
#[test]
fn s4_a_nibbled_segment_keeps_the_large_tensor_out() {
    let large = 11_643_387_904;
    let run = |conf: &str| {
        let mut card = Card::new(conf, 15 * GIB);
        assert!(card.alloc(0, large));
        card.free(0);
        let small = [16515072, 16515072, 11400192, 18191360, 18191360, 18191360];
        for (slot, bytes) in (1..).zip(small) {
            assert!(card.alloc(slot, bytes));
        }
        card.free(5);
        card.alloc(7, large)
    };
    assert!(!run(""));
    assert!(run("max_split_size_mb:200"));
}

/// S5, pytorch/pytorch#159674: 60 GiB given back, then 70 GiB of 80.
#[test]
fn s5_caches_go_back_before_a_request_fails() {
    let mut card = Card::new("", 80 * GIB);
    assert!(card.alloc(0, 60 * GIB));
    card.free(0);
    assert!(card.alloc(1, 70 * GIB));
    assert_eq!(card.reserved_mib(), 70 * 1024);
}

/// S8, pytorch/pytorch#161139: two divisions round 514 MiB up to 768 MiB.
#[test]
fn s8_two_divisions_round_514_mib_to_768() {
    let mut card = Card::new("roundup_power2_divisions:[>:2]", 80 * GIB);
    assert!(card.alloc(0, 514 * MIB));
    assert_eq!((card.used_mib(), card.reserved_mib()), (768, 768));
}

/// S9, pytorch/pytorch#74213: four divisions between 1024 and 2048.
#[test]
fn s9_four_divisions_step_by_a_quarter() {
    let mut options = Options::default();
    options.parse("roundup_power2_divisions:4").expect("parses");
    let rounded = [1025, 1200, 1280, 1281, 1600, 1793].map(|bytes| options.round(bytes));
    assert_eq!(rounded.map(|bytes| bytes.next_multiple_of(512)), rounded);
    // Blocks are multiples of 512 bytes, so the steps show from 2048 on.
    let scaled = [1025, 1200, 1280, 1281, 1600, 1793].map(|bytes| options.round(bytes << 10));
    assert_eq!(
        scaled,
        [1280, 1280, 1280, 1536, 1792, 2048].map(|bytes: u64| bytes << 10)
    );
}

/// S10, pytorch/pytorch#136174: a cached block of 1024 MiB and a request of 512.
#[test]
fn s10_a_block_above_the_split_limit_serves_only_within_the_slack() {
    let run = |conf: &str| {
        let mut card = Card::new(conf, 80 * GIB);
        assert!(card.alloc(0, 1024 * MIB));
        card.free(0);
        assert!(card.alloc(1, 512 * MIB));
        card.reserved_mib()
    };
    assert_eq!(run("max_split_size_mb:400"), 1024 + 512);
    assert_eq!(
        run("max_split_size_mb:400,max_non_split_rounding_mb:513"),
        1024
    );
}

/// Leaves `driver_free` bytes on the card beside `stranded` bytes of cache in pieces that
/// are smaller than `asked`, and asks: whether the request was served.
fn stranded(conf: &str, asked: u64, driver_free: u64, stranded: u64) -> bool {
    // A guard takes more than half of its piece, so that no piece holds two of them.
    let piece = asked.next_multiple_of(4 * MIB);
    let guard = piece / 2 + 2 * MIB;
    let pieces = stranded.div_ceil(piece - guard);
    let mut card = Card::new(conf, driver_free + pieces * piece);
    for number in 0..pieces as u32 {
        assert!(card.alloc(2 * number, piece));
        card.free(2 * number);
        assert!(card.alloc(2 * number + 1, guard));
    }
    card.alloc(2 * pieces as u32, asked)
}

/// Mebibytes and hundredths of them.
fn mib(whole: u64, hundredths: u64) -> u64 {
    (whole * 100 + hundredths) * MIB / 100
}

#[test]
fn memory_that_is_stranded_in_pieces_fails_a_request_and_expandable_segments_serve_it() {
    for (thread, asked, driver_free, cached) in [
        // S12, pytorch/pytorch#31353, in GiB: 1.86 asked, 1.28 free, 5.08 cached.
        ("S12", mib(1904, 64), mib(1310, 72), mib(5201, 92)),
        // S14, fredzzhang/pocket#9, in GiB: 7.31 asked, 4.36 free, 6.80 cached.
        ("S14", mib(7485, 44), mib(4464, 64), mib(6500, 0)),
        // S16, kaito-project/kaito#976.
        ("S16", mib(546, 0), mib(514, 19), mib(736, 86)),
        // S17, vllm-project/vllm#37428.
        ("S17", mib(384, 0), mib(329, 87), mib(402, 27)),
        // S18, NovaSky-AI/SkyRL#1768: 20 GiB reserved and not allocated.
        ("S18", 12 * GIB, 8 * GIB, 20 * GIB),
    ] {
        assert!(
            driver_free < asked && driver_free + cached > asked,
            "{thread}"
        );
        assert!(
            !stranded("", asked, driver_free, cached),
            "{thread} is served"
        );
        let expandable = stranded("expandable_segments:True", asked, driver_free, cached);
        assert!(expandable, "{thread} fails with expandable segments");
    }
}

/// S15, henrywoo/pyllama#38: 64 MiB asked of 8.36 GiB that the driver has free. No
/// caching allocator fails here.
#[test]
fn s15_what_the_driver_has_is_served() {
    for conf in ["", "expandable_segments:True", "max_split_size_mb:128"] {
        let mut card = Card::new(conf, mib(8560, 64) + mib(2662, 40));
        assert!(card.alloc(0, mib(2662, 40)));
        assert!(card.alloc(1, 64 * MIB), "{conf}");
    }
}

/// S3, pytorch/pytorch#123548: the free block that touches the unmapped tail serves the
/// first small request, although it is above the split limit: nothing more is mapped.
#[test]
fn s3_a_block_at_the_unmapped_tail_serves_without_growth() {
    let mut card = Card::new("max_split_size_mb:500,expandable_segments:True", 80 * GIB);
    assert!(card.alloc(0, 50 * 800 * 1200 * 3 * 4));
    card.free(0);
    let before = card.reserved_mib();
    assert!(card.alloc(1, 115_200_000));
    assert_eq!(card.reserved_mib(), before);
}

/// S13, FalkonML/falkon#37: 9.91 GiB fail a second time with 18.59 GiB nominally free,
/// because the cached segment was chopped; a cache emptied in between serves it.
#[test]
fn s13_a_chopped_segment_keeps_its_twin_out() {
    let large = mib(9 * 1024 + 931, 84);
    let run = |conf: &str, emptied: bool| {
        let mut card = Card::new(conf, 19 * GIB);
        assert!(card.alloc(0, large));
        card.free(0);
        if emptied {
            card.replay.feed(&[Event::Trim], &[], &mut ());
        }
        assert!(card.alloc(1, 4 * MIB));
        card.alloc(2, large)
    };
    assert!(!run("", false));
    assert!(run("", true));
    assert!(run("expandable_segments:True", false));
}

/// S6, pytorch/pytorch#71616: two blocks are read by a stream each, and the stream whose event
/// was queued first is the slow one. In one queue the second block would wait behind the first;
/// in a queue a stream it is used again as soon as its own event is over.
#[test]
fn s6_a_block_waits_for_its_own_stream_only() {
    let mut card = Card::on_streams("", 80 * GIB, 3);
    assert!(card.alloc(0, 16 * MIB) && card.alloc(1, 16 * MIB));
    let base = |card: &Card, slot: u32| {
        let block = card.replay.block_of(slot).expect("live");
        card.replay.space().base(block)
    };
    let second = base(&card, 1);
    let deferred = |slot| Event::Free {
        slot,
        stream: 0,
        deferred: true,
    };
    let uses = [(0, 1), (1, 2)].map(|(slot, stream)| Event::Use { slot, stream });
    card.replay.feed(&uses, &[], &mut ());
    card.replay.feed(&[deferred(0), deferred(1)], &[], &mut ());
    assert!(card.alloc(2, 16 * MIB));
    assert_eq!(card.reserved_mib(), 48, "both are still in use");
    card.replay
        .feed(&[Event::Complete { slot: 1 }], &[], &mut ());
    assert!(card.alloc(3, 16 * MIB));
    assert_eq!((base(&card, 3), card.reserved_mib()), (second, 48));
    assert_eq!(card.used_mib(), 32, "the first one waits");
}

/// S11, pytorch/pytorch#106660: a threshold of garbage collection without a cap does nothing,
/// silently; here it is told.
#[test]
fn s11_a_threshold_without_a_cap_is_told() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.csv");
    let policy = "pytorch:garbage_collection_threshold:0.8";
    let warns = |capacity: &str| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vramlab"))
            .args(["compare", trace, "--policy", policy, "--capacity", capacity])
            .output()
            .expect("the command starts");
        assert!(output.status.success());
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).contains("does nothing without a cap")
    };
    assert!(warns("card"));
    assert!(!warns("64MiB"));
}

/// S34, LaurentMazare/tch-rs#896: without a call that empties the cache, what one program keeps
/// for itself is what another one lacks.
#[test]
fn s34_only_an_emptied_cache_leaves_memory_to_others() {
    let mut card = Card::new("", 8 * GIB);
    assert!((0..6).all(|slot| card.alloc(slot, GIB)));
    (1..6).for_each(|slot| card.free(slot));
    assert_eq!((card.used_mib(), card.reserved_mib()), (1024, 6 * 1024));
    card.replay.feed(&[Event::Trim], &[], &mut ());
    assert_eq!((card.used_mib(), card.reserved_mib()), (1024, 1024));
}
