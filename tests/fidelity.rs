//! Recordings of PyTorch on a real card, met event by event by the policy `pytorch`.

mod common;

use std::path::Path;
use std::sync::Arc;

use vramlab::fidelity::{self, Checked};
use vramlab::policy::Registry;
use vramlab::space::{AddressOrder, Device, SpaceConfig};
use vramlab::trace::open::OpenOptions;
use vramlab::trace::{Trace, open::open};
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
