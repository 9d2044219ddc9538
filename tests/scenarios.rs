//! Twelve hand-sized traces with the right answer of every classic policy, exact:
//! the outcome of each event, the sums at the end, the moves and the stalls.
//!
//! The scenarios with their conventions and tie-breaks are `tests/data/scenarios.json`;
//! what a policy does differently there is written in its own file.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;
use vramlab::policy::Registry;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::{BlockId, Cause, SpaceConfig};
use vramlab::trace::builder::Ask;
use vramlab::trace::{Event, Trace, TraceBuilder};

/// The policy of each row; `{align}`, `{initial}` and `{max}` are the scenario's.
const POLICIES: &[(&str, &str)] = &[
    ("bump", "bump:alignment={align}"),
    ("first-fit", "first-fit:alignment={align}"),
    ("best-fit", "best-fit:alignment={align}"),
    ("worst-fit", "worst-fit:alignment={align}"),
    ("next-fit", "next-fit:alignment={align}"),
    ("size-class", "size-class:alignment={align}"),
    ("buddy", "buddy:minimum={align}"),
    ("tlsf", "tlsf:alignment={align}"),
    (
        "first-fit+compaction",
        "compaction:over=\"first-fit:alignment={align}\",threshold=1,on_failure=true",
    ),
    (
        "first-fit, compact on request",
        "compaction:over=\"first-fit:alignment={align}\",threshold=1,on_failure=false",
    ),
    (
        "first-fit ignoring streams (hazard!)",
        "first-fit:alignment={align}",
    ),
    (
        "stream-first-fit",
        "stream-first-fit:alignment={align},stall=none",
    ),
    (
        "stream-first-fit, stall on OOM",
        "stream-first-fit:alignment={align},stall=retry",
    ),
    (
        "stream-first-fit, stall without second search",
        "stream-first-fit:alignment={align},stall=no-second-search",
    ),
    (
        "grow:exact",
        "growing:growth=exact,initial={initial},maximum={max},alignment={align}",
    ),
    (
        "grow:double",
        "growing:growth=double,initial={initial},maximum={max},alignment={align}",
    ),
    (
        "grow:rmm-half",
        "growing:growth=half,initial={initial},maximum={max},alignment={align}",
    ),
    (
        "grow:contiguous",
        "growing:growth=contiguous,initial={initial},maximum={max},alignment={align}",
    ),
    ("vm-stitch", "stitching-pages:alignment={align}"),
];

#[derive(Deserialize)]
struct Scenario {
    id: String,
    #[serde(alias = "max")]
    capacity: u64,
    initial: Option<u64>,
    align: u64,
    events: Vec<Vec<Value>>,
    results: BTreeMap<String, Expected>,
}

#[derive(Deserialize)]
struct Expected {
    outcome: Vec<Value>,
    stats: Stats,
    #[serde(default)]
    moves: Vec<(String, u64, u64, u64)>,
    stalls: Option<u64>,
}

#[derive(Deserialize)]
struct Stats {
    live: u64,
    requested: Option<u64>,
    occupied: Option<u64>,
    free: u64,
    largest_free: u64,
    holes: Option<u64>,
    high_water: Option<u64>,
    regions: Option<Vec<i64>>,
    reserved: Option<u64>,
}

fn scenarios() -> Vec<Scenario> {
    serde_json::from_str(include_str!("data/scenarios.json")).expect("the file fits")
}

/// The scenario as a trace.
fn trace(scenario: &Scenario) -> Trace {
    let mut builder = TraceBuilder::new(&*scenario.id);
    let mut keys: HashMap<String, u64> = HashMap::new();
    for event in &scenario.events {
        let text = |at: usize| event[at].as_str().expect("a word").to_owned();
        let number = |at: usize| event[at].as_u64().expect("a number");
        let mut key = || {
            let next = keys.len() as u64;
            *keys.entry(text(1)).or_insert(next)
        };
        match event[0].as_str().expect("a word") {
            "alloc" | "alloc_s" => {
                let ordered = event[0] == "alloc_s";
                let ask = Ask {
                    bytes: number(2),
                    align_log2: if event.len() > 3 && !ordered {
                        number(3).trailing_zeros() as u8
                    } else {
                        0
                    },
                    stream: builder.stream(if ordered { number(3) } else { 0 }),
                    ..Ask::default()
                };
                builder.alloc(key(), ask).expect("names are used once");
            }
            "free" => {
                builder.free(key(), None, false);
            }
            "free_s" => {
                let stream = builder.stream(number(2));
                builder.free(key(), Some(stream), false);
            }
            "free_ptr" => builder.push(Event::FreeAt { address: number(1) }),
            "record" => {
                let stream = builder.stream(number(1));
                builder.push(Event::Record {
                    stream,
                    event: label(&text(2)),
                });
            }
            "wait" => {
                let stream = builder.stream(number(1));
                builder.push(Event::Wait {
                    stream,
                    event: label(&text(2)),
                });
            }
            "sync" => {
                let stream = builder.stream(number(1));
                builder.push(Event::Sync { stream });
            }
            "pin" => {
                let slot = builder.slot(key()).expect("a live name");
                builder.push(Event::Pin { slot });
            }
            "compact" => builder.push(Event::Compact),
            other => panic!("{}: event '{other}' is not known", scenario.id),
        }
    }
    builder.finish()
}

/// The number in an event's name, such as `e0`.
fn label(name: &str) -> u32 {
    name.trim_start_matches('e')
        .parse()
        .expect("e and a number")
}

/// What happened at each event, in the words of the scenarios.
#[derive(Default)]
struct Told {
    regions: bool,
    outcomes: Vec<Value>,
    /// Old address, new address, bytes.
    moves: Vec<(u64, u64, u64)>,
    largest_free: u64,
}

impl Observer for Told {
    fn see(&mut self, moment: &Moment<'_>) {
        let space = moment.space;
        let address = |block: BlockId| {
            let segment = space.segment(block);
            let offset = space.base(block) - space.segment_base(segment);
            if self.regions {
                serde_json::json!([segment.0, offset])
            } else {
                serde_json::json!(offset)
            }
        };
        self.outcomes.push(match moment.outcome {
            Outcome::Served(block) => address(block),
            Outcome::Failed(shortage) if shortage.cause == Cause::Overflow => {
                "E:SizeOverflow".into()
            }
            Outcome::Failed(_) => "E:OOM".into(),
            Outcome::ZeroSize => "E:ZeroSize".into(),
            Outcome::DoubleFree => "E:DoubleFree".into(),
            Outcome::UnknownFree => "E:UnknownId".into(),
            Outcome::InteriorPointer => "E:InteriorPointer".into(),
            Outcome::UnknownPointer => "E:UnknownPointer".into(),
            Outcome::OutOfRange => "E:OutOfRange".into(),
            Outcome::Unsupported => "E:Unsupported".into(),
            Outcome::Compacted { moves, moved_bytes } => {
                format!("moved {moves} blocks {moved_bytes} bytes").into()
            }
            _ => "ok".into(),
        });
        for step in space.steps() {
            if let vramlab::space::StepKind::Move { .. } = step.kind {
                self.moves.push((step.from, step.address, step.bytes));
            }
        }
        self.largest_free = moment.largest_free_bytes;
    }
}

fn spec(row: &str, scenario: &Scenario) -> String {
    let (_, spec) = POLICIES
        .iter()
        .find(|(name, _)| *name == row)
        .unwrap_or_else(|| panic!("{}: no policy is named for row '{row}'", scenario.id));
    spec.replace("{align}", &scenario.align.to_string())
        .replace("{initial}", &scenario.initial.unwrap_or(0).to_string())
        .replace("{max}", &scenario.capacity.to_string())
}

fn check(scenario: &Scenario, row: &str, expected: &Expected) {
    let registry = Registry::default();
    let place = format!("{}, {row}", scenario.id);
    let chosen = registry
        .find(&spec(row, scenario))
        .unwrap_or_else(|error| panic!("{place}: {error}"));
    let policy = registry.build(&chosen).expect("it was built before");
    let trace = trace(scenario);
    let mut config = SpaceConfig::bare(scenario.capacity);
    config.streams = trace.streams.len();
    config.record_steps = true;
    let mut replay = Replay::new(policy, config).expect("the capacity is there");
    let mut told = Told {
        regions: expected.stats.regions.is_some(),
        ..Told::default()
    };
    replay.feed(&trace.events, &trace.times_ns, &mut told);
    assert_eq!(told.outcomes, expected.outcome, "{place}: outcomes");
    check_stats(&place, &replay, &told, &expected.stats);
    let expected_moves: Vec<_> = expected.moves.iter().map(|m| (m.1, m.2, m.3)).collect();
    assert_eq!(told.moves, expected_moves, "{place}: moves");
    let stalls = replay.space().counters().stalls;
    assert_eq!(stalls, expected.stalls.unwrap_or(0), "{place}: stalls");
}

fn check_stats(place: &str, replay: &Replay, told: &Told, expected: &Stats) {
    let space = replay.space();
    let counters = space.counters();
    let requested = replay.totals().requested_bytes;
    assert_eq!(counters.used_blocks, expected.live, "{place}: live blocks");
    assert_eq!(counters.free_bytes, expected.free, "{place}: free");
    assert_eq!(told.largest_free, expected.largest_free, "{place}: largest");
    for (name, found, expected) in [
        ("requested", requested, expected.requested),
        ("occupied", counters.used_bytes, expected.occupied),
        ("holes", counters.free_blocks, expected.holes),
        ("high water", counters.high_water_bytes, expected.high_water),
        ("reserved", counters.reserved_bytes, expected.reserved),
    ] {
        assert_eq!(found, expected.unwrap_or(found), "{place}: {name}");
    }
    let regions: Vec<i64> = space
        .segments()
        .map(|segment| space.segment_bytes(segment) as i64)
        .collect();
    // A region of -1 bytes is one range of addresses that grows.
    match expected.regions.as_deref() {
        Some([-1]) => assert_eq!(regions.len(), 1, "{place}: regions"),
        Some(expected) => assert_eq!(regions, expected, "{place}: regions"),
        None => {}
    }
}

#[test]
fn every_policy_gives_the_right_answer_to_every_scenario() {
    let mut checked = BTreeSet::new();
    for scenario in scenarios() {
        for (row, expected) in &scenario.results {
            check(&scenario, row, expected);
            checked.insert(row.clone());
        }
    }
    assert_eq!(checked.len(), 19, "rows of the scenarios");
}

#[test]
fn a_wrong_answer_is_found() {
    let scenarios = scenarios();
    let first = &scenarios[0];
    let best_fit = &first.results["best-fit"];
    let wrong = std::panic::catch_unwind(|| check(first, "worst-fit", best_fit));
    assert!(wrong.is_err(), "the rows of S01 differ");
}
