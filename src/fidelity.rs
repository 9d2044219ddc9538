//! A model against a recording, event by event: addresses, segments, failures, the end.
//!
//! Only what a model cannot know is fed from the recording: the driver's addresses, the
//! ends of delayed frees and the moments of emptied caches (both are events of the
//! trace). Everything else is predicted and compared.

mod facts;
pub mod relative;

use std::sync::Arc;

use serde::Serialize;

pub use facts::recorded_peak_bytes;
use facts::{final_blocks, made_changes, recorded_blocks, recorded_changes};

use crate::policy::Policy;
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::{AddressOrder, Device, SpaceConfig};
use crate::trace::truth::{TruthEntry, TruthKind};
use crate::trace::{Trace, Truth};

/// One row a recording; names as in csv and JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[allow(
    missing_docs,
    reason = "each column is defined once, in docs/metrics.md"
)]
pub struct FidelityRow {
    pub recording: String,
    pub policy: String,
    pub allocations: u64,
    pub addresses_matched: u64,
    pub segments: u64,
    pub segments_matched: u64,
    pub failures: u64,
    pub failures_matched: u64,
    pub peak_reserved_bytes: u64,
    pub recorded_peak_reserved_bytes: u64,
    pub first_divergence: Option<String>,
    pub final_blocks: u64,
    pub final_blocks_matched: u64,
    pub driver_addresses_fed: u64,
    pub completions_fed: u64,
    pub trims_fed: u64,
    pub served_instead: u64,
    pub device_free: u64,
    pub device_free_matched: u64,
    /// Number of the event of the first divergence, which its text begins with.
    #[serde(skip)]
    pub diverges_at: Option<u64>,
}

impl FidelityRow {
    /// Whether the model met everything that the recording shows.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.first_divergence.is_none()
    }
}

/// Why a recording could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FidelityError {
    /// The trace carries no recorded truth.
    #[error(
        "trace '{0}' holds no recorded addresses; give the recording itself (a PyTorch snapshot, \
         a log of RMM, a csv with addresses), or a .vlt made from it"
    )]
    NoTruth(String),
    /// The policy cannot take over a state that it did not make.
    #[error(
        "recording '{0}' begins in the middle of a run, and this policy cannot take over what was \
         there; record from the start of the program"
    )]
    NoAdoption(String),
    /// The policy could not start.
    #[error("the policy could not take the {0} bytes that it starts with")]
    NoStart(u64),
}

/// The policy that a recording says it ran under, as `--policy` takes it; `None` where it
/// does not say.
#[must_use]
pub fn recorded_policy(trace: &Trace) -> Option<String> {
    let truth = trace.truth.as_deref()?;
    let told = |name: &str| truth.settings.iter().find(|(known, _)| known == name);
    let (_, conf) = told("PYTORCH_CUDA_ALLOC_CONF")?;
    let quoted = |letter: char| matches!(letter, '\'' | '"');
    Some(match conf.trim_matches(quoted) {
        "" => "pytorch".to_owned(),
        conf => format!("pytorch:{conf}"),
    })
}

/// Compares a policy on a card with what `trace` recorded, relative to each segment where
/// the recording does not show the driver's. The capacity is that of the recording, or else
/// the card's, where `capacity_bytes` does not tell it.
///
/// # Errors
/// [`FidelityError`].
///
/// # Panics
/// If the policy breaks a rule of the Space.
pub fn compare(
    trace: &Trace,
    label: &str,
    make: relative::Make<'_>,
    device: &Arc<Device>,
    capacity_bytes: Option<u64>,
) -> Result<FidelityRow, FidelityError> {
    let config = SpaceConfig {
        device: Arc::clone(device),
        capacity_bytes: capacity_bytes
            .or(trace.capacity_bytes)
            .unwrap_or(device.total_bytes),
        blind: false,
        streams: trace.streams.len(),
        addresses: AddressOrder::Recorded,
        record_steps: true,
    };
    if relative::applies(trace) {
        return relative::check(trace, label, make, &config).map(Into::into);
    }
    check(trace, label, make(), config).map(|checked| checked.row)
}

/// The result of a check: its row, and the model at the end.
pub struct Checked {
    /// The row.
    pub row: FidelityRow,
    /// The replay after the last event.
    pub replay: Replay,
}

/// Replays the requests of `trace` through `policy` and compares with what it recorded.
///
/// # Errors
/// [`FidelityError`].
///
/// # Panics
/// If the policy breaks a rule of the Space.
pub fn check(
    trace: &Trace,
    label: &str,
    policy: Box<dyn Policy>,
    config: SpaceConfig,
) -> Result<Checked, FidelityError> {
    let truth = trace
        .truth
        .as_deref()
        .ok_or_else(|| FidelityError::NoTruth(trace.name.clone()))?;
    let mut replay = start(trace, policy, config)?;
    let mut judge = Judge::new(trace, truth, label);
    judge.maps_each = replay.policy().maps_each();
    let mut along = Along::new(truth);
    for index in trace.initial_events..trace.events.len() {
        let (facts, maps) = along.prepare(index, &mut replay);
        judge.row.driver_addresses_fed += maps;
        judge.facts = facts;
        judge.index = index;
        let time = [trace.time_ns(index)];
        replay.feed(&trace.events[index..=index], &time, &mut judge);
    }
    judge.finish(&replay);
    Ok(Checked {
        row: judge.row,
        replay,
    })
}

/// Starts a policy in the state in which a recording began; its steps are recorded. The
/// first event to be fed is that of [`Trace::initial_events`].
///
/// # Errors
/// [`FidelityError`]: the policy could not start, or cannot take over what was there.
///
/// # Panics
/// If the policy breaks a rule of the Space.
pub fn start(
    trace: &Trace,
    policy: Box<dyn Policy>,
    config: SpaceConfig,
) -> Result<Replay, FidelityError> {
    let config = SpaceConfig {
        record_steps: true,
        ..config
    };
    let mut replay = Replay::new(policy, config)
        .map_err(|shortage| FidelityError::NoStart(shortage.wanted_bytes))?;
    replay.name_streams(&trace.streams);
    let initial = trace.truth.as_deref().map_or(&[][..], |it| &it.initial);
    if !initial.is_empty() && !replay.adopt(initial) {
        return Err(FidelityError::NoAdoption(trace.name.clone()));
    }
    Ok(replay)
}

/// Leads a replay along a recording: the facts are handed out event by event, and the
/// driver's addresses among them to the replay.
pub struct Along<'a> {
    entries: &'a [TruthEntry],
    at: usize,
}

impl<'a> Along<'a> {
    /// Begins before the first event.
    #[must_use]
    pub fn new(truth: &'a Truth) -> Self {
        Along {
            entries: &truth.entries,
            at: 0,
        }
    }

    /// Hands the driver's addresses of the event to the replay, which is to be fed with it
    /// next; tells the facts of the event, and how many mappings have an address.
    pub fn prepare(&mut self, event: usize, replay: &mut Replay) -> (&'a [TruthEntry], u64) {
        let rest = &self.entries[self.at..];
        let from = self.at + rest.partition_point(|fact| (fact.event as usize) < event);
        let rest = &self.entries[from..];
        self.at = from + rest.partition_point(|fact| fact.event as usize == event);
        let facts = &self.entries[from..self.at];
        let addresses = |kind: TruthKind| -> Vec<u64> {
            let told = facts.iter().filter(|fact| fact.kind == kind);
            told.map(|fact| fact.address).collect()
        };
        let maps = addresses(if replay.policy().maps_each() {
            TruthKind::Alloc
        } else {
            TruthKind::SegmentAlloc
        });
        replay.feed_addresses(&maps, &addresses(TruthKind::SegmentMap));
        (facts, maps.len() as u64)
    }
}

/// Compares each moment with the facts of its event.
struct Judge<'a> {
    truth: &'a Truth,
    row: FidelityRow,
    facts: &'a [TruthEntry],
    index: usize,
    /// Requests are the driver's own: there are no segments beside them.
    maps_each: bool,
    /// What is free on an empty card; the first fact of it tells what others hold.
    free_when_empty_bytes: Option<u64>,
}

impl<'a> Judge<'a> {
    fn new(trace: &Trace, truth: &'a Truth, label: &str) -> Self {
        let row = FidelityRow {
            recording: trace.name.clone(),
            policy: label.to_owned(),
            recorded_peak_reserved_bytes: recorded_peak_bytes(truth),
            ..FidelityRow::default()
        };
        Judge {
            truth,
            row,
            facts: &[],
            index: 0,
            maps_each: false,
            free_when_empty_bytes: None,
        }
    }

    fn diverge(&mut self, what: String) {
        if self.row.first_divergence.is_none() {
            self.row.first_divergence = Some(format!("event {}: {what}", self.index));
            self.row.diverges_at = Some(self.index as u64);
        }
    }

    fn address(&mut self, fact: &TruthEntry, moment: &Moment<'_>) {
        self.row.allocations += 1;
        match moment.outcome {
            Outcome::Served(block) if moment.space.base(block) == fact.address => {
                self.row.addresses_matched += 1;
            }
            Outcome::Served(block) => self.diverge(format!(
                "{} bytes at 0x{:x}, recorded at 0x{:x}",
                fact.bytes,
                moment.space.base(block),
                fact.address
            )),
            _ => self.diverge(format!(
                "{} bytes not served, recorded at 0x{:x}",
                fact.bytes, fact.address
            )),
        }
    }

    fn failure(&mut self, fact: &TruthEntry, moment: &Moment<'_>) {
        self.row.failures += 1;
        match moment.outcome {
            Outcome::Failed(shortage) if shortage.wanted_bytes == fact.bytes => {
                self.row.failures_matched += 1;
            }
            Outcome::Failed(shortage) => self.diverge(format!(
                "a failure of {} bytes, recorded as one of {}",
                shortage.wanted_bytes, fact.bytes
            )),
            _ => {
                self.row.served_instead += 1;
                self.diverge(format!(
                    "{} bytes served, recorded as a failure",
                    fact.bytes
                ));
            }
        }
    }

    /// Segment events of one event: growth in order, releases as a set (the order of
    /// releases hangs on hash maps of the real allocator).
    fn segments(&mut self, moment: &Moment<'_>) {
        if self.maps_each {
            return;
        }
        let recorded = recorded_changes(self.facts);
        let made = made_changes(moment.space);
        if recorded.is_empty() && made.is_empty() {
            return;
        }
        self.row.segments += recorded.len() as u64;
        let matched = recorded
            .iter()
            .filter(|change| made.contains(change))
            .count();
        self.row.segments_matched += matched as u64;
        if recorded != made {
            self.diverge(format!("driver calls {made:x?}, recorded {recorded:x?}"));
        }
    }

    fn finish(&mut self, replay: &Replay) {
        self.row.peak_reserved_bytes = replay.space().counters().peak_reserved_bytes;
        self.index += 1;
        let made = final_blocks(replay.space());
        for segment in &self.truth.last {
            for block in recorded_blocks(segment) {
                self.row.final_blocks += 1;
                if made.binary_search(&block).is_ok() {
                    self.row.final_blocks_matched += 1;
                } else {
                    self.diverge(format!("the last state has no block {block:x?}"));
                }
            }
        }
        let recorded_peak = self.row.recorded_peak_reserved_bytes;
        if recorded_peak > 0 && self.row.peak_reserved_bytes != recorded_peak {
            self.diverge(format!(
                "peak reserved {}, recorded {recorded_peak}",
                self.row.peak_reserved_bytes
            ));
        }
    }
}

impl Observer for Judge<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        match moment.event {
            crate::trace::Event::Complete { .. } => self.row.completions_fed += 1,
            crate::trace::Event::Trim => self.row.trims_fed += 1,
            _ => {}
        }
        self.segments(moment);
        for fact in self.facts {
            match fact.kind {
                TruthKind::Alloc => self.address(fact, moment),
                TruthKind::Oom => self.failure(fact, moment),
                TruthKind::LargestFreeAfter if fact.bytes != moment.largest_free_bytes => {
                    let made = moment.largest_free_bytes;
                    self.diverge(format!("largest free {made}, recorded {}", fact.bytes));
                }
                TruthKind::UsedAfter | TruthKind::ReservedAfter => self.sums(fact, moment),
                TruthKind::DeviceFreeAfter => self.device_free(fact, moment),
                _ => {}
            }
        }
    }
}

impl Judge<'_> {
    fn device_free(&mut self, fact: &TruthEntry, moment: &Moment<'_>) {
        let taken_bytes = moment.space.counters().page_bytes;
        let empty = *self
            .free_when_empty_bytes
            .get_or_insert(fact.bytes + taken_bytes);
        self.row.device_free += 1;
        if fact.bytes + taken_bytes == empty {
            self.row.device_free_matched += 1;
        } else {
            let made = empty.saturating_sub(taken_bytes);
            self.diverge(format!(
                "{made} bytes free on the card, recorded {}",
                fact.bytes
            ));
        }
    }

    fn sums(&mut self, fact: &TruthEntry, moment: &Moment<'_>) {
        let counters = moment.space.counters();
        let (name, made) = match fact.kind {
            TruthKind::UsedAfter => ("used", counters.used_bytes),
            _ => ("reserved", counters.reserved_bytes),
        };
        if made != fact.bytes {
            self.diverge(format!("{name} {made} bytes, recorded {}", fact.bytes));
        }
    }
}
