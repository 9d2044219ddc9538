//! The committed results: experiments run again in part give the same rows, and the
//! statistics, the pictures and the quoted sentences are those of the committed rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vramlab::experiment::rows::{CellRow, read_csv};
use vramlab::observe::metric::Metric;
use vramlab::plot::experiment::{Cell, Data, charts};
use vramlab::plot::{Format, render};
use vramlab::stats::{Group, compare, write_csv};

/// An experiment, and what of it is run again.
struct Again {
    name: &'static str,
    seeds: &'static [u64],
    /// What its file says, and what it says instead where all of it would take minutes.
    instead: &'static [(&'static str, &'static str)],
}

const fn again(name: &'static str, seeds: &'static [u64]) -> Again {
    let instead = &[];
    Again {
        name,
        seeds,
        instead,
    }
}

const EXPERIMENTS: [Again; 8] = [
    again("fragmentation", &[0, 41]),
    again("claims", &[0, 13]),
    again("compaction", &[7]),
    again("pooling", &[0, 13]),
    again("remedies", &[7]),
    again("lifetime", &[7]),
    Again {
        instead: &[
            ("    \"../traces/gpt2-varlen.vlt.zst\",\n", ""),
            ("    \"../traces/detector-train-cap.vlt.zst\",\n", ""),
            ("    \"../traces/service-cap.vlt.zst\",\n", ""),
            ("    \"../traces/multi-stream.vlt.zst\",\n", ""),
            ("    \"../traces/resnet50-train.vlt.zst\",\n", ""),
        ],
        ..again("frontier", &[])
    },
    Again {
        instead: &[
            ("traces = [\"../traces/gpt2-varlen.vlt.zst\"]\n", ""),
            ("\"service\", \"churn\"", "\"churn\""),
            ("[0, 1, 3, 10, 100]", "[1]"),
            (
                "[\"0 B\", \"16 MiB\", \"64 MiB\", \"256 MiB\"]",
                "\"16 MiB\"",
            ),
            ("[\"0 ns\", \"100us\", \"1ms\", \"10ms\"]", "\"100us\""),
        ],
        ..again("moving", &[0])
    },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn results(name: &str) -> PathBuf {
    root().join("results").join(name)
}

fn read(path: &Path) -> String {
    let read = fs::read_to_string(path);
    read.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What a manifest says of the statistics.
#[derive(serde::Deserialize)]
struct Told {
    metrics: Vec<String>,
    baseline: Option<String>,
}

fn told(name: &str) -> Told {
    serde_json::from_str(&read(&results(name).join("manifest.json"))).expect("a manifest")
}

/// Rows by their id, each as its cells by column.
fn cells(csv: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().expect("a header").clone();
    let named = |record: csv::StringRecord| {
        let cells = columns.iter().zip(&record);
        cells
            .map(|(column, cell)| (column.to_owned(), cell.to_owned()))
            .collect()
    };
    let records = reader.records().map(|record| record.expect("a row"));
    records
        .map(|record| (record[0].to_owned(), named(record)))
        .collect()
}

/// The experiment, or the part of it that is run again, in a file that lies elsewhere.
fn smaller(experiment: &Again, folder: &Path) -> PathBuf {
    let Again {
        name,
        seeds,
        instead,
    } = experiment;
    let mut text = read(&root().join("experiments").join(format!("{name}.toml")));
    for (said, instead) in *instead {
        assert!(text.contains(said), "{name}: {said}");
        text = text.replace(said, instead);
    }
    let here = |text: String, from: &str, to: &str| {
        let to = format!("\"{}/", root().join(to).display());
        text.replace(&format!("\"{from}/"), &to)
    };
    let text = here(text, "../traces", "traces");
    let text = here(text, "workloads", "experiments/workloads");
    let seeded = |line: &str| {
        if line.starts_with("seeds = ") {
            format!("seeds = {seeds:?}\n")
        } else {
            format!("{line}\n")
        }
    };
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, text.lines().map(seeded).collect::<String>()).expect("a file");
    path
}

fn run(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(arguments)
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

/// The committed rows.
fn rows(name: &str) -> Vec<CellRow> {
    let path = results(name).join("rows.csv");
    read_csv(&path.display().to_string(), read(&path).as_bytes()).expect("rows")
}

#[test]
fn experiments_run_again_on_a_few_seeds_give_the_committed_rows() {
    for part in &EXPERIMENTS {
        let (name, seeds) = (part.name, part.seeds);
        let folder = tempfile::tempdir().expect("a folder");
        let experiment = smaller(part, folder.path());
        let out = folder.path().join("out");
        let [experiment, out] = [&experiment, &out].map(|path| path.to_str().expect("plain"));
        run(&["run", experiment, "--out", out, "--no-plots"]);
        let again = read(&Path::new(out).join("rows.csv"));
        let committed = read(&results(name).join("rows.csv"));
        let (again, known) = (cells(&again), cells(&committed));
        for (id, row) in &again {
            let known = known
                .get(id)
                .unwrap_or_else(|| panic!("{name}: no row {id}"));
            assert_eq!(row.len(), known.len(), "{name}: the columns are the same");
            for (column, cell) in known {
                assert_eq!(row.get(column), Some(cell), "{name}: {id}: {column}");
            }
        }
        let seeded = |row: &&CellRow| row.row.seed.is_none_or(|seed| seeds.contains(&seed));
        let committed_cells = rows(name).iter().filter(seeded).count();
        let whole = part.instead.is_empty();
        assert!(!again.is_empty(), "{name}");
        assert_eq!(
            again.len() == committed_cells,
            whole,
            "{name}: every cell ran"
        );
    }
}

/// The values of a metric, group by group in the order of the rows.
fn groups(rows: &[CellRow], metric: &Metric) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for CellRow {
        row,
        capacity_asked,
        ..
    } in rows
    {
        let here = |group: &&mut Group| {
            (&group.workload, &group.capacity, &group.policy)
                == (&row.trace, capacity_asked, &row.policy)
        };
        let sample = (
            row.seed.unwrap_or(0),
            metric.merit(row).map(|value| value as f64),
        );
        match groups.iter_mut().find(here) {
            Some(group) => group.samples.push(sample),
            None => groups.push(Group {
                workload: row.trace.clone(),
                capacity: capacity_asked.clone(),
                policy: row.policy.clone(),
                samples: vec![sample],
            }),
        }
    }
    groups
}

#[test]
fn the_statistics_are_those_of_the_committed_rows() {
    for Again { name, .. } in EXPERIMENTS {
        let (rows, told) = (rows(name), told(name));
        let mut lines = Vec::new();
        for metric in &told.metrics {
            let metric = Metric::find(metric).expect("a metric");
            lines.extend(compare(
                &groups(&rows, metric),
                metric,
                told.baseline.as_deref(),
            ));
        }
        let mut csv = Vec::new();
        write_csv(&lines, &mut csv).expect("memory is writable");
        let csv = String::from_utf8(csv).expect("text");
        let committed = read(&results(name).join("stats.csv"));
        for (made, line) in csv.lines().zip(committed.lines()) {
            assert_eq!(made, line, "{name}");
        }
        assert_eq!(csv.len(), committed.len(), "{name}");
    }
}

/// The committed pictures below a folder, as (folder's name, stem, file).
fn pictures(folder: &Path) -> Vec<(String, String, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(pictures(&path));
        } else if path.extension().is_some_and(|end| end == "svg") {
            let name = |part: Option<&std::ffi::OsStr>| {
                part.expect("it has a name").to_string_lossy().into_owned()
            };
            found.push((name(folder.file_name()), name(path.file_stem()), path));
        }
    }
    found
}

fn cell(row: &CellRow) -> Cell<'_> {
    Cell {
        capacity: &row.capacity_asked,
        row: &row.row,
    }
}

#[test]
fn the_pictures_are_drawn_from_the_committed_rows() {
    for Again { name, .. } in EXPERIMENTS {
        let (rows, told) = (rows(name), told(name));
        let metrics = told.metrics.iter();
        let drawn = charts(&Data {
            cells: rows.iter().map(cell).collect(),
            bands: &[],
            metrics: metrics
                .map(|it| Metric::find(it).expect("a metric"))
                .collect(),
            baseline: told.baseline.as_deref(),
        });
        // Bands over time are drawn from bands.csv, which is too large to be kept.
        let kept = pictures(&results(name)).into_iter();
        let kept: Vec<_> = kept
            .filter(|it| !it.1.starts_with("fragmentation"))
            .collect();
        assert!(!kept.is_empty(), "{name} has pictures");
        for (folder, stem, path) in kept {
            // What shows all workloads lies above their folders.
            let place = |workload: &str| match workload {
                "" => name.to_owned(),
                one => one.replace([':', ','], "-"),
            };
            let here = |workload: &str| place(workload) == folder;
            let mut all = drawn.iter();
            let picture = all.find(|it| it.stem == stem && here(&it.workload));
            let picture = picture.unwrap_or_else(|| panic!("{}: not drawn", path.display()));
            let svg = render(&picture.chart, Format::Svg).expect("it can be drawn");
            if std::env::var_os("VRAMLAB_UPDATE").is_some() {
                fs::write(&path, &svg).expect("a file");
            }
            assert!(
                svg == fs::read(&path).expect("a file"),
                "{}: VRAMLAB_UPDATE=1 draws it anew",
                path.display()
            );
        }
    }
}

#[test]
fn what_is_quoted_stands_in_the_statistics() {
    let said: String = EXPERIMENTS
        .iter()
        .map(|part| read(&results(part.name).join("stats.csv")))
        .collect();
    for page in ["results/README.md", "docs/write-a-policy.md"] {
        let text = read(&root().join(page));
        let quotes = text.lines().filter_map(|it| it.strip_prefix("> "));
        assert!(quotes.clone().count() >= 5, "{page} quotes");
        for quote in quotes {
            // A quote names its place first: `workload`: sentence.
            let sentence = quote
                .split_once("`: ")
                .map_or(quote, |(_, sentence)| sentence);
            assert!(
                said.contains(&format!("\"{sentence}\"")),
                "{page}: nothing says: {sentence}"
            );
        }
    }
}
