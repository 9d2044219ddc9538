//! One policy over one trace, on a card.

use std::time::Instant;

use super::card::{Card, CardError};
use super::executor::{Executor, Plan};
use super::row::{CardRow, Verdict};
use crate::experiment::{Scene, caught};
use crate::observe::Hazards;
use crate::policy::{Chosen, PolicyError, Registry};
use crate::replay::Replay;
use crate::trace::StreamId;
use crate::units::format_bytes;
use crate::whatif::feed;

/// How much of each block is filled and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coverage {
    /// Every byte.
    #[default]
    Full,
    /// The first and the last 4 KiB.
    Edges,
}

/// A fault planted into the executor, to see that the card finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Addresses are shifted into the neighbour above.
    Shift,
    /// No stream waits for another; checks come late.
    NoWait,
    /// Moves lose their last bytes.
    ShortMove,
    /// Every part of an alias is the first page of it.
    PageTwice,
    /// Pages come back from the host without what was on them.
    LostPage,
    /// No fault, but checks come late as under `NoWait`: nothing may break.
    Late,
}

impl Fault {
    /// All, by name.
    pub const ALL: [(&'static str, Fault); 6] = [
        ("shift", Fault::Shift),
        ("no-wait", Fault::NoWait),
        ("short-move", Fault::ShortMove),
        ("page-twice", Fault::PageTwice),
        ("lost-page", Fault::LostPage),
        ("late", Fault::Late),
    ];

    /// As flags and rows spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, fault)| *fault == self);
        named.expect("every fault has a name").0
    }
}

/// How a validation is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// How much of each block is filled and checked.
    pub coverage: Coverage,
    /// A planted fault.
    pub fault: Option<Fault>,
}

impl How {
    fn row(&self, scene: &Scene, chosen: &Chosen, card: &dyn Card) -> CardRow {
        CardRow {
            trace: scene.trace.name.clone(),
            policy: chosen.label.clone(),
            card: card.identity().about,
            capacity_bytes: scene.capacity.bytes,
            coverage: match self.coverage {
                Coverage::Full => "full",
                Coverage::Edges => "edges",
            },
            fault: self.fault.map_or("none", Fault::name),
            ..CardRow::default()
        }
    }
}

/// Replays the trace under one policy while the card carries it out. The card is empty
/// afterwards, whatever happened.
///
/// # Errors
/// [`PolicyError`] where the policy cannot be built from its parameters.
pub fn validate(
    card: &mut dyn Card,
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    how: How,
) -> Result<CardRow, PolicyError> {
    let policy = registry.build(chosen)?;
    let blank = how.row(scene, chosen, card);
    let started = Instant::now();
    let before = prepare(card, scene.trace.streams.len()).and_then(|()| card.free_bytes());
    let ended = caught(|| match Replay::new(policy, scene.config(true)) {
        Ok(replay) => carried_out(card, scene, replay, chosen, how, blank.clone()),
        Err(shortage) => {
            let mut row = blank.clone();
            let wanted = format_bytes(shortage.wanted_bytes);
            row.say(&format!("the policy cannot start: it needs {wanted}"));
            row
        }
    });
    card.clear();
    let mut row = ended.unwrap_or_else(|what| {
        let mut row = blank;
        row.verdict = Verdict::Disagrees;
        row.say(&format!("the replay broke a rule: {what}"));
        row
    });
    settle_accounts(&mut row, before, card.free_bytes());
    row.wall_ns = started.elapsed().as_nanos() as u64;
    Ok(row)
}

/// Makes the streams and lets each run a kernel: what the driver takes for that is not the
/// policy's.
fn prepare(card: &mut dyn Card, streams: usize) -> Result<(), CardError> {
    for lane in 0..streams.max(1) as StreamId {
        card.lag(lane, 0)?;
        card.wait(lane, 0)?;
    }
    card.sync()
}

/// All that was taken must be back.
fn settle_accounts(
    row: &mut CardRow,
    before: Result<Option<u64>, CardError>,
    after: Result<Option<u64>, CardError>,
) {
    match (before, after) {
        (Ok(Some(before)), Ok(Some(after))) => row.left_bytes = Some(before.saturating_sub(after)),
        (Ok(_), Ok(_)) => row.say("device-free bytes skipped: others use the card"),
        (Err(error), _) | (_, Err(error)) => {
            row.verdict = Verdict::Disagrees;
            row.say(&error.to_string());
        }
    }
    if row.left_bytes.is_some_and(|left| left > 0) {
        row.verdict = Verdict::Disagrees;
        row.say("the run left memory behind");
    }
}

/// Feeds the trace; the row says what the card found.
fn carried_out(
    card: &mut dyn Card,
    scene: &Scene,
    mut replay: Replay,
    chosen: &Chosen,
    how: How,
    row: CardRow,
) -> CardRow {
    let trace = &scene.trace;
    replay.name_streams(&trace.streams);
    let blind = replay.policy().blind();
    let plan = Plan::new(scene, chosen, blind, how);
    let pooled = plan.pooled();
    let hazards = Hazards::new(trace.streams.len(), blind);
    let executor = Executor::start(card, plan, replay.space(), row);
    let mut seen = (hazards, executor);
    feed(trace, &mut replay, &mut seen, &|_| ());
    let (hazards, executor) = seen;
    let (mut row, stopped) = executor.finish();
    row.hazards_predicted = hazards.map_or(0, |hazards| hazards.count());
    row.judge(pooled);
    if row.hazards_predicted > 0 {
        row.say("streams ordered by the executor: the policy leaves that to others");
    }
    if let Some((event, error)) = stopped {
        row.verdict = match error {
            CardError::NotCarriedOut(_) => Verdict::NotRun,
            _ => Verdict::Disagrees,
        };
        row.say(&format!("event {event}: {error}"));
    }
    row
}
