//! The files of a comparison.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;

use super::Ranked;
use super::cells::Drawn;
use crate::cli::CliError;
use crate::cli::charts::{self, Caption, Timed};
use crate::cli::folder::{Folder, file_names};
use crate::experiment::manifest::{CardEntry, PolicyEntry};
use crate::experiment::{Ended, Scene, Seen};
use crate::observe::{Row, rows};

/// Which file a trace came from.
pub(super) struct Source<'a> {
    pub file: &'a Path,
    pub blake3: Option<String>,
}

/// What the results depend on: the same manifest, the same bytes.
#[derive(Serialize)]
struct Manifest<'a> {
    vramlab: &'static str,
    trace: ManifestTrace<'a>,
    card: CardEntry,
    capacity_bytes: u64,
    policies: Vec<PolicyEntry>,
    seeds: Vec<u64>,
    files: Vec<String>,
}

#[derive(Serialize)]
struct ManifestTrace<'a> {
    name: &'a str,
    file: String,
    blake3: Option<&'a str>,
    device: u32,
}

/// What is written.
pub(super) struct Given<'a> {
    pub folder: &'a Folder,
    pub scene: &'a Scene,
    pub ranked: &'a [Ranked<'a>],
    pub source: &'a Source<'a>,
    /// The charts of each policy by its label; none where nothing is to be drawn.
    pub charts: Option<BTreeMap<&'a str, &'a [(&'static str, Drawn)]>>,
}

impl Given<'_> {
    /// Writes everything, in the threads of the present pool.
    pub fn write(&self) -> Result<(), CliError> {
        let folder = self.folder;
        let rows = self.ranked.iter().filter_map(|cell| cell.ended.row());
        let rows: Vec<Row> = rows.cloned().collect();
        let cells: Vec<&Seen> = self.ranked.iter().filter_map(seen).collect();
        let (drawn, written) = rayon::join(
            || match &self.charts {
                Some(_) => charts(folder, self.scene, &cells, &rows),
                None => Ok(()),
            },
            || {
                folder.file("rows.csv", |out| rows::write_csv(&rows, out))?;
                folder.file("rows.json", |out| rows::write_json(&rows, out))?;
                folder.file("failures.csv", |out| csv_failures(&cells, out))?;
                let names = file_names(cells.iter().map(|seen| &*seen.row.policy));
                let below: Vec<(&Seen, String)> = cells.iter().copied().zip(names).collect();
                below
                    .par_iter()
                    .with_max_len(1)
                    .try_for_each(|(seen, name)| self.of_policy(seen, name))
            },
        );
        written.and(drawn)?;
        let manifest = manifest(folder, self.scene, self.ranked, self.source);
        folder.json("manifest.json", &manifest)
    }

    /// The files of one policy, in a folder of its name.
    fn of_policy(&self, seen: &Seen, name: &str) -> Result<(), CliError> {
        let timeline = format!("{name}/timeline.csv");
        self.folder
            .file(&timeline, |out| seen.timeline.write_csv(out))?;
        let charts = self.charts.as_ref();
        let charts = charts.and_then(|all| all.get(&*seen.row.policy).copied());
        for (chart, drawn) in charts.unwrap_or_default() {
            self.folder.drawn(&format!("{name}/{chart}"), drawn)?;
        }
        Ok(())
    }
}

/// The charts of all policies together.
fn charts(folder: &Folder, scene: &Scene, cells: &[&Seen], rows: &[Row]) -> Result<(), CliError> {
    let caption = Caption::of(scene);
    let timelines: Vec<Timed<'_>> = cells.iter().map(|seen| timed(seen)).collect();
    // The largest first.
    let mut charts = vec![("fragmentation", charts::fragmentation(&caption, &timelines))];
    charts.extend(charts::of_rows(&caption, rows));
    charts.push(("sizes", charts::sizes(scene)));
    charts
        .par_iter()
        .with_max_len(1)
        .try_for_each(|(name, chart)| folder.chart(name, chart))
}

fn seen<'a>(cell: &Ranked<'a>) -> Option<&'a Seen> {
    match cell.ended {
        Ended::Replayed(seen) => Some(seen),
        _ => None,
    }
}

fn timed(seen: &Seen) -> Timed<'_> {
    (&seen.row.policy, seen.timeline.buckets())
}

/// The kept failures of all policies; the first column names the policy.
fn csv_failures(cells: &[&Seen], out: &mut dyn Write) -> io::Result<()> {
    let mut headed = false;
    for seen in cells {
        let mut text = Vec::new();
        seen.failures
            .write_csv(&mut text)
            .map_err(io::Error::other)?;
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(&*text);
        let mut csv = csv::Writer::from_writer(&mut *out);
        for (number, record) in rows.records().enumerate() {
            let record = record.map_err(io::Error::other)?;
            let first = if number == 0 {
                "policy"
            } else {
                &seen.row.policy
            };
            if number > 0 || !headed {
                let cells = std::iter::once(first).chain(record.iter());
                csv.write_record(cells).map_err(io::Error::other)?;
                headed = true;
            }
        }
        csv.flush()?;
    }
    Ok(())
}

fn manifest<'a>(
    folder: &Folder,
    scene: &'a Scene,
    ranked: &'a [Ranked<'a>],
    source: &'a Source<'a>,
) -> Manifest<'a> {
    // In the order of the names: a manifest says what went in, not what came out.
    let mut chosen: Vec<_> = ranked.iter().map(|cell| cell.chosen).collect();
    chosen.sort_by(|a, b| a.label.cmp(&b.label));
    Manifest {
        vramlab: env!("CARGO_PKG_VERSION"),
        trace: ManifestTrace {
            name: &scene.trace.name,
            file: source.file.display().to_string(),
            blake3: source.blake3.as_deref(),
            device: scene.trace.device,
        },
        card: CardEntry::from(&*scene.device),
        capacity_bytes: scene.capacity.bytes,
        policies: chosen.into_iter().map(PolicyEntry::from).collect(),
        seeds: scene.seed.into_iter().collect(),
        files: folder.files(),
    }
}
