//! `vramlab plot`: what is drawn again from rows alone is what was drawn first, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vramlab::observe::metric::Metric;
use vramlab::observe::{Row, rows};
use vramlab::plot::experiment::{self, Cell, Data};
use vramlab::plot::{Chart, Format, render};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.csv");
const CAPACITIES: [(&str, u64); 3] = [("1x", 100), ("1.1x", 110), ("1.5x", 150)];
const POLICIES: [&str; 6] = [
    "first-fit",
    "best-fit",
    "compaction:over=tlsf,threshold=0.3,interval=1min",
    "compaction:over=tlsf,threshold=0.3,interval=5min",
    "compaction:over=tlsf,threshold=0.5,interval=1min",
    "compaction:over=tlsf,threshold=0.5,interval=5min",
];

fn vramlab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramlab"));
    let output = command.args(arguments).output();
    output.expect("the command starts")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// All pictures below a folder, by name.
fn pictures(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(here).expect("a folder").flatten() {
            let path = entry.path();
            let ending = path.extension().unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if ending == "svg" || ending == "png" {
                let name = path.strip_prefix(folder).expect("it lies below").to_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn a_comparison_is_drawn_again_from_its_csv_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, again) = (folder.path().join("first"), folder.path().join("again"));
    let policies = ["--policies", "best-fit,bump"];
    // The pool does not fit into 1 MiB: it has a row and no timeline.
    let spec = ["--policy", "rmm-pool:initial=1GiB", "--capacity", "1MiB"];
    let place = ["compare", TINY, "--out", text(&first)];
    let arguments = [&place[..], &policies, &spec].concat();
    let compared = vramlab(&arguments);
    assert!(compared.status.success(), "{compared:?}");
    let drawn = vramlab(&["plot", text(&first), "--out", text(&again)]);
    assert!(drawn.status.success(), "{drawn:?}");
    let (before, after) = (pictures(&first), pictures(&again));
    for name in [
        "fragmentation.png",
        "outcomes.svg",
        "pareto.svg",
        "best-fit/memory.png",
    ] {
        assert!(after.contains_key(Path::new(name)), "{name} is missing");
    }
    for (name, bytes) in &after {
        assert_eq!(before.get(name), Some(bytes), "{name:?} differs");
    }
    let left: Vec<&PathBuf> = before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .collect();
    let needs_trace = |name: &&&PathBuf| {
        let stem = name.file_stem().unwrap_or_default();
        stem == "map" || stem == "sizes"
    };
    assert_eq!(
        left.iter().filter(needs_trace).count(),
        left.len(),
        "{left:?}"
    );
}

/// Numbers that look random (splitmix64).
fn noise(seed: u64) -> u64 {
    let a = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    c ^ (c >> 31)
}

/// Rows of so many seeds, with the capacity as it was asked for.
fn made_rows(seeds: u64) -> Vec<(&'static str, Row)> {
    let mut made = Vec::new();
    for seed in 0..seeds {
        for (at, (asked, percent)) in (0u64..).zip(CAPACITIES) {
            for (number, policy) in (0u64..).zip(POLICIES) {
                let draw = |what: u64| noise(seed * 1000 + number * 100 + at * 10 + what) % 1000;
                let bound = (4 << 30) + noise(seed) % (1 << 28);
                let failed = 40 * (2 - at) * (number % 3 + 1) + draw(0) * (2 - at) / 50;
                let row = Row {
                    trace: "churn".into(),
                    policy: policy.into(),
                    capacity_bytes: bound / 100 * percent,
                    requests: 1000,
                    served: 1000 - failed,
                    failed,
                    success_ppm: 1_000_000 - failed * 1000,
                    footprint_bytes: bound + (number + 1) * (60 << 20) + draw(1) * (1 << 16),
                    mean_external_fragmentation_ppm: Some(50_000 * (number + 1) + draw(2) * 60),
                    cost_ns: 4_000_000 * (1 + number * number * 7) + draw(3) * 1000,
                    lower_bound_bytes: bound,
                    seed: Some(seed),
                    ..Row::default()
                };
                made.push((asked, row));
            }
        }
    }
    made
}

/// `bands.csv` of the made rows.
fn made_bands() -> String {
    let name = "external_fragmentation_ppm";
    let mut text = format!("trace,capacity_asked,policy,point,median_{name},q1_{name},q3_{name}\n");
    for (at, (asked, _)) in (0u64..).zip(CAPACITIES) {
        for (number, policy) in (0u64..).zip(POLICIES) {
            for point in 0..50 {
                let level = 30_000 * (number + 1) + point * 2000 + noise(point + at) % 9000;
                let cells = match point {
                    20 => ",,".to_owned(),
                    _ => format!("{level},{},{}", level / 2, level * 3 / 2),
                };
                text += &format!("churn,{asked},\"{policy}\",{point},{cells}\n");
            }
        }
    }
    text
}

/// A folder as an experiment leaves it.
fn experiment_folder(folder: &Path, made: &[(&str, Row)], manifest: &str) {
    let mut csv = Vec::new();
    let all: Vec<Row> = made.iter().map(|(_, row)| row.clone()).collect();
    rows::write_csv(&all, &mut csv).expect("memory is writable");
    let csv = String::from_utf8(csv).expect("rows are text");
    let mut file = fs::File::create(folder.join("rows.csv")).expect("a file");
    for (number, line) in csv.lines().enumerate() {
        let before = match number.checked_sub(1) {
            None => "cell,capacity_asked".to_owned(),
            Some(at) => format!("c{at},{}", made[at].0),
        };
        writeln!(file, "{before},{line}").expect("it can be written");
    }
    fs::write(folder.join("bands.csv"), made_bands()).expect("it can be written");
    fs::write(folder.join("manifest.json"), manifest).expect("it can be written");
}

#[test]
fn an_experiment_is_drawn_again_as_it_is_from_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = made_rows(12);
    let manifest = r#"{"metrics": ["footprint_bytes"], "baseline": "first-fit"}"#;
    experiment_folder(folder.path(), &made, manifest);
    let drawn = vramlab(&["--json", "plot", text(folder.path())]);
    assert!(drawn.status.success(), "{drawn:?}");
    let files = pictures(folder.path());
    let told: Vec<String> = serde_json::from_slice(&drawn.stdout).expect("a list of files");
    assert_eq!(told.len(), files.len());

    let cells = made.iter().map(|(capacity, row)| Cell { capacity, row });
    let text = made_bands();
    let bands = experiment::read_csv("bands.csv", text.as_bytes()).expect("bands");
    let charts = experiment::charts(&Data {
        cells: cells.collect(),
        bands: &bands,
        metrics: vec![Metric::find("footprint_bytes").expect("a metric")],
        baseline: Some("first-fit"),
    });
    assert_eq!(charts.len() * 2, files.len());
    for picture in &charts {
        for format in [Format::Svg, Format::Png] {
            let name = format!("{}.{}", picture.stem, format.extension());
            let bytes = render(&picture.chart, format).expect("it can be drawn");
            assert_eq!(files.get(Path::new(&name)), Some(&bytes), "{name}");
        }
    }
}

fn stems(made: &[(&str, Row)], baseline: Option<&str>) -> Vec<String> {
    let charts = experiment::charts(&Data {
        cells: made
            .iter()
            .map(|(capacity, row)| Cell { capacity, row })
            .collect(),
        bands: &[],
        metrics: vec![Metric::find("failed").expect("a metric")],
        baseline,
    });
    charts.into_iter().map(|picture| picture.stem).collect()
}

#[test]
fn rows_decide_which_charts_make_sense() {
    let made = made_rows(3);
    let all = stems(&made, Some("first-fit"));
    let expected = [
        "spread-failed",
        "difference-failed",
        "sweep-failed",
        "sweep-failed-2",
        "sweep-failed-3",
        "success",
        "pareto",
    ];
    assert_eq!(all, expected);
    assert!(!stems(&made, None).contains(&"difference-failed".to_owned()));
    let one_capacity: Vec<_> = made.iter().filter(|it| it.0 == "1x").cloned().collect();
    assert!(!stems(&one_capacity, None).contains(&"success".to_owned()));
    let plain = |it: &&(&str, Row)| !it.1.policy.contains(':');
    let no_sweep: Vec<_> = made.iter().filter(plain).cloned().collect();
    assert_eq!(
        stems(&no_sweep, None),
        ["spread-failed", "success", "pareto"]
    );
    let one: Vec<_> = made.iter().take(1).cloned().collect();
    assert_eq!(stems(&one, Some("first-fit")), ["spread-failed"]);
    assert!(stems(&[], None).is_empty());
}

/// The figures of a chart are those of the rows: a difference that was computed by hand.
#[test]
fn differences_are_paired_by_seed() {
    let row = |policy: &str, seed: u64, failed: u64| {
        let row = Row {
            trace: "t".into(),
            policy: policy.into(),
            seed: Some(seed),
            failed,
            ..Row::default()
        };
        ("8GiB", row)
    };
    let made = [
        row("base", 1, 10),
        row("base", 2, 100),
        row("base", 3, 1000),
        row("own", 3, 1003),
        row("own", 1, 5),
        row("own", 2, 101),
        // A seed that the baseline lacks is no pair.
        row("own", 4, 7),
    ];
    let charts = experiment::charts(&Data {
        cells: made
            .iter()
            .map(|(capacity, row)| Cell { capacity, row })
            .collect(),
        bands: &[],
        metrics: vec![Metric::find("failed").expect("a metric")],
        baseline: Some("base"),
    });
    let found = charts.iter().find_map(|picture| match &picture.chart {
        Chart::Spread(chart) if picture.stem == "difference-failed" => Some(chart),
        _ => None,
    });
    let chart = found.expect("a baseline gives differences");
    assert_eq!(chart.names, ["own"]);
    let cell = chart.panels[0].cells[0].as_ref().expect("three pairs");
    assert_eq!(cell.points, [-5.0, 1.0, 3.0]);
    let vramlab::plot::Summary::Estimate { value, low, high } = cell.summary else {
        panic!("a difference is an estimate");
    };
    assert_eq!((value, low, high), (1.0, -5.0, 3.0));
}

#[test]
fn what_is_no_folder_of_results_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = vramlab(&["plot", text(folder.path())]);
    assert_eq!(empty.status.code(), Some(3), "{empty:?}");
    let words = String::from_utf8_lossy(&empty.stderr);
    assert!(words.contains("rows.csv"), "{words}");
    fs::write(folder.path().join("rows.csv"), "trace,policy\na,b\n").expect("a file");
    let broken = vramlab(&["plot", text(folder.path())]);
    assert_eq!(broken.status.code(), Some(3), "{broken:?}");
    let words = String::from_utf8_lossy(&broken.stderr);
    assert!(
        words.contains("rows.csv") && words.contains("line: 2"),
        "{words}"
    );
}
