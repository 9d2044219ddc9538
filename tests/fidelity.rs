//! Recordings of PyTorch on a real card, met event by event by the policy `pytorch`.

mod common;

use std::path::Path;
use std::sync::Arc;

use vramlab::fidelity::{self, Checked, FidelityRow};
use vramlab::policy::Registry;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::{AddressOrder, Device, SpaceConfig};
use vramlab::trace::open::OpenOptions;
use vramlab::trace::pytorch::{self, Options};
use vramlab::trace::{Trace, open::open, snapshot, vlt};
use vramlab::units::MIB;

/// What the file beside a recording says of it.
#[derive(serde::Deserialize)]
struct Beside {
    cap_mib: u64,
    alloc_conf: String,
    device_total_bytes: u64,
    memory_stats: std::collections::BTreeMap<String, i64>,
}

fn beside(path: &Path) -> Beside {
    let text = std::fs::read_to_string(path).expect("the file beside the recording");
    serde_json::from_str(&text).expect("its fields")
}

fn card(total_bytes: u64) -> Device {
    Device {
        total_bytes,
        page_bytes: 2 * MIB,
        ..Device::bare(total_bytes)
    }
}

fn config(beside: &Beside, trace: &Trace) -> SpaceConfig {
    let cap = beside.cap_mib * MIB;
    SpaceConfig {
        device: Arc::new(card(beside.device_total_bytes)),
        capacity_bytes: if cap == 0 {
            beside.device_total_bytes
        } else {
            cap
        },
        blind: false,
        streams: trace.streams.len(),
        addresses: AddressOrder::Recorded,
        record_steps: true,
    }
}

fn load(path: &Path, beside: &Beside) -> Trace {
    let cap = beside.cap_mib * MIB;
    let options = OpenOptions {
        capacity_bytes: (cap > 0).then_some(cap),
        ..OpenOptions::default()
    };
    open(path, &options).expect("the recording opens").remove(0)
}

fn policy(conf: &str) -> String {
    if conf.is_empty() {
        "pytorch".into()
    } else {
        format!("pytorch:{conf}")
    }
}

fn check(folder: &Path, name: &str) -> (Checked, Beside) {
    let beside = beside(&folder.join(format!("{name}.json")));
    let trace = load(&folder.join(format!("{name}.pickle.gz")), &beside);
    let registry = Registry::default();
    let chosen = registry
        .find(&policy(&beside.alloc_conf))
        .expect("its settings");
    let built = registry.build(&chosen).expect("builds");
    let checked = fidelity::check(&trace, &chosen.label, built, config(&beside, &trace));
    (checked.expect("holds truth"), beside)
}

#[test]
fn every_recording_is_met_event_by_event() {
    let Some(folder) = common::shared("recordings/torch") else {
        return;
    };
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("a folder")
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .strip_suffix(".pickle.gz")
                .map(Into::into)
        })
        .collect();
    names.sort();
    let (mut addresses, mut wrong) = (0, Vec::new());
    for name in &names {
        let (Checked { row, replay }, beside) = check(&folder, name);
        println!("{}", serde_json::to_string(&row).expect("a row"));
        addresses += row.addresses_matched;
        if let Some(what) = &row.first_divergence {
            wrong.push(format!("{name}: {what}"));
        }
        // A cache emptied with nothing to give back leaves no entry, so the number of
        // waits for all streams cannot be derived from a recording.
        let derivable = |key: &str| key != "num_sync_all_streams";
        for (key, value) in replay.policy().statistics() {
            if !derivable(&key) {
                continue;
            }
            let recorded = beside.memory_stats.get(&key).copied();
            if recorded.is_some_and(|recorded| recorded != value) {
                wrong.push(format!("{name}: {key} is {value}, recorded {recorded:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(addresses, 530_112);
}

/// A trace under the settings that it tells, on the whole card.
fn own_settings(trace: &Trace) -> FidelityRow {
    let registry = Registry::default();
    let spec = fidelity::recorded_policy(trace).unwrap_or_else(|| "pytorch".into());
    let chosen = registry.find(&spec).expect("its settings");
    let beside = Beside {
        cap_mib: 0,
        alloc_conf: String::new(),
        device_total_bytes: 150_109_880_320,
        memory_stats: Default::default(),
    };
    let built = registry.build(&chosen).expect("builds");
    let checked = fidelity::check(trace, &chosen.label, built, config(&beside, trace));
    checked.expect("holds truth").row
}

#[test]
fn public_recordings_that_begin_in_the_middle_are_met() {
    let Some(folder) = common::shared("public/derived-pytorch") else {
        return;
    };
    let mut wrong = Vec::new();
    for name in common::names(&folder, ".events.csv") {
        let path = folder.join(format!("{name}.events.csv"));
        let trace = open(&path, &OpenOptions::default())
            .expect("opens")
            .remove(0);
        let row = own_settings(&trace);
        println!(
            "{name}: {} of {} addresses",
            row.addresses_matched, row.allocations
        );
        assert!(row.allocations > 0, "{name}");
        if row.addresses_matched != row.allocations {
            wrong.push(format!("{name}: {:?}", row.first_divergence));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recordings_cut_at_their_begin_are_met() {
    let Some(folder) = common::shared("recordings/torch") else {
        return;
    };
    let (mut met, mut asked) = (0, 0);
    for name in [
        "resnet50_train",
        "gpt2_varlen",
        "graph_capture",
        "multi_stream",
    ] {
        let packed = std::fs::File::open(folder.join(format!("{name}.pickle.gz"))).expect("opens");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut bytes)
            .expect("inflates");
        let whole = snapshot::read(&bytes).expect("reads");
        for eighths in [1, 4, 7] {
            let mut later = whole.clone();
            let entries = later.device_traces[0].len();
            later.device_traces[0].drain(..entries * eighths / 8);
            let trace = pytorch::import(&later, name, name, Options::default());
            let trace = trace.expect("imports").remove(0);
            let row = own_settings(&trace);
            println!(
                "{name} from {eighths}/8 on: {} of {} addresses, {:?}",
                row.addresses_matched, row.allocations, row.first_divergence
            );
            met += row.addresses_matched;
            asked += row.allocations;
        }
    }
    assert_eq!(met, asked);
}

/// Where each served request lies in its segment.
#[derive(Default)]
struct Offsets(Vec<(u64, u64)>);

impl Observer for Offsets {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Outcome::Served(block) = moment.outcome {
            let space = moment.space;
            let base = space.segment_base(space.segment(block));
            self.0.push((moment.index, space.base(block) - base));
        }
    }
}

fn offsets(trace: &Trace, beside: &Beside) -> Vec<(u64, u64)> {
    let registry = Registry::default();
    let chosen = registry
        .find(&policy(&beside.alloc_conf))
        .expect("its settings");
    let config = SpaceConfig {
        addresses: AddressOrder::TopDown,
        ..config(beside, trace)
    };
    let built = registry.build(&chosen).expect("builds");
    let mut replay = Replay::new(built, config).expect("starts");
    replay.name_streams(&trace.streams);
    let mut seen = Offsets::default();
    replay.feed(&trace.events, &trace.times_ns, &mut seen);
    seen.0
}

/// The recorded offsets: an address less the base of the segment that holds it.
fn recorded_offsets(trace: &Trace) -> Vec<(u64, u64)> {
    use vramlab::trace::truth::TruthKind;
    let mut segments = std::collections::BTreeMap::new();
    let mut offsets = Vec::new();
    for fact in &trace.truth.as_ref().expect("a recording").entries {
        match fact.kind {
            TruthKind::SegmentAlloc => drop(segments.insert(fact.address, fact.bytes)),
            TruthKind::SegmentFree => drop(segments.remove(&fact.address)),
            TruthKind::Alloc => {
                let (base, _) = segments
                    .range(..=fact.address)
                    .next_back()
                    .expect("a segment");
                offsets.push((u64::from(fact.event), fact.address - base));
            }
            _ => {}
        }
    }
    offsets
}

#[test]
fn a_copy_without_addresses_gives_the_same_placements_in_its_segments() {
    let Some(folder) = common::shared("recordings/torch") else {
        return;
    };
    for (name, least) in [
        ("resnet50_train", 100),
        ("graph_capture", 100),
        ("detector_train", 99),
        ("churn_default_s1", 100),
    ] {
        let beside = beside(&folder.join(format!("{name}.json")));
        let trace = load(&folder.join(format!("{name}.pickle.gz")), &beside);
        let mut bytes = Vec::new();
        vlt::write(&trace, &mut bytes).expect("writes");
        let back = vlt::read(bytes.as_slice(), name).expect("reads");
        if beside.cap_mib == 0 {
            let row = own_settings(&back);
            assert_eq!(row.first_divergence, None, "{name} as .vlt");
        }
        let stripped = Trace {
            truth: None,
            ..back
        };
        let (made, recorded) = (offsets(&stripped, &beside), recorded_offsets(&trace));
        assert_eq!(made.len(), recorded.len(), "{name}");
        let pairs = made.iter().zip(&recorded);
        let met = pairs.filter(|(made, recorded)| made == recorded).count();
        println!(
            "{name}: {met} of {} placements without recorded addresses",
            made.len()
        );
        // Where the driver's addresses decide between equal sizes and the program moved
        // memory of its own, a few may differ.
        assert!(met * 100 >= made.len() * least, "{name}");
    }
}

/// The table of `docs/fidelity.md`, made from the recordings in `traces/`. With
/// `VRAMLAB_UPDATE=1` (`just fidelity`) the file is written instead of compared.
#[test]
fn the_table_of_the_docs_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let traces: Vec<std::path::PathBuf> = common::names(&root.join("traces"), ".vlt.zst")
        .iter()
        .map(|name| root.join(format!("traces/{name}.vlt.zst")))
        .collect();
    assert!(!traces.is_empty());
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .arg("fidelity")
        .args(&traces)
        .env("COLUMNS", "160")
        .env("NO_COLOR", "1")
        .output()
        .expect("the command runs");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let table = String::from_utf8(made.stdout).expect("text");
    let path = root.join("docs/fidelity.md");
    let page = std::fs::read_to_string(&path).expect("docs/fidelity.md");
    let (head, rest) = page.split_once("```text\n").expect("a fenced table");
    let (shown, tail) = rest.split_once("```\n").expect("its end");
    if std::env::var_os("VRAMLAB_UPDATE").is_some() {
        let page = format!("{head}```text\n{table}```\n{tail}");
        std::fs::write(&path, page).expect("docs/fidelity.md is writable");
    } else {
        assert_eq!(shown, table, "run `just fidelity` and look at what changed");
    }
}
