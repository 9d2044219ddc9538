//! `compare --fail-above ... --against ...`: limits for continuous integration, and the
//! commands of docs/ci.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vramlab::experiment::gate::{Baseline, Limit, check, possible};
use vramlab::observe::{Row, rows};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.csv");

fn row(policy: &str, failed: u64, reserved: u64) -> Row {
    Row {
        trace: "t".into(),
        policy: policy.into(),
        capacity_bytes: 1 << 20,
        requests: 10,
        served: 10 - failed,
        failed,
        peak_reserved_bytes: reserved,
        ..Row::default()
    }
}

fn limits(texts: &[&str]) -> Vec<Limit> {
    texts
        .iter()
        .map(|text| text.parse().expect("a limit"))
        .collect()
}

/// A baseline with these rows.
fn baseline(rows: &[Row]) -> Baseline {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let mut bytes = Vec::new();
    rows::write_csv(rows, &mut bytes).expect("memory is writable");
    fs::write(&path, bytes).expect("it is writable");
    Baseline::read(&path).expect("it was just written")
}

/// What a value of `now` comes to where it was 1000 before.
fn passes(limit: &str, now: u64) -> (u64, bool) {
    let before = baseline(&[row("p", 0, 1000)]);
    let checks = check(&limits(&[limit]), &[row("p", 0, now)], Some(&before));
    let checks = checks.expect("they compare");
    assert_eq!(checks.len(), 1);
    (checks[0].most, checks[0].regressed)
}

#[test]
fn limits_are_exact() {
    assert_eq!(passes("p.peak_reserved_bytes=+5%", 1050), (1050, false));
    assert_eq!(passes("p.peak_reserved_bytes=+5%", 1051), (1050, true));
    assert_eq!(
        passes("p.peak_reserved=+0.05%", 1001),
        (1000, true),
        "rounded down"
    );
    assert_eq!(passes("p.peak_reserved=+0", 1000), (1000, false));
    assert_eq!(passes("*.peak_reserved=+0", 1001), (1000, true));
    assert_eq!(passes("p.peak_reserved=+1KiB", 2024), (2024, false));
    assert_eq!(passes("p.peak_reserved=1KiB", 1025), (1024, true));
    assert_eq!(passes("p.peak_reserved=1KiB", 1024), (1024, false));
}

#[test]
fn policies_may_hold_dots_and_equals_signs() {
    let policy = "compaction:over=best-fit,threshold=0.3";
    let limit = format!("{policy}.failures=0");
    let checks = check(&limits(&[&limit]), &[row(policy, 1, 5)], None).expect("absolute");
    assert_eq!((checks[0].metric, checks[0].regressed), ("failed", true));
    for wrong in [
        "p=3",
        "p.failed",
        ".failed=3",
        "p.failed=",
        "p.failed=x",
        "p.speed=1",
        "p.served=+1",
    ] {
        assert!(wrong.parse::<Limit>().is_err(), "{wrong}");
    }
}

#[test]
fn a_policy_that_serves_nothing_any_more_does_not_pass_by_taking_nothing() {
    let before = baseline(&[row("p", 0, 1000)]);
    let checks = check(
        &limits(&["p.peak_reserved=+0"]),
        &[row("p", 10, 0)],
        Some(&before),
    );
    assert!(checks.expect("they compare")[0].regressed);
    let before = baseline(&[row("p", 10, 0)]);
    let checks = check(
        &limits(&["p.peak_reserved=+0"]),
        &[row("p", 10, 0)],
        Some(&before),
    );
    assert!(
        !checks.expect("they compare")[0].regressed,
        "it did not before"
    );
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let before = baseline(&[row("p", 0, 1000), row("q", 0, 1000)]);
    let told = |limit: &str, rows: &[Row]| {
        let checked = check(&limits(&[limit]), rows, Some(&before));
        checked.expect_err(limit).to_string()
    };
    let (p, q) = (row("p", 0, 1000), row("q", 0, 1000));
    let other = Row {
        trace: "u".into(),
        ..p.clone()
    };
    let larger = Row {
        capacity_bytes: 2 << 20,
        ..p.clone()
    };
    let message = told("p.failed=+0", std::slice::from_ref(&other));
    assert!(
        message.contains("has 'p' on trace 't', which is not compared"),
        "{message}"
    );
    let message = told("p.failed=+0", &[p.clone(), other]);
    assert!(message.contains("has no trace 'u'; it has: t"), "{message}");
    let message = told("p.failed=+0", &[larger]);
    assert!(message.contains("had a capacity of 1.00 MiB"), "{message}");
    let message = told("*.failed=+0", &[p.clone(), q.clone(), row("r", 0, 1)]);
    assert!(
        message.contains("has no policy 'r' of trace 't'; it has: p, q"),
        "{message}"
    );
    let message = told("*.failed=+0", std::slice::from_ref(&p));
    assert!(
        message.contains("has 'q' on trace 't', which is not compared"),
        "{message}"
    );
    let message = told("p.fit_bytes=+0", std::slice::from_ref(&p));
    assert!(
        message.contains("no row has a value of 'fit_bytes'"),
        "{message}"
    );
    let found = Row {
        fit_bytes: Some(1),
        ..p.clone()
    };
    let message = told("p.fit_bytes=+0", &[found]);
    assert!(
        message.contains("is undefined in the baseline"),
        "{message}"
    );
    let names = || ["p", "q"].into_iter();
    let message = possible(&limits(&["r.failed=1"]), names(), true).expect_err("not compared");
    assert!(
        message.to_string().contains("compared are: p, q"),
        "{message}"
    );
    let message = possible(&limits(&["p.failed=+1"]), names(), false).expect_err("no baseline");
    assert!(
        message.to_string().contains("there is no baseline"),
        "{message}"
    );
    assert!(possible(&limits(&["p.failed=1"]), names(), false).is_ok());
}

#[test]
fn a_baseline_without_the_column_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let mut bytes = Vec::new();
    let full = Row {
        fit_bytes: Some(7),
        ..row("p", 0, 1000)
    };
    rows::write_csv(std::slice::from_ref(&full), &mut bytes).expect("memory is writable");
    let text = String::from_utf8(bytes)
        .expect("text")
        .replace("fit_bytes", "other");
    fs::write(&path, &text).expect("it is writable");
    let before = Baseline::read(&path).expect("an optional column may be gone");
    let error = check(&limits(&["p.fit_bytes=+0"]), &[full], Some(&before)).expect_err("gone");
    assert!(
        error.to_string().contains("has no column 'fit_bytes'"),
        "{error}"
    );
    fs::write(&path, text.replace("peak_reserved_bytes", "other2")).expect("it is writable");
    let error = Baseline::read(&path)
        .expect_err("this one may not")
        .to_string();
    assert!(
        error.contains("missing field `peak_reserved_bytes`"),
        "{error}"
    );
}

fn compare(arguments: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args([
            "compare",
            TINY,
            "--no-plots",
            "--policies",
            "first-fit,best-fit",
            "--out",
        ])
        .arg(out)
        .args(arguments)
        .env("COLUMNS", "120")
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

#[test]
fn the_command_exits_with_20_and_tells_the_rows_that_regressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    assert!(compare(&[], &out).status.success());
    let gated = |more: &[&str]| {
        let against = out.to_str().expect("text");
        let run = compare(
            &[&["--against", against], more].concat(),
            &folder.path().join("now"),
        );
        (run.status.code(), text(&run.stdout), text(&run.stderr))
    };
    let (code, told, _) = gated(&[
        "--fail-above",
        "*.failures=+0",
        "--fail-above",
        "best-fit.footprint=+0%",
    ]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("3 values checked, none above its limit"),
        "{told}"
    );
    let rows = out.join("rows.csv");
    let before = fs::read_to_string(&rows)
        .expect("rows")
        .replace("5767168", "5000000");
    fs::write(&rows, before).expect("it is writable");
    let limits = [
        "--fail-above",
        "*.footprint_bytes=+5%",
        "--fail-above",
        "first-fit.failed=0",
    ];
    let (code, told, error) = gated(&limits);
    assert_eq!(code, Some(20));
    let lines: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("tiny "))
        .collect();
    assert_eq!(lines.len(), 2, "{told}");
    for part in [
        "best-fit",
        "footprint_bytes",
        "4.77 MiB",
        "5.01 MiB",
        "5.50 MiB !",
        "+5%",
    ] {
        assert!(lines[0].contains(part), "{part}: {told}");
    }
    assert!(
        lines[1].contains("first-fit") && lines[1].contains("failed"),
        "{told}"
    );
    assert!(
        error.contains("2 of 3 values are above their limits"),
        "{error}"
    );
    let (code, json, _) = gated(&[&limits[..], &["--json"]].concat());
    assert_eq!(code, Some(20));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let checks = json[1]["checks"].as_array().expect("checks");
    let regressed = checks
        .iter()
        .filter(|check| check["regressed"] == true)
        .count();
    assert_eq!((checks.len(), regressed), (3, 2));
}

#[test]
fn usage_errors_exit_with_2_before_any_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    for (arguments, words) in [
        (
            &["--fail-above", "best-fit.failed=+0"][..],
            "there is no baseline",
        ),
        (
            &["--fail-above", "buddy.failed=0"],
            "policy 'buddy' is not compared",
        ),
        (&["--against", TINY], "--fail-above"),
        (
            &["--against", "none.csv", "--fail-above", "*.failed=+0"],
            "baseline none.csv",
        ),
        (
            &["--against", TINY, "--fail-above", "*.failed=+0"],
            "tiny.csv: CSV error",
        ),
        (
            &["--fail-above", "best-fit.success_ppm=1"],
            "more of success_ppm is better",
        ),
    ] {
        let run = compare(arguments, &out);
        let told = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{told}");
        assert!(told.contains(words), "{told}");
        assert!(!out.join("rows.csv").exists());
    }
}

/// The commands of a document: lines that begin with `vramlab` or `cp` inside its blocks,
/// those of a workflow too; a backslash goes on in the next line.
fn commands(document: &str) -> Vec<String> {
    let text = document.replace("\\\n", " ");
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
            continue;
        }
        let line = line
            .trim_start()
            .trim_start_matches("- ")
            .trim_start_matches("run: ");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if inside && (line.starts_with("vramlab ") || line.starts_with("cp ")) {
            found.push(line);
        }
    }
    found
}

/// Runs every command of docs/ci.md in order, in a folder that holds the traces and nothing
/// else. `cargo install` is left to CI, which builds the program anyway.
#[test]
fn the_commands_of_the_document_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/ci.md")).expect("docs/ci.md is there");
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("traces")).expect("a folder");
    let trace = "traces/graph-capture.vlt.zst";
    fs::copy(root.join(trace), folder.path().join(trace)).expect("it is copied");
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_vramlab"));
    let binaries = binary.parent().expect("a folder").display().to_string();
    let path = std::env::var("PATH").expect("a path");
    let commands = commands(&document);
    assert!(commands.len() >= 4, "{commands:?}");
    for command in &commands {
        let run = Command::new("sh")
            .args(["-c", command])
            .current_dir(folder.path())
            .env("PATH", format!("{binaries}:{path}"))
            .output()
            .expect("a shell");
        assert!(
            run.status.success(),
            "{command}\n{}{}",
            text(&run.stdout),
            text(&run.stderr)
        );
    }
    assert!(document.contains("cargo install --locked --path ."));
}
