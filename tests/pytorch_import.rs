//! The import of PyTorch snapshots on real recordings: what the files say is met, and a
//! recording that begins in the middle is rebuilt to what its whole shows at that point.

mod pytorch_state;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use pytorch_state::State;
use vramlab::trace::pytorch::{self, Options, stripped};
use vramlab::trace::snapshot::{self, Snapshot};
use vramlab::trace::truth::{TruthEntry, TruthKind, TruthState};
use vramlab::trace::{Event, Trace, Truth};

/// The folder of shared material, or `None` with a printed sentence.
fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VRAMLAB_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let path = root.join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} is absent; set VRAMLAB_SHARED", path.display());
    None
}

struct Recording {
    name: String,
    snapshot: Snapshot,
    json: serde_json::Value,
}

impl Recording {
    fn trace(&self) -> Trace {
        one(&self.snapshot, &self.name)
    }

    fn stat(&self, name: &str) -> u64 {
        self.json["memory_stats"][name].as_u64().expect("a count")
    }
}

fn one(snapshot: &Snapshot, name: &str) -> Trace {
    let mut traces = pytorch::import(snapshot, name, name, Options::default()).expect("imports");
    assert_eq!(traces.len(), 1, "{name}");
    traces.remove(0)
}

fn truth(trace: &Trace) -> &Truth {
    trace.truth.as_deref().expect("a recording has truth")
}

fn noted(trace: &Trace, words: &str) -> u64 {
    let notes = trace.report.notes.iter();
    notes
        .filter(|note| note.what.contains(words))
        .map(|note| note.count)
        .sum()
}

fn recording(folder: &Path, name: &str) -> Recording {
    let packed = std::fs::read(folder.join(format!("{name}.pickle.gz"))).expect("is there");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_end(&mut bytes)
        .expect("gunzips");
    let json = std::fs::read(folder.join(format!("{name}.json"))).expect("is there");
    Recording {
        name: name.to_owned(),
        snapshot: snapshot::read(&bytes).expect("reads"),
        json: serde_json::from_slice(&json).expect("is JSON"),
    }
}

/// The names in `folder` that end in `ending`, without it, in order.
fn names(folder: &Path, ending: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("lists")
        .filter_map(|file| file.expect("lists").file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(ending).map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn action(kind: TruthKind) -> &'static str {
    match kind {
        TruthKind::Alloc => "alloc",
        TruthKind::FreeRequested => "free_requested",
        TruthKind::FreeCompleted => "free_completed",
        TruthKind::SegmentAlloc => "segment_alloc",
        TruthKind::SegmentFree => "segment_free",
        TruthKind::SegmentMap => "segment_map",
        TruthKind::SegmentUnmap => "segment_unmap",
        TruthKind::Oom => "oom",
        other => panic!("{other:?} in a PyTorch recording"),
    }
}

/// Facts and events are as many as the recording's own counts of actions.
fn check_counts(recording: &Recording, trace: &Trace) {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for fact in &truth(trace).entries {
        *counts.entry(action(fact.kind)).or_default() += 1;
    }
    let actions = recording.json["actions"].as_object().expect("counts");
    let expected: BTreeMap<&str, u64> = actions
        .iter()
        .map(|(action, count)| (action.as_str(), count.as_u64().expect("a count")))
        .collect();
    assert_eq!(counts, expected, "{}", recording.name);
    let mut events: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &trace.events {
        let name = match event {
            Event::Alloc { .. } => "alloc",
            Event::Attempt { .. } => "oom",
            Event::Free { .. } => "free_requested",
            Event::Complete { .. } | Event::Trim | Event::Mark { .. } => continue,
            other => panic!("{}: {other:?}", recording.name),
        };
        *events.entry(name).or_default() += 1;
    }
    for name in ["alloc", "oom", "free_requested"] {
        assert_eq!(events.get(name), expected.get(name), "{}", recording.name);
    }
}

/// Whether a fact may have happened during an event.
fn fits(fact: &TruthEntry, event: &Event) -> bool {
    let of_malloc = matches!(event, Event::Alloc { .. } | Event::Attempt { .. });
    match (fact.kind, event) {
        (TruthKind::Alloc, Event::Alloc { bytes, .. })
        | (TruthKind::Oom, Event::Attempt { bytes, .. }) => *bytes == fact.bytes,
        (TruthKind::FreeRequested, Event::Free { .. }) => true,
        (TruthKind::FreeCompleted, Event::Free { deferred, .. }) => !deferred,
        (TruthKind::FreeCompleted, Event::Complete { .. }) => true,
        (TruthKind::SegmentFree | TruthKind::SegmentUnmap, Event::Trim) => true,
        (TruthKind::Alloc | TruthKind::Oom | TruthKind::FreeRequested, _) => false,
        _ => of_malloc,
    }
}

/// Facts stand in the order of their events, and name one that they can belong to.
fn check_facts(recording: &Recording, trace: &Trace) {
    let name = &recording.name;
    let mut last = 0;
    for fact in &truth(trace).entries {
        assert!(fact.event >= last, "{name}: facts out of order");
        last = fact.event;
        let event = &trace.events[fact.event as usize];
        assert!(fits(fact, event), "{name}: {fact:?} under {event:?}");
    }
}

#[test]
fn every_recording_is_met_in_counts_state_and_retries() {
    let Some(folder) = shared("recordings/torch") else {
        return;
    };
    let mut seen = 0;
    for name in names(&folder, ".pickle.gz") {
        let recording = recording(&folder, &name);
        let trace = recording.trace();
        check_counts(&recording, &trace);
        check_facts(&recording, &trace);
        let truth = truth(&trace);
        assert!(truth.initial.is_empty(), "{name} began empty");
        assert_eq!(trace.initial_events, 0, "{name}");
        assert_eq!(noted(&trace, "contradict"), 0, "{name}");
        let end = State::replay(&truth.entries, &recording.snapshot);
        assert_eq!(end.regions(), State::regions_of(&truth.last), "{name}");
        assert_eq!(end.requests(), State::requests_of(&truth.last), "{name}");
        assert_eq!(end.sizes(), State::sizes_of(&truth.last), "{name}");
        let retries = noted(&trace, "retries inferred") + recording.stat("num_ooms");
        assert_eq!(retries, recording.stat("num_alloc_retries"), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 20);
}

/// Drops the first `count` entries, as in a recording that began later.
fn cut(snapshot: &Snapshot, count: usize) -> Snapshot {
    let mut later = snapshot.clone();
    later.device_traces[0].drain(..count);
    later
}

#[test]
fn a_recording_that_begins_later_is_rebuilt_to_what_its_whole_shows() {
    let Some(folder) = shared("recordings/torch") else {
        return;
    };
    let (mut blocks, mut wrong, mut guessed) = (0, 0, 0);
    for name in [
        "churn_all_s1",
        "churn_default_s1",
        "churn_expandable_s1",
        "churn_large_s1",
        "churn_roundup_s1",
        "churn_split_s1",
        "detector_train_cap",
        "graph_capture",
        "gpt2_varlen_expandable",
        "multi_stream",
        "resnet50_train",
    ] {
        let whole = recording(&folder, name);
        let entries = truth(&whole.trace()).entries.clone();
        for eighths in [1, 3, 4, 6, 7] {
            let at = entries.len() * eighths / 8 + eighths;
            let trace = one(&cut(&whole.snapshot, at), name);
            let expected = State::replay(&entries[..at], &whole.snapshot);
            let found = &truth(&trace).initial;
            let place = format!("{name}, {at} entries dropped");
            assert_eq!(expected.regions(), State::regions_of(found), "{place}");
            assert_eq!(expected.requests(), State::requests_of(found), "{place}");
            let sizes = State::sizes_of(found);
            let pairs = expected.sizes().into_iter().zip(&sizes);
            let differ = pairs.filter(|(expected, found)| expected != *found);
            let differ = differ.count() as u64;
            let unsure = noted(&trace, "whose size nothing tells");
            assert!(
                differ <= unsure,
                "{place}: {differ} sizes wrong, {unsure} guessed"
            );
            blocks += sizes.len() as u64;
            wrong += differ;
            guessed += unsure;
        }
    }
    println!("{blocks} initial blocks, {guessed} guessed, {wrong} with a wrong size");
    assert!(blocks > 5_000 && wrong * 200 < blocks);
}

/// The rows of an `init.csv` as (kind, address, bytes, requested bytes, pool of large blocks).
fn init_rows(text: &str) -> Vec<(String, u64, u64, u64, bool)> {
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse().expect("a number");
        let requested = if fields[0] == "block" { number(3) } else { 0 };
        let large = fields[4] == "large";
        (fields[0].to_owned(), number(1), number(2), requested, large)
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// The same of the rebuilt state.
fn rebuilt_rows(trace: &Trace) -> Vec<(String, u64, u64, u64, bool)> {
    let mut rows = Vec::new();
    for segment in &truth(trace).initial {
        let large = segment.large;
        rows.push((
            "segment".to_owned(),
            segment.address,
            segment.bytes,
            0,
            large,
        ));
        for block in &segment.blocks {
            if block.state != TruthState::Inactive {
                let (bytes, requested) = (block.bytes, block.requested_bytes);
                rows.push(("block".to_owned(), block.address, bytes, requested, large));
            }
        }
    }
    rows.sort();
    rows
}

#[test]
fn stripped_snapshots_are_rebuilt_to_their_initial_state() {
    let Some(folder) = shared("public/derived-pytorch") else {
        return;
    };
    for name in names(&folder, ".events.csv") {
        let text = |kind: &str| {
            std::fs::read_to_string(folder.join(format!("{name}.{kind}.csv"))).expect("is there")
        };
        let (events, last) = (text("events"), text("final"));
        let snapshot = stripped::read((&name, &events), Some((&name, &last))).expect("reads");
        let trace = one(&snapshot, &name);
        assert_eq!(rebuilt_rows(&trace), init_rows(&text("init")), "{name}");
        assert_eq!(noted(&trace, "contradict"), 0, "{name}");
    }
}
