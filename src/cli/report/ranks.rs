//! A folder of recordings, one a rank: every policy over all of them.

use std::path::Path;

use super::sections::table;
use super::traces::{cells, views};
use super::{Gathered, Report};
use crate::cli::CliError;
use crate::cli::compare;
use crate::cli::load;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::experiment::ranks::{self, FirstFailure, OverRanks, RankRow, RanksError, over_ranks};
use crate::experiment::{Ended, Scene};
use crate::observe::Metric;
use crate::policy::{Chosen, Registry};
use crate::report::{Part, Section};
use crate::trace::TraceError;
use crate::units::{format_count, format_nanos};

/// Adds the ranks of a folder.
pub fn add(
    args: &Report,
    folder: &Path,
    registry: &Registry,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    let policies = compare::choose(registry, &args.policies, &args.specs)?;
    let mut traces = Vec::new();
    for file in ranks::files(folder).map_err(refused(folder))? {
        traces.extend(load::open(&file, &args.open)?);
    }
    let names: Vec<&str> = traces.iter().map(|trace| &*trace.name).collect();
    let numbers = ranks::numbers(&names);
    let scenes = ranks::scenes(traces, &args.card.card, args.card.wanted()?);
    let scenes = scenes.map_err(refused(folder))?;
    let mut rows = Vec::new();
    for (scene, rank) in scenes.iter().zip(&numbers) {
        for (ended, chosen) in cells(args, scene, registry, &policies)?.iter().zip(&policies) {
            if let Ended::Broke(what) = ended {
                let label = &chosen.label;
                let told = format!("policy '{label}' broke a rule on rank {rank}: {what}");
                gathered.broken.push(told);
            }
            let row = ended.row().cloned();
            rows.extend(row.map(|row| RankRow::new(*rank, &scene.trace, row)));
        }
    }
    let all = over_ranks(&rows);
    gathered.page.summary.push(said(folder, &scenes, &all));
    let wanted = shown(args, &scenes, &numbers, &policies, &all);
    views(args, &wanted, registry, gathered)
}

/// A folder that is neither of ranks nor of results.
fn refused(folder: &Path) -> impl Fn(RanksError) -> CliError {
    let folder = folder.display().to_string();
    move |error| match error {
        RanksError::Io { source, .. } => TraceError::io(&*folder, source).into(),
        RanksError::Empty(_) => TraceError::whole(&*folder, "no rows.csv and no trace lies there")
            .or("name a trace, a folder that `compare` or `run` wrote, or one of recordings")
            .into(),
        other => TraceError::whole(&*folder, other.to_string())
            .or("a folder of ranks holds one recording of each")
            .into(),
    }
}

/// The sentence and the table.
fn said(folder: &Path, scenes: &[Scene], all: &[OverRanks]) -> Section {
    let count = scenes.len() as u64;
    let mut parts = vec![
        Part::Lead(lead(count, all)),
        table(&over(all), "Each policy over all ranks, best first"),
        Part::Note(
            "Worst: the rank that a policy serves worst, its number behind it; spread: the \
             highest rank's value less the lowest's."
                .into(),
        ),
    ];
    let first = all.iter().filter_map(|one| {
        let failure = one.first_failure.as_ref()?;
        Some(format!("{}: {}", one.policy, failure_words(failure)))
    });
    let first: Vec<String> = first.collect();
    if !first.is_empty() {
        parts.push(Part::Text("What fails first:".into()));
        parts.push(Part::List(first));
    }
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    Section {
        title: format!("{}: {} ranks", name.to_string_lossy(), format_count(count)),
        parts,
    }
}

fn lead(count: u64, all: &[OverRanks]) -> String {
    let Some(best) = all.first() else {
        return "No policy could be replayed.".into();
    };
    let ranks = format_count(count);
    let footprint = best.spread("footprint_bytes").map_or_else(String::new, |it| {
        let worst = shown_metric("footprint_bytes", it.worst);
        format!("; the worst is rank {} with a footprint of {worst}", it.worst_rank)
    });
    if best.failed == 0 {
        return format!("Best is {}: all {ranks} ranks are served{footprint}.", best.policy);
    }
    format!(
        "Best is {}: {} of {ranks} ranks fail, {} requests in all{footprint}.",
        best.policy,
        format_count(best.ranks_failed),
        format_count(best.failed)
    )
}

fn failure_words(failure: &FirstFailure) -> String {
    let at = failure.time_ns.map_or_else(String::new, |ns| {
        format!(", {} after its start", format_nanos(ns))
    });
    let event = format_count(failure.event);
    format!("rank {} ({}), at event {event}{at}", failure.rank, failure.trace)
}

/// What is told of each policy: footprint and fragmentation over the ranks.
const SPREADS: [(&str, &str, &str, &str); 2] = [
    (
        "footprint_bytes",
        "footprint\nworst (rank)",
        "median",
        "spread",
    ),
    (
        "mean_external_fragmentation_ppm",
        "mean frag.\nworst (rank)",
        "median",
        "spread",
    ),
];

fn over(all: &[OverRanks]) -> Table {
    let mut columns = vec![
        Column::words("policy", 0),
        Column::number("failed", 0),
        Column::number("ranks\nthat fail", 0),
        Column::number("fails\nfirst", 1),
    ];
    for (_, worst, median, spread) in SPREADS {
        columns.extend([worst, median, spread].map(|title| Column::number(title, 2)));
    }
    let mut table = Table::new(columns);
    for (place, one) in all.iter().enumerate() {
        let mark = if place == 0 { Mark::Good } else { Mark::None };
        let first = one.first_failure.as_ref();
        let mut cells: Vec<Cell> = vec![
            Cell::new(&*one.policy, mark),
            format_count(one.failed).into(),
            format_count(one.ranks_failed).into(),
            first.map_or_else(|| "-".to_owned(), |it| format!("rank {}", it.rank)).into(),
        ];
        for (metric, ..) in SPREADS {
            let texts = one.spread(metric).map_or(["-"; 3].map(String::from), |it| {
                let worst = shown_metric(metric, it.worst);
                [
                    format!("{worst} ({})", it.worst_rank),
                    shown_metric(metric, it.median),
                    shown_metric(metric, it.spread),
                ]
            });
            cells.extend(texts.map(Cell::from));
        }
        table.row(cells);
    }
    table
}

fn shown_metric(name: &str, value: u64) -> String {
    let metric = Metric::find(name).expect("it is a metric");
    metric.print(value as f64)
}

/// What is shown over time: the worst rank under the best policies, and another rank under
/// the best of them.
fn shown<'a>(
    args: &Report,
    scenes: &'a [Scene],
    numbers: &[u64],
    policies: &[Chosen],
    all: &[OverRanks],
) -> Vec<(&'a Scene, Chosen)> {
    let find = |one: &OverRanks| policies.iter().find(|chosen| chosen.label == one.policy);
    let Some(best) = all.first() else {
        return Vec::new();
    };
    let first = all.iter().find_map(|one| one.first_failure.as_ref());
    let worst = best.spread("footprint_bytes").map(|spread| spread.worst_rank);
    let worst = first.map(|failure| failure.rank).or(worst);
    let scene = |rank: u64| numbers.iter().position(|it| *it == rank).map(|at| &scenes[at]);
    let mut wanted = Vec::new();
    let views = usize::from(args.views);
    if let Some(scene) = worst.and_then(scene) {
        let under = all.iter().filter_map(find).take(views.saturating_sub(1).max(1));
        wanted.extend(under.map(|chosen| (scene, chosen.clone())));
    }
    let other = numbers.iter().find(|rank| Some(**rank) != worst);
    let other = other.and_then(|rank| scene(*rank));
    if let (Some(scene), Some(chosen)) = (other, find(best))
        && wanted.len() < views
    {
        wanted.push((scene, chosen.clone()));
    }
    wanted
}
