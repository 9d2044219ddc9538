//! The driver itself and its stream-ordered pool against recordings.

mod common;

use std::path::Path;
use std::sync::Arc;

use vramlab::fidelity;
use vramlab::policy::{Policy, Registry};
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::{AddressOrder, Device, SpaceConfig};
use vramlab::trace::open::{OpenOptions, open};
use vramlab::trace::truth::{TruthEntry, TruthKind};
use vramlab::trace::{ANY_STREAM, Event, Trace};
use vramlab::units::MIB;

const CARD_BYTES: u64 = 150_109_880_320;

fn load(path: &Path) -> Trace {
    open(path, &OpenOptions::default())
        .expect("the recording opens")
        .remove(0)
}

fn config(trace: &Trace, addresses: AddressOrder) -> SpaceConfig {
    let device = Device {
        page_bytes: 2 * MIB,
        ..Device::bare(CARD_BYTES)
    };
    SpaceConfig {
        device: Arc::new(device),
        capacity_bytes: CARD_BYTES,
        blind: false,
        streams: trace.streams.len(),
        addresses,
        record_steps: false,
    }
}

fn policy(spec: &str) -> Box<dyn Policy> {
    let registry = Registry::default();
    let chosen = registry.find(spec).expect("a policy");
    registry.build(&chosen).expect("builds")
}

/// What the context left free: a hidden input of these recordings.
const RECORDINGS: [(&str, &str); 2] = [
    (
        "cudamalloc_mixed",
        "cuda-malloc:context_pages=10,lone_page=false",
    ),
    (
        "cudamalloc_small",
        "cuda-malloc:context_pages=11,lone_page=false",
    ),
];

#[test]
fn device_free_bytes_are_right_at_every_event_given_the_addresses() {
    let Some(folder) = common::shared("recordings/cuda") else {
        return;
    };
    for (name, spec) in RECORDINGS {
        let trace = load(&folder.join(format!("{name}.csv.gz")));
        let config = config(&trace, AddressOrder::Recorded);
        let row = fidelity::check(&trace, spec, policy(spec), config)
            .expect("holds truth")
            .row;
        assert_eq!(row.first_divergence, None, "{name}");
        assert_eq!(
            (row.device_free, row.device_free_matched),
            (8000, 8000),
            "{name}"
        );
        assert_eq!(
            (row.allocations, row.driver_addresses_fed),
            (4150, 4150),
            "{name}"
        );
    }
}

/// Compares a free-standing replay with what a recording says of addresses and pages.
struct Beside<'a> {
    facts: &'a [TruthEntry],
    shift: Option<i128>,
    empty_bytes: Option<u64>,
    met: u64,
    worst_error_bytes: u64,
    beyond: u64,
}

impl Observer for Beside<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        let event = moment.index as u32;
        let from = self.facts.partition_point(|fact| fact.event < event);
        let facts = self.facts[from..]
            .iter()
            .take_while(|fact| fact.event == event);
        for fact in facts {
            match (fact.kind, moment.outcome) {
                (TruthKind::Alloc, Outcome::Served(block)) => {
                    let apart = i128::from(fact.address) - i128::from(moment.space.base(block));
                    self.met += u64::from(*self.shift.get_or_insert(apart) == apart);
                }
                (TruthKind::DeviceFreeAfter, _) => {
                    let counters = moment.space.counters();
                    let empty = fact.bytes + counters.page_bytes;
                    let error = self.empty_bytes.get_or_insert(empty).abs_diff(empty);
                    self.worst_error_bytes = self.worst_error_bytes.max(error);
                    let allowed = 2 * MIB * counters.used_blocks.div_ceil(1000);
                    self.beyond += u64::from(error > allowed);
                }
                _ => {}
            }
        }
    }
}

/// Runs `spec` with addresses of its own.
fn alone<'a>(trace: &'a Trace, spec: &str) -> Beside<'a> {
    let config = config(trace, AddressOrder::TopDown);
    let mut replay = Replay::new(policy(spec), config).expect("starts");
    let mut beside = Beside {
        facts: &trace.truth.as_ref().expect("a recording").entries,
        shift: None,
        empty_bytes: None,
        met: 0,
        worst_error_bytes: 0,
        beyond: 0,
    };
    replay.feed(&trace.events, &trace.times_ns, &mut beside);
    beside
}

#[test]
fn the_driver_places_every_recorded_allocation_by_itself() {
    let Some(folder) = common::shared("recordings/cuda") else {
        return;
    };
    for (name, spec) in RECORDINGS {
        let trace = load(&folder.join(format!("{name}.csv.gz")));
        let (known, unknown) = (alone(&trace, spec), alone(&trace, "cuda-malloc"));
        println!(
            "{name}: {} of 4150 addresses met, {} where the context is not known; device-free \
             bytes off by at most {}",
            known.met, unknown.met, unknown.worst_error_bytes
        );
        assert_eq!((known.met, known.worst_error_bytes), (4150, 0), "{name}");
        assert_eq!(unknown.beyond, 0, "{name}");
    }
}

/// The recorded program waited for the device after every 100th operation.
fn with_waits(trace: &Trace) -> Vec<Event> {
    let wait = Event::Sync { stream: ANY_STREAM };
    let hundreds = trace.events.chunks(100);
    hundreds
        .flat_map(|part| part.iter().copied().chain([wait]))
        .collect()
}

fn peak_of_pool(trace: &Trace, events: &[Event], spec: &str) -> u64 {
    let config = config(trace, AddressOrder::TopDown);
    let mut replay = Replay::new(policy(spec), config).expect("starts");
    replay.feed(events, &[], &mut ());
    assert_eq!(replay.totals().failed, 0);
    replay.space().counters().peak_reserved_bytes
}

/// How far a peak is from the recorded one, in ppm; told.
fn error_ppm(name: &str, made: u64, recorded: u64) -> u64 {
    let (made, recorded) = (i128::from(made), i128::from(recorded));
    let ppm = (made - recorded) * 1_000_000 / recorded;
    println!("{name}: peak reserved {made}, recorded {recorded}, {ppm:+} ppm");
    ppm.unsigned_abs() as u64
}

#[test]
fn the_stream_ordered_pool_comes_within_a_tenth_of_the_recorded_peaks() {
    let Some(folder) = common::shared("recordings") else {
        return;
    };
    let mut worst = 0;
    for (program, threshold) in [
        ("mixed_keep", "max"),
        ("mixed_release", "0"),
        ("streams_keep", "max"),
        ("streams_release", "0"),
    ] {
        let name = format!("mallocasync_{program}");
        let trace = load(&folder.join(format!("cuda/{name}.csv.gz")));
        let facts = &trace.truth.as_ref().expect("a recording").entries;
        let reserved = facts
            .iter()
            .filter(|fact| fact.kind == TruthKind::ReservedAfter);
        let recorded = reserved
            .map(|fact| fact.bytes)
            .max()
            .expect("reserved bytes");
        let spec = format!("cuda-malloc-async:release_threshold={threshold}");
        let made = peak_of_pool(&trace, &with_waits(&trace), &spec);
        worst = worst.max(error_ppm(&name, made, recorded));
    }
    for base in ["resnet50_train", "moe_train"] {
        let text = std::fs::read_to_string(folder.join(format!("whatif/{base}_w8.json")));
        let json: serde_json::Value = serde_json::from_str(&text.expect("is there")).expect("JSON");
        let recorded = json["memory_stats"]["reserved_bytes.all.peak"]
            .as_u64()
            .expect("a count");
        let trace = load(&folder.join(format!("torch/{base}.pickle.gz")));
        let made = peak_of_pool(&trace, &trace.events, "cuda-malloc-async");
        worst = worst.max(error_ppm(&format!("{base}_w8"), made, recorded));
    }
    assert!(worst <= 100_000, "{worst} ppm");
}
