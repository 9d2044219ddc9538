//! MiniMalloc's csv: one buffer a row, with its lifetime on a logical clock.
//!
//! `id,lower,upper,size` with half-open lifetimes. `begin` and `start` stand for `lower`;
//! `end` for `upper`, but inclusive, so that 1 is added; `buffer` and `buffer_id` for
//! `id`. At one tick frees come before requests, as half-open lifetimes say.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};

use super::builder::Ask;
use super::text::{self, Columns, Keys, Lines, Row, Source};
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

/// Writes the lifetimes of a trace, on the clock of its event numbers, and tells what
/// the format cannot hold.
///
/// # Errors
/// What `out` says.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Vec<Note>> {
    let mut rows: Vec<Buffer> = Vec::new();
    let mut holder = vec![usize::MAX; trace.slots as usize];
    let (mut ordinal, mut attempts, mut empty) = (0, 0, 0);
    let end = trace.events.len() as u64;
    for (at, event) in trace.events.iter().enumerate() {
        match *event {
            Event::Alloc {
                slot,
                bytes,
                align_log2,
                ..
            } => {
                let key = ordinal;
                ordinal += 1;
                holder[slot as usize] = usize::MAX;
                if bytes == 0 {
                    empty += 1;
                    continue;
                }
                holder[slot as usize] = rows.len();
                let (lower, upper, offset) = (at as u64, end, None);
                rows.push(Buffer {
                    key,
                    lower,
                    upper,
                    bytes,
                    align_log2,
                    offset,
                });
            }
            Event::Attempt { .. } => {
                ordinal += 1;
                attempts += 1;
            }
            Event::Free { slot, .. } => {
                if let Some(row) = rows.get_mut(holder[slot as usize]) {
                    row.upper = at as u64;
                }
            }
            _ => {}
        }
    }
    let mut seen = HashSet::new();
    let is_plain = |name: &String| !name.contains([',', '"', '\n', '\r']);
    let names_differ = rows.iter().all(|row| {
        let name = trace.ids.name(row.key as usize);
        is_plain(&name) && seen.insert(name)
    });
    writeln!(out, "id,lower,upper,size,alignment")?;
    for Buffer {
        key,
        lower,
        upper,
        bytes,
        align_log2,
        ..
    } in &rows
    {
        let name = if names_differ {
            trace.ids.name(*key as usize)
        } else {
            key.to_string()
        };
        writeln!(out, "{name},{lower},{upper},{bytes},{}", 1u64 << align_log2)?;
    }
    let lifetimes = 2 * rows.len() as u64;
    let mut report = super::ImportReport::default();
    report.note(
        attempts,
        "requests failed when they were recorded, and are left out",
    );
    report.note(empty, "requests of zero bytes are left out");
    let other = end.saturating_sub(lifetimes + attempts + 2 * empty);
    report.note(other, "events are no request or free, and are left out");
    Ok(report.notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import_text(text: &str, name: &str) -> Result<Trace, TraceError> {
        import(&mut text.as_bytes(), &Source::named(name))
    }

    fn kinds(trace: &Trace) -> String {
        let letter = |event: &Event| {
            if matches!(event, Event::Alloc { .. }) {
                'a'
            } else {
                'f'
            }
        };
        trace.events.iter().map(letter).collect()
    }

    #[test]
    fn frees_come_before_requests_at_one_tick_and_the_name_tells_the_capacity() {
        let trace = import_text("id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n", "input.12").unwrap();
        assert_eq!(kinds(&trace), "afaf");
        assert_eq!(trace.times_ns, [0, 3, 3, 9]);
        assert_eq!(trace.capacity_bytes, Some(12));
        assert_eq!(
            import_text("id,lower,upper,size\n", "12")
                .unwrap()
                .capacity_bytes,
            None
        );
    }

    #[test]
    fn the_alias_end_is_inclusive_and_what_is_lost_is_told() {
        let trace = import_text(
            "buffer_id,start,end,size,alignment,hint,gaps,offset\n0,0,2,4,48,5,1-2,64\n1,3,3,4,,-1,,\n",
            "a",
        )
        .unwrap();
        assert_eq!(kinds(&trace), "afaf");
        assert_eq!(trace.times_ns, [0, 3, 3, 4]);
        assert!(matches!(
            trace.events[0],
            Event::Alloc { align_log2: 6, .. }
        ));
        assert_eq!(trace.truth.as_ref().unwrap().entries[0].address, 64);
        assert_eq!(trace.report.notes.len(), 4);
    }

    #[test]
    fn broken_rows_name_line_and_value() {
        for (rows, value) in [
            ("0,1,2,3\n0,4,5,6\n", "line 3: id '0' was given in line 2"),
            ("0,5,2,3\n", "line 2: the lifetime 5..2"),
            ("0,-5,2,3\n", "line 2: lower '-5'"),
            ("0,1,2,\n", "line 2: size"),
        ] {
            let text = format!("id,lower,upper,size\n{rows}");
            let message = import_text(&text, "a").unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
        }
        let message = import_text("id,lower,size\n", "a").unwrap_err().to_string();
        assert!(message.contains("'end' or 'upper'"), "{message}");
    }

    #[test]
    fn what_is_written_has_the_same_lifetimes() {
        let text = "id,lower,upper,size,alignment\na,0,2,4,1\nb,1,5,8,256\nc,3,4,8,1\n";
        let trace = import_text(text, "x").unwrap();
        let mut out = Vec::new();
        assert!(write(&trace, &mut out).unwrap().is_empty());
        let again = import_text(std::str::from_utf8(&out).unwrap(), "x").unwrap();
        assert_eq!(again.events, trace.events);
        assert_eq!(again.ids, trace.ids);
    }
}
