//! Why a request was not served, what was in the way, and what would have helped.
//!
//! [`explain`] makes an [`Explanation`]: plain data, for words, JSON and pages alike. Every
//! claim in it that a replay can prove was proven by one: the blockers, what a trim gives
//! back, which settings would have served the request, and at which price.

mod blockers;
mod candidates;
mod data;
mod findings;
mod growth;
mod ledger;
mod memory;
mod remedies;
mod setup;
mod stage;
pub mod words;

pub use blockers::Effort;
pub use data::{
    Asked, At, Basis, Blocker, Blockers, Explanation, Fewest, Found, MAP_LETTERS, Memory, Reason,
    SegmentSums, Share, SizeClass, Sums, Why,
};
pub use findings::{Cached, Growth, Holder, Holders, Leaks, PartedBy, Remedies, Remedy};
pub use setup::{Given, Setup, set_up};

use ledger::{Change, Ledger, Scan, Taken};
use stage::Stage;

use crate::experiment::RecordError;
use crate::fidelity::{self, FidelityError};
use crate::policy::{Chosen, PolicyError, Registry};
use crate::space::{AddressOrder, Request, SpaceConfig};
use crate::trace::{Event, Trace};

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The policy could not be built or started, or broke a rule.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The policy cannot follow the recording.
    #[error(transparent)]
    Fidelity(#[from] FidelityError),
    /// The trace holds nothing.
    #[error("trace '{0}' holds no events: there is nothing to explain")]
    Empty(String),
    /// There is no such event.
    #[error("trace '{trace}' has no event {event}: its events are {first} to {last}")]
    NoSuchEvent {
        /// The trace.
        trace: String,
        /// The event that was asked for.
        event: u64,
        /// The first that can be.
        first: u64,
        /// The last that can be.
        last: u64,
    },
}

impl From<PolicyError> for ExplainError {
    fn from(error: PolicyError) -> Self {
        RecordError::from(error).into()
    }
}

/// What is to be explained, and how hard to look.
#[derive(Clone, Default)]
pub struct Question {
    /// The event; else the one that is worth it, see [`Why`].
    pub event: Option<u64>,
    /// The policies to try; else a short list.
    pub others: Option<Vec<Chosen>>,
    /// How much may be tried to find the blockers.
    pub effort: Effort,
}

/// Explains a moment of a trace.
///
/// # Errors
/// [`ExplainError`].
pub fn explain(
    setup: &Setup,
    registry: &Registry,
    question: &Question,
) -> Result<Explanation, ExplainError> {
    let scene = &setup.scene;
    let trace: &Trace = &scene.trace;
    let stage = Stage {
        scene,
        registry,
        chosen: &setup.chosen,
        along: setup.along,
    };
    let moment = moment(&stage, question.event)?;
    let event = moment.event;
    let (taken, changes) = take(&stage, event)?;
    let memory = memory::memory(&taken, trace);
    let failure = taken.failure.as_ref();
    let reason = failure.map(|it| words::reason(it, &memory, scene.capacity.bytes));
    let verdict = reason.as_ref().map(|reason| reason.verdict);
    let others = match &question.others {
        Some(others) => others.clone(),
        None => remedies::short_list(registry, &setup.chosen, verdict)?,
    };
    let until = changes.partition_point(|change| change.event <= event);
    let mut leaks = growth::leaks(trace, &changes, stage.first() as u64);
    leaks.cached = cached(&stage, event as usize)?;
    let mut explanation = Explanation {
        trace: trace.name.clone(),
        events: trace.events.len() as u64,
        has_times: trace.has_times(),
        policy: setup.chosen.label.clone(),
        basis: basis(&stage)?,
        capacity_bytes: scene.capacity.bytes,
        capacity_from: setup.capacity_from.clone(),
        card: scene.device.name.clone(),
        asked: asked(&stage, event as usize, &taken)?,
        memory,
        blockers: find_blockers(&stage, event as usize, &taken, question.effort)?,
        reason,
        holders: growth::holders(trace, &changes[..until], moment.time_ns),
        leaks,
        remedies: remedies::remedies(scene, registry, &setup.chosen, &others, event),
        moment,
        advice: String::new(),
    };
    explanation.advice = words::advice(&explanation);
    Ok(explanation)
}

/// The moment that is asked for, or worth it.
fn moment(stage: &Stage<'_>, asked: Option<u64>) -> Result<At, ExplainError> {
    let trace = stage.trace();
    let last = last_event(stage, asked)?;
    let mut scan = Scan::default();
    stage.run(trace.events.len(), &mut scan, |_, _| ())?;
    let (event, why) = match asked {
        Some(event) => (event, Why::Asked),
        None => scan.choose(last),
    };
    Ok(At {
        event,
        time_ns: trace.time_ns(event as usize),
        why,
        failures: scan.failures,
        failed_events: scan.failed_events,
    })
}

/// What is seen of the event, and what came and went over the whole trace.
fn take(stage: &Stage<'_>, event: u64) -> Result<(Taken, Vec<Change>), ExplainError> {
    let trace = stage.trace();
    let mut ledger = Ledger::new(trace, event);
    stage.run(trace.events.len(), &mut ledger, |replay, ledger| {
        ledger.begin(trace, stage.first(), replay);
    })?;
    let taken = ledger.taken.expect("the event was replayed");
    Ok((taken, ledger.changes))
}

/// The last event; the one that is asked for lies between the first and it.
fn last_event(stage: &Stage<'_>, asked: Option<u64>) -> Result<u64, ExplainError> {
    let trace = stage.trace();
    let empty = || ExplainError::Empty(trace.name.clone());
    let last = trace.events.len().checked_sub(1).ok_or_else(empty)? as u64;
    // A recording of a state alone has no event of its own: the last one stands for it.
    let first = (stage.first() as u64).min(last);
    match asked {
        Some(event) if !(first..=last).contains(&event) => Err(ExplainError::NoSuchEvent {
            trace: trace.name.clone(),
            event,
            first,
            last,
        }),
        _ => Ok(last),
    }
}

/// The stack of a tag; none of tag 0.
fn stack(trace: &Trace, tag: u32) -> Option<String> {
    let told = trace.tags.get(tag as usize).filter(|_| tag != 0);
    told.cloned()
}

/// The trace's name of a request, unless it is an address that was used again and again.
fn name(trace: &Trace, ordinal: u64) -> Option<String> {
    let truth = trace.truth.as_deref();
    let named = truth.is_none_or(|truth| truth.source != "pytorch");
    named.then(|| trace.ids.name(ordinal as usize))
}

fn asked(stage: &Stage<'_>, event: usize, taken: &Taken) -> Result<Option<Asked>, ExplainError> {
    let trace = stage.trace();
    let Some(request) = Request::of(&trace.events[event]) else {
        return Ok(None);
    };
    let rounded_bytes = match taken.shortage {
        Some(shortage) if shortage.cause == crate::space::Cause::Overflow => None,
        Some(shortage) => Some(shortage.wanted_bytes),
        None => {
            let policy = stage.registry.build_for(stage.chosen, stage.scene)?;
            policy.rounded_bytes(&request)
        }
    };
    Ok(Some(Asked {
        bytes: request.bytes,
        rounded_bytes,
        align_bytes: request.align,
        stream: request.stream,
        pool: request.pool,
        id: name(trace, taken.ordinal),
        stack: stack(trace, request.tag),
        served: taken.served,
        failed_when_recorded: matches!(trace.events[event], Event::Attempt { .. }),
    }))
}

/// How far the model met the recording that it followed.
fn basis(stage: &Stage<'_>) -> Result<Basis, ExplainError> {
    if !stage.along {
        return Ok(Basis::Replayed);
    }
    let policy = stage.registry.build_for(stage.chosen, stage.scene)?;
    let config = SpaceConfig {
        addresses: AddressOrder::Recorded,
        ..stage.scene.config(true)
    };
    let label = &stage.chosen.label;
    let check = || Ok(fidelity::check(stage.trace(), label, policy, config)?);
    let checked = stage.guarded(check)?;
    Ok(Basis::Recorded {
        addresses: checked.row.allocations,
        addresses_matched: checked.row.addresses_matched,
        first_divergence: checked.row.first_divergence,
    })
}

fn find_blockers(
    stage: &Stage<'_>,
    event: usize,
    taken: &Taken,
    effort: Effort,
) -> Result<Option<Blockers>, ExplainError> {
    let request = Request::of(&stage.trace().events[event]);
    match (request, taken.shortage) {
        (Some(request), Some(_)) => {
            blockers::blockers(stage, event, request, taken, effort).map(Some)
        }
        _ => Ok(None),
    }
}

/// What a trim right before the event gives back.
fn cached(stage: &Stage<'_>, event: usize) -> Result<Cached, ExplainError> {
    let to = event.max(stage.first());
    let mut replay = stage.run(to, &mut (), |_, _| ())?;
    let before = *replay.space().counters();
    stage.guarded(|| {
        stage.insert(&mut replay, event, &[Event::Trim]);
        let after = replay.space().counters();
        Ok(Cached {
            free_bytes: before.free_bytes,
            returned_bytes: before.reserved_bytes.saturating_sub(after.reserved_bytes),
            kept_bytes: after.free_bytes,
        })
    })
}
