//! The executor of the `cuda` room on a card of host memory: what it says where nothing is
//! wrong, and that planted faults are found by patterns alone.

use std::sync::Arc;

use vramlab::bound::peak_live_requested_bytes;
use vramlab::cuda::exercise::exercise;
use vramlab::cuda::{Card, CardRow, Coverage, Fault, HostCard, How, Verdict, validate};
use vramlab::experiment::{Scene, Wanted};
use vramlab::policy::Registry;
use vramlab::policy::registry::DEVICES;
use vramlab::space::Device;
use vramlab::trace::builder::Ask;
use vramlab::trace::{Trace, TraceBuilder};

const CARD_BYTES: u64 = 64 << 30;

fn h200() -> Arc<Device> {
    let (_, body) = DEVICES
        .iter()
        .find(|(name, _)| *name == "h200")
        .expect("measured");
    Arc::new(Device::from_toml(body).expect("it is read"))
}

/// Far more than the exercise needs.
const ROOMY: Wanted = Wanted::Bytes(64 << 20);

fn run(policy: &str, wanted: Wanted, how: How) -> CardRow {
    let scene = Scene::new(exercise(400, 1 << 14), h200(), wanted);
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a preset");
    let mut card = HostCard::new(CARD_BYTES);
    let row = validate(&mut card, &scene, &registry, &chosen, how).expect("it is built");
    let free = card.free_bytes();
    assert_eq!(free, Ok(Some(CARD_BYTES)), "{policy} left memory behind");
    row
}

/// Two blocks side by side with neighbours that stay, and one of both sizes behind them.
fn to_be_stitched() -> Trace {
    let mut builder = TraceBuilder::new("to be stitched");
    let ask = |bytes: u64| Ask {
        bytes,
        ..Ask::default()
    };
    for key in 0..4 {
        builder.alloc(key, ask(2 << 20)).expect("a key of its own");
    }
    for key in [0, 2] {
        builder.free(key, Some(0), false);
    }
    builder.alloc(4, ask(4 << 20)).expect("a key of its own");
    builder.finish()
}

fn run_trace(trace: Trace, policy: &str, capacity_bytes: u64, fault: Option<Fault>) -> CardRow {
    let scene = Scene::new(trace, h200(), Wanted::Bytes(capacity_bytes));
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a preset");
    let mut card = HostCard::new(CARD_BYTES);
    let how = How {
        fault,
        ..How::default()
    };
    let row = validate(&mut card, &scene, &registry, &chosen, how).expect("it is built");
    assert_eq!(card.free_bytes(), Ok(Some(CARD_BYTES)), "{policy}");
    row
}

fn planted(policy: &str, wanted: Wanted, fault: Fault) -> CardRow {
    let how = How {
        fault: Some(fault),
        ..How::default()
    };
    run(policy, wanted, how)
}

#[test]
fn every_preset_has_its_row_and_no_pattern_breaks() {
    let registry = Registry::default();
    for name in registry.names() {
        // Checks come late, so that a policy which lets a stream go on too early is found.
        let row = planted(name, ROOMY, Fault::Late);
        assert_eq!(row.policy, name);
        assert!(row.verdict != Verdict::Disagrees, "{row:?}");
        if row.verdict == Verdict::NotRun {
            assert!(!row.note.is_empty(), "{name} says why it did not run");
            continue;
        }
        // What is filled is checked when it goes, and more often where it moves or others read.
        assert!(row.filled_bytes > 0 && row.checked_bytes >= row.filled_bytes);
        assert_eq!(row.patterns_broken, 0, "{row:?}");
        assert_eq!(row.allocations + row.failures_predicted, 400, "{row:?}");
        let failures = row.failures_met + row.failures_by_rule;
        assert_eq!(failures, row.failures_predicted, "{row:?}");
        assert!(row.looks > 0, "{row:?}");
    }
}

#[test]
fn free_memory_is_what_was_predicted_where_a_pool_takes_all() {
    let row = run("first-fit", ROOMY, How::default());
    assert_eq!(row.looks_met, row.looks, "{row:?}");
    assert_eq!(row.free_read_bytes, Some(CARD_BYTES - (64 << 20)));
    assert_eq!(row.verdict, Verdict::Agrees);
}

#[test]
fn a_shifted_address_breaks_the_pattern_of_its_neighbour() {
    let row = planted("first-fit", ROOMY, Fault::Shift);
    assert!(row.patterns_broken > 0 && row.overlaps == 0, "{row:?}");
    assert_eq!(row.verdict, Verdict::Disagrees);
}

#[test]
fn a_wait_left_out_breaks_a_pattern_and_one_kept_does_not() {
    let row = planted("stream-first-fit", ROOMY, Fault::Late);
    assert_eq!(
        (row.patterns_broken, row.verdict),
        (0, Verdict::Agrees),
        "{row:?}"
    );
    let row = planted("stream-first-fit", ROOMY, Fault::NoWait);
    assert!(row.patterns_broken > 0, "{row:?}");
    assert_eq!(row.verdict, Verdict::Disagrees);
}

#[test]
fn a_move_that_loses_its_tail_breaks_the_pattern() {
    let row = run("compaction", Wanted::ByTrace, How::default());
    assert!(row.moves_checked > 0 && row.patterns_broken == 0, "{row:?}");
    let row = planted("compaction", Wanted::ByTrace, Fault::ShortMove);
    assert!(row.patterns_broken > 0, "{row:?}");
    assert_eq!(row.verdict, Verdict::Disagrees);
}

#[test]
fn pages_that_two_addresses_share_hold_one_block_at_a_time() {
    let run = |fault| run_trace(to_be_stitched(), "stitching-all", 128 << 20, fault);
    let row = run(None);
    assert_eq!(
        (row.aliased_bytes, row.patterns_broken),
        (4 << 20, 0),
        "{row:?}"
    );
    assert_eq!(row.held_peak_bytes, 8 << 20, "pages are counted once");
    assert_eq!((row.overlaps, row.verdict), (0, Verdict::Agrees), "{row:?}");
    let row = run(Some(Fault::PageTwice));
    assert!(row.patterns_broken > 0 && row.overlaps == 0, "{row:?}");
    assert_eq!(row.verdict, Verdict::Disagrees);
}

#[test]
fn pages_come_back_from_the_host_as_they_went() {
    for policy in ["managed", "managed-best-fit"] {
        let run = |fault| run_trace(exercise(150, 4 << 20), policy, 6 << 20, fault);
        let row = run(None);
        assert_eq!(
            (row.patterns_broken, row.verdict),
            (0, Verdict::Agrees),
            "{row:?}"
        );
        assert!(row.paged_bytes > 0 && row.pages_checked > 0, "{row:?}");
        assert_eq!(
            (row.held_peak_bytes, row.pages_across),
            (6 << 20, 0),
            "{row:?}"
        );
        assert_eq!((row.failures_predicted, row.allocations), (0, 150));
        let row = run(Some(Fault::LostPage));
        assert!(row.patterns_broken > 0, "{row:?}");
        assert_eq!(row.verdict, Verdict::Disagrees);
    }
}

#[test]
fn a_card_smaller_than_a_page_leaves_all_of_them_on_the_host() {
    let row = run_trace(exercise(40, 1 << 14), "managed", 1 << 20, None);
    assert_eq!(
        (row.patterns_broken, row.verdict),
        (0, Verdict::Agrees),
        "{row:?}"
    );
    assert_eq!((row.held_peak_bytes, row.allocations), (0, 40), "{row:?}");
    assert!(row.pages_across > 0, "{row:?}");
}

#[test]
fn edges_are_checked_where_all_is_too_much() {
    let how = How {
        coverage: Coverage::Edges,
        ..How::default()
    };
    let (edges, full) = (
        run("best-fit", ROOMY, how),
        run("best-fit", ROOMY, How::default()),
    );
    assert!(edges.checked_bytes < full.checked_bytes);
    assert!(edges.checks > full.checks);
    assert_eq!(edges.patterns_broken, full.patterns_broken);
}

#[test]
fn a_shortage_is_met_where_the_capacity_holds_no_more() {
    let peak = peak_live_requested_bytes(&exercise(400, 1 << 14));
    let row = run("cuda-malloc", Wanted::Bytes(peak / 2), How::default());
    assert!(row.failures_predicted > 0, "{row:?}");
    assert_eq!(row.failures_met, row.failures_predicted, "{row:?}");
}

#[test]
fn a_card_that_refuses_what_was_predicted_disagrees_and_is_left_empty() {
    let scene = Scene::new(exercise(100, 1 << 14), h200(), Wanted::Bytes(64 << 20));
    let registry = Registry::default();
    let chosen = registry.find("first-fit").expect("a preset");
    let mut card = HostCard::new(32 << 20);
    let row = validate(&mut card, &scene, &registry, &chosen, How::default()).expect("built");
    assert_eq!(row.verdict, Verdict::Disagrees);
    assert_eq!(
        (row.failures_unpredicted, row.left_bytes),
        (1, Some(0)),
        "{row:?}"
    );
    assert!(row.note.contains("no room"), "{}", row.note);
}
