//! `compare FOLDER`: one recording a rank.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vramlab::observe::{Row, rows};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn compare(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(["compare", "--no-plots"])
        .args(arguments)
        .env("COLUMNS", "160")
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// A rank that holds `live` requests of 1 MiB and fails once it asks for more than 8 MiB,
/// which it does at 10 ms for each of them.
fn rank(live: u64) -> String {
    let mut body = String::from("# capacity 8MiB\nevent,id,bytes,time\n");
    for id in 0..live {
        body += &format!("alloc,a{id},1048576,{}\n", id * 10_000_000);
    }
    body
}

/// A folder with ranks 0, 2, 10 and 11, of which two ask for too much: rank 2 by two, from
/// its 9th event on, rank 10 by one.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, live) in [(10, 9), (2, 10), (0, 4), (11, 5)] {
        let path = folder.path().join(format!("mem_rank{number}_of12.csv"));
        fs::write(path, rank(live)).expect("it is writable");
    }
    fs::write(folder.path().join(".hidden"), "no trace").expect("it is writable");
    folder
}

fn read(path: &Path) -> Vec<Row> {
    let file = fs::File::open(path).expect("rows are there");
    rows::read_csv(shown(path), file).expect("rows")
}

/// By hand: peaks of 4, 8, 8 and 5 MiB; worst 8 of rank 2, median 6.5, spread 4 MiB.
#[test]
fn worst_median_spread_and_the_first_failure_are_those_of_the_ranks() {
    let folder = folder();
    let out = tempfile::tempdir().expect("a folder");
    let arguments = [
        shown(folder.path()),
        "--policies",
        "best-fit,bump",
        "--out",
        shown(out.path()),
    ];
    let run = compare(&[&arguments[..], &["--json"]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let ranks = json[0]["ranks"].as_array().expect("ranks");
    let numbers: Vec<_> = ranks.iter().map(|rank| rank["rank"].as_u64()).collect();
    assert_eq!(
        numbers,
        [Some(0), Some(2), Some(10), Some(11)],
        "in natural order"
    );
    let over = &json[0]["over_ranks"][0];
    assert_eq!(
        (&over["policy"], &over["failed"]),
        (&"best-fit".into(), &3.into())
    );
    assert_eq!(
        (&over["ranks"], &over["ranks_failed"]),
        (&4.into(), &2.into())
    );
    let first = &over["first_failure"];
    assert_eq!((&first["rank"], &first["event"]), (&2.into(), &8.into()));
    assert_eq!(first["time_ns"], 80_000_000);
    let spreads = over["spreads"].as_array().expect("spreads");
    let footprint = spreads.iter().find(|it| it["metric"] == "footprint_bytes");
    let footprint = footprint.expect("it is among them");
    assert_eq!(footprint["worst"], 8 << 20);
    assert_eq!(footprint["worst_rank"], 2);
    assert_eq!(footprint["median"], 13 << 19);
    assert_eq!(footprint["spread"], 4 << 20);
    let all = read(&out.path().join("ranks.csv"));
    let mut apart = Vec::new();
    for rank in [0, 2, 10, 11] {
        apart.extend(read(
            &out.path().join(format!("mem_rank{rank}_of12/rows.csv")),
        ));
    }
    assert_eq!(all, apart, "one row a policy and rank, as each rank's own");
    assert_eq!(all.len(), 8);
    let table = text(&run.stderr);
    assert!(table.contains("rank 2, event 8 at 80.00 ms"), "{table}");
    assert!(
        table.contains("Best is best-fit: 3 failed requests on 2 ranks"),
        "{table}"
    );
}

#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let folder = folder();
    let written = |jobs: &str| {
        let out = tempfile::tempdir().expect("a folder");
        let run = compare(&[
            shown(folder.path()),
            "--policies",
            "best-fit,buddy,bump",
            "--jobs",
            jobs,
            "--out",
            shown(out.path()),
        ]);
        let table = text(&run.stdout).replace(shown(out.path()), "OUT");
        let files = ["ranks.csv", "ranks.json", "mem_rank2_of12/rows.csv"];
        let files = files.map(|name| fs::read(out.path().join(name)).expect("a file"));
        (table, files)
    };
    let one = written("1");
    assert!(one.0.contains("mem_rank10_of12"), "{}", one.0);
    assert_eq!(one, written("2"));
    assert_eq!(one, written("16"));
}

/// Recordings without a cap, as one rank each: one capacity, that of the fullest.
#[test]
fn ranks_whose_traces_tell_no_capacity_share_that_of_the_fullest() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, name) in [(0, "graph-capture"), (1, "multi-stream")] {
        let from = root(&format!("traces/{name}.vlt.zst"));
        let to = folder.path().join(format!("rank{rank}.vlt.zst"));
        fs::copy(from, to).expect("it is copied");
    }
    let out = tempfile::tempdir().expect("a folder");
    let run = compare(&[
        shown(folder.path()),
        "--policies",
        "pytorch",
        "--out",
        shown(out.path()),
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let rows = read(&out.path().join("ranks.csv"));
    let by_trace: BTreeMap<&str, &Row> = rows.iter().map(|row| (&*row.trace, row)).collect();
    let fullest = by_trace["rank1"];
    assert!(by_trace["rank0"].lower_bound_bytes < fullest.lower_bound_bytes);
    assert_eq!(
        fullest.capacity_bytes,
        (fullest.lower_bound_bytes * 11).div_ceil(10)
    );
    assert_eq!(by_trace["rank0"].capacity_bytes, fullest.capacity_bytes);
    assert!(text(&run.stdout).contains("1.1 x the peak of the fullest rank"));
}

#[test]
fn a_folder_that_is_no_folder_of_ranks_is_told() {
    let told = |folder: &Path| {
        let out = tempfile::tempdir().expect("a folder");
        let run = compare(&[
            shown(folder),
            "--policies",
            "bump",
            "--out",
            shown(out.path()),
        ]);
        (run.status.code(), text(&run.stderr))
    };
    let empty = tempfile::tempdir().expect("a folder");
    let (code, message) = told(empty.path());
    assert_eq!(code, Some(3));
    assert!(
        message.contains("there is no trace in this folder"),
        "{message}"
    );
    let bad = folder();
    fs::write(
        bad.path().join("mem_rank1_of12.csv"),
        "event,id,bytes\nalloc,a,1MB\n",
    )
    .expect("it is");
    let (code, message) = told(bad.path());
    assert_eq!(code, Some(3));
    assert!(message.contains("mem_rank1_of12.csv, line 2"), "{message}");
    let mixed = folder();
    let other = mixed.path().join("mem_rank12_of12.csv");
    fs::write(other, "id,lower,upper,size\na,0,4,100\n").expect("it is writable");
    let (code, message) = told(mixed.path());
    assert_eq!(code, Some(3));
    assert!(
        message.contains("mem_rank12_of12") && message.contains("one format"),
        "{message}"
    );
    let (code, message) = told(Path::new("no/such/folder"));
    assert_eq!(code, Some(3));
    assert!(message.contains("no/such/folder"), "{message}");
}
