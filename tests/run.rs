//! Experiments: the same bytes for any number of threads, after any interruption, and from
//! shards; errors with their place in the file; the engines of a cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Two workloads, a sweep, two capacities, three seeds: 48 cells.
const SMALL: &str = r#"
workloads = [{ name = "churn", events = 600, "lives.random-victim.live" = [20, 40] }]
policies = ["first-fit", { name = "best-fit", alignment = ["256 B", "2 MiB"] }, "pytorch"]
capacities = ["1.1x", "8GiB"]
seeds = 3
baseline = "first-fit"
"#;
const SMALL_CELLS: usize = 48;

/// A file in a folder of its own.
fn experiment(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.toml");
    fs::write(&path, text).expect("a file");
    (folder, path)
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(arguments)
        .env_remove("COLUMNS")
        .output()
        .expect("the command starts")
}

/// Runs a command that succeeds, and gives its standard output. Plots have tests of their
/// own and are left out.
fn ran(arguments: &[&str]) -> String {
    let output = run(&[arguments, &["--no-plots"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    assert_eq!(said, "", "{arguments:?} is quiet without a terminal");
    String::from_utf8(output.stdout).expect("text")
}

/// Files of one kind differ where any of them does.
fn assert_same(have: &BTreeMap<String, Vec<u8>>, want: &BTreeMap<String, Vec<u8>>, what: &str) {
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(have), names(want), "{what}");
    for (name, bytes) in have {
        assert!(*bytes == want[name], "{what}: {name} differs");
    }
}

/// Runs a command that fails, and gives its code and what it says.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.code().expect("it ended by itself"), said)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    files
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

/// Runs an experiment into a new folder.
fn files_of(experiment: &Path, more: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let out = tempfile::tempdir().expect("a folder");
    let arguments = ["run", text(experiment), "--out", text(out.path())];
    ran(&[&arguments[..], more].concat());
    files(out.path())
}

#[test]
fn files_are_the_same_for_any_number_of_threads_and_differ_between_seeds() {
    let (_folder, path) = experiment(SMALL);
    let one = files_of(&path, &["--jobs", "1"]);
    let names: Vec<&str> = one.keys().map(String::as_str).collect();
    for name in ["bands.csv", "manifest.json", "rows.csv", "stats.csv"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for jobs in ["2", "16"] {
        assert_same(
            &files_of(&path, &["--jobs", jobs]),
            &one,
            &format!("{jobs} threads"),
        );
    }
    let rows = String::from_utf8(one["rows.csv"].clone()).expect("text");
    assert_eq!(rows.lines().count(), SMALL_CELLS + 1);
    // A row without its names is what was measured.
    let measured = |seed: &str| {
        let of_seed = rows.lines().find(|row| row.contains(seed)).expect("a row");
        of_seed
            .split_once("first-fit,")
            .expect("a policy")
            .1
            .to_owned()
    };
    assert_ne!(measured("/seed-0/"), measured("/seed-1/"));
    let (_other, other) = experiment(&SMALL.replace("seeds = 3", "seeds = [7, 8, 9]"));
    let other = files_of(&other, &[]);
    for name in ["bands.csv", "manifest.json", "rows.csv", "stats.csv"] {
        assert!(
            other[name] != one[name],
            "{name} is the same for other seeds"
        );
    }
}

#[test]
fn a_run_cut_off_at_any_byte_is_gone_on_with() {
    let (folder, path) = experiment(SMALL);
    let shard = ["--shard", "1/1"];
    let whole = files_of(&path, &shard);
    // A shard keeps its journal, in order; a run that was cut off has a part of one.
    let journal = &whole["cells.jsonl"];
    let ends = journal
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n');
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    assert_eq!(ends.len(), SMALL_CELLS + 1, "a manifest and a line a cell");
    let cuts = [
        0,
        5,
        ends[0],
        ends[0] + 1,
        ends[3] - 1,
        ends[3],
        ends[20] + 77,
        ends[48],
    ];
    for cut in cuts {
        let out = folder.path().join(format!("cut-{cut}"));
        fs::create_dir(&out).expect("a folder");
        fs::write(out.join("journal.jsonl"), &journal[..cut]).expect("a file");
        let arguments = ["run", text(&path), "--out", text(&out), "--resume"];
        ran(&[&arguments[..], &shard].concat());
        assert_same(&files(&out), &whole, &format!("cut at byte {cut}"));
        let again = ran(&[&arguments[..], &shard].concat());
        assert!(again.contains("every cell is done already"), "{again}");
    }
    let out = folder.path().join("damaged");
    fs::create_dir(&out).expect("a folder");
    let mut damaged = journal[..ends[5]].to_vec();
    damaged[ends[2]] = b'?';
    fs::write(out.join("journal.jsonl"), damaged).expect("a file");
    let arguments = ["run", text(&path), "--out", text(&out), "--resume"];
    let (code, said) = refused(&[&arguments[..], &shard].concat());
    assert_eq!(code, 3);
    assert!(said.contains("journal.jsonl, line 4"), "{said}");
}

/// Ctrl-C keeps what is done; the rest is made later, and nothing tells the difference.
#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_its_rows_and_ends_like_any_other() {
    let text_of_many = SMALL
        .replace("600", "6000")
        .replace("seeds = 3", "seeds = 12");
    let (folder, path) = experiment(&text_of_many);
    let whole = files_of(&path, &[]);
    let out = folder.path().join("out");
    let arguments = ["run", text(&path), "--out", text(&out), "--jobs", "2"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let journal = out.join("journal.jsonl");
    let lines = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    while lines() < 4 && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill is there").success());
    let output = child.wait_with_output().expect("the child ends");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("--resume goes on"), "{said}");
    let done = lines();
    assert!((4..=12 * 16).contains(&done), "{done} lines are kept");
    assert!(
        !out.join("rows.csv").exists(),
        "no file of results is there before its time"
    );

    let (code, said) = refused(&arguments);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("a run that did not end"), "{said}");
    fs::write(&path, text_of_many.replace("8GiB", "9GiB")).expect("a file");
    let resume = [&arguments[..], &["--resume"]].concat();
    let (code, said) = refused(&resume);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("was written with other capacities"), "{said}");
    fs::write(&path, &text_of_many).expect("a file");
    ran(&resume);
    assert_same(&files(&out), &whole, "gone on with, or joined");
}

#[test]
fn finished_results_of_a_changed_experiment_are_not_gone_on_with() {
    let (folder, path) = experiment(SMALL);
    let out = folder.path().join("out");
    let arguments = ["run", text(&path), "--out", text(&out), "--resume"];
    ran(&arguments);
    fs::write(&path, SMALL.replace("\"pytorch\"", "\"buddy\"")).expect("a file");
    let (code, said) = refused(&arguments);
    assert_eq!(code, 3);
    assert!(
        said.contains("manifest.json was written with other policies"),
        "{said}"
    );
}

#[test]
fn shards_join_to_the_files_of_one_run() {
    let (folder, path) = experiment(SMALL);
    let whole = files_of(&path, &[]);
    let place = |shard: &str| folder.path().join(shard.replace('/', "-"));
    // Six traces: five shards of whole traces; seven of single cells.
    for of in [1, 5, 7] {
        let shards: Vec<PathBuf> = (1..=of)
            .map(|index| {
                let shard = format!("{index}/{of}");
                let out = place(&shard);
                ran(&["run", text(&path), "--shard", &shard, "--out", text(&out)]);
                out
            })
            .collect();
        let out = folder.path().join(format!("joined-{of}"));
        let names: Vec<&str> = shards.iter().rev().map(|path| text(path)).collect();
        ran(&[&["merge", "--out", text(&out)], &names[..]].concat());
        assert_same(&files(&out), &whole, &format!("{of} shards"));
    }
    let out = folder.path().join("none");
    let join = |shards: &[&str]| {
        let places: Vec<PathBuf> = shards.iter().map(|shard| place(shard)).collect();
        let places: Vec<&str> = places.iter().map(|path| text(path)).collect();
        refused(&[&["merge", "--out", text(&out)], &places[..]].concat())
    };
    for (shards, words) in [
        (vec!["1/5", "2/5", "4/5"], "shards 3, 5 of 5 are not there"),
        (vec!["1/5", "1/5"], "both hold shard 1/5"),
        (vec!["1/5", "2/7"], "differ in the number of shards"),
        (vec!["1/5", "6/9"], "holds no finished shard"),
    ] {
        let (code, said) = join(&shards);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains(words), "{said}");
    }
    let (_other, other) = experiment(&SMALL.replace("seeds = 3", "seeds = 4"));
    ran(&[
        "run",
        text(&other),
        "--shard",
        "2/5",
        "--out",
        text(&place("2/5")),
    ]);
    let (_, said) = join(&["1/5", "2/5"]);
    assert!(said.contains("differ in cells, seeds"), "{said}");
    assert!(
        !out.exists(),
        "nothing is written where nothing can be joined"
    );
}

#[test]
fn what_does_not_fit_is_told_with_its_place() {
    for (from, to, place, words) in [
        ("seeds = 3", "sedes = 3", "5:1", "unknown field `sedes`"),
        ("seeds = 3", "seeds = 0", "5:9", "no seed: no cell"),
        (
            "seeds = 3",
            "seeds = [1, 1]",
            "5:9",
            "seed 1 is named twice",
        ),
        ("seeds = 3", "seeds = -1", "5:9", "expected a count"),
        (
            "\"1.1x\", \"8GiB\"",
            "",
            "4:14",
            "capacities is empty: no cell",
        ),
        ("\"8GiB\"", "\"8GB\"", "4:23", "write 8GiB"),
        ("\"8GiB\"", "\"0x\"", "4:23", "nothing could be served"),
        (
            "\"8GiB\"",
            "\"900GiB\"",
            "4:23",
            "more than the card 'h200' has",
        ),
        ("\"8GiB\"", "\"1.1x\"", "4:23", "'1.1x' is named twice"),
        ("\"8GiB\"", "\"1.1.1x\"", "4:23", "expected times the peak"),
        (
            "\"first-fit\", {",
            "\"frist-fit\", {",
            "3:13",
            "did you mean 'first-fit'?",
        ),
        (
            "alignment = [\"256 B\", \"2 MiB\"]",
            "alignment = []",
            "3:59",
            "`alignment` is empty",
        ),
        (
            "alignment",
            "alignement",
            "3:47",
            "unknown field `alignement`",
        ),
        ("name = \"best-fit\", ", "", "3:26", "no key `name`"),
        ("\"churn\"", "\"chrun\"", "2:23", "did you mean 'churn'?"),
        (".live", ".life", "2:46", "unknown field `life`"),
        (
            "baseline = \"first-fit\"",
            "baseline = \"buddy\"",
            "6:12",
            "none of the policies",
        ),
        (
            "baseline",
            "metrics = [\"faild\"]\nbaseline",
            "6:12",
            "did you mean 'failed'?",
        ),
        (
            "baseline",
            "devices = [\"h300\"]\nbaseline",
            "6:12",
            "there is no card 'h300'",
        ),
        (
            "baseline",
            "traces = [\"no.csv\"]\nbaseline",
            "6:11",
            "no.csv",
        ),
        (
            "[{ name = \"churn\"",
            "[{ name = \"churn\"] # {",
            "2:",
            "small.toml",
        ),
    ] {
        let changed = SMALL.replacen(from, to, 1);
        assert_ne!(changed, SMALL, "{from}");
        let (_folder, path) = experiment(&changed);
        let (code, said) = refused(&["run", text(&path), "--list"]);
        assert_eq!(code, 3, "{said}");
        assert!(
            said.contains(&format!("small.toml:{place}")),
            "{to}: {said}"
        );
        assert!(said.contains(words), "{to}: {said}");
    }
    let (_folder, path) = experiment("policies = [\"bump\"]");
    let (_, said) = refused(&["run", text(&path), "--list"]);
    assert!(said.contains("neither traces nor workloads"), "{said}");
}

#[test]
fn a_capacity_that_a_trace_turns_out_not_to_allow_is_told_with_its_place() {
    let (folder, path) = experiment(&SMALL.replace("\"1.1x\"", "\"100000x\""));
    let out = folder.path().join("out");
    let (code, said) = refused(&["run", text(&path), "--out", text(&out)]);
    assert_eq!(code, 3);
    assert!(
        said.contains("small.toml:4:15: 100000x of the peak of 'churn:"),
        "{said}"
    );
}

#[test]
fn cells_are_listed_by_stable_ids_and_a_dry_run_counts_them() {
    let (_folder, path) = experiment(SMALL);
    let list = ran(&["run", text(&path), "--list"]);
    let ids: Vec<&str> = list.lines().collect();
    assert_eq!(ids.len(), SMALL_CELLS);
    assert_eq!(
        ids[2],
        "churn:events=600,lives.random-victim.live=20/seed-0/h200/1.1x/best-fit:alignment=2MiB"
    );
    let (_grown, grown) = experiment(&SMALL.replace("\"pytorch\"]", "\"buddy\", \"pytorch\"]"));
    let grown = ran(&["run", text(&grown), "--list"]);
    assert!(ids.iter().all(|id| grown.lines().any(|other| other == *id)));
    let shards = ["1/5", "2/5", "3/5", "4/5", "5/5"];
    let parts = shards.map(|shard| ran(&["run", text(&path), "--list", "--shard", shard]));
    let mut parts: Vec<&str> = parts.iter().flat_map(|part| part.lines()).collect();
    parts.sort_unstable();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(parts, sorted, "every cell is of one shard");

    let dry = || {
        let text = ran(&["run", text(&path), "--dry-run", "--jobs", "2"]);
        let (told, time) = text.split_once("about ").expect("a time");
        assert!(time.contains("on 2 threads, from a trial"), "{time}");
        told.to_owned()
    };
    let told = dry();
    assert_eq!(told, dry(), "all but the time is the same");
    assert!(told.contains("48 rows of 28,800 events replayed"), "{told}");
    let json = ran(&["run", text(&path), "--list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[2]["cell"], ids[2]);
}

#[test]
fn a_recorded_trace_is_a_source_without_seeds() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tiny.csv");
    let (folder, path) = experiment(
        "traces = [\"tiny.csv\"]\npolicies = [\"bump\", \"buddy\"]\ndevices = [\"h200\", \"1GiB\"]\n",
    );
    fs::copy(trace, folder.path().join("tiny.csv")).expect("a file");
    let list = ran(&["run", text(&path), "--list"]);
    assert_eq!(
        list.lines().collect::<Vec<_>>(),
        [
            "tiny/h200/trace/bump",
            "tiny/h200/trace/buddy",
            "tiny/1.00 GiB of h200/trace/bump",
            "tiny/1.00 GiB of h200/trace/buddy"
        ]
    );
    let files = files_of(&path, &[]);
    let rows = String::from_utf8(files["rows.csv"].clone()).expect("text");
    assert!(
        rows.contains("tiny/h200/trace/bump,trace@h200,tiny,bump,"),
        "{rows}"
    );
    let manifest: serde_json::Value =
        serde_json::from_slice(&files["manifest.json"]).expect("JSON");
    let hash = manifest["traces"][0]["blake3"].as_str().expect("a hash");
    assert_eq!(hash.len(), 64);
    fs::write(
        &path,
        "traces = [\"tiny.csv\"]\npolicies = [\"bump\"]\nseeds = 2",
    )
    .expect("a file");
    let (_, said) = refused(&["run", text(&path), "--list"]);
    assert!(
        said.contains("small.toml:3:9: seeds change nothing"),
        "{said}"
    );
}

#[test]
fn the_example_runs_and_json_holds_its_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/padding.toml");
    let out = tempfile::tempdir().expect("a folder");
    // With its plots, as a reader would run it.
    let output = run(&["run", text(&path), "--out", text(out.path()), "--json"]);
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["experiment"], "padding");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(80));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.starts_with("padding (What rounding sizes up costs"),
        "{said}"
    );
}

/// The smallest capacity does not hang on what was asked for, and serves everything.
#[test]
fn an_experiment_looks_for_the_smallest_capacity() {
    let (_folder, path) = experiment(&SMALL.replace("baseline", "fit = true\nbaseline"));
    let out = tempfile::tempdir().expect("a folder");
    let arguments = ["run", text(&path), "--out", text(out.path()), "--jobs", "2"];
    let said = ran(&arguments);
    assert!(said.contains("smallest capacity in lower bounds"), "{said}");
    let file = fs::File::open(out.path().join("rows.csv")).expect("a file");
    let rows = vramlab::experiment::rows::read_csv("rows.csv", file).expect("rows");
    assert_eq!(rows.len(), SMALL_CELLS);
    for row in &rows {
        let fit = row.row.fit_bytes.expect("the card serves everything");
        assert!(fit >= row.row.lower_bound_bytes, "{}", row.cell);
        let same = |other: &&vramlab::experiment::rows::CellRow| {
            let key = |it: &vramlab::observe::Row| (it.trace.clone(), it.seed, it.policy.clone());
            key(&other.row) == key(&row.row)
        };
        assert!(
            rows.iter()
                .filter(same)
                .all(|it| it.row.fit_bytes == Some(fit))
        );
    }
}

/// Tasks of an array, as Slurm starts them.
#[cfg(unix)]
#[test]
fn the_slurm_script_runs_a_shard_a_task() {
    let (folder, path) = experiment(SMALL);
    let whole = files_of(&path, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/cluster/slurm.sh");
    let out = folder.path().join("out");
    let mut merge = vec!["merge".to_owned(), "--out".into(), text(&out).into()];
    for task in ["1", "2", "3"] {
        let status = Command::new("bash")
            .arg(&script)
            .env("EXPERIMENT", &path)
            .env("OUT", &out)
            .env("VRAMLAB", env!("CARGO_BIN_EXE_vramlab"))
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_ARRAY_TASK_COUNT", "3")
            .output()
            .expect("bash is there")
            .status;
        assert!(status.success(), "task {task}");
        merge.push(format!("{}/shards/{task}", text(&out)));
    }
    let merge: Vec<&str> = merge.iter().map(String::as_str).collect();
    ran(&merge);
    assert_same(&files(&out), &whole, "gone on with, or joined");
}

#[test]
fn the_snakemake_workflow_gives_the_files_of_one_run() {
    let snakemake = std::env::var("VRAMLAB_SNAKEMAKE").unwrap_or_else(|_| "snakemake".into());
    if Command::new(&snakemake).arg("--version").output().is_err() {
        eprintln!("skipped: snakemake is not installed, see experiments/cluster/README.md");
        return;
    }
    let (folder, path) = experiment(SMALL);
    let whole = files_of(&path, &[]);
    let out = folder.path().join("out");
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/cluster/Snakefile");
    let output = Command::new(&snakemake)
        .args([
            "-s",
            text(&workflow),
            "--cores",
            "2",
            "--directory",
            text(folder.path()),
        ])
        .arg("--config")
        .arg(format!("experiment={}", text(&path)))
        .arg(format!("out={}", text(&out)))
        .arg("shards=2")
        .arg(format!("vramlab={}", env!("CARGO_BIN_EXE_vramlab")))
        .arg("merge_options=--no-plots")
        .output()
        .expect("it was there a moment ago");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(out.join("shards/2/cells.jsonl").exists(), "{said}");
    assert_same(&files(&out), &whole, &said);
}
