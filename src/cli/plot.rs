//! `vramlab plot`: draws the pictures of a folder of results again, from its rows alone.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use rayon::prelude::*;
use serde::Deserialize;

use super::CliError;
use super::charts::{self, Caption, Timed};
use super::folder::{Folder, file_names};
use super::load::counted;
use super::output::Output;
use crate::experiment::rows::{self, CellRow};
use crate::observe::Row;
use crate::observe::metric::Metric;
use crate::observe::timeline::{self, Bucket};
use crate::plot::experiment::{self, Cell, Data, METRICS, Picture};
use crate::trace::TraceError;
use crate::trace::error::Place;

/// Draw the plots of a folder of results again, from its csv files alone
///
/// The folder is one that `compare` or `run` wrote: the same rows give the same plots, byte
/// for byte. Address maps and histograms of sizes need the trace: `compare` draws them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab plot results/gpt2-varlen\n  \
    vramlab plot vramlab-out/padding --out paper/figures")]
pub struct Plot {
    /// A folder with rows.csv, and what lies beside it
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Folder for the plots [default: the same]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What a manifest tells that rows do not.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Told {
    card: Option<ToldCard>,
    pub experiment: Option<String>,
    pub about: Option<String>,
    pub baseline: Option<String>,
    #[serde(default)]
    pub metrics: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ToldCard {
    name: String,
}

impl Told {
    /// What the charts of a comparison say below their titles.
    pub fn caption<'a>(&'a self, first: &'a Row) -> Caption<'a> {
        Caption {
            trace: &first.trace,
            capacity_bytes: first.capacity_bytes,
            card: self.card.as_ref().map_or("unknown", |card| &card.name),
        }
    }
}

impl Plot {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let from = &self.folder;
        if !from.join("rows.csv").exists() {
            let name = from.display().to_string();
            let error = TraceError::at(name, Place::Whole, "no rows.csv lies there");
            return Err(error
                .or("name a folder that `vramlab compare` or `run` wrote")
                .into());
        }
        let (file, input) = open(&from.join("rows.csv"))?;
        let rows = rows::read_csv(&file, input)?;
        let told = told(from)?;
        let folder = Folder::new(self.out.as_ref().unwrap_or(from))?;
        // An experiment's rows name their cell, a comparison's have none.
        if rows.iter().any(|row| !row.cell.is_empty()) {
            experiment(
                &folder,
                from,
                &rows,
                &told.metrics,
                told.baseline.as_deref(),
            )?;
        } else {
            of_comparison(&folder, from, &rows, &told)?;
        }
        let files = folder.files();
        if output.json {
            return output.result(&files);
        }
        let drawn = counted(files.len(), "file");
        output.line(&format!("{drawn} drawn in {}", folder.path().display()))
    }
}

/// Draws the pictures of an experiment's rows and of the bands beside them in `from`, as the
/// metrics to report and the baseline ask for.
///
/// # Errors
/// A `bands.csv` that cannot be read; what drawing or the system says.
pub fn experiment(
    folder: &Folder,
    from: &Path,
    rows: &[CellRow],
    names: &[String],
    baseline: Option<&str>,
) -> Result<(), CliError> {
    draw(folder, &pictures(from, rows, names, baseline)?)
}

/// The pictures of an experiment, not yet drawn.
pub(super) fn pictures(
    from: &Path,
    rows: &[CellRow],
    names: &[String],
    baseline: Option<&str>,
) -> Result<Vec<Picture>, CliError> {
    let bands = if from.join("bands.csv").exists() {
        let (file, input) = open(&from.join("bands.csv"))?;
        experiment::read_csv(&file, input)?
    } else {
        Vec::new()
    };
    Ok(experiment::charts(&Data {
        cells: rows.iter().map(cell).collect(),
        bands: &bands,
        metrics: metrics(names),
        baseline,
    }))
}

fn cell(row: &CellRow) -> Cell<'_> {
    Cell {
        capacity: &row.capacity_asked,
        row: &row.row,
    }
}

/// Draws all pictures; those of several workloads in a folder each.
fn draw(folder: &Folder, pictures: &[Picture]) -> Result<(), CliError> {
    let mut workloads: Vec<&str> = Vec::new();
    for Picture { workload, .. } in pictures {
        if !workload.is_empty() && !workloads.contains(&workload.as_str()) {
            workloads.push(workload);
        }
    }
    let folders = file_names(workloads.iter().copied());
    let each = pictures.par_iter().with_max_len(1);
    each.try_for_each(|picture| {
        let at = workloads.iter().position(|it| *it == picture.workload);
        let name = match at {
            Some(at) if workloads.len() > 1 => format!("{}/{}", folders[at], picture.stem),
            _ => picture.stem.clone(),
        };
        folder.chart(&name, &picture.chart)
    })
}

/// The metrics of the names that are known, or those that are drawn where none is named.
pub(super) fn metrics(names: &[String]) -> Vec<&'static Metric> {
    let find = |name: &str| Metric::find(name).ok();
    if names.is_empty() {
        return METRICS.into_iter().filter_map(find).collect();
    }
    names.iter().filter_map(|name| find(name)).collect()
}

fn of_comparison(
    folder: &Folder,
    from: &Path,
    rows: &[CellRow],
    told: &Told,
) -> Result<(), CliError> {
    let rows: Vec<Row> = rows.iter().map(|it| it.row.clone()).collect();
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let caption = told.caption(first);
    for (name, chart) in charts::of_rows(&caption, &rows) {
        folder.chart(name, &chart)?;
    }
    let mut names: Vec<&str> = Vec::new();
    let mut timelines: Vec<Vec<Bucket>> = Vec::new();
    for (row, name, buckets) in self::timelines(from, &rows)? {
        let chart = charts::memory(&caption, (&row.policy, &buckets));
        folder.chart(&format!("{name}/memory"), &chart)?;
        names.push(&row.policy);
        timelines.push(buckets);
    }
    let timed = names.iter().zip(&timelines);
    let timed: Vec<Timed<'_>> = timed.map(|(name, it)| (*name, &**it)).collect();
    folder.chart("fragmentation", &charts::fragmentation(&caption, &timed))
}

/// A row, the name of its policy's folder, and the timeline in it.
pub(super) type RowTimeline<'a> = (&'a Row, String, Vec<Bucket>);

/// The timelines that lie beside the rows of a comparison.
/// A policy that could not start has a row and no timeline.
pub(super) fn timelines<'a>(
    from: &Path,
    rows: &'a [Row],
) -> Result<Vec<RowTimeline<'a>>, CliError> {
    let mut found: Vec<RowTimeline<'_>> = Vec::new();
    for row in rows {
        let before = found.iter().map(|(row, ..)| row.policy.as_str());
        let name = file_names(before.chain([row.policy.as_str()])).pop();
        let name = name.unwrap_or_default();
        let path = from.join(&name).join("timeline.csv");
        if path.exists() {
            let (file, input) = open(&path)?;
            found.push((row, name, timeline::read_csv(&file, input)?));
        }
    }
    Ok(found)
}

/// Opens a file, with its name for errors.
pub(super) fn open(path: &Path) -> Result<(String, File), CliError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| TraceError::io(&*name, error))?;
    Ok((name, file))
}

/// What the manifest says, where there is one.
pub(super) fn told(folder: &Path) -> Result<Told, CliError> {
    let path = folder.join("manifest.json");
    if !path.exists() {
        return Ok(Told::default());
    }
    let (file, input) = open(&path)?;
    let told = serde_json::from_reader(input);
    told.map_err(|error| {
        let error = TraceError::at(file, Place::Whole, format!("no manifest: {error}"));
        error
            .or("run the command that wrote the folder again")
            .into()
    })
}
