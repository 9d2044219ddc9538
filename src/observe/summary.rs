//! The summary of a replay: one row of integers, the same names in csv and JSON.

use serde::Serialize;

use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::units::ppm;

/// One row. Ratios are parts per million; names end in their unit. New columns are
/// only added at the end. The formulas are in `docs/metrics.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "each column is defined once, in docs/metrics.md"
)]
pub struct Row {
    pub trace: String,
    pub policy: String,
    pub capacity_bytes: u64,
    pub events: u64,
    pub requests: u64,
    pub served: u64,
    pub failed: u64,
    pub first_failure_event: Option<u64>,
    pub peak_requested_bytes: u64,
    pub peak_occupied_bytes: u64,
    pub peak_reserved_bytes: u64,
    pub high_water_bytes: u64,
    pub peak_external_fragmentation_ppm: Option<u64>,
    pub mean_external_fragmentation_ppm: Option<u64>,
    pub peak_internal_fragmentation_ppm: Option<u64>,
    pub moved_bytes: u64,
    pub moves: u64,
    pub compactions: u64,
    pub pause_ns: u64,
    pub delayed_requests: u64,
    pub stalls: u64,
    pub hazards: u64,
    pub double_frees: u64,
    pub unknown_frees: u64,
    pub zero_sizes: u64,
    pub overflows: u64,
    pub peak_utilisation_ppm: u64,
    pub success_ppm: u64,
    pub driver_calls: u64,
    pub cost_ns: u64,
    pub lower_bound_bytes: u64,
    pub seed: Option<u64>,
    pub compactions_held_back: u64,
    pub counterfactual_requests: u64,
    pub footprint_bytes: u64,
}

/// Peaks and means, kept at every event.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    first_failure: Option<u64>,
    peak_requested_bytes: u64,
    peak_occupied_bytes: u64,
    peak_reserved_bytes: u64,
    external: Mean,
    last_external: (u64, u64),
    peak_internal_ppm: Option<u64>,
    last_internal: (u64, u64),
}

/// A mean and a peak of parts per million.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    last_ppm: u64,
    sum_ppm: u128,
    count: u64,
    peak_ppm: u64,
}

impl Observer for Summary {
    fn see(&mut self, moment: &Moment<'_>) {
        let counters = moment.space.counters();
        let requested = moment.totals.requested_bytes;
        self.peak_requested_bytes = self.peak_requested_bytes.max(requested);
        self.peak_occupied_bytes = self.peak_occupied_bytes.max(counters.used_bytes);
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(counters.reserved_bytes);
        if let Outcome::Failed(_) = moment.outcome {
            self.first_failure.get_or_insert(moment.index);
        }
        self.external(counters.free_bytes, moment.largest_free_bytes);
        self.internal(requested, counters.used_bytes);
    }
}

impl Summary {
    fn external(&mut self, free_bytes: u64, largest_bytes: u64) {
        if free_bytes == 0 {
            return;
        }
        let mean = &mut self.external;
        // A division an event is dear: it is done only where something changed.
        if self.last_external != (free_bytes, largest_bytes) {
            self.last_external = (free_bytes, largest_bytes);
            mean.last_ppm = ppm(free_bytes - largest_bytes, free_bytes);
            mean.peak_ppm = mean.peak_ppm.max(mean.last_ppm);
        }
        mean.sum_ppm += u128::from(mean.last_ppm);
        mean.count += 1;
    }

    fn internal(&mut self, requested: u64, occupied: u64) {
        if occupied == 0 || self.last_internal == (requested, occupied) {
            return;
        }
        self.last_internal = (requested, occupied);
        let waste_ppm = ppm(occupied - requested, occupied);
        self.peak_internal_ppm = Some(self.peak_internal_ppm.unwrap_or(0).max(waste_ppm));
    }

    /// The row of a finished replay.
    #[must_use]
    pub fn row(&self, replay: &Replay, labels: Labels<'_>) -> Row {
        let counters = replay.space().counters();
        let totals = replay.totals();
        let tallies = replay.policy().tallies();
        let capacity_bytes = replay.space().capacity_bytes();
        let defined = self.external.count > 0;
        let asked = totals.served + totals.failed;
        Row {
            trace: labels.trace.to_owned(),
            policy: labels.policy.to_owned(),
            capacity_bytes,
            events: totals.events,
            requests: totals.requests,
            served: totals.served,
            failed: totals.failed,
            first_failure_event: self.first_failure,
            peak_requested_bytes: self.peak_requested_bytes,
            peak_occupied_bytes: self.peak_occupied_bytes,
            peak_reserved_bytes: self.peak_reserved_bytes,
            high_water_bytes: counters.high_water_bytes,
            peak_external_fragmentation_ppm: defined.then_some(self.external.peak_ppm),
            mean_external_fragmentation_ppm: defined
                .then(|| (self.external.sum_ppm / u128::from(self.external.count)) as u64),
            peak_internal_fragmentation_ppm: self.peak_internal_ppm,
            moved_bytes: counters.moved_bytes,
            moves: counters.moves,
            compactions: tallies.compactions,
            pause_ns: counters.pause_ns,
            delayed_requests: totals.delayed_requests,
            stalls: counters.stalls,
            hazards: labels.hazards,
            double_frees: totals.double_frees,
            unknown_frees: totals.unknown_frees,
            zero_sizes: totals.zero_sizes,
            overflows: totals.overflows,
            peak_utilisation_ppm: ppm(self.peak_occupied_bytes, capacity_bytes),
            success_ppm: if asked == 0 {
                1_000_000
            } else {
                ppm(totals.served, asked)
            },
            driver_calls: counters.driver_calls,
            cost_ns: counters.cost_ns,
            lower_bound_bytes: labels.lower_bound_bytes,
            seed: labels.seed,
            compactions_held_back: tallies.held_back,
            counterfactual_requests: totals.instants,
            footprint_bytes: if replay.takes_all() {
                counters.high_water_bytes
            } else {
                self.peak_reserved_bytes
            },
        }
    }
}

/// What a row says that the replay does not know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Labels<'a> {
    /// Name of the trace.
    pub trace: &'a str,
    /// The policy's spec as given.
    pub policy: &'a str,
    /// Reuses before an ordering point, from the hazards observer.
    pub hazards: u64,
    /// Peak of live requested bytes of the trace.
    pub lower_bound_bytes: u64,
    /// Seed of a synthetic trace.
    pub seed: Option<u64>,
}
