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

/// What the host waited for the driver and for moves, and how that compares with what the
/// model charges. Moves are left out where no policy moved anything.
fn driver_time(rows: &[&CardRow]) -> Chart {
    let column = |label: &str, unit| BarColumn {
        label: label.into(),
        unit,
        end: None,
        guide: None,
    };
    let mut columns = vec![
        column("driver calls", Unit::TimeNs),
        column("of the model's", Unit::Percent),
    ];
    let moved = rows.iter().any(|row| row.move_model_ns > 0);
    if moved {
        columns.push(column("moves", Unit::TimeNs));
        columns.push(column("of the model's", Unit::Percent));
    }
    let row = |row: &&CardRow| BarRow {
        name: row.policy.clone(),
        values: [
            (row.driver_ns, row.driver_model_ns),
            (row.move_ns, row.move_model_ns),
        ]
        .into_iter()
        .flat_map(|(measured, model)| {
            let share = 100.0 * measured as f64 / model as f64;
            [Some(measured as f64), (model > 0).then_some(share)]
        })
        .take(columns.len())
        .collect(),
    };
    let first = rows[0];
    let rows = rows.iter().map(row).collect();
    Chart::Bars(BarChart {
        title: "Time of driver calls and moves, measured".into(),
        subtitle: format!("{}, {}", first.trace, first.card),
        columns,
        rows,
    })
}
