//! A plan on paper and its trace.

use crate::synth::Workload;
use crate::trace::Event;

const PLAN: &str = r#"
about = "a plan"
source = "by hand"
events = 1000

[workload.phases]
repeat_from = "work"
rounds = 2

[[workload.phases.phase]]
name = "load"
lasts = "3s"
allocate = [{ what = "weights", bytes = "1MiB", pieces = 2, until = "plan" }]

[[workload.phases.phase]]
name = "work"
lasts = "40ms"
allocate = [
    { what = "input", bytes = "3KiB", until = "rest" },
    { what = "scratch", bytes = "1KiB", pieces = 2, until = "piece" },
]

[[workload.phases.phase]]
name = "rest"
lasts = "10ms"
"#;

#[test]
fn a_plan_becomes_the_trace_that_was_computed_by_hand() {
    let trace = Workload::from_toml("plan", PLAN).expect("a plan").trace(1);
    let mut lines = Vec::new();
    for (event, time_ns) in trace.events.iter().zip(&trace.times_ns) {
        let ms = time_ns / 1_000_000;
        lines.push(match *event {
            Event::Alloc {
                slot, bytes, tag, ..
            } => {
                format!("{ms} +{slot} {} {bytes}", trace.tags[tag as usize])
            }
            Event::Free { slot, .. } => format!("{ms} -{slot}"),
            Event::Mark { label } => format!("{ms} {}", trace.labels[label as usize]),
            other => panic!("{other:?}"),
        });
    }
    let expected = "0 load, 1000 +0 weights 1048576, 2000 +1 weights 1048576, \
        3000 work, 3010 +2 input 3072, 3020 +3 scratch 1024, 3030 -3, 3030 +3 scratch 1024, \
        3035 -3, 3040 rest, 3050 -2, \
        3050 work, 3060 +2 input 3072, 3070 +3 scratch 1024, 3080 -3, 3080 +3 scratch 1024, \
        3085 -3, 3090 rest, 3100 -2, 3100 -0, 3100 -1";
    assert_eq!(lines.join(", "), expected);
}

#[test]
fn sizes_vary_by_no_more_than_the_plan_says() {
    let varied = PLAN.replace("rounds = 2", "rounds = 0\nvary_percent = 10");
    let trace = Workload::from_toml("plan", &varied)
        .expect("a plan")
        .trace(1);
    assert_eq!(trace.events.len(), 1000, "rounds = 0 goes on");
    let mut inputs = Vec::new();
    for event in &trace.events {
        if let Event::Alloc { bytes, .. } = event
            && (2000..100_000).contains(bytes)
        {
            inputs.push(*bytes);
        }
    }
    let (least, most) = (inputs.iter().min(), inputs.iter().max());
    assert!(
        least >= Some(&(3072 - 307)) && most <= Some(&(3072 + 307)),
        "{least:?} {most:?}"
    );
    assert!(
        least < Some(&2900) && most > Some(&3200),
        "{least:?} {most:?}"
    );
}

#[test]
fn a_plan_that_makes_no_sense_is_told_by_phase() {
    for (old, new, part) in [
        (
            "until = \"rest\"",
            "until = \"never\"",
            "phase 'work', 'input': until = 'never'",
        ),
        ("name = \"load\"", "name = \"work\"", "comes twice"),
        ("name = \"load\"", "name = \"plan\"", "has a meaning"),
        ("bytes = \"3KiB\"", "bytes = 0", "expected 1 byte"),
        ("lasts = \"10ms\"", "lasts = \"10\"", "unit"),
    ] {
        let error = Workload::from_toml("plan", &PLAN.replace(old, new)).expect_err(new);
        assert!(error.to_string().contains(part), "{error}");
    }
}
