//! Runs the cells of an experiment and writes each into the journal as it ends.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::bands::{Points, Sampler};
use super::fault::FileError;
use super::fit::fit;
use super::journal::{Journal, JournalError, Line};
use super::plan::{Cell, Experiment};
use super::queue::{Opened, Queue, Task};
use super::{Capacity, RecordError, Scene, Wanted, run_row};
use crate::bound::peak_live_requested_bytes;
use crate::policy::{Chosen, PolicyError, Registry};
use crate::trace::{Trace, TraceError};
use crate::units::format_bytes;

/// Why an experiment stopped before its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace breaks a rule that every trace keeps.
    #[error("{file}, event {event}: {what}")]
    Rule {
        /// The file as the experiment names it.
        file: String,
        /// Number of the event.
        event: usize,
        /// The rule.
        what: String,
    },
    /// A capacity that a trace turns out not to allow.
    #[error(transparent)]
    File(#[from] FileError),
    /// A policy cannot be built.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How an experiment is run.
pub struct Run<'a> {
    /// What.
    pub experiment: &'a Experiment,
    /// The policies.
    pub registry: &'a Registry,
    /// Where finished cells go.
    pub journal: &'a Journal,
    /// Once true, no cell is begun any more; those that run are ended and kept.
    pub stop: &'a AtomicBool,
    /// Called after each cell.
    pub progress: &'a (dyn Fn() + Sync),
}

impl Run<'_> {
    /// Runs `cells` on all threads of the current rayon pool. At most as many traces as
    /// there are threads are held at a time.
    ///
    /// # Errors
    /// The first thing that went wrong; cells that were done are in the journal.
    ///
    /// # Panics
    /// If a thread panicked outside of a policy.
    pub fn cells(&self, cells: &[Cell]) -> Result<(), RunError> {
        let experiment = self.experiment;
        let queue = Queue::new(cells, experiment.sources.len(), experiment.policies.len());
        let failed = Mutex::new(None);
        rayon::broadcast(|_| {
            if let Err(error) = self.work(&queue) {
                queue.stop();
                let mut failed = failed.lock().expect("nobody panics with it");
                failed.get_or_insert(error);
            }
        });
        let failed = failed.into_inner().expect("nobody panics with it");
        failed.map_or(Ok(()), Err)
    }

    /// One worker, until nothing is left.
    fn work(&self, queue: &Queue) -> Result<(), RunError> {
        let _others_stop = StopOnPanic(queue);
        let mut own = None;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                queue.stop();
            }
            match queue.next(own) {
                Task::Open(reading) => {
                    own = Some(reading);
                    let source = &self.experiment.sources[reading.source];
                    let trace = source.trace(reading.seed)?;
                    queue.opened(Opened {
                        reading,
                        bound_bytes: peak_live_requested_bytes(&trace),
                        trace: Arc::new(trace),
                        fits: Mutex::default(),
                    });
                }
                Task::Run(opened, cell) => {
                    let started = Instant::now();
                    let line = run_cell(self.experiment, self.registry, &opened, &cell)?;
                    queue.took(&cell, opened.trace.events.len(), started.elapsed());
                    self.journal.append(&line)?;
                    (self.progress)();
                }
                Task::Stop => return Ok(()),
            }
        }
    }
}

/// A worker that panics leaves nobody waiting for it.
struct StopOnPanic<'a>(&'a Queue);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Runs a cell.
fn run_cell(
    experiment: &Experiment,
    registry: &Registry,
    opened: &Opened,
    cell: &Cell,
) -> Result<Line, RunError> {
    let scene = scene(experiment, &opened.trace, opened.bound_bytes, cell)?;
    let chosen = &experiment.policies[cell.policy];
    let mut sampler = Sampler::new(opened.trace.events.len() as u64);
    let (mut row, broke) = match run_row(&scene, registry, chosen, &mut sampler)? {
        Ok(row) => (Some(row), None),
        Err(what) => (None, Some(what)),
    };
    if experiment.fit
        && let Some(row) = &mut row
    {
        row.fit_bytes = fit_bytes(&scene, registry, opened, cell, chosen)?;
    }
    let points = match row {
        Some(_) => sampler.finish(),
        None => Points::default(),
    };
    Ok(Line {
        number: cell.number,
        cell: experiment.id(cell),
        capacity_asked: experiment.capacity_asked(cell),
        row,
        broke,
        points,
    })
}

/// The smallest capacity that serves everything; it is looked for once, whatever capacities
/// the experiment asks for. None where the card does not serve it, or the policy breaks.
fn fit_bytes(
    scene: &Scene,
    registry: &Registry,
    opened: &Opened,
    cell: &Cell,
    chosen: &Chosen,
) -> Result<Option<u64>, PolicyError> {
    let key = (cell.device, cell.policy);
    let fits = || opened.fits.lock().expect("no fit is looked for with it");
    if let Some(known) = fits().get(&key) {
        return Ok(*known);
    }
    let found = match fit(scene, registry, chosen) {
        Ok(found) => found.fit_bytes,
        Err(RecordError::Policy(error)) => return Err(error),
        Err(_) => None,
    };
    fits().insert(key, found);
    Ok(found)
}

/// The trace on the card of a cell, at its capacity.
///
/// # Errors
/// So many times the peak of this trace are more than the card has.
pub(super) fn scene(
    experiment: &Experiment,
    trace: &Arc<Trace>,
    bound_bytes: u64,
    cell: &Cell,
) -> Result<Scene, FileError> {
    let device = &experiment.devices[cell.device];
    let asked = &experiment.capacities[cell.capacity];
    let mut scene = Scene::bounded(
        Arc::clone(trace),
        bound_bytes,
        Arc::clone(device),
        asked.wanted,
    );
    scene.seed = cell.reading.seed;
    if let Wanted::Times(ppm) = asked.wanted {
        let wanted_bytes = Capacity::times(bound_bytes, ppm);
        if wanted_bytes > device.total_bytes {
            let what = format!(
                "{} of the peak of '{}' are {}, more than the card '{}' has ({})",
                asked.text,
                experiment.id(cell),
                format_bytes(wanted_bytes),
                device.name,
                format_bytes(device.total_bytes)
            );
            let error = experiment.text.fault(asked.span.clone(), what);
            return Err(error.or("give a larger card, such as devices = [\"1TiB\"]"));
        }
    }
    Ok(scene)
}
