//! The page on writing a policy: its commands run, its figures are what they print, and the
//! preset that it shows is the one in `policies/`. Its code is a test of the documentation.

mod common;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const PAGE: &str = include_str!("../docs/write-a-policy.md");

/// The blocks of the page in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let after = PAGE.split(fence.as_str()).skip(1);
    after
        .map(|text| text.split("```").next().expect("a first part"))
        .collect()
}

/// The commands of the page.
fn commands() -> impl Iterator<Item = &'static str> {
    let lines = blocks("sh").into_iter().flat_map(str::lines);
    lines.map(|line| line.strip_prefix("vramlab ").expect("a command of ours"))
}

/// Runs a command of the page in a folder of its own; what it prints as JSON, or `None` where
/// the recording that it reads is not there.
fn run(command: &str) -> Option<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut arguments = Vec::new();
    for word in command.split_whitespace() {
        arguments.push(match word.strip_prefix("../shared/") {
            Some(recording) => common::shared(recording)?.into_os_string(),
            None if word.starts_with("experiments/") => root.join(word).into_os_string(),
            None => word.into(),
        });
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(arguments)
        .arg("--json")
        .current_dir(folder.path())
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// The rows of the page's table on a recording: policy, and its cells.
fn table(recording: &str) -> Vec<Vec<&'static str>> {
    let heading = format!("| {recording} |");
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(&heading));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    rows.map(cells).collect()
}

/// The first object below `value` that tells of `policy` under `key`.
fn told(value: &Value, policy: &str, key: &str) -> Option<u64> {
    let found = value.get(key).and_then(Value::as_u64);
    if found.is_some() && value.get("policy").and_then(Value::as_str) == Some(policy) {
        return found;
    }
    let parts: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    parts.into_iter().find_map(|part| told(part, policy, key))
}

#[test]
fn the_figures_of_the_recordings_are_those_of_the_commands() {
    for recording in ["gpt2_varlen", "moe_train"] {
        let of = |verb: &str| {
            let mut all = commands().filter(|it| it.contains(recording));
            let command = all.find(|it| it.starts_with(verb)).expect("a command");
            if verb == "compare" {
                return run(command);
            }
            // A capacity takes some twenty replays: of three policies it is looked for again.
            let others = ",first-fit,pytorch,pytorch-expandable,size-class";
            assert!(command.contains(others), "{command}");
            run(&command.replace(others, ""))
        };
        let (Some(fits), Some(rows)) = (of("fit"), of("compare")) else {
            return;
        };
        let table = table(recording);
        assert_eq!(table.len(), 7, "{recording}");
        for cells in table {
            let policy = cells[0].trim_matches('`');
            let of = |key| told(&rows, policy, key).expect("every policy has a row");
            let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30));
            let percent = |ppm: u64| format!("{:.1} %", ppm as f64 / 1e4);
            let measured = [
                gib(of("footprint_bytes")),
                percent(of("mean_external_fragmentation_ppm")),
            ];
            assert_eq!(cells[2..], measured, "{recording}: {policy}");
            let fit = told(&fits, policy, "fit_bytes");
            let is_fit_again = ["lifetime", "lifetime:steps=0", "best-fit"].contains(&policy);
            assert_eq!(fit.is_some(), is_fit_again, "{recording}: {policy}");
            assert!(fit.is_none_or(|bytes| gib(bytes) == cells[1]), "{policy}");
        }
    }
}

#[test]
fn every_other_command_runs() {
    let of_recordings = |command: &str| command.contains("../shared/");
    let mut others = Vec::new();
    for command in commands().filter(|it| !of_recordings(it)) {
        // All seeds of the experiment take a minute; `results.rs` runs some of them.
        let whole = command.starts_with("run ");
        let dry = format!("{command} --list");
        run(if whole { &dry } else { command });
        others.push(command.split(' ').next().expect("a verb"));
    }
    assert_eq!(others, ["policy", "run"]);
}

#[test]
fn the_preset_and_the_two_lines_are_those_of_the_house() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file");
    assert_eq!(blocks("toml"), [read("policies/lifetime.toml")]);
    let spec = read("src/policy/spec.rs");
    let lines = blocks("text").into_iter().flat_map(str::lines);
    let missing: Vec<&str> = lines.filter(|line| !spec.contains(line)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
