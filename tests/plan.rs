//! Offline packing against an independent judge, the plan command, and policy `planned`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use vramlab::bound::exact::{Answer, decide};
use vramlab::bound::greedy::{GREEDY, Gap, Order, Placer};
use vramlab::bound::sweep::sweep;
use vramlab::bound::{Budget, Buffer, max_load_bytes, pack, validate};
use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::observe::Row;
use vramlab::policy::registry::{DEVICES, PRESETS};
use vramlab::policy::{Policy, Registry};
use vramlab::replay::{Moment, Observer, Outcome};
use vramlab::space::{Device, Request};
use vramlab::trace::open::{OpenOptions, open};
use vramlab::trace::{Event, Trace};

fn buffer() -> impl Strategy<Value = Buffer> {
    (0u32..20, 1u32..8, 1u64..30, 0u32..4).prop_map(|(lower, life, bytes, align)| Buffer {
        lower,
        upper: lower + life,
        bytes,
        align: 1 << align,
    })
}

/// The lowest height by trying every order of first fit: any packing that is pushed down
/// as far as it goes is one of these, where nothing asks for an alignment.
fn lowest(buffers: &[Buffer]) -> u64 {
    fn permute(order: &mut Vec<u32>, from: usize, see: &mut impl FnMut(&[u32])) {
        if from == order.len() {
            return see(order);
        }
        for at in from..order.len() {
            order.swap(from, at);
            permute(order, from + 1, see);
            order.swap(from, at);
        }
    }
    let mut placer = Placer::new(buffers);
    let mut best = u64::MAX;
    let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
    permute(&mut order, 0, &mut |order| {
        let height = placer.run(order, Gap::First, &|| false);
        best = best.min(height.expect("nothing stops it"));
    });
    best
}

const SMALL: Budget<'static> = Budget {
    pairs: 1_000_000,
    tries: 300,
    rounds: 8,
    stop: &|| false,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_packing_passes_the_judge_and_is_a_function_of_its_inputs(
        buffers in prop::collection::vec(buffer(), 0..25),
    ) {
        let load = max_load_bytes(&buffers);
        let mut placer = Placer::new(&buffers);
        for (by, order, gap) in GREEDY {
            let height = placer.run(&order.of(&buffers), gap, &|| false);
            let height = height.expect("nothing stops it");
            if (order, gap) == (Order::Start, Gap::Best) {
                let swept = sweep(&buffers);
                prop_assert_eq!(swept.packing.offsets, placer.offsets());
                prop_assert_eq!(swept.load_bytes, load);
            }
            prop_assert_eq!(validate(&buffers, placer.offsets(), height), Ok(()), "{}", by);
        }
        let packing = pack(&buffers, None, &SMALL);
        prop_assert_eq!(validate(&buffers, &packing.offsets, packing.height_bytes), Ok(()));
        prop_assert!(packing.height_bytes >= load);
        prop_assert!(packing.proven || packing.height_bytes > load);
        prop_assert_eq!(pack(&buffers, None, &SMALL), packing);
    }

    #[test]
    fn the_exact_search_finds_the_lowest_height_and_proves_that_none_is_lower(
        mut buffers in prop::collection::vec(buffer(), 1..6),
        twins in 0usize..3,
    ) {
        for buffer in &mut buffers {
            buffer.align = 1;
        }
        // Some of them have a twin, which the search places in one order only.
        buffers.extend_from_within(..twins.min(buffers.len()));
        let lowest = lowest(&buffers);
        let found = decide(&buffers, lowest, 1_000_000, &|| false);
        let Answer::Fits(offsets) = found else { panic!("{lowest} is not found: {found:?}") };
        prop_assert_eq!(validate(&buffers, &offsets, lowest), Ok(()));
        let lower = decide(&buffers, lowest - 1, 1_000_000, &|| false);
        prop_assert_eq!(lower, Answer::Impossible);
        let packing = pack(&buffers, None, &Budget { tries: 1_000_000, ..SMALL });
        prop_assert_eq!((packing.height_bytes, packing.proven), (lowest, true));
    }
}

#[test]
fn the_judge_finds_what_is_wrong() {
    let one = |lower, upper, bytes| Buffer {
        lower,
        upper,
        bytes,
        align: 4,
    };
    let buffers = [one(0, 4, 8), one(3, 6, 8), one(4, 6, 8)];
    assert_eq!(
        validate(&buffers, &[0, 8, 0], 16),
        Ok(()),
        "half-open: 0 ends before 2"
    );
    for (offsets, height, words) in [
        (&[0, 4, 12][..], 24, "share bytes"),
        (&[0, 8, 4][..], 16, "share bytes"),
        (&[0, 8, 0][..], 15, "too high"),
        (&[0, 10, 0][..], 24, "misaligned"),
        (&[0, 8][..], 16, "not every buffer"),
        (&[0, 8, u64::MAX - 3][..], u64::MAX, "beyond all addresses"),
    ] {
        let told = validate(&buffers, offsets, height).expect_err(words);
        assert!(told.contains(words), "{told}");
    }
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn trace(name: &str) -> Trace {
    let path = here(&format!("traces/{name}.vlt.zst"));
    let mut traces = open(&path, &OpenOptions::default()).expect("the trace opens");
    traces.remove(0)
}

fn scene(trace: Trace, wanted: Wanted) -> Scene {
    let (_, card) = DEVICES
        .iter()
        .find(|(name, _)| *name == "h200")
        .expect("a card");
    Scene::new(
        trace,
        Arc::new(Device::from_toml(card).expect("a card")),
        wanted,
    )
}

fn run(scene: &Scene, policy: &str, extra: impl Observer) -> Row {
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    let watch = Watch {
        map: false,
        progress: &|_| (),
        extra,
    };
    match run_cell(scene, &registry, &chosen, watch).expect("it builds") {
        Ended::Replayed(seen) => seen.row,
        Ended::NotStarted(..) => panic!("{policy} does not start"),
        Ended::Broke(what) => panic!("{policy}: {what}"),
    }
}

#[test]
fn a_planned_run_serves_all_and_stays_near_the_bound() {
    for name in ["resnet50-train", "multi-stream"] {
        let scene = scene(trace(name), Wanted::Card);
        let (planned, pytorch) = (run(&scene, "planned", ()), run(&scene, "pytorch", ()));
        assert_eq!((planned.failed, planned.hazards), (0, 0), "{name}");
        assert!(planned.footprint_bytes <= pytorch.footprint_bytes, "{name}");
        let packed = planned.packed_bytes.expect("there is a packing");
        assert!(packed >= planned.lower_bound_bytes, "{name}");
    }
}

/// A policy asked how it rounds, beside the run of another one of its kind.
struct Rounds(Box<dyn Policy>);

impl Observer for Rounds {
    fn see(&mut self, moment: &Moment<'_>) {
        let (
            Event::Alloc {
                bytes,
                align_log2,
                stream,
                pool,
                tag,
                ..
            },
            Outcome::Served(block),
        ) = (*moment.event, moment.outcome)
        else {
            return;
        };
        let request = Request {
            bytes,
            align: 1 << align_log2,
            stream,
            pool,
            tag,
        };
        let rounded = self.0.rounded_bytes(&request).expect("it was served");
        assert!(bytes <= rounded, "{bytes} are rounded to {rounded}");
        let block_bytes = moment.space.bytes(block);
        assert!(
            rounded <= block_bytes,
            "{rounded} are served by {block_bytes}"
        );
    }
}

#[test]
fn no_policy_serves_a_request_by_less_than_it_says_it_rounds_to() {
    let scene = scene(trace("multi-stream"), Wanted::Card);
    let registry = Registry::default();
    for (name, _) in PRESETS {
        let chosen = registry.find(name).expect("a preset");
        let row = run(
            &scene,
            name,
            Rounds(registry.build(&chosen).expect("it builds")),
        );
        assert!(row.rounded_peak_bytes >= row.lower_bound_bytes, "{name}");
        if row.failed == 0 {
            assert!(row.rounded_peak_bytes <= row.peak_occupied_bytes, "{name}");
        }
    }
}

const EXAMPLE: &str = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

#[test]
fn the_command_writes_a_plan_that_another_run_can_follow() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, plan) = (
        folder.path().join("input.12.csv"),
        folder.path().join("plan.csv"),
    );
    fs::write(&file, EXAMPLE).expect("a file");
    let done = Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(["plan", "--json", "-o"])
        .args([&plan, &file])
        .output()
        .expect("the program runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let rows: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(rows[0]["name"], "input.12");
    assert_eq!(rows[0]["buffers"], 5);
    assert_eq!(
        (&rows[0]["max_load_bytes"], &rows[0]["height_bytes"]),
        (&12.into(), &12.into())
    );
    assert_eq!(rows[0]["optimal"], true);
    assert!(rows[0]["seconds"].is_f64());
    let mut written = csv::Reader::from_path(&plan).expect("a plan");
    assert_eq!(
        written.headers().expect("a header"),
        vec!["id", "lower", "upper", "size", "offset"]
    );
    let mut asked: Vec<&str> = EXAMPLE.lines().skip(1).collect();
    asked.sort_unstable();
    let rows = written.records().map(|row| row.expect("a row"));
    let mut told: Vec<String> = rows
        .map(|row| row.iter().take(4).collect::<Vec<_>>().join(","))
        .collect();
    told.sort_unstable();
    assert_eq!(told, asked, "the clock is that of the input");
    let trace = open(&file, &OpenOptions::default())
        .expect("it opens")
        .remove(0);
    let scene = scene(trace, Wanted::Card);
    let row = run(&scene, &format!("planned:plan={}", plan.display()), ());
    assert_eq!(
        (row.failed, row.high_water_bytes),
        (0, 12),
        "nothing went to the pool"
    );
}

/// The published hard cases, where they are at hand: every file that names the capacity, as
/// name and buffers.
fn published() -> Vec<(String, Vec<Buffer>)> {
    let shared =
        std::env::var_os("VRAMLAB_SHARED").map_or_else(|| here("../shared"), PathBuf::from);
    let folder = shared.join("public/minimalloc");
    if !folder.exists() {
        eprintln!("skipped: {} is not there", folder.display());
        return Vec::new();
    }
    let files = fs::read_dir(&folder).expect("a folder");
    let paths = files.map(|file| file.expect("a file").path());
    let hard = paths.filter(|path| path.to_string_lossy().ends_with(".1048576.csv"));
    hard.map(|path| {
        let mut traces = open(&path, &OpenOptions::default()).expect("it opens");
        let until = vramlab::bound::Until::Freed;
        let lives = vramlab::bound::lifetimes(&traces.remove(0), 1, until);
        let name = path.file_name().expect("it has a name").to_string_lossy();
        let buffers = lives.iter().map(|life| life.buffer).collect();
        (name.into_owned(), buffers)
    })
    .collect()
}

/// The capacity is met by a search of so many decisions.
fn is_met(name: &str, buffers: &[Buffer], tries: u64) {
    let answer = decide(buffers, 1 << 20, tries, &|| false);
    let Answer::Fits(offsets) = answer else {
        panic!("{name}: {answer:?}")
    };
    assert_eq!(validate(buffers, &offsets, 1 << 20), Ok(()), "{name}");
}

#[test]
fn published_cases_keep_within_their_capacity() {
    for (name, buffers) in published() {
        is_met(&name, &buffers, 200_000);
    }
}

/// Each buffer as two of half its size, which may lie apart: twins without number.
#[test]
fn a_published_case_in_twins_keeps_within_its_capacity() {
    for (name, buffers) in published()
        .iter()
        .filter(|(name, _)| name.starts_with("A."))
    {
        let half = |it: &Buffer, bytes: u64| Buffer { bytes, ..*it };
        let halves = |it: &Buffer| [half(it, it.bytes / 2), half(it, it.bytes - it.bytes / 2)];
        let twins: Vec<Buffer> = buffers.iter().flat_map(halves).collect();
        is_met(name, &twins, 100_000);
    }
}

/// What passes all addresses is told, by the command and by a policy that follows a plan.
#[test]
fn requests_beyond_all_addresses_are_in_no_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("huge.csv");
    fs::write(&file, "alloc,a,18446744073709551615\nalloc,b,5\n").expect("a file");
    let run = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_vramlab"))
            .args(arguments)
            .arg(&file)
            .output()
            .expect("the program runs");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), told)
    };
    let (code, told) = run(&["plan"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("1 requests pass the end of all addresses"));
    let (code, told) = run(&["replay", "--policy", "planned"]);
    assert_eq!(code, Some(0), "{told}");
}
