//! `vramlab calibrate`: the cost table of the card at hand.

use std::path::PathBuf;

use clap::Args;

use super::CliError;
use super::card::GpuArgs;
use super::output::Output;
use super::table::{Column, Table};
use crate::cuda::calibrate::{Calibration, calibrate};
use crate::units::{GIB, KIB, format_bytes, format_count, format_nanos};

/// Largest buffer that is measured.
const MOST_BYTES: u64 = 2 * GIB;
/// The same where a card is only rehearsed on.
const REHEARSED_BYTES: u64 = 64 * KIB;

/// Measure the costs of a real card's driver, for experiments/devices (feature cuda)
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  vramlab calibrate --out experiments/devices/mycard.toml\n\n\
    The card should be otherwise idle. At most 4.1 GiB of it are taken, and given back."
)]
pub struct Calibrate {
    /// The device file to write; its name without the ending names the card
    #[arg(short, long, value_name = "NAME.toml")]
    out: PathBuf,

    #[command(flatten)]
    gpu: GpuArgs,
}

impl Calibrate {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let stem = self.out.file_stem().map(|stem| stem.to_string_lossy());
        let name = stem.unwrap_or_default().into_owned();
        let mut card = self.gpu.open()?;
        let most_bytes = if self.gpu.rehearse {
            REHEARSED_BYTES
        } else {
            MOST_BYTES
        };
        let measured = calibrate(&mut *card, &name, most_bytes)?;
        let text = measured.to_toml();
        output.file(&self.out, |out| out.write_all(text.as_bytes()))?;
        if output.json {
            return output.result(&measured);
        }
        tell(&measured, output)
    }
}

fn tell(measured: &Calibration, output: &mut Output) -> Result<(), CliError> {
    output.line(&measured.identity.about)?;
    for fact in &measured.facts {
        output.line(&format!("{}: {}", fact.what, fact.found))?;
    }
    let mut table = Table::new(vec![
        Column::words("call", 0),
        Column::number("bytes", 0),
        Column::number("median", 0),
        Column::number("10th\npercentile", 1),
        Column::number("90th\npercentile", 1),
        Column::number("samples", 2),
    ]);
    for (name, points) in measured.tables() {
        for point in points {
            let spread = point.spread;
            table.row(vec![
                name.into(),
                format_bytes(point.bytes).into(),
                format_nanos(spread.median_ns).into(),
                format_nanos(spread.low_ns).into(),
                format_nanos(spread.high_ns).into(),
                format_count(spread.samples).into(),
            ]);
        }
    }
    for line in table.lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    let rate = format_bytes(measured.copy_bytes_per_s);
    let wait = format_nanos(measured.sync.median_ns);
    output.line(&format!("copies move {rate} a second; a wait takes {wait}"))
}
