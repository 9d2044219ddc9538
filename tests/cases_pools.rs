//! Complaints from public threads about RMM, CuPy, XLA and ONNX Runtime, as small cases
//! with the threads' numbers. Each test names its thread.

#[path = "common/run.rs"]
mod run;

use run::{Run, strand, stranded};
use vramlab::replay::Outcome;
use vramlab::trace::{Event, Slot};
use vramlab::units::{GIB, KIB, MIB};

/// S19: rapidsai/rmm#1957, PR#2470.
#[test]
fn s19_a_pool_with_an_initial_block_serves_its_maximum_only_where_it_gives_that_back() {
    let pool = |initial: u64, reclaim: bool| {
        Run::new(
            &format!("rmm-pool:initial={initial},maximum=1024,reclaim={reclaim}"),
            4096,
        )
    };
    assert!(pool(256, false).fails(1024));
    pool(0, false).serve(1024);
    pool(256, true).serve(1024);
}

/// S20: rapidsai/rmm#496, PR#498: growth by all that is left starved the second buffer;
/// growth by what was asked for, or half of what is left, does not.
#[test]
fn s20_two_buffers_of_8_gib_on_a_card_of_32510_mib() {
    let card = 32_510 * MIB;
    for policy in [
        "rmm-pool:initial=16255MiB",
        "rmm-pool:initial=0",
        "cupy-pool",
    ] {
        let mut run = Run::new(policy, card);
        run.serve(8 * GIB);
        run.serve(8 * GIB);
        assert!(run.reserved() <= card);
    }
}

/// S21: rapidsai/rmm#1245.
#[test]
fn s21_a_pool_strands_30_975_923_088_bytes_before_a_request_of_132_870_728() {
    let (used, reserved) = (53_514_136_688, 84_490_059_776);
    assert_eq!(reserved - used, 30_975_923_088);
    stranded("rmm-pool", reserved, reserved - used, 132_870_728);
}

/// S22: rapidsai/rmm#2039, #536, PR#532: two streams keep neighbours apart until their
/// lists are merged.
#[test]
fn s22_the_lists_of_two_streams_are_merged_before_a_request_fails() {
    let mut run = Run::new("rmm-pool:initial=4096,maximum=4096", 4096);
    let slots: Vec<Slot> = (0..4).map(|_| run.serve_on(1024, 1)).collect();
    for (slot, stream) in slots.iter().zip([1, 2, 1, 2]) {
        run.free_on(*slot, stream);
    }
    assert_eq!(run.replay.largest_free_bytes(), 1024, "apart so far");
    let whole = run.serve_on(4096, 1);
    assert_eq!(run.base(whole), 0);
}

/// S23: rapidsai/rmm#1156: a size that wraps when rounded up succeeded and gave null.
#[test]
fn s23_a_size_that_wraps_is_an_error_under_every_pool() {
    for policy in [
        "rmm-pool:initial=0",
        "rmm-arena",
        "rmm-fixed:blocks_to_preallocate=1",
        "xla-bfc",
        "xla-bfc-growing",
        "ort-arena",
        "cupy-pool",
    ] {
        let mut run = Run::new(policy, 4 * MIB);
        assert!(run.fails(18_446_744_073_709_551_612), "{policy}");
        run.serve(1024);
    }
}

/// S24: rapidsai/rmm#147: a free of address 100 returned success.
#[test]
fn s24_a_free_of_no_allocation_is_told() {
    let mut run = Run::new("rmm-pool:initial=1MiB", MIB);
    let live = run.serve(1024);
    let inside = run.feed(Event::FreeAt { address: 100 });
    assert_eq!(inside, Outcome::InteriorPointer);
    let nothing = run.feed(Event::FreeAt { address: 4096 });
    assert_eq!(nothing, Outcome::UnknownPointer);
    assert_eq!(run.replay.totals().unknown_frees, 2);
    run.free(live);
}

/// S25: NVIDIA/cudf-spark#4045.
#[test]
fn s25_345_571_976_bytes_fail_on_a_card_of_40_gib_with_9_319_438_848_allocated() {
    let card = 40 * GIB;
    stranded(
        "rmm-pool:initial=0",
        card,
        card - 9_319_438_848,
        345_571_976,
    );
}

/// S26: NVIDIA/cudf-spark#5231: an arena of 14055.75 MiB.
#[test]
fn s26_1_115_853_760_bytes_fail_in_an_arena_with_4_89_gb_free() {
    let arena = 14_055 * MIB + 768 * KIB;
    let free = arena - 9_847_463_424;
    assert_eq!(free / 10_000_000, 489);
    stranded("rmm-arena", arena, free, 1_115_853_760);
}

/// S27: NVIDIA/cudf-spark#2504: small blocks keep superblocks of 256 KiB in the arenas
/// of their streams.
#[test]
fn s27_superblocks_of_streams_starve_the_global_arena() {
    let large = 700 * KIB;
    for (superblock, fails) in [("256KiB", true), ("0", false)] {
        let mut run = Run::new(&format!("rmm-arena:superblock={superblock}"), MIB);
        for stream in 0..4 {
            run.serve_on(256, stream);
        }
        assert_eq!(run.fails(large), fails, "superblocks of {superblock}");
    }
}

/// S28: cupy/cupy#7678, PR#7679.
#[test]
fn s28_the_cache_is_flushed_before_a_request_fails_at_the_limit() {
    for (flush, fails) in [(false, true), (true, false)] {
        let mut run = Run::new(&format!("cupy-pool:limit=1GiB,flush_at_limit={flush}"), GIB);
        let first = run.serve(536_870_912);
        run.free(first);
        assert_eq!(run.replay.space().counters().used_bytes, 0);
        assert_eq!(run.reserved(), 536_870_912);
        assert_eq!(run.fails(805_306_368), fails, "flush {flush}");
    }
}

/// S29: cupy/cupy#277, #526, #536: 1 GB asked, 2.3 GB free, spread over chunks.
#[test]
fn s29_2_3_gb_in_pieces_do_not_serve_1_gb() {
    let (pool, free, asked) = (4 * GIB, 2_300_000_000, 1_000_000_000);
    stranded("cupy-pool", pool, free, asked);
    // What was proposed there: the same holes, moved together.
    let mut run = Run::new("compaction:threshold=1", pool);
    strand(&mut run, pool, free, asked, 512);
    assert!(run.replay.largest_free_bytes() < asked);
    run.serve(asked);
    assert!(run.replay.space().counters().moves > 0);
}

/// S35: google/trax#431: 31.06M asked, 58.64M free, the largest piece 30.56M.
#[test]
fn s35_free_bytes_suffice_and_the_largest_piece_does_not() {
    let piece = |hundredths: u64| hundredths * 10_000 / 256 * 256;
    let (ask, largest, other) = (piece(3106), piece(3056), piece(5864) - piece(3056));
    let wall = MIB;
    let mut run = Run::new("xla-bfc", largest + wall + other);
    // In halves, since a chunk less than twice the request is handed out whole.
    let half = largest / 512 * 256;
    let [low, upper, between, high] =
        [half, largest - half, wall, other].map(|bytes| run.serve(bytes));
    for slot in [low, upper, high] {
        run.free(slot);
    }
    assert_eq!(run.replay.largest_free_bytes(), largest);
    assert!(run.replay.space().counters().free_bytes >= ask && run.fails(ask));
    run.free(between);
    run.serve(ask);
}

/// S36: jax-ml/jax#788: 5,520,758,552 bytes out of regions that grow.
#[test]
fn s36_one_region_serves_what_doubling_regions_do_not() {
    for (policy, fails) in [("xla-bfc-growing", true), ("xla-bfc", false)] {
        let mut run = Run::new(policy, 8 * GIB);
        let earlier = run.serve(3 * GIB);
        run.free(earlier);
        assert_eq!(run.fails(5_520_758_552), fails, "{policy}");
    }
}

/// S37: marin-community/marin#7115: a transient of 14.30 GiB needs one hole under BFC; an
/// allocator of scattered pages serves it.
#[test]
fn s37_a_transient_of_14_30_gib_needs_one_hole_or_scattered_pages() {
    let (card, free, transient) = (80 * GIB, 20 * GIB, 14_644 * MIB);
    stranded("xla-bfc", card, free, transient);
    for policy in ["stitching-all", "cuda-malloc"] {
        let mut run = Run::new(policy, card);
        strand(&mut run, card, free, transient, 2 * MIB);
        assert!(!run.fails(transient), "{policy}");
    }
}

/// S38: EnzymeAD/Reactant.jl#2632, a control: memory is really out.
#[test]
fn s38_a_fourth_buffer_of_27_gib_under_89_77_gib_is_no_fragmentation() {
    let limit = 8_977 * GIB / 100 / 256 * 256;
    let mut run = Run::new("xla-bfc", limit);
    for _ in 0..3 {
        run.serve(27 * GIB);
    }
    assert!(run.fails(27 * GIB));
    let live = run.replay.totals().requested_bytes;
    assert!(limit - live < 27 * GIB, "no policy could serve it");
}

/// S39: tensorflow/tensorflow#30827: free regions are given back for a larger one.
#[test]
fn s39_regions_that_cannot_merge_are_given_back_for_a_larger_batch() {
    for (policy, fails) in [("xla-bfc-growing", true), ("xla-bfc-gc", false)] {
        let mut run = Run::new(policy, 16 * MIB);
        let batch = [2_000_000, 3_000_000, 7_000_000].map(|bytes| run.serve(bytes));
        batch.iter().for_each(|slot| run.free(*slot));
        assert_eq!(run.fails(9_000_000), fails, "{policy}");
    }
}

/// S40: microsoft/onnxruntime#14474, triton-inference-server/server#3776, PR#15983.
#[test]
fn s40_an_arena_grows_by_powers_of_two_or_by_the_request() {
    let mut same = Run::new("ort-arena-same", GIB);
    same.serve(600_000_000);
    assert_eq!(same.reserved(), 600_000_000);
    same.serve(12_000_000);
    assert_eq!(same.reserved(), 612_000_000);

    let mut doubling = Run::new("ort-arena", GIB);
    doubling.serve(160_000);
    assert_eq!(doubling.reserved(), 1_048_576);
    doubling.serve(19_888_128);
    assert_eq!(doubling.reserved(), 34_603_008);

    // A model of more than 16 GiB: doubling regions end at 32 GiB, capped ones do not.
    let model = |policy: &str| {
        let mut run = Run::new(policy, 64 * GIB);
        for _ in 0..=16 * 1024 / 200 {
            run.serve(200 * MIB);
        }
        run.reserved()
    };
    let uncapped = model("ort-arena:max_power_of_two_extend_bytes=1TiB");
    assert!(uncapped > 31 * GIB, "{uncapped}");
    assert!(model("ort-arena") < 18 * GIB);
    assert!(model("ort-arena-same") < 17 * GIB);
}
