//! `vramlab report`: one page that holds everything, for a browser without a network.

mod ranks;
mod results;
mod sections;
mod traces;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::CliError;
use super::args::{CardArgs, JobsArgs, OpenArgs};
use super::output::Output;
use crate::policy::Registry;
use crate::report;
use crate::units::{format_bytes, format_count};

/// Write one self-contained HTML page about traces, or about a folder of results
///
/// Traces are replayed under every policy, as `compare` does it; the page shows its table,
/// and for some of the policies which addresses were in use when, memory and fragmentation
/// over time, the free blocks at any moment, and every failure. A folder that `compare` or
/// `run` wrote is shown from its rows; a folder of recordings, one a rank, is compared over
/// all of them. The page opens from a disk and loads nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab report snapshot.pickle -o report.html\n  \
    vramlab report trace.csv --policies best-fit,buddy --capacity 8GiB -o report.html\n  \
    vramlab report results/claims -o report.html\n  \
    vramlab report ranks/ --policies pytorch,tlsf -o report.html")]
pub struct Report {
    /// Traces, folders of results, or folders of recordings, one a rank
    #[arg(required = true, value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,

    /// Presets by name, separated by commas [default: as for `compare`]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,

    /// One more policy: NAME, NAME:key=value,key=value, or a .toml file; may be repeated
    #[arg(long = "policy", value_name = "SPEC")]
    specs: Vec<String>,

    /// How many policies are shown over time: the one a recording tells, then the best
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=12))]
    views: u8,

    #[command(flatten)]
    card: CardArgs,

    #[command(flatten)]
    open: OpenArgs,

    #[command(flatten)]
    jobs: JobsArgs,

    /// The page; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Reported {
    out: String,
    bytes: u64,
    runs: Vec<String>,
    views: Vec<View>,
    pictures: usize,
    broken: Vec<String>,
}

#[derive(Serialize)]
struct View {
    run: String,
    policy: String,
    failed: u64,
}

/// What is put together for a page, input by input.
#[derive(Default)]
struct Gathered {
    page: report::Report,
    /// What was told of policies that broke a rule.
    broken: Vec<String>,
}

impl Report {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        self.card.wanted()?;
        let mut gathered = Gathered::default();
        let mut traces = Vec::new();
        for input in &self.inputs {
            if !input.is_dir() {
                traces.push(input.as_path());
            } else if !results::add(input, &mut gathered)? {
                ranks::add(&self, input, registry, &mut gathered)?;
            }
        }
        traces::add(&self, &traces, registry, &mut gathered)?;
        gathered.page.title = title(&self.inputs);
        let mut page = Vec::new();
        report::write(&gathered.page, &mut page).expect("memory is writable");
        output.file(&self.out, |out| out.write_all(&page))?;
        self.tell(&gathered, page.len() as u64, output)?;
        if gathered.broken.is_empty() {
            Ok(())
        } else {
            Err(CliError::Broke(gathered.broken))
        }
    }

    /// Where the page is, and what it shows.
    fn tell(&self, gathered: &Gathered, bytes: u64, output: &mut Output) -> Result<(), CliError> {
        let page = &gathered.page;
        let views = page.tracks.iter().map(|track| View {
            run: page.runs[track.run].name.clone(),
            policy: track.policy.clone(),
            failed: track.failed,
        });
        let reported = Reported {
            out: self.out.display().to_string(),
            bytes,
            runs: page.runs.iter().map(|run| run.name.clone()).collect(),
            views: views.collect(),
            pictures: page.pictures.len(),
            broken: gathered.broken.clone(),
        };
        // A page on standard output stands alone.
        if super::args::is_stream(&self.out) {
            return Ok(());
        }
        if output.json {
            return output.result(&reported);
        }
        output.line(&format!(
            "{}: {} ({} bytes), {}, {}",
            reported.out,
            format_bytes(bytes),
            format_count(bytes),
            super::load::counted(reported.views.len(), "view over time"),
            super::load::counted(reported.pictures, "picture"),
        ))
    }
}

/// The names of the inputs, the first ones.
fn title(inputs: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        let path: &Path = path;
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let names: Vec<String> = inputs.iter().take(3).map(name).collect();
    let more = inputs.len() - names.len();
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}: memory report", names.join(", "))
}
