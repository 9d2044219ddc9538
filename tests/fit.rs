//! The smallest capacity: by hand, against every capacity there is, and where more room
//! harms.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use vramlab::experiment::fit::{Fit, fit};
use vramlab::experiment::{Ended, RecordError, Scene, Wanted, Watch, run_cell};
use vramlab::policy::{Policy, Registry};
use vramlab::space::{BlockId, Device, OutOfMemory, Request, Space};
use vramlab::trace::builder::Ask;
use vramlab::trace::{OpenOptions, StreamId, Trace, TraceBuilder, open};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tiny.csv");

/// Takes everything at the start and hands pieces out from below, but does not like
/// certain capacities: there it refuses the last request.
struct Fussy {
    rest: Option<BlockId>,
    dislikes: fn(u64) -> bool,
}

impl Policy for Fussy {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.rest = Some(space.map(space.capacity_bytes())?);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let refuses = (self.dislikes)(space.capacity_bytes()) && request.bytes == 500;
        let Some(block) = self.rest.filter(|rest| {
            let room = space.bytes(*rest);
            room >= request.bytes && !refuses
        }) else {
            return Err(OutOfMemory::no_fit(request.bytes));
        };
        self.rest = (space.bytes(block) > request.bytes).then(|| space.split(block, request.bytes));
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, _: StreamId, _: bool, space: &mut Space) {
        assert!(
            space.bytes(block) != 700,
            "event 0: dislikes frees of 700 bytes"
        );
    }

    fn servable(&self, _: &Space, _: StreamId) -> u64 {
        0
    }
}

fn registry() -> Registry {
    let fussy = |dislikes: fn(u64) -> bool| {
        move |_: &toml::Table| -> Result<Box<dyn Policy>, String> {
            Ok(Box::new(Fussy {
                rest: None,
                dislikes,
            }))
        }
    };
    Registry::default()
        .with("easy", fussy(|_| false))
        .with("gap", fussy(|bytes| (1510..1530).contains(&bytes)))
        .with("never", fussy(|_| true))
}

fn ask(bytes: u64) -> Ask {
    Ask {
        bytes,
        ..Ask::default()
    }
}

/// 1000 and then 500 bytes; the bound is 1500, and a step is a byte.
fn two() -> TraceBuilder {
    let mut builder = TraceBuilder::new("two");
    builder.alloc(1, ask(1000)).expect("a new key");
    builder.alloc(2, ask(500)).expect("a new key");
    builder
}

fn scene(trace: Trace, card_bytes: u64) -> Scene {
    Scene::new(trace, Arc::new(Device::bare(card_bytes)), Wanted::ByTrace)
}

fn fitted(trace: Trace, card_bytes: u64, policy: &str) -> Fit {
    let registry = registry();
    let chosen = registry.find(policy).expect("it is known");
    fit(&scene(trace, card_bytes), &registry, &chosen).expect("no rule is broken")
}

/// Whether a whole replay serves everything.
fn serves(scene: &mut Scene, policy: &str, bytes: u64) -> bool {
    let registry = registry();
    let chosen = registry.find(policy).expect("it is known");
    scene.capacity.bytes = bytes;
    let watch = Watch {
        map: false,
        progress: &|_| (),
        extra: (),
    };
    match run_cell(scene, &registry, &chosen, watch).expect("it builds") {
        Ended::Replayed(seen) => seen.row.failed == 0,
        Ended::NotStarted(..) => false,
        Ended::Broke(what) => panic!("{what}"),
    }
}

/// Best fit rounds up to 256 bytes: 1024 and 512.
#[test]
fn answers_by_hand() {
    let easy = fitted(two().finish(), 1 << 20, "easy");
    assert_eq!(
        easy.fit_bytes,
        Some(1500),
        "nothing is rounded: the bound itself"
    );
    assert_eq!(
        (easy.fit_to_bound_ppm, easy.step_bytes),
        (Some(1_000_000), 1)
    );
    assert!(easy.monotone());
    let rounded = fitted(two().finish(), 1 << 20, "best-fit:alignment=256");
    assert_eq!(rounded.fit_bytes, Some(1536));
    assert_eq!(rounded.fit_to_bound_ppm, Some(1_024_000));
    let empty = fitted(TraceBuilder::new("empty").finish(), 1 << 20, "easy");
    assert_eq!((empty.fit_bytes, empty.fit_to_bound_ppm), (Some(1), None));
}

#[test]
fn what_the_card_does_not_hold_has_no_answer() {
    assert_eq!(fitted(two().finish(), 1499, "easy").fit_bytes, None);
    assert_eq!(fitted(two().finish(), 1500, "easy").fit_bytes, Some(1500));
    assert_eq!(
        fitted(two().finish(), 1535, "best-fit:alignment=256").fit_bytes,
        None
    );
    let never = fitted(two().finish(), 1 << 20, "never");
    assert_eq!((never.fit_bytes, never.fit_to_bound_ppm), (None, None));
    assert!(never.monotone() && never.tries > 3, "{never:?}");
}

/// From 1500 on it fits, but not from 1510 to 1529: one of the capacities near above the
/// bound falls into the gap, and the search goes on above it.
#[test]
fn where_more_room_harms_the_answer_lies_above_it() {
    let gap = fitted(two().finish(), 1 << 20, "gap");
    assert_eq!(gap.fit_bytes, Some(1530));
    assert!(!gap.monotone());
    assert!(gap.lucky_bytes.contains(&1500), "{gap:?}");
    assert!(gap.lucky_bytes.iter().all(|bytes| *bytes < 1510), "{gap:?}");
}

/// A request that failed when it was recorded is a request still.
#[test]
fn recorded_failures_must_be_served_too() {
    let mut builder = two();
    builder.attempt(3, ask(300));
    builder.attempt(4, ask(0));
    assert_eq!(
        fitted(builder.finish(), 1 << 20, "easy").fit_bytes,
        Some(1800)
    );
}

#[test]
fn a_broken_rule_is_told_with_its_capacity() {
    let mut builder = two();
    builder.alloc(3, ask(700)).expect("a new key");
    builder.free(3, None, false);
    let registry = registry();
    let chosen = registry.find("easy").expect("it is known");
    let error = fit(&scene(builder.finish(), 1 << 20), &registry, &chosen).expect_err("it panics");
    assert!(matches!(error, RecordError::Broke { .. }));
    assert!(
        error.to_string().contains("at a capacity of 2200 bytes"),
        "{error}"
    );
}

/// Every multiple of the step up to twice the bound is replayed: the answer is the least
/// from which on all serve everything.
#[test]
fn the_answer_is_that_of_trying_every_capacity() {
    let options = OpenOptions::default();
    let trace = open(Path::new(TINY), &options).expect("it opens").remove(0);
    let mut scene = scene(trace, 1 << 30);
    let mut card = Device::bare(1 << 30);
    card.page_bytes = 16 << 10;
    scene.device = Arc::new(card);
    let (bound, registry) = (scene.bound_bytes, registry());
    for policy in [
        "best-fit",
        "first-fit",
        "next-fit",
        "buddy",
        "tlsf",
        "cuda-malloc",
    ] {
        let chosen = registry.find(policy).expect("it is known");
        let found = fit(&scene, &registry, &chosen).expect("no rule is broken");
        let step = found.step_bytes;
        assert_eq!(step, 1 << (bound / 1024).ilog2(), "less than a page");
        let multiples = (bound / step + 1..=2 * bound / step).map(|times| times * step);
        let all: Vec<u64> = std::iter::once(bound).chain(multiples).collect();
        let failing = all
            .iter()
            .rposition(|bytes| !serves(&mut scene, policy, *bytes));
        let wanted = all.get(failing.map_or(0, |at| at + 1));
        assert_eq!(found.fit_bytes.as_ref(), wanted, "{policy}: {found:?}");
    }
}

#[test]
fn the_command_writes_its_answers_as_table_json_and_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("a name");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vramlab"));
        let arguments = ["fit", TINY, "--policies", "bump,best-fit", "--card", "8MiB"];
        command
            .args(arguments)
            .args(more)
            .output()
            .expect("it starts")
    };
    let table = run(&["--out", out]);
    assert!(table.status.success());
    let text = String::from_utf8(table.stdout).expect("it is text");
    assert!(
        text.contains("Best is best-fit: everything fits in"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_slice(&run(&["--json"]).stdout).expect("JSON");
    let fits = json[0]["fits"].as_array().expect("a list");
    assert_eq!((&fits[0]["policy"], fits.len()), (&"best-fit".into(), 2));
    let csv = std::fs::read_to_string(folder.path().join("fit.csv")).expect("it was written");
    let first = csv.lines().nth(1).expect("a row");
    let wanted = format!("tiny,best-fit,{},", fits[0]["fit_bytes"]);
    assert!(first.starts_with(&wanted), "{first} {wanted}");
    for name in ["fit.json", "fit.svg", "fit.png"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    assert_eq!(
        run(&["--jobs", "1", "--json"]).stdout,
        run(&["--jobs", "2", "--json"]).stdout
    );
}
