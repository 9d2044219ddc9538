//! What an experiment will take: events and cells counted, the time from a short trial.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::plan::{Cell, Experiment};
use super::run_row;
use super::runner::{RunError, scene};
use crate::bound::peak_live_requested_bytes;
use crate::policy::Registry;
use crate::trace::Trace;

/// Events of a trace that the trial replays at most.
pub const TRIAL_EVENTS: usize = 20_000;

/// What the cells of a source will take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCost {
    /// Its name.
    pub name: String,
    /// Traces that are read or made.
    pub readings: usize,
    /// Cells.
    pub cells: usize,
    /// Events of one trace; of a workload, that of the first seed.
    pub events: u64,
}

/// What an experiment will take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// By source, in order.
    pub sources: Vec<SourceCost>,
    /// The time on one thread, from a trial of every policy on the first events of each source.
    pub one_thread: Duration,
}

/// Counts what `cells` will take, and tries each policy on the beginning of each source.
///
/// # Errors
/// A trace that cannot be read, or a capacity that it does not allow.
pub fn estimate(
    experiment: &Experiment,
    registry: &Registry,
    cells: &[Cell],
) -> Result<Cost, RunError> {
    let mut cost = Cost {
        sources: Vec::new(),
        one_thread: Duration::ZERO,
    };
    for cells in cells.chunk_by(|a, b| a.reading.source == b.reading.source) {
        let source = &experiment.sources[cells[0].reading.source];
        let started = Instant::now();
        let trace = Arc::new(source.trace(cells[0].reading.seed)?);
        let bound_bytes = peak_live_requested_bytes(&trace);
        let read = started.elapsed();
        let events = trace.events.len();
        let trial = Arc::new(beginning(&trace));
        let first = |a: &Cell, b: &Cell| a.reading == b.reading;
        let readings = cells.chunk_by(first).count();
        let mut policies: Vec<(usize, Duration)> = Vec::new();
        for cell in cells {
            if !policies.iter().any(|(policy, _)| *policy == cell.policy) {
                let scene = scene(experiment, &trial, bound_bytes, cell)?;
                let started = Instant::now();
                // A policy that breaks a rule takes no longer: the trial is only about time.
                let _ = run_row(&scene, registry, &experiment.policies[cell.policy], &mut ())?;
                policies.push((cell.policy, started.elapsed()));
            }
        }
        let scale = events as f64 / trial.events.len().max(1) as f64;
        let took = |cell: &Cell| policies.iter().find(|(policy, _)| *policy == cell.policy);
        let replays: Duration = cells.iter().filter_map(took).map(|(_, time)| *time).sum();
        cost.one_thread +=
            replays.mul_f64(scale) + read * u32::try_from(readings).unwrap_or(u32::MAX);
        cost.sources.push(SourceCost {
            name: source.name.clone(),
            readings,
            cells: cells.len(),
            events: events as u64,
        });
    }
    Ok(cost)
}

/// The first events of a trace; every beginning of a trace is one.
fn beginning(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    trace.events.truncate(TRIAL_EVENTS);
    trace.times_ns.truncate(TRIAL_EVENTS);
    trace.truth = None;
    trace
}
