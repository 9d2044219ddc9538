//! What the importer says: counts of what was inferred and of what a recording does not
//! hold or a trace does not carry, in sentences.

use crate::trace::ImportReport;
use crate::trace::snapshot::Snapshot;

use super::boundary::Inference;
use super::clock::Clock;
use super::rewind::Start;

/// What a pass over the entries met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(
    missing_docs,
    reason = "each count is told by the sentence that reports it"
)]
pub(super) struct Counts {
    pub initial_live: u64,
    pub initial_pending: u64,
    pub emptied: u64,
    pub emptied_before_growth: u64,
    pub retries: u64,
    pub collected: u64,
    pub ooms: u64,
    pub deferred: u64,
    pub marks: u64,
    pub snapshots: u64,
    pub annotates: u64,
    pub unknown_actions: u64,
    pub unfreed: u64,
    pub freed_again: u64,
    pub freed_unknown: u64,
    pub unrequested: u64,
    pub orphan_completions: u64,
    pub inferred_frees: u64,
    pub freed_at_end: u64,
}

impl Counts {
    /// What was inferred from the entries, and what they lack.
    pub fn tell(&self, report: &mut ImportReport) {
        for (count, what) in self.inferred().into_iter().chain(self.left_out()) {
            report.note(count, what);
        }
    }

    fn inferred(&self) -> [(u64, &'static str); 12] {
        [
            (
                self.initial_live,
                "allocations were live before the first entry; rebuilt by undoing the trace from the final segments, they lead the trace",
            ),
            (
                self.initial_pending,
                "of them had been freed already, with a stream still using them",
            ),
            (
                self.emptied,
                "emptied caches inferred: segments went back with neither a growth nor a failure after them",
            ),
            (
                self.emptied_before_growth,
                "emptied caches inferred before a growth that, as far as the file tells, had room without them",
            ),
            (
                self.retries,
                "retries inferred: segments went back so that a growth found room under the cap; no event, a model makes them by itself",
            ),
            (
                self.collected,
                "groups of segments went back by garbage collection or the release of oversized blocks; no event, a model makes them by itself",
            ),
            (
                self.ooms,
                "requests failed when recorded; the file has only their rounded sizes",
            ),
            (
                self.deferred,
                "frees were delayed by another stream's use (record_stream); the use itself is not recorded",
            ),
            (
                self.unfreed,
                "allocations at a place that was still live: the missing free is put just before",
            ),
            (
                self.inferred_frees,
                "frees inferred where a place was used again: the file holds no frees (skip_actions)",
            ),
            (
                self.freed_at_end,
                "of them put at the end: the final segments no longer show the block, the moment is unknown",
            ),
            (
                self.unrequested,
                "frees taken from free_completed alone: the file lacks their free_requested (skip_actions, or lost entries)",
            ),
        ]
    }

    fn left_out(&self) -> [(u64, &'static str); 6] {
        [
            (
                self.freed_again,
                "frees of blocks already freed: kept as double frees",
            ),
            (
                self.freed_unknown,
                "frees of blocks never seen: kept as unknown frees",
            ),
            (
                self.orphan_completions,
                "completions of frees never requested: left out",
            ),
            (
                self.snapshots,
                "snapshot entries left out: they change nothing",
            ),
            (
                self.annotates,
                "annotate entries left out: notes on live allocations",
            ),
            (
                self.unknown_actions,
                "entries of unknown actions left out; see the reader's notes",
            ),
        ]
    }
}

/// What rebuilding the state before the first entry met.
pub(super) fn tell_start(start: &Start, inference: Inference, report: &mut ImportReport) {
    report.note(
        inference.inferred,
        "blocks live before the first entry whose size an allocation behind them showed",
    );
    report.note(
        inference.guessed,
        "blocks live before the first entry whose size nothing tells: taken without slack",
    );
    report.note(
        inference.homeless,
        "blocks live before the first entry in no recorded segment",
    );
    report.note(
        start.contradictions,
        "entries contradict the final segments or each other: lost or left-out entries, or threads that ran on while the snapshot was taken",
    );
    report.note(
        start.stray_segments,
        "segment entries whose segment is not where it should be: lost or left-out entries",
    );
    report.note(
        start.poolless_segments,
        "segments given back whose pool is not recorded before PyTorch 2.12: taken as the default pool",
    );
}

/// What the times and annotations of the file give.
pub(super) fn tell_times(
    snapshot: &Snapshot,
    device: u32,
    clock: Option<Clock>,
    report: &mut ImportReport,
) {
    let of_device = |stage: &str| {
        let found = snapshot.annotations.iter();
        found
            .filter(|annotation| {
                annotation.device == device && (annotation.stage == "START") == (stage == "START")
            })
            .count() as u64
    };
    report.note(
        of_device("END"),
        "ends of annotated ranges left out; their beginnings are marks",
    );
    match clock {
        None => report.note(
            of_device("START"),
            "annotations left out: the entries have no times to place them by",
        ),
        Some(clock) => {
            report.note(
                clock.steps_back,
                "times ran backwards: raised to the latest time before them",
            );
            report.note(
                clock.timeless,
                "entries without a time got that of the entry before",
            );
        }
    }
}

/// What no entry of `snapshot` records, and what the reader of the file left out.
pub(super) fn tell_file(snapshot: &Snapshot, device: u32, report: &mut ImportReport) {
    if snapshot.settings.is_none() {
        report.note(
            1,
            "the file has no allocator settings (before PyTorch 2.3): the defaults are assumed",
        );
    }
    let private = snapshot.segments.iter().filter(|segment| {
        let pool = segment.pool.map(|pool| snapshot.tables.pool(pool));
        segment.device == device && pool.is_some_and(|pool| pool != (0, 0))
    });
    report.note(
        private.count() as u64,
        "segments belong to private pools (CUDA graphs, MemPool); when a pool began, ended and was released is not recorded",
    );
    for (key, count) in &snapshot.ignored_keys {
        report.note(
            *count,
            format!("values of the unknown key '{key}' left out"),
        );
    }
    for (action, count) in &snapshot.unknown_actions {
        report.note(*count, format!("entries of the unknown action '{action}'"));
    }
    for note in &snapshot.notes {
        report.note(1, note.clone());
    }
}
