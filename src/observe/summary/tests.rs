use super::*;
use crate::observe::testing::{Script, Walk, replay};
use crate::trace::builder::Ask;

/// Keeps every value, and does the arithmetic at the end.
#[derive(Default)]
struct Naive {
    external: Vec<f64>,
    overhead: Vec<f64>,
}

impl Observer for Naive {
    fn see(&mut self, moment: &Moment<'_>) {
        let free = moment.space.counters().free_bytes as f64;
        if free > 0.0 {
            self.external
                .push(1.0 - moment.largest_free_bytes as f64 / free);
        }
        let live = moment.totals.requested_bytes as f64;
        if live > 0.0 {
            self.overhead
                .push(moment.footprint_bytes as f64 / live - 1.0);
        }
    }
}

fn mean_ppm(values: &[f64]) -> u64 {
    (values.iter().sum::<f64>() / values.len() as f64 * 1e6) as u64
}

#[test]
fn means_weigh_every_event_alike() {
    let mut script = Script::new();
    let mut state = 7u64;
    let mut live = Vec::new();
    for key in 0..400u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        script.alloc(key, 1 + (state >> 33) % 5000);
        live.push(key);
        if live.len() > 20 {
            let at = (state >> 40) as usize % live.len();
            script.free(live.swap_remove(at));
        }
    }
    let trace = script.finish();
    for grows in [false, true] {
        let policy = Walk {
            grows,
            ..Walk::default()
        };
        let mut both = (Summary::default(), Naive::default());
        let replay = replay(&trace, policy, 90_000, &mut both);
        let row = both.0.row(&replay, Labels::default());
        let external = row
            .mean_external_fragmentation_ppm
            .expect("something was free");
        let overhead = row.mean_overhead_ppm.expect("something was live");
        // Each event's value is cut to a whole part per million, and so is the mean.
        assert!(
            mean_ppm(&both.1.external).abs_diff(external) <= 1,
            "{external}"
        );
        assert!(
            mean_ppm(&both.1.overhead).abs_diff(overhead) <= 1,
            "{overhead}"
        );
        let peak = both.1.external.iter().fold(0.0f64, |a, b| a.max(*b));
        let told = row
            .peak_external_fragmentation_ppm
            .expect("something was free");
        assert!(((peak * 1e6) as u64).abs_diff(told) <= 1);
    }
}

#[test]
fn what_an_attempt_held_for_an_instant_counts_in_the_peaks() {
    let mut script = Script::new();
    script.alloc(0, 1000);
    let attempt = |bytes| Ask {
        bytes,
        ..Ask::default()
    };
    script.0.attempt(1, attempt(2000));
    script.0.attempt(2, attempt(4000));
    let trace = script.alloc(3, 100).finish();
    let mut summary = Summary::default();
    let replay = replay(&trace, Walk::default(), 4096, &mut summary);
    let row = summary.row(&replay, Labels::default());
    assert_eq!(row.peak_requested_bytes, 3000);
    assert_eq!(row.peak_occupied_bytes, 1024 + 2048);
    assert_eq!(row.footprint_bytes, 1024 + 2048);
    assert_eq!((row.requests, row.served, row.failed), (4, 3, 1));
    assert_eq!(
        (row.counterfactual_requests, row.first_failure_event),
        (1, Some(2))
    );
    assert_eq!(row.memory_efficiency_ppm, Some(976_562));
    assert_eq!(replay.totals().requested_bytes, 1100, "nothing of it stays");
    assert_eq!(
        row.peak_overhead_ppm,
        Some(24_000),
        "3072 held, 3000 asked for"
    );
}

#[test]
fn what_never_happened_is_undefined() {
    let trace = Script::new().alloc(0, 0).finish();
    let mut summary = Summary::default();
    let policy = Walk {
        grows: true,
        ..Walk::default()
    };
    let replay = replay(&trace, policy, 4096, &mut summary);
    let row = summary.row(&replay, Labels::default());
    assert_eq!(row.success_ppm, 1_000_000);
    assert_eq!(row.mean_external_fragmentation_ppm, None);
    assert_eq!(row.peak_internal_fragmentation_ppm, None);
    assert_eq!(row.memory_efficiency_ppm, None);
    assert_eq!(row.mean_overhead_ppm, None);
}
