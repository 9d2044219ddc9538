//! Synthetic traces from the command line, and under policies.

mod common;

use std::process::Command;
use std::sync::Arc;

use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::policy::Registry;
use vramlab::policy::registry::DEVICES;
use vramlab::space::Device;
use vramlab::synth::Workload;
use vramlab::synth::requests::Requests;
use vramlab::trace::{OpenOptions, open};

fn vramlab(arguments: &[&str]) -> (Option<i32>, Vec<u8>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramlab"));
    let output = command.args(arguments).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), output.stdout, told)
}

#[test]
fn text_and_binary_hold_the_same_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    for workload in ["pipeline-4-streams", "training-gpt2:layers=1", "churn"] {
        let common = [
            "trace", "synth", workload, "--seed", "4", "--events", "3000",
        ];
        let mut traces = Vec::new();
        for name in ["a.csv", "a.vlt", "b.csv.gz", "b.vlt.zst"] {
            let path = folder.path().join(name);
            let place = path.display().to_string();
            let (code, _, told) = vramlab(&[&common[..], &["-o", &place]].concat());
            assert_eq!(code, Some(0), "{told}");
            assert!(told.contains("3,000 events written to"), "{told}");
            traces.extend(open(&path, &OpenOptions::default()).expect("a sound trace"));
        }
        let (_, csv, _) = vramlab(&common);
        let first = std::fs::read(folder.path().join("a.csv")).expect("written");
        assert_eq!(csv, first, "standard output is csv");
        for trace in &traces {
            let mut again = Vec::new();
            vramlab::trace::csv::write(trace, &mut again).expect("memory");
            assert!(
                again == first,
                "{workload}: the same rows from either format"
            );
        }
        let seed = [
            "trace", "synth", workload, "--seed", "5", "--events", "3000",
        ];
        assert_ne!(vramlab(&seed).1, csv, "another seed is another trace");
    }
}

#[test]
fn what_cannot_be_done_is_told() {
    for (arguments, part) in [
        (&["trace", "synth", "chum"][..], "did you mean 'churn'?"),
        (&["trace", "synth", "churn", "-o", "x.pickle"], "csv or vlt"),
        (
            &["trace", "synth", "churn:lives.random-victim.live=0"],
            "live = 0",
        ),
        (&["trace", "synth"], "WORKLOAD"),
    ] {
        let (code, _, told) = vramlab(arguments);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn the_list_and_a_file_to_copy() {
    let (code, list, _) = vramlab(&["trace", "synth", "--list", "--json"]);
    assert_eq!(code, Some(0));
    let list: serde_json::Value = serde_json::from_slice(&list).expect("json");
    let names: Vec<&str> = list
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert!(
        names.contains(&"serving-mooncake") && names.contains(&"churn"),
        "{names:?}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("churn.toml");
    for shown in ["churn", "churn:lives.random-victim.live=7"] {
        let (_, text, _) = vramlab(&["trace", "synth", shown, "--show"]);
        std::fs::write(&path, text).expect("written");
        let from_file = Workload::find(&path.display().to_string()).expect("it reads itself");
        assert_eq!(from_file, Workload::find(shown).expect("a preset"));
    }
}

/// Streams are kept apart by policies that claim to: a rule broken would be a panic.
#[test]
fn policies_replay_every_preset() {
    let registry = Registry::default();
    let (_, card) = DEVICES
        .iter()
        .find(|(name, _)| *name == "h200")
        .expect("a card");
    let card = Arc::new(Device::from_toml(card).expect("a card"));
    for preset in Workload::presets().expect("presets fit") {
        let Ok(mut workload) = Workload::find(&preset.name) else {
            println!("skipped: what '{}' reads is absent", preset.name);
            continue;
        };
        workload.events = 4000;
        let scene = Scene::new(workload.trace(1), Arc::clone(&card), Wanted::Card);
        for policy in [
            "best-fit",
            "pytorch",
            "stream-first-fit",
            "cuda-malloc-async",
        ] {
            let chosen = registry.find(policy).expect("a preset");
            let watch = Watch {
                map: false,
                progress: &|_| (),
                extra: (),
            };
            match run_cell(&scene, &registry, &chosen, watch).expect("it builds") {
                Ended::Replayed(seen) => assert_eq!(seen.row.events, 4000),
                Ended::NotStarted(..) => panic!("{policy} did not start on {}", preset.name),
                Ended::Broke(what) => panic!("{policy} on {}: {what}", preset.name),
            }
        }
    }
}

/// The two public data sets, whole.
#[test]
fn public_requests_are_read_whole() {
    for (path, count, hashes) in [
        (
            "public/azure-llm-2023/AzureLLMInferenceTrace_code.csv",
            8819,
            false,
        ),
        ("public/mooncake/conversation_trace.jsonl", 12_031, true),
    ] {
        let Some(path) = common::shared(path) else {
            continue;
        };
        let requests: Result<Vec<_>, _> = Requests::open(&path).expect("it opens").collect();
        let requests = requests.expect("every line is sound");
        assert_eq!(requests.len(), count);
        assert_eq!(requests[0].arrival_ns, 0);
        assert!(requests.is_sorted_by_key(|request| request.arrival_ns));
        for request in &requests {
            let named = request.hashes.len() as u64;
            assert_eq!(
                named,
                if hashes {
                    request.prompt_tokens.div_ceil(512)
                } else {
                    0
                }
            );
        }
    }
}
