//! `trace shrink`: the smallest trace that still shows something.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use vramlab::experiment::{Scene, Wanted, run_row};
use vramlab::observe::Row;
use vramlab::policy::Registry;
use vramlab::shrink::draft::Draft;
use vramlab::shrink::judge::{Judge, Setup};
use vramlab::shrink::keep::Keep;
use vramlab::shrink::{Shrunk, shrink};
use vramlab::space::Device;
use vramlab::trace::{OpenOptions, Trace, check, csv, open};
use vramlab::units::MIB;

fn vramlab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramlab"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

fn read(path: &Path) -> Trace {
    let mut traces = open(path, &OpenOptions::default()).expect("it opens");
    traces.pop().expect("it holds a trace")
}

fn from_csv(body: &str) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("case.csv");
    fs::write(&path, format!("event,id,bytes\n{body}")).expect("it is writable");
    read(&path)
}

fn to_csv(trace: &Trace) -> String {
    let mut bytes = Vec::new();
    csv::write(trace, &mut bytes).expect("memory is writable");
    text(&bytes)
}

fn setup(capacity_bytes: u64) -> Setup {
    Setup {
        device: Arc::new(Device::bare(1 << 40)),
        capacity_bytes,
    }
}

/// The smallest trace that keeps an expression, and what it took; `None` where there is
/// nothing to keep.
fn shrunk(trace: &Trace, keep: &str, capacity_bytes: u64) -> Option<(Trace, Shrunk)> {
    let keep = Keep::parse(keep).expect("it is well formed");
    let registry = Registry::default();
    let original = Draft::of(trace, true);
    let judge = Judge::new(&keep, &registry, setup(capacity_bytes), &original);
    let judge = judge.expect("the policies are known");
    if !judge.verdict(&original).holds {
        return None;
    }
    let shrunk = shrink(trace, &judge, false, None, &|_| ());
    assert!(judge.verdict(&shrunk.draft).holds);
    let made = shrunk.draft.finish(trace, "a test");
    check::check(&made).expect("the rules are kept");
    Some((made, shrunk))
}

/// The row of a policy, without the room of shrinking.
fn row(trace: &Trace, policy: &str, capacity_bytes: u64) -> Row {
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("it is known");
    let device = Arc::new(Device::bare(1 << 40));
    let scene = Scene::new(trace.clone(), device, Wanted::Bytes(capacity_bytes));
    let ran = run_row(&scene, &registry, &chosen, &mut ()).expect("it builds");
    ran.expect("no rule is broken")
}

fn words(trace: &Trace) -> Vec<String> {
    let lines = to_csv(trace);
    let events = lines.lines().filter(|line| !line.starts_with('#')).skip(1);
    events
        .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(" "))
        .collect()
}

/// Best fit puts x into the smaller hole at the end, y into the larger one, and has no room
/// for z; first fit puts x and z into the larger hole. Two holes need a freed request and
/// one that parts them; with two requests into them best fit cannot lose. So 5 requests and
/// one free are the least. Around them stands what does not matter.
#[test]
fn the_least_trace_on_which_best_fit_loses_to_first_fit_is_found() {
    let noise = "alloc,n1,1048576\nfree,n1\nalloc,n2,2097152\nalloc,n3,1048576\nfree,n3\nfree,n2\n";
    let body = format!(
        "mark,warm up\n{noise}alloc,a,20971520\nuse,a\nalloc,s,5242880\npin,s\nsync\n\
         alloc,n4,524288\nfree,n4\nfree,a\nfree,a\nmark,now\nalloc,x,10485760\nsync\n\
         alloc,y,12582912\nunpin,s\nalloc,z,10485760\nfree,z\nfree,y\n{noise}free,x\n"
    );
    let trace = from_csv(&body);
    let keep = "fails(best-fit) && serves(first-fit)";
    let (least, shrunk) = shrunk(&trace, keep, 40 * MIB).expect("it is there");
    assert_eq!(
        words(&least),
        [
            "alloc a", "alloc s", "free a", "alloc x", "alloc y", "alloc z"
        ]
    );
    assert!(shrunk.effort.minimal && shrunk.effort.candidates < 1000);
    assert_eq!(row(&least, "best-fit", 40 * MIB).failed, 1);
    assert_eq!(row(&least, "first-fit", 40 * MIB).failed, 0);
}

/// By hand: what fails is above 1 MiB. The first halving gives 1,499,136 (a multiple of
/// 8 KiB, which is what is left of its first eight digits in binary), the next one is too
/// small, and between them 1 MiB + 8 KiB is the least that still fails.
#[test]
fn sizes_end_on_a_round_number_just_above_what_is_needed() {
    let trace = from_csv("alloc,a,50\nalloc,b,3000000\nfree,b\nfree,a\n");
    let (least, _) = shrunk(&trace, "fails(first-fit)", MIB).expect("it is there");
    let bytes = MIB + 8192;
    assert_eq!(
        to_csv(&least),
        format!("event,id,bytes,stream,time,align,pool,tag\nalloc,b,{bytes}\n")
    );
}

/// Numbers for programs (Numerical Recipes' constants).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A capacity at which some policies fail and others do not.
const CAP: u64 = 64 << 10;

/// A random program of requests of 256 bytes to 10 KiB.
fn program(seed: u64) -> String {
    let mut dice = Dice(seed);
    let (mut body, mut live) = (String::new(), Vec::new());
    for id in 0..70 {
        body += &format!("alloc,r{id},{}\n", 256 * (1 + dice.below(40)));
        live.push(id);
        if live.len() > 6 || dice.below(3) == 0 {
            let freed = live.swap_remove(dice.below(live.len() as u64) as usize);
            body += &format!("free,r{freed}\n");
        }
    }
    body
}

/// What is kept of a smaller trace, asked of the rows alone.
type Shows = fn(&Trace, u64) -> bool;

#[test]
fn no_single_request_or_event_can_go_and_the_rules_are_kept() {
    let cases: [(&str, Shows); 4] = [
        (
            "failed(worst-fit) > failed(first-fit)",
            |trace, capacity| {
                row(trace, "worst-fit", capacity).failed > row(trace, "first-fit", capacity).failed
            },
        ),
        (
            "fails(first-fit) && 0 == failed(best-fit)",
            |trace, capacity| {
                row(trace, "first-fit", capacity).failed > 0
                    && row(trace, "best-fit", capacity).failed == 0
            },
        ),
        (
            "failed(buddy) >= 3 || fails(bump) && serves(bump)",
            |trace, capacity| row(trace, "buddy", capacity).failed >= 3,
        ),
        (
            "high_water(worst-fit) > 48KiB && !fails(worst-fit)",
            |trace, capacity| {
                let row = row(trace, "worst-fit", capacity);
                row.high_water_bytes > 48 << 10 && row.failed == 0
            },
        ),
    ];
    let mut met = BTreeSet::new();
    for seed in 0..6 {
        for (keep, shows) in cases {
            let trace = from_csv(&program(seed));
            let Some((least, _)) = shrunk(&trace, keep, CAP) else {
                continue;
            };
            met.insert(keep);
            assert!(shows(&least, CAP), "{keep}, seed {seed}");
            let lines = to_csv(&least);
            let lines: Vec<&str> = lines.lines().skip(1).collect();
            let ids: BTreeSet<&str> = lines
                .iter()
                .filter_map(|line| line.split(',').nth(1))
                .collect();
            for id in ids {
                let kept = lines
                    .iter()
                    .filter(|line| line.split(',').nth(1) != Some(id));
                let smaller: String = kept.map(|line| format!("{line}\n")).collect();
                assert!(
                    !shows(&from_csv(&smaller), CAP),
                    "{keep}, seed {seed}: without {id}"
                );
            }
            for (at, line) in lines
                .iter()
                .enumerate()
                .filter(|(_, it)| it.starts_with("free"))
            {
                let others = lines.iter().enumerate().filter(|(other, _)| *other != at);
                let smaller: String = others.map(|(_, line)| format!("{line}\n")).collect();
                assert!(
                    !shows(&from_csv(&smaller), CAP),
                    "{keep}, seed {seed}: without {line}"
                );
            }
        }
    }
    assert_eq!(met.len(), cases.len(), "each is met by some seed");
}

#[test]
fn any_number_of_threads_finds_the_same_and_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("program.csv");
    fs::write(&trace, format!("event,id,bytes\n{}", program(3))).expect("it is writable");
    let trace = trace.to_str().expect("text");
    let keep = "failed(buddy:minimum=256) > failed(first-fit)";
    let found = |jobs: &str| {
        let out = folder.path().join("small.csv");
        let arguments = [
            "trace",
            "shrink",
            trace,
            "--keep",
            keep,
            "--capacity",
            "64KiB",
            "--jobs",
            jobs,
            "-o",
        ];
        let run = vramlab(&[&arguments[..], &[out.to_str().expect("text")]].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        (
            text(&run.stderr),
            fs::read_to_string(&out).expect("it is written"),
        )
    };
    let one = found("1");
    assert!(
        one.0.contains("no single request or event can go"),
        "{}",
        one.0
    );
    assert!(
        one.1.starts_with("# capacity 65536\n"),
        "the capacity goes along: {}",
        one.1
    );
    assert_eq!(one, found("2"));
    assert_eq!(one, found("16"));
}

#[test]
fn a_recording_shrinks_to_a_few_requests_that_show_the_same_from_the_file_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("small.csv.zst");
    let out = out.to_str().expect("text");
    let keep = "fails(best-fit) && serves(pytorch-expandable)";
    let run = vramlab(&[
        "trace",
        "shrink",
        "traces/churn-cap.vlt.zst",
        "--keep",
        keep,
        "-o",
        out,
        "--json",
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let told: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(told["before"]["requests"], 6147);
    assert!(told["after"]["requests"].as_u64() < Some(80), "{told}");
    assert_eq!(told["effort"]["minimal"], true);
    let replay = |policy: &str| {
        let arguments = ["replay", out, "--policy", policy, "--fail-on-oom"];
        vramlab(&arguments).status.code()
    };
    assert_eq!(replay("best-fit"), Some(10));
    assert_eq!(replay("pytorch-expandable"), Some(0));
}

#[test]
fn a_divergence_is_kept_as_it_is_in_the_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("small.vlt");
    let out = out.to_str().expect("text");
    let policy = "pytorch:garbage_collection_threshold:0.3";
    let divergence = |file: &str| {
        let run = vramlab(&["fidelity", file, "--policy", policy, "--json"]);
        assert_eq!(run.status.code(), Some(20));
        let rows: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        let told = rows[0]["first_divergence"]
            .as_str()
            .expect("it diverges")
            .to_owned();
        told.split_once(": ")
            .expect("an event and words")
            .1
            .to_owned()
    };
    let recording = "traces/churn-cap.vlt.zst";
    let keep = format!("diverges({policy})");
    let shrink = [
        "trace",
        "shrink",
        recording,
        "--keep",
        &keep,
        "--most-candidates",
        "150",
    ];
    let run = vramlab(&[&shrink[..], &["-o", out]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("stopped by --most-candidates"));
    assert_eq!(divergence(recording), divergence(out));
    let small = read(Path::new(out));
    assert!(
        small.requests() < 2000,
        "{} of 6,147 requests",
        small.requests()
    );
    let met = vramlab(&["fidelity", out, "--policy", "pytorch"]);
    assert_eq!(met.status.code(), Some(0), "what is left was recorded so");
    let csv = vramlab(&[&shrink[..], &["-o", "small.csv"]].concat());
    assert_eq!(csv.status.code(), Some(2));
    assert!(text(&csv.stderr).contains("csv holds no recorded addresses"));
}

#[test]
fn what_cannot_be_shrunk_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.csv");
    fs::write(&empty, "event,id,bytes\n").expect("it is writable");
    let empty = empty.to_str().expect("text");
    let tiny = "tests/data/tiny.csv";
    let told = |trace: &str, keep: &str, out: &str| {
        let run = vramlab(&["trace", "shrink", trace, "--keep", keep, "-o", out]);
        assert!(run.stdout.is_empty());
        (run.status.code(), text(&run.stderr))
    };
    let lands = folder.path().join("out.csv");
    let lands_at = lands.to_str().expect("text");
    for (trace, keep, out, code, words) in [
        (
            empty,
            "fails(bump)",
            lands_at,
            2,
            "fails(bump) is false: no request of 0 fails",
        ),
        (
            tiny,
            "fails(best-fit)",
            lands_at,
            2,
            "fails(best-fit) is false: no request of 11 fails",
        ),
        (
            tiny,
            "serves(bump) || reserved(buddy) > 1GiB",
            lands_at,
            2,
            "reserved(buddy) > 1GiB is false: 6,291,456 (6.00 MiB) and 1,073,741,824",
        ),
        (
            tiny,
            "fails(best-fit",
            lands_at,
            2,
            "--keep:1:6: this parenthesis is never closed",
        ),
        (
            tiny,
            "fails(bset-fit)",
            lands_at,
            2,
            "--keep:1:7: policy 'bset-fit': there is no such policy",
        ),
        (
            tiny,
            "diverges(pytorch)",
            "x.vlt",
            2,
            "holds no recorded addresses",
        ),
        (
            tiny,
            "fails(bump)",
            "no/such/folder/out.csv",
            2,
            "cannot write no/such/folder/out.csv",
        ),
        (
            tiny,
            "fails(bump)",
            "out.pickle",
            2,
            "a shrunk trace is csv or vlt",
        ),
        ("none.csv", "fails(bump)", lands_at, 3, "none.csv"),
    ] {
        let (found, message) = told(trace, keep, out);
        assert_eq!(found, Some(code), "{keep}: {message}");
        assert!(message.contains(words), "{keep}: {message}");
    }
    assert!(
        !lands.exists(),
        "nothing is written where something is wrong"
    );
}
