//! What holds for every family, shown on every preset.

use super::*;
use crate::presets::WORKLOADS;
use crate::trace::check::check;
use crate::trace::vlt::VltWriter;

/// Every preset whose files are there; the others are told.
fn presets() -> Vec<Workload> {
    let mut presets = Workload::presets().expect("presets fit");
    presets.retain(|preset| {
        let ready = preset.workload.family().ready();
        if let Err(what) = &ready {
            println!("skipped: workload '{}': {what}", preset.name);
        }
        ready.is_ok()
    });
    presets
}

/// The blake3 of the events of a seed with their times, its first 16 digits.
fn hash(workload: &Workload, seed: u64) -> String {
    let mut hasher = blake3::Hasher::new();
    workload.play(seed, &mut |event, time_ns| {
        hasher.update(format!("{time_ns} {event:?}\n").as_bytes());
    });
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Committed: were they ever others, every synthetic result would be another.
/// `VRAMLAB_UPDATE=1` prints the new ones.
#[test]
fn golden_beginnings() {
    let golden = include_str!("../../tests/golden/synthetic.csv");
    let mut found = String::from("workload,seed,events,hash\n");
    for mut workload in presets() {
        workload.events = 10_000;
        let row = format!("{},1,10000,{}", workload.name, hash(&workload, 1));
        found += &format!("{row}\n");
        if std::env::var_os("VRAMLAB_UPDATE").is_none() {
            assert!(golden.lines().any(|line| line == row), "{row}");
        }
    }
    if std::env::var_os("VRAMLAB_UPDATE").is_some() {
        println!("{found}");
    }
    for row in golden.lines().skip(1) {
        let name = row.split(',').next().expect("a name");
        assert!(
            WORKLOADS.iter().any(|(known, _)| *known == name),
            "{row}: no such preset"
        );
    }
}

#[test]
fn a_run_is_a_function_of_its_seed_and_every_length_a_beginning_of_the_longer() {
    for mut workload in presets() {
        let name = workload.name.clone();
        workload.events = 5000;
        let trace = workload.trace(1);
        assert_eq!(trace, workload.trace(1), "{name}");
        // These draw no numbers: an adversary is a fixed program, which ends by itself, and
        // texts of one length leave nothing to chance.
        let fixed = name.starts_with("robson") || name == "finetune-opt-1.3b";
        let other = workload.trace(2);
        assert_eq!(trace.events == other.events, fixed, "{name}");
        assert!(
            name.starts_with("robson") || trace.events.len() == 5000,
            "{name}: it is long enough"
        );
        workload.events = 777;
        let shorter = workload.trace(1);
        assert_eq!(shorter.events[..], trace.events[..777], "{name}");
        assert_eq!(shorter.times_ns[..], trace.times_ns[..777], "{name}");
    }
}

#[test]
fn traces_keep_the_rules_and_time_runs_forward() {
    for mut workload in presets() {
        workload.events = 20_000;
        let trace = workload.trace(5);
        let name = &workload.name;
        assert_eq!(check(&trace).map_err(|it| it.1), Ok(()), "{name}");
        assert!(trace.times_ns.is_sorted(), "{name}");
        assert!(trace.times_ns.last() > Some(&0), "{name}: time passes");
    }
}

#[test]
fn a_stream_of_events_is_the_whole_trace() {
    for mut workload in presets() {
        workload.events = 5000;
        let mut writer = VltWriter::new(Vec::new(), &workload.head(), true).expect("memory");
        let tail = workload
            .stream(3, &mut |event, time_ns| writer.push(event, time_ns))
            .expect("memory");
        let bytes = writer
            .finish(&tail)
            .expect("the tail says what was written");
        let read = crate::trace::vlt::read(&bytes[..], "streamed").expect("sound");
        assert_eq!(read, workload.trace(3), "{}", workload.name);
    }
}

#[test]
fn a_sink_that_fails_ends_the_run() {
    for mut workload in presets() {
        workload.events = u64::MAX;
        let mut left = 3000;
        let error = workload.stream(1, &mut |_, _| {
            left -= 1;
            if left == 0 { Err("full") } else { Ok(()) }
        });
        assert_eq!(error.err(), Some("full"), "{}", workload.name);
    }
}

#[test]
fn what_does_not_fit_is_told() {
    for (text, part) in [
        ("churn:lives.random-victim.live=0", "live = 0"),
        (
            "churn:sizes.log-uniform.smallest_bytes=1GiB",
            "at most largest_bytes",
        ),
        ("training-gpt2:layers=0", "layers = 0"),
        ("training-gpt2:tokens=[9,3]", "the first is the smaller"),
        ("training-gpt2:hidden=99999999", "above 2^50"),
        ("serving-poisson:budget_bytes=1MiB", "wait for ever"),
        ("serving-prefix:block_tokens=17", "must divide 512"),
        (
            "serving-poisson:arrivals.poisson.per_minute=0",
            "per_minute",
        ),
        (
            "serving-azure:arrivals.file.path=nowhere.csv",
            "VRAMLAB_SHARED",
        ),
        (
            "pipeline-4-streams:stages_percent=[100]",
            "2 to 1024 stages",
        ),
        ("pipeline-4-streams:frees=[]", "owner, consumer, deferred"),
        (
            "plan-training:repeat_from=backwards",
            "no phase has that name",
        ),
        ("plan-training:vary_percent=100", "at most 99"),
    ] {
        let error = Workload::find(text).expect_err(text).to_string();
        assert!(error.contains(part), "{error}");
    }
}
