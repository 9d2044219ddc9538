//! `vramlab replay`: one trace under one policy, in detail.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::CliError;
use super::args::{CardArgs, MapArgs, OpenArgs};
use super::load::{self, Heading};
use super::output::Output;
use super::progress::Progress;
use super::table::{Cell, Column, Table};
use super::{map, sparkline};
use crate::experiment::{Ended, Scene, Seen, Watch, run_cell};
use crate::observe::{Failure, Placements, Row, warnings};
use crate::policy::{Chosen, Registry};
use crate::replay::Observer;
use crate::units::{format_bytes, format_count, format_nanos, format_ppm};

/// Replay a trace under one policy, in detail: figures, failures and why
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    vramlab replay snapshot.pickle --policy best-fit --capacity 8GiB --fail-on-oom")]
pub struct Replay {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The policy: NAME, NAME:key=value,key=value, or a .toml file
    #[arg(long, value_name = "SPEC")]
    policy: String,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,

    /// Write the timeline as csv; `-` is standard output
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,

    /// Write where every served request went, as csv: event,id,address,bytes,...
    #[arg(long, value_name = "FILE")]
    placements: Option<PathBuf>,

    /// Write the run as a PyTorch snapshot, which opens in PyTorch's memory_viz
    #[arg(long, value_name = "FILE.pickle")]
    snapshot: Option<PathBuf>,

    /// Exit with 10 where a request was not served
    #[arg(long)]
    fail_on_oom: bool,

    /// How many failures are listed
    #[arg(long, value_name = "N", default_value_t = 20)]
    failures: usize,

    #[command(flatten)]
    pictures: MapArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Replayed<'a> {
    trace: Heading<'a>,
    row: &'a Row,
    warnings: Vec<String>,
    failures: &'a [Failure],
    verdicts: serde_json::Map<String, serde_json::Value>,
}

impl Replay {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let chosen = registry.find(&self.policy)?;
        let scene = self.only_scene()?;
        let heading = Heading::of(&scene);
        for line in heading.lines(true) {
            output.line(&line)?;
        }
        output.line(&format!("policy {}: {}", chosen.label, chosen.about))?;
        output.line(&format!("source: {}", chosen.source))?;
        let pictures = self.pictures.shown(output);
        let ended = match &self.placements {
            Some(path) => placed(path, &scene, registry, &chosen, pictures, output)?,
            None => cell(&scene, registry, &chosen, pictures, ())?,
        };
        let seen = match ended {
            Ended::Replayed(seen) => seen,
            Ended::NotStarted(row, shortage) => {
                let wanted = format_bytes(shortage.wanted_bytes);
                output.line(&format!("the policy cannot start: it needs {wanted}"))?;
                if output.json {
                    output.result(&*row)?;
                }
                return self.judge(&row);
            }
            Ended::Broke(what) => {
                let label = &chosen.label;
                let told = format!("policy '{label}' broke a rule: {what}");
                return Err(CliError::Broke(vec![told]));
            }
        };
        self.files(&scene, registry, &chosen, &seen, output)?;
        if output.json {
            output.result(&result(heading, &seen))?;
        } else {
            self.tell(&seen, output)?;
        }
        if pictures {
            for line in drawn(&seen, output) {
                output.line(&line)?;
            }
        }
        self.judge(&seen.row)
    }

    /// The one trace that is asked for.
    fn only_scene(&self) -> Result<Scene, CliError> {
        let mut scenes = load::scenes(&self.trace, &self.open, &self.card)?;
        if scenes.len() > 1 {
            let devices: Vec<String> = scenes
                .iter()
                .map(|scene| scene.trace.device.to_string())
                .collect();
            return Err(CliError::usage(
                format!("{} holds several devices", self.trace.display()),
                format!("choose one with --device: {}", devices.join(", ")),
            ));
        }
        scenes
            .pop()
            .ok_or_else(|| CliError::usage(format!("{} holds no trace", self.trace.display()), ""))
    }

    fn files(
        &self,
        scene: &Scene,
        registry: &Registry,
        chosen: &Chosen,
        seen: &Seen,
        output: &mut Output,
    ) -> Result<(), CliError> {
        if let Some(path) = &self.timeline {
            output.file(path, |out| seen.timeline.write_csv(out))?;
        }
        if let Some(path) = &self.snapshot {
            let snapshot = crate::experiment::record(scene, registry, chosen)?;
            output.file(path, |mut out| {
                crate::trace::snapshot::write(&snapshot, &mut out)
            })?;
        }
        Ok(())
    }

    fn tell(&self, seen: &Seen, output: &mut Output) -> Result<(), CliError> {
        for line in figures(&seen.row).lines(output.columns, output.colour).0 {
            output.line(&line)?;
        }
        for warning in warnings(&seen.row) {
            output.line(&format!("warning: {warning}"))?;
        }
        for (verdict, count) in seen.failures.counts().filter(|(_, count)| *count > 0) {
            output.line(&format!("{} x {verdict}", format_count(count)))?;
        }
        let records = seen.failures.records();
        let shown = &records[..records.len().min(self.failures)];
        if !shown.is_empty() {
            for line in listed(shown).lines(output.columns, output.colour).0 {
                output.line(&line)?;
            }
        }
        let more = seen.row.failed - shown.len() as u64;
        if more > 0 && !shown.is_empty() {
            output.line(&format!(
                "and {} more",
                load::counted(more as usize, "failure")
            ))?;
        }
        Ok(())
    }

    fn judge(&self, row: &Row) -> Result<(), CliError> {
        if self.fail_on_oom && row.failed > 0 {
            return Err(CliError::OutOfMemory {
                failed: row.failed,
                requests: row.requests,
            });
        }
        Ok(())
    }
}

fn cell<E: Observer>(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    map: bool,
    extra: E,
) -> Result<Ended, CliError> {
    let progress = Progress::new(scene.trace.events.len() as u64);
    let watch = Watch {
        map,
        progress: &|events| progress.add(events),
        extra,
    };
    let ended = run_cell(scene, registry, chosen, watch)?;
    progress.end();
    Ok(ended)
}

/// Replays while placements are written: a run that breaks off leaves no file.
fn placed(
    path: &Path,
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    map: bool,
    output: &mut Output,
) -> Result<Ended, CliError> {
    let mut ended = None;
    output
        .file(path, |out| {
            let mut placements = Placements::new(out, &scene.trace.ids);
            ended = Some(cell(scene, registry, chosen, map, &mut placements));
            match &ended {
                Some(Ok(Ended::Replayed(_))) => placements.finish(),
                _ => Err(io::Error::other("the replay broke off")),
            }
        })
        .or_else(|error| match &ended {
            Some(Ok(Ended::Replayed(_))) | None => Err(error),
            _ => Ok(()),
        })?;
    ended.expect("a written file was filled")
}

/// Fragmentation over time and the address map.
fn drawn(seen: &Seen, output: &Output) -> Vec<String> {
    let mut lines = sparkline::lines(&[(&seen.row, seen.timeline.buckets())], output);
    let map = seen.map.iter();
    lines.extend(map.flat_map(|map| map::lines(&seen.row, map, output)));
    lines
}

fn result<'a>(trace: Heading<'a>, seen: &'a Seen) -> Replayed<'a> {
    let counted = seen.failures.counts();
    Replayed {
        trace,
        row: &seen.row,
        warnings: warnings(&seen.row)
            .iter()
            .map(ToString::to_string)
            .collect(),
        failures: seen.failures.records(),
        verdicts: counted
            .map(|(verdict, count)| (verdict.name().to_owned(), count.into()))
            .collect(),
    }
}

/// The figures of a row, for people.
fn figures(row: &Row) -> Table {
    let share = |ppm: Option<u64>| ppm.map_or_else(|| "-".into(), format_ppm);
    let mut table = Table::new(vec![
        Column::words("figure", 0),
        Column::number("value", 0),
        Column::words("exactly", 1),
    ]);
    let mut bytes = |what: &str, bytes: u64| {
        let exact = format!("{} bytes", format_count(bytes));
        table.row(vec![what.into(), format_bytes(bytes).into(), exact.into()]);
    };
    bytes("capacity", row.capacity_bytes);
    bytes("bound: peak of live requested bytes", row.lower_bound_bytes);
    bytes("footprint", row.footprint_bytes);
    bytes("peak requested", row.peak_requested_bytes);
    bytes("peak occupied", row.peak_occupied_bytes);
    bytes("peak reserved", row.peak_reserved_bytes);
    bytes("high-water mark", row.high_water_bytes);
    bytes("moved", row.moved_bytes);
    for (what, value) in [
        ("success", format_ppm(row.success_ppm)),
        ("memory efficiency", share(row.memory_efficiency_ppm)),
        (
            "peak external fragmentation",
            share(row.peak_external_fragmentation_ppm),
        ),
        (
            "mean external fragmentation",
            share(row.mean_external_fragmentation_ppm),
        ),
        (
            "peak internal fragmentation",
            share(row.peak_internal_fragmentation_ppm),
        ),
        ("peak utilisation", format_ppm(row.peak_utilisation_ppm)),
        ("pause", format_nanos(row.pause_ns)),
        (
            "cost of driver calls, moves and stalls",
            format_nanos(row.cost_ns),
        ),
    ] {
        table.row(vec![what.into(), Cell::from(value)]);
    }
    for (what, count) in counts(row) {
        table.row(vec![what.into(), format_count(count).into()]);
    }
    table
}

/// Counts of a row; what never happened is left out, but for the first three.
fn counts(row: &Row) -> Vec<(&'static str, u64)> {
    let counts = [
        ("requests", row.requests),
        ("served", row.served),
        ("failed", row.failed),
        ("driver calls", row.driver_calls),
        ("moves", row.moves),
        ("compactions", row.compactions),
        (
            "compactions held back by their interval",
            row.compactions_held_back,
        ),
        ("requests delayed by a pause", row.delayed_requests),
        ("stalls", row.stalls),
        ("stream hazards", row.hazards),
        ("double frees", row.double_frees),
        ("frees of nothing allocated", row.unknown_frees),
        ("requests of no bytes", row.zero_sizes),
        ("overflows", row.overflows),
        (
            "recorded failures that were served here",
            row.counterfactual_requests,
        ),
    ];
    let kept = counts.into_iter().enumerate();
    let kept = kept.filter(|(at, (_, count))| *at < 3 || *count > 0);
    kept.map(|(_, count)| count).collect()
}

/// Failures, one a line.
fn listed(failures: &[Failure]) -> Table {
    let mut table = Table::new(vec![
        Column::words("failed event", 0),
        Column::number("request", 0),
        Column::number("live", 1),
        Column::number("occupied", 3),
        Column::number("reserved", 2),
        Column::number("free", 2),
        Column::number("largest free", 1),
        Column::words("verdict", 0),
    ]);
    for failure in failures {
        table.row(vec![
            format_count(failure.event).into(),
            format_bytes(failure.bytes).into(),
            format_bytes(failure.requested_bytes).into(),
            format_bytes(failure.occupied_bytes).into(),
            format_bytes(failure.reserved_bytes).into(),
            format_bytes(failure.free_bytes).into(),
            format_bytes(failure.largest_free_bytes).into(),
            failure.verdict.name().into(),
        ]);
    }
    table
}
