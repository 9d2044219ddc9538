//! The files of an experiment, and what is said of its rows.

use std::fs::File;

use serde::Serialize;

use crate::cli::CliError;
use crate::cli::folder::Folder;
use crate::cli::output::Output;
use crate::cli::plot;
use crate::cli::table::{Cell, Column, Table};
use crate::experiment::bands::quartiles;
use crate::experiment::journal::{CELLS, Lines};
use crate::experiment::manifest::Manifest;
use crate::experiment::rows::{self, CellRow, RowsError};
use crate::trace::TraceError;
use crate::units::{format_bytes, format_count, format_nanos, format_ppm};

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
    report(&rows, &manifest, output)?;
    if whole && plots {
        let baseline = manifest.baseline.as_deref();
        plot::experiment(folder, folder.path(), &rows, &manifest.metrics, baseline)?;
    }
    manifest.files = folder.files();
    folder.json("manifest.json", &manifest)?;
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
    report(&rows, manifest, output)?;
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

/// What is said of the rows: a table of medians over the seeds.
fn report(rows: &[CellRow], manifest: &Manifest, output: &mut Output) -> Result<(), CliError> {
    let mut table = Table::new(vec![
        Column::words("policy", 0),
        Column::words("trace", 0),
        Column::words("capacity", 1),
        Column::number("seeds", 2),
        Column::number("failed", 0),
        Column::number("footprint", 0),
        Column::number("external\nmean", 3),
        Column::number("internal\npeak", 4),
        Column::number("cost", 5),
    ]);
    for group in groups(rows) {
        let median = |of: fn(&CellRow) -> Option<u64>, print: fn(u64) -> String| -> Cell {
            let mut values: Vec<u64> = group.iter().filter_map(|row| of(row)).collect();
            let median = quartiles(&mut values).map(|[_, median, _]| median);
            median.map_or_else(|| "-".into(), print).into()
        };
        let first = group[0];
        table.row(vec![
            (&*first.row.policy).into(),
            (&*first.row.trace).into(),
            (&*first.capacity_asked).into(),
            format_count(group.len() as u64).into(),
            median(|it| Some(it.row.failed), format_count),
            median(|it| Some(it.row.footprint_bytes), format_bytes),
            median(|it| it.row.mean_external_fragmentation_ppm, format_ppm),
            median(|it| it.row.peak_internal_fragmentation_ppm, format_ppm),
            median(|it| Some(it.row.cost_ns), format_nanos),
        ]);
    }
    for line in table.lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    output.line("figures are medians over the seeds")?;
    match &manifest.baseline {
        Some(baseline) => output.line(&format!("the baseline is {baseline}")),
        None => Ok(()),
    }
}

/// The rows of each (trace, capacity, policy), in the order of the first ones.
fn groups(rows: &[CellRow]) -> Vec<Vec<&CellRow>> {
    let mut groups: Vec<Vec<&CellRow>> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for row in rows {
        let group = (&row.row.trace, &row.capacity_asked, &row.row.policy);
        let place = *known.entry(group).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(row);
    }
    groups
}
