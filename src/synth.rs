//! Synthetic workloads: traces made from a few parameters and a seed, one file a family.
//!
//! A run is a function of (parameters, seed): the same bytes on every machine. A family
//! writes event by event, so that a trace may be longer than memory.

pub mod churn;
pub mod dice;
pub mod dues;
mod find;
pub mod finetune;
pub mod fit;
pub mod fitted;
pub mod fixed;
pub mod law;
pub mod pen;
pub mod phase_change;
mod phases;
mod pipeline;
pub mod requests;
pub mod robson;
pub mod service;
pub mod serving;
mod training;

use serde::{Deserialize, Serialize};

use crate::trace::{Event, Ids, Trace};
pub use pen::{Answer, Pen, Stage};

/// A family of workloads.
pub trait Family {
    /// What the trace says before its first event.
    fn stage(&self) -> Stage;

    /// Whether the parameters go together.
    ///
    /// # Errors
    /// What does not fit, and what would.
    fn check(&self) -> Result<(), String>;

    /// Whether what the workload reads from outside is there and sound.
    ///
    /// # Errors
    /// What is missing or broken, with its place.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// Writes events until the pen is done, or the workload is over.
    fn play(&self, seed: u64, pen: &mut Pen<'_>);
}

/// Every family with its parameters. In TOML the variant is a table of its parameters:
/// `[workload.churn]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spec {
    /// Random sizes, random lifetimes.
    Churn(churn::Spec),
    /// A plan written by hand.
    Phases(phases::Spec),
    /// Stages on streams of their own.
    Pipeline(pipeline::Spec),
    /// Inference with a growing key-value cache.
    Serving(serving::Spec),
    /// Layers forward and backward, step by step.
    Training(training::Spec),
    /// What a recording asked for.
    Fitted(fitted::Spec),
    /// The mix of sizes and the live set change.
    PhaseChange(phase_change::Spec),
    /// Adversaries against first fit and best fit.
    Robson(robson::Spec),
    /// A service that runs for months.
    Service(service::Spec),
    /// Fine-tuning with recomputation, sharding and LoRA.
    Finetune(finetune::Spec),
}

impl Spec {
    /// The family's name, as the table of its parameters is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Spec::Churn(_) => "churn",
            Spec::Phases(_) => "phases",
            Spec::Pipeline(_) => "pipeline",
            Spec::Serving(_) => "serving",
            Spec::Training(_) => "training",
            Spec::Fitted(_) => "fitted",
            Spec::PhaseChange(_) => "phase-change",
            Spec::Robson(_) => "robson",
            Spec::Service(_) => "service",
            Spec::Finetune(_) => "finetune",
        }
    }

    /// The family behind the parameters.
    #[must_use]
    pub fn family(&self) -> &dyn Family {
        match self {
            Spec::Churn(spec) => spec,
            Spec::Phases(spec) => spec,
            Spec::Pipeline(spec) => spec,
            Spec::Serving(spec) => spec,
            Spec::Training(spec) => spec,
            Spec::Fitted(spec) => spec,
            Spec::PhaseChange(spec) => spec,
            Spec::Robson(spec) => spec,
            Spec::Service(spec) => spec,
            Spec::Finetune(spec) => spec,
        }
    }
}

/// A workload: what it imitates, its parameters and its length.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name, from the file's; not a key of the file.
    #[serde(skip)]
    pub name: String,
    /// One line for people.
    pub about: String,
    /// What it imitates.
    pub source: String,
    /// How many events to write; a workload with an end of its own may write fewer.
    pub events: u64,
    /// The family and its parameters.
    pub workload: Spec,
}

/// Parameters that cannot be used; the text names the place and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("workload '{workload}': {what}")]
pub struct SynthError {
    /// The workload as it was asked for.
    pub workload: String,
    /// What is wrong, and what would do.
    pub what: String,
}

impl Workload {
    /// A workload from the text of its file.
    ///
    /// # Errors
    /// Text that is no such file, with the line, and parameters that do not fit.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, SynthError> {
        let fail = |what: String| SynthError {
            workload: name.to_owned(),
            what,
        };
        let mut workload: Workload =
            toml::from_str(text).map_err(|error| fail(error.to_string()))?;
        name.clone_into(&mut workload.name);
        workload.workload.family().check().map_err(fail)?;
        Ok(workload)
    }

    /// What a trace of it holds before its first event.
    #[must_use]
    pub fn head(&self) -> Trace {
        let stage = self.workload.family().stage();
        Trace {
            name: self.name.clone(),
            streams: (0..u64::from(stage.streams)).collect(),
            pools: vec![(0, 0)],
            labels: stage.labels,
            ids: Ids::Ordinal,
            ..Trace::default()
        }
    }

    /// Writes the events of a seed to `sink`, one by one, and returns what a trace holds
    /// beside them: the head, slots and tags.
    ///
    /// # Panics
    /// Where requests that the workload reads have gone or changed since
    /// [`find`](Self::find) looked at them.
    pub fn play(&self, seed: u64, sink: &mut dyn FnMut(Event, u64)) -> Trace {
        let never_ends = self.stream::<std::convert::Infallible>(seed, &mut |event, time_ns| {
            sink(*event, time_ns);
            Ok(())
        });
        never_ends.unwrap_or_else(|never| match never {})
    }

    /// As [`play`](Self::play), into a sink that may fail: the first failure ends it.
    ///
    /// # Errors
    /// The sink's.
    ///
    /// # Panics
    /// As [`play`](Self::play).
    pub fn stream<E>(
        &self,
        seed: u64,
        sink: &mut dyn FnMut(&Event, u64) -> Result<(), E>,
    ) -> Result<Trace, E> {
        let mut trace = self.head();
        let mut failure = None;
        let mut written = 0;
        let mut write = |event: Event, time_ns: u64| match sink(&event, time_ns) {
            Ok(()) => {
                written += 1;
                Answer::Taken
            }
            Err(error) => {
                failure = Some(error);
                Answer::Over
            }
        };
        let mut pen = Pen::new(&mut write, self.events);
        self.workload.family().play(seed, &mut pen);
        (trace.slots, trace.tags) = pen.finish();
        if let Some(error) = failure {
            return Err(error);
        }
        trace.report.format = "synthetic".to_owned();
        trace.report.entries = written;
        trace.report.events = written;
        Ok(trace)
    }

    /// The whole trace of a seed, in memory.
    #[must_use]
    pub fn trace(&self, seed: u64) -> Trace {
        let (mut events, mut times_ns) = (Vec::new(), Vec::new());
        let mut trace = self.play(seed, &mut |event, time_ns| {
            events.push(event);
            times_ns.push(time_ns);
        });
        trace.events = events;
        trace.times_ns = times_ns;
        trace
    }
}

#[cfg(test)]
mod tests;
