//! Every verdict that a policy can come to, by real policies on traces written by hand.

use std::sync::Arc;

use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::observe::{Failures, Verdict};
use vramlab::policy::Registry;
use vramlab::space::Device;
use vramlab::trace::text::Source;
use vramlab::trace::{check, csv};
use vramlab::units::{GIB, MIB};

/// The failures of a policy over the rows of a native csv.
fn failures(policy: &str, capacity_bytes: u64, rows: &str) -> Failures {
    let text = format!("{}\n{rows}", csv::COLUMNS);
    let source = Source::named("by-hand.csv");
    let trace = csv::import(&mut text.as_bytes(), &source).expect("the rows are well-formed");
    check::check(&trace).expect("the trace keeps the rules");
    let card = Arc::new(Device::bare(16 * capacity_bytes));
    let scene = Scene::new(trace, card, Wanted::Bytes(capacity_bytes));
    assert_eq!(scene.capacity.bytes, capacity_bytes);
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    let watch = Watch {
        map: false,
        progress: &|_| (),
        extra: (),
    };
    match run_cell(&scene, &registry, &chosen, watch).expect("it builds") {
        Ended::Replayed(seen) => seen.failures,
        other => panic!("{policy}: {other:?}"),
    }
}

/// The events that failed, with their verdicts; the counts agree with the records.
fn verdicts(policy: &str, capacity_bytes: u64, rows: &str) -> Vec<(u64, Verdict)> {
    let failures = failures(policy, capacity_bytes, rows);
    let records = failures.records();
    for (verdict, count) in failures.counts() {
        let kept = records.iter().filter(|record| record.verdict == verdict);
        assert_eq!(kept.count() as u64, count, "{policy}: {verdict}");
    }
    let pairs = records.iter().map(|record| (record.event, record.verdict));
    pairs.collect()
}

/// S02: two holes of 1 GiB, and a request of 1.5 GiB.
#[test]
fn holes_apart_are_fragmentation() {
    let mut rows: String = (0..8).map(|id| format!("alloc,{id},1GiB\n")).collect();
    rows += "free,1\nfree,4\nalloc,x,1536MiB\n";
    let fragmentation = [(10, Verdict::Fragmentation)];
    for policy in ["best-fit", "first-fit", "worst-fit", "next-fit", "tlsf"] {
        assert_eq!(verdicts(policy, 8 * GIB, &rows), fragmentation, "{policy}");
    }
    let record = failures("best-fit", 8 * GIB, &rows).records()[0];
    assert_eq!(
        (record.free_bytes, record.largest_free_bytes),
        (2 * GIB, GIB)
    );
    assert_eq!(verdicts("compaction", 8 * GIB, &rows), [], "moving helps");
}

/// Two segments of 20 MiB, each with 9 MiB free, 9 MiB used and 2 MiB free, under a cap
/// that leaves no room, and 12 MiB asked for.
#[test]
fn holes_in_segments_under_a_cap_are_fragmentation() {
    let halves: String = (0..4).map(|id| format!("alloc,{id},9MiB\n")).collect();
    let rows = halves.clone() + "free,0\nfree,2\nalloc,x,12MiB\n";
    let fragmentation = [(6, Verdict::Fragmentation)];
    assert_eq!(verdicts("pytorch", 40 * MIB, &rows), fragmentation);
    assert_eq!(
        verdicts("pytorch", 51 * MIB, &rows),
        fragmentation,
        "11 MiB of room hold 12 MiB neither rounded nor as asked"
    );
    assert_eq!(verdicts("pytorch", 52 * MIB, &rows), [], "a segment fits");
    let whole = halves + "free,0\nfree,1\nalloc,x,12MiB\n";
    assert_eq!(
        verdicts("pytorch", 40 * MIB, &whole),
        [],
        "one hole holds it"
    );
}

/// S38: a limit of 89.77 GiB, three of 27 GiB live, a fourth fails.
#[test]
fn a_true_shortage_is_capacity() {
    let rows: String = (0..4).map(|id| format!("alloc,{id},27GiB\n")).collect();
    let limit = 8977 * GIB / 100;
    for policy in ["best-fit", "pytorch", "compaction", "cuda-malloc"] {
        assert_eq!(
            verdicts(policy, limit, &rows),
            [(3, Verdict::Capacity)],
            "{policy}"
        );
    }
}

/// S05: freed on one stream, asked for on another before the wait, and after it.
#[test]
fn memory_that_a_stream_may_still_use_is_stream() {
    let rows = "alloc,a,2048,1\nfree,a,,1\nalloc,b,1024,2\n";
    let stream = [(2, Verdict::Stream)];
    assert_eq!(verdicts("stream-first-fit", 2048, rows), stream);
    let waited = "alloc,a,2048,1\nfree,a,,1\nsync,,,1\nalloc,b,1024,2\n";
    assert_eq!(verdicts("stream-first-fit", 2048, waited), []);
}

/// A segment of 20 MiB in use by stream 1, with room for the request of stream 2.
#[test]
fn a_free_block_of_another_stream_is_stream() {
    let shared = "alloc,a,6MiB,1\nalloc,b,8MiB,1\nfree,b\n";
    let on = |stream: u8| format!("{shared}alloc,c,8MiB,{stream}\n");
    let stream = [(3, Verdict::Stream)];
    assert_eq!(verdicts("pytorch", 24 * MIB, &on(2)), stream);
    assert_eq!(verdicts("pytorch", 24 * MIB, &on(1)), []);
}

/// The same with a private pool that is still in use, as of a captured graph.
#[test]
fn a_free_block_of_a_private_pool_is_pool() {
    let in_pool = |pool: u8| {
        format!(
            "pool_begin,,,0,,,1\nalloc,a,6MiB,0,,,1\nalloc,b,8MiB,0,,,1\nfree,b\npool_end,,,0,,,1\n\
             alloc,c,8MiB,0,,,{pool}\n"
        )
    };
    let pool = [(5, Verdict::Pool)];
    assert_eq!(verdicts("pytorch", 24 * MIB, &in_pool(0)), pool);
    let rest = "pool_begin,,,0,,,1\nalloc,a,6MiB,0,,,1\nalloc,b,8MiB,0,,,1\nfree,b\n\
                alloc,c,8MiB,0,,,1\npool_end,,,0,,,1\n";
    assert_eq!(verdicts("pytorch", 24 * MIB, rest), [], "inside the pool");
}

/// S03c: 4 GiB are free, but of the class of 4 GiB.
#[test]
fn a_free_block_of_another_class_is_class() {
    let rows = "alloc,a,4GiB\nalloc,b,3GiB\nfree,a\nalloc,x,100MiB\n";
    let class = [(3, Verdict::Class)];
    assert_eq!(verdicts("size-class", 8 * GIB, rows), class);
    assert_eq!(verdicts("best-fit", 8 * GIB, rows), []);
}

/// Half of the card is free on both sides of one block.
#[test]
fn a_pinned_block_in_the_way_is_pinned() {
    let around = "alloc,a,3MiB\nalloc,b,2MiB\nalloc,c,3MiB\n";
    let rows = |pin: &str| format!("{around}{pin}\nfree,a\nfree,c\nalloc,x,4MiB\n");
    let pinned = [(6, Verdict::Pinned)];
    let over = "compaction:over=first-fit,threshold=1";
    assert_eq!(verdicts(over, 8 * MIB, &rows("pin,b")), pinned);
    assert_eq!(verdicts(over, 8 * MIB, &rows("pin,b\nunpin,b")), []);
    let fragmentation = [(6, Verdict::Fragmentation)];
    assert_eq!(
        verdicts("first-fit", 8 * MIB, &rows("pin,b")),
        fragmentation
    );
}

/// 700 become 768 and leave 232, which hold 200, but not 256; and half a buddy whose
/// start is aligned as asked, where the policy wants a whole one of 8 KiB.
#[test]
fn a_request_that_fits_unrounded_is_rounding() {
    let rows = |bytes: u64| format!("alloc,a,700\nalloc,x,{bytes}\n");
    let of = |verdict| [(1, verdict)];
    assert_eq!(
        verdicts("best-fit", 1000, &rows(200)),
        of(Verdict::Rounding)
    );
    assert_eq!(
        verdicts("best-fit", 1000, &rows(240)),
        of(Verdict::Fragmentation)
    );
    let rows = |align: &str| {
        format!("alloc,a,4KiB\nalloc,b,4KiB\nalloc,c,8KiB\nfree,a\nalloc,x,4KiB,,,{align}\n")
    };
    let rounding = [(4, Verdict::Rounding)];
    assert_eq!(verdicts("buddy", 16 << 10, &rows("8KiB")), rounding);
    assert_eq!(verdicts("buddy", 16 << 10, &rows("4KiB")), []);
}

/// No multiple of an alignment is so large.
#[test]
fn a_size_that_cannot_be_rounded_is_overflow() {
    let rows = format!("alloc,a,{}\nalloc,b,1024\n", u64::MAX - 3);
    let overflow = [(0, Verdict::Overflow)];
    for policy in ["best-fit", "buddy", "bump", "size-class", "tlsf", "pytorch"] {
        assert_eq!(verdicts(policy, 64 * MIB, &rows), overflow, "{policy}");
    }
}

/// S15: 64 MiB asked, 2.60 GiB of 12 in use.
#[test]
fn where_there_is_room_no_policy_fails() {
    let rows = format!("alloc,a,{}\nalloc,b,64MiB\n", 26 * GIB / 10);
    let registry = Registry::default();
    for policy in registry.default_names() {
        assert_eq!(verdicts(policy, 12 * GIB, &rows), [], "{policy}");
    }
}
