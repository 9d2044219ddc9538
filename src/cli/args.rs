//! Arguments that several subcommands share.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::CliError;
use super::output::Output;
use crate::experiment::Wanted;
use crate::experiment::source::{DEFAULT_CARD, card_of};
use crate::space::Device;
use crate::trace::OpenOptions;
use crate::units::{format_bytes, parse_bytes};

/// The card, and what of it may be used.
#[derive(Debug, Args)]
pub struct CardArgs {
    /// What may be used: a size such as 8GiB, or `card` for the whole card [default: what
    /// the trace tells, else 1.1 x the peak of its live bytes]
    #[arg(long, value_name = "SIZE|card", value_parser = parse_wanted)]
    pub capacity: Option<Wanted>,

    /// The whole card: the name of a measured one, a file of `calibrate`, or a size (with the
    /// costs of the default)
    #[arg(long, value_name = "NAME|FILE|SIZE", default_value = DEFAULT_CARD, value_parser = card_of)]
    pub card: Arc<Device>,
}

impl CardArgs {
    /// What was asked of the capacity.
    ///
    /// # Errors
    /// More than the card has, or nothing.
    pub fn wanted(&self) -> Result<Wanted, CliError> {
        let wanted = self.capacity.unwrap_or_default();
        let Wanted::Bytes(bytes) = wanted else {
            return Ok(wanted);
        };
        let card = &self.card;
        if bytes == 0 {
            return Err(CliError::usage(
                "--capacity 0: nothing could be served",
                "give a size such as 8GiB",
            ));
        }
        if bytes > card.total_bytes {
            return Err(CliError::usage(
                format!(
                    "--capacity {} is more than the card '{}' has ({})",
                    format_bytes(bytes),
                    card.name,
                    format_bytes(card.total_bytes)
                ),
                "give a larger card with --card SIZE, or `--capacity card` for all of this one",
            ));
        }
        Ok(wanted)
    }
}

/// A size in bytes, for an argument.
///
/// # Errors
/// As [`parse_bytes`].
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

fn parse_wanted(text: &str) -> Result<Wanted, String> {
    if text == "card" {
        return Ok(Wanted::Card);
    }
    parse_bytes(text)
        .map(Wanted::Bytes)
        .map_err(|error| error.to_string())
}

/// How traces are opened.
#[derive(Debug, Args)]
pub struct OpenArgs {
    /// One device of a recording of several [default: all]
    #[arg(long, value_name = "N")]
    pub device: Option<u32>,

    /// The cap under which a PyTorch recording was made, which its file does not tell: it
    /// decides which given back segments were retries, and becomes the trace's capacity
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub recorded_cap: Option<u64>,
}

impl OpenArgs {
    /// As the readers take it.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            device: self.device,
            capacity_bytes: self.recorded_cap,
            ..OpenOptions::default()
        }
    }
}

/// More threads than any machine has use for take long to start and no less to end.
const MOST_JOBS: usize = 1024;

/// A number of threads.
fn parse_jobs(text: &str) -> Result<NonZeroUsize, String> {
    let jobs: NonZeroUsize = text
        .parse()
        .map_err(|_| "expected a number of threads from 1 on".to_owned())?;
    if jobs.get() > MOST_JOBS {
        return Err(format!("more than {MOST_JOBS} threads help nobody"));
    }
    Ok(jobs)
}

/// Threads.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Threads [default: one a core]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = parse_jobs)]
    pub jobs: Option<NonZeroUsize>,
}

impl JobsArgs {
    /// Runs `work` on a pool of that many threads.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, CliError> {
        let threads = self.jobs.map_or(0, NonZeroUsize::get);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| {
                CliError::usage(format!("cannot start threads: {error}"), "try --jobs 1")
            })?;
        Ok(pool.install(work))
    }
}

/// Pictures in letters.
#[derive(Debug, Args)]
pub struct MapArgs {
    /// Show fragmentation over time and the address map in letters, also where standard
    /// output is no terminal
    #[arg(long)]
    pub map: bool,

    /// Draw them with ASCII letters only [default: as the locale says]
    #[arg(long)]
    pub ascii: bool,
}

impl MapArgs {
    /// Whether the pictures are to be shown; takes the wish for ASCII into account.
    pub fn shown(&self, output: &mut Output) -> bool {
        output.unicode &= !self.ascii;
        self.map || (output.terminal && !output.json)
    }
}

/// `-` for a standard stream, else a path.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new("-")
}
