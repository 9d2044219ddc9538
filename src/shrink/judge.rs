//! Whether a candidate still shows what is to be kept, found by replays.

use std::sync::Arc;

use super::draft::Draft;
use super::keep::{Atom, Fact, Keep, Value};
use crate::experiment::fault::FileError;
use crate::experiment::{Scene, Wanted, caught, run_row};
use crate::fidelity;
use crate::observe::Row;
use crate::policy::{Chosen, Registry};
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::Device;
use crate::trace::Event;
use crate::units::format_count;
use crate::whatif::feed_while;

/// The card, and what of it may be used while a trace gets smaller.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The card.
    pub device: Arc<Device>,
    /// What may be reserved, in bytes.
    pub capacity_bytes: u64,
}

/// What a candidate came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it shows what is to be kept.
    pub holds: bool,
    /// Replays that it took.
    pub replays: u64,
}

/// Where a model first does not meet the original recording.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Divergence {
    /// Event of the original.
    event: u32,
    /// What differs, in words.
    what: String,
}

/// Judges candidates.
pub struct Judge<'a> {
    keep: &'a Keep,
    registry: &'a Registry,
    chosen: Vec<Chosen>,
    setup: Setup,
    /// Where each policy's model diverges on the original; a candidate must do the same.
    wanted: Vec<Option<Divergence>>,
}

/// What a replay of one policy came to.
enum Ran {
    Row(Box<Row>),
    Broke(String),
}

impl<'a> Judge<'a> {
    /// A judge of candidates made from `original`.
    ///
    /// # Errors
    /// A policy that is not known or does not build, a recording that `diverges` cannot be
    /// asked of, or one that is only left at its very end.
    pub fn new(
        keep: &'a Keep,
        registry: &'a Registry,
        setup: Setup,
        original: &Draft,
    ) -> Result<Self, FileError> {
        let find = |named: &super::keep::Named| {
            let found = registry.find(&named.spec);
            found.map_err(|error| keep.fault(named.span.clone(), error.to_string()))
        };
        let chosen: Vec<Chosen> = keep.policies.iter().map(find).collect::<Result<_, _>>()?;
        let mut judge = Judge {
            keep,
            registry,
            chosen,
            setup,
            wanted: vec![None; keep.policies.len()],
        };
        for (atom, span) in &keep.atoms {
            let Atom::Fact(Fact::Diverges, policy) = *atom else {
                continue;
            };
            let fault = |what: String| keep.fault(span.clone(), what);
            let found = judge.divergence(original, policy).map_err(fault)?;
            let end = original.trace.events.len() as u32;
            if let Some(last) = found.as_ref().filter(|found| found.event == end) {
                return Err(fault(format!(
                    "the model leaves the recording only at its end ({}), and a shorter trace has \
                     no such end",
                    last.what
                )));
            }
            judge.wanted[policy] = found;
        }
        Ok(judge)
    }

    /// What may be reserved, in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.setup.capacity_bytes
    }

    /// Judges a candidate.
    #[must_use]
    pub fn verdict(&self, draft: &Draft) -> Verdict {
        let mut look = Look::new(self, draft, false);
        let holds = self.keep.holds(&mut |atom| look.atom(atom));
        Verdict {
            holds,
            replays: look.replays,
        }
    }

    /// What each atom comes to, in a line each.
    #[must_use]
    pub fn explain(&self, draft: &Draft) -> Vec<String> {
        let mut look = Look::new(self, draft, true);
        let line = |atom: usize| {
            let value = look.atom(atom);
            let why = look.why(atom);
            format!("{} is {value}: {why}", self.keep.atom_text(atom))
        };
        (0..self.keep.atoms.len()).map(line).collect()
    }

    /// The event after which nothing more is to be seen: that of the last first failure or
    /// divergence that is asked for. `None` where figures of the whole trace are asked for.
    #[must_use]
    pub fn decided_at(&self, draft: &Draft) -> Option<usize> {
        let mut look = Look::new(self, draft, false);
        let mut last = 0;
        for (atom, _) in &self.keep.atoms {
            let event = match *atom {
                Atom::Fact(Fact::Fails | Fact::Serves, policy) => match look.row(policy) {
                    Ok(row) => row.first_failure_event.map(|event| event as usize),
                    Err(_) => None,
                },
                Atom::Fact(Fact::Diverges, policy) => {
                    let wanted = self.wanted[policy].as_ref();
                    wanted
                        .and_then(|wanted| draft.origins.iter().position(|it| *it == wanted.event))
                }
                Atom::Fact(Fact::Breaks, _) | Atom::Compare(..) => return None,
            };
            last = last.max(event.unwrap_or(0));
        }
        Some(last)
    }

    fn replayed(&self, draft: &Draft, policy: usize, full: bool) -> Ran {
        let chosen = &self.chosen[policy];
        let wanted = Wanted::Bytes(self.setup.capacity_bytes);
        let scene = Scene::new(
            Arc::clone(&draft.trace),
            Arc::clone(&self.setup.device),
            wanted,
        );
        let ran = if full || self.keep.asks_figures(policy) {
            run_row(&scene, self.registry, chosen, &mut ()).expect("it was built before")
        } else {
            caught(|| first_failure(&scene, self.registry, chosen))
        };
        match ran {
            Ok(row) => Ran::Row(Box::new(row)),
            Err(what) => Ran::Broke(what),
        }
    }

    /// Where a model leaves the recording.
    fn divergence(&self, draft: &Draft, policy: usize) -> Result<Option<Divergence>, String> {
        let chosen = &self.chosen[policy];
        let (device, capacity) = (&self.setup.device, Some(self.setup.capacity_bytes));
        let make = || self.registry.build(chosen).expect("it was built before");
        let trace = &draft.trace;
        let row = caught(|| fidelity::compare(trace, &chosen.label, &make, device, capacity))?;
        let row = row.map_err(|error| error.to_string())?;
        let (Some(at), Some(told)) = (row.diverges_at, row.first_divergence) else {
            return Ok(None);
        };
        let what = told.split_once(": ").map_or(&*told, |(_, what)| what);
        let event = draft.origins[(at as usize).min(trace.events.len())];
        Ok(Some(Divergence {
            event,
            what: what.to_owned(),
        }))
    }
}

/// The row of a replay that stops soon after its first failure: only failures are in it.
fn first_failure(scene: &Scene, registry: &Registry, chosen: &Chosen) -> Row {
    let policy = registry
        .build_for(chosen, scene)
        .expect("it was built before");
    let Ok(mut replay) = Replay::new(policy, scene.config(false)) else {
        let asks = |event: &Event| match event {
            Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. } => *bytes > 0,
            _ => false,
        };
        let first = scene.trace.events.iter().position(asks);
        return Row {
            failed: u64::from(first.is_some()),
            first_failure_event: first.map(|event| event as u64),
            ..Row::default()
        };
    };
    replay.name_streams(&scene.trace.streams);
    let mut first = First(None);
    feed_while(&scene.trace, &mut replay, &mut first, |replay, _| {
        replay.totals().failed == 0
    });
    Row {
        failed: u64::from(first.0.is_some()),
        first_failure_event: first.0,
        ..Row::default()
    }
}

/// The event of the first failure.
struct First(Option<u64>);

impl Observer for First {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Outcome::Failed(_) = moment.outcome {
            self.0.get_or_insert(moment.index);
        }
    }
}

/// One candidate under the eyes of a judge: each policy is replayed once at most.
struct Look<'a> {
    judge: &'a Judge<'a>,
    draft: &'a Draft,
    full: bool,
    rows: Vec<Option<Ran>>,
    divergences: Vec<Option<Result<Option<Divergence>, String>>>,
    replays: u64,
}

impl<'a> Look<'a> {
    fn new(judge: &'a Judge<'a>, draft: &'a Draft, full: bool) -> Self {
        let policies = judge.chosen.len();
        Look {
            judge,
            draft,
            full,
            rows: (0..policies).map(|_| None).collect(),
            divergences: vec![None; policies],
            replays: 0,
        }
    }

    /// The row of a policy; of one that broke a rule what it broke.
    fn row(&mut self, policy: usize) -> Result<&Row, &str> {
        if self.rows[policy].is_none() {
            self.replays += 1;
            let ran = self.judge.replayed(self.draft, policy, self.full);
            self.rows[policy] = Some(ran);
        }
        match self.rows[policy].as_ref().expect("it was just set") {
            Ran::Row(row) => Ok(row),
            Ran::Broke(what) => Err(what),
        }
    }

    fn divergence(&mut self, policy: usize) -> &Result<Option<Divergence>, String> {
        if self.divergences[policy].is_none() {
            self.replays += 1;
            let found = self.judge.divergence(self.draft, policy);
            self.divergences[policy] = Some(found);
        }
        let found = self.divergences[policy].as_ref();
        found.expect("it was just set")
    }

    fn atom(&mut self, atom: usize) -> bool {
        match self.judge.keep.atoms[atom].0 {
            Atom::Fact(Fact::Fails, policy) => self.row(policy).is_ok_and(|row| row.failed > 0),
            Atom::Fact(Fact::Serves, policy) => self.row(policy).is_ok_and(|row| row.failed == 0),
            Atom::Fact(Fact::Breaks, policy) => self.row(policy).is_err(),
            Atom::Fact(Fact::Diverges, policy) => {
                let wanted = self.judge.wanted[policy].clone();
                match self.divergence(policy) {
                    Ok(Some(found)) => wanted.is_none_or(|wanted| wanted == *found),
                    _ => false,
                }
            }
            Atom::Compare(left, order, right) => {
                let values = (self.value(left), self.value(right));
                matches!(values, (Some(left), Some(right)) if order.holds(left, right))
            }
        }
    }

    fn value(&mut self, value: Value) -> Option<u64> {
        match value {
            Value::Number(number) => Some(number),
            Value::Metric(metric, policy) => metric.of(self.row(policy).ok()?),
        }
    }

    /// Why an atom is what it is.
    fn why(&mut self, atom: usize) -> String {
        match self.judge.keep.atoms[atom].0 {
            Atom::Fact(Fact::Diverges, policy) => match self.divergence(policy) {
                Ok(Some(found)) => format!("event {}: {}", found.event, found.what),
                Ok(None) => "the model meets all that the recording shows".into(),
                Err(what) => what.clone(),
            },
            Atom::Fact(_, policy) => match self.row(policy) {
                Ok(row) => failures(row),
                Err(what) => format!("it broke a rule: {what}"),
            },
            Atom::Compare(left, _, right) => {
                let (left, right) = (self.shown(left), self.shown(right));
                format!("{left} and {right}")
            }
        }
    }

    fn shown(&mut self, value: Value) -> String {
        match value {
            Value::Number(number) => format_count(number),
            Value::Metric(metric, policy) => match self.row(policy) {
                Ok(row) => match metric.of(row) {
                    Some(value) => format!("{} ({})", format_count(value), metric.show(row)),
                    None => format!("no {} (it is undefined here)", metric.label),
                },
                Err(what) => format!("no row, as it broke a rule: {what}"),
            },
        }
    }
}

/// How many requests fail, and which is the first.
fn failures(row: &Row) -> String {
    let of = format_count(row.requests);
    match row.first_failure_event {
        None => format!("no request of {of} fails"),
        Some(event) => {
            let failed = format_count(row.failed);
            format!("{failed} of {of} requests fail, the first at event {event}")
        }
    }
}
