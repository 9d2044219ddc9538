//! Recordings that tell where each block lay, but not where segments began.
//!
//! The base of a segment is learned from the first block placed in it. A segment that a
//! request makes gets the recorded address of that request, since all modelled
//! allocators hand out the low part of new memory; what a policy takes at its start is
//! found by a first run, and the comparison runs again with those bases. A base that
//! was learned decides nothing but itself: every other address in the segment, and the
//! order of segments, is predicted.

use serde::Serialize;

use super::{FidelityError, FidelityRow};
use crate::policy::Policy;
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::{AddressOrder, SegmentId, Space, SpaceConfig, StepKind};
use crate::trace::truth::{TruthEntry, TruthKind};
use crate::trace::{Event, Trace};

/// How often a run may be repeated to find the bases of the start.
const ROUNDS: usize = 4;

/// Builds the policy anew for each run.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Policy>;

/// What a comparison came to; all counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct RelativeRow {
    /// Name of the trace.
    pub recording: String,
    /// The policy as it was given.
    pub policy: String,
    /// Recorded placements.
    pub allocations: u64,
    /// Those that the model met.
    pub addresses_matched: u64,
    /// Of these, first placements of a segment: its base was learned from them.
    pub bases_learned: u64,
    /// Recorded failures.
    pub failures: u64,
    /// Those that the model met.
    pub failures_matched: u64,
    /// Recorded sums (used, reserved, largest free).
    pub sums: u64,
    /// Those that the model met.
    pub sums_matched: u64,
    /// Most bytes that the model reserved.
    pub peak_reserved_bytes: u64,
    /// The first difference, in words.
    pub first_divergence: Option<String>,
    /// Number of its event.
    #[serde(skip)]
    pub diverges_at: Option<u64>,
}

impl RelativeRow {
    /// Whether the model met everything that the recording shows.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.first_divergence.is_none()
    }
}

impl From<RelativeRow> for FidelityRow {
    /// The row as the command prints it: each segment's base is an address that was fed.
    fn from(row: RelativeRow) -> Self {
        FidelityRow {
            recording: row.recording,
            policy: row.policy,
            allocations: row.allocations,
            addresses_matched: row.addresses_matched,
            failures: row.failures,
            failures_matched: row.failures_matched,
            peak_reserved_bytes: row.peak_reserved_bytes,
            first_divergence: row.first_divergence,
            diverges_at: row.diverges_at,
            driver_addresses_fed: row.bases_learned,
            ..FidelityRow::default()
        }
    }
}

/// Whether the recording shows addresses but not the driver's segments, so that the base of
/// each must be learned from what was placed in it.
#[must_use]
pub fn applies(trace: &Trace) -> bool {
    trace.truth.as_deref().is_some_and(|truth| {
        let shows = |kind: TruthKind| truth.entries.iter().any(|fact| fact.kind == kind);
        truth.initial.is_empty()
            && shows(TruthKind::Alloc)
            && !shows(TruthKind::SegmentAlloc)
            && !shows(TruthKind::SegmentMap)
            && !shows(TruthKind::DeviceFreeAfter)
    })
}

/// Compares the policy's placements with recorded ones, relative to each segment.
///
/// # Errors
/// No recorded addresses, or a policy that cannot take what it starts with.
///
/// # Panics
/// If the policy breaks a rule of the Space.
pub fn check(
    trace: &Trace,
    label: &str,
    make: Make<'_>,
    config: &SpaceConfig,
) -> Result<RelativeRow, FidelityError> {
    let facts = Facts::of(trace)?;
    let mut bases = Vec::new();
    for _ in 0..ROUNDS {
        let learned = Run::start(trace, make(), config, &bases)?.learn(trace, &facts);
        if learned == bases {
            break;
        }
        bases = learned;
    }
    let mut run = Run::start(trace, make(), config, &bases)?;
    let mut judge = Judge {
        row: RelativeRow {
            recording: trace.name.clone(),
            policy: label.to_owned(),
            bases_learned: bases.len() as u64,
            ..RelativeRow::default()
        },
        facts: &[],
    };
    run.feed(trace, &facts, &mut judge);
    judge.row.peak_reserved_bytes = run.replay.space().counters().peak_reserved_bytes;
    Ok(judge.row)
}

/// The recorded facts, found by event.
struct Facts<'a>(&'a [TruthEntry]);

impl<'a> Facts<'a> {
    fn of(trace: &'a Trace) -> Result<Self, FidelityError> {
        let truth = trace.truth.as_deref();
        let truth = truth.ok_or_else(|| FidelityError::NoTruth(trace.name.clone()))?;
        Ok(Facts(&truth.entries))
    }

    fn at(&self, event: usize) -> &'a [TruthEntry] {
        let from = self.0.partition_point(|fact| (fact.event as usize) < event);
        let to = self.0.partition_point(|fact| fact.event as usize <= event);
        &self.0[from..to]
    }
}

fn address(facts: &[TruthEntry]) -> Option<u64> {
    let placed = facts.iter().find(|fact| fact.kind == TruthKind::Alloc);
    placed.map(|fact| fact.address)
}

/// A replay whose new segments begin where their first block was recorded.
struct Run {
    replay: Replay,
    /// What was mapped at the start, in order: segment and base.
    at_start: Vec<(SegmentId, u64)>,
}

impl Run {
    fn start(
        trace: &Trace,
        policy: Box<dyn Policy>,
        config: &SpaceConfig,
        bases: &[u64],
    ) -> Result<Self, FidelityError> {
        let config = SpaceConfig {
            addresses: AddressOrder::Given(bases.to_vec()),
            record_steps: true,
            streams: trace.streams.len(),
            ..config.clone()
        };
        let mut replay = Replay::new(policy, config)
            .map_err(|shortage| FidelityError::NoStart(shortage.wanted_bytes))?;
        replay.name_streams(&trace.streams);
        let mapped = |step: &crate::space::Step| match step.kind {
            StepKind::Map(segment) => Some((segment, step.address)),
            _ => None,
        };
        let at_start = replay.space().steps().iter().filter_map(mapped).collect();
        Ok(Run { replay, at_start })
    }

    fn feed<'a, O: Watch<'a>>(&mut self, trace: &Trace, facts: &Facts<'a>, watch: &mut O) {
        for index in 0..trace.events.len() {
            let facts = facts.at(index);
            let fed: Vec<u64> = address(facts).into_iter().collect();
            self.replay.feed_addresses(&fed, &[]);
            watch.expect(facts);
            let time = [trace.time_ns(index)];
            self.replay.feed(&trace.events[index..=index], &time, watch);
        }
    }

    /// The bases of what was mapped at the start, as the first blocks in them tell.
    fn learn(mut self, trace: &Trace, facts: &Facts<'_>) -> Vec<u64> {
        let mut learner = Learner {
            found: vec![None; self.at_start.len()],
            at_start: self.at_start.clone(),
            facts: &[],
        };
        self.feed(trace, facts, &mut learner);
        let known = learner.found.iter().zip(&self.at_start);
        known
            .map(|(found, (_, base))| found.unwrap_or(*base))
            .collect()
    }
}

/// Looks on, and is told beforehand what was recorded of the event.
trait Watch<'a>: Observer {
    fn expect(&mut self, facts: &'a [TruthEntry]);
}

struct Learner<'a> {
    at_start: Vec<(SegmentId, u64)>,
    found: Vec<Option<u64>>,
    facts: &'a [TruthEntry],
}

impl<'a> Watch<'a> for Learner<'a> {
    fn expect(&mut self, facts: &'a [TruthEntry]) {
        self.facts = facts;
    }
}

impl Observer for Learner<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        let (Outcome::Served(block), Some(address)) = (moment.outcome, address(self.facts)) else {
            return;
        };
        let segment = moment.space.segment(block);
        let at = self
            .at_start
            .iter()
            .position(|(known, _)| *known == segment);
        if let Some(at) = at {
            let offset = moment.space.base(block) - self.at_start[at].1;
            self.found[at].get_or_insert(address.wrapping_sub(offset));
        }
    }
}

struct Judge<'a> {
    row: RelativeRow,
    facts: &'a [TruthEntry],
}

impl<'a> Watch<'a> for Judge<'a> {
    fn expect(&mut self, facts: &'a [TruthEntry]) {
        self.facts = facts;
    }
}

impl Judge<'_> {
    fn diverge(&mut self, moment: &Moment<'_>, what: String) {
        if self.row.first_divergence.is_none() {
            self.row.first_divergence = Some(format!("event {}: {what}", moment.index));
            self.row.diverges_at = Some(moment.index);
        }
    }

    fn placed(&mut self, fact: &TruthEntry, moment: &Moment<'_>) {
        self.row.allocations += 1;
        let (wanted, bytes) = (fact.address, fact.bytes);
        match moment.outcome {
            Outcome::Served(block) if moment.space.base(block) == wanted => {
                self.row.addresses_matched += 1;
            }
            Outcome::Served(block) => {
                let base = moment.space.base(block);
                let what = format!("{bytes} bytes at 0x{base:x}, recorded at 0x{wanted:x}");
                self.diverge(moment, what);
            }
            _ => self.diverge(
                moment,
                format!("{bytes} bytes not served, recorded as served"),
            ),
        }
    }

    fn sum(&mut self, fact: &TruthEntry, moment: &Moment<'_>) {
        let counters = moment.space.counters();
        let (name, made) = match fact.kind {
            TruthKind::UsedAfter => ("used", counters.used_bytes),
            TruthKind::ReservedAfter => ("reserved", counters.reserved_bytes),
            TruthKind::LargestFreeAfter => ("largest free", moment.largest_free_bytes),
            _ => return,
        };
        self.row.sums += 1;
        if made == fact.bytes {
            self.row.sums_matched += 1;
        } else {
            self.diverge(
                moment,
                format!("{name} {made} bytes, recorded {}", fact.bytes),
            );
        }
    }

    /// Segments made by the event: each is new ground, or the model is wrong.
    fn segments(&mut self, moment: &Moment<'_>) {
        for step in moment.space.steps() {
            if let StepKind::Map(segment) = step.kind {
                self.row.bases_learned += 1;
                if overlaps(segment, moment.space) {
                    let (base, bytes) = (step.address, step.bytes);
                    let what = format!("a segment of {bytes} bytes at 0x{base:x}, in use already");
                    self.diverge(moment, what);
                }
            }
        }
    }
}

fn overlaps(segment: SegmentId, space: &Space) -> bool {
    let range = |segment: SegmentId| {
        let base = space.segment_base(segment);
        (base, base + space.segment_bytes(segment))
    };
    let (from, to) = range(segment);
    let mut others = space
        .segments()
        .filter(|other| *other != segment)
        .map(range);
    others.any(|(base, end)| base < to && from < end)
}

impl Observer for Judge<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        self.segments(moment);
        if let Event::Attempt { bytes, .. } = moment.event {
            self.row.failures += 1;
            if let Outcome::Failed(_) = moment.outcome {
                self.row.failures_matched += 1;
            } else {
                self.diverge(
                    moment,
                    format!("{bytes} bytes served, recorded as a failure"),
                );
            }
        }
        for fact in self.facts {
            if fact.kind == TruthKind::Alloc {
                self.placed(fact, moment);
            } else {
                self.sum(fact, moment);
            }
        }
    }
}
