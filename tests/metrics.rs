//! The columns of a row: stable, and defined in docs/metrics.md.

use vramlab::observe::failures::Failure;
use vramlab::observe::rows::{columns, write_csv, write_json};
use vramlab::observe::{Failures, Row, Timeline, Verdict, timeline};

/// The columns that were promised, in order; ours follow.
const PROMISED: &str = "trace, policy, capacity_bytes, events, requests, served, failed, \
    first_failure_event, peak_requested_bytes, peak_occupied_bytes, peak_reserved_bytes, \
    high_water_bytes, peak_external_fragmentation_ppm, mean_external_fragmentation_ppm, \
    peak_internal_fragmentation_ppm, moved_bytes, moves, compactions, pause_ns, \
    delayed_requests, stalls, hazards, double_frees, unknown_frees, zero_sizes, overflows, \
    peak_utilisation_ppm, success_ppm, driver_calls, cost_ns, lower_bound_bytes, seed";

const ADDED: &str = "compactions_held_back, counterfactual_requests, footprint_bytes, \
    memory_efficiency_ppm, mean_overhead_ppm, overhead_at_peak_requested_ppm, \
    overhead_at_peak_footprint_ppm, peak_overhead_ppm, first_counterfactual_event, fit_bytes, \
    rounded_peak_bytes, packed_bytes, packed_by, packed_proven, paged_bytes, uses, trace_ns, \
    longest_pause_ns";

const DOCS: &str = include_str!("../docs/metrics.md");

/// The section of the docs under a heading.
fn section(heading: &str) -> &'static str {
    let start = DOCS.find(heading).expect("the heading is there") + heading.len();
    let rest = &DOCS[start..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// The names in the first cells of a section's tables.
fn named(section: &str) -> Vec<&str> {
    let first = |line: &'static str| line.strip_prefix("| `")?.split(" |").next();
    let section: &'static str = DOCS
        .find(section)
        .map(|at| &DOCS[at..at + section.len()])
        .expect("a part of the docs");
    let cells = section.lines().filter_map(first);
    cells
        .flat_map(|cell| cell.split(", "))
        .map(|name| name.trim_matches('`'))
        .collect()
}

#[test]
fn csv_and_json_have_the_promised_columns_and_ours_after_them() {
    let wanted: Vec<_> = PROMISED.split(", ").chain(ADDED.split(", ")).collect();
    assert_eq!(columns(), wanted);
    let (mut csv, mut json) = (Vec::new(), Vec::new());
    write_csv(&[Row::default()], &mut csv).expect("memory is writable");
    write_json(&[Row::default()], &mut json).expect("memory is writable");
    let csv = String::from_utf8(csv).expect("it is text");
    assert_eq!(csv.lines().next(), Some(wanted.join(",").as_str()));
    let json: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
    let keys: Vec<_> = json[0].as_object().expect("an object").keys().collect();
    assert_eq!(keys, wanted);
}

#[test]
fn the_docs_define_every_column_in_order() {
    let section = section("## Columns of a row");
    assert_eq!(named(section), columns());
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        assert_eq!(line.matches(" |").count(), 6, "six cells: {line}");
    }
}

#[test]
fn the_docs_define_timeline_and_failures() {
    let docs = section("## Timeline");
    for name in timeline::SERIES {
        assert!(named(docs).contains(&name), "{name}");
    }
    let mut header = Vec::new();
    Timeline::default()
        .write_csv(&mut header)
        .expect("memory is writable");
    let header = String::from_utf8(header).expect("it is text");
    for name in header.trim().split(',') {
        let plain = name.strip_prefix("min_").or(name.strip_prefix("max_"));
        assert!(named(docs).contains(&plain.unwrap_or(name)), "{name}");
    }
    let verdicts: Vec<_> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
    let failure = serde_json::to_value(Failure {
        event: 0,
        time_ns: 0,
        bytes: 0,
        wanted_bytes: 0,
        stream: 0,
        pool: 0,
        tag: 0,
        requested_bytes: 0,
        occupied_bytes: 0,
        reserved_bytes: 0,
        free_bytes: 0,
        largest_free_bytes: 0,
        verdict: Verdict::Capacity,
    });
    let failure = failure.expect("plain values");
    let fields = failure
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str);
    let wanted: Vec<_> = fields.chain(verdicts).collect();
    assert_eq!(named(section("## Failures")), wanted);
    assert!(Failures::default().counts().all(|(_, count)| count == 0));
}
