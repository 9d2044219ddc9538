//! `validate` and `calibrate` where there is no GPU: what they say, and a rehearsal on a
//! card of host memory.

use std::path::Path;
use std::process::{Command, Output};

use vramlab::space::Device;

fn vramlab(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramlab"));
    command.args(args).env("NO_COLOR", "1");
    command.output().expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_card_one_sentence_and_exit_code_30() {
    if cfg!(feature = "cuda") && Path::new("/dev/nvidiactl").exists() {
        println!("skipped: there is a card");
        return;
    }
    for args in [
        &["validate"][..],
        &["validate", "--claims"],
        &["calibrate", "--out", "never-written.toml"],
    ] {
        let output = vramlab(args);
        let told = words(&output.stderr);
        assert_eq!(code(&output), 30, "{args:?}: {told}");
        assert_eq!(told.trim_end().lines().count(), 1, "{told}");
        let why = if cfg!(feature = "cuda") {
            "on this machine"
        } else {
            "cargo build --release --features cuda"
        };
        assert!(told.contains(why), "{told}");
        assert!(output.stdout.is_empty());
    }
    assert!(!Path::new("never-written.toml").exists());
}

#[test]
fn a_rehearsal_prints_one_row_a_policy_and_writes_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let output = vramlab(&[
        "validate",
        "--rehearse",
        "--policies",
        "first-fit,pytorch,compaction",
        "--capacity",
        "64MiB",
        "--out",
        out.to_str().expect("a plain name"),
        "--json",
    ]);
    assert_eq!(code(&output), 0, "{}", words(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let rows = rows.as_array().expect("a list");
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row["verdict"], "agrees", "{row}");
        assert!(row["checked_bytes"].as_u64() > Some(0), "{row}");
    }
    let manifest = std::fs::read_to_string(out.join("manifest.json")).expect("it is written");
    for file in ["rows.csv", "rows.json", "driver-time-exercise.png"] {
        assert!(out.join(file).exists() && manifest.contains(file), "{file}");
    }
}

#[test]
fn a_planted_fault_is_found_and_exits_with_20() {
    for (fault, policy) in [
        ("shift", "first-fit"),
        ("no-wait", "stream-first-fit"),
        ("short-move", "compaction"),
    ] {
        let output = vramlab(&[
            "validate",
            "--rehearse",
            "--policies",
            policy,
            "--plant",
            fault,
        ]);
        let table = words(&output.stdout);
        assert_eq!(
            code(&output),
            20,
            "{fault}: {table}{}",
            words(&output.stderr)
        );
        assert!(
            table.contains("disagrees") && table.contains(fault),
            "{table}"
        );
    }
    let late = [
        "validate",
        "--rehearse",
        "--policies",
        "stream-first-fit",
        "--plant",
        "late",
    ];
    assert_eq!(code(&vramlab(&late)), 0);
}

#[test]
fn the_claims_are_measured_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("claims");
    let path = out.to_str().expect("a plain name");
    let output = vramlab(&["validate", "--rehearse", "--claims", "--out", path]);
    assert_eq!(code(&output), 0, "{}", words(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("it is written");
    let board = read("fragmenting.csv");
    // The pool of host memory has one range and needs a hole; plain mappings do not.
    let refused = board.lines().filter(|line| line.ends_with("false"));
    assert!(refused.clone().count() > 0 && refused.clone().all(|line| line.starts_with("pool,")));
    assert!(read("allocating.csv").lines().count() > 6);
    assert_eq!(read("freeing.csv").lines().count(), 7);
    let moved = read("moving.csv");
    assert!(moved.lines().skip(1).count() > 1);
    assert!(
        moved.lines().skip(1).all(|line| line.ends_with(",0")),
        "{moved}"
    );
}

#[test]
fn a_calibration_reads_as_a_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("mycard.toml");
    let path = out.to_str().expect("a plain name");
    let output = vramlab(&["calibrate", "--rehearse", "--out", path]);
    assert_eq!(code(&output), 0, "{}", words(&output.stderr));
    let text = std::fs::read_to_string(&out).expect("it is written");
    let device = Device::from_toml(&text).expect("it is a device");
    assert_eq!(
        (device.name.as_str(), device.page_bytes),
        ("mycard", 2 << 20)
    );
    assert!(device.malloc_ns(4096) > 0 && device.copy.at(4096) > 0);
}
