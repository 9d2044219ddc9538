//! `vramlab fit`: the smallest capacity at which nothing fails.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rayon::prelude::*;
use serde::Serialize;

use super::CliError;
use super::args::{JobsArgs, OpenArgs};
use super::compare::choose;
use super::folder::{Folder, file_names};
use super::load::{self, Heading, counted};
use super::output::Output;
use super::progress::Progress;
use super::table::{Cell, Column, Mark, Table};
use crate::experiment::fit::{self, Fit as Found};
use crate::experiment::source::{DEFAULT_CARD, card_of};
use crate::experiment::{RecordError, Scene, Wanted};
use crate::plot::{BarChart, BarColumn, BarRow, Chart, Guide, Unit};
use crate::policy::{Chosen, Registry};
use crate::space::Device;
use crate::trace::Event;
use crate::units::{format_bytes, format_bytes_exact, format_count};

/// Find the smallest capacity at which a policy serves everything
///
/// Searches over replays, from the lower bound up to the whole card, and tries capacities
/// near the answer too: where more room harms, it says so, and answers with the smallest
/// capacity above which no try fails.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab fit snapshot.pickle\n  \
    vramlab fit trace.csv --policies best-fit,buddy --card 24GiB")]
pub struct Fit {
    /// Traces, as for `compare`; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Presets by name, separated by commas [default: as for `compare`]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,

    /// One more policy: NAME, NAME:key=value,key=value, or a .toml file; may be repeated
    #[arg(long = "policy", value_name = "SPEC")]
    specs: Vec<String>,

    /// The whole card: the name of a measured one, or a size (with the costs of the default)
    #[arg(long, value_name = "NAME|SIZE", default_value = DEFAULT_CARD, value_parser = card_of)]
    card: Arc<Device>,

    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    jobs: JobsArgs,

    /// Folder for fit.csv, fit.json and a chart; a folder below it for each of several traces
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What `--json` prints for one trace.
#[derive(Serialize)]
struct Fitted<'a> {
    trace: Heading<'a>,
    /// Requests that failed when they were recorded; they must be served too.
    recorded_failures: usize,
    fits: &'a [Found],
    broken: &'a [String],
}

/// The columns of the table.
const COLUMNS: [Column; 5] = [
    Column::words("policy", 0),
    Column::number("smallest\ncapacity", 0),
    Column::number("x the\nbound", 0),
    Column::number("capacities\ntried", 1),
    Column::words("", 0),
];

impl Fit {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let policies = choose(registry, &self.policies, &self.specs)?;
        if let Some(out) = &self.out {
            Folder::new(out)?;
        }
        let (mut all, mut broken, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for path in &self.traces {
            let traces = load::open(path, &self.open)?;
            let several = self.traces.len() > 1 || traces.len() > 1;
            for trace in traces {
                let scene = Scene::new(trace, self.card.clone(), Wanted::Card);
                let (fits, broke) = self.search(&scene, registry, &policies)?;
                names.push(scene.trace.name.clone());
                if let Some(out) = &self.out {
                    let name = file_names(names.iter().map(String::as_str)).pop();
                    let below = name.filter(|_| several).unwrap_or_default();
                    write(&Folder::new(&out.join(below))?, &scene, &fits)?;
                }
                let heading = Heading::of(&scene);
                for line in heading
                    .lines(false)
                    .iter()
                    .chain(&lines(&scene, &fits, output))
                {
                    output.line(line)?;
                }
                let fitted = Fitted {
                    trace: heading,
                    recorded_failures: recorded_failures(&scene),
                    fits: &fits,
                    broken: &broke,
                };
                all.push(serde_json::to_value(fitted).expect("fits are plain data"));
                broken.extend(broke);
            }
        }
        if output.json {
            output.result(&all)?;
        }
        if broken.is_empty() {
            Ok(())
        } else {
            Err(CliError::Broke(broken))
        }
    }

    /// The answers, the smallest capacity first, and what policies broke.
    fn search(
        &self,
        scene: &Scene,
        registry: &Registry,
        policies: &[Chosen],
    ) -> Result<(Vec<Found>, Vec<String>), CliError> {
        // A search replays a trace several times; the bar counts policies by their events.
        let events = scene.trace.events.len() as u64;
        let progress = Progress::new(events * policies.len() as u64);
        let one = |chosen: &Chosen| {
            let found = fit::fit(scene, registry, chosen);
            progress.add(events);
            found
        };
        let found: Vec<_> = self
            .jobs
            .within(|| policies.par_iter().with_max_len(1).map(one).collect())?;
        progress.end();
        let (mut fits, mut broken) = (Vec::new(), Vec::new());
        for found in found {
            match found {
                Ok(fit) => fits.push(fit),
                Err(error @ RecordError::Broke { .. }) => broken.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        let place = |fit: &Found| (fit.fit_bytes.unwrap_or(u64::MAX), fit.policy.clone());
        fits.sort_by_key(place);
        Ok((fits, broken))
    }
}

/// Requests that failed when they were recorded.
fn recorded_failures(scene: &Scene) -> usize {
    let events = scene.trace.events.iter();
    events
        .filter(|event| matches!(event, Event::Attempt { .. }))
        .count()
}

/// The table, and what it comes to.
fn lines(scene: &Scene, fits: &[Found], output: &Output) -> Vec<String> {
    let mut table = Table::new(COLUMNS.to_vec());
    let faint = |text: String| Cell::new(text, Mark::Faint);
    table.row(vec![
        faint("bound".into()),
        faint(format_bytes(scene.bound_bytes)),
        faint("1.00".into()),
    ]);
    for (place, fit) in fits.iter().enumerate() {
        let mark = if place == 0 { Mark::Good } else { Mark::None };
        table.row(row(fit, mark));
    }
    let (mut lines, _) = table.lines(output.columns, output.colour);
    let Some(best) = fits.first() else {
        return lines;
    };
    if let Some(bytes) = best.fit_bytes {
        lines.push(format!(
            "Best is {}: everything fits in {} ({} bytes). Answers are exact to {}.",
            best.policy,
            format_bytes(bytes),
            format_count(bytes),
            format_bytes_exact(best.step_bytes)
        ));
    }
    let recorded = recorded_failures(scene);
    if recorded > 0 {
        lines.push(format!(
            "The trace has {} of its recording, which must be served too.",
            counted(recorded, "failed request")
        ));
    }
    lines.extend(fits.iter().filter_map(caution));
    lines
}

fn row(fit: &Found, mark: Mark) -> Vec<Cell> {
    let said = match (fit.fit_bytes, fit.monotone()) {
        (None, _) => "the card does not hold it",
        (_, false) => "more room can harm",
        _ => "",
    };
    let capacity = fit.fit_bytes.map_or_else(|| "-".into(), format_bytes);
    let ratio = fit.fit_to_bound_ppm;
    vec![
        Cell::new(
            &*fit.policy,
            if fit.fit_bytes.is_some() {
                mark
            } else {
                Mark::None
            },
        ),
        capacity.into(),
        ratio
            .map_or_else(|| "-".into(), |ppm| format!("{:.2}", ppm as f64 / 1e6))
            .into(),
        format_count(fit.tries as u64).into(),
        said.into(),
    ]
}

/// What is to be said of a policy that more room can harm.
fn caution(fit: &Found) -> Option<String> {
    let lucky: Vec<String> = fit.lucky_bytes.iter().map(|it| format_count(*it)).collect();
    let above = match fit.fit_bytes {
        Some(bytes) => format!("nothing tried from {} on fails", format_count(bytes)),
        None => "it fails on the whole card".into(),
    };
    (!fit.monotone()).then(|| {
        format!(
            "{}: more room can harm; it serves everything in {} bytes too, but fails in more; {above}",
            fit.policy,
            lucky.join(" and ")
        )
    })
}

/// The files of one trace.
fn write(folder: &Folder, scene: &Scene, fits: &[Found]) -> Result<(), CliError> {
    folder.file("fit.csv", |out| csv(scene, fits, out))?;
    folder.json("fit.json", &fits)?;
    folder.chart("fit", &chart(scene, fits))
}

/// The smallest capacity of each policy, against the bound.
fn chart(scene: &Scene, fits: &[Found]) -> Chart {
    let bound = Guide {
        value: scene.bound_bytes as f64,
        label: "lower bound".into(),
    };
    let column = |label: &str, unit, guide| BarColumn {
        label: label.into(),
        unit,
        end: None,
        guide,
    };
    let row = |fit: &Found| BarRow {
        name: fit.policy.clone(),
        values: vec![
            fit.fit_bytes.map(|bytes| bytes as f64),
            fit.fit_to_bound_ppm.map(|ppm| ppm as f64 / 1e6),
        ],
    };
    Chart::Bars(BarChart {
        title: "Smallest capacity that serves everything".into(),
        subtitle: format!("{}, card {}", scene.trace.name, scene.device.name),
        columns: vec![
            column("capacity", Unit::Bytes, Some(bound)),
            column("in lower bounds", Unit::Number, None),
        ],
        rows: fits.iter().map(row).collect(),
    })
}

fn csv(scene: &Scene, fits: &[Found], out: &mut dyn Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "trace",
        "policy",
        "fit_bytes",
        "fit_to_bound_ppm",
        "lower_bound_bytes",
        "step_bytes",
        "monotone",
        "tries",
    ])?;
    let cell = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    for fit in fits {
        csv.write_record([
            scene.trace.name.clone(),
            fit.policy.clone(),
            cell(fit.fit_bytes),
            cell(fit.fit_to_bound_ppm),
            fit.lower_bound_bytes.to_string(),
            fit.step_bytes.to_string(),
            fit.monotone().to_string(),
            fit.tries.to_string(),
        ])?;
    }
    csv.flush()
}
