//! The files of a validation.

use std::env;
use std::path::PathBuf;

use serde::Serialize;

use super::Source;
use crate::cli::CliError;
use crate::cli::folder::{Folder, file_names};
use crate::cuda::row::write_csv;
use crate::cuda::{CardRow, Identity, Verdict};
use crate::plot::{BarChart, BarColumn, BarRow, Chart, Unit};
use crate::policy::Chosen;

/// What was run, on what. Times differ from run to run, so this names the command and
/// what went in.
#[derive(Serialize)]
pub(super) struct Manifest<'a> {
    pub vramlab: &'static str,
    pub command: String,
    pub card: &'a Identity,
    pub traces: Vec<ManifestTrace<'a>>,
    pub policies: Vec<&'a str>,
    pub files: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct ManifestTrace<'a> {
    name: &'a str,
    file: Option<String>,
    blake3: Option<&'a str>,
    capacity_bytes: u64,
}

/// The command as it was given.
pub(super) fn command() -> String {
    let words: Vec<String> = env::args().skip(1).collect();
    format!("vramlab {}", words.join(" "))
}

/// Writes rows, plots and the manifest.
pub(super) fn write(
    folder: &Folder,
    rows: &[CardRow],
    sources: &[Source],
    policies: &[Chosen],
    card: &Identity,
) -> Result<(), CliError> {
    folder.file("rows.csv", |out| write_csv(rows, out))?;
    folder.json("rows.json", &rows)?;
    let names = file_names(sources.iter().map(|source| &*source.scene.trace.name));
    for (source, name) in sources.iter().zip(names) {
        let of_trace = rows
            .iter()
            .filter(|row| row.trace == source.scene.trace.name);
        let ran: Vec<&CardRow> = of_trace
            .filter(|row| row.verdict != Verdict::NotRun)
            .collect();
        if !ran.is_empty() {
            folder.chart(&format!("driver-time-{name}"), &driver_time(&ran))?;
        }
    }
    let file = |path: &PathBuf| path.display().to_string();
    let traces = sources.iter().map(|source| ManifestTrace {
        name: &source.scene.trace.name,
        file: source.file.as_ref().map(file),
        blake3: source.blake3.as_deref(),
        capacity_bytes: source.scene.capacity.bytes,
    });
    let manifest = Manifest {
        vramlab: env!("CARGO_PKG_VERSION"),
        command: command(),
        card,
        traces: traces.collect(),
        policies: policies.iter().map(|chosen| &*chosen.label).collect(),
        files: folder.files(),
    };
    folder.json("manifest.json", &manifest)
}

/// What the host waited for the driver and for moves, beside what the model charges.
fn driver_time(rows: &[&CardRow]) -> Chart {
    let column = |label: &str| BarColumn {
        label: label.into(),
        unit: Unit::TimeNs,
        end: None,
        guide: None,
    };
    let some = |ns: u64| (ns > 0).then_some(ns as f64);
    let row = |row: &&CardRow| BarRow {
        name: row.policy.clone(),
        values: vec![
            some(row.driver_ns),
            some(row.driver_model_ns),
            some(row.move_ns),
            some(row.move_model_ns),
        ],
    };
    let first = rows[0];
    Chart::Bars(BarChart {
        title: "Time of driver calls and moves: measured and modelled".into(),
        subtitle: format!("{}, {}", first.trace, first.card),
        columns: vec![
            column("driver calls, measured"),
            column("driver calls, model"),
            column("moves, measured"),
            column("moves, model"),
        ],
        rows: rows.iter().map(row).collect(),
    })
}
