//! `vramlab trace synth`: a synthetic trace of any length, written as it is made.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::convert::Format;
use crate::cli::CliError;
use crate::cli::args::is_stream;
use crate::cli::output::{Output, say};
use crate::cli::table::{Column, Table};
use crate::presets::WORKLOADS;
use crate::synth::Workload;
use crate::trace::Trace;
use crate::trace::csv::CsvWriter;
use crate::trace::vlt::VltWriter;
use crate::units::format_count;

/// Write a synthetic trace
///
/// A trace is a function of (workload, seed), and a shorter one is the beginning of a
/// longer one. It is written event by event: any length takes the same memory. Families
/// and keys are told in docs/workloads.md.
#[derive(Debug, Args)]
pub struct Synth {
    /// NAME or a .toml file, either also with :key=value,key=value
    #[arg(value_name = "WORKLOAD", required_unless_present = "list")]
    workload: Option<String>,

    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How many events [default: as the workload says]; one that ends by itself may have fewer
    #[arg(long, value_name = "N")]
    events: Option<u64>,

    /// The file, .csv or .vlt, also with .gz or .zst; `-` is standard output, as csv
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// The format, where the output's name does not tell it
    #[arg(long, value_name = "csv|vlt")]
    to: Option<Format>,

    /// The workloads that there are
    #[arg(long)]
    list: bool,

    /// The workload's file instead of its trace, to be copied and changed
    #[arg(long)]
    show: bool,
}

/// What is told of a workload.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    about: &'a str,
    source: &'a str,
    events: u64,
    workload: &'a crate::synth::Spec,
}

impl Synth {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let Some(name) = self.workload.as_deref().filter(|_| !self.list) else {
            return list(output);
        };
        if self.show
            && let Some((_, body)) = WORKLOADS.iter().find(|(known, _)| *known == name)
        {
            return output.text(body);
        }
        let mut workload = Workload::find(name)?;
        workload.events = self.events.unwrap_or(workload.events);
        if self.show {
            let text = toml::to_string(&workload).expect("plain data");
            return output.text(&text);
        }
        let trace = self.write(&workload, output)?;
        self.tell(&workload, &trace, output)
    }

    /// The format that is asked for, or that the name tells.
    fn format(&self) -> Result<Format, CliError> {
        let told = self.to.or_else(|| Format::of(&self.output));
        match told.or(is_stream(&self.output).then_some(Format::Csv)) {
            Some(format @ (Format::Csv | Format::Vlt)) => Ok(format),
            _ => Err(CliError::usage(
                format!("{}: a synthetic trace is csv or vlt", self.output.display()),
                "end the name in .csv or .vlt (with .gz or .zst), or say --to csv|vlt; `trace convert` writes other formats",
            )),
        }
    }

    /// Writes the trace as it is made; answers its head and tables.
    fn write(&self, workload: &Workload, output: &mut Output) -> Result<Trace, CliError> {
        let mut written = Trace::default();
        match self.format()? {
            Format::Vlt => output.file(&self.output, |out| {
                let mut writer = VltWriter::new(out, &workload.head(), true)?;
                written = workload
                    .stream(self.seed, &mut |event, time_ns| writer.push(event, time_ns))?;
                writer.finish(&written).map(drop)
            })?,
            _ => output.file(&self.output, |out| {
                // A row of text names its tag, and tags are known at the end: played twice.
                written = workload.play(self.seed, &mut |_, _| {});
                let mut writer = CsvWriter::new(out, &written, true)?;
                let again =
                    workload.stream(self.seed, &mut |event, time_ns| writer.push(event, time_ns));
                again.map(drop)
            })?,
        }
        Ok(written)
    }

    /// Says what was written.
    fn tell(
        &self,
        workload: &Workload,
        trace: &Trace,
        output: &mut Output,
    ) -> Result<(), CliError> {
        let (events, to) = (trace.report.events, self.output.display().to_string());
        if output.json && !is_stream(&self.output) {
            output.result(&serde_json::json!({
                "workload": workload.name,
                "seed": self.seed,
                "events": events,
                "output": to,
            }))?;
        }
        // What was written may have gone to standard output: words go beside it.
        say(&format!(
            "{}, seed {}: {} events written to {to}",
            workload.name,
            self.seed,
            format_count(events),
        ));
        Ok(())
    }
}

/// All presets.
fn list(output: &mut Output) -> Result<(), CliError> {
    let presets = Workload::presets()?;
    let told: Vec<Told<'_>> = presets.iter().map(told).collect();
    if output.json {
        return output.result(&told);
    }
    let mut table = Table::new(vec![
        Column::words("workload", 0),
        Column::words("family", 1),
        Column::number("events", 2),
        Column::words("what it is", 0),
    ]);
    for workload in &presets {
        table.row(vec![
            (&*workload.name).into(),
            workload.workload.name().into(),
            format_count(workload.events).into(),
            (&*workload.about).into(),
        ]);
    }
    for line in table.lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    Ok(())
}

fn told(workload: &Workload) -> Told<'_> {
    Told {
        name: &workload.name,
        about: &workload.about,
        source: &workload.source,
        events: workload.events,
        workload: &workload.workload,
    }
}
