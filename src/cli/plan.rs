//! `vramlab plan`: where everything would go if all of it were known beforehand.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::CliError;
use super::args::OpenArgs;
use super::load;
use super::output::Output;
use super::table::{Column, Table};
use crate::bound::{
    Budget, Buffer, Life, Packing, Until, lifetimes, max_load_bytes, pack, validate,
};
use crate::trace::{Event, Trace};
use crate::units::{format_bytes, format_count, parse_bytes};

/// Pack all requests of a trace, as if all were known beforehand
///
/// Greedy packers, an exact search and an improver look for the lowest height at which
/// every request has bytes of its own for as long as it lives. No packing is lower than
/// the maximum load; one that meets it, or that an exhaustive search could not undercut, is
/// optimal. Streams and deferred frees do not count here; policy `planned` obeys them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab plan A.1048576.csv -o plan.csv\n  \
    vramlab plan snapshot.pickle --align 512 --time-limit 10s\n  \
    vramlab compare next-run.pickle --policy planned:plan=plan.csv")]
pub struct Plan {
    /// Traces of any format; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// When to stop; the result is the same on every machine unless this cuts it short
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_limit)]
    time_limit: Duration,

    /// Round sizes and offsets up to multiples of this
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = parse_align)]
    align: u64,

    /// A height that would do, which is looked for first [default: the capacity that the
    /// trace tells]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    goal: Option<u64>,

    /// Write the plan of a single trace as csv: id,lower,upper,size,offset
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,
}

fn parse_limit(text: &str) -> Result<Duration, String> {
    let nanos = crate::units::parse_nanos(text).map_err(|error| error.to_string())?;
    Ok(Duration::from_nanos(nanos))
}

fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

fn parse_align(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes.is_power_of_two() => Ok(bytes),
        _ => Err("expected a power of two, such as 512".to_owned()),
    }
}

/// Decisions that the exact search may try for each height: minutes.
const TRIES: u64 = 5_000_000;
/// Rounds of the improver.
const ROUNDS: u64 = 400;
/// Pairs that greedy packers may look at: all packers on a hundred thousand requests.
const PAIRS: u64 = 1_500_000_000;

/// What is told of one trace.
#[derive(Serialize)]
struct Planned {
    name: String,
    buffers: usize,
    max_load_bytes: u64,
    height_bytes: u64,
    optimal: bool,
    seconds: f64,
    by: &'static str,
}

impl Plan {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let mut rows = Vec::new();
        for path in &self.traces {
            let traces = load::open(path, &self.open)?;
            if self.out.is_some() && (self.traces.len() > 1 || traces.len() > 1) {
                return Err(CliError::usage(
                    "-o takes the plan of a single trace",
                    "name one trace, and with --device one device of it",
                ));
            }
            for trace in &traces {
                rows.push(self.one(trace, output)?);
            }
        }
        if output.json {
            return output.result(&rows);
        }
        if self.out.as_deref().is_some_and(super::args::is_stream) {
            return Ok(());
        }
        for line in table(&rows).lines(output.columns, output.colour).0 {
            output.line(&line)?;
        }
        Ok(())
    }

    /// Plans one trace; the judge looks at every packing before it is told.
    fn one(&self, trace: &Trace, output: &mut Output) -> Result<Planned, CliError> {
        let started = Instant::now();
        let lives = lifetimes(trace, self.align, Until::Freed);
        let asks = |event: &&Event| matches!(event, Event::Alloc { bytes, .. } if *bytes > 0);
        let left_out = trace.events.iter().filter(asks).count() - lives.len();
        if left_out > 0 {
            return Err(CliError::usage(
                format!(
                    "{}: {left_out} requests pass the end of all addresses (2 EiB), with those \
                     before them side by side",
                    trace.name
                ),
                "no card holds them: leave them out of the trace, or give a smaller --align",
            ));
        }
        let buffers: Vec<Buffer> = lives.iter().map(|life| life.buffer).collect();
        let stop = || started.elapsed() >= self.time_limit;
        let budget = Budget {
            pairs: PAIRS,
            tries: TRIES,
            rounds: ROUNDS,
            stop: &stop,
        };
        let packing = pack(&buffers, self.goal.or(trace.capacity_bytes), &budget);
        if let Err(fault) = validate(&buffers, &packing.offsets, packing.height_bytes) {
            panic!("{}: the packing is wrong: {fault}", trace.name);
        }
        if let Some(out) = &self.out {
            self.write(out, trace, &lives, &packing, output)?;
        }
        Ok(Planned {
            name: trace.name.clone(),
            buffers: buffers.len(),
            max_load_bytes: max_load_bytes(&buffers),
            height_bytes: packing.height_bytes,
            optimal: packing.proven,
            seconds: (started.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            by: packing.by,
        })
    }

    fn write(
        &self,
        out: &Path,
        trace: &Trace,
        lives: &[Life],
        packing: &Packing,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let ticks = has_ticks(trace);
        output.file(out, |file| write_csv(trace, lives, packing, ticks, file))
    }
}

/// Whether the times of the trace tell lifetimes as well as the numbers of its events do:
/// at no moment does a free come after a request, and nothing lives for no time.
fn has_ticks(trace: &Trace) -> bool {
    if !trace.has_times() {
        return false;
    }
    let asks = |event: &Event| matches!(event, Event::Alloc { .. });
    let mut asked_at = None;
    trace
        .events
        .iter()
        .zip(&trace.times_ns)
        .all(|(event, time)| {
            if asks(event) {
                asked_at = Some(*time);
            }
            !matches!(event, Event::Free { .. }) || asked_at != Some(*time)
        })
}

/// Writes a plan; lifetimes are on the trace's own clock where that tells them, else in
/// numbers of events. What is never freed ends behind the last event.
fn write_csv(
    trace: &Trace,
    lives: &[Life],
    packing: &Packing,
    ticks: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let end = trace.events.len();
    let moment = |event: u32| match event as usize {
        at if !ticks => at as u64,
        at if at < end => trace.time_ns(at),
        _ => trace.time_ns(end.saturating_sub(1)) + 1,
    };
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["id", "lower", "upper", "size", "offset"])?;
    for (life, offset) in lives.iter().zip(&packing.offsets) {
        let id = trace.ids.name(life.ordinal as usize);
        let (lower, upper) = (moment(life.buffer.lower), moment(life.buffer.upper));
        csv.serialize((id, lower, upper, life.bytes, offset))?;
    }
    csv.flush()
}

fn table(rows: &[Planned]) -> Table {
    let mut table = Table::new(vec![
        Column::words("trace", 0),
        Column::number("buffers", 2),
        Column::number("maximum load", 0),
        Column::number("height", 0),
        Column::number("height bytes", 1),
        Column::number("above\nthe load", 0),
        Column::words("optimal", 0),
        Column::number("seconds", 3),
        Column::words("found by", 0),
    ]);
    for row in rows {
        let above = u128::from(row.height_bytes - row.max_load_bytes) * 10_000;
        let above = above / u128::from(row.max_load_bytes.max(1));
        table.row(vec![
            row.name.as_str().into(),
            format_count(row.buffers as u64).into(),
            format_bytes(row.max_load_bytes).into(),
            format_bytes(row.height_bytes).into(),
            format_count(row.height_bytes).into(),
            format!("{}.{:02} %", above / 100, above % 100).into(),
            if row.optimal { "proven" } else { "not proven" }.into(),
            format!("{:.2}", row.seconds).into(),
            row.by.into(),
        ]);
    }
    table
}
