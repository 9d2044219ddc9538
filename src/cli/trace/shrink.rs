//! `vramlab trace shrink`: the smallest trace that still shows something.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::convert::Format;
use crate::bound::peak_live_requested_bytes;
use crate::cli::CliError;
use crate::cli::args::{CardArgs, JobsArgs, OpenArgs, is_stream};
use crate::cli::load;
use crate::cli::output::{Output, say};
use crate::cli::progress::LiveLine;
use crate::experiment::{Capacity, Wanted};
use crate::policy::Registry;
use crate::shrink::draft::Draft;
use crate::shrink::judge::{Judge, Setup};
use crate::shrink::keep::Keep;
use crate::shrink::{Effort, Shrunk, shrink};
use crate::trace::text::Source;
use crate::trace::{OpenOptions, Trace, csv, open, unpack, vlt};
use crate::units::{format_bytes, format_count};

/// Write the smallest trace that still shows something, for a bug report or a paper
///
/// Requests with all their events are left out, then other events, then sizes are made
/// smaller and rounder, over and over, until nothing can go without losing what --keep
/// says. The capacity stays that of the original and is written with the trace. The result
/// does not depend on the number of threads, and is replayed once more before it is written.
#[derive(Debug, Args)]
#[command(after_help = "What to keep:\n  \
    fails(P)  a request fails under policy P      serves(P)    none does\n  \
    breaks(P) P breaks a rule                     diverges(P)  P leaves the recording, at the\n                                                same event in the same way\n  \
    reserved(P) > reserved(Q), footprint(P) >= 3GiB, failed(P) == 2: any metric of a row;\n  \
    combined by && || ! and parentheses\n\n\
    Examples:\n  \
    vramlab trace shrink run.pickle --keep 'fails(best-fit) && serves(first-fit)' -o small.csv\n  \
    vramlab trace shrink run.pickle --keep 'diverges(pytorch)' -o small.vlt")]
pub struct Shrink {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// What the smaller trace must still show, see below
    #[arg(long, value_name = "EXPRESSION")]
    keep: String,

    /// The new file, .csv or .vlt, also with .gz or .zst; `-` is standard output, as csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Stop after so many candidates, with what is found by then [default: go to the end]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    most_candidates: Option<u64>,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    jobs: JobsArgs,
}

/// How large a trace is.
#[derive(Debug, Clone, Copy, Serialize)]
struct Size {
    events: u64,
    requests: u64,
    peak_live_bytes: u64,
}

impl Size {
    fn of(trace: &Trace) -> Self {
        Size {
            events: trace.events.len() as u64,
            requests: trace.requests(),
            peak_live_bytes: peak_live_requested_bytes(trace),
        }
    }

    fn words(&self) -> String {
        format!(
            "{} events, {} requests, {} live at the peak",
            format_count(self.events),
            format_count(self.requests),
            format_bytes(self.peak_live_bytes)
        )
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'a> {
    trace: &'a str,
    keep: &'a str,
    capacity_bytes: u64,
    before: Size,
    after: Size,
    effort: Effort,
    output: String,
}

impl Shrink {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let keep = Keep::parse(&self.keep).map_err(CliError::expression)?;
        let format = self.format(&keep)?;
        if !is_stream(&self.output) {
            writable(&self.output)?;
        }
        let trace = load::only(&self.trace, &self.open)?;
        let setup = self.setup(&trace, &keep)?;
        let original = Draft::of(&trace, true);
        let judge = Judge::new(&keep, registry, setup, &original).map_err(CliError::expression)?;
        self.shows(&judge, &original, &trace)?;
        let line = LiveLine::new();
        let shrunk = self.jobs.within(|| {
            let tell = |status: crate::shrink::Status| line.say(|| words(&status));
            shrink(
                &trace,
                &judge,
                keep.asks_fidelity(),
                self.most_candidates,
                &tell,
            )
        });
        line.end();
        let shrunk = shrunk?;
        let made = self.finished(&shrunk, &trace, &keep, &judge);
        let bytes = self.verified(&made, format, &shrunk.draft, &judge)?;
        output.file(&self.output, |out| out.write_all(&bytes))?;
        let told = Told {
            trace: &trace.name,
            keep: keep.text(),
            capacity_bytes: judge.capacity_bytes(),
            before: Size::of(&trace),
            after: Size::of(&made),
            effort: shrunk.effort,
            output: self.output.display().to_string(),
        };
        if output.json && !is_stream(&self.output) {
            output.result(&told)?;
        }
        tell(&told);
        Ok(())
    }

    /// The format of the output, which must hold what is asked for.
    fn format(&self, keep: &Keep) -> Result<Format, CliError> {
        let format = Format::of(&self.output);
        let format = format.or(is_stream(&self.output).then_some(Format::Csv));
        let Some(format @ (Format::Csv | Format::Vlt)) = format else {
            return Err(CliError::usage(
                format!("{}: a shrunk trace is csv or vlt", self.output.display()),
                "end the name in .csv or .vlt (with .gz or .zst)",
            ));
        };
        if format == Format::Csv && keep.asks_fidelity() {
            return Err(CliError::usage(
                "csv holds no recorded addresses, and 'diverges' compares with them",
                "end the name of the output in .vlt (with .gz or .zst)",
            ));
        }
        Ok(format)
    }

    /// The card and the capacity, one for all candidates. A model that is only compared with
    /// the recording has the recording's, as `fidelity` has it.
    fn setup(&self, trace: &Trace, keep: &Keep) -> Result<Setup, CliError> {
        let device = self.card.card.clone();
        let wanted = match self.card.wanted()? {
            Wanted::ByTrace if !keep.asks_replay() && trace.capacity_bytes.is_none() => {
                Wanted::Card
            }
            wanted => wanted,
        };
        let bound_bytes = peak_live_requested_bytes(trace);
        let capacity = Capacity::choose(wanted, trace, bound_bytes, &device);
        Ok(Setup {
            device,
            capacity_bytes: capacity.bytes,
        })
    }

    /// Sees to it that there is something to be kept.
    fn shows(&self, judge: &Judge<'_>, draft: &Draft, trace: &Trace) -> Result<(), CliError> {
        if judge.verdict(draft).holds {
            return Ok(());
        }
        let atoms = judge.explain(draft).join("\n  ");
        let what = format!("{}: what is to be kept is not there\n  {atoms}", trace.name);
        let capacity = format_bytes(judge.capacity_bytes());
        Err(CliError::usage(
            what,
            format!("the capacity is {capacity}; another one by --capacity SIZE"),
        ))
    }

    /// The trace as it is written: it tells its capacity, so that it shows the same anywhere.
    fn finished(&self, shrunk: &Shrunk, trace: &Trace, keep: &Keep, judge: &Judge<'_>) -> Trace {
        let mut made = shrunk
            .draft
            .finish(trace, &format!("--keep '{}'", keep.text()));
        if keep.asks_replay() {
            made.capacity_bytes = Some(judge.capacity_bytes());
        }
        made
    }

    /// The bytes of the file, read back and judged once more.
    fn verified(
        &self,
        made: &Trace,
        format: Format,
        draft: &Draft,
        judge: &Judge<'_>,
    ) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        let written = match format {
            Format::Vlt => vlt::write(made, &mut bytes),
            _ => csv::write(made, &mut bytes),
        };
        written.map_err(|error| CliError::write(&self.output, error))?;
        let source = Source::named(&made.name);
        let options = OpenOptions::default();
        let input = Box::new(Cursor::new(bytes.clone()));
        let unpacked = unpack::unpack(input, &source.file, options.limit_bytes)?;
        let read = open::read(unpacked, &source, &options)?;
        let same = |trace: &Trace| {
            let read = Draft {
                origins: draft.origins.clone(),
                ..Draft::of(trace, true)
            };
            trace.events.len() == made.events.len() && judge.verdict(&read).holds
        };
        if read.iter().any(same) {
            return Ok(bytes);
        }
        Err(CliError::usage(
            format!(
                "{}: this format does not hold all that is needed",
                self.output.display()
            ),
            "end the name of the output in .vlt",
        ))
    }
}

/// Sees to it that a file can be written beside the output: better now than after the work.
fn writable(path: &Path) -> Result<(), CliError> {
    let probe = path.with_file_name(format!(".probe.{}", std::process::id()));
    let usable = fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe));
    usable.map_err(|error| CliError::write(path, error))
}

fn words(status: &crate::shrink::Status) -> String {
    format!(
        "{} events left, {} candidates tried; now {}",
        format_count(status.events as u64),
        format_count(status.candidates),
        status.phase
    )
}

/// The report, beside the trace, which may have gone to standard output.
fn tell(told: &Told<'_>) {
    let effort = &told.effort;
    say(&format!("{}: {}", told.trace, told.before.words()));
    say(&format!("now {}", told.after.words()));
    say(&format!(
        "{} candidates, {} replays, {} rounds; {}",
        format_count(effort.candidates),
        format_count(effort.replays),
        effort.rounds,
        if effort.minimal {
            "no single request or event can go"
        } else {
            "stopped by --most-candidates: more may go"
        }
    ));
    say(&format!(
        "written to {}, with its capacity of {} ({} bytes)",
        told.output,
        format_bytes(told.capacity_bytes),
        format_count(told.capacity_bytes)
    ));
}
