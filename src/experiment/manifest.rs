//! What results depend on: the same manifest, the same bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::{Experiment, Shard};
use super::source::{Kind, Source};
use crate::policy::Chosen;
use crate::space::Device;
use crate::synth::Workload;

/// The hash of what a value says of itself, in hexadecimal.
#[must_use]
pub fn hash_of(value: &impl std::fmt::Debug) -> String {
    blake3::hash(format!("{value:?}").as_bytes())
        .to_hex()
        .to_string()
}

/// A card as a manifest names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CardEntry {
    /// Its name.
    pub name: String,
    /// Model, driver, date of the measurement.
    pub about: String,
    /// All of its memory.
    pub total_bytes: u64,
    /// The physical page.
    pub page_bytes: u64,
    /// The hash of the whole table of costs.
    pub blake3: String,
}

impl From<&Device> for CardEntry {
    fn from(device: &Device) -> Self {
        CardEntry {
            name: device.name.clone(),
            about: device.about.clone(),
            total_bytes: device.total_bytes,
            page_bytes: device.page_bytes,
            blake3: hash_of(device),
        }
    }
}

/// A policy as a manifest names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// The spec as given.
    pub spec: String,
    /// The algorithm.
    pub algorithm: String,
    /// Its parameters.
    pub parameters: toml::Table,
    /// Where it comes from.
    pub source: String,
    /// The hash of the algorithm with its parameters.
    pub blake3: String,
}

impl From<&Chosen> for PolicyEntry {
    fn from(chosen: &Chosen) -> Self {
        PolicyEntry {
            spec: chosen.label.clone(),
            algorithm: chosen.algorithm.clone(),
            parameters: chosen.parameters.clone(),
            source: chosen.source.clone(),
            blake3: hash_of(&(&chosen.algorithm, &chosen.parameters)),
        }
    }
}

/// A trace of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Its name in the rows.
    pub name: String,
    /// The file as the experiment names it.
    pub file: String,
    /// One device of a recording of several.
    pub device: Option<u32>,
    /// The cap under which it was recorded, where the experiment tells it.
    pub recorded_cap_bytes: Option<u64>,
    /// The hash of the file.
    pub blake3: String,
}

/// A workload of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadEntry {
    /// Its name in the rows.
    pub name: String,
    /// All its parameters.
    pub spec: Workload,
    /// The hash of them.
    pub blake3: String,
}

/// What an experiment's results depend on, and how they are to be reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this crate.
    pub vramlab: String,
    /// The experiment's name.
    pub experiment: String,
    /// One line for people.
    pub about: String,
    /// Cells of the whole experiment.
    pub cells: usize,
    /// Recorded traces.
    pub traces: Vec<TraceEntry>,
    /// Workloads.
    pub workloads: Vec<WorkloadEntry>,
    /// Cards.
    pub cards: Vec<CardEntry>,
    /// Capacities as the file has them.
    pub capacities: Vec<String>,
    /// Policies.
    pub policies: Vec<PolicyEntry>,
    /// Seeds of the workloads.
    pub seeds: Vec<u64>,
    /// The columns to report.
    pub metrics: Vec<String>,
    /// The policy that the others are compared with.
    pub baseline: Option<String>,
    /// Whether the smallest capacity that serves everything was looked for.
    pub fit: bool,
    /// The part of the cells, `I/N`; null for all.
    pub shard: Option<String>,
    /// The files that lie beside.
    pub files: Vec<String>,
}

/// The keys that change how results are told, and no row.
const TOLD: [&str; 4] = ["about", "metrics", "baseline", "files"];

impl Manifest {
    /// The manifest of an experiment's shard, or of all.
    #[must_use]
    pub fn of(experiment: &Experiment, shard: Option<Shard>) -> Self {
        let sources = &experiment.sources;
        Manifest {
            vramlab: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: experiment.name.clone(),
            about: experiment.about.clone(),
            cells: experiment.readings().len() * experiment.cells_each(),
            traces: sources.iter().filter_map(trace).collect(),
            workloads: sources.iter().filter_map(workload).collect(),
            cards: experiment.devices.iter().map(|it| (&**it).into()).collect(),
            capacities: experiment
                .capacities
                .iter()
                .map(|asked| asked.text.clone())
                .collect(),
            policies: experiment.policies.iter().map(PolicyEntry::from).collect(),
            seeds: experiment.seeds.clone(),
            metrics: experiment.metrics.clone(),
            baseline: experiment.baseline.clone(),
            fit: experiment.fit,
            shard: shard.map(|shard| shard.to_string()),
            files: Vec::new(),
        }
    }

    /// The same for the whole experiment, without its list of files.
    #[must_use]
    pub fn whole(&self) -> Self {
        Manifest {
            shard: None,
            files: Vec::new(),
            ..self.clone()
        }
    }

    /// The keys of what rows depend on in which two manifests differ.
    #[must_use]
    pub fn differences(&self, other: &Manifest) -> Vec<String> {
        let object = |it: &Manifest| match serde_json::to_value(it) {
            Ok(Value::Object(object)) => object,
            _ => serde_json::Map::new(),
        };
        let (one, other) = (object(self), object(other));
        let differs = one.iter().filter(|(key, value)| {
            !TOLD.contains(&key.as_str()) && other.get(key.as_str()) != Some(value)
        });
        differs.map(|(key, _)| key.clone()).collect()
    }
}

fn trace(source: &Source) -> Option<TraceEntry> {
    let Kind::Recorded {
        file,
        options,
        blake3,
        ..
    } = &source.kind
    else {
        return None;
    };
    Some(TraceEntry {
        name: source.name.clone(),
        file: file.clone(),
        device: options.device,
        recorded_cap_bytes: options.capacity_bytes,
        blake3: blake3.clone(),
    })
}

fn workload(source: &Source) -> Option<WorkloadEntry> {
    let Kind::Made(workload) = &source.kind else {
        return None;
    };
    Some(WorkloadEntry {
        name: source.name.clone(),
        spec: (**workload).clone(),
        blake3: hash_of(workload),
    })
}
