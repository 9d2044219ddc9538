//! `vramlab trace convert`: a trace in another format, chosen by the name of the output.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::CliError;
use crate::cli::args::{CardArgs, OpenArgs, is_stream};
use crate::cli::load;
use crate::cli::output::{Output, say};
use crate::experiment::{Scene, Wanted, record};
use crate::policy::Registry;
use crate::trace::{Note, Trace, csv, minimalloc, snapshot, vlt};
use crate::units::format_count;

/// Write a trace in another format
///
/// The format is that of the output's name (.csv, .vlt, .pickle; each also with .gz or
/// .zst), or as --to says. A PyTorch snapshot holds addresses, which a trace has not:
/// the trace is replayed under --policy, and what that did is written.
#[derive(Debug, Args)]
pub struct Convert {
    /// A trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The new file; `-` is standard output
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,

    /// The format, where the output's name does not tell it
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,

    /// For a PyTorch snapshot: the policy that decides where blocks lie
    #[arg(long, value_name = "SPEC", default_value = "pytorch")]
    policy: String,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,
}

/// The formats that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Native text: event,id,bytes,...
    Csv,
    /// Native binary: compact and checksummed
    Vlt,
    /// MiniMalloc csv: id,lower,upper,size
    Minimalloc,
    /// PyTorch snapshot
    Pickle,
}

impl Format {
    /// The format that a name tells, its compression left aside.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let name = name.strip_suffix(".zst").unwrap_or(name);
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Format::Csv),
            "vlt" => Some(Format::Vlt),
            "pickle" | "pkl" => Some(Format::Pickle),
            _ => None,
        }
    }
}

impl Convert {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let format = self.to.or_else(|| Format::of(&self.output));
        let Some(format) = format else {
            return Err(CliError::usage(
                format!("{}: the name tells no format", self.output.display()),
                "end it in .csv, .vlt or .pickle (with .gz or .zst), or say --to csv|vlt|minimalloc|pickle",
            ));
        };
        let trace = load::only(&self.trace, &self.open)?;
        let (name, events) = (trace.name.clone(), trace.events.len() as u64);
        let notes = self.write(trace, format, registry, output)?;
        let told = format!(
            "{name}: {} events written to {}",
            format_count(events),
            self.output.display()
        );
        if output.json && !is_stream(&self.output) {
            output.result(&serde_json::json!({
                "trace": name,
                "events": events,
                "output": self.output.display().to_string(),
                "notes": notes,
            }))?;
        }
        // What was written may have gone to standard output: words go beside it.
        say(&told);
        for note in &notes {
            say(&format!(
                "left out: {} x {}",
                format_count(note.count),
                note.what
            ));
        }
        Ok(())
    }

    /// Writes the trace; answers what the format could not hold.
    fn write(
        &self,
        trace: Trace,
        format: Format,
        registry: &Registry,
        output: &mut Output,
    ) -> Result<Vec<Note>, CliError> {
        let mut notes = Vec::new();
        let path = &self.output;
        match format {
            Format::Csv => output.file(path, |out| csv::write(&trace, out))?,
            Format::Vlt => output.file(path, |out| vlt::write(&trace, out))?,
            Format::Minimalloc => output.file(path, |out| {
                notes = minimalloc::write(&trace, out)?;
                Ok(())
            })?,
            Format::Pickle => {
                let chosen = registry.find(&self.policy)?;
                // A snapshot shows what a policy does with room to do it.
                let wanted = self
                    .card
                    .capacity
                    .map_or(Ok(Wanted::Card), |_| self.card.wanted())?;
                let scene = Scene::new(trace, self.card.card.clone(), wanted);
                let snapshot = record(&scene, registry, &chosen)?;
                output.file(path, |mut out| snapshot::write(&snapshot, &mut out))?;
            }
        }
        Ok(notes)
    }
}
