//! `vramlab trace`: what a trace is, whether it is sound, in another format, and made.

mod convert;
mod fit_workload;
mod scale;
mod shrink;
mod stats;
mod synth;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CliError;
use super::args::OpenArgs;
use super::load;
use super::output::Output;
use crate::policy::Registry;
use crate::units::{format_bytes, format_count, format_nanos};
use stats::{Finding, Stats};

/// Look at traces, check them, convert them, make them
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// The import report and the statistics of a trace
    Info(Info),
    /// Whether a trace keeps the rules: exit code 3 where it does not
    Check(Check),
    Convert(convert::Convert),
    Synth(synth::Synth),
    SynthFrom(fit_workload::SynthFrom),
    Scale(scale::Scale),
    Shrink(shrink::Shrink),
}

/// Prints a trace's report and statistics.
#[derive(Debug, Args)]
pub struct Info {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    #[command(flatten)]
    open: OpenArgs,
}

/// Reads traces and reports what is odd in them.
#[derive(Debug, Args)]
pub struct Check {
    /// Traces; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,

    #[command(flatten)]
    open: OpenArgs,

    /// Oddities (double frees, frees of nothing, sizes of 0) are errors too
    #[arg(long)]
    strict: bool,
}

impl Trace {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        match self {
            Trace::Info(info) => info.run(output),
            Trace::Check(check) => check.run(output),
            Trace::Convert(convert) => convert.run(registry, output),
            Trace::Synth(synth) => synth.run(output),
            Trace::SynthFrom(synth) => synth.run(output),
            Trace::Scale(scale) => scale.run(output),
            Trace::Shrink(shrink) => shrink.run(registry, output),
        }
    }
}

impl Info {
    fn run(self, output: &mut Output) -> Result<(), CliError> {
        let traces = load::open(&self.trace, &self.open)?;
        let stats: Vec<Stats<'_>> = traces.iter().map(Stats::of).collect();
        if output.json {
            return output.result(&stats);
        }
        for stats in &stats {
            tell(stats, output)?;
        }
        Ok(())
    }
}

/// The statistics of one trace, for people.
fn tell(stats: &Stats<'_>, output: &mut Output) -> Result<(), CliError> {
    let report = stats.report;
    output.line(&format!("{}: {}", stats.name, report.format))?;
    let count = format_count;
    output.line(&format!(
        "  {} entries read, {} events ({} of them rebuild the start)",
        count(report.entries),
        count(stats.events),
        count(stats.initial_events)
    ))?;
    output.line(&if stats.has_times {
        format!("  span {}", format_nanos(stats.span_ns))
    } else {
        "  no times: an event counts 1 us".to_owned()
    })?;
    output.line(&format!(
        "  device {}; {}, {}, {}",
        stats.device,
        load::counted(stats.streams, "stream"),
        load::counted(stats.pools, "pool"),
        load::counted(stats.tags, "tag")
    ))?;
    if let Some(bytes) = stats.capacity_bytes {
        let exact = count(bytes);
        output.line(&format!(
            "  cap {} ({exact} bytes), as the trace tells",
            format_bytes(bytes)
        ))?;
    }
    output.line(&format!(
        "  {} requests of {} in all; {} live at the peak ({} bytes)",
        count(stats.requests),
        format_bytes(stats.requested_bytes),
        format_bytes(stats.peak_live_bytes),
        count(stats.peak_live_bytes)
    ))?;
    for finding in stats.findings() {
        output.line(&format!("  {}", finding.sentence()))?;
    }
    for note in &report.notes {
        output.line(&format!("  {}", load::note(note)))?;
    }
    for line in stats.histogram().lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    Ok(())
}

impl Check {
    fn run(self, output: &mut Output) -> Result<(), CliError> {
        let mut checked = Vec::new();
        for path in &self.traces {
            for trace in load::open(path, &self.open)? {
                let stats = Stats::of(&trace);
                let findings = stats.findings();
                let verdict = if findings.is_empty() {
                    "sound"
                } else {
                    "sound, with oddities"
                };
                output.line(&format!(
                    "{}: {verdict}; {} events, {}",
                    trace.name,
                    format_count(stats.events),
                    trace.report.format
                ))?;
                for finding in &findings {
                    output.line(&format!("  {}", finding.sentence()))?;
                }
                checked.push(serde_json::json!({
                    "trace": trace.name,
                    "events": stats.events,
                    "findings": findings,
                }));
                let worst = findings.iter().find(|finding| finding.is_fault);
                if let Some(finding) = worst.filter(|_| self.strict) {
                    return Err(broken(path.display().to_string(), finding));
                }
            }
        }
        if output.json {
            output.result(&checked)?;
        }
        Ok(())
    }
}

fn broken(file: String, finding: &Finding) -> CliError {
    CliError::Rule {
        file,
        event: finding.first_event,
        what: finding.sentence(),
    }
}
