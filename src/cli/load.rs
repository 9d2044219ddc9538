//! Opens traces, puts them on a card, and says what they are.

use std::path::Path;

use serde::Serialize;

use super::CliError;
use super::args::{CardArgs, OpenArgs, is_stream};
use crate::experiment::{Origin, Scene};
use crate::files::blake3_of;
use crate::trace::{self, Note, OpenOptions, Trace};
use crate::units::{format_bytes, format_count, format_nanos};

/// Reads all traces of a file and checks the rules that a replay relies on.
///
/// # Errors
/// As [`trace::open`], or the first event that breaks a rule.
pub fn open(path: &Path, open: &OpenArgs) -> Result<Vec<Trace>, CliError> {
    open_with(path, &open.options())
}

/// As [`open`], with options that the command made.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Vec<Trace>, CliError> {
    let traces = trace::open(path, options)?;
    for trace in &traces {
        trace::check::check(trace).map_err(|(event, fault)| CliError::Rule {
            file: path.display().to_string(),
            event,
            what: fault.to_string(),
        })?;
    }
    Ok(traces)
}

/// Reads the one trace of a file.
///
/// # Errors
/// As [`open`], or a file of several devices.
pub fn only(path: &Path, open: &OpenArgs) -> Result<Trace, CliError> {
    let mut traces = self::open(path, open)?;
    if traces.len() > 1 {
        return Err(CliError::usage(
            format!("{} holds several devices", path.display()),
            "choose one with --device N; a file holds one trace",
        ));
    }
    let none = || CliError::usage(format!("{} holds no trace", path.display()), "");
    traces.pop().ok_or_else(none)
}

/// Reads a file and puts each of its traces on the card.
///
/// # Errors
/// As [`open`], or a capacity that the card does not have.
pub fn scenes(path: &Path, open: &OpenArgs, card: &CardArgs) -> Result<Vec<Scene>, CliError> {
    let wanted = card.wanted()?;
    let traces = self::open(path, open)?;
    let scenes = traces.into_iter();
    Ok(scenes
        .map(|trace| Scene::new(trace, card.card.clone(), wanted))
        .collect())
}

/// The blake3 hash of a file; `None` for standard input, which is gone once read.
///
/// # Errors
/// What the system says.
pub fn hash(path: &Path) -> Result<Option<String>, CliError> {
    // A pipe can be read only once, and that is for the trace.
    let is_pipe = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    if is_stream(path) || is_pipe {
        return Ok(None);
    }
    let hash = blake3_of(path);
    let hash = hash.map_err(|error| trace::TraceError::io(path.display().to_string(), error))?;
    Ok(Some(hash))
}

/// What the first lines of an output say of a trace.
#[derive(Debug, Serialize)]
pub struct Heading<'a> {
    trace: &'a str,
    format: &'a str,
    device: u32,
    events: u64,
    requests: u64,
    span_ns: u64,
    has_times: bool,
    lower_bound_bytes: u64,
    capacity_bytes: u64,
    capacity_from: &'static str,
    card: &'a str,
    notes: &'a [Note],
}

impl<'a> Heading<'a> {
    /// The heading of a trace on its card.
    pub fn of(scene: &'a Scene) -> Self {
        let trace = &scene.trace;
        Heading {
            trace: &trace.name,
            format: &trace.report.format,
            device: trace.device,
            events: trace.events.len() as u64,
            requests: trace.requests(),
            span_ns: span_ns(trace),
            has_times: trace.has_times(),
            lower_bound_bytes: scene.bound_bytes,
            capacity_bytes: scene.capacity.bytes,
            capacity_from: match scene.capacity.origin {
                Origin::Asked => "as asked with --capacity",
                Origin::Trace => "the cap that the trace itself tells",
                Origin::Tight => "1.1 x the peak of live requested bytes",
                Origin::Card => "the whole card",
            },
            card: &scene.device.name,
            notes: &trace.report.notes,
        }
    }

    /// The heading in lines for people; `all_notes` tells every note of the import, else
    /// the first and how many more there are.
    pub fn lines(&self, all_notes: bool) -> Vec<String> {
        let times = if self.has_times {
            format!("over {}", format_nanos(self.span_ns))
        } else {
            "no times (1 us an event)".into()
        };
        let mut lines = vec![
            format!(
                "{}: {} events, {} requests, {times}; {}",
                self.trace,
                format_count(self.events),
                format_count(self.requests),
                self.format,
            ),
            format!(
                "capacity {} ({} bytes): {}; card {}",
                format_bytes(self.capacity_bytes),
                format_count(self.capacity_bytes),
                self.capacity_from,
                self.card
            ),
        ];
        if all_notes {
            lines.extend(self.notes.iter().map(note));
        } else if let Some(first) = self.notes.first() {
            let rest = self.notes.len() - 1;
            lines.push(note(first));
            if rest > 0 {
                let more = counted(rest, "more note");
                lines.push(format!("import: {more}, told by `vramlab trace info`"));
            }
        }
        lines
    }
}

/// One note of an import report.
pub fn note(note: &Note) -> String {
    format!("import: {} x {}", format_count(note.count), note.what)
}

/// `1 note`, `3 notes`.
pub fn counted(count: usize, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", format_count(count as u64))
}

/// The time from the first to the last event, ns.
pub fn span_ns(trace: &Trace) -> u64 {
    let last = trace.events.len().saturating_sub(1);
    trace.time_ns(last).saturating_sub(trace.time_ns(0))
}
