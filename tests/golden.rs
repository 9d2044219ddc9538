//! Golden rows: every preset over two recorded traces, byte for byte, on any number of
//! threads. `VRAMLAB_UPDATE=1 cargo test --test golden` writes the file anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::observe::{Row, rows};
use vramlab::policy::Registry;
use vramlab::policy::registry::DEVICES;
use vramlab::space::Device;
use vramlab::trace::open::{OpenOptions, open};

const TRACES: [&str; 2] = ["multi-stream", "churn-cap"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn scene(name: &str) -> Scene {
    let path = here(&format!("traces/{name}.vlt.zst"));
    let mut traces = open(&path, &OpenOptions::default()).expect("the trace opens");
    assert_eq!(traces.len(), 1, "{name} is of one device");
    let (_, card) = DEVICES
        .iter()
        .find(|(name, _)| *name == "h200")
        .expect("the default card");
    let card = Device::from_toml(card).expect("a card");
    Scene::new(traces.remove(0), Arc::new(card), Wanted::ByTrace)
}

fn row(scene: &Scene, registry: &Registry, name: &str) -> Row {
    let chosen = registry.find(name).expect("a preset");
    let watch = Watch {
        map: false,
        progress: &|_| (),
        extra: (),
    };
    match run_cell(scene, registry, &chosen, watch).expect("a preset builds") {
        Ended::Replayed(seen) => seen.row,
        Ended::NotStarted(row, _) => *row,
        Ended::Broke(what) => panic!("{name} on {}: {what}", scene.trace.name),
    }
}

/// The csv of all cells, run on so many threads.
fn csv(scenes: &[Scene], threads: usize) -> String {
    let registry = Registry::default();
    let cells: Vec<(&Scene, &str)> = scenes
        .iter()
        .flat_map(|scene| registry.names().map(move |name| (scene, name)))
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let rows: Vec<Row> = pool.expect("threads").install(|| {
        let cells = cells.par_iter();
        cells
            .map(|(scene, name)| row(scene, &registry, name))
            .collect()
    });
    assert_eq!(rows.len(), scenes.len() * registry.names().count());
    let mut csv = Vec::new();
    rows::write_csv(&rows, &mut csv).expect("memory is writable");
    String::from_utf8(csv).expect("rows are text")
}

/// The first line that differs, with the names of its differing columns.
fn difference(want: &str, have: &str) -> Option<String> {
    let columns = rows::columns();
    for (at, (want, have)) in want.lines().zip(have.lines()).enumerate() {
        if want == have {
            continue;
        }
        let cells = want.split(',').zip(have.split(',')).zip(&columns);
        let differing: Vec<String> = cells
            .filter(|((want, have), _)| want != have)
            .map(|((want, have), column)| format!("{column}: {want} became {have}"))
            .collect();
        return Some(format!("line {}: {have}\n{}", at + 1, differing.join("\n")));
    }
    let (want, have) = (want.lines().count(), have.lines().count());
    (want != have).then(|| format!("{want} lines became {have}"))
}

#[test]
fn rows_are_the_committed_ones_on_any_number_of_threads() {
    let scenes = TRACES.map(scene);
    let one = csv(&scenes, 1);
    for threads in [2, 16] {
        let many = csv(&scenes, threads);
        assert_eq!(difference(&one, &many), None, "on {threads} threads");
        assert!(one == many, "the bytes differ on {threads} threads");
    }
    let golden = here("tests/golden/rows.csv");
    if std::env::var_os("VRAMLAB_UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(here("tests/golden")).expect("writable");
        std::fs::write(&golden, &one).expect("writable");
    }
    let committed = std::fs::read_to_string(&golden).expect("tests/golden/rows.csv is there");
    let way_out = "if the change is meant, VRAMLAB_UPDATE=1 writes the file anew";
    assert_eq!(difference(&committed, &one), None, "{way_out}");
    assert!(committed == one, "the ends of lines differ; {way_out}");
}
