//! Writes the native text format.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use super::super::keys::Keys;
use super::super::{ANY_STREAM, Event, Ids, PoolId, PoolStep, StreamId, Trace};
use super::{COLUMNS, INITIAL_ENDS};

/// Writes the events, ids, times, tags, capacity and initial state of a trace. Its
/// report and recorded truth stay behind: `.vlt` carries those.
///
/// Allocations are named as the trace names them, or by their number where two that
/// are held at once have the same name.
///
/// # Errors
/// What `out` says.
pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let ids = if names_are_clear(trace) {
        &trace.ids
    } else {
        &Ids::Ordinal
    };
    let mut writer = CsvWriter::with_ids(out, trace, ids, trace.has_times())?;
    for (at, event) in trace.events.iter().enumerate() {
        writer.push(event, trace.time_ns(at))?;
    }
    if trace.initial_events == trace.events.len() {
        writer.initial_ends()?;
    }
    Ok(())
}

/// Writes a trace event by event, for generators that never hold one whole.
pub struct CsvWriter<'a> {
    out: &'a mut dyn Write,
    trace: &'a Trace,
    names: Names<'a>,
    timed: bool,
    events: usize,
}

impl<'a> CsvWriter<'a> {
    /// Begins a trace whose allocations are named by their numbers. All of `trace` is
    /// asked but its events: also what only its end tells, slots and tags.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: &'a mut dyn Write, trace: &'a Trace, timed: bool) -> io::Result<Self> {
        Self::with_ids(out, trace, &Ids::Ordinal, timed)
    }

    fn with_ids(
        out: &'a mut dyn Write,
        trace: &'a Trace,
        ids: &'a Ids,
        timed: bool,
    ) -> io::Result<Self> {
        if let Some(bytes) = trace.capacity_bytes {
            writeln!(out, "# capacity {bytes}")?;
        }
        if trace.device != 0 {
            writeln!(out, "# device {}", trace.device)?;
        }
        writeln!(out, "{COLUMNS}")?;
        Ok(CsvWriter {
            out,
            trace,
            names: Names::new(trace, ids),
            timed,
            events: 0,
        })
    }

    /// Adds an event; `time_ns` is left out where the trace has no times.
    ///
    /// # Errors
    /// What the file says.
    ///
    /// # Panics
    /// At an event that names what the trace's tables do not hold.
    pub fn push(&mut self, event: &Event, time_ns: u64) -> io::Result<()> {
        if self.events == self.trace.initial_events {
            self.initial_ends()?;
        }
        self.events += 1;
        let mut cells = cells(self.trace, event, &mut self.names);
        if self.timed {
            cells.time = time_ns.to_string();
        }
        cells.write(self.out)
    }

    /// Says that what came before rebuilds the start; nothing where nothing does.
    fn initial_ends(&mut self) -> io::Result<()> {
        if self.events > 0 {
            writeln!(self.out, "# {INITIAL_ENDS}")?;
        }
        Ok(())
    }
}

/// One row before it is written.
#[derive(Default)]
struct Cells {
    event: &'static str,
    id: String,
    bytes: String,
    stream: String,
    time: String,
    align: String,
    pool: String,
    tag: String,
}

impl Cells {
    /// Writes the cells without the empty ones at the end.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let cells = [
            self.event,
            &quoted(&self.id),
            &self.bytes,
            &self.stream,
            &self.time,
            &self.align,
            &self.pool,
            &quoted(&self.tag),
        ];
        let used = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        writeln!(out, "{}", cells[..=used].join(","))
    }
}

/// The raw handle of a stream; nothing where any is meant.
fn stream_of(trace: &Trace, stream: StreamId) -> String {
    match stream {
        ANY_STREAM => String::new(),
        stream => trace.streams[usize::from(stream)].to_string(),
    }
}

/// The raw id of a pool; nothing for the default one.
fn pool_of(trace: &Trace, pool: PoolId) -> String {
    match trace.pools[usize::from(pool)] {
        (0, 0) => String::new(),
        (0, low) => low.to_string(),
        (high, low) => format!("{high}:{low}"),
    }
}

/// The cells of an event, without its time.
fn cells(trace: &Trace, event: &Event, names: &mut Names<'_>) -> Cells {
    match *event {
        Event::Alloc {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
            ..
        }
        | Event::Attempt {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
        } => {
            let (word, id) = names.request(event);
            let align = (align_log2 > 0).then(|| (1u64 << align_log2).to_string());
            let stream = stream_of(trace, stream);
            Cells {
                event: word,
                id,
                bytes: bytes.to_string(),
                stream: Some(stream).filter(|raw| raw != "0").unwrap_or_default(),
                align: align.unwrap_or_default(),
                pool: pool_of(trace, pool),
                tag: trace.tags.get(tag as usize).cloned().unwrap_or_default(),
                ..Cells::default()
            }
        }
        Event::Free {
            slot,
            stream,
            deferred,
        } => Cells {
            event: if deferred { "free_deferred" } else { "free" },
            id: names.of(slot),
            stream: if names.held[slot as usize].1 == stream {
                String::new()
            } else {
                stream_of(trace, stream)
            },
            ..Cells::default()
        },
        Event::Pool { step, pool, stream } => Cells {
            event: match step {
                PoolStep::Begin => "pool_begin",
                PoolStep::End => "pool_end",
                PoolStep::Release => "pool_release",
            },
            pool: pool_of(trace, pool),
            stream: stream_of(trace, stream),
            ..Cells::default()
        },
        _ => {
            let (event, id, stream) = word_id_stream(trace, event, names);
            let stream = stream
                .map(|stream| stream_of(trace, stream))
                .unwrap_or_default();
            Cells {
                event,
                id,
                stream,
                ..Cells::default()
            }
        }
    }
}

/// The events that need no more than an id and a stream.
fn word_id_stream(
    trace: &Trace,
    event: &Event,
    names: &Names<'_>,
) -> (&'static str, String, Option<StreamId>) {
    match *event {
        Event::FreeAgain { id } => ("free_again", id.to_string(), None),
        Event::FreeUnknown { id } => ("free_unknown", id.to_string(), None),
        Event::FreeAt { address } => ("free_at", address.to_string(), None),
        Event::Use { slot, stream } => ("use", names.of(slot), Some(stream)),
        Event::Record { stream, event } => ("record", event.to_string(), Some(stream)),
        Event::Wait { stream, event } => ("wait", event.to_string(), Some(stream)),
        Event::Sync { stream } => ("sync", String::new(), Some(stream)),
        Event::Complete { slot } => ("complete", names.of(slot), None),
        Event::Pin { slot } => ("pin", names.of(slot), None),
        Event::Unpin { slot } => ("unpin", names.of(slot), None),
        Event::Compact => ("compact", String::new(), None),
        Event::Trim => ("trim", String::new(), None),
        Event::Mark { label } => ("mark", trace.labels[label as usize].clone(), None),
        Event::Alloc { .. } | Event::Attempt { .. } | Event::Free { .. } | Event::Pool { .. } => {
            unreachable!("written by cells")
        }
    }
}

/// What each slot is called while it is held, and the stream of its request.
struct Names<'a> {
    ids: &'a Ids,
    requests: usize,
    held: Vec<(usize, StreamId)>,
}

impl<'a> Names<'a> {
    fn new(trace: &Trace, ids: &'a Ids) -> Self {
        Names {
            ids,
            requests: 0,
            held: vec![(0, 0); trace.slots as usize],
        }
    }

    /// The word and the name of a request, which the slot keeps.
    fn request(&mut self, event: &Event) -> (&'static str, String) {
        let ordinal = self.requests;
        self.requests += 1;
        let word = match *event {
            Event::Alloc { slot, stream, .. } => {
                self.held[slot as usize] = (ordinal, stream);
                "alloc"
            }
            _ => "attempt",
        };
        (word, self.ids.name(ordinal))
    }

    fn of(&self, slot: u32) -> String {
        self.ids.name(self.held[slot as usize].0)
    }
}

/// Whether no two allocations that are held at once have the same name, and no name
/// would be read as another.
fn names_are_clear(trace: &Trace) -> bool {
    let mut keys = Keys::default();
    let mut key_of_slot = vec![0; trace.slots as usize];
    let mut held = HashSet::new();
    let mut requests = 0;
    for event in &trace.events {
        match *event {
            Event::Alloc { slot, .. } => {
                let name = trace.ids.name(requests);
                requests += 1;
                let Ok(key) = keys.key(name.trim()) else {
                    return false;
                };
                if name.trim().len() != name.len() || !held.insert(key) {
                    return false;
                }
                key_of_slot[slot as usize] = key;
            }
            Event::Attempt { .. } => {
                let name = trace.ids.name(requests);
                requests += 1;
                if name.is_empty() || name.trim().len() != name.len() {
                    return false;
                }
            }
            Event::Free {
                slot,
                deferred: false,
                ..
            }
            | Event::Complete { slot } => {
                held.remove(&key_of_slot[slot as usize]);
            }
            _ => {}
        }
    }
    true
}

/// A cell as a reader of rows takes it: line ends and backslashes escaped, and quoted
/// where a comma, a quote or an outer space would be taken for the table's own.
fn quoted(cell: &str) -> Cow<'_, str> {
    let escaped: Cow<'_, str> = if cell.contains(['\\', '\n', '\r']) {
        let lines = cell.replace('\\', "\\\\").replace('\n', "\\n");
        lines.replace('\r', "\\r").into()
    } else {
        cell.into()
    };
    if escaped.contains([',', '"']) || escaped.trim().len() != escaped.len() {
        format!("\"{}\"", escaped.replace('"', "\"\"")).into()
    } else {
        escaped
    }
}
