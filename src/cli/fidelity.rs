//! `vramlab fidelity`: models against recordings, event by event.

use std::path::PathBuf;

use clap::Args;
use rayon::prelude::*;

use super::CliError;
use super::args::{CardArgs, JobsArgs, OpenArgs};
use super::load;
use super::output::Output;
use super::table::{Cell, Column, Mark, Table};
use crate::experiment::{Wanted, caught};
use crate::fidelity::{FidelityRow, compare, recorded_policy};
use crate::policy::Registry;
use crate::trace::{OpenOptions, Trace};
use crate::units::{format_bytes, format_count};

/// Compare a model with recordings of the real allocator, event by event
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    vramlab fidelity snapshot.pickle --capacity 4000MiB")]
pub struct Fidelity {
    /// Recordings: PyTorch snapshots, logs, csv with addresses, or a .vlt made from one
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,

    /// The policy [default: the settings that each recording tells, else pytorch]
    #[arg(long, value_name = "SPEC")]
    policy: Option<String>,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    jobs: JobsArgs,
}

impl Fidelity {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let capacity_bytes = match self.card.wanted()? {
            Wanted::Bytes(bytes) => Some(bytes),
            _ => None,
        };
        let rows = self.jobs.within(|| {
            let recordings = self.recordings.par_iter();
            let rows = recordings.map(|path| self.rows(path, capacity_bytes, registry));
            rows.collect::<Result<Vec<_>, _>>()
        })??;
        let rows = rows.concat();
        if output.json {
            output.result(&rows)?;
        } else {
            tell(&rows, output)?;
        }
        let wrong = rows.iter().filter(|row| !row.exact()).count();
        if wrong > 0 {
            return Err(CliError::Mismatch {
                wrong,
                of: rows.len(),
            });
        }
        Ok(())
    }

    /// One row a device of the recording.
    fn rows(
        &self,
        path: &std::path::Path,
        capacity_bytes: Option<u64>,
        registry: &Registry,
    ) -> Result<Vec<FidelityRow>, CliError> {
        let options = OpenOptions {
            capacity_bytes,
            ..self.open.options()
        };
        let traces = load::open_with(path, &options)?;
        let rows = traces
            .iter()
            .map(|trace| self.row(trace, capacity_bytes, registry));
        rows.collect()
    }

    fn row(
        &self,
        trace: &Trace,
        capacity_bytes: Option<u64>,
        registry: &Registry,
    ) -> Result<FidelityRow, CliError> {
        // Old snapshots hold no settings; then it was PyTorch as it comes.
        let truth = trace.truth.as_deref();
        let snapshot = truth.is_none_or(|truth| truth.source == "pytorch");
        let plain = || snapshot.then(|| "pytorch".to_owned());
        let told = self
            .policy
            .clone()
            .or_else(|| recorded_policy(trace))
            .or_else(plain);
        let Some(told) = told else {
            return Err(CliError::usage(
                format!(
                    "recording '{}' does not tell which allocator made it",
                    trace.name
                ),
                "give it, such as --policy rmm-pool; `vramlab policy list` has the names",
            ));
        };
        let chosen = registry.find(&told)?;
        registry.build(&chosen)?;
        let make = || registry.build(&chosen).expect("it was built before");
        let card = &self.card.card;
        let checked = caught(|| compare(trace, &chosen.label, &make, card, capacity_bytes));
        let checked = checked.map_err(|what| {
            let policy = &chosen.label;
            CliError::Broke(vec![format!("policy '{policy}' broke a rule: {what}")])
        })?;
        let checked = checked.map_err(|error| {
            CliError::usage(
                error.to_string(),
                "see `vramlab trace info` for what it holds",
            )
        })?;
        Ok(checked)
    }
}

/// The table, what was fed, and each first divergence.
fn tell(rows: &[FidelityRow], output: &mut Output) -> Result<(), CliError> {
    let mut table = Table::new(vec![
        Column::words("recording", 0),
        Column::words("policy", 3),
        Column::number("addresses\nmet", 0),
        Column::number("segments\nmet", 1),
        Column::number("failures\nmet", 1),
        Column::number("final blocks\nmet", 2),
        Column::number("peak\nreserved", 1),
        Column::number("recorded\npeak", 2),
        Column::number("hidden inputs\nfed", 3),
    ]);
    for row in rows {
        let part = |met: u64, of: u64| {
            let mark = if met == of { Mark::None } else { Mark::Warn };
            Cell::new(format!("{}/{}", format_count(met), format_count(of)), mark)
        };
        let fed = row.driver_addresses_fed + row.completions_fed + row.trims_fed;
        table.row(vec![
            row.recording.as_str().into(),
            row.policy.as_str().into(),
            part(row.addresses_matched, row.allocations),
            part(row.segments_matched, row.segments),
            part(row.failures_matched, row.failures),
            part(row.final_blocks_matched, row.final_blocks),
            format_bytes(row.peak_reserved_bytes).into(),
            format_bytes(row.recorded_peak_reserved_bytes).into(),
            format_count(fed).into(),
        ]);
    }
    let (lines, _) = table.lines(output.columns, output.colour);
    for line in lines {
        output.line(&line)?;
    }
    output.line(
        "hidden inputs: addresses of the driver, ends of delayed frees, emptied caches; all \
         else is predicted",
    )?;
    for row in rows {
        if let Some(what) = &row.first_divergence {
            output.line(&format!("{}: first divergence at {what}", row.recording))?;
        }
        if row.served_instead > 0 {
            output.line(&format!(
                "{}: {} requests that failed were served here; what follows the first is \
                 counterfactual",
                row.recording,
                format_count(row.served_instead)
            ))?;
        }
    }
    Ok(())
}
