//! What the synthetic families churn, phase-change, robson and service promise of
//! themselves, and what their presets show. `tests/synth_fit.rs` holds fits of recordings.

use std::sync::Arc;

use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::observe::Row;
use vramlab::policy::Registry;
use vramlab::policy::registry::DEVICES;
use vramlab::replay::{Moment, Observer, Outcome};
use vramlab::space::Device;
use vramlab::synth::{Spec, Workload};
use vramlab::trace::{Event, Trace};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_NS: u64 = 86_400_000_000_000;

/// The presets of these families; `tests/golden/synthetic.csv` holds their hashes.
const PRESETS: [&str; 8] = [
    "churn",
    "churn-by-size",
    "churn-long-tail",
    "churn-powers",
    "phase-change",
    "robson-best-fit",
    "robson-first-fit",
    "service",
];

fn text(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/synthetic");
    std::fs::read_to_string(format!("{folder}/{name}.toml")).expect("a preset")
}

fn preset(name: &str) -> Workload {
    Workload::from_toml(name, &text(name)).expect("a preset")
}

/// What a policy does with a trace under a capacity.
fn replay(trace: Trace, policy: &str, capacity_bytes: u64, watch: impl Observer) -> Row {
    let (_, card) = DEVICES
        .iter()
        .find(|(name, _)| *name == "h200")
        .expect("the default card");
    let card = Arc::new(Device::from_toml(card).expect("a card"));
    let scene = Scene::new(trace, card, Wanted::Bytes(capacity_bytes));
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    let watch = Watch {
        map: false,
        progress: &|_| (),
        extra: watch,
    };
    match run_cell(&scene, &registry, &chosen, watch).expect("a policy builds") {
        Ended::Replayed(seen) => seen.row,
        Ended::NotStarted(..) => panic!("{policy} does not start"),
        Ended::Broke(what) => panic!("{policy}: {what}"),
    }
}

#[test]
fn a_workload_is_written_and_read_back() {
    for name in PRESETS {
        let workload = preset(name);
        let text = toml::to_string(&workload).expect("plain data");
        assert_eq!(Workload::from_toml(name, &text), Ok(workload));
    }
}

#[test]
fn phases_keep_to_their_live_bytes_and_begin_with_a_mark() {
    let workload = preset("phase-change");
    let Spec::PhaseChange(spec) = &workload.workload else {
        panic!("another family");
    };
    let trace = workload.trace(3);
    let mut sizes = vec![0; trace.slots as usize];
    let (mut live, mut phase, mut marks) = (0, 0, 0);
    for event in &trace.events {
        match *event {
            Event::Mark { label } => {
                phase = label as usize;
                marks += 1;
            }
            Event::Alloc { slot, bytes, .. } => {
                sizes[slot as usize] = bytes;
                live += bytes;
                assert!(
                    live <= spec.phases[phase].live_bytes,
                    "{live} in phase {phase}"
                );
            }
            Event::Free { slot, .. } => live -= sizes[slot as usize],
            _ => {}
        }
    }
    assert!(
        marks > spec.phases.len(),
        "the phases come again: {marks} marks"
    );
}

#[test]
fn lifetimes_by_size_and_by_time_hold() {
    // Little's law: what is live is the rate of requests times the mean lifetime.
    let trace = preset("churn-powers").trace(5);
    let (mut live, mut most) = (0_u64, 0);
    for event in &trace.events {
        match event {
            Event::Alloc { .. } => live += 1,
            Event::Free { .. } => live -= 1,
            _ => {}
        }
        most = most.max(live);
    }
    assert!((1000..1200).contains(&most), "2 s at 500 a second: {most}");
    assert_eq!(trace.streams.len(), 4);
    let trace = preset("churn-by-size").trace(5);
    let mut live = vec![None; trace.slots as usize];
    for event in &trace.events {
        match *event {
            Event::Alloc { slot, bytes, .. } => live[slot as usize] = Some(bytes),
            Event::Free { slot, .. } => live[slot as usize] = None,
            _ => {}
        }
    }
    let left = live.into_iter().flatten();
    let (large, small): (Vec<u64>, Vec<u64>) = left.partition(|bytes| *bytes >= MIB);
    // 11 of 18 octaves are small and live 20 times as long: 3,670 against 117.
    assert!((3300..4050).contains(&small.len()), "{} small", small.len());
    assert!((80..160).contains(&large.len()), "{} large", large.len());
}

/// An adversary of `live` units in blocks of up to `largest`; a unit is 1 KiB.
fn adversary(against: &str, live: u64, largest: u64) -> Workload {
    let text = format!(
        "about = \"\"\nsource = \"\"\nevents = 10000000\n[workload.robson]\n\
         against = \"{against}\"\nlive_bytes = \"{live}KiB\"\nlargest_bytes = \"{largest}KiB\"\n\
         unit_bytes = \"1KiB\"\n"
    );
    Workload::from_toml(against, &text).expect("it fits")
}

/// What the adversary says that its policy needs and what the policy took, in units.
fn needed(workload: &Workload, policy: &str) -> (u64, u64, Row) {
    let Spec::Robson(spec) = &workload.workload else {
        panic!("another family");
    };
    let row = replay(workload.trace(1), policy, 32 * GIB, ());
    assert_eq!(row.failed, 0, "{policy} has room enough");
    (spec.needed_bytes() / 1024, row.high_water_bytes / 1024, row)
}

#[test]
fn first_fit_needs_what_robson_proved_for_every_policy() {
    for (live, largest, units) in [
        (64, 8, 153),
        (256, 16, 753),
        (1024, 64, 4033),
        (4096, 256, 20_225),
    ] {
        let workload = adversary("first-fit", live, largest);
        let (says, took, row) = needed(&workload, "first-fit");
        assert_eq!((says, took), (units, units), "M = {live}, n = {largest}");
        assert_eq!(row.peak_requested_bytes, live * 1024);
        let log2 = u64::from(largest.ilog2());
        assert!(
            took > live * log2 / 2 + live - largest,
            "M = {live}, n = {largest}"
        );
    }
}

#[test]
fn best_fit_needs_a_multiple_of_the_largest_request() {
    for (live, largest, units) in [
        (256, 8, 861),
        (1024, 16, 7001),
        (4096, 16, 37_770),
        (16_384, 16, 186_602),
    ] {
        let workload = adversary("best-fit", live, largest);
        let (says, took, row) = needed(&workload, "best-fit");
        assert_eq!((says, took), (units, units), "M = {live}, n = {largest}");
        assert!(row.peak_requested_bytes <= live * 1024);
        let (_, first, _) = needed(&workload, "first-fit");
        assert!(
            first < took,
            "first fit is not the one it is made against: {first}"
        );
    }
}

/// The nightly job of the service: the refused ones with day and bytes live.
#[derive(Default)]
struct Nights {
    asked: u64,
    refused: Vec<(u64, u64)>,
}

impl Observer for Nights {
    fn see(&mut self, moment: &Moment<'_>) {
        let Event::Alloc { bytes, .. } = moment.event else {
            return;
        };
        if *bytes != 100 * MIB {
            return;
        }
        self.asked += 1;
        if let Outcome::Failed(_) = moment.outcome {
            let live_bytes = moment.totals.requested_bytes;
            self.refused.push((moment.time_ns / DAY_NS, live_bytes));
        }
    }
}

/// The state of the field's story: 3 of 8 GiB used, and no 100 MiB to be had.
#[test]
fn the_service_reaches_the_state_of_the_field_by_itself_within_months() {
    let workload = preset("service");
    for seed in 1..=6 {
        let trace = workload.trace(seed);
        let days = trace.times_ns[trace.times_ns.len() - 1] / DAY_NS;
        assert!((140..165).contains(&days), "seed {seed}: {days} days");
        let mut nights = Nights::default();
        let row = replay(trace.clone(), "best-fit", 8 * GIB, &mut nights);
        let (day, live_bytes) = nights.refused[0];
        assert!((30..days).contains(&day), "seed {seed}: day {day}");
        let gib = live_bytes as f64 / GIB as f64;
        assert!((2.4..3.6).contains(&gib), "seed {seed}: {gib} GiB live");
        assert!(row.lower_bound_bytes < 8 * GIB, "it would fit all the time");
        let mut tidy = Nights::default();
        replay(trace, "compaction", 8 * GIB, &mut tidy);
        assert_eq!(
            tidy.refused,
            [],
            "seed {seed}: nothing but fragmentation refuses it"
        );
    }
}
