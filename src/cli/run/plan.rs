//! What will be run: `--list` and `--dry-run`.

use serde::Serialize;

use crate::cli::CliError;
use crate::cli::args::JobsArgs;
use crate::cli::load::counted;
use crate::cli::output::Output;
use crate::cli::table::{Column, Table};
use crate::experiment::cost::{TRIAL_EVENTS, estimate};
use crate::experiment::plan::{Cell, Experiment, Shard};
use crate::policy::Registry;
use crate::units::{format_count, format_nanos};

/// What `--list --json` prints for a cell.
#[derive(Serialize)]
struct Listed<'a> {
    cell: String,
    trace: &'a str,
    seed: Option<u64>,
    card: &'a str,
    capacity: &'a str,
    policy: &'a str,
}

/// What `--dry-run --json` prints for a source.
#[derive(Serialize)]
struct Priced<'a> {
    trace: &'a str,
    readings: usize,
    events_each: u64,
    cells: usize,
    replayed_events: u64,
}

/// The first line of an output.
pub(super) fn heading(experiment: &Experiment, cells: &[Cell], shard: Option<Shard>) -> String {
    let about = match &*experiment.about {
        "" => String::new(),
        about => format!(" ({about})"),
    };
    let part = shard.map_or_else(String::new, |shard| format!(", shard {shard}"));
    format!(
        "{}{about}: {}{part}: {} x {} x {} of {}",
        experiment.name,
        counted(cells.len(), "cell"),
        counted(experiment.readings().len(), "trace"),
        counted_policies(experiment.policies.len()),
        if experiment.capacities.len() == 1 {
            "1 capacity".to_owned()
        } else {
            format!("{} capacities", experiment.capacities.len())
        },
        counted(experiment.devices.len(), "card"),
    )
}

fn counted_policies(count: usize) -> String {
    match count {
        1 => "1 policy".into(),
        more => format!("{} policies", format_count(more as u64)),
    }
}

/// Prints the ids of the cells.
pub(super) fn list(
    experiment: &Experiment,
    cells: &[Cell],
    output: &mut Output,
) -> Result<(), CliError> {
    if output.json {
        let listed = cells.iter().map(|cell| Listed {
            cell: experiment.id(cell),
            trace: &experiment.sources[cell.reading.source].name,
            seed: cell.reading.seed,
            card: &experiment.devices[cell.device].name,
            capacity: &experiment.capacities[cell.capacity].text,
            policy: &experiment.policies[cell.policy].label,
        });
        return output.result(&listed.collect::<Vec<_>>());
    }
    for cell in cells {
        output.line(&experiment.id(cell))?;
    }
    Ok(())
}

/// Prints what the cells will cost. All but the time is the same every time.
pub(super) fn cost(
    experiment: &Experiment,
    registry: &Registry,
    cells: &[Cell],
    jobs: &JobsArgs,
    output: &mut Output,
) -> Result<(), CliError> {
    output.line(&heading(experiment, cells, None))?;
    let cost = estimate(experiment, registry, cells)?;
    let threads = jobs.within(rayon::current_num_threads)?;
    let priced: Vec<Priced<'_>> = cost
        .sources
        .iter()
        .map(|source| Priced {
            trace: &source.name,
            readings: source.readings,
            events_each: source.events,
            cells: source.cells,
            replayed_events: source.events * source.cells as u64,
        })
        .collect();
    if output.json {
        output.result(&priced)?;
    }
    let mut table = Table::new(vec![
        Column::words("trace", 0),
        Column::number("read or\nmade", 1),
        Column::number("events\neach", 1),
        Column::number("cells\nand rows", 0),
        Column::number("events\nreplayed", 0),
    ]);
    for source in &priced {
        table.row(vec![
            source.trace.into(),
            format_count(source.readings as u64).into(),
            format_count(source.events_each).into(),
            format_count(source.cells as u64).into(),
            format_count(source.replayed_events).into(),
        ]);
    }
    for line in table.lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    let replayed: u64 = priced.iter().map(|source| source.replayed_events).sum();
    output.line(&format!(
        "{} of {} replayed; events of a workload are those of its first seed",
        counted(cells.len(), "row"),
        counted(usize::try_from(replayed).unwrap_or(usize::MAX), "event"),
    ))?;
    let time = cost.one_thread / u32::try_from(threads).unwrap_or(1);
    output.line(&format!(
        "about {} on {}, from a trial of every policy on the first {} events of each trace",
        format_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        counted(threads, "thread"),
        format_count(TRIAL_EVENTS as u64),
    ))
}
