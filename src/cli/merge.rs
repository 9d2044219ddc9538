//! `vramlab merge`: the shards of an experiment become one.

use std::path::PathBuf;

use clap::Args;

use super::CliError;
use super::folder::Folder;
use super::output::Output;
use super::run::report;
use crate::experiment::merge::join;

/// Join the shards of an experiment: the same files as one run, byte for byte
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    vramlab merge shards/1 shards/2 shards/3 --out results/padding")]
pub struct Merge {
    /// The folders that `vramlab run --shard I/N` wrote, all N of them
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Folder for results
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,

    /// Write no plots
    #[arg(long)]
    no_plots: bool,
}

impl Merge {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let (manifest, lines) = join(&self.folders)?;
        let folder = Folder::new(&self.out)?;
        report::write(&folder, manifest, &lines, !self.no_plots, output)?;
        report::verdict(&lines.broken()?)
    }
}
