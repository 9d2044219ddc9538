//! An explanation in words.

use super::findings::{held, in_the_way, leaks, remedies, why};
use crate::cli::load::counted;
use crate::cli::output::Output;
use crate::cli::table::{Cell, Column, Table};
use crate::explain::words::size;
use crate::explain::{Asked, At, Basis, Explanation, Memory, SegmentSums, Share, Sums, Why};
use crate::units::{format_bytes, format_count, format_nanos, format_ppm};

/// Frames of a stack that are shown line by line.
const FRAMES: usize = 8;

/// All lines.
pub(super) fn lines(it: &Explanation, output: &Output) -> Vec<String> {
    let mut page = Page {
        lines: Vec::new(),
        columns: output.columns,
        colour: output.colour,
    };
    heading(it, &mut page);
    request(it, &mut page);
    memory(&it.memory, it.capacity_bytes, &mut page);
    why(it, &mut page);
    if let Some(blockers) = &it.blockers {
        in_the_way(blockers, &mut page);
    }
    held(it, &mut page);
    leaks(&it.leaks, &mut page);
    remedies(it, &mut page);
    page.part("What to do");
    page.say(&it.advice);
    page.lines
}

/// Lines so far, and how they are set.
pub(super) struct Page {
    lines: Vec<String>,
    columns: usize,
    colour: bool,
}

impl Page {
    /// A part begins.
    pub(super) fn part(&mut self, title: &str) {
        self.lines.push(String::new());
        self.lines.push(title.to_owned());
    }

    /// A sentence, broken between words where it is too long.
    pub(super) fn say(&mut self, text: &str) {
        let mut line = String::from(" ");
        for word in text.split(' ') {
            let long = line.chars().count() + 1 + word.chars().count() > self.columns;
            if long && line.trim() != "" {
                self.lines.push(std::mem::replace(&mut line, "   ".into()));
            }
            line.push(' ');
            line.push_str(word);
        }
        self.lines.push(line);
    }

    pub(super) fn table(&mut self, table: &Table) {
        let (lines, _) = table.lines(self.columns - 2, self.colour);
        self.lines
            .extend(lines.iter().map(|line| format!("  {line}")));
    }
}

fn heading(it: &Explanation, page: &mut Page) {
    page.lines.push(format!(
        "{}: {} events, policy {}",
        it.trace,
        format_count(it.events),
        it.policy
    ));
    page.lines.push(format!(
        "capacity {}: {}; card {}",
        size(it.capacity_bytes),
        it.capacity_from,
        it.card
    ));
    page.lines.push(match &it.basis {
        Basis::Replayed => "replayed from an empty card".into(),
        Basis::Recorded {
            addresses,
            addresses_matched,
            first_divergence: None,
        } => format!(
            "rebuilt at recorded addresses: the model meets {} of {} and everything else that \
             was recorded",
            format_count(*addresses_matched),
            format_count(*addresses),
        ),
        Basis::Recorded {
            addresses,
            addresses_matched,
            first_divergence: Some(what),
        } => format!(
            "rebuilt at recorded addresses: the model meets {} of {}; it first differs at {what}",
            format_count(*addresses_matched),
            format_count(*addresses),
        ),
    });
}

fn request(it: &Explanation, page: &mut Page) {
    page.part("What was asked");
    let At { event, time_ns, .. } = it.moment;
    let when = if it.has_times {
        format!(", {} after the start", format_nanos(time_ns))
    } else {
        String::new()
    };
    page.say(&format!(
        "event {} of {}{when}: {}",
        format_count(event),
        format_count(it.events),
        because(&it.moment)
    ));
    let Some(asked) = &it.asked else {
        page.say("the event asks for no memory");
        return;
    };
    page.say(&asked_for(asked));
    stack(asked.stack.as_deref(), page);
}

/// Why this moment.
fn because(moment: &At) -> String {
    let more = moment.failed_events.iter();
    let more: Vec<String> = more
        .filter(|event| **event != moment.event)
        .take(6)
        .map(|event| event.to_string())
        .collect();
    let count = counted(moment.failures as usize, "request");
    let others = match (&more[..], moment.failures) {
        ([], _) => String::new(),
        (shown, all) => {
            let rest = if all as usize > shown.len() + 1 {
                ", ..."
            } else {
                ""
            };
            format!(" (others: {}{rest})", shown.join(", "))
        }
    };
    match moment.why {
        Why::Asked if moment.failures == 0 => "as asked; nothing fails in this replay".into(),
        Why::Asked => format!("as asked; {count} failed in this replay{others}"),
        Why::RecordedFailure if moment.failures == 1 => {
            "the only request that failed, as when it was recorded".into()
        }
        Why::RecordedFailure => {
            format!("the first that failed when it was recorded, of {count} that fail{others}")
        }
        Why::FirstFailure if moment.failures == 1 => "the only request that failed".into(),
        Why::FirstFailure => format!("the first of {count} that failed{others}"),
        Why::WorstFragmentation => {
            "nothing failed; here external fragmentation was the worst".into()
        }
    }
}

fn asked_for(asked: &Asked) -> String {
    let rounded = match asked.rounded_bytes {
        None => ", more than 64 bits hold once it is rounded".to_owned(),
        Some(rounded) if rounded == asked.bytes => String::new(),
        Some(rounded) => format!(", rounded to {}", size(rounded)),
    };
    let aligned = match asked.align_bytes {
        0 | 1 => String::new(),
        align => format!(", aligned to {}", size(align)),
    };
    let name = asked.id.as_deref().map(clean);
    let name = name.map_or(String::new(), |name| format!(" for '{name}'"));
    let served = if asked.served { "served" } else { "not served" };
    format!(
        "{}{rounded}{aligned}{name} on stream {}, pool {}: {served}",
        size(asked.bytes),
        asked.stream,
        asked.pool
    )
}

/// A stack, a frame a line.
pub(super) fn stack(stack: Option<&str>, page: &mut Page) {
    let Some(stack) = stack else {
        return;
    };
    for (depth, frame) in stack.split(" < ").take(FRAMES).enumerate() {
        let lead = if depth == 0 { "at" } else { "in" };
        page.lines.push(format!("    {lead} {}", clean(frame)));
    }
}

/// Text of a trace without letters that a terminal would obey.
pub(super) fn clean(text: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    text.chars().map(shown).collect()
}

fn memory(memory: &Memory, capacity_bytes: u64, page: &mut Page) {
    page.part("What lay where, right after it");
    let total = &memory.total;
    let mut table = Table::new(vec![
        Column::words("figure", 0),
        Column::number("", 0),
        Column::number("bytes", 0),
    ]);
    for (what, bytes) in [
        ("requested by live allocations", total.requested_bytes),
        ("occupied by their blocks", total.occupied_bytes),
        (
            "pending: freed, a stream may still use it",
            total.pending_bytes,
        ),
        (
            "retired: not to be used before a reset",
            total.retired_bytes,
        ),
        ("free in what is reserved", total.free_bytes),
        ("largest free block", total.largest_free_bytes),
        ("reserved", total.reserved_bytes),
        ("room that the driver still has", memory.room_bytes),
        ("capacity", capacity_bytes),
    ] {
        let optional = what.starts_with("pending") || what.starts_with("retired");
        if bytes > 0 || !optional {
            let exact = format_count(bytes);
            table.row(vec![what.into(), format_bytes(bytes).into(), exact.into()]);
        }
    }
    page.table(&table);
    let part = |ppm: Option<u64>| ppm.map_or_else(|| "-".into(), format_ppm);
    page.say(&format!(
        "{} live; external fragmentation {}, internal {}, utilisation {}",
        counted(total.live as usize, "block"),
        part(memory.external_fragmentation_ppm),
        part(memory.internal_fragmentation_ppm),
        format_ppm(memory.utilisation_ppm)
    ));
    shares("stream", &memory.by_stream, page);
    shares("pool", &memory.by_pool, page);
    segments(memory, page);
}

/// Columns of sums behind a first one.
fn sum_columns(first: &'static str) -> Vec<Column> {
    vec![
        Column::words(first, 0),
        Column::number("live", 2),
        Column::number("requested", 1),
        Column::number("occupied", 2),
        Column::number("reserved", 1),
        Column::number("free", 0),
        Column::number("largest", 0),
    ]
}

fn sum_cells(first: String, sums: &Sums) -> Vec<Cell> {
    vec![
        first.into(),
        format_count(sums.live).into(),
        format_bytes(sums.requested_bytes).into(),
        format_bytes(sums.occupied_bytes).into(),
        format_bytes(sums.reserved_bytes).into(),
        format_bytes(sums.free_bytes).into(),
        format_bytes(sums.largest_free_bytes).into(),
    ]
}

/// A table of streams or pools, where there are several.
fn shares(what: &'static str, shares: &[Share], page: &mut Page) {
    if shares.len() < 2 {
        return;
    }
    let mut table = Table::new(sum_columns(if what == "pool" { "pool" } else { "stream" }));
    for share in shares {
        let name = share
            .number
            .map_or_else(|| "shared".into(), |number| number.to_string());
        table.row(sum_cells(name, &share.sums));
    }
    page.lines.push(String::new());
    page.table(&table);
}

fn segments(memory: &Memory, page: &mut Page) {
    if memory.segments.is_empty() {
        return;
    }
    let mut table = Table::new(vec![
        Column::words("segment", 0),
        Column::number("bytes", 0),
        Column::number("live", 3),
        Column::number("free", 0),
        Column::number("largest", 1),
        Column::words("its addresses", 0),
    ]);
    for segment in &memory.segments {
        table.row(segment_cells(segment));
    }
    if memory.other_segments > 0 {
        let others = &memory.others;
        table.row(vec![
            format!("{} more", format_count(memory.other_segments)).into(),
            format_bytes(others.reserved_bytes).into(),
            format_count(others.live).into(),
            format_bytes(others.free_bytes).into(),
            format_bytes(others.largest_free_bytes).into(),
        ]);
    }
    page.lines.push(String::new());
    page.table(&table);
    page.say("# used, + half of it or more, - less, . free, p pending or retired, _ not mapped");
}

fn segment_cells(segment: &SegmentSums) -> Vec<Cell> {
    vec![
        format!("0x{:x}", segment.address).into(),
        format_bytes(segment.bytes).into(),
        format_count(segment.sums.live).into(),
        format_bytes(segment.sums.free_bytes).into(),
        format_bytes(segment.sums.largest_free_bytes).into(),
        segment.map.clone().into(),
    ]
}
