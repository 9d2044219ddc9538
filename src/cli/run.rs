//! `vramlab run`: an experiment file becomes rows, on every core, to be gone on with at
//! any time.

mod plan;
pub(super) mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::CliError;
use super::args::JobsArgs;
use super::folder::Folder;
use super::output::{Output, say};
use super::progress::Progress;
use crate::experiment::file;
use crate::experiment::journal::{CELLS, JOURNAL, Journal, JournalError, Lines};
use crate::experiment::manifest::Manifest;
use crate::experiment::plan::{Cell, Experiment, Shard};
use crate::experiment::runner;
use crate::policy::Registry;

/// Run an experiment: traces and workloads x policies x capacities x seeds
///
/// Every cell's row goes to the output folder as it ends, whole or not at all; Ctrl-C keeps
/// what is done and --resume goes on. The files are the same, byte for byte, for any number
/// of threads, however often the run was cut off, and for shards that `vramlab merge` joins.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab run experiments/padding.toml --dry-run\n  \
    vramlab run experiments/padding.toml --resume\n  \
    vramlab run experiments/padding.toml --shard 2/8 --out shards/2")]
pub struct Run {
    /// The experiment, a .toml file
    #[arg(value_name = "EXPERIMENT")]
    experiment: PathBuf,

    /// Folder for results [default: vramlab-out/EXPERIMENT]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    jobs: JobsArgs,

    /// Go on with what an interrupted run has done; begin where there is none
    #[arg(long)]
    resume: bool,

    /// Only this part of the cells, for one machine of several
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,

    /// Write no plots
    #[arg(long)]
    no_plots: bool,

    /// Print the ids of the cells and run none
    #[arg(long, conflicts_with = "dry_run")]
    list: bool,

    /// Say what it will cost and run nothing but a short trial
    #[arg(long)]
    dry_run: bool,
}

impl Run {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let experiment = file::read(&self.experiment, registry)?;
        let cells = experiment.cells(self.shard);
        if self.list {
            return plan::list(&experiment, &cells, output);
        }
        if self.dry_run {
            return plan::cost(&experiment, registry, &cells, &self.jobs, output);
        }
        let manifest = Manifest::of(&experiment, self.shard);
        let folder = Folder::new(&self.place(&experiment.name))?;
        output.line(&plan::heading(&experiment, &cells, self.shard))?;
        if self.resume && finished(folder.path(), &manifest)? {
            output.line("every cell is done already")?;
            let again = || report::again(&folder, &manifest, output);
            return report::verdict(&self.jobs.within(again)??);
        }
        let (journal, left) = self.begin(folder.path(), &manifest, &cells)?;
        self.cells(registry, &experiment, &journal, &left)?;
        let path = folder.path().join(JOURNAL);
        let lines = Lines::of(std::slice::from_ref(&path))?;
        if lines.len() < cells.len() {
            return Err(CliError::Interrupted {
                done: lines.len(),
                of: cells.len(),
                out: folder.path().to_owned(),
            });
        }
        let write = || report::write(&folder, manifest, &lines, !self.no_plots, output);
        self.jobs.within(write)??;
        // Everything that the journal holds is written elsewhere now.
        std::fs::remove_file(&path).map_err(|error| CliError::write(path, error))?;
        report::verdict(&lines.broken()?)
    }

    /// The folder of the results.
    fn place(&self, name: &str) -> PathBuf {
        match (&self.out, self.shard) {
            (Some(out), _) => out.clone(),
            (None, None) => Path::new("vramlab-out").join(name),
            (None, Some(Shard { index, of })) => {
                Path::new("vramlab-out").join(format!("{name}-shard-{index}-of-{of}"))
            }
        }
    }

    /// The journal, and the cells that are not in it.
    fn begin(
        &self,
        folder: &Path,
        manifest: &Manifest,
        cells: &[Cell],
    ) -> Result<(Journal, Vec<Cell>), CliError> {
        let path = folder.join(JOURNAL);
        if !path.exists() {
            return Ok((Journal::create(&path, manifest)?, cells.to_vec()));
        }
        if !self.resume {
            return Err(CliError::usage(
                format!("{} holds cells of a run that did not end", folder.display()),
                format!(
                    "--resume goes on with it; to begin anew, remove {}",
                    path.display()
                ),
            ));
        }
        let (journal, done) = Journal::resume(&path, manifest)?;
        let done: BTreeSet<usize> = done.into_iter().collect();
        let left = cells.iter().filter(|cell| !done.contains(&cell.number));
        Ok((journal, left.copied().collect()))
    }

    /// Runs the cells that are left.
    fn cells(
        &self,
        registry: &Registry,
        experiment: &Experiment,
        journal: &Journal,
        left: &[Cell],
    ) -> Result<(), CliError> {
        let progress = Progress::cells(left.len());
        let run = runner::Run {
            experiment,
            registry,
            journal,
            stop: on_interrupt(),
            progress: &|| progress.add(1),
        };
        let ran = self.jobs.within(|| run.cells(left))?;
        progress.end();
        Ok(ran?)
    }
}

/// Whether the folder holds the results of this very experiment.
fn finished(folder: &Path, manifest: &Manifest) -> Result<bool, CliError> {
    if folder.join(JOURNAL).exists() {
        return Ok(false);
    }
    let path = folder.join("manifest.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Ok(false);
    };
    let begun: Manifest = serde_json::from_str(&text).map_err(|error| JournalError::Damaged {
        path: path.clone(),
        line: error.line(),
        what: error.to_string(),
    })?;
    let differs = manifest.differences(&begun);
    if !differs.is_empty() {
        return Err(JournalError::Changed { path, differs }.into());
    }
    let results = if manifest.shard.is_some() {
        CELLS
    } else {
        "bands.csv"
    };
    Ok(folder.join(results).exists() && folder.join("rows.csv").exists())
}

/// Becomes true at the first Ctrl-C; the second one ends the process at once.
fn on_interrupt() -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        // Where there are no signals, an interrupt ends the process: rows are kept anyway.
        let _ = ctrlc::set_handler(|| {
            if STOP.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            say("interrupted: cells that run are ended and kept; once more stops at once");
        });
    });
    &STOP
}
