//! MiniMalloc's csv: one buffer a row, with its lifetime on a logical clock.
//!
//! `id,lower,upper,size` with half-open lifetimes. `begin` and `start` stand for `lower`;
//! `end` for `upper`, but inclusive, so that 1 is added; `buffer` and `buffer_id` for
//! `id`. At one tick frees come before requests, as half-open lifetimes say.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};

use super::builder::Ask;
use super::keys::Keys;
use super::text::{self, Columns, Lines, Row, Source};
use super::truth::{TruthEntry, TruthKind};
use super::{Event, Note, Trace, TraceBuilder, TraceError, Truth};

/// The names that a column may have.
pub const ID: [&str; 3] = ["id", "buffer", "buffer_id"];
/// As [`ID`], for the first tick.
pub const LOWER: [&str; 3] = ["lower", "begin", "start"];
/// As [`ID`], for the tick after the last one.
pub const UPPER: [&str; 1] = ["upper"];
/// As [`ID`], for the last tick.
pub const END: [&str; 1] = ["end"];

/// A row.
struct Buffer {
    key: u64,
    lower: u64,
    upper: u64,
    bytes: u64,
    align_log2: u8,
    offset: Option<u64>,
}

/// What could not be carried over.
#[derive(Default)]
struct Lost {
    gaps: u64,
    hints: u64,
    aligns: u64,
    empty: u64,
}

/// Reads a MiniMalloc csv. Its capacity is in the file's name: `A.1048576.csv`.
///
/// # Errors
/// A row that the format does not allow: the error names the line and the value.
pub fn import(input: &mut dyn BufRead, source: &Source) -> Result<Trace, TraceError> {
    let mut lines = Lines::new(input, &source.file);
    let mut text = String::new();
    if !lines.next_row(&mut text, "#")? {
        return Err(lines
            .error("the file is empty")
            .or("expected id,lower,upper,size rows"));
    }
    let mut columns = lines.place(Columns::of(&text))?;
    let table = lines.place(Table::of(&mut columns))?;
    let mut keys = Keys::default();
    let mut lost = Lost::default();
    let mut buffers = Vec::new();
    let mut known = HashMap::new();
    while lines.next_row(&mut text, "#")? {
        let buffer = Row::split(&text).and_then(|row| table.row(&row, &mut keys, &mut lost));
        let buffer = lines.place(buffer)?;
        if let Some(first) = known.insert(buffer.key, lines.line()) {
            let id = Row::split(&text).map(|row| row.get(Some(table.id)).into_owned());
            let id = id.unwrap_or_default();
            return Err(lines.error(format!("id '{id}' was given in line {first} already")));
        }
        if buffer.lower < buffer.upper {
            buffers.push(buffer);
        } else {
            lost.empty += 1;
        }
    }
    let mut trace = events(&buffers, &source.name);
    keys.rename(&mut trace);
    trace.capacity_bytes = source.name.rsplit('.').find_map(|part| {
        let is_number = text::is_decimal(part) && part.len() < source.name.len();
        is_number.then(|| part.parse().ok())?
    });
    trace.report.entries = known.len() as u64;
    report(&mut trace, &lost, &columns);
    Ok(trace)
}

/// Which cell holds what.
struct Table {
    id: usize,
    lower: usize,
    upper: usize,
    is_inclusive: bool,
    size: usize,
    alignment: Option<usize>,
    hint: Option<usize>,
    gaps: Option<usize>,
    offset: Option<usize>,
}

impl Table {
    fn of(columns: &mut Columns) -> Result<Self, String> {
        let upper = columns.find(&UPPER);
        Ok(Table {
            id: columns.need(&ID)?,
            lower: columns.need(&LOWER)?,
            is_inclusive: upper.is_none(),
            upper: match upper {
                Some(upper) => upper,
                None => columns.need(&[END[0], UPPER[0]])?,
            },
            size: columns.need(&["size"])?,
            alignment: columns.find(&["alignment"]),
            hint: columns.find(&["hint"]),
            gaps: columns.find(&["gaps"]),
            offset: columns.find(&["offset"]),
        })
    }

    fn row(&self, row: &Row<'_>, keys: &mut Keys, lost: &mut Lost) -> Result<Buffer, String> {
        let key = keys.key(&row.get(Some(self.id)))?;
        let lower = text::number(&row.get(Some(self.lower)), "lower")?;
        let cell = row.get(Some(self.upper));
        let last = text::number(&cell, "upper")?;
        let upper = last
            .checked_add(u64::from(self.is_inclusive))
            .ok_or_else(|| format!("upper '{cell}' is too large"))?;
        if lower > upper {
            return Err(format!(
                "the lifetime {lower}..{upper} ends before it begins"
            ));
        }
        let hint = row.get(self.hint);
        lost.hints += u64::from(!hint.is_empty() && hint != "-1");
        lost.gaps += u64::from(!row.get(self.gaps).is_empty());
        let offset = row.get(self.offset);
        Ok(Buffer {
            key,
            lower,
            upper,
            bytes: text::bytes(&row.get(Some(self.size)), "size")?,
            align_log2: alignment(&row.get(self.alignment), lost)?,
            offset: match &*offset {
                "" | "-1" => None,
                offset => Some(text::number(offset, "offset")?),
            },
        })
    }
}

/// The logarithm of an alignment; of one that is no power of two, the next above.
fn alignment(cell: &str, lost: &mut Lost) -> Result<u8, String> {
    if cell.is_empty() {
        return Ok(0);
    }
    let align = text::bytes(cell, "alignment")?.max(1);
    lost.aligns += u64::from(!align.is_power_of_two());
    let power = align
        .checked_next_power_of_two()
        .ok_or_else(|| format!("alignment '{cell}' is too large"))?;
    Ok(power.trailing_zeros() as u8)
}

/// Turns lifetimes into events in the order of the clock.
fn events(buffers: &[Buffer], name: &str) -> Trace {
    let mut order: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * buffers.len());
    for (at, buffer) in buffers.iter().enumerate() {
        order.push((buffer.lower, true, at));
        order.push((buffer.upper, false, at));
    }
    order.sort_unstable();
    let mut builder = TraceBuilder::new(name);
    let stream = builder.stream(0);
    let mut facts = Vec::new();
    for (tick, is_request, at) in order {
        let buffer = &buffers[at];
        builder.at(tick);
        if !is_request {
            builder.free(buffer.key, None, false);
            continue;
        }
        if let Some(address) = buffer.offset {
            facts.push(TruthEntry {
                event: builder.len() as u32,
                kind: TruthKind::Alloc,
                stream,
                pool: 0,
                address,
                bytes: buffer.bytes,
            });
        }
        let ask = Ask {
            bytes: buffer.bytes,
            align_log2: buffer.align_log2,
            stream,
            ..Ask::default()
        };
        builder
            .alloc(buffer.key, ask)
            .expect("ids were checked to be different");
    }
    let mut trace = builder.finish();
    if !facts.is_empty() {
        trace.truth = Some(Box::new(Truth {
            source: "minimalloc".to_owned(),
            entries: facts,
            ..Truth::default()
        }));
    }
    trace
}

fn report(trace: &mut Trace, lost: &Lost, columns: &Columns) {
    let report = &mut trace.report;
    report.format = "MiniMalloc csv".to_owned();
    report.note(
        report.entries,
        "lifetimes are on a logical clock: one tick is taken as 1 ns",
    );
    report.note(
        lost.gaps,
        "buffers have gaps in their lifetime: they are taken to be live throughout",
    );
    report.note(
        lost.hints,
        "buffers have a hint for their place, which is not carried over",
    );
    report.note(
        lost.aligns,
        "alignments are no power of two: the next one above is taken",
    );
    report.note(
        lost.empty,
        "buffers live for no tick at all and are left out",
    );
    for column in columns.unread() {
        let what = format!("column '{}' is not carried over", text::shown(column));
        report.note(report.entries, what);
    }
}

/// The lifetimes of a trace on the clock of its event numbers; a key is the number of
/// the request.
#[derive(Default)]
struct Lifetimes {
    rows: Vec<Buffer>,
    attempts: u64,
    empty: u64,
    other: u64,
}

impl Lifetimes {
    fn of(trace: &Trace) -> Self {
        let mut found = Lifetimes::default();
        let mut holder = vec![usize::MAX; trace.slots as usize];
        let mut key = 0;
        for (event, at) in trace.events.iter().zip(0u64..) {
            match *event {
                Event::Alloc {
                    slot,
                    bytes,
                    align_log2,
                    ..
                } => {
                    holder[slot as usize] = if bytes == 0 {
                        usize::MAX
                    } else {
                        found.rows.len()
                    };
                    found.empty += u64::from(bytes == 0);
                    if bytes > 0 {
                        let (lower, upper, offset) = (at, trace.events.len() as u64, None);
                        found.rows.push(Buffer {
                            key,
                            lower,
                            upper,
                            bytes,
                            align_log2,
                            offset,
                        });
                    }
                    key += 1;
                }
                Event::Attempt { .. } => {
                    found.attempts += 1;
                    key += 1;
                }
                Event::Free { slot, .. } => {
                    if let Some(row) = found.rows.get_mut(holder[slot as usize]) {
                        row.upper = at;
                    }
                }
                _ => found.other += 1,
            }
        }
        found
    }

    /// Whether the trace's own names can stand in the id column: all different, none
    /// in need of quotes.
    fn have_names(&self, trace: &Trace) -> bool {
        let mut seen = HashSet::new();
        self.rows.iter().all(|row| {
            let name = trace.ids.name(row.key as usize);
            !name.contains([',', '"', '\n', '\r']) && name.trim() == name && seen.insert(name)
        })
    }
}

/// Writes the lifetimes of a trace, on the clock of its event numbers, and tells what
/// the format cannot hold.
///
/// # Errors
/// What `out` says.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Vec<Note>> {
    let found = Lifetimes::of(trace);
    let have_names = found.have_names(trace);
    writeln!(out, "id,lower,upper,size,alignment")?;
    for row in &found.rows {
        let name = if have_names {
            trace.ids.name(row.key as usize)
        } else {
            row.key.to_string()
        };
        let Buffer {
            lower,
            upper,
            bytes,
            align_log2,
            ..
        } = row;
        writeln!(out, "{name},{lower},{upper},{bytes},{}", 1u64 << align_log2)?;
    }
    let mut report = super::ImportReport::default();
    report.note(
        found.attempts,
        "requests failed when they were recorded, and are left out",
    );
    report.note(found.empty, "requests of zero bytes are left out");
    report.note(
        found.other,
        "events are no request or free, and are left out",
    );
    Ok(report.notes)
}
