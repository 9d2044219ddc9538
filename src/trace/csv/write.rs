//! Writes the native text format.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use super::super::text::Keys;
use super::super::{ANY_STREAM, Event, Ids, PoolStep, StreamId, Trace};
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
    if let Some(bytes) = trace.capacity_bytes {
        writeln!(out, "# capacity {bytes}")?;
    }
    if trace.device != 0 {
        writeln!(out, "# device {}", trace.device)?;
    }
    writeln!(out, "{COLUMNS}")?;
    let ordinal = Ids::Ordinal;
    let ids = if names_are_clear(trace) {
        &trace.ids
    } else {
        &ordinal
    };
    let mut names = Names::new(trace, ids);
    for (at, event) in trace.events.iter().enumerate() {
        if at == trace.initial_events && at > 0 {
            writeln!(out, "# {INITIAL_ENDS}")?;
        }
        let mut cells = cells(trace, event, &mut names);
        if trace.has_times() {
            cells.time = trace.time_ns(at).to_string();
        }
        cells.write(out)?;
    }
    if trace.initial_events == trace.events.len() && trace.initial_events > 0 {
        writeln!(out, "# {INITIAL_ENDS}")?;
    }
    Ok(())
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

/// The cells of an event, without its time.
fn cells(trace: &Trace, event: &Event, names: &mut Names<'_>) -> Cells {
    let mut cells = Cells::default();
    let stream_of = |stream: StreamId| match stream {
        ANY_STREAM => String::new(),
        stream => trace.streams[usize::from(stream)].to_string(),
    };
    let pool_of = |pool: u16| match trace.pools[usize::from(pool)] {
        (0, 0) => String::new(),
        (0, low) => low.to_string(),
        (high, low) => format!("{high}:{low}"),
    };
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
            (cells.event, cells.id) = names.request(event);
            cells.bytes = bytes.to_string();
            cells.stream = Some(stream_of(stream))
                .filter(|raw| raw != "0")
                .unwrap_or_default();
            cells.align = if align_log2 == 0 {
                String::new()
            } else {
                (1u64 << align_log2).to_string()
            };
            cells.pool = pool_of(pool);
            cells.tag = trace.tags.get(tag as usize).cloned().unwrap_or_default();
        }
        Event::Free {
            slot,
            stream,
            deferred,
        } => {
            cells.event = if deferred { "free_deferred" } else { "free" };
            cells.id = names.of(slot);
            if names.held[slot as usize].1 != stream {
                cells.stream = stream_of(stream);
            }
        }
        Event::FreeAgain { id } => (cells.event, cells.id) = ("free_again", id.to_string()),
        Event::FreeUnknown { id } => (cells.event, cells.id) = ("free_unknown", id.to_string()),
        Event::FreeAt { address } => (cells.event, cells.id) = ("free_at", address.to_string()),
        Event::Use { slot, stream } => {
            (cells.event, cells.id, cells.stream) = ("use", names.of(slot), stream_of(stream));
        }
        Event::Record { stream, event } => {
            (cells.event, cells.id, cells.stream) =
                ("record", event.to_string(), stream_of(stream));
        }
        Event::Wait { stream, event } => {
            (cells.event, cells.id, cells.stream) = ("wait", event.to_string(), stream_of(stream));
        }
        Event::Sync { stream } => (cells.event, cells.stream) = ("sync", stream_of(stream)),
        Event::Complete { slot } => (cells.event, cells.id) = ("complete", names.of(slot)),
        Event::Pin { slot } => (cells.event, cells.id) = ("pin", names.of(slot)),
        Event::Unpin { slot } => (cells.event, cells.id) = ("unpin", names.of(slot)),
        Event::Compact => cells.event = "compact",
        Event::Trim => cells.event = "trim",
        Event::Pool { step, pool, stream } => {
            cells.event = match step {
                PoolStep::Begin => "pool_begin",
                PoolStep::End => "pool_end",
                PoolStep::Release => "pool_release",
            };
            (cells.pool, cells.stream) = (pool_of(pool), stream_of(stream));
        }
        Event::Mark { label } => {
            (cells.event, cells.id) = ("mark", trace.labels[label as usize].clone());
        }
    }
    cells
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
