//! Predictions of other settings against reruns on the card, to the byte.

mod common;

use std::path::Path;
use std::sync::Arc;

use vramlab::experiment::{Scene, Wanted, run_row};
use vramlab::policy::Registry;
use vramlab::space::Device;
use vramlab::trace::open::OpenOptions;
use vramlab::trace::{Trace, open::open};
use vramlab::units::MIB;
use vramlab::whatif::{Prediction, Ran, Setup, predict, under_other_orders};

/// What the file beside a recording says of it.
#[derive(serde::Deserialize)]
struct Beside {
    cap_mib: u64,
    alloc_conf: String,
    device_total_bytes: u64,
    memory_stats: std::collections::BTreeMap<String, i64>,
}

impl Beside {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("the file beside the recording");
        serde_json::from_str(&text).expect("its fields")
    }

    fn cap_bytes(&self) -> Option<u64> {
        (self.cap_mib > 0).then_some(self.cap_mib * MIB)
    }
}

const PEAKS: [&str; 4] = [
    "reserved_bytes.all.peak",
    "allocated_bytes.all.peak",
    "active_bytes.all.peak",
    "requested_bytes.all.peak",
];

fn load(folder: &Path, name: &str) -> Trace {
    let beside = Beside::read(&folder.join(format!("{name}.json")));
    let options = OpenOptions {
        capacity_bytes: beside.cap_bytes(),
        ..OpenOptions::default()
    };
    let path = folder.join(format!("{name}.pickle.gz"));
    open(&path, &options)
        .expect("the recording opens")
        .remove(0)
}

/// The trace under the settings of `other`.
fn under(trace: &Trace, other: &Beside) -> Prediction {
    let registry = Registry::default();
    let text = match other.alloc_conf.as_str() {
        "" => "pytorch".to_owned(),
        conf => format!("pytorch:{conf}"),
    };
    let chosen = registry.find(&text).expect("its settings");
    let device = Device {
        page_bytes: 2 * MIB,
        ..Device::bare(other.device_total_bytes)
    };
    let setup = Setup {
        device: Arc::new(device),
        capacity_bytes: other.cap_bytes().unwrap_or(other.device_total_bytes),
    };
    predict(trace, &registry, &chosen, &setup).expect("runs")
}

/// The peaks that differ, told; the recorded reserved peak lies in the range in any case.
fn differences(what: &str, made: &Prediction, other: &Beside) -> Vec<String> {
    let recorded = |name: &str| other.memory_stats[name];
    println!(
        "{what}: reserved {} of {}, {} to {}, {}",
        made.peak_reserved_bytes,
        recorded(PEAKS[0]),
        made.low_peak_reserved_bytes,
        made.high_peak_reserved_bytes,
        if made.exact {
            "exact"
        } else {
            "hangs on addresses"
        },
    );
    let differ = |name: &&&str| made.statistic(name) != Some(recorded(name));
    let told = |name: &&str| {
        let made = made.statistic(name);
        format!("{what}: {name} is {made:?}, recorded {}", recorded(name))
    };
    PEAKS.iter().filter(differ).map(told).collect()
}

#[test]
fn fourteen_reruns_under_other_settings_are_predicted_to_the_byte() {
    let (Some(torch), Some(reruns)) = (
        common::shared("recordings/torch"),
        common::shared("recordings/whatif"),
    ) else {
        return;
    };
    let mut wrong = Vec::new();
    for base in ["resnet50_train", "moe_train"] {
        let trace = load(&torch, base);
        for number in 1..=7 {
            let name = format!("{base}_w{number}");
            let other = Beside::read(&reruns.join(format!("{name}.json")));
            wrong.extend(differences(&name, &under(&trace, &other), &other));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recordings_of_the_same_requests_predict_each_other() {
    let Some(torch) = common::shared("recordings/torch") else {
        return;
    };
    let mut wrong = Vec::new();
    for (one, other) in [
        ("gpt2_varlen", "gpt2_varlen_expandable"),
        ("moe_train", "moe_train_roundup"),
    ] {
        for (from, to) in [(one, other), (other, one)] {
            let settings = Beside::read(&torch.join(format!("{to}.json")));
            let made = under(&load(&torch, from), &settings);
            wrong.extend(differences(&format!("{from} as {to}"), &made, &settings));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_recording_predicts_its_own_peaks() {
    let Some(torch) = common::shared("recordings/torch") else {
        return;
    };
    let mut wrong = Vec::new();
    for name in common::names(&torch, ".pickle.gz") {
        let own = Beside::read(&torch.join(format!("{name}.json")));
        wrong.extend(differences(&name, &under(&load(&torch, &name), &own), &own));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A comparison has replayed the driver's own order already: its row stands for that run.
#[test]
fn a_row_stands_for_the_run_under_the_drivers_own_order() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/service-cap.vlt.zst");
    let trace = open(&file, &OpenOptions::default()).expect("it opens");
    let device = Device {
        page_bytes: 2 * MIB,
        ..Device::bare(64 << 30)
    };
    let scene = Scene::new(
        trace.into_iter().next().expect("a trace"),
        Arc::new(device),
        Wanted::ByTrace,
    );
    let setup = Setup {
        device: Arc::clone(&scene.device),
        capacity_bytes: scene.capacity.bytes,
    };
    let registry = Registry::default();
    for name in ["pytorch", "pytorch-expandable"] {
        let chosen = registry.find(name).expect("a preset");
        let whole = predict(&scene.trace, &registry, &chosen, &setup).expect("runs");
        let row = run_row(&scene, &registry, &chosen, &mut ()).expect("it is built");
        let own = Ran::of(&row.expect("no rule is broken"));
        let others = under_other_orders(&scene.trace, &registry, &chosen, &setup).expect("runs");
        assert_eq!(others.len(), 4);
        let pieced = Prediction {
            statistics: whole.statistics.clone(),
            ..Prediction::new(name, own, &others)
        };
        assert_eq!(pieced, whole);
    }
}
