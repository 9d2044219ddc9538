//! `vramlab explain`: why a request was not served, and what would have served it.

mod findings;
mod view;

use std::path::PathBuf;

use clap::Args;

use super::CliError;
use super::args::{CardArgs, JobsArgs, OpenArgs};
use super::compare::choose;
use super::load;
use super::output::Output;
use crate::explain::{Given, Question, explain, set_up};
use crate::policy::Registry;

/// Explain why a request failed: what was in the way, and what would have served it
///
/// A PyTorch snapshot is rebuilt at its recorded addresses, under the settings that it
/// tells. The blockers are proven by replays that free them, and so is every setting and
/// policy that is said to help.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab explain snapshot.pickle\n  \
    vramlab explain trace.csv --policy best-fit --capacity 8GiB\n  \
    vramlab explain run.vlt.zst --event 52013 --policies pytorch-expandable,stitching")]
pub struct Explain {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The policy: NAME, NAME:key=value,key=value, or a .toml file [default: the settings that
    /// a PyTorch snapshot tells; else best-fit]
    #[arg(long, value_name = "SPEC")]
    policy: Option<String>,

    /// The event to explain, counted from 0 [default: a failure that was recorded, else the
    /// first of the replay, else the worst external fragmentation]
    #[arg(long, value_name = "N")]
    event: Option<u64>,

    /// What to try instead, separated by commas; `pytorch-settings` are PyTorch's settings
    /// worth a try [default: these for PyTorch, and one policy of each kind]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    jobs: JobsArgs,
}

impl Explain {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let others = if self.policies.is_empty() {
            None
        } else {
            Some(choose(registry, &self.policies, &[])?)
        };
        let given = Given {
            policy: self.policy.as_deref(),
            wanted: self.card.wanted()?,
            device: self.card.card.clone(),
        };
        let trace = load::only(&self.trace, &self.open)?;
        let setup = set_up(trace, registry, &given)?;
        let question = Question {
            event: self.event,
            others,
            ..Question::default()
        };
        let explained = self
            .jobs
            .within(|| explain(&setup, registry, &question))??;
        if output.json {
            return output.result(&explained);
        }
        for line in view::lines(&explained, output) {
            output.line(&line)?;
        }
        Ok(())
    }
}
