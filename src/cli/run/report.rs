//! The files of an experiment, and what is said of its rows.

use std::fs::File;

use serde::Serialize;

use crate::cli::CliError;
use crate::cli::folder::Folder;
use crate::cli::output::Output;
use crate::cli::plot;
use crate::cli::table::{Cell, Column, Table};
use crate::experiment::journal::{CELLS, Lines};
use crate::experiment::manifest::Manifest;
use crate::experiment::rows::{self, CellRow, RowsError};
use crate::observe::metric::Metric;
use crate::stats::{Group, Line, compare, write_csv};
use crate::trace::TraceError;
use crate::units::format_count;

/// What `--json` prints.
#[derive(Serialize)]
struct Ran<'a> {
    experiment: &'a str,
    rows: &'a [CellRow],
    broken: &'a [(String, String)],
    out: String,
}

/// Writes the files of a finished run, the manifest last, and prints its report.
pub fn write(
    folder: &Folder,
    mut manifest: Manifest,
    lines: &Lines,
    plots: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    folder.file("rows.csv", |out| lines.write_rows(out))?;
    let whole = manifest.shard.is_none();
    if whole {
        folder.file("bands.csv", |out| lines.write_bands(out))?;
    } else {
        folder.file(CELLS, |out| lines.write_sorted(&manifest, out))?;
    }
    let broken = lines.broken()?;
    if !broken.is_empty() {
        folder.file("broken.csv", |out| {
            let mut csv = csv::Writer::from_writer(out);
            csv.write_record(["cell", "broke"])?;
            for (cell, what) in &broken {
                csv.write_record([cell, what])?;
            }
            csv.flush()
        })?;
    }
    let rows = lines.rows()?;
    let said = of_manifest(&rows, &manifest)?;
    if whole {
        let lines: Vec<Line> = said.iter().flatten().cloned().collect();
        folder.file("stats.csv", |out| write_csv(&lines, out))?;
    }
    if whole && plots {
        let baseline = manifest.baseline.as_deref();
        plot::experiment(folder, folder.path(), &rows, &manifest.metrics, baseline)?;
    }
    manifest.files = folder.files();
    folder.json("manifest.json", &manifest)?;
    print(&said, &manifest, output)?;
    tell(&rows, &broken, &manifest, folder, output)
}

/// Prints the report of results that are there already; answers what broke.
pub fn again(
    folder: &Folder,
    manifest: &Manifest,
    output: &mut Output,
) -> Result<Vec<(String, String)>, CliError> {
    let open = |name: &str| {
        let path = folder.path().join(name);
        let file = path.display().to_string();
        let input = File::open(&path).map_err(|error| TraceError::io(&*file, error));
        input.map(|input| (file, input))
    };
    let (file, input) = open("rows.csv")?;
    let rows = rows::read_csv(&file, input)?;
    let mut broken = Vec::new();
    if folder.path().join("broken.csv").exists() {
        let (file, input) = open("broken.csv")?;
        let read: Result<_, csv::Error> =
            csv::Reader::from_reader(input).into_deserialize().collect();
        broken = read.map_err(|source| RowsError::Csv { file, source })?;
    }
    print(&of_manifest(&rows, manifest)?, manifest, output)?;
    tell(&rows, &broken, manifest, folder, output)?;
    Ok(broken)
}

/// The error of policies that broke a rule.
pub fn verdict(broken: &[(String, String)]) -> Result<(), CliError> {
    if broken.is_empty() {
        return Ok(());
    }
    let told = broken.iter().map(|(cell, what)| format!("{cell}: {what}"));
    Err(CliError::Broke(told.collect()))
}

/// Where the results are; with `--json` the rows themselves.
fn tell(
    rows: &[CellRow],
    broken: &[(String, String)],
    manifest: &Manifest,
    folder: &Folder,
    output: &mut Output,
) -> Result<(), CliError> {
    let out = folder.path().display().to_string();
    output.line(&format!("results are in {out}"))?;
    if output.json {
        output.result(&Ran {
            experiment: &manifest.experiment,
            rows,
            broken,
            out,
        })?;
    }
    Ok(())
}

/// Sentences that are printed at most; `stats.csv` holds them all.
const SENTENCES: usize = 24;

/// What is said of the rows: statistics of every metric of the manifest.
fn of_manifest(rows: &[CellRow], manifest: &Manifest) -> Result<Vec<Vec<Line>>, CliError> {
    let find = |name: &String| {
        Metric::find(name).map_err(|error| {
            CliError::usage(error.to_string(), "the manifest is of another version")
        })
    };
    let metrics: Vec<&Metric> = manifest
        .metrics
        .iter()
        .map(find)
        .collect::<Result<_, _>>()?;
    Ok(report(rows, &metrics, manifest.baseline.as_deref()))
}

/// Statistics of every metric, a list of lines each.
pub fn report(rows: &[CellRow], metrics: &[&Metric], baseline: Option<&str>) -> Vec<Vec<Line>> {
    let said = metrics.iter();
    said.map(|metric| compare(&groups(rows, metric), metric, baseline))
        .collect()
}

/// The values of a metric by (trace, capacity, policy), in the order of the first rows.
fn groups(rows: &[CellRow], metric: &Metric) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for row in rows {
        let key = (&row.row.trace, &row.capacity_asked, &row.row.policy);
        let place = *known.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group {
                workload: row.row.trace.clone(),
                capacity: row.capacity_asked.clone(),
                policy: row.row.policy.clone(),
                samples: Vec::new(),
            });
        }
        let value = metric.merit(&row.row).map(|value| value as f64);
        groups[place]
            .samples
            .push((row.row.seed.unwrap_or(0), value));
    }
    groups
}

/// A table of medians over the seeds, and what differs from the baseline.
fn print(said: &[Vec<Line>], manifest: &Manifest, output: &mut Output) -> Result<(), CliError> {
    let names = manifest.metrics.iter();
    let metrics: Vec<&Metric> = names.filter_map(|name| Metric::find(name).ok()).collect();
    let (lines, dropped) = table(said, &metrics).lines(output.columns, output.colour);
    for line in lines {
        output.line(&line)?;
    }
    if !dropped.is_empty() {
        output.line(&format!("left out: {}; see rows.csv", dropped.join(", ")))?;
    }
    output.line(MEDIANS)?;
    for line in sentences(said) {
        output.line(&line)?;
    }
    Ok(())
}

/// What the figures of the table are.
pub const MEDIANS: &str = "figures are medians over the seeds";

/// Medians over the seeds.
pub fn table(said: &[Vec<Line>], metrics: &[&Metric]) -> Table {
    let mut columns = vec![
        Column::words("policy", 0),
        Column::words("trace", 0),
        Column::words("capacity", 1),
        Column::number("seeds", 2),
    ];
    let numbers = metrics.iter().zip(3..);
    columns.extend(numbers.map(|(metric, rank)| Column::number(metric.label, rank)));
    let mut table = Table::new(columns);
    for at in 0..said.first().map_or(0, Vec::len) {
        let first = &said[0][at];
        let mut cells: Vec<Cell> = vec![
            (&*first.policy).into(),
            (&*first.workload).into(),
            (&*first.capacity).into(),
            format_count((first.n + first.undefined) as u64).into(),
        ];
        for (lines, metric) in said.iter().zip(metrics) {
            let median = lines[at].values.as_ref().map(|values| values.median.value);
            cells.push(
                median
                    .map_or_else(|| "-".into(), |it| metric.print(it))
                    .into(),
            );
        }
        table.row(cells);
    }
    table
}

/// What differs from the baseline, in words, the first of it.
pub fn sentences(said: &[Vec<Line>]) -> Vec<String> {
    let against: Vec<&Line> = said
        .iter()
        .flatten()
        .filter(|it| it.versus.is_some())
        .collect();
    let told = |line: &&Line| format!("{} at {}: {}", line.workload, line.capacity, line.sentence);
    let mut lines: Vec<String> = against.iter().take(SENTENCES).map(told).collect();
    if against.len() > SENTENCES {
        let more = against.len() - SENTENCES;
        lines.push(format!("{more} more sentences are in stats.csv"));
    }
    lines
}
