//! Manners of the command line: exit codes, closed pipes, colours, widths, whole files.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.csv");

fn vramlab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramlab"));
    command
        .args(arguments)
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR");
    command
}

fn run(arguments: &[&str]) -> Output {
    vramlab(arguments).output().expect("the command starts")
}

fn code(arguments: &[&str]) -> Option<i32> {
    run(arguments).status.code()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

/// All files below a folder, by name.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(here).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it lies below").to_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn exit_codes_tell_what_kind_of_trouble_it_was() {
    assert_eq!(code(&["policy", "list"]), Some(0));
    assert_eq!(code(&[]), Some(2));
    assert_eq!(code(&["replay", TINY, "--policy", "none"]), Some(2));
    assert_eq!(code(&["replay", "none.csv", "--policy", "bump"]), Some(3));
    let small = ["replay", TINY, "--policy", "best-fit", "--capacity", "1MiB"];
    assert_eq!(code(&small), Some(0), "a shortage is a result");
    let failing = [&small[..], &["--fail-on-oom"]].concat();
    assert_eq!(code(&failing), Some(10));
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |jobs: &str| {
        let out = folder.path().join(jobs);
        let out = out.to_str().expect("text");
        let policies = "best-fit,buddy,compaction-tlsf";
        let arguments = [
            "compare",
            TINY,
            "--policies",
            policies,
            "--jobs",
            jobs,
            "--out",
            out,
        ];
        let run = run(&arguments);
        assert!(run.status.success(), "{}", text(&run.stderr));
        let table = text(&run.stdout).replace(out, "OUT");
        (table, files(Path::new(out)))
    };
    let (one, two) = (written("1"), written("2"));
    assert_eq!(one.0, two.0);
    assert_eq!(one.1, two.1);
    for name in [
        "rows.csv",
        "rows.json",
        "failures.csv",
        "manifest.json",
        "sizes.png",
        "buddy/map.svg",
    ] {
        assert!(one.1.contains_key(Path::new(name)), "{name} is missing");
    }
    assert!(
        one.1
            .keys()
            .all(|name| !name.to_string_lossy().contains("partial"))
    );
}

#[test]
fn json_is_the_only_thing_on_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let run = run(&[
        "compare",
        TINY,
        "--policies",
        "best-fit,bump",
        "--no-plots",
        "--json",
        "--out",
        out,
    ]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let rows = json[0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    let first = rows[0].as_object().expect("an object");
    let csv = fs::read_to_string(folder.path().join("rows.csv")).expect("rows");
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    assert_eq!(
        csv.lines().next(),
        Some(names.join(",").as_str()),
        "the same names in csv and JSON"
    );
    assert!(
        text(&run.stderr).contains("Best is "),
        "words go to standard error"
    );
}

#[test]
fn a_reader_that_leaves_is_no_error_and_the_files_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let mut child = vramlab(&[
        "compare",
        TINY,
        "--policies",
        "bump",
        "--no-plots",
        "--out",
        out,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the command starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(text(&ended.stderr), "");
    assert!(folder.path().join("manifest.json").exists());
}

#[test]
fn no_terminal_means_no_colours_and_narrow_columns_are_kept_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let arguments = [
        "compare",
        TINY,
        "--policies",
        "best-fit,buddy",
        "--no-plots",
        "--out",
        out,
    ];
    let wide = text(&run(&arguments).stdout);
    assert!(!wide.contains('\x1b'));
    assert!(wide.contains("cost"));
    let narrow = vramlab(&arguments)
        .env("COLUMNS", "60")
        .output()
        .expect("the command starts");
    let narrow = text(&narrow.stdout);
    let table = narrow
        .lines()
        .skip_while(|line| !line.starts_with("policy"));
    let rows: Vec<&str> = table.take(5).collect();
    assert!(rows.iter().all(|row| row.chars().count() <= 60), "{narrow}");
    assert!(narrow.contains("left out on 60 columns: "), "{narrow}");
    assert!(!narrow.contains("cost\n"));
}

#[test]
fn a_folder_that_cannot_be_written_is_told_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "here").expect("writable");
    let below = file.join("out");
    let run = run(&["compare", TINY, "--out", below.to_str().expect("text")]);
    assert_eq!(run.status.code(), Some(2));
    assert_eq!(text(&run.stdout), "");
    assert_eq!(files(folder.path()).len(), 1, "nothing else was written");
}

#[test]
fn a_trace_comes_through_pipes_and_formats_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let vlt = folder.path().join("tiny.vlt.zst");
    let vlt = vlt.to_str().expect("text");
    assert_eq!(code(&["trace", "convert", TINY, vlt]), Some(0));
    let back = run(&["trace", "convert", vlt, "-", "--to", "csv"]);
    let input = fs::File::open(TINY).expect("the trace");
    let piped = vramlab(&["trace", "convert", "-", "-", "--to", "csv"])
        .stdin(input)
        .output()
        .expect("the command starts");
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    assert_eq!(text(&back.stdout), text(&piped.stdout));
    assert!(text(&back.stdout).contains("alloc,weights,1048576"));
}

#[test]
fn a_simulated_run_opens_as_a_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let pickle = folder.path().join("run.pickle");
    let pickle = pickle.to_str().expect("text");
    let replay = ["replay", TINY, "--policy", "best-fit", "--snapshot", pickle];
    assert_eq!(code(&replay), Some(0));
    let info = text(&run(&["trace", "info", pickle]).stdout);
    assert!(info.contains("pytorch snapshot"), "{info}");
}

#[test]
fn a_model_that_differs_from_a_recording_has_an_exit_code_of_its_own() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/graph-capture.vlt.zst");
    let as_recorded = run(&["fidelity", recording]);
    let told = text(&as_recorded.stderr);
    assert_eq!(as_recorded.status.code(), Some(0), "{told}");
    let other = "pytorch:expandable_segments:True";
    let otherwise = run(&["fidelity", recording, "--policy", other]);
    let told = text(&otherwise.stderr);
    assert_eq!(otherwise.status.code(), Some(20), "{told}");
    assert!(!told.is_empty() && text(&otherwise.stdout).contains(other));
}

#[test]
fn a_comparison_reads_standard_input_as_it_reads_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = |input: &str, out: &str| {
        let out = folder.path().join(out);
        let shown = out.to_str().expect("text");
        let policies = ["--policies", "best-fit,buddy", "--no-plots", "--out", shown];
        let run = vramlab(&[&["compare", input], &policies[..]].concat())
            .stdin(fs::File::open(TINY).expect("the trace"))
            .output()
            .expect("the command starts");
        assert!(run.status.success(), "{}", text(&run.stderr));
        let rows = fs::read(out.join("rows.csv")).expect("rows");
        let rows = vramlab::observe::rows::read_csv("rows.csv", &rows[..]);
        rows.expect("they are read back")
    };
    let (mut piped, named) = (rows("-", "piped"), rows(TINY, "named"));
    assert_eq!(piped.len(), 2);
    for (piped, named) in piped.iter_mut().zip(&named) {
        piped.trace.clone_from(&named.trace);
    }
    assert_eq!(piped, named, "the same but for the name of the trace");
}

/// `fidelity` on logs of other allocators: what they do not tell is asked for, and each
/// segment's base is learned from what lies in it.
#[test]
fn fidelity_takes_logs_of_other_allocators() {
    let Some(log) = common::shared("recordings/rmm/rmm_pool_streams.csv.gz") else {
        return;
    };
    let log = log.to_str().expect("a path of letters");
    let asked = run(&["fidelity", log]);
    assert_eq!(asked.status.code(), Some(2));
    let met = run(&[
        "fidelity",
        log,
        "--policy",
        "rmm-pool",
        "--capacity",
        "4GiB",
        "--json",
    ]);
    let rows: serde_json::Value = serde_json::from_slice(&met.stdout).expect("rows");
    assert_eq!(rows[0]["addresses_matched"], 3146, "{rows}");
    assert_eq!(
        rows[0]["first_divergence"],
        serde_json::Value::Null,
        "{rows}"
    );
    assert_eq!(met.status.code(), Some(0));
}

/// What no machine could do is refused at once, with the way out.
#[test]
fn hopeless_sizes_and_counts_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("one.csv");
    std::fs::write(&file, "alloc,a,0,0\nalloc,b,18446744073709551615\n").expect("a file");
    let file = file.to_str().expect("a path in UTF-8");
    for (arguments, told) in [
        (["compare", file, "--jobs", "100000"], "1024 threads"),
        (["compare", file, "--card", "1"], "holds no page"),
        (["compare", file, "--card", "0"], "holds no page"),
        (["compare", file, "--card", "3EiB"], "unknown unit"),
        (
            ["compare", file, "--card", "4000000TiB"],
            "is more than the most",
        ),
    ] {
        let run = run(&arguments);
        let error = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{error}");
        assert!(error.contains(told), "{error}");
    }
    // The bound counts what no card holds; a packing claims nothing of it.
    let out = folder.path().join("out");
    let out = out.to_str().expect("a path in UTF-8");
    let run = run(&[
        "compare",
        file,
        "--policies",
        "best-fit",
        "--no-plots",
        "-o",
        out,
    ]);
    assert!(text(&run.stdout).contains("without requests larger than the card"));
}
