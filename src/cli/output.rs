//! Standard output and standard error: who reads, how wide, in colour or not.

use std::env;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;

use miette::{GraphicalReportHandler, GraphicalTheme};
use serde::Serialize;

use super::CliError;
use super::args::is_stream;
use crate::files::write_atomically;

/// Columns where no terminal tells how many.
const PIPED_COLUMNS: usize = 140;
/// Narrower than this nothing can be laid out.
const LEAST_COLUMNS: usize = 40;

/// Standard output. A reader that leaves early is no error: what comes after is
/// dropped, and the command still does the rest of its work.
pub struct Output {
    out: BufWriter<Stdout>,
    closed: bool,
    /// Results are JSON, and words go to standard error.
    pub json: bool,
    /// Colours may be used on standard output.
    pub colour: bool,
    /// Columns of a line.
    pub columns: usize,
    /// Someone looks at standard output.
    pub terminal: bool,
    /// Letters beyond ASCII may be drawn with.
    pub unicode: bool,
    /// Lines for people are dropped, as they are told in another way.
    pub hushed: bool,
}

impl Output {
    /// The output of this process.
    pub fn new(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Output {
            out: BufWriter::new(io::stdout()),
            closed: false,
            json,
            colour: terminal && colour_is_welcome(),
            columns: columns(terminal),
            terminal,
            unicode: unicode_is_welcome(),
            hushed: false,
        }
    }

    /// A line for people: on standard output, or beside JSON on standard error.
    ///
    /// # Errors
    /// Standard output is broken for another reason than a reader that left.
    pub fn line(&mut self, text: &str) -> Result<(), CliError> {
        if self.hushed {
            return Ok(());
        }
        if self.json {
            say(text);
            return Ok(());
        }
        self.write(|out| writeln!(out, "{text}"))
    }

    /// A text that is the result itself, such as a script or a manual page; JSON holds
    /// it as one string.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub fn text(&mut self, text: &str) -> Result<(), CliError> {
        if self.json {
            return self.result(&text);
        }
        self.write(|out| out.write_all(text.as_bytes()))
    }

    /// Writes a file by `fill`, whole or not at all; `-` is standard output.
    ///
    /// # Errors
    /// What the system or `fill` says.
    pub fn file(
        &mut self,
        path: &Path,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        if is_stream(path) {
            return self.write(fill);
        }
        write_atomically(path, fill).map_err(|error| CliError::write(path, error))
    }

    /// The result as JSON.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub fn result(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        self.write(|out| {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)
        })
    }

    /// Whatever `fill` writes.
    ///
    /// # Errors
    /// As [`line`](Self::line), or what `fill` says.
    pub fn write(
        &mut self,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        if self.closed {
            return Ok(());
        }
        let done = fill(&mut self.out);
        self.after(done)
    }

    /// Hands everything on.
    ///
    /// # Errors
    /// As [`line`](Self::line).
    pub fn flush(&mut self) -> Result<(), CliError> {
        let done = self.out.flush();
        self.after(done)
    }

    fn after(&mut self, done: io::Result<()>) -> Result<(), CliError> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other.map_err(CliError::Stdout),
        }
    }

    /// Tells an error on standard error: in a frame on a terminal, plainly elsewhere.
    pub fn tell_error(&mut self, error: &CliError) {
        // What was printed so far comes first.
        let _ = self.out.flush();
        let terminal = io::stderr().is_terminal();
        let (theme, width) = match (terminal, colour_is_welcome()) {
            (true, true) => (GraphicalTheme::unicode(), columns(true)),
            (true, false) => (GraphicalTheme::unicode_nocolor(), columns(true)),
            (false, _) => (GraphicalTheme::none(), usize::MAX / 2),
        };
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width);
        if !terminal || handler.render_report(&mut text, error).is_err() {
            text = plain(error);
        }
        say(text.trim_end());
    }
}

/// An error in lines that a log and a grep can take.
fn plain(error: &CliError) -> String {
    use miette::Diagnostic as _;
    let help = error
        .help()
        .map_or(String::new(), |help| format!("\nhelp: {help}"));
    format!("error: {error}{help}")
}

/// A line on standard error; nobody may be listening.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether the user has not asked for plain text, see no-color.org.
fn colour_is_welcome() -> bool {
    let set = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !set && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the locale is one of UTF-8, as POSIX names it: the first of these that is set.
fn unicode_is_welcome() -> bool {
    let set = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Columns of a line: `COLUMNS` where it is set, else the terminal's.
fn columns(terminal: bool) -> usize {
    let asked = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let seen = || {
        let size = terminal.then(terminal_size::terminal_size).flatten();
        size.map(|(width, _)| usize::from(width.0))
    };
    asked
        .or_else(seen)
        .unwrap_or(PIPED_COLUMNS)
        .max(LEAST_COLUMNS)
}
