//! `vramlab trace synth-from`: a workload fitted to a recorded trace.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::CliError;
use crate::cli::args::{OpenArgs, is_stream};
use crate::cli::load;
use crate::cli::output::{Output, say};
use crate::synth::{Spec, fit};
use crate::units::format_count;

/// Fit a workload to a recorded trace
///
/// The workload keeps the trace's sizes, lifetimes and phases (its marks, or change
/// points of its sizes), and makes traces of any length from any seed: `trace synth-from
/// TRACE -o NAME.toml`, then `trace synth NAME.toml --seed 2`.
#[derive(Debug, Args)]
pub struct SynthFrom {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The workload's file; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// What to fit: the program with its phases, or a churn of its sizes and lifetimes
    #[arg(long = "as", value_name = "FAMILY", default_value = "fitted")]
    family: Family,

    /// Requests of a window, within which order is left to the seed: fewer keep the shape
    /// of the recording better, more leave more to chance
    #[arg(long, value_name = "N", default_value_t = fit::WINDOW_REQUESTS, value_parser = clap::value_parser!(u64).range(1..))]
    window: u64,

    #[command(flatten)]
    open: OpenArgs,
}

/// The families that can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// Sizes and lifetimes drawn together, by phase
    Fitted,
    /// Sizes and lifetimes each by itself, without phases
    Churn,
}

impl SynthFrom {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let trace = load::only(&self.trace, &self.open)?;
        let fitted = match self.family {
            Family::Fitted => fit::fitted(&trace, self.window),
            Family::Churn => fit::churn(&trace),
        };
        let workload = fitted.map_err(|error| {
            CliError::usage(error.to_string(), "give a trace that holds requests")
        })?;
        let text = toml::to_string(&workload).expect("plain data");
        output.file(&self.output, |out| out.write_all(text.as_bytes()))?;
        let windows = match &workload.workload {
            Spec::Fitted(spec) => spec.windows.len(),
            _ => 1,
        };
        let to = self.output.display().to_string();
        if output.json && !is_stream(&self.output) {
            output.result(&serde_json::json!({
                "trace": trace.name,
                "windows": windows,
                "events": workload.events,
                "output": to,
            }))?;
        }
        say(&format!(
            "{}: fitted in {}, {} events a pass; written to {to}",
            trace.name,
            load::counted(windows, "window"),
            format_count(workload.events),
        ));
        Ok(())
    }
}
