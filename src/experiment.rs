//! One cell of an experiment: one trace under one policy on one card, and what was seen.
//!
//! An experiment is a file ([`mod@file`]) that becomes cells ([`plan`]); they are run
//! ([`runner`]), kept as they are done ([`journal`]), and written in order ([`rows`],
//! [`bands`]), on one machine or in shards that are joined ([`merge`]).
//!
//! A cell is a function of its inputs: it prints nothing, reads no clock, and gives the
//! same result on any thread. Cells run beside each other; what happens inside one does
//! not disturb the others, not even a policy that breaks a rule.

pub mod bands;
pub mod cost;
pub mod fault;
pub mod file;
pub mod fit;
pub mod gate;
pub mod journal;
pub mod manifest;
pub mod merge;
pub mod plan;
mod queue;
pub mod ranks;
pub mod rows;
pub mod runner;
mod scene;
pub mod serve;
pub mod source;
mod sweep;

use std::cell::Cell as Flag;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::bound::peak_live_rounded_by;
use crate::observe::snapshot::Recorder;
use crate::observe::{AddressMap, Failures, Hazards, Labels, MapObserver, Row, Summary, Timeline};
use crate::policy::{Chosen, PolicyError, Registry};
use crate::replay::{Observer, Replay};
use crate::space::{OutOfMemory, Space};
use crate::trace::Event;
use crate::trace::snapshot::Snapshot;

pub use scene::{Capacity, Origin, Scene, Wanted};

/// Full records of failures that a cell keeps.
const KEPT_FAILURES: usize = 1000;

/// What was seen in one cell.
#[derive(Debug)]
pub struct Seen {
    /// The summary.
    pub row: Row,
    /// The decimated timeline.
    pub timeline: Timeline,
    /// Failures by verdict, the first ones in full.
    pub failures: Failures,
    /// Which addresses were in use when, where a map was asked for.
    pub map: Option<AddressMap>,
}

/// How a cell ended.
#[derive(Debug)]
pub enum Ended {
    /// The whole trace was replayed.
    Replayed(Box<Seen>),
    /// The policy could not take what it starts with: nothing was served.
    NotStarted(Box<Row>, OutOfMemory),
    /// The policy broke a rule of the Space; the text names the event.
    Broke(String),
}

impl Ended {
    /// The row; a policy that broke a rule has none.
    #[must_use]
    pub fn row(&self) -> Option<&Row> {
        match self {
            Ended::Replayed(seen) => Some(&seen.row),
            Ended::NotStarted(row, _) => Some(row),
            Ended::Broke(_) => None,
        }
    }
}

/// What is watched in a cell besides the summary, the timeline and the failures.
pub struct Watch<'a, E> {
    /// Whether the address map is drawn; it is the dearest observer.
    pub map: bool,
    /// Hears how many events were replayed since it was called last.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// One more observer.
    pub extra: E,
}

/// Runs one policy over a trace.
///
/// # Errors
/// [`PolicyError`] where the policy cannot be built from its parameters.
pub fn run_cell<E: Observer>(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    watch: Watch<'_, E>,
) -> Result<Ended, PolicyError> {
    let policy = registry.build_for(chosen, scene)?;
    let ended = caught(|| match Replay::new(policy, scene.config(watch.map)) {
        Ok(replay) => Ended::Replayed(Box::new(watched(scene, replay, &chosen.label, watch))),
        Err(shortage) => {
            let mut row = row_of_nothing(scene, &chosen.label);
            scene.add_bounds(&mut row);
            Ended::NotStarted(Box::new(row), shortage)
        }
    });
    Ok(ended.unwrap_or_else(Ended::Broke))
}

/// Replays the whole trace and collects what was seen.
fn watched<E: Observer>(scene: &Scene, replay: Replay, label: &str, watch: Watch<'_, E>) -> Seen {
    let failures = Failures::beside(KEPT_FAILURES, scene.left_by_others());
    let map = watch.map.then(MapObserver::default);
    let mut seen = ((Timeline::default(), failures), (map, watch.extra));
    let mut row = summed(scene, replay, label, watch.progress, &mut seen);
    scene.add_bounds(&mut row);
    let ((timeline, failures), (map, _)) = seen;
    Seen {
        row,
        timeline,
        failures,
        map: map.map(MapObserver::finish),
    }
}

/// Replays the whole trace; the row, while `extra` looks on.
fn summed<E: Observer>(
    scene: &Scene,
    mut replay: Replay,
    label: &str,
    progress: &(dyn Fn(u64) + Sync),
    extra: &mut E,
) -> Row {
    let trace = &scene.trace;
    replay.name_streams(&trace.streams);
    let hazards = Hazards::new(trace.streams.len(), replay.policy().blind());
    let mut seen = ((Summary::default(), hazards), extra);
    scene.feed(&mut replay, &mut seen, |_, events| {
        progress(events);
        true
    });
    let ((summary, hazards), _) = seen;
    let labels = Labels {
        trace: &trace.name,
        policy: label,
        hazards: hazards.map_or(0, |hazards| hazards.count()),
        lower_bound_bytes: scene.bound_bytes,
        seed: scene.seed,
    };
    let mut row = summary.row(&replay, labels);
    row.rounded_peak_bytes = peak_live_rounded_by(trace, replay.policy());
    row
}

/// Runs one policy over a trace for its row alone, while `extra` looks on. A policy that
/// cannot start has a row in which every request failed; one that breaks a rule has the
/// text of its panic instead.
///
/// # Errors
/// [`PolicyError`] where the policy cannot be built from its parameters.
pub fn run_row<E: Observer>(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    extra: &mut E,
) -> Result<Result<Row, String>, PolicyError> {
    let policy = registry.build_for(chosen, scene)?;
    Ok(caught(|| match Replay::new(policy, scene.config(false)) {
        Ok(replay) => summed(scene, replay, &chosen.label, &|_| (), extra),
        Err(_) => row_of_nothing(scene, &chosen.label),
    }))
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The policy cannot be built from its parameters.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy could not take what it starts with.
    #[error("policy '{policy}' cannot start: it needs {wanted_bytes} bytes at once")]
    NotStarted {
        /// The policy.
        policy: String,
        /// What it wanted.
        wanted_bytes: u64,
    },
    /// The policy broke a rule of the Space.
    #[error("policy '{policy}' broke a rule: {what}")]
    Broke {
        /// The policy.
        policy: String,
        /// The event and the rule.
        what: String,
    },
}

/// Runs one policy over a trace, and answers what PyTorch would have recorded of it.
///
/// # Errors
/// [`RecordError`]: the policy cannot be built, cannot start, or breaks a rule.
pub fn record(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
) -> Result<Snapshot, RecordError> {
    let begin = |space: &Space| Recorder::new(&scene.trace, space);
    stepwise(scene, registry, chosen, &|_| (), begin, Recorder::finish)
}

/// Runs one policy over a trace whose Space records its steps. `begin` makes the observer
/// from the Space before the first event, `end` the answer from both after the last.
///
/// # Errors
/// As [`record`].
pub fn stepwise<O: Observer, T>(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    progress: &(dyn Fn(u64) + Sync),
    begin: impl FnOnce(&Space) -> O,
    end: impl FnOnce(O, &Space) -> T,
) -> Result<T, RecordError> {
    let policy = registry.build_for(chosen, scene)?;
    let ended = caught(|| {
        let mut replay = Replay::new(policy, scene.config(true))?;
        replay.name_streams(&scene.trace.streams);
        let mut observer = begin(replay.space());
        scene.feed(&mut replay, &mut observer, |_, events| {
            progress(events);
            true
        });
        Ok(end(observer, replay.space()))
    });
    let policy = chosen.label.clone();
    match ended {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(OutOfMemory { wanted_bytes, .. })) => Err(RecordError::NotStarted {
            policy,
            wanted_bytes,
        }),
        Err(what) => Err(RecordError::Broke { policy, what }),
    }
}

/// The row of a policy that could not start: every request failed, and nothing was taken.
fn row_of_nothing(scene: &Scene, policy: &str) -> Row {
    let (mut requests, mut zero_sizes, mut first) = (0, 0, None);
    for (at, event) in scene.trace.events.iter().enumerate() {
        let (Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. }) = event else {
            continue;
        };
        requests += 1;
        if *bytes == 0 {
            zero_sizes += 1;
        } else {
            first.get_or_insert(at as u64);
        }
    }
    Row {
        trace: scene.trace.name.clone(),
        policy: policy.to_owned(),
        capacity_bytes: scene.capacity.bytes,
        events: scene.trace.events.len() as u64,
        requests,
        failed: requests - zero_sizes,
        first_failure_event: first,
        zero_sizes,
        success_ppm: if requests == zero_sizes { 1_000_000 } else { 0 },
        lower_bound_bytes: scene.bound_bytes,
        seed: scene.seed,
        ..Row::default()
    }
}

thread_local! {
    /// Whether a panic of this thread is caught and told by whoever called.
    static CAUGHT: Flag<bool> = const { Flag::new(false) };
}

/// Whether a panic of this thread will be caught by [`caught`]: a panic hook stays
/// silent then.
#[must_use]
pub fn is_caught() -> bool {
    CAUGHT.get()
}

/// Runs `work`; a panic comes back as its text.
///
/// # Errors
/// The text of the panic.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let before = CAUGHT.replace(true);
    // What a panic leaves half-done is dropped with the closure: nothing is seen of it.
    let result = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic without words".into())
    })
}
