//! The native text format: one event a row, made to be written by hand.
//!
//! `docs/traces.md` describes it; every [`Event`] has a word here.

mod quick;
mod write;

#[cfg(test)]
mod tests;

pub use write::{CsvWriter, write};

use std::io::BufRead;

use super::builder::Ask;
use super::keys::Keys;
use super::text::{self, Blocks, Columns, Lines, Row, Source};
use super::{ANY_STREAM, Event, PoolId, PoolStep, StreamId, Trace, TraceBuilder, TraceError};

/// The columns, in the order that a file without a header has.
pub const COLUMNS: &str = "event,id,bytes,stream,time,align,pool,tag";

/// The words of the first column.
pub const WORDS: [&str; 20] = [
    "alloc",
    "attempt",
    "free",
    "free_deferred",
    "free_again",
    "free_unknown",
    "free_at",
    "complete",
    "use",
    "record",
    "wait",
    "sync",
    "pin",
    "unpin",
    "compact",
    "trim",
    "pool_begin",
    "pool_end",
    "pool_release",
    "mark",
];

/// The comment that ends the leading rows which rebuild an initial state.
const INITIAL_ENDS: &str = "end of initial state";

/// Reads a native csv. Of a large one a second thread reads the digits, while this one makes
/// the events; what comes out is the same.
///
/// # Errors
/// A row that the format does not allow: the error names the line and the value.
pub fn import(input: &mut dyn BufRead, source: &Source) -> Result<Trace, TraceError> {
    let mut blocks = Blocks::new(input);
    let mut lines = Lines::new(&mut blocks, &source.file);
    let mut reader = Reader::new(&source.name);
    let mut text = String::new();
    let mut table: Option<Table> = None;
    loop {
        if table.as_ref().is_some_and(quick::is_usual) {
            reader.rows += lines.ready(|bytes| quick::rows(bytes, &mut reader.builder))?;
        }
        if !lines.next_row(&mut text, "")? {
            break;
        }
        let line = text.trim();
        if let Some(comment) = line.strip_prefix('#') {
            lines.place(reader.directive(comment))?;
            continue;
        }
        if table.is_none() {
            let (found, is_header) = lines.place(Table::of(line))?;
            table = Some(found);
            if is_header {
                continue;
            }
        }
        if let Some(table) = &table {
            let row = lines.place(Row::split(line).and_then(|row| table.fits(row)))?;
            lines.place(reader.row(&row, table))?;
        }
    }
    let unread = table.iter().flat_map(|table| &table.unread);
    Ok(reader.finish(unread))
}

/// Which cell holds what.
struct Table {
    columns: usize,
    event: Option<usize>,
    id: Option<usize>,
    bytes: Option<usize>,
    stream: Option<usize>,
    time: Option<usize>,
    align: Option<usize>,
    pool: Option<usize>,
    tag: Option<usize>,
    unread: Vec<String>,
}

impl Table {
    /// The table of a first line, which is a header or, in a file without one, a row.
    fn of(line: &str) -> Result<(Self, bool), String> {
        let first = Row::split(line)?.get(Some(0)).to_ascii_lowercase();
        let is_header = !WORDS.contains(&&*first);
        let mut columns = Columns::of(if is_header { line } else { COLUMNS })?;
        let table = Table {
            columns: columns.count(),
            event: Some(columns.need(&["event"])?),
            id: columns.find(&["id"]),
            bytes: columns.find(&["bytes"]),
            stream: columns.find(&["stream"]),
            time: columns.find(&["time"]),
            align: columns.find(&["align"]),
            pool: columns.find(&["pool"]),
            tag: columns.find(&["tag"]),
            unread: columns.unread().map(str::to_owned).collect(),
        };
        Ok((table, is_header))
    }

    /// A row may end early, and may not have more cells than there are columns.
    fn fits<'t>(&self, row: Row<'t>) -> Result<Row<'t>, String> {
        if row.count() > self.columns {
            let (cells, columns) = (row.count(), self.columns);
            return Err(format!("{cells} cells in a table of {columns} columns"));
        }
        Ok(row)
    }
}

/// The trace so far.
struct Reader {
    builder: TraceBuilder,
    keys: Keys,
    rows: u64,
}

impl Reader {
    fn new(name: &str) -> Self {
        Reader {
            builder: TraceBuilder::new(name),
            keys: Keys::default(),
            rows: 0,
        }
    }

    /// A comment that says something of the trace as a whole.
    fn directive(&mut self, comment: &str) -> Result<(), String> {
        let comment = comment.trim();
        if comment == INITIAL_ENDS {
            self.builder.initial_done();
            return Ok(());
        }
        let Some((word, value)) = comment.split_once(' ') else {
            return Ok(());
        };
        let value = value.trim();
        let is_value = value.starts_with(|c: char| c.is_ascii_digit());
        match word {
            "capacity" if is_value => {
                let bytes = text::bytes(value, "capacity")?;
                self.builder.trace_mut().capacity_bytes = Some(bytes);
            }
            "device" if is_value => {
                let device = text::number(value, "device")?;
                self.builder.trace_mut().device =
                    u32::try_from(device).map_err(|_| format!("device '{value}' is too large"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// One row.
    fn row(&mut self, row: &Row<'_>, table: &Table) -> Result<(), String> {
        self.rows += 1;
        let time = row.get(table.time);
        if !time.is_empty() {
            self.builder.at(text::nanos(&time)?);
        }
        let mut word = row.get(table.event);
        if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            word = word.to_ascii_lowercase().into();
        }
        let id = row.get(table.id);
        match &*word {
            "alloc" | "attempt" => self.request(row, table, word == "attempt"),
            "free" => self.free(row, table, false),
            "free_deferred" => self.free(row, table, true),
            "complete" => self.complete(&id),
            "use" | "pin" | "unpin" => self.held(row, table, &word),
            "sync" => {
                let stream = self.stream(row, table, Some(ANY_STREAM))?;
                self.push(Event::Sync { stream })
            }
            "record" | "wait" => {
                let event = text::number(&id, "event number")?;
                let event = u32::try_from(event).map_err(|_| {
                    format!("event number '{id}': expected one below {}", 1u64 << 32)
                })?;
                let stream = self.stream(row, table, None)?;
                self.push(if word == "wait" {
                    Event::Wait { stream, event }
                } else {
                    Event::Record { stream, event }
                })
            }
            "compact" => self.push(Event::Compact),
            "trim" => self.push(Event::Trim),
            "pool_begin" => self.pool_step(row, table, PoolStep::Begin),
            "pool_end" => self.pool_step(row, table, PoolStep::End),
            "pool_release" => self.pool_step(row, table, PoolStep::Release),
            "mark" => {
                self.builder.mark(&unescape(&id));
                Ok(())
            }
            "free_again" => self.push(Event::FreeAgain {
                id: text::number(&id, "id")?,
            }),
            "free_unknown" => self.push(Event::FreeUnknown {
                id: text::number(&id, "id")?,
            }),
            "free_at" => self.push(Event::FreeAt {
                address: text::bytes_or_hex(&id, "address")?,
            }),
            _ => Err(format!(
                "event '{}': expected one of {}",
                text::shown(&word),
                WORDS.join(", ")
            )),
        }
    }

    fn push(&mut self, event: Event) -> Result<(), String> {
        self.builder.push(event);
        Ok(())
    }

    fn request(&mut self, row: &Row<'_>, table: &Table, failed: bool) -> Result<(), String> {
        let id = row.get(table.id);
        let key = self.keys.key(&unescape(&id))?;
        let align = row.get(table.align);
        let ask = Ask {
            bytes: text::bytes(&row.get(table.bytes), "bytes")?,
            align_log2: if align.is_empty() {
                0
            } else {
                power_of_two(&align)?
            },
            stream: self.stream(row, table, None)?,
            pool: self.pool(row, table)?,
            tag: self.builder.tag(&unescape(&row.get(table.tag))),
        };
        if failed {
            self.builder.attempt(key, ask);
            return Ok(());
        }
        if self.builder.is_pending(key) && !self.builder.is_live(key) {
            return Err(format!(
                "alloc of '{id}', whose deferred free is not complete"
            ));
        }
        self.builder
            .alloc(key, ask)
            .map(drop)
            .map_err(|_| format!("alloc of '{id}', which is live already"))
    }

    fn free(&mut self, row: &Row<'_>, table: &Table, deferred: bool) -> Result<(), String> {
        let key = self.keys.key(&unescape(&row.get(table.id)))?;
        let stream = if row.get(table.stream).is_empty() {
            None
        } else {
            Some(self.stream(row, table, None)?)
        };
        self.builder
            .free_as(key, self.keys.stray(key), stream, deferred);
        Ok(())
    }

    fn complete(&mut self, id: &str) -> Result<(), String> {
        let key = self.keys.key(&unescape(id))?;
        if self.builder.complete(key) {
            return Ok(());
        }
        Err(format!(
            "complete of '{id}', which no free_deferred came before"
        ))
    }

    /// An event of an allocation that must be live, or await its completion.
    fn held(&mut self, row: &Row<'_>, table: &Table, word: &str) -> Result<(), String> {
        let id = row.get(table.id);
        let key = self.keys.key(&unescape(&id))?;
        let Some(slot) = self.builder.slot(key) else {
            return Err(format!("{word} of '{id}', which is not live"));
        };
        let event = match word {
            "pin" => Event::Pin { slot },
            "unpin" => Event::Unpin { slot },
            _ => Event::Use {
                slot,
                stream: self.stream(row, table, Some(ANY_STREAM))?,
            },
        };
        self.push(event)
    }

    fn pool_step(&mut self, row: &Row<'_>, table: &Table, step: PoolStep) -> Result<(), String> {
        let stream = self.stream(row, table, None)?;
        let pool = self.pool(row, table)?;
        self.builder.pool_step(step, pool, stream);
        Ok(())
    }

    /// The stream of a row; `any` is what an empty cell or `*` means, else stream 0.
    fn stream(
        &mut self,
        row: &Row<'_>,
        table: &Table,
        any: Option<StreamId>,
    ) -> Result<StreamId, String> {
        let cell = row.get(table.stream);
        let raw = match (&*cell, any) {
            ("" | "*", Some(any)) => return Ok(any),
            ("", None) => 0,
            _ => text::number(&cell, "stream")?,
        };
        self.builder
            .try_stream(raw)
            .ok_or_else(|| format!("stream '{cell}': more than 65,534 streams in one trace"))
    }

    /// The pool of a row: `7` or `1:7`; the default pool where the cell is empty.
    fn pool(&mut self, row: &Row<'_>, table: &Table) -> Result<PoolId, String> {
        let cell = row.get(table.pool);
        let raw = match cell.split_once(':') {
            _ if cell.is_empty() => (0, 0),
            Some((high, low)) => (text::number(high, "pool")?, text::number(low, "pool")?),
            None => (0, text::number(&cell, "pool")?),
        };
        self.builder
            .try_pool(raw)
            .ok_or_else(|| format!("pool '{cell}': more than 65,534 pools in one trace"))
    }

    fn finish<'u>(self, unread: impl Iterator<Item = &'u String>) -> Trace {
        let mut trace = self.builder.finish();
        self.keys.rename(&mut trace);
        trace.report.format = "native csv".to_owned();
        trace.report.entries = self.rows;
        for column in unread {
            let what = format!("column '{}' is not carried over", text::shown(column));
            trace.report.note(self.rows, what);
        }
        trace
    }
}

/// The logarithm of an alignment in bytes.
fn power_of_two(cell: &str) -> Result<u8, String> {
    let align = text::bytes(cell, "align")?;
    if !align.is_power_of_two() {
        return Err(format!("align '{cell}': expected a power of two"));
    }
    Ok(align.trailing_zeros() as u8)
}

/// Undoes what [`write()`] does to line ends and backslashes; any other backslash stays.
fn unescape(cell: &str) -> std::borrow::Cow<'_, str> {
    if !cell.contains('\\') {
        return cell.into();
    }
    let mut out = String::with_capacity(cell.len());
    let mut chars = cell.chars().peekable();
    while let Some(c) = chars.next() {
        let plain = match chars.peek() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('\\') => '\\',
            _ => {
                out.push(c);
                continue;
            }
        };
        if c == '\\' {
            out.push(plain);
            chars.next();
        } else {
            out.push(c);
        }
    }
    out.into()
}
