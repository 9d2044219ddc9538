//! Synthetic workloads: traces made from a few parameters and a seed, one file a family.
//!
//! A run is a function of (parameters, seed): the same bytes on every machine. A family
//! writes event by event, so that a trace may be longer than memory.

mod churn;
pub mod dice;
pub mod finetune;
pub mod fixed;
pub mod pen;

use serde::{Deserialize, Serialize};

use crate::trace::{Event, Ids, Trace};
pub use pen::{Pen, Stage};

/// A family of workloads.
pub trait Family {
    /// What the trace says before its first event.
    fn stage(&self) -> Stage;

    /// Whether the parameters go together.
    ///
    /// # Errors
    /// What does not fit, and what would.
    fn check(&self) -> Result<(), String>;

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
    /// Fine-tuning with recomputation, sharding and LoRA.
    Finetune(finetune::Spec),
}

impl Spec {
    /// The family behind the parameters.
    #[must_use]
    pub fn family(&self) -> &dyn Family {
        match self {
            Spec::Churn(spec) => spec,
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
    pub fn play(&self, seed: u64, sink: &mut dyn FnMut(Event, u64)) -> Trace {
        let mut trace = self.head();
        let mut pen = Pen::new(sink, self.events);
        self.workload.family().play(seed, &mut pen);
        (trace.slots, trace.tags) = pen.finish();
        trace.report.format = "synthetic".to_owned();
        trace
    }

    /// The whole trace of a seed, in memory.
    #[must_use]
    pub fn trace(&self, seed: u64) -> Trace {
        let (mut events, mut times_ns) = (Vec::new(), Vec::new());
        let mut trace = self.play(seed, &mut |event, time_ns| {
            events.push(event);
            times_ns.push(time_ns);
        });
        trace.report.entries = events.len() as u64;
        trace.report.events = events.len() as u64;
        trace.events = events;
        trace.times_ns = times_ns;
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::vlt::VltWriter;

    /// Presets of the folder, with their texts.
    fn presets() -> [(&'static str, &'static str); 2] {
        [
            ("churn", include_str!("../traces/synthetic/churn.toml")),
            (
                "finetune-opt-1.3b-lengths",
                include_str!("../traces/synthetic/finetune-opt-1.3b-lengths.toml"),
            ),
        ]
    }

    #[test]
    fn a_run_is_a_function_of_its_seed_and_every_length_a_beginning_of_the_longer() {
        for (name, text) in presets() {
            let mut workload = Workload::from_toml(name, text).expect("a preset");
            workload.events = 5000;
            let trace = workload.trace(1);
            assert_eq!(trace, workload.trace(1), "{name}");
            assert_ne!(trace.events, workload.trace(2).events, "{name}");
            workload.events = 777;
            let shorter = workload.trace(1);
            let length = shorter.events.len();
            assert_eq!(shorter.events[..], trace.events[..length], "{name}");
        }
    }

    #[test]
    fn events_are_written_as_a_stream() {
        for (name, text) in presets() {
            let mut workload = Workload::from_toml(name, text).expect("a preset");
            workload.events = 5000;
            let mut writer = VltWriter::new(Vec::new(), &workload.head(), true).expect("memory");
            let tail = workload.play(3, &mut |event, time_ns| {
                writer.push(&event, time_ns).expect("memory");
            });
            writer
                .finish(&tail)
                .expect("what was written is what the tail says");
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let bad = include_str!("../traces/synthetic/churn.toml").replace("live = 3000", "live = 0");
        let error = Workload::from_toml("mine", &bad).expect_err("nothing is live");
        assert!(error.to_string().contains("live = 0"), "{error}");
    }
}
