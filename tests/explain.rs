//! Explanations: every claim that they make is proven once more, by replays made here.

mod common;
#[path = "explain/recorded.rs"]
mod recorded;

use std::sync::Arc;

use proptest::prelude::*;
use vramlab::experiment::{Scene, Wanted};
use vramlab::explain::{
    Basis, Effort, ExplainError, Explanation, Fewest, Found, Given, PartedBy, Question, Setup, Why,
    explain, set_up,
};
use vramlab::observe::Verdict;
use vramlab::policy::Registry;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::Device;
use vramlab::trace::snapshot::{
    self, Action, Block, BlockState, Entry, Frame, Segment, Snapshot, Tables,
};
use vramlab::trace::text::Source;
use vramlab::trace::{ANY_STREAM, Event, OpenOptions, Slot, Trace, check, csv, open};
use vramlab::units::{GIB, KIB, MIB};

/// A trace of the rows of a native csv.
fn by_hand(rows: &str) -> Trace {
    let text = format!("{}\n{rows}", csv::COLUMNS);
    let source = Source::named("by-hand.csv");
    let trace = csv::import(&mut text.as_bytes(), &source).expect("the rows are well-formed");
    check::check(&trace).expect("the trace keeps the rules");
    trace
}

/// A trace under a policy, from an empty card of a size that does not matter.
fn setup(trace: Trace, policy: &str, capacity_bytes: u64) -> Setup {
    let given = Given {
        policy: Some(policy),
        wanted: Wanted::Bytes(capacity_bytes),
        device: Arc::new(Device::bare(16 * capacity_bytes)),
    };
    set_up(trace, &Registry::default(), &given).expect("a policy")
}

/// A question that tries no other policies.
fn alone() -> Question {
    Question {
        others: Some(Vec::new()),
        ..Question::default()
    }
}

fn explained(policy: &str, capacity_bytes: u64, rows: &str) -> Explanation {
    let setup = setup(by_hand(rows), policy, capacity_bytes);
    explain(&setup, &Registry::default(), &alone()).expect("an explanation")
}

/// Remembers what came of the last event.
struct Last(Outcome);

impl Observer for Last {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0 = moment.outcome;
    }
}

/// A replay of the events, made without the room that is tested; what came of the last.
fn last_of(scene: &Scene, policy: &str, events: &[Event]) -> (Outcome, Replay) {
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    let policy = registry.build_for(&chosen, scene).expect("it builds");
    let mut replay = Replay::new(policy, scene.config(false)).expect("it starts");
    replay.name_streams(&scene.trace.streams);
    let mut last = Last(Outcome::Done);
    let times_ns: Vec<u64> = (0..events.len())
        .map(|at| scene.trace.time_ns(at))
        .collect();
    replay.feed(events, &times_ns, &mut last);
    (last.0, replay)
}

fn is_served(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Served(_) | Outcome::ServedInstant { .. })
}

/// What is live before an event: the slot, the event that allocated it, its address.
fn live_before(scene: &Scene, policy: &str, event: usize) -> Vec<(Slot, u64, u64)> {
    let (_, replay) = last_of(scene, policy, &scene.trace.events[..event]);
    let mut live = Vec::new();
    for (at, one) in scene.trace.events[..event].iter().enumerate() {
        match *one {
            Event::Alloc { slot, .. } => live.push((slot, at as u64)),
            Event::Free { slot, .. } => live.retain(|(live, _)| *live != slot),
            _ => {}
        }
    }
    let placed = live.into_iter().filter_map(|(slot, at)| {
        let block = replay.block_of(slot)?;
        Some((slot, at, replay.space().base(block)))
    });
    let mut placed: Vec<_> = placed.collect();
    placed.sort_by_key(|(_, _, address)| *address);
    placed
}

/// Whether the event is served where these blocks are freed right before it.
fn served_after_frees(scene: &Scene, policy: &str, event: usize, slots: &[Slot]) -> bool {
    let events = &scene.trace.events;
    let (Event::Alloc { stream, .. } | Event::Attempt { stream, .. }) = events[event] else {
        panic!("event {event} is a request");
    };
    let mut cut = events[..event].to_vec();
    cut.extend(slots.iter().map(|slot| Event::Free {
        slot: *slot,
        stream,
        deferred: false,
    }));
    cut.push(events[event]);
    is_served(last_of(scene, policy, &cut).0)
}

/// Whether the event is served where these allocations were never made.
fn served_without(scene: &Scene, policy: &str, event: usize, gone: &[u64]) -> bool {
    let mut absent: Vec<Slot> = Vec::new();
    let mut kept = Vec::new();
    for (at, one) in scene.trace.events[..=event].iter().enumerate() {
        match *one {
            Event::Alloc { slot, .. } if gone.contains(&(at as u64)) => absent.push(slot),
            Event::Free { slot, .. } | Event::Complete { slot } if absent.contains(&slot) => {}
            Event::Pin { slot } | Event::Unpin { slot } if absent.contains(&slot) => {}
            Event::Use { slot, .. } if absent.contains(&slot) => {}
            one => kept.push(one),
        }
    }
    is_served(last_of(scene, policy, &kept).0)
}

/// Proves the blockers of an explanation once more; how many they are.
fn proven(setup: &Setup, it: &Explanation) -> usize {
    let (policy, event) = (&*it.policy, it.moment.event as usize);
    let blockers = it.blockers.as_ref().expect("a failure");
    let live = live_before(&setup.scene, policy, event);
    let slot = |made: u64| live.iter().find(|(_, at, _)| *at == made).expect("live").0;
    let slots: Vec<Slot> = blockers.blocks.iter().map(|it| slot(it.event)).collect();
    assert!(
        !served_after_frees(&setup.scene, policy, event, &[]),
        "{policy}"
    );
    match blockers.found {
        Found::Blocks => {
            assert!(
                served_after_frees(&setup.scene, policy, event, &slots),
                "{policy}: {blockers:?}"
            );
            let made: Vec<u64> = blockers.blocks.iter().map(|it| it.event).collect();
            let without = served_without(&setup.scene, policy, event, &made);
            assert_eq!(blockers.absent_served, Some(without), "{policy}");
        }
        Found::Never => {
            let all: Vec<Slot> = live.iter().map(|(slot, ..)| *slot).collect();
            assert!(!served_after_frees(&setup.scene, policy, event, &all));
        }
        Found::Waiting => {
            let mut events = setup.scene.trace.events[..event].to_vec();
            events.push(Event::Sync { stream: ANY_STREAM });
            events.push(setup.scene.trace.events[event]);
            assert!(is_served(last_of(&setup.scene, policy, &events).0));
        }
    }
    blockers.blocks.len()
}

/// A case by hand: its verdict, what the search for blockers came to, and how many.
fn case(
    policy: &str,
    capacity_bytes: u64,
    rows: &str,
    verdict: Verdict,
    found: Found,
    count: usize,
) -> Explanation {
    let setup = setup(by_hand(rows), policy, capacity_bytes);
    let it = explain(&setup, &Registry::default(), &alone()).expect("an explanation");
    assert_eq!(
        it.reason.as_ref().map(|it| it.verdict),
        Some(verdict),
        "{policy}"
    );
    assert_eq!(
        it.blockers.as_ref().map(|it| it.found),
        Some(found),
        "{policy}"
    );
    assert_eq!(proven(&setup, &it), count, "{policy}: {:?}", it.blockers);
    it
}

/// A trace of `traces/`.
fn committed(name: &str) -> Trace {
    let path = format!("{}/traces/{name}.vlt.zst", env!("CARGO_MANIFEST_DIR"));
    let mut traces = open(path.as_ref(), &OpenOptions::default()).expect("a committed trace");
    traces.remove(0)
}

/// The trace under the settings that it tells.
fn own(trace: Trace) -> Setup {
    let given = Given {
        policy: None,
        wanted: Wanted::ByTrace,
        device: vramlab::experiment::source::card_of("h200").expect("a card"),
    };
    set_up(trace, &Registry::default(), &given).expect("a policy")
}

/// S02: blocks of 1 GiB, two of them freed with 512 MiB between them, and 2 GiB asked: what
/// lies between is the least that is in the way.
#[test]
fn fragmentation_names_the_one_block_between_two_holes() {
    let sizes = |id| if id == 2 { "512MiB" } else { "1GiB" };
    let mut rows: String = (0..8)
        .map(|id| format!("alloc,{id},{}\n", sizes(id)))
        .collect();
    rows += "free,1\nfree,3\nalloc,x,2GiB\n";
    let fragmentation = Verdict::Fragmentation;
    let it = case("best-fit", 8 * GIB, &rows, fragmentation, Found::Blocks, 1);
    let blockers = it.blockers.expect("a failure");
    let block = &blockers.blocks[0];
    assert_eq!((block.id.as_deref(), block.event), (Some("2"), 2));
    assert_eq!((block.age_events, block.freed_event), (8, None));
    assert_eq!((block.bytes, block.address), (GIB / 2, 2 * GIB));
    assert_eq!(
        blockers.fewest,
        Fewest::Arithmetic,
        "none is fewer than one"
    );
    let reason = it.reason.expect("a failure");
    assert_eq!(reason.short_by_bytes, GIB);
    let pieces = "free 2.50 GiB (2,684,354,560 bytes) in 3 blocks, the largest 1.00 GiB \
                  (1,073,741,824 bytes): short by 1.00 GiB (1,073,741,824 bytes)";
    assert!(reason.arithmetic.contains(&pieces.to_owned()), "{reason:?}");
    let total = it.memory.total;
    let live_bytes = 5 * GIB + GIB / 2;
    assert_eq!(
        (total.requested_bytes, total.occupied_bytes, total.live),
        (live_bytes, live_bytes, 6)
    );
    assert_eq!(
        (
            total.reserved_bytes,
            total.free_bytes,
            total.largest_free_bytes
        ),
        (8 * GIB, 2 * GIB + GIB / 2, GIB)
    );
    assert_eq!(it.memory.external_fragmentation_ppm, Some(600_000));
    let runs = [('#', 6), ('.', 6), ('#', 3), ('.', 6), ('#', 24), ('.', 3)];
    let map: String = runs
        .map(|(letter, count)| letter.to_string().repeat(count))
        .concat();
    assert_eq!(it.memory.segments[0].map, map);
}

#[test]
fn capacity_is_told_as_a_sum() {
    let rows: String = (0..4).map(|id| format!("alloc,{id},27GiB\n")).collect();
    for policy in ["best-fit", "compaction", "pytorch", "cuda-malloc"] {
        let it = case(policy, 90 * GIB, &rows, Verdict::Capacity, Found::Blocks, 1);
        let reason = it.reason.expect("a failure");
        assert_eq!(reason.short_by_bytes, 18 * GIB, "{policy}");
        assert!(
            it.advice.starts_with("No policy can serve it"),
            "{}",
            it.advice
        );
    }
}

#[test]
fn every_other_verdict_is_explained() {
    use Found::{Blocks, Never, Waiting};
    let waiting = "alloc,a,2048,1\nfree,a,,1\nalloc,b,1024,2\n";
    case(
        "stream-first-fit",
        2048,
        waiting,
        Verdict::Stream,
        Waiting,
        0,
    );
    let others = "alloc,a,6MiB,1\nalloc,b,8MiB,1\nfree,b\nalloc,c,8MiB,2\n";
    case("pytorch", 24 * MIB, others, Verdict::Stream, Blocks, 1);
    let pool = "pool_begin,,,0,,,1\nalloc,a,6MiB,0,,,1\nalloc,b,8MiB,0,,,1\nfree,b\n\
                pool_end,,,0,,,1\npool_release,,,0,,,1\nalloc,c,8MiB,0,,,0\n";
    case("pytorch", 24 * MIB, pool, Verdict::Pool, Blocks, 1);
    let class = "alloc,a,4GiB\nalloc,b,3GiB\nfree,a\nalloc,x,100MiB\n";
    case("size-class", 8 * GIB, class, Verdict::Class, Never, 0);
    let pinned = "alloc,a,3MiB\nalloc,b,2MiB\nalloc,c,3MiB\npin,b\nfree,a\nfree,c\nalloc,x,4MiB\n";
    let over = "compaction:over=first-fit,threshold=1";
    let it = case(over, 8 * MIB, pinned, Verdict::Pinned, Blocks, 1);
    let blockers = it.blockers.expect("a failure");
    assert_eq!(
        blockers.blocks[0].id.as_deref(),
        Some("b"),
        "the pinned one"
    );
    let rounding = "alloc,a,700\nalloc,x,200\n";
    let it = case("best-fit", 1000, rounding, Verdict::Rounding, Blocks, 1);
    let asked = it.asked.expect("a request");
    assert_eq!((asked.bytes, asked.rounded_bytes), (200, Some(256)));
    let overflow = format!("alloc,a,{}\n", u64::MAX - 3);
    let it = case("best-fit", MIB, &overflow, Verdict::Overflow, Never, 0);
    assert_eq!(it.asked.expect("a request").rounded_bytes, None);
}

/// Two segments of PyTorch's with two live blocks each, and 30 MiB asked: the one with
/// fewer live bytes is emptied and goes back to the driver.
#[test]
fn a_failure_of_the_driver_names_the_blocks_of_a_segment() {
    let rows = "alloc,a,30MiB\nfree,a\nalloc,b,15MiB\nalloc,c,14MiB\nalloc,f,26MiB\nfree,f\n\
                alloc,d,13MiB\nalloc,e,12MiB\nalloc,x,30MiB\n";
    let it = case(
        "pytorch",
        60 * MIB,
        rows,
        Verdict::Capacity,
        Found::Blocks,
        2,
    );
    assert_eq!(it.memory.total.reserved_bytes, 56 * MIB);
    assert_eq!(it.memory.room_bytes, 4 * MIB);
    let blockers = it.blockers.expect("a failure");
    let names = blockers.blocks.iter().map(|block| block.id.clone());
    assert_eq!(
        names.collect::<Option<Vec<_>>>(),
        Some(vec!["d".into(), "e".into()])
    );
    assert_eq!(
        blockers.fewest,
        Fewest::Arithmetic,
        "one block is 15 MiB, and 24 are too many"
    );
}

/// What is told as the least count is the least: every smaller set of live blocks is tried
/// here, by replays of our own.
fn least_by_force(setup: &Setup, policy: &str, event: usize) -> Option<usize> {
    let live = live_before(&setup.scene, policy, event);
    assert!(live.len() <= 12, "few enough to try all sets");
    let mut least = None;
    for chosen in 1_u32..1 << live.len() {
        let count = chosen.count_ones() as usize;
        if least.is_some_and(|least| count >= least) {
            continue;
        }
        let set = live.iter().enumerate();
        let set = set.filter(|(at, _)| chosen & (1 << at) != 0);
        let slots: Vec<Slot> = set.map(|(_, (slot, ..))| *slot).collect();
        if served_after_frees(&setup.scene, policy, event, &slots) {
            least = Some(count);
        }
    }
    least
}

/// Policies of every kind: fits, buddies, classes, growing and stream-ordered pools,
/// models with segments and pages, and one that moves.
const KINDS: [&str; 12] = [
    "best-fit",
    "first-fit",
    "next-fit",
    "buddy",
    "tlsf",
    "size-class",
    "growing",
    "stream-first-fit",
    "compaction",
    "cuda-malloc",
    "pytorch",
    "pytorch-expandable",
];

/// Rows of a program that runs out: sizes in MiB, one of three is freed at once.
fn program() -> impl Strategy<Value = String> {
    let step = (1_u64..12, 0_usize..3, 0_usize..64, 0_u8..2);
    prop::collection::vec(step, 8..20).prop_map(|steps| {
        let (mut rows, mut live) = (String::new(), Vec::new());
        for (id, (mib, free, which, stream)) in steps.into_iter().enumerate() {
            rows += &format!("alloc,{id},{mib}MiB,{stream}\n");
            live.push((id, stream));
            if free == 0 || live.len() > 7 {
                let (gone, stream) = live.remove(which % live.len());
                rows += &format!("free,{gone},,{stream}\n");
            }
        }
        rows + "alloc,last,30MiB,0\n"
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn no_smaller_set_of_blocks_makes_room(rows in program()) {
        for policy in KINDS {
            let setup = setup(by_hand(&rows), policy, 48 * MIB);
            let it = explain(&setup, &Registry::default(), &alone()).expect("an explanation");
            let Some(blockers) = &it.blockers else {
                continue;
            };
            let count = proven(&setup, &it);
            if blockers.found != Found::Blocks {
                continue;
            }
            let event = it.moment.event as usize;
            let least = least_by_force(&setup, policy, event);
            prop_assert_eq!(least, Some(count), "{}: {:?}\n{}", policy, blockers, rows);
        }
    }
}

/// With hardly a try, what is found is proven all the same, and nothing of it can be spared
/// without a replay that says so.
#[test]
fn with_little_effort_the_answer_is_proven_and_says_so() {
    let mut rows: String = (0..60).map(|id| format!("alloc,{id},1MiB\n")).collect();
    rows += &(0..60)
        .step_by(3)
        .map(|id| format!("free,{id}\n"))
        .collect::<String>();
    rows += "alloc,x,12MiB\n";
    let question = Question {
        effort: Effort {
            tries: 1,
            events: 1,
        },
        ..alone()
    };
    let setup = setup(by_hand(&rows), "best-fit", 60 * MIB);
    let it = explain(&setup, &Registry::default(), &question).expect("an explanation");
    // Of 12 neighbours 4 are free; two windows out of three hold eight live blocks.
    assert_eq!(proven(&setup, &it), 8);
    let blockers = it.blockers.expect("a failure");
    assert_eq!((blockers.fewest, blockers.bytes), (Fewest::Likely, 8 * MIB));
    assert!(blockers.tried <= 40, "{}", blockers.tried);
}

/// Ten iterations that keep 1 MiB each, over 4 MiB that are freed: the one is leaked, the
/// other is cached.
#[test]
fn what_grows_from_mark_to_mark_is_leaked_and_what_is_freed_is_cached() {
    let mut rows = String::from("alloc,model,20MiB\n");
    for step in 0..10 {
        rows += &format!("mark,step {step}\nalloc,a{step},4MiB\nalloc,kept{step},300KiB\n");
        rows += &format!("alloc,b{step},2MiB\nfree,a{step}\nfree,b{step}\n");
    }
    rows += "mark,end\n";
    let it = explained("pytorch", 64 * MIB, &rows);
    let leaks = &it.leaks;
    let word = "step ".to_owned();
    assert_eq!(leaks.parted_by, PartedBy::Marks { word });
    // Ten marks part eleven periods; the last one is not over.
    assert_eq!((leaks.periods, leaks.warm_up), (10, 2));
    let [growth] = &leaks.by_size[..] else {
        panic!("{leaks:?}");
    };
    assert_eq!(growth.from_bytes, Some(256 * KIB));
    assert_eq!(growth.per_period_bytes, 300 * KIB);
    assert_eq!(
        (growth.first_bytes, growth.last_bytes),
        (300 * KIB, 2400 * KIB)
    );
    assert_eq!(it.leaks.least_live_bytes[0], 20 * MIB + 300 * KIB);
    assert!(it.advice.contains("Look first at"), "{}", it.advice);
    let last = rows.lines().count() as u64 - 1;
    let question = Question {
        event: Some(last),
        ..alone()
    };
    let setup = setup(by_hand(&rows), "pytorch", 64 * MIB);
    let at_end = explain(&setup, &Registry::default(), &question).expect("an explanation");
    let cached = at_end.leaks.cached;
    assert_eq!(
        cached.returned_bytes,
        20 * MIB,
        "the segment of the freed blocks"
    );
    assert_eq!(cached.free_bytes - cached.returned_bytes, cached.kept_bytes);
    let clean = rows.lines().filter(|row| !row.contains("kept"));
    let clean: String = clean.map(|row| format!("{row}\n")).collect();
    let it = explained("pytorch", 64 * MIB, &clean);
    assert!(it.leaks.by_size.is_empty(), "{:?}", it.leaks);
}

/// Without marks the low points part the periods; where nothing repeats, slices do, and
/// nothing is claimed of a phase that only grows.
#[test]
fn without_marks_low_points_tell_and_a_phase_that_only_grows_is_no_leak() {
    let mut rows = String::from("alloc,model,20MiB\n");
    for step in 0..8 {
        rows += &format!("alloc,a{step},30MiB\nalloc,kept{step},1MiB\nfree,a{step}\n");
    }
    let it = explained("best-fit", 64 * MIB, &rows);
    assert!(
        matches!(it.leaks.parted_by, PartedBy::Lows { .. }),
        "{:?}",
        it.leaks
    );
    assert_eq!(it.leaks.by_size[0].per_period_bytes, MIB);
    let grows: String = (0..32).map(|id| format!("alloc,{id},1MiB\n")).collect();
    let it = explained("best-fit", 64 * MIB, &grows);
    assert_eq!(it.leaks.parted_by, PartedBy::Slices);
    assert!(!it.advice.contains("Look first"), "{}", it.advice);
}

/// Bytes times time: 3 MiB for ten events and 30 MiB for one are shared by halves.
#[test]
fn holders_are_ranked_by_bytes_times_time() {
    let rows = "alloc,a,3MiB,,0\nalloc,b,30MiB,,9s\nfree,b,,,10s\nmark,end,,,10s\n";
    let setup = setup(by_hand(rows), "best-fit", 64 * MIB);
    let question = Question {
        event: Some(3),
        ..alone()
    };
    let it = explain(&setup, &Registry::default(), &question).expect("an explanation");
    let rows = it.holders.by_size.iter();
    let rows: Vec<_> = rows
        .map(|it| (it.from_bytes, it.share_ppm, it.live_bytes))
        .collect();
    assert_eq!(
        rows,
        [
            (Some(2 * MIB), 500_000, 3 * MIB),
            (Some(16 * MIB), 500_000, 0)
        ]
    );
    assert_eq!(it.holders.by_size[0].byte_seconds, 30 * MIB);
}

#[test]
fn events_that_are_not_there_and_traces_without_any_are_told() {
    let setup_of = |rows: &str| setup(by_hand(rows), "best-fit", GIB);
    let question = Question {
        event: Some(7),
        ..alone()
    };
    let registry = Registry::default();
    let error = explain(&setup_of("alloc,a,1MiB\n"), &registry, &question).expect_err("no event 7");
    assert!(matches!(
        error,
        ExplainError::NoSuchEvent {
            event: 7,
            first: 0,
            last: 0,
            ..
        }
    ));
    let error = explain(&setup_of(""), &registry, &alone()).expect_err("nothing is there");
    assert!(matches!(error, ExplainError::Empty(_)), "{error}");
}

/// Parts add up to the whole, whatever the policy.
#[test]
fn streams_pools_and_segments_add_up() {
    for name in ["multi-stream", "graph-capture"] {
        let it = explain(&own(committed(name)), &Registry::default(), &alone());
        let it = it.expect("an explanation");
        let total = it.memory.total;
        for shares in [&it.memory.by_stream, &it.memory.by_pool] {
            let sum = |of: fn(&vramlab::explain::Sums) -> u64| {
                shares.iter().map(|share| of(&share.sums)).sum::<u64>()
            };
            assert_eq!(
                sum(|it| it.requested_bytes),
                total.requested_bytes,
                "{name}"
            );
            assert_eq!(sum(|it| it.reserved_bytes), total.reserved_bytes, "{name}");
            assert_eq!(sum(|it| it.free_bytes), total.free_bytes, "{name}");
        }
        let told = it
            .memory
            .segments
            .iter()
            .map(|it| it.sums.free_bytes)
            .sum::<u64>();
        assert_eq!(
            told + it.memory.others.free_bytes,
            total.free_bytes,
            "{name}"
        );
        let holes: u64 = it.memory.holes.iter().map(|hole| hole.bytes).sum();
        assert_eq!(holes, total.free_bytes, "{name}");
    }
}
