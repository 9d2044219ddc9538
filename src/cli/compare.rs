//! `vramlab compare`: one trace, many policies, one table and its pictures.

mod cells;
mod gate;
pub(super) mod ranks;
mod results;
pub(super) mod view;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use cells::Work;

use super::CliError;
use super::args::{CardArgs, JobsArgs, MapArgs, OpenArgs};
use super::folder::{Folder, file_names};
use super::load::{self, Heading};
use super::output::{Output, say};
use super::progress::Progress;
use super::{map, sparkline};
use crate::experiment::{Ended, Scene, caught};
use crate::fidelity::recorded_policy;
use crate::files;
use crate::observe::Row;
use crate::policy::{Chosen, Registry};
use crate::units::format_bytes;
use crate::whatif::{PYTORCH_SETTINGS, Prediction, Ran, Setup, under_other_orders};

/// Replay traces under many policies: a table, csv files and plots
///
/// Each trace is read once and replayed under every policy, in parallel. The table names
/// the best policy first, by failures, then by footprint; its first row is what no
/// policy can beat. Rows, timelines, failures and plots go to the output folder. A folder
/// holds the recordings of one run, one a rank: the worst rank, the median and the spread.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab compare snapshot.pickle\n  \
    vramlab compare trace.csv --policies best-fit,buddy --capacity 8GiB\n  \
    vramlab compare run.vlt.zst --policy pytorch:max_split_size_mb:128\n  \
    vramlab compare snapshots-of-all-ranks/ --policies pytorch,pytorch-expandable\n  \
    vramlab compare run.pickle --policies pytorch --capacity 8GiB --against main/rows.csv \\\n      \
    --fail-above 'pytorch.peak_reserved_bytes=+5%' --fail-above '*.failed=+0'")]
pub struct Compare {
    /// Traces: PyTorch snapshots, .vlt, csv, RMM logs, MiniMalloc, .rep; `-` is standard
    /// input; or a folder with one recording a rank
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Presets by name, separated by commas [default: the classic ones and
    /// one of each modelled allocator]; `pytorch-settings` are PyTorch's settings worth a try
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,

    /// One more policy: NAME, NAME:key=value,key=value, or a .toml file; may be repeated
    #[arg(long = "policy", value_name = "SPEC")]
    specs: Vec<String>,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    jobs: JobsArgs,

    /// Folder for results; a folder below it for each of several traces
    /// [default: vramlab-out/TRACE]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write no plots
    #[arg(long)]
    no_plots: bool,

    #[command(flatten)]
    pictures: MapArgs,

    #[command(flatten)]
    gate: gate::GateArgs,
}

/// What came of one trace.
struct Done {
    json: serde_json::Value,
    /// What is told of policies that broke a rule.
    broken: Vec<String>,
    rows: Vec<Row>,
}

/// What `--json` prints for one trace.
#[derive(Serialize)]
struct Compared<'a> {
    trace: Heading<'a>,
    rows: Vec<&'a Row>,
    /// For PyTorch's settings: whether the answer hangs on addresses of the driver.
    predictions: &'a [Prediction],
    broken: Vec<&'a str>,
    out: String,
}

impl Compare {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let policies = choose(registry, &self.policies, &self.specs)?;
        // A wrong folder is told before any work; a stream or a folder of several traces
        // is named only once they are read.
        if let Some(out) = &self.out {
            Folder::new(out)?;
        }
        self.card.wanted()?;
        let gate = self.gate.open(&policies)?;
        let mut compared = Vec::new();
        let mut names = Vec::new();
        for path in &self.traces {
            if path.is_dir() {
                compared.push(self.ranks(path, registry, &policies, output)?);
                continue;
            }
            let hash = load::hash(path)?;
            let scenes = load::scenes(path, &self.open, &self.card)?;
            let several = self.traces.len() > 1 || scenes.len() > 1;
            for scene in scenes {
                names.push(scene.trace.name.clone());
                let name = file_names(names.iter().map(String::as_str)).pop();
                let folder = Folder::new(&self.place(&name.unwrap_or_default(), several))?;
                let source = results::Source {
                    file: path,
                    blake3: hash.clone(),
                };
                compared.push(self.one(&scene, registry, &policies, &folder, &source, output)?);
            }
        }
        gate::finish(gate, compared, output)
    }

    /// The folder of a trace.
    fn place(&self, name: &str, several: bool) -> PathBuf {
        match &self.out {
            Some(out) if several => out.join(name),
            Some(out) => out.clone(),
            None => Path::new("vramlab-out").join(name),
        }
    }

    /// Compares the policies on one trace.
    fn one(
        &self,
        scene: &Scene,
        registry: &Registry,
        policies: &[Chosen],
        folder: &Folder,
        source: &results::Source<'_>,
        output: &mut Output,
    ) -> Result<Done, CliError> {
        let pictures = self.pictures.shown(output) && !output.hushed;
        let heading = Heading::of(scene);
        for line in heading.lines(false) {
            output.line(&line)?;
        }
        let progress = Progress::new((scene.trace.events.len() * policies.len()) as u64);
        let work = Work {
            scene,
            registry,
            progress: &progress,
            maps: pictures || !self.no_plots,
            plots: !self.no_plots,
        };
        let cells = self.jobs.within(|| work.all(policies))??;
        progress.end();
        let ranked = rank(policies, cells.iter().map(|cell| &cell.ended));
        let others = cells.iter().map(|cell| cell.others.as_deref());
        let predictions = predictions(scene, policies.iter().zip(others), &ranked);
        output.line(&view::packing(scene))?;
        for line in view::lines(scene, &ranked, output) {
            output.line(&line)?;
        }
        if pictures {
            for line in drawn(&ranked, output) {
                output.line(&line)?;
            }
        }
        let said = view::predictions(&predictions).into_iter();
        for line in said.chain(view::idle_settings(scene, policies)) {
            output.line(&line)?;
        }
        let charts = policies.iter().zip(&cells);
        let charts = charts.map(|(chosen, cell)| (&*chosen.label, &*cell.charts));
        let given = results::Given {
            folder,
            scene,
            ranked: &ranked,
            source,
            charts: (!self.no_plots).then(|| charts.collect()),
        };
        self.jobs.within(|| given.write())??;
        output.line(&format!("results are in {}", folder.path().display()))?;
        tell_memory();
        let broken: Vec<&str> = ranked.iter().filter_map(|cell| cell.broke()).collect();
        let json = serde_json::to_value(Compared {
            trace: heading,
            rows: ranked.iter().filter_map(|cell| cell.ended.row()).collect(),
            predictions: &predictions,
            broken: broken.clone(),
            out: folder.path().display().to_string(),
        });
        Ok(Done {
            json: json.expect("rows are plain data"),
            broken: ranked.iter().filter_map(view::broke).collect(),
            rows: ranked
                .iter()
                .filter_map(|it| it.ended.row().cloned())
                .collect(),
        })
    }
}

/// Fragmentation over time of every policy, and the address map of the best.
fn drawn(ranked: &[Ranked<'_>], output: &Output) -> Vec<String> {
    let seen = ranked.iter().filter_map(|cell| match cell.ended {
        Ended::Replayed(seen) => Some(seen),
        _ => None,
    });
    let seen: Vec<_> = seen.collect();
    let curves: Vec<_> = seen
        .iter()
        .map(|seen| (&seen.row, seen.timeline.buckets()))
        .collect();
    let mut lines = sparkline::lines(&curves, output);
    if let Some(best) = seen.first()
        && let Some(map) = &best.map
    {
        lines.extend(map::lines(&best.row, map, output));
    }
    lines
}

/// What it took, for whoever looks on: it differs from run to run, and what is printed for
/// others does not.
fn tell_memory() {
    let seen = std::io::stderr().is_terminal();
    if let Some(bytes) = files::peak_memory_bytes().filter(|_| seen) {
        say(&format!("peak memory {}", format_bytes(bytes)));
    }
}

/// The runs of one of PyTorch's settings under every address order but the driver's own,
/// which its cell has; none of another policy, or of one that breaks a rule or cannot start:
/// its row in the table tells that.
pub(super) fn other_orders(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
) -> Option<Vec<Ran>> {
    if chosen.algorithm != "pytorch" {
        return None;
    }
    let setup = Setup {
        device: scene.device.clone(),
        capacity_bytes: scene.capacity.bytes,
    };
    caught(|| under_other_orders(&scene.trace, registry, chosen, &setup))
        .ok()?
        .ok()
}

/// What each of PyTorch's settings would have reserved, under several address orders; the
/// setting that the recording tells comes first.
pub(super) fn predictions<'a>(
    scene: &Scene,
    settings: impl Iterator<Item = (&'a Chosen, Option<&'a [Ran]>)>,
    ranked: &[Ranked<'_>],
) -> Vec<Prediction> {
    let own = recorded_policy(&scene.trace).unwrap_or_else(|| "pytorch".into());
    let row = |chosen: &Chosen| {
        let mut cells = ranked
            .iter()
            .filter(|cell| cell.chosen.label == chosen.label);
        match cells.next()?.ended {
            Ended::Replayed(seen) => Some(&seen.row),
            _ => None,
        }
    };
    let made = settings.filter_map(|(chosen, others)| {
        Some(Prediction::new(
            &chosen.label,
            Ran::of(row(chosen)?),
            others?,
        ))
    });
    let mut made: Vec<Prediction> = made.collect();
    made.sort_by_key(|prediction| prediction.policy != own);
    made
}

/// A policy with what became of it.
pub(super) struct Ranked<'a> {
    pub chosen: &'a Chosen,
    pub ended: &'a Ended,
}

impl Ranked<'_> {
    fn broke(&self) -> Option<&str> {
        match self.ended {
            Ended::Broke(what) => Some(what),
            _ => None,
        }
    }
}

/// Best first: by failures, then footprint, then name; what did not start comes after,
/// what broke a rule last.
pub(super) fn rank<'a>(
    policies: &'a [Chosen],
    cells: impl IntoIterator<Item = &'a Ended>,
) -> Vec<Ranked<'a>> {
    let cells = policies.iter().zip(cells);
    let mut ranked: Vec<Ranked<'a>> = cells
        .map(|(chosen, ended)| Ranked { chosen, ended })
        .collect();
    ranked.sort_by_key(|cell| {
        let (class, failed, footprint) = match cell.ended {
            Ended::Replayed(seen) => (0, seen.row.failed, seen.row.footprint_bytes),
            Ended::NotStarted(row, _) => (1, row.failed, 0),
            Ended::Broke(_) => (2, 0, 0),
        };
        (class, failed, footprint, cell.chosen.label.clone())
    });
    ranked
}

/// The policies asked for, each once; all that have a name where none is.
pub(super) fn choose(
    registry: &Registry,
    names: &[String],
    specs: &[String],
) -> Result<Vec<Chosen>, CliError> {
    let mut labels: Vec<&str> = Vec::new();
    let asked = names.iter().chain(specs).map(|text| text.trim());
    for label in asked.filter(|label| !label.is_empty()) {
        let settings = label == "pytorch-settings";
        let meant = if settings {
            &PYTORCH_SETTINGS[..]
        } else {
            &[label][..]
        };
        for label in meant {
            if !labels.contains(label) {
                labels.push(label);
            }
        }
    }
    if labels.is_empty() {
        labels.extend(registry.default_names());
    }
    let found: Result<Vec<Chosen>, _> = labels.iter().map(|label| registry.find(label)).collect();
    Ok(found?)
}
