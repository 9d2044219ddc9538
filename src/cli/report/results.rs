//! Folders of results: what `compare` and `run` wrote.

use std::fs;
use std::path::{Path, PathBuf};

use super::Gathered;
use super::sections::{fold, table, verdict};
use crate::cli::CliError;
use crate::cli::charts;
use crate::cli::compare::view;
use crate::cli::plot::{self, Told};
use crate::cli::run::report as experiment;
use crate::experiment::rows::{self, CellRow, RowsError};
use crate::observe::metric::Metric;
use crate::observe::timeline::Bucket;
use crate::observe::{Failure, Row};
use crate::plot::{Chart, Format, render};
use crate::report::{Part, Picture, Run, Section, Track};
use crate::trace::TraceError;
use crate::units::{format_bytes, format_count};

/// More sentences about an experiment are opened on request.
const SENTENCES: usize = 6;

/// Adds a folder of results, or the folders of results in it; answers whether there were any.
pub fn add(folder: &Path, gathered: &mut Gathered) -> Result<bool, CliError> {
    let found = folders(folder)?;
    for one in &found {
        let (file, input) = plot::open(&one.join("rows.csv"))?;
        let rows = rows::read_csv(&file, input)?;
        let told = plot::told(one)?;
        if rows.iter().any(|row| !row.cell.is_empty()) {
            of_experiment(one, &rows, &told, gathered)?;
        } else {
            let rows: Vec<Row> = rows.into_iter().map(|it| it.row).collect();
            of_comparison(one, &rows, &told, gathered)?;
        }
    }
    Ok(!found.is_empty())
}

/// The folder itself where rows lie in it, else those below in which some do.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let holds = |path: &PathBuf| path.join("rows.csv").exists();
    let own = folder.to_owned();
    if holds(&own) {
        return Ok(vec![own]);
    }
    let entries = fs::read_dir(folder)
        .map_err(|error| TraceError::io(folder.display().to_string(), error))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.retain(holds);
    below.sort();
    Ok(below)
}

/// Statistics over seeds, and the pictures of an experiment.
fn of_experiment(
    folder: &Path,
    rows: &[CellRow],
    told: &Told,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    let metrics: Vec<&Metric> = plot::metrics(&told.metrics);
    let baseline = told.baseline.as_deref();
    let said = experiment::report(rows, &metrics, baseline);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let title = told.experiment.clone().unwrap_or_else(|| name.into_owned());
    let sentences = experiment::sentences(&said);
    let mut parts = Vec::new();
    parts.extend(told.about.iter().map(|about| Part::Lead(about.clone())));
    let caption = format!("{title}: {}", experiment::MEDIANS);
    parts.push(table(&experiment::table(&said, &metrics), &caption));
    if sentences.len() <= SENTENCES {
        parts.extend(sentences.into_iter().map(Part::Text));
    } else {
        parts.extend(fold("What differs from the baseline", sentences));
    }
    parts.push(Part::Note(format!(
        "{} cells in {}",
        format_count(rows.len() as u64),
        folder.display()
    )));
    gathered.page.summary.push(Section { title, parts });
    for picture in plot::pictures(folder, rows, &told.metrics, baseline)? {
        hang(picture.workload, &picture.chart, gathered)?;
    }
    Ok(())
}

/// The table of a comparison, and its timelines. Blocks are not in such a folder.
fn of_comparison(
    folder: &Path,
    rows: &[Row],
    told: &Told,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    let Some(first) = rows.first() else {
        let name = folder.join("rows.csv").display().to_string();
        return Err(TraceError::whole(name, "it holds no row")
            .or("run the command that wrote the folder again")
            .into());
    };
    let shown: Vec<&Row> = rows.iter().collect();
    let (lead, marks) = verdict(&view::verdict_of_rows(&shown));
    let caption = format!("{} under each policy, best first", first.trace);
    let rows_table = view::table_of_rows(first.lower_bound_bytes, &shown);
    let mut parts = vec![lead, table(&rows_table, &caption)];
    parts.extend(marks);
    parts.push(Part::Text(format!(
        "capacity {} ({} bytes)",
        format_bytes(first.capacity_bytes),
        format_count(first.capacity_bytes)
    )));
    parts.extend(view::packing_of_row(first).map(Part::Text));
    parts.push(Part::Note(format!(
        "From the rows in {}: which addresses were in use when is not kept there; give the trace \
         itself to see it.",
        folder.display()
    )));
    gathered.page.summary.push(Section {
        title: first.trace.clone(),
        parts,
    });
    tracks(folder, rows, first, gathered)?;
    for (_, chart) in charts::of_rows(&told.caption(first), rows) {
        hang(first.trace.clone(), &chart, gathered)?;
    }
    Ok(())
}

/// The timelines and failures of a comparison.
fn tracks(
    folder: &Path,
    rows: &[Row],
    first: &Row,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    let timelines = plot::timelines(folder, rows)?;
    if timelines.is_empty() {
        return Ok(());
    }
    let failures = failures(folder)?;
    let timed = timelines
        .iter()
        .any(|(_, _, buckets)| charts::timed(buckets));
    gathered.page.runs.push(Run {
        name: first.trace.clone(),
        trace: None,
        timed,
    });
    for (row, _, timeline) in timelines {
        gathered.page.tracks.push(track(
            row,
            timeline,
            &failures,
            gathered.page.runs.len() - 1,
        ));
    }
    Ok(())
}

fn track(row: &Row, timeline: Vec<Bucket>, failures: &[(String, Failure)], run: usize) -> Track {
    let own = failures.iter().filter(|(policy, _)| *policy == row.policy);
    Track {
        run,
        policy: row.policy.clone(),
        capacity_bytes: row.capacity_bytes,
        timeline,
        failures: own.map(|(_, failure)| *failure).collect(),
        failed: row.failed,
        map: None,
        free_lists: Vec::new(),
    }
}

/// The failures that `compare` kept, with their policies; none where the file is not there.
fn failures(folder: &Path) -> Result<Vec<(String, Failure)>, CliError> {
    let path = folder.join("failures.csv");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let (file, input) = plot::open(&path)?;
    let read = || -> csv::Result<Vec<(String, Failure)>> {
        let mut csv = csv::Reader::from_reader(input);
        let header = csv.headers()?.clone();
        let place = header.iter().position(|column| column == "policy");
        let mut failures = Vec::new();
        for record in csv.records() {
            let record = record?;
            let policy = place.and_then(|at| record.get(at)).unwrap_or_default();
            failures.push((policy.to_owned(), record.deserialize(Some(&header))?));
        }
        Ok(failures)
    };
    Ok(read().map_err(|source| RowsError::Csv { file, source })?)
}

/// Draws a picture into the page.
fn hang(workload: String, chart: &Chart, gathered: &mut Gathered) -> Result<(), CliError> {
    gathered.page.pictures.push(Picture {
        workload,
        title: chart.title().to_owned(),
        svg: render(chart, Format::Svg)?,
    });
    Ok(())
}
