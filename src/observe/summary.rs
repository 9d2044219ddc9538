//! The summary of a replay: one row of integers, the same names in csv and JSON.

mod sums;

use serde::{Deserialize, Serialize};

use super::johnstone::Johnstone;
use crate::replay::{Columns, Moment, Observer, Outcome, Replay, Run};
use crate::trace::Event;
use crate::units::ppm;
use sums::Sums;

/// One row. Ratios are parts per million; names end in their unit. New columns are
/// only added at the end. The formulas are in `docs/metrics.md`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    pub memory_efficiency_ppm: Option<u64>,
    pub mean_overhead_ppm: Option<u64>,
    pub overhead_at_peak_requested_ppm: Option<u64>,
    pub overhead_at_peak_footprint_ppm: Option<u64>,
    pub peak_overhead_ppm: Option<u64>,
    pub first_counterfactual_event: Option<u64>,
    pub fit_bytes: Option<u64>,
    pub rounded_peak_bytes: u64,
    pub packed_bytes: Option<u64>,
    pub packed_by: String,
    pub packed_proven: Option<bool>,
    pub paged_bytes: u64,
    pub uses: u64,
    pub trace_ns: u64,
    pub longest_pause_ns: u64,
}

/// Peaks and means, kept at every event. Peaks of bytes are the Space's own where it
/// keeps them, so that what is held for an instant within an event counts too; ratios
/// are taken after each event.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    first_failure: Option<u64>,
    uses: u64,
    /// Times of the first event and of the last, ns.
    span_ns: Option<(u64, u64)>,
    peak_requested_bytes: u64,
    external: External,
    internal: Internal,
    overhead: Johnstone,
}

/// Mean and peak of external fragmentation over the events after which something is free.
#[derive(Debug, Clone, Copy, Default)]
struct External {
    sum_ppm: u64,
    count: u64,
    peak_ppm: u64,
}

impl External {
    #[inline]
    fn see(&mut self, free_bytes: u64, largest_bytes: u64) {
        if free_bytes > 0 {
            let value_ppm = ppm(free_bytes - largest_bytes, free_bytes);
            self.peak_ppm = self.peak_ppm.max(value_ppm);
            self.sum_ppm += value_ppm;
            self.count += 1;
        }
    }

    #[inline]
    fn see_all(&mut self, sums: &Sums) {
        self.peak_ppm = self.peak_ppm.max(sums.most_external_ppm);
        self.sum_ppm += sums.external_ppm;
        self.count += sums.external_count;
    }

    fn peak_ppm(&self) -> Option<u64> {
        (self.count > 0).then_some(self.peak_ppm)
    }

    fn mean_ppm(&self) -> Option<u64> {
        (self.count > 0).then(|| self.sum_ppm / self.count)
    }
}

/// Peak of internal fragmentation.
#[derive(Debug, Clone, Copy, Default)]
struct Internal {
    /// One more than the peak in parts per million; 0 where nothing was ever used.
    above_peak_ppm: u64,
}

impl Internal {
    #[inline]
    fn see(&mut self, requested: u64, occupied: u64) {
        if occupied > 0 {
            let value_ppm = ppm(occupied - requested, occupied);
            self.above_peak_ppm = self.above_peak_ppm.max(value_ppm + 1);
        }
    }

    fn peak_ppm(&self) -> Option<u64> {
        self.above_peak_ppm.checked_sub(1)
    }
}

impl Observer for Summary {
    #[inline]
    fn see(&mut self, moment: &Moment<'_>) {
        let requested = moment.totals.requested_bytes;
        let counters = moment.space.counters();
        self.span_ns.get_or_insert((moment.time_ns, 0)).1 = moment.time_ns;
        self.peak_requested_bytes = self.peak_requested_bytes.max(requested);
        self.external
            .see(counters.free_bytes, moment.largest_free_bytes);
        self.internal.see(requested, counters.used_bytes);
        self.overhead.see(requested, moment.footprint_bytes);
        self.uses += u64::from(matches!(moment.event, Event::Use { .. }));
        match moment.outcome {
            Outcome::Failed(_) => {
                self.first_failure.get_or_insert(moment.index);
            }
            Outcome::ServedInstant { .. } => {
                if let Event::Attempt { bytes, .. } = *moment.event {
                    self.instant(requested + bytes, moment.footprint_bytes);
                }
            }
            _ => {}
        }
    }

    fn wants_moments(&self) -> bool {
        false
    }

    #[inline]
    fn see_run(&mut self, run: &Run<'_>) {
        let (first_ns, last_ns) = run.span_ns();
        self.span_ns.get_or_insert((first_ns, 0)).1 = last_ns;
        let columns = run.glances.columns();
        let sums = sums::of(&columns, self.internal.above_peak_ppm);
        self.external.see_all(&sums);
        self.overhead
            .see_all(sums.overhead_ppm, sums.overhead_count);
        // Most runs bring no new peak; one that may is gone through event by event.
        if sums.internal_rises {
            self.see_internal(&columns);
        }
        let most = (sums.most_live_bytes, sums.most_held_bytes);
        self.overhead
            .see_peaks(columns.requested_bytes, columns.footprint_bytes, most);
        self.peak_requested_bytes = self.peak_requested_bytes.max(sums.most_live_bytes);
    }
}

impl Summary {
    #[inline(never)]
    fn see_internal(&mut self, columns: &Columns<'_>) {
        for (requested, used) in columns.requested_bytes.iter().zip(columns.used_bytes) {
            self.internal.see(*requested, *used);
        }
    }

    /// What an attempt held until it was given back within its event.
    #[cold]
    fn instant(&mut self, live_bytes: u64, footprint_bytes: u64) {
        self.peak_requested_bytes = self.peak_requested_bytes.max(live_bytes);
        let held_bytes = footprint_bytes.max(live_bytes);
        self.overhead.see_peak(live_bytes, held_bytes);
    }

    /// The row of a finished replay.
    #[must_use]
    pub fn row(&self, replay: &Replay, labels: Labels<'_>) -> Row {
        let counters = replay.space().counters();
        let totals = replay.totals();
        let tallies = replay.policy().tallies();
        let space = replay.space();
        let capacity_bytes = space.capacity_bytes() - space.host_bytes();
        let footprint_bytes = if replay.takes_all() {
            counters.high_water_bytes
        } else {
            counters.peak_reserved_bytes
        };
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
            peak_occupied_bytes: counters.peak_used_bytes,
            peak_reserved_bytes: counters.peak_reserved_bytes,
            high_water_bytes: counters.high_water_bytes,
            peak_external_fragmentation_ppm: self.external.peak_ppm(),
            mean_external_fragmentation_ppm: self.external.mean_ppm(),
            peak_internal_fragmentation_ppm: self.internal.peak_ppm(),
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
            peak_utilisation_ppm: ppm(counters.peak_used_bytes, capacity_bytes),
            success_ppm: success_ppm(totals.served, totals.failed),
            driver_calls: counters.driver_calls,
            cost_ns: counters.cost_ns,
            lower_bound_bytes: labels.lower_bound_bytes,
            seed: labels.seed,
            compactions_held_back: tallies.held_back,
            counterfactual_requests: totals.instants,
            footprint_bytes,
            memory_efficiency_ppm: (footprint_bytes > 0)
                .then(|| ppm(self.peak_requested_bytes, footprint_bytes)),
            mean_overhead_ppm: self.overhead.mean_ppm(),
            overhead_at_peak_requested_ppm: self.overhead.at_most_live_ppm(),
            overhead_at_peak_footprint_ppm: self.overhead.at_most_held_ppm(),
            peak_overhead_ppm: self.overhead.peaks_ppm(),
            first_counterfactual_event: totals.first_instant,
            paged_bytes: counters.paged_bytes,
            uses: self.uses,
            trace_ns: self
                .span_ns
                .map_or(0, |(first, last)| last.saturating_sub(first)),
            longest_pause_ns: tallies.longest_pause_ns,
            // Bounds are found beside the replay, not in it.
            ..Row::default()
        }
    }
}

/// Requests served of those that could be: requests of no bytes are left out.
fn success_ppm(served: u64, failed: u64) -> u64 {
    if served + failed == 0 {
        return 1_000_000;
    }
    ppm(served, served + failed)
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

#[cfg(test)]
mod tests;
