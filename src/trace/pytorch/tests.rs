//! Hand-sized snapshots of every kind, and random ones that must not panic.

use proptest::prelude::*;

use crate::trace::snapshot::{Action, Annotation, BlockState, Entry, Settings, Snapshot};
use crate::trace::truth::{TruthKind, TruthState};
use crate::trace::{Event, Trace};
use crate::units::MIB;

use super::testing::{entry, segment, snapshot};
use super::{Options, import, stripped};

use BlockState::{ActiveAllocated, ActivePendingFree, Inactive};

const LARGE: u64 = 20 * MIB;
const SMALL: u64 = 2 * MIB;

fn one(snapshot: &Snapshot) -> Trace {
    let mut traces = import(snapshot, "x.pickle", "x", Options::default()).expect("imports");
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

fn noted(trace: &Trace, words: &str) -> u64 {
    let notes = trace.report.notes.iter();
    notes
        .filter(|note| note.what.contains(words))
        .map(|note| note.count)
        .sum()
}

/// The events in short: `a512`, `f` (`d` where deferred), `c`, `t`, `o512`, `m`, `?`.
fn short(trace: &Trace) -> String {
    let words = trace.events.iter().map(|event| match event {
        Event::Alloc { bytes, .. } => format!("a{bytes}"),
        Event::Attempt { bytes, .. } => format!("o{bytes}"),
        Event::Free { deferred: true, .. } => "d".to_owned(),
        Event::Free { .. } => "f".to_owned(),
        Event::Complete { .. } => "c".to_owned(),
        Event::Trim => "t".to_owned(),
        Event::Mark { label } => trace.labels[*label as usize].clone(),
        _ => "?".to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The event of each fact, in file order.
fn places(trace: &Trace) -> Vec<u32> {
    let truth = trace.truth.as_deref().expect("has truth");
    truth.entries.iter().map(|fact| fact.event).collect()
}

fn freed(address: u64, bytes: u64) -> [Entry; 2] {
    [
        entry(Action::FreeRequested, address, bytes),
        entry(Action::FreeCompleted, address, bytes),
    ]
}

fn whole(address: u64) -> crate::trace::snapshot::Segment {
    segment(address, true, &[(LARGE, 0, Inactive)])
}

#[test]
fn entries_of_one_malloc_are_facts_of_its_event() {
    let mut entries = vec![
        entry(Action::SegmentAlloc, 0, SMALL),
        entry(Action::Alloc, 0, 100),
    ];
    entries.extend(freed(0, 100));
    entries.push(entry(Action::SegmentFree, 0, SMALL));
    let trace = one(&snapshot(Vec::new(), entries));
    assert_eq!(short(&trace), "a100 f t");
    assert_eq!(places(&trace), [0, 0, 1, 1, 2]);
    assert!(!trace.has_times());
    assert_eq!(noted(&trace, "emptied caches inferred: "), 1);
    assert_eq!(noted(&trace, "no allocator settings"), 1);
}

#[test]
fn a_delayed_free_completes_later_and_before_the_request_that_found_it() {
    let entries = vec![
        entry(Action::SegmentAlloc, 0, SMALL),
        entry(Action::Alloc, 0, 100),
        entry(Action::FreeRequested, 0, 100),
        entry(Action::Alloc, 512, 100),
        entry(Action::FreeCompleted, 0, 100),
        entry(Action::Alloc, 0, 50),
    ];
    let blocks = [
        (512, 50, ActiveAllocated),
        (512, 100, ActiveAllocated),
        (SMALL - 1024, 0, Inactive),
    ];
    let trace = one(&snapshot(vec![segment(0, false, &blocks)], entries));
    assert_eq!(short(&trace), "a100 d a100 c a50");
    assert_eq!(places(&trace), [0, 0, 1, 2, 3, 4]);
    assert_eq!(noted(&trace, "record_stream"), 1);
    assert_eq!(trace.initial_events, 0);
}

#[test]
fn a_retry_is_no_event_and_its_completions_come_after_the_request() {
    let full = 64 * MIB;
    let entries = vec![
        entry(Action::SegmentAlloc, 0, full),
        entry(Action::Alloc, 0, full),
        entry(Action::FreeRequested, 0, full),
        entry(Action::FreeCompleted, 0, full),
        entry(Action::SegmentFree, 0, full),
        entry(Action::SegmentAlloc, full, full),
        entry(Action::Alloc, full, full),
        entry(Action::FreeRequested, full, full),
        entry(Action::Alloc, full + 1, 5),
        entry(Action::FreeCompleted, full, full),
        entry(Action::Oom, 0, full),
    ];
    let mut capped = snapshot(Vec::new(), entries);
    let trace = one(&capped);
    assert_eq!(short(&trace), format!("a{full} f a{full} d a5 o{full} c"));
    assert_eq!(noted(&trace, "retries inferred"), 1);
    assert_eq!(noted(&trace, "requests failed"), 1);
    assert_eq!(places(&trace), [0, 0, 1, 1, 2, 2, 2, 3, 4, 5, 5]);
    // Without the failure nothing tells of a cap; a reader who knows it says so.
    capped.device_traces[0].truncate(7);
    assert_eq!(short(&one(&capped)), format!("a{full} f t a{full}"));
    let told = Options {
        capacity_bytes: Some(full),
    };
    let traces = import(&capped, "x", "x", told).expect("imports");
    assert_eq!(short(&traces[0]), format!("a{full} f a{full}"));
    assert_eq!(traces[0].capacity_bytes, Some(full));
}

#[test]
fn what_was_live_before_the_first_entry_leads_the_trace() {
    let rounded = 5 * MIB;
    let mut entries = vec![entry(Action::FreeCompleted, 0, 4 * MIB)];
    // Shows that the block before it ends 1 KiB behind its rounded size.
    let behind = 4 * MIB + rounded + 1024;
    entries.push(entry(Action::Alloc, behind, 2 * MIB));
    entries.extend(freed(4 * MIB, rounded - 7));
    let mut region = whole(0);
    region.blocks = segment(
        0,
        true,
        &[
            (behind, 0, Inactive),
            (2 * MIB, 2 * MIB, ActiveAllocated),
            (LARGE - behind - 2 * MIB, 0, Inactive),
        ],
    )
    .blocks;
    let trace = one(&snapshot(vec![region], entries));
    let expected = format!("a{} d a{} c a{} f", 4 * MIB, rounded - 7, 2 * MIB);
    assert_eq!(short(&trace), expected);
    assert_eq!(trace.initial_events, 3);
    assert_eq!(noted(&trace, "live before the first entry; rebuilt"), 2);
    let truth = trace.truth.as_deref().expect("has truth");
    let blocks = &truth.initial[0].blocks;
    let tiles: Vec<_> = blocks
        .iter()
        .map(|block| (block.address, block.bytes, block.state))
        .collect();
    assert_eq!(
        tiles,
        [
            (0, 4 * MIB, TruthState::Pending),
            (4 * MIB, rounded + 1024, TruthState::Active),
            (behind, LARGE - behind, TruthState::Inactive),
        ]
    );
    assert_eq!(
        noted(&trace, "whose size an allocation behind them showed"),
        1
    );
}

#[test]
fn a_state_without_a_trace_is_its_live_blocks() {
    let blocks = [
        (512, 500, ActiveAllocated),
        (512, 400, ActivePendingFree),
        (SMALL - 1024, 0, Inactive),
    ];
    let mut state = snapshot(vec![segment(MIB, false, &blocks)], Vec::new());
    let trace = one(&state);
    assert_eq!(short(&trace), "a500 a400 d");
    assert_eq!(trace.initial_events, 3);
    assert_eq!(noted(&trace, "a state and no trace"), 1);
    state.segments.clear();
    let error = import(&state, "x.pickle", "x", Options::default()).expect_err("is empty");
    assert!(
        error.to_string().contains("_record_memory_history"),
        "{error}"
    );
}

#[test]
fn each_device_is_a_trace_of_its_own() {
    let mut two = snapshot(vec![whole(0)], vec![entry(Action::SegmentAlloc, 0, LARGE)]);
    two.device_traces.push(Vec::new());
    two.device_traces.push(vec![
        entry(Action::SegmentAlloc, 0, SMALL),
        entry(Action::Alloc, 0, 9),
    ]);
    let mut other = segment(
        0,
        false,
        &[(512, 9, ActiveAllocated), (SMALL - 512, 0, Inactive)],
    );
    other.device = 2;
    two.segments.push(other);
    let traces = import(&two, "x", "x", Options::default()).expect("imports");
    let told: Vec<_> = traces
        .iter()
        .map(|trace| (trace.name.as_str(), trace.device, short(trace)))
        .collect();
    assert_eq!(
        told,
        [
            ("x-cuda0", 0, String::new()),
            ("x-cuda2", 2, "a9".to_owned())
        ]
    );
    assert_eq!(noted(&traces[1], "contradict"), 0);
}

#[test]
fn frees_left_out_are_found_where_places_are_used_again() {
    let entries = vec![
        entry(Action::SegmentAlloc, 0, SMALL),
        entry(Action::Alloc, 0, 1024),
        entry(Action::Alloc, 1024, 300),
        entry(Action::Alloc, 512, 512),
        entry(Action::Alloc, 4096, 10),
    ];
    let blocks = [
        (512, 0, Inactive),
        (512, 512, ActiveAllocated),
        (SMALL - 1024, 0, Inactive),
    ];
    let trace = one(&snapshot(vec![segment(0, false, &blocks)], entries));
    assert_eq!(short(&trace), "a1024 a300 f a512 a10 f f");
    assert_eq!(noted(&trace, "frees inferred"), 3);
    assert_eq!(noted(&trace, "put at the end"), 2);
    assert_eq!(noted(&trace, "contradict"), 0);
}

#[test]
fn half_a_free_is_a_free() {
    let opening = [
        entry(Action::SegmentAlloc, 0, SMALL),
        entry(Action::Alloc, 0, 64),
    ];
    for half in freed(0, 64) {
        let entries = opening.iter().copied().chain([half]).collect();
        let trace = one(&snapshot(
            vec![segment(0, false, &[(SMALL, 0, Inactive)])],
            entries,
        ));
        assert_eq!(short(&trace), "a64 f", "{:?}", half.action);
        assert_eq!(noted(&trace, "contradict"), 0);
    }
}

#[test]
fn times_only_run_forward_and_annotations_are_marks_among_them() {
    let timed = |action, address, time_us| {
        let mut entry = entry(action, address, 64);
        entry.set_time_us(Some(time_us));
        entry
    };
    let entries = vec![
        timed(Action::Alloc, 0, 1_000),
        timed(Action::Alloc, 512, 990),
        timed(Action::Alloc, 1024, 1_005),
    ];
    let mut marked = snapshot(Vec::new(), entries);
    for (name, stage, time_us) in [
        ("late", "START", 2_000),
        ("step", "START", 1_001),
        ("step", "END", 1_900),
    ] {
        marked.annotations.push(Annotation {
            name: name.to_owned(),
            stage: stage.to_owned(),
            device: 0,
            time_us,
        });
    }
    let trace = one(&marked);
    assert_eq!(short(&trace), "a64 a64 step a64 late");
    assert_eq!(trace.times_ns, [0, 0, 1_000, 5_000, 1_000_000]);
    assert_eq!(noted(&trace, "times ran backwards"), 1);
    assert_eq!(noted(&trace, "ends of annotated ranges"), 1);
}

#[test]
fn pools_come_from_the_entry_or_from_the_segment_that_holds_it() {
    let mut old = snapshot(
        vec![whole(0), whole(LARGE)],
        vec![
            entry(Action::SegmentAlloc, 0, LARGE),
            entry(Action::SegmentAlloc, LARGE, LARGE),
            entry(Action::Alloc, 0, 3 * MIB),
            entry(Action::Alloc, LARGE, 3 * MIB),
        ],
    );
    let private = old.tables.add_pool((1, 0));
    let default = old.tables.add_pool((0, 0));
    old.segments[0].pool = Some(default);
    old.segments[1].pool = Some(private);
    let pools = |trace: &Trace| -> Vec<(u64, u64)> {
        let allocs = trace.events.iter().filter_map(|event| match event {
            Event::Alloc { pool, .. } => Some(trace.pools[usize::from(*pool)]),
            _ => None,
        });
        allocs.collect()
    };
    let trace = one(&old);
    assert_eq!(pools(&trace), [(0, 0), (1, 0)]);
    assert_eq!(noted(&trace, "private pools"), 1);
    let mut new = old.clone();
    new.segments.clear();
    new.device_traces[0][2].pool = Some(private);
    assert_eq!(pools(&one(&new)), [(1, 0), (0, 0)]);
}

#[test]
fn stacks_are_tags_and_settings_are_kept() {
    let mut told = snapshot(Vec::new(), vec![entry(Action::Alloc, u64::MAX - 511, 8)]);
    let frame = |tables: &mut crate::trace::snapshot::Tables, name: &str, line| {
        let (name, filename) = (tables.add_text(name), tables.add_text("net.py"));
        tables.add_frame(crate::trace::snapshot::Frame {
            name,
            filename,
            line,
        })
    };
    let frames = [
        frame(&mut told.tables, "forward", 7),
        frame(&mut told.tables, "main", 90),
    ];
    told.device_traces[0][0].stack = Some(told.tables.add_stack(&frames));
    told.settings = Some(Settings {
        alloc_conf: "max_split_size_mb:64".to_owned(),
        max_split_bytes: Some(64 * MIB),
        ..Settings::default()
    });
    let trace = one(&told);
    assert_eq!(trace.tags, ["", "forward@net.py:7 < main@net.py:90"]);
    let truth = trace.truth.as_deref().expect("has truth");
    assert_eq!(
        truth.settings[1],
        ("max_split_size".to_owned(), (64 * MIB).to_string())
    );
    assert_eq!(truth.entries[0].kind, TruthKind::Alloc);
}

#[test]
fn stripped_files_are_refused_with_their_line() {
    let header = stripped::EVENTS_HEADER;
    assert!(stripped::looks_stripped(header));
    for (rows, words) in [
        ("A,1,2", "line 2"),
        ("A,1,2,0\nQ,1,2,0", "line 3: 'Q'"),
        ("A,-1,2,0", "'-1'"),
    ] {
        let text = format!("{header}\n{rows}\n");
        let error = stripped::read(("e.csv", &text), None).expect_err("is wrong");
        assert!(error.to_string().contains(words), "{error}");
    }
    let last = format!(
        "{}\nblock,5,512,5,small,0,inactive\n",
        stripped::FINAL_HEADER
    );
    assert!(stripped::read(("e.csv", header), Some(("f.csv", &last))).is_err());
}

fn any_action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
        Action::Snapshot,
        Action::Oom,
        Action::Annotate,
    ])
}

/// Addresses and sizes that meet often, with the ends of the number line among them.
fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0..24u64).prop_map(|step| step * MIB / 2),
        2 => 0..2_000u64,
        1 => prop::sample::select(vec![u64::MAX, u64::MAX - MIB, 1 << 63]),
    ]
}

fn any_entry() -> impl Strategy<Value = Entry> {
    (
        any_action(),
        any_number(),
        any_number(),
        0..2u64,
        any::<Option<i64>>(),
    )
        .prop_map(|(action, address, bytes, stream, time_us)| {
            let mut entry = Entry::new(action, address, bytes, stream);
            entry.set_time_us(time_us);
            entry
        })
}

fn any_segment() -> impl Strategy<Value = crate::trace::snapshot::Segment> {
    let state = prop::sample::select(vec![ActiveAllocated, ActivePendingFree, Inactive]);
    let block = (any_number(), any_number(), state);
    (
        any_number(),
        any_number(),
        any::<[bool; 2]>(),
        prop::collection::vec(block, 0..4),
    )
        .prop_map(|(address, total_bytes, [large, expandable], blocks)| {
            let mut made = segment(0, large, &[]);
            made.address = address;
            made.total_bytes = total_bytes;
            made.expandable = expandable;
            for (offset, bytes, state) in blocks {
                let mut block = segment(0, large, &[(512, bytes, state)]).blocks[0];
                block.address = address.wrapping_add(offset);
                block.bytes = bytes;
                made.blocks.push(block);
            }
            made
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever a file says, the import ends, tells every entry, and names only slots it has.
    #[test]
    fn no_snapshot_panics(
        segments in prop::collection::vec(any_segment(), 0..4),
        entries in prop::collection::vec(any_entry(), 1..40),
        gc_threshold in prop::sample::select(vec![0.0, 0.5, f64::NAN]),
        max_split_bytes in prop::option::of(any_number()),
        capacity_bytes in prop::option::of(any_number()),
    ) {
        let mut random = snapshot(segments, entries);
        random.settings = Some(Settings { gc_threshold, max_split_bytes, ..Settings::default() });
        let told = random.device_traces[0].iter();
        let told = told.filter(|e| !matches!(e.action, Action::Snapshot | Action::Annotate)).count();
        let traces = import(&random, "x", "x", Options { capacity_bytes }).expect("imports");
        let trace = &traces[0];
        let truth = trace.truth.as_deref().expect("has truth");
        prop_assert_eq!(truth.entries.len(), told);
        prop_assert!(truth.entries.is_sorted_by_key(|fact| fact.event));
        prop_assert!(trace.times_ns.is_sorted());
        for event in &trace.events {
            if let Event::Alloc { slot, .. } | Event::Free { slot, .. } | Event::Complete { slot } = event {
                prop_assert!(*slot < trace.slots);
            }
        }
    }
}
