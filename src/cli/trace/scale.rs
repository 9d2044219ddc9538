//! `vramlab trace scale`: a trace with larger or more requests.

use std::path::PathBuf;

use clap::Args;

use super::convert::Format;
use crate::bound::peak_live_requested_bytes;
use crate::cli::CliError;
use crate::cli::args::{OpenArgs, is_stream, parse_size};
use crate::cli::load;
use crate::cli::output::{Output, say};
use crate::trace::scale::{Ratio, Scaling, scale};
use crate::trace::{csv, vlt};
use crate::units::{format_bytes, format_count};

/// Write a trace with larger or more requests
///
/// What a larger batch would need: `trace scale TRACE --sizes 3/2 --after-mark LABEL -o
/// LARGER.vlt`, then `compare` or `fit` on it. Without filters every request grows, the
/// weights too.
#[derive(Debug, Args)]
pub struct Scale {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The new file, .csv or .vlt, also with .gz or .zst; `-` is standard output, as csv
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Sizes times this, exactly, rounded down: 2, 1.5 or 3/2
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    sizes: Ratio,

    /// So many of each request, side by side
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    counts: u32,

    /// Only requests whose tag holds this text; repeatable
    #[arg(long = "tag", value_name = "TEXT")]
    tags: Vec<String>,

    /// Only requests of more bytes than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    larger_than: Option<u64>,

    /// Only requests after the first mark of this label, so that weights made before do not grow
    #[arg(long, value_name = "LABEL")]
    after_mark: Option<String>,

    #[command(flatten)]
    open: OpenArgs,
}

impl Scale {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        if self.sizes == Ratio::ONE && self.counts == 1 {
            return Err(CliError::usage(
                "nothing would change",
                "say --sizes 3/2, --counts 2, or both",
            ));
        }
        let format = Format::of(&self.output);
        let format = format.or(is_stream(&self.output).then_some(Format::Csv));
        let Some(format @ (Format::Csv | Format::Vlt)) = format else {
            return Err(CliError::usage(
                format!("{}: a scaled trace is csv or vlt", self.output.display()),
                "end the name in .csv or .vlt (with .gz or .zst)",
            ));
        };
        let trace = load::only(&self.trace, &self.open)?;
        let scaling = Scaling {
            sizes: self.sizes,
            copies: self.counts,
            tags: self.tags,
            larger_than_bytes: self.larger_than,
            after_mark: self.after_mark,
        };
        let (scaled, met) = scale(&trace, &scaling).map_err(|error| {
            let help = "`trace info` tells tags, marks and sizes; a smaller factor avoids overflow";
            CliError::usage(format!("{}: {error}", self.trace.display()), help)
        })?;
        match format {
            Format::Vlt => output.file(&self.output, |out| vlt::write(&scaled, out))?,
            _ => output.file(&self.output, |out| csv::write(&scaled, out))?,
        }
        let to = self.output.display().to_string();
        let (before, after) = (
            peak_live_requested_bytes(&trace),
            peak_live_requested_bytes(&scaled),
        );
        if output.json && !is_stream(&self.output) {
            output.result(&serde_json::json!({
                "trace": trace.name,
                "requests": trace.requests(),
                "scaled_requests": met,
                "peak_live_bytes_before": before,
                "peak_live_bytes": after,
                "output": to,
            }))?;
        }
        say(&format!(
            "{}: {} of {} requests scaled; live at the peak {} before, {} now; written to {to}",
            trace.name,
            format_count(met),
            format_count(trace.requests()),
            format_bytes(before),
            format_bytes(after),
        ));
        Ok(())
    }
}
