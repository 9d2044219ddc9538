//! `vramlab validate`: the simulator's word, checked by a real card.

mod claims;
mod results;
mod view;

use std::path::{Path, PathBuf};

use clap::Args;

use super::CliError;
use super::args::{CardArgs, OpenArgs};
use super::card::GpuArgs;
use super::compare::choose;
use super::folder::Folder;
use super::load;
use super::output::Output;
use super::progress::Progress;
use crate::cuda::exercise::exercise;
use crate::cuda::{Card, CardRow, Coverage, Fault, How, Verdict, validate};
use crate::experiment::Scene;
use crate::policy::{Chosen, Registry};
use crate::units::{KIB, MIB, format_bytes};

/// Requests of the exercise, and the size of the largest.
const EXERCISE: (usize, u64) = (4000, 4 * MIB);
/// The same where a card is only rehearsed on.
const REHEARSED: (usize, u64) = (300, 16 * KIB);

/// Replay traces on a real GPU and compare it with the simulator (feature cuda)
///
/// Every policy replays the trace in simulation, and the card carries out each of its
/// steps on real memory: patterns are written and checked by kernels, failures, free
/// memory and driver times are compared. One row a policy; 20 is the exit code where the
/// card disagrees.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab validate\n  \
    vramlab validate traces/gpt2-varlen.vlt.zst --policies pytorch,first-fit\n  \
    vramlab validate --claims --out results/claims\n\n\
    At most the capacity and 2 GiB of the card are taken, and all of it is given back.")]
pub struct Validate {
    /// Traces [default: a small exercise on three streams]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Presets by name, separated by commas [default: every preset]
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
    gpu: GpuArgs,

    /// Fill and check every byte [default]
    #[arg(long, conflicts_with = "edges")]
    full: bool,

    /// Fill and check the first and last 4 KiB of every block
    #[arg(long)]
    edges: bool,

    /// Measure what the field says of allocation, instead of replaying traces
    #[arg(long, conflicts_with_all = ["traces", "policies", "specs", "edges", "full"])]
    claims: bool,

    /// Let the claims fill the whole card, not 8 GiB of it
    #[arg(long, requires = "claims")]
    whole_card: bool,

    /// Folder for results: rows, manifest, plots [default: none are written]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Plant a fault, to see that the card finds it
    #[arg(long, hide = true, value_name = "FAULT", value_parser = parse_fault)]
    plant: Option<Fault>,
}

fn parse_fault(text: &str) -> Result<Fault, String> {
    let named = Fault::ALL.iter().find(|(name, _)| *name == text);
    named.map(|(_, fault)| *fault).ok_or_else(|| {
        let known = Fault::ALL.map(|(name, _)| name).join(", ");
        format!("there is no fault '{text}'; known are: {known}")
    })
}

/// A trace on its card, and which file it came from.
struct Source {
    scene: Scene,
    file: Option<PathBuf>,
    blake3: Option<String>,
}

impl Validate {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let mut card = self.gpu.open()?;
        let folder = self.out.as_deref().map(Folder::new).transpose()?;
        if self.claims {
            let asked = claims::Asked {
                whole_card: self.whole_card,
                rehearse: self.gpu.rehearse,
            };
            return claims::run(&mut *card, &self.card.card, asked, folder.as_ref(), output);
        }
        let policies = self.policies(registry)?;
        let sources = self.sources()?;
        for source in &sources {
            fits(&mut *card, &source.scene)?;
        }
        let mut rows = Vec::new();
        for source in &sources {
            rows.extend(self.on_card(&mut *card, &source.scene, registry, &policies)?);
        }
        if let Some(folder) = &folder {
            results::write(folder, &rows, &sources, &policies, &card.identity())?;
        }
        if output.json {
            output.result(&rows)?;
        } else {
            view::tell(&rows, output)?;
        }
        let wrong = rows.iter().filter(|row| row.verdict == Verdict::Disagrees);
        match wrong.count() {
            0 => Ok(()),
            wrong => Err(CliError::Disagreement {
                wrong,
                of: rows.len(),
            }),
        }
    }

    /// The policies asked for; every one with a name where none is.
    fn policies(&self, registry: &Registry) -> Result<Vec<Chosen>, CliError> {
        if self.policies.is_empty() && self.specs.is_empty() {
            let all = registry.names().map(|name| registry.find(name));
            return Ok(all.collect::<Result<_, _>>()?);
        }
        choose(registry, &self.policies, &self.specs)
    }

    fn sources(&self) -> Result<Vec<Source>, CliError> {
        if self.traces.is_empty() {
            let (rounds, most_bytes) = if self.gpu.rehearse {
                REHEARSED
            } else {
                EXERCISE
            };
            let trace = exercise(rounds, most_bytes);
            return Ok(vec![Source {
                scene: Scene::new(trace, self.card.card.clone(), self.card.wanted()?),
                file: None,
                blake3: None,
            }]);
        }
        let mut sources = Vec::new();
        for path in &self.traces {
            sources.extend(self.opened(path)?);
        }
        Ok(sources)
    }

    fn opened(&self, path: &Path) -> Result<Vec<Source>, CliError> {
        let blake3 = load::hash(path)?;
        let scenes = load::scenes(path, &self.open, &self.card)?.into_iter();
        let source = |scene| Source {
            scene,
            file: Some(path.to_owned()),
            blake3: blake3.clone(),
        };
        Ok(scenes.map(source).collect())
    }

    fn on_card(
        &self,
        card: &mut dyn Card,
        scene: &Scene,
        registry: &Registry,
        policies: &[Chosen],
    ) -> Result<Vec<CardRow>, CliError> {
        let how = How {
            coverage: if self.edges {
                Coverage::Edges
            } else {
                Coverage::Full
            },
            fault: self.plant,
        };
        let events = scene.trace.events.len() as u64;
        let progress = Progress::new(events * policies.len() as u64);
        let mut rows = Vec::new();
        for chosen in policies {
            rows.push(validate(card, scene, registry, chosen, how)?);
            progress.add(events);
        }
        progress.end();
        Ok(rows)
    }
}

/// The card must have what the run may take.
fn fits(card: &mut dyn Card, scene: &Scene) -> Result<(), CliError> {
    let wanted = scene.capacity.bytes;
    match card.free_bytes()? {
        Some(free) if free < wanted => Err(CliError::usage(
            format!(
                "{}: the capacity of {} is more than the card has free ({})",
                scene.trace.name,
                format_bytes(wanted),
                format_bytes(free)
            ),
            "give less with --capacity SIZE",
        )),
        _ => Ok(()),
    }
}
