//! What can go wrong on the command line: message, place, help, and an exit code.

use std::io;
use std::path::PathBuf;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::cuda::CardError;
use crate::experiment::RecordError;
use crate::experiment::fault::FileError;
use crate::experiment::gate::GateError;
use crate::experiment::journal::JournalError;
use crate::experiment::merge::MergeError;
use crate::experiment::ranks::RanksError;
use crate::experiment::rows::RowsError;
use crate::experiment::runner::RunError;
use crate::explain::ExplainError;
use crate::plot::PlotError;
use crate::policy::PolicyError;
use crate::space::device::DeviceError;
use crate::synth::SynthError;
use crate::trace::TraceError;

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A trace could not be read.
    #[error("{}", told(.0))]
    Trace(#[from] TraceError),
    /// A trace was read, but breaks a rule that every trace keeps.
    #[error("{file}, event {event}: {what}")]
    Rule {
        /// The file as it was named.
        file: String,
        /// Number of the event.
        event: usize,
        /// The rule.
        what: String,
    },
    /// A policy is unknown, or its parameters do not fit.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A workload is unknown, or its parameters do not fit.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// A device file does not fit.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The arguments do not go together.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
        /// The way out.
        help: String,
    },
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A picture could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// Standard output broke for another reason than a reader that left.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// Policies broke rules of the Space.
    #[error("{}", .0.join("\n"))]
    Broke(Vec<String>),
    /// A run could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An experiment file does not fit.
    #[error("{error}")]
    Experiment {
        /// What is wrong, and where.
        error: Box<FileError>,
        /// The file, to be shown.
        source_code: Box<NamedSource<String>>,
    },
    /// An expression on the command line does not fit.
    #[error("{error}")]
    Expression {
        /// What is wrong, and where.
        error: Box<FileError>,
        /// The expression, to be shown.
        source_code: Box<NamedSource<String>>,
    },
    /// The journal of an experiment cannot be gone on with.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The rows of an experiment cannot be read.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// Shards cannot be joined.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// Ctrl-C was pressed; what was done is kept.
    #[error("interrupted: {done} of {of} cells are done and kept in {}", out.display())]
    Interrupted {
        /// Cells that are done.
        done: usize,
        /// Cells of all.
        of: usize,
        /// The folder.
        out: PathBuf,
    },
    /// A policy failed the conformance suite.
    #[error("policy '{policy}' does not conform: {what}")]
    Nonconforming {
        /// The policy.
        policy: String,
        /// Seed, event and rule.
        what: String,
    },
    /// A model did not meet a recording.
    #[error("{wrong} of {of} recordings are not met")]
    Mismatch {
        /// Recordings with a divergence.
        wrong: usize,
        /// Recordings checked.
        of: usize,
    },
    /// A card did not do what it was asked for, or there is none.
    #[error(transparent)]
    Card(#[from] CardError),
    /// A card did something else than the simulator said.
    #[error("the card disagrees in {wrong} of {of} runs")]
    Disagreement {
        /// Runs in which it did.
        wrong: usize,
        /// Runs of all.
        of: usize,
    },
    /// A folder is no folder of ranks.
    #[error(transparent)]
    Ranks(#[from] RanksError),
    /// A limit cannot be checked.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Rows are above their limits.
    #[error("{regressed} of {of} values are above their limits")]
    Regressed {
        /// Values that do.
        regressed: usize,
        /// Values checked.
        of: usize,
    },
    /// `--fail-on-oom` was asked for, and a request failed.
    #[error("{failed} of {requests} requests were not served")]
    OutOfMemory {
        /// Requests that failed.
        failed: u64,
        /// Requests of all.
        requests: u64,
    },
}

impl CliError {
    /// An error of writing `path`.
    pub fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        CliError::Write {
            path: path.into(),
            source,
        }
    }

    /// Arguments that do not go together.
    pub fn usage(what: impl Into<String>, help: impl Into<String>) -> Self {
        CliError::Usage {
            what: what.into(),
            help: help.into(),
        }
    }

    /// An error of an expression that was given on the command line.
    pub fn expression(error: FileError) -> Self {
        let text = NamedSource::new(&error.text.file, error.text.text.clone());
        CliError::Expression {
            error: Box::new(error),
            source_code: Box::new(text),
        }
    }

    /// The exit code: 1 internal, 2 usage, 3 bad input, 5 a broken rule, 10 out of memory,
    /// 20 a mismatch or a regression, 30 no CUDA device, 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Plot(_) | CliError::Stdout(_) => 1,
            CliError::Policy(_)
            | CliError::Synth(_)
            | CliError::Usage { .. }
            | CliError::Expression { .. }
            | CliError::Gate(_)
            | CliError::Write { .. } => 2,
            CliError::Trace(_) | CliError::Rule { .. } | CliError::Device(_) => 3,
            CliError::Experiment { .. } | CliError::Journal(_) => 3,
            CliError::Rows(_) | CliError::Merge(_) | CliError::Ranks(_) => 3,
            CliError::Record(RecordError::Policy(_) | RecordError::NotStarted { .. }) => 2,
            CliError::Record(RecordError::Broke { .. })
            | CliError::Broke(_)
            | CliError::Nonconforming { .. } => 5,
            CliError::OutOfMemory { .. } => 10,
            CliError::Mismatch { .. }
            | CliError::Disagreement { .. }
            | CliError::Regressed { .. } => 20,
            CliError::Card(CardError::NoCard(_)) => 30,
            CliError::Card(_) => 1,
            // As a shell tells a process that SIGINT ended.
            CliError::Interrupted { .. } => 130,
        }
    }

    /// The way out, in a sentence.
    fn way_out(&self) -> Option<String> {
        let text = match self {
            CliError::Trace(TraceError::Input { way_out, .. }) => way_out.clone(),
            CliError::Trace(TraceError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                "check the path; `-` reads from standard input".into()
            }
            CliError::Usage { help, .. } => help.clone(),
            CliError::Experiment { error, .. } | CliError::Expression { error, .. } => {
                error.help.clone()
            }
            CliError::Journal(error) | CliError::Merge(MergeError::Journal(error)) => {
                journal_help(error).into()
            }
            CliError::Merge(_) => "name the folder of every shard once, as `vramlab run --shard \
                I/N` of one state of the experiment wrote it"
                .into(),
            CliError::Interrupted { .. } => "the same command with --resume goes on".into(),
            CliError::Rule { .. } => "record or convert the trace again".into(),
            CliError::Write { .. } => {
                "choose a place that can be written with --out, or make room there".into()
            }
            CliError::Record(RecordError::NotStarted { .. }) => {
                "give more room with --capacity, or choose another policy".into()
            }
            CliError::Record(RecordError::Broke { .. })
            | CliError::Broke(_)
            | CliError::Nonconforming { .. } => {
                "this is a bug of the policy; report it with the spec, the trace and this text"
                    .into()
            }
            CliError::OutOfMemory { .. } => {
                "`--capacity` gives more room; without --fail-on-oom this is no error".into()
            }
            CliError::Ranks(RanksError::Empty(_)) => {
                "name a folder with one recording a rank, or a trace itself".into()
            }
            CliError::Ranks(_) => "put the recordings of one run, and nothing else, into a folder \
                of their own"
                .into(),
            CliError::Gate(error) => gate_help(error).into(),
            CliError::Regressed { .. } => {
                "where the change is meant, write the baseline anew: the rows.csv of this run"
                    .into()
            }
            CliError::Disagreement { .. } => {
                "the notes of the rows say where; a planted fault is meant to be found".into()
            }
            CliError::Mismatch { .. } => {
                "a capped recording needs its cap: --capacity SIZE; other settings: --policy SPEC"
                    .into()
            }
            _ => String::new(),
        };
        (!text.is_empty()).then_some(text)
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        let text = NamedSource::new(&error.text.file, error.text.text.clone());
        CliError::Experiment {
            error: Box::new(error),
            source_code: Box::new(text.with_language("toml")),
        }
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Trace(error) => error.into(),
            RunError::Rule { file, event, what } => CliError::Rule { file, event, what },
            RunError::File(error) => error.into(),
            RunError::Policy(error) => error.into(),
            RunError::Journal(error) => error.into(),
        }
    }
}

impl From<ExplainError> for CliError {
    fn from(error: ExplainError) -> Self {
        let what = error.to_string();
        match error {
            ExplainError::Record(error) => error.into(),
            ExplainError::Fidelity(_) => {
                CliError::usage(what, "see `vramlab trace info` for what it holds")
            }
            ExplainError::Empty(trace) => TraceError::whole(trace, "it holds no events")
                .or("record it again; `vramlab trace info` tells what it holds")
                .into(),
            ExplainError::NoSuchEvent { .. } => CliError::usage(
                what,
                "leave --event out for the failure itself; `vramlab replay` lists failed events",
            ),
        }
    }
}

/// What to do where a limit cannot be checked.
fn gate_help(error: &GateError) -> &'static str {
    match error {
        GateError::NoBaseline(_) => {
            "give the rows.csv of an earlier run with --against, or an absolute limit such as \
             =12GiB"
        }
        GateError::Policy { .. } => "name policies as the table does, or * for all",
        GateError::Unreadable { .. } => "a baseline is a rows.csv that `vramlab compare` wrote",
        GateError::Mismatch { .. } => {
            "compare the same traces and policies, with the same --capacity, as for the baseline, \
             or write the baseline anew"
        }
    }
}

/// What to do with a journal.
fn journal_help(error: &JournalError) -> &'static str {
    match error {
        JournalError::Io { .. } => "check the folder and the room on its disk",
        JournalError::Damaged { .. } => "the file was changed: remove it and run again",
        JournalError::Changed { .. } => {
            "rows of different inputs do not go together: undo the change, or run into another \
             folder with --out"
        }
    }
}

impl Diagnostic for CliError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.way_out()
            .map(|text| Box::new(text) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match self {
            CliError::Experiment { error, source_code }
            | CliError::Expression { error, source_code }
                if error.span.is_some() =>
            {
                Some(&**source_code)
            }
            _ => None,
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let (CliError::Experiment { error, .. } | CliError::Expression { error, .. }) = self else {
            return None;
        };
        let span = error.span.clone()?;
        let label = LabeledSpan::new_with_span(Some("here".into()), span);
        Some(Box::new(std::iter::once(label)))
    }
}

/// A trace's error without its way out, which is told as help.
fn told(error: &TraceError) -> String {
    match error {
        TraceError::Input {
            file, place, what, ..
        } => format!("{file}{place}: {what}"),
        TraceError::Io { .. } => error.to_string(),
    }
}
