//! Managed memory: what other policies do when the host stands behind the card.

use std::sync::Arc;

use vramlab::conformance::Suite;
use vramlab::experiment::{Ended, Scene, Wanted, Watch, run_cell};
use vramlab::observe::{Row, Warning, warnings};
use vramlab::policy::Registry;
use vramlab::policy::registry::DEVICES;
use vramlab::space::Device;
use vramlab::synth::Workload;
use vramlab::trace::{Event, Trace};

fn device() -> Arc<Device> {
    let (_, body) = DEVICES
        .iter()
        .find(|(name, _)| *name == "h200")
        .expect("the card is there");
    Arc::new(Device::from_toml(body).expect("a device"))
}

fn row(trace: &Trace, capacity_bytes: u64, policy: &str) -> Row {
    let registry = Registry::default();
    let scene = Scene::new(trace.clone(), device(), Wanted::Bytes(capacity_bytes));
    let watch = Watch {
        map: false,
        progress: &|_| {},
        extra: (),
    };
    let chosen = registry.find(policy).expect("a policy");
    match run_cell(&scene, &registry, &chosen, watch).expect("it builds") {
        Ended::Replayed(seen) => seen.row,
        ended => panic!("{policy}: {ended:?}"),
    }
}

/// 120 live allocations of 2 to 64 MiB, which want about 2.1 GiB.
fn churn() -> Trace {
    let text = "about = \"a\"\nsource = \"b\"\nevents = 4000\n[workload.churn]\n\
                sizes = { log-uniform = { smallest_bytes = \"2MiB\", largest_bytes = \"64MiB\" } }\n\
                lives = { random-victim = { live = 120 } }\n";
    Workload::from_toml("churn", text)
        .expect("a workload")
        .trace(5)
}

/// The same, with a use of what was asked for 60 requests ago after each request.
fn churn_with_uses() -> Trace {
    let mut trace = churn();
    let (mut events, mut recent, mut live) =
        (Vec::new(), Vec::new(), std::collections::HashSet::new());
    for event in std::mem::take(&mut trace.events) {
        events.push(event);
        match event {
            Event::Alloc { slot, .. } => {
                live.insert(slot);
                recent.push(slot);
                let old = recent.len().checked_sub(60).map(|at| recent[at]);
                if let Some(slot) = old.filter(|slot| live.contains(slot)) {
                    events.push(Event::Use { slot, stream: 0 });
                }
            }
            Event::Free { slot, .. } => {
                live.remove(&slot);
            }
            _ => {}
        }
    }
    trace.events = events;
    trace.times_ns = Vec::new();
    trace
}

#[test]
fn a_card_that_is_too_small_serves_everything_for_transfers() {
    let trace = churn();
    let card_bytes = 1 << 30;
    for over in ["best-fit", "pytorch", "stitching-all", "tlsf"] {
        let alone = row(&trace, card_bytes, over);
        let managed = row(
            &trace,
            card_bytes,
            &format!("managed:over={over},host=4GiB"),
        );
        println!(
            "{over}: {} of {} requests fail; managed: {} fail, {} bytes are paged in {} ns",
            alone.failed, alone.requests, managed.failed, managed.paged_bytes, managed.pause_ns
        );
        assert!(alone.failed > 0 && managed.failed == 0, "{over}");
        assert!(managed.paged_bytes > 0 && managed.pause_ns > 0, "{over}");
        assert_eq!(alone.paged_bytes, 0);
        assert_eq!(managed.capacity_bytes, card_bytes, "the card's");
        assert!(managed.peak_utilisation_ppm > 1_000_000, "{over}");
        assert!(warnings(&managed).contains(&Warning::NoUses), "{over}");
        assert!(!warnings(&alone).contains(&Warning::NoUses), "{over}");
    }
}

#[test]
fn a_card_that_is_large_enough_pages_nothing() {
    let trace = churn_with_uses();
    let row = row(&trace, 4 << 30, "managed:over=best-fit,host=4GiB");
    assert_eq!((row.failed, row.paged_bytes, row.pause_ns), (0, 0, 0));
    assert!(row.uses > 1000, "{} uses", row.uses);
}

#[test]
fn uses_bring_pages_back_and_a_smaller_card_pages_more() {
    let trace = churn_with_uses();
    let paged = [1800u64, 1200, 600].map(|mebibytes| {
        let row = row(&trace, mebibytes << 20, "managed:over=best-fit,host=4GiB");
        assert!(!warnings(&row).contains(&Warning::NoUses));
        row.paged_bytes
    });
    assert!(paged[0] < paged[1] && paged[1] < paged[2], "{paged:?}");
    let without = row(&churn(), 600 << 20, "managed:over=best-fit,host=4GiB");
    assert!(without.paged_bytes < paged[2], "allocation as the only use");
}

#[test]
fn what_is_paged_does_not_change_what_the_policy_decides() {
    let trace = churn_with_uses();
    let large = row(&trace, 5 << 30, "best-fit");
    let small = row(&trace, 1 << 30, "managed:over=best-fit,host=4GiB");
    assert_eq!(small.high_water_bytes, large.high_water_bytes);
    assert_eq!(small.peak_occupied_bytes, large.peak_occupied_bytes);
}

#[test]
fn managed_memory_conforms_over_every_kind_of_policy() {
    let registry = Registry::default();
    for spec in [
        "managed:over=best-fit,host=1MiB,page=256KiB",
        "managed:over=stream-first-fit,host=64KiB,page=256KiB",
        "managed:over=pytorch,host=64MiB,page=256KiB",
        "managed:over=pytorch-expandable,host=64MiB,page=256KiB",
        "managed:over=\"compaction:over=first-fit,threshold=0,interval=0s\",host=1MiB,page=256KiB",
        "managed:over=stitching-all,host=64MiB",
    ] {
        let chosen = registry.find(spec).expect("a policy");
        let suite = Suite::new(|| registry.build(&chosen).expect("a policy")).programs(8);
        suite
            .run()
            .unwrap_or_else(|breach| panic!("{spec}: {breach}"));
    }
}
