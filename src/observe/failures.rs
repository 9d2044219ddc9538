//! Failure records: what a request asked for, how things stood, and one verdict.
//!
//! Verdicts are tried in the order of [`Verdict::ALL`], and the first that holds is the
//! one. Every failure is counted under its verdict; the first ones are kept in full.

mod verdict;

use std::io::Write;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::replay::{Moment, Observer, Outcome};
use crate::space::{OutOfMemory, Request};
use crate::trace::Truth;
use crate::trace::truth::TruthKind;

pub use verdict::Verdict;

/// Full records kept where nothing else is asked for.
const KEEP: usize = 1000;

/// One request that was not served, and the sums of the moment after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Number of the event.
    pub event: u64,
    /// Trace time, ns.
    pub time_ns: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that the policy looked for, after its rounding.
    pub wanted_bytes: u64,
    /// Stream, as the trace numbers it.
    pub stream: u16,
    /// Pool, as the trace numbers it.
    pub pool: u16,
    /// Tag, as the trace numbers it; 0 is none.
    pub tag: u32,
    /// Bytes asked for by live blocks.
    pub requested_bytes: u64,
    /// Bytes of Used blocks.
    pub occupied_bytes: u64,
    /// Bytes mapped from the driver.
    pub reserved_bytes: u64,
    /// Bytes of Free blocks.
    pub free_bytes: u64,
    /// Bytes of the largest Free block.
    pub largest_free_bytes: u64,
    /// Why.
    pub verdict: Verdict,
}

/// Counts failures by verdict, and keeps the first ones in full.
#[derive(Debug, Clone)]
pub struct Failures {
    keep: usize,
    records: Vec<Failure>,
    counts: [u64; Verdict::ALL.len()],
    left_by_others: LeftByOthers,
}

/// What other processes left of the card, as a recording tells it. Many replays share it.
#[derive(Debug, Clone, Default)]
pub struct LeftByOthers(Arc<[Left]>);

/// What they left during one event.
#[derive(Debug, Clone, Copy)]
struct Left {
    event: u32,
    bytes: u64,
}

impl Default for Failures {
    fn default() -> Self {
        Failures::new(KEEP, None)
    }
}

impl Failures {
    /// Keeps the first `keep` records. Without `truth` no failure is put down to other
    /// processes.
    #[must_use]
    pub fn new(keep: usize, truth: Option<&Truth>) -> Self {
        Failures::beside(keep, truth.map(LeftByOthers::of).unwrap_or_default())
    }

    /// Keeps the first `keep` records beside other processes.
    #[must_use]
    pub fn beside(keep: usize, left_by_others: LeftByOthers) -> Self {
        Failures {
            keep,
            records: Vec::new(),
            counts: [0; Verdict::ALL.len()],
            left_by_others,
        }
    }

    /// The first failures, in order.
    #[must_use]
    pub fn records(&self) -> &[Failure] {
        &self.records
    }

    /// Every verdict with how many failures have it, in the order of [`Verdict::ALL`].
    pub fn counts(&self) -> impl Iterator<Item = (Verdict, u64)> + '_ {
        Verdict::ALL.into_iter().zip(self.counts)
    }

    /// How many failures have the verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> u64 {
        self.counts[verdict as usize]
    }

    /// Writes the kept records as csv, with the names of [`Failure`]'s fields.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv(&self, out: impl Write) -> csv::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        for record in &self.records {
            csv.serialize(record)?;
        }
        csv.flush()?;
        Ok(())
    }

    fn record(&mut self, moment: &Moment<'_>, request: &Request, shortage: OutOfMemory) {
        let verdict = verdict::of(
            moment,
            request,
            shortage,
            self.left_by_others.during(moment.index),
        );
        self.counts[verdict as usize] += 1;
        if self.records.len() >= self.keep {
            return;
        }
        let counters = moment.space.counters();
        self.records.push(Failure {
            event: moment.index,
            time_ns: moment.time_ns,
            bytes: request.bytes,
            wanted_bytes: shortage.wanted_bytes,
            stream: request.stream,
            pool: request.pool,
            tag: request.tag,
            requested_bytes: moment.totals.requested_bytes,
            occupied_bytes: counters.used_bytes,
            reserved_bytes: counters.reserved_bytes,
            free_bytes: counters.free_bytes,
            largest_free_bytes: moment.largest_free_bytes,
            verdict,
        });
    }
}

impl Observer for Failures {
    fn see(&mut self, moment: &Moment<'_>) {
        let Outcome::Failed(shortage) = moment.outcome else {
            return;
        };
        if let Some(request) = Request::of(moment.event) {
            self.record(moment, &request, shortage);
        }
    }

    /// What fails is no plain event.
    fn wants_moments(&self) -> bool {
        false
    }
}

impl LeftByOthers {
    /// Recorded reserved plus device-free bytes, for every event that tells both: what the
    /// recorded process could have had of the card.
    #[must_use]
    pub fn of(truth: &Truth) -> Self {
        let mut reserved: Option<u64> = (!truth.initial.is_empty())
            .then(|| truth.initial.iter().map(|segment| segment.bytes).sum());
        let mut left = Vec::new();
        for group in truth.entries.chunk_by(|a, b| a.event == b.event) {
            let mut device_free = None;
            for entry in group {
                let known = reserved.unwrap_or(0);
                match entry.kind {
                    TruthKind::SegmentAlloc | TruthKind::SegmentMap => {
                        reserved = Some(known.saturating_add(entry.bytes));
                    }
                    TruthKind::SegmentFree | TruthKind::SegmentUnmap => {
                        reserved = Some(known.saturating_sub(entry.bytes));
                    }
                    TruthKind::ReservedAfter => reserved = Some(entry.bytes),
                    // 0 stands for a recording that does not tell.
                    TruthKind::Oom if entry.address > 0 => device_free = Some(entry.address),
                    TruthKind::DeviceFreeAfter => device_free = Some(entry.bytes),
                    _ => {}
                }
            }
            if let (Some(reserved), Some(free)) = (reserved, device_free) {
                left.push(Left {
                    event: group[0].event,
                    bytes: reserved.saturating_add(free),
                });
            }
        }
        LeftByOthers(left.into())
    }

    fn during(&self, event: u64) -> Option<u64> {
        let at = self
            .0
            .binary_search_by_key(&event, |left| u64::from(left.event));
        at.ok().map(|at| self.0[at].bytes)
    }
}

#[cfg(test)]
mod tests;
