//! One cell of an experiment: one trace under one policy on one card, and what was seen.
//!
//! A cell is a function of its inputs: it prints nothing, reads no clock, and gives the
//! same result on any thread. Cells run beside each other; what happens inside one does
//! not disturb the others, not even a policy that breaks a rule.

use std::cell::Cell as Flag;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::bound::peak_live_requested_bytes;
use crate::observe::summary::Labels;
use crate::observe::{Failures, Row, Summary, Timeline};
use crate::policy::{Chosen, PolicyError, Registry};
use crate::replay::Replay;
use crate::space::{AddressOrder, Device, OutOfMemory, SpaceConfig};
use crate::trace::{Event, Trace};

/// Events fed between two reports of progress.
const BATCH_EVENTS: usize = 1 << 16;
/// Full records of failures that a cell keeps.
const KEPT_FAILURES: usize = 1000;

/// Where a capacity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was asked for.
    Asked,
    /// The trace tells it: the cap or the pool that it was recorded under.
    Trace,
    /// 1.1 times the peak of live requested bytes.
    Tight,
    /// The whole card.
    Card,
}

/// What may be reserved, and why so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes.
    pub bytes: u64,
    /// Where they come from.
    pub origin: Origin,
}

/// What is asked of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// What the trace tells, else 1.1 times its peak, so that policies differ.
    #[default]
    ByTrace,
    /// So many bytes.
    Bytes(u64),
    /// The whole card.
    Card,
}

impl Capacity {
    /// The capacity for a trace whose live requests peak at `bound_bytes`; a card never
    /// gives more than it has.
    #[must_use]
    pub fn choose(wanted: Wanted, trace: &Trace, bound_bytes: u64, card_bytes: u64) -> Self {
        let tight = u64::try_from((u128::from(bound_bytes) * 11).div_ceil(10)).unwrap_or(u64::MAX);
        let (bytes, origin) = match (wanted, trace.capacity_bytes) {
            (Wanted::Bytes(bytes), _) => (bytes, Origin::Asked),
            (Wanted::ByTrace, Some(bytes)) => (bytes, Origin::Trace),
            (Wanted::ByTrace, None) if tight > 0 => (tight, Origin::Tight),
            (Wanted::ByTrace | Wanted::Card, _) => (card_bytes, Origin::Card),
        };
        if bytes > card_bytes {
            return Capacity {
                bytes: card_bytes,
                origin: Origin::Card,
            };
        }
        Capacity { bytes, origin }
    }
}

/// A trace made ready for many cells: what all of them share is found once.
#[derive(Debug)]
pub struct Scene {
    /// The trace.
    pub trace: Trace,
    /// The peak of its live requested bytes.
    pub bound_bytes: u64,
    /// What may be reserved.
    pub capacity: Capacity,
    /// The card.
    pub device: Arc<Device>,
    /// The seed of a synthetic trace.
    pub seed: Option<u64>,
}

impl Scene {
    /// A trace on a card.
    #[must_use]
    pub fn new(trace: Trace, device: Arc<Device>, wanted: Wanted) -> Self {
        let bound_bytes = peak_live_requested_bytes(&trace);
        let capacity = Capacity::choose(wanted, &trace, bound_bytes, device.total_bytes);
        Scene {
            trace,
            bound_bytes,
            capacity,
            device,
            seed: None,
        }
    }

    /// How a Space for the trace is set up.
    #[must_use]
    pub fn config(&self) -> SpaceConfig {
        SpaceConfig {
            device: Arc::clone(&self.device),
            capacity_bytes: self.capacity.bytes,
            blind: true,
            streams: self.trace.streams.len().max(1),
            addresses: AddressOrder::TopDown,
            record_steps: false,
        }
    }
}

/// What was seen in one cell.
#[derive(Debug)]
pub struct Seen {
    /// The summary.
    pub row: Row,
    /// The decimated timeline.
    pub timeline: Timeline,
    /// Failures by verdict, the first ones in full.
    pub failures: Failures,
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

/// Runs one policy over a trace. `progress` hears how many events were replayed since
/// it was called last.
///
/// # Errors
/// [`PolicyError`] where the policy cannot be built from its parameters.
pub fn run_cell(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Ended, PolicyError> {
    let policy = registry.build(chosen)?;
    let ended = caught(|| {
        let mut replay = match Replay::new(policy, scene.config()) {
            Ok(replay) => replay,
            Err(shortage) => {
                let row = row_of_nothing(scene, &chosen.label);
                return Ended::NotStarted(Box::new(row), shortage);
            }
        };
        let failures = Failures::new(KEPT_FAILURES, scene.trace.truth.as_deref());
        let mut seen = ((Summary::default(), Timeline::default()), failures);
        feed(&scene.trace, &mut replay, &mut seen, progress);
        let ((summary, timeline), failures) = seen;
        Ended::Replayed(Box::new(Seen {
            row: summary.row(&replay, labels(scene, &chosen.label)),
            timeline,
            failures,
        }))
    });
    Ok(ended.unwrap_or_else(Ended::Broke))
}

/// Feeds a whole trace in batches.
fn feed<O: crate::replay::Observer>(
    trace: &Trace,
    replay: &mut Replay,
    observer: &mut O,
    progress: &(dyn Fn(u64) + Sync),
) {
    for (number, events) in trace.events.chunks(BATCH_EVENTS).enumerate() {
        let from = number * BATCH_EVENTS;
        let times = trace.times_ns.get(from..from + events.len());
        replay.feed(events, times.unwrap_or_default(), observer);
        progress(events.len() as u64);
    }
}

fn labels<'a>(scene: &'a Scene, policy: &'a str) -> Labels<'a> {
    Labels {
        trace: &scene.trace.name,
        policy,
        hazards: 0,
        lower_bound_bytes: scene.bound_bytes,
        seed: scene.seed,
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
