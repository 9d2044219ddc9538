//! The plain csv that a ten-line script writes: `op,id,size` and, where the script knows
//! them, `stream`, `address` and what the allocator said of itself after each call.
//!
//! `op` is `alloc`, `free`, `oom` (a request that failed) or `sync`. Only the first three
//! columns are needed; columns are found by their names.

use std::io::BufRead;

use super::builder::Ask;
use super::keys::Keys;
use super::text::{self, Columns, Lines, Row, Source};
use super::truth::{TruthEntry, TruthKind};
use super::{ANY_STREAM, Event, StreamId, Trace, TraceBuilder, TraceError, Truth};
use crate::units;

/// Columns of recorded facts, by their names.
const FACTS: [(TruthKind, &[&str]); 4] = [
    (TruthKind::UsedAfter, &["used", "used_bytes"]),
    (TruthKind::ReservedAfter, &["reserved", "reserved_bytes"]),
    (
        TruthKind::LargestFreeAfter,
        &["largest_free", "largest_free_bytes"],
    ),
    (
        TruthKind::DeviceFreeAfter,
        &["device_free", "device_free_bytes"],
    ),
];

/// Reads a plain csv.
///
/// # Errors
/// A row that the format does not allow: the error names the line and the value.
pub fn import(input: &mut dyn BufRead, source: &Source) -> Result<Trace, TraceError> {
    let mut lines = Lines::new(input, &source.file);
    let mut text = String::new();
    if !lines.next_row(&mut text, "#")? {
        return Err(lines
            .error("the file is empty")
            .or("expected op,id,size rows"));
    }
    let mut columns = lines.place(Columns::of(&text))?;
    let table = lines.place(Table::of(&mut columns))?;
    let mut reader = Reader {
        builder: TraceBuilder::new(&*source.name),
        keys: Keys::default(),
        facts: Vec::new(),
        rows: 0,
        failures: 0,
    };
    while lines.next_row(&mut text, "#")? {
        let row = Row::split(&text).and_then(|row| reader.row(&row, &table));
        lines.place(row)?;
    }
    Ok(reader.finish(&columns))
}

/// Which cell holds what.
struct Table {
    op: usize,
    id: usize,
    size: usize,
    stream: Option<usize>,
    address: Option<usize>,
    time_ns: Option<usize>,
    time_us: Option<usize>,
    host_us: Option<usize>,
    facts: Vec<(TruthKind, usize)>,
}

impl Table {
    fn of(columns: &mut Columns) -> Result<Self, String> {
        Ok(Table {
            op: columns.need(&["op"])?,
            id: columns.need(&["id"])?,
            size: columns.need(&["size", "bytes"])?,
            stream: columns.find(&["stream"]),
            address: columns.find(&["address", "addr"]),
            time_ns: columns.find(&["time_ns"]),
            time_us: columns.find(&["time_us"]),
            host_us: columns.find(&["host_us"]),
            facts: FACTS
                .iter()
                .filter_map(|(kind, names)| Some((*kind, columns.find(names)?)))
                .collect(),
        })
    }
}

struct Reader {
    builder: TraceBuilder,
    keys: Keys,
    facts: Vec<TruthEntry>,
    rows: u64,
    failures: u64,
}

impl Reader {
    fn row(&mut self, row: &Row<'_>, table: &Table) -> Result<(), String> {
        self.rows += 1;
        if let Some(time_ns) = time(row, table)? {
            self.builder.at(time_ns);
        }
        let stream = self.stream(row, table)?;
        let op = row.get(Some(table.op));
        if &*op == "sync" {
            self.builder.push(Event::Sync {
                stream: stream.unwrap_or(ANY_STREAM),
            });
            return Ok(());
        }
        let id = row.get(Some(table.id));
        let key = self.keys.key(&id)?;
        // The facts of a row belong to the event that it becomes.
        let event = self.builder.len() as u32;
        let address = match row.get(table.address) {
            cell if cell.is_empty() => None,
            cell => Some(text::number(&cell, "address")?),
        };
        match &*op {
            "alloc" | "oom" => {
                let ask = Ask {
                    bytes: text::bytes(&row.get(Some(table.size)), "size")?,
                    stream: self.or_default(stream)?,
                    ..Ask::default()
                };
                if &*op == "oom" {
                    self.failures += 1;
                    self.builder.attempt(key, ask);
                } else {
                    self.builder
                        .alloc(key, ask)
                        .map_err(|_| format!("alloc of id '{id}', which is live already"))?;
                    if let Some(address) = address {
                        self.fact(event, TruthKind::Alloc, ask.stream, address, ask.bytes);
                    }
                }
            }
            "free" => {
                let id = self.keys.stray(key);
                self.builder.free_as(key, id, stream, false);
            }
            other => {
                let other = text::shown(other);
                return Err(format!("op '{other}': expected alloc, free, oom or sync"));
            }
        }
        self.facts_of(row, table, event, stream.unwrap_or(0))
    }

    /// What the allocator said of itself after the call.
    fn facts_of(
        &mut self,
        row: &Row<'_>,
        table: &Table,
        event: u32,
        stream: StreamId,
    ) -> Result<(), String> {
        for (kind, column) in &table.facts {
            let cell = row.get(Some(*column));
            if !cell.is_empty() {
                let bytes = text::bytes(&cell, "recorded bytes")?;
                self.fact(event, *kind, stream, 0, bytes);
            }
        }
        let cell = row.get(table.host_us);
        if !cell.is_empty() {
            self.fact(event, TruthKind::HostNs, stream, 0, micros(&cell)?);
        }
        Ok(())
    }

    fn fact(&mut self, event: u32, kind: TruthKind, stream: StreamId, address: u64, bytes: u64) {
        self.facts.push(TruthEntry {
            event,
            kind,
            stream,
            pool: 0,
            address,
            bytes,
        });
    }

    /// The stream of a row, where it tells one.
    fn stream(&mut self, row: &Row<'_>, table: &Table) -> Result<Option<StreamId>, String> {
        let cell = row.get(table.stream);
        if cell.is_empty() {
            return Ok(None);
        }
        let raw = text::number(&cell, "stream")?;
        let stream = self.builder.try_stream(raw);
        stream
            .map(Some)
            .ok_or_else(|| format!("stream '{cell}': more than 65,534 streams in one trace"))
    }

    fn or_default(&mut self, stream: Option<StreamId>) -> Result<StreamId, String> {
        stream
            .or_else(|| self.builder.try_stream(0))
            .ok_or_else(|| "stream 0: more than 65,534 streams in one trace".to_owned())
    }

    fn finish(self, columns: &Columns) -> Trace {
        let mut trace = self.builder.finish();
        self.keys.rename(&mut trace);
        if !self.facts.is_empty() {
            trace.truth = Some(Box::new(Truth {
                source: "plain".to_owned(),
                entries: self.facts,
                ..Truth::default()
            }));
        }
        trace.report.format = "plain csv".to_owned();
        trace.report.entries = self.rows;
        for column in columns.unread() {
            let what = format!("column '{}' is not carried over", text::shown(column));
            trace.report.note(self.rows, what);
        }
        trace
            .report
            .note(self.failures, "requests failed when they were recorded");
        trace
    }
}

/// The time of a row in ns, where it tells one.
fn time(row: &Row<'_>, table: &Table) -> Result<Option<u64>, String> {
    let cell = row.get(table.time_ns);
    if !cell.is_empty() {
        return text::nanos(&cell).map(Some);
    }
    let cell = row.get(table.time_us);
    if cell.is_empty() {
        return Ok(None);
    }
    micros(&cell).map(Some)
}

/// Microseconds with a fraction, in ns; what is finer than a ns is left out.
fn micros(cell: &str) -> Result<u64, String> {
    let cut = cell
        .find('.')
        .map_or(cell.len(), |point| (point + 4).min(cell.len()));
    let kept = cell.get(..cut).unwrap_or(cell);
    let rest = cell.get(cut..).unwrap_or("");
    if !rest.is_empty() && !text::is_decimal(rest) {
        return Err(format!(
            "time '{}': expected microseconds such as 91.14",
            text::shown(cell)
        ));
    }
    units::parse_nanos(&format!("{kept}us")).map_err(|error| text::shown(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import_text(text: &str) -> Result<Trace, TraceError> {
        import(&mut text.as_bytes(), &Source::named("p.csv"))
    }

    #[test]
    fn columns_are_found_by_name_and_facts_kept_beside_the_events() {
        let trace = import_text(
            "op,id,size,stream,address,used,reserved,largest_free,host_us,extra\n\
             alloc,a,1KiB,0,0x100,1024,2048,,91.14,\n\
             oom,b,5,1,0,,4096,,,\n\
             sync,,,,,,,,,\n\
             free,a,1024,,,,,,2,\n\
             free,a,1024,,,,,,,\n\
             free,c,1024,,,,,,,\n",
        )
        .unwrap();
        assert_eq!(trace.events.len(), 6);
        assert!(matches!(trace.events[0], Event::Alloc { bytes: 1024, .. }));
        assert!(matches!(
            trace.events[1],
            Event::Attempt {
                bytes: 5,
                stream: 1,
                ..
            }
        ));
        assert_eq!(trace.events[2], Event::Sync { stream: ANY_STREAM });
        assert_eq!(trace.events[4], Event::FreeAgain { id: 0 });
        assert_eq!(trace.events[5], Event::FreeUnknown { id: 2 });
        let facts = trace.truth.unwrap().entries;
        let of = |kind| {
            facts
                .iter()
                .filter(|fact| fact.kind == kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(TruthKind::Alloc)[0].address, 0x100);
        assert_eq!(of(TruthKind::ReservedAfter)[1].event, 1);
        assert_eq!(of(TruthKind::HostNs)[0].bytes, 91_140);
        assert!(
            trace
                .report
                .notes
                .iter()
                .any(|note| note.what.contains("'extra'"))
        );
    }

    #[test]
    fn broken_rows_name_line_and_value() {
        for (text, value) in [
            (
                "op,id,size\nalloc,1,5\nalloc,1,5\n",
                "line 3: alloc of id '1'",
            ),
            ("op,id,size\nmalloc,1,5\n", "line 2: op 'malloc'"),
            ("op,id,size\nalloc,1,-5\n", "line 2: size '-5'"),
            ("op,id,size\nalloc,,5\n", "line 2: the row lacks an id"),
            ("op,id,size,host_us\nalloc,1,5,1.2345x\n", "'1.2345x'"),
            (
                "op,id\nalloc,1\n",
                "line 1: the header 'op,id' lacks a column 'size' or 'bytes'",
            ),
        ] {
            let message = import_text(text).unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
        }
    }
}
