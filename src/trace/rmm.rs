//! The log of RMM's `logging_resource_adaptor`: `Thread,Time,Action,Pointer,Size,Stream`.
//!
//! Row order is event order: the log writes an `allocate` after the call below it and a
//! `free` before, so a pointer that is used again shows its free first. What the log
//! cannot say is inferred and told in the report: blocks older than the log, frees that
//! come late or never, and the day, which its clock leaves out.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use super::builder::Ask;
use super::text::{self, Columns, Lines, Row, Source};
use super::truth::{TruthEntry, TruthKind};
use super::{StreamId, Trace, TraceBuilder, TraceError, Truth};

/// What a row says was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Allocate,
    Failure,
    Free,
}

/// A row of the log.
#[derive(Debug, Clone, Copy)]
struct Entry {
    action: Action,
    pointer: u64,
    bytes: u64,
    stream: StreamId,
    time_ns: u64,
}

/// Reads a log.
///
/// # Errors
/// A row that the format does not allow: the error names the line and the value.
pub fn import(input: &mut dyn BufRead, source: &Source) -> Result<Trace, TraceError> {
    let mut builder = TraceBuilder::new(&*source.name);
    let mut log = Log::default();
    let mut lines = Lines::new(input, &source.file);
    read(&mut lines, &mut log, &mut builder)?;
    let initial = older_than_log(&log.entries);
    let mut replay = Replay {
        builder,
        truth: Vec::new(),
        owed: HashMap::new(),
        lost: 0,
        late: 0,
        null: 0,
    };
    for entry in &initial {
        replay.allocate(entry);
    }
    replay.builder.initial_done();
    for entry in &log.entries {
        replay.builder.at(entry.time_ns);
        match entry.action {
            Action::Allocate => replay.allocate(entry),
            Action::Free => replay.free(entry),
            Action::Failure => replay.builder.attempt(entry.pointer, ask(entry)),
        }
    }
    Ok(replay.finish(&log, initial.len() as u64, &source.name))
}

/// The rows, and what their clock needed.
#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    threads: HashSet<u64>,
    clock: Clock,
}

fn read(
    lines: &mut Lines<'_>,
    log: &mut Log,
    builder: &mut TraceBuilder,
) -> Result<(), TraceError> {
    let mut text = String::new();
    if !lines.next_row(&mut text, "")? {
        return Err(lines.error("the file is empty").or("expected an RMM log"));
    }
    let mut columns = lines.place(Columns::of(&text))?;
    let names = ["thread", "time", "action", "pointer", "size", "stream"];
    let mut at = [0; 6];
    for (at, name) in at.iter_mut().zip(names) {
        *at = lines.place(columns.need(&[name]))?;
    }
    while lines.next_row(&mut text, "")? {
        let entry = Row::split(&text).and_then(|row| entry(&row, at, log, builder));
        let entry = lines.place(entry)?;
        log.entries.push(entry);
    }
    Ok(())
}

/// Reads one row.
fn entry(
    row: &Row<'_>,
    at: [usize; 6],
    log: &mut Log,
    builder: &mut TraceBuilder,
) -> Result<Entry, String> {
    let cell = |column: usize| row.get(Some(at[column]));
    log.threads.insert(text::number(&cell(0), "thread")?);
    let action = match &*cell(2) {
        "allocate" => Action::Allocate,
        "allocate failure" => Action::Failure,
        "free" => Action::Free,
        other => {
            let other = text::shown(other);
            return Err(format!(
                "action '{other}': expected allocate, allocate failure or free"
            ));
        }
    };
    let stream = pointer(&cell(5), "stream")?;
    let too_many = || format!("stream {stream}: more than 65,534 streams in one trace");
    Ok(Entry {
        action,
        pointer: pointer(&cell(3), "pointer")?,
        bytes: text::bytes(&cell(4), "size")?,
        stream: builder.try_stream(stream).ok_or_else(too_many)?,
        time_ns: log.clock.read(&cell(1))?,
    })
}

/// A pointer as `%p` prints it in any library: `0x...`, bare digits, or `(nil)`.
/// Bare digits are hexadecimal in the pointer column, as RMM's own parser takes them,
/// and decimal in the stream column, where older logs wrote plain integers.
fn pointer(cell: &str, what: &str) -> Result<u64, String> {
    match cell {
        "(nil)" | "nullptr" => Ok(0),
        _ if what == "pointer" && text::is_hex(cell) => text::number(&format!("0x{cell}"), what),
        _ => text::number(cell, what),
    }
}

/// A wall clock without a date.
#[derive(Default)]
struct Clock {
    first_ns: Option<u64>,
    day_ns: u64,
    last_ns: u64,
    days: u64,
    backwards: u64,
}

const DAY_NS: u64 = 86_400_000_000_000;

impl Clock {
    /// The time of a row in ns since the first one. A step back of more than half a day
    /// is midnight; a smaller one is another thread's delay, and the time stands still.
    fn read(&mut self, cell: &str) -> Result<u64, String> {
        let clock_ns = time_of_day(cell).ok_or_else(|| {
            let cell = text::shown(cell);
            format!("time '{cell}': expected HH:MM:SS.ffffff")
        })?;
        let first_ns = *self.first_ns.get_or_insert(clock_ns);
        let mut now_ns = self.day_ns + clock_ns;
        if now_ns + DAY_NS / 2 < first_ns + self.last_ns {
            self.day_ns += DAY_NS;
            self.days += 1;
            now_ns += DAY_NS;
        }
        let since_ns = now_ns.saturating_sub(first_ns);
        if since_ns < self.last_ns || now_ns < first_ns {
            self.backwards += 1;
        }
        self.last_ns = self.last_ns.max(since_ns);
        Ok(self.last_ns)
    }
}

/// `HH:MM:SS`, and a fraction after a point or (in older logs) a colon, in ns.
fn time_of_day(cell: &str) -> Option<u64> {
    let mut parts = cell.splitn(3, ':');
    let hours = digits(parts.next()?, 24)?;
    let minutes = digits(parts.next()?, 60)?;
    let rest = parts.next()?;
    let (seconds, fraction) = rest.split_once(['.', ':']).unwrap_or((rest, "0"));
    let seconds = digits(seconds, 61)?;
    if !text::is_decimal(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let nanos = fraction.parse::<u64>().ok()? * scale;
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos)
}

fn digits(text: &str, below: u64) -> Option<u64> {
    let value = text.parse().ok().filter(|_| text::is_decimal(text))?;
    (value < below).then_some(value)
}

/// Blocks that are freed before the log shows any request at their pointer: they were
/// there before it began, with the size that the free tells.
fn older_than_log(entries: &[Entry]) -> Vec<Entry> {
    let mut seen = HashSet::new();
    let mut older = Vec::new();
    for entry in entries {
        let is_new = entry.action != Action::Failure && seen.insert(entry.pointer);
        if is_new && entry.action == Action::Free && entry.pointer != 0 {
            older.push(Entry {
                time_ns: 0,
                ..*entry
            });
        }
    }
    older
}

fn ask(entry: &Entry) -> Ask {
    Ask {
        bytes: entry.bytes,
        stream: entry.stream,
        ..Ask::default()
    }
}

/// The trace so far, and what was inferred on the way.
struct Replay {
    builder: TraceBuilder,
    truth: Vec<TruthEntry>,
    /// Size of the block whose free was inferred and may still come.
    owed: HashMap<u64, u64>,
    lost: u64,
    late: u64,
    null: u64,
}

impl Replay {
    fn allocate(&mut self, entry: &Entry) {
        let pointer = entry.pointer;
        if pointer == 0 {
            // Requests of zero bytes all get the null pointer and hold nothing.
            if self.builder.is_live(0) {
                self.null += 1;
                self.builder.free(0, None, false);
            }
        } else if let Some(bytes) = self.live_bytes(pointer) {
            self.lost += 1;
            self.owed.insert(pointer, bytes);
            self.builder.free(pointer, None, false);
        }
        if pointer != 0 {
            self.truth.push(TruthEntry {
                event: self.builder.len() as u32,
                kind: TruthKind::Alloc,
                stream: entry.stream,
                pool: 0,
                address: pointer,
                bytes: entry.bytes,
            });
        }
        self.builder
            .alloc(pointer, ask(entry))
            .expect("a live pointer was freed just above");
    }

    fn free(&mut self, entry: &Entry) {
        let pointer = entry.pointer;
        let live = self.live_bytes(pointer);
        if pointer == 0 && live.is_none() {
            self.null += 1;
            return;
        }
        // A free that was inferred may stand further down: it is the one whose size is
        // that of the lost block, or that finds nothing live.
        let is_late = match (self.owed.get(&pointer), live) {
            (Some(owed), Some(live)) => entry.bytes == *owed && entry.bytes != live,
            (owed, None) => owed.is_some(),
            _ => false,
        };
        if is_late {
            self.owed.remove(&pointer);
            self.late += 1;
            return;
        }
        self.builder.free(pointer, Some(entry.stream), false);
    }

    /// The size of the live block at a pointer.
    fn live_bytes(&self, pointer: u64) -> Option<u64> {
        self.builder
            .is_live(pointer)
            .then(|| self.builder.bytes(pointer))
    }

    fn finish(self, log: &Log, initial: u64, name: &str) -> Trace {
        let mut trace = self.builder.finish();
        trace.device = device_of(name);
        trace.truth = Some(Box::new(Truth {
            source: "rmm".to_owned(),
            entries: self.truth,
            ..Truth::default()
        }));
        let report = &mut trace.report;
        report.format = "RMM log".to_owned();
        report.entries = log.entries.len() as u64;
        let failures = log
            .entries
            .iter()
            .filter(|entry| entry.action == Action::Failure);
        report.note(
            initial,
            "blocks are older than the log: their request is inferred from their free and put before the first row",
        );
        report.note(
            self.lost,
            "pointers came again while live: the free in between is missing or late, and is inferred at the new request",
        );
        report.note(
            self.late,
            "frees came after the pointer was in use again, and are left out",
        );
        report.note(
            self.null,
            "null pointers of empty requests carry nothing: their frees are inferred or left out",
        );
        report.note(
            failures.count() as u64,
            "requests failed when they were recorded",
        );
        report.note(log.clock.days, "midnights passed: the clock has no date");
        report.note(
            log.clock.backwards,
            "times lie before the row above (another thread's): they are taken as its time",
        );
        if log.threads.len() > 1 {
            report.note(
                log.threads.len() as u64,
                "threads wrote the log: their rows are taken in the order of the file",
            );
        }
        trace
    }
}

/// The device in a name such as `run.dev1`, which is how RMM names its logs; else 0.
fn device_of(name: &str) -> u32 {
    name.rsplit('.')
        .find_map(|part| part.strip_prefix("dev")?.parse().ok())
        .unwrap_or(0)
}
