//! Stripped PyTorch snapshots: `NAME.events.csv` with the entries and `NAME.final.csv`
//! with the segments and blocks at the end.
//!
//! Columns of the first: `op,addr,size,stream`, where `op` is `A` (alloc), `R`
//! (free_requested), `F` (free_completed) or `S` (segment_alloc). Columns of the second:
//! `kind,addr,size,requested,pool,stream,state`, where a `segment` row comes before the
//! `block` rows of its blocks, `pool` is `small` or `large`, and `state` is as in a
//! snapshot. Both read into a [`Snapshot`], so that they take the same way as a pickle.

use crate::trace::TraceError;
use crate::trace::snapshot::{Action, Block, BlockState, Entry, Segment, Snapshot};

/// The header of the entries, by which the format is known.
pub const EVENTS_HEADER: &str = "op,addr,size,stream";
/// The header of the final segments.
pub const FINAL_HEADER: &str = "kind,addr,size,requested,pool,stream,state";

/// Whether `text` begins as a stripped snapshot's entries do.
#[must_use]
pub fn looks_stripped(text: &str) -> bool {
    text.lines()
        .next()
        .is_some_and(|line| line.trim_end() == EVENTS_HEADER)
}

/// Reads both files, each named with its text; without the second, the end is unknown
/// and nothing before the first entry can be rebuilt.
///
/// # Errors
/// [`TraceError`] with the line: a wrong header, a row with too few fields, a word or a
/// number that cannot be read, or a block outside its segment.
pub fn read(events: (&str, &str), last: Option<(&str, &str)>) -> Result<Snapshot, TraceError> {
    let (file, text) = events;
    let mut entries = Vec::new();
    for row in rows(file, text, EVENTS_HEADER)? {
        entries.push(entry(&row)?);
    }
    let mut segments = Vec::new();
    if let Some((file, text)) = last {
        for row in rows(file, text, FINAL_HEADER)? {
            add_state(&row, &mut segments)?;
        }
    }
    let mut snapshot = Snapshot {
        segments,
        device_traces: vec![entries],
        ..Snapshot::default()
    };
    if last.is_none() {
        let missing = "the file with the final segments is missing: blocks live at the end and before the first entry are unknown";
        snapshot.notes.push(missing.to_owned());
    }
    Ok(snapshot)
}

/// A row with its place.
struct Row<'a> {
    file: &'a str,
    line: u64,
    fields: Vec<&'a str>,
}

/// The rows below the header, each with as many fields as the header.
fn rows<'a>(file: &'a str, text: &'a str, header: &str) -> Result<Vec<Row<'a>>, TraceError> {
    let mut lines = text.lines().zip(1u64..);
    let found = lines.next().map_or("", |(line, _)| line.trim_end());
    if found != header {
        let what = format!("header '{found}'");
        return Err(TraceError::at_line(file, 1, what).or(format!("expected '{header}'")));
    }
    let columns = header.split(',').count();
    let mut rows = Vec::new();
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        if fields.len() != columns {
            let what = format!("{} fields in '{line}'", fields.len());
            return Err(
                TraceError::at_line(file, number, what).or(format!("expected {columns}: {header}"))
            );
        }
        rows.push(Row {
            file,
            line: number,
            fields,
        });
    }
    Ok(rows)
}

impl Row<'_> {
    fn number(&self, column: usize) -> Result<u64, TraceError> {
        let text = self.fields[column];
        text.parse()
            .map_err(|_| self.refuse(text, "expected a whole number below 2^64"))
    }

    fn refuse(&self, found: &str, way_out: &str) -> TraceError {
        TraceError::at_line(self.file, self.line, format!("'{found}'")).or(way_out)
    }
}

fn entry(row: &Row<'_>) -> Result<Entry, TraceError> {
    let action = match row.fields[0] {
        "A" => Action::Alloc,
        "R" => Action::FreeRequested,
        "F" => Action::FreeCompleted,
        "S" => Action::SegmentAlloc,
        other => {
            let known =
                "expected A (alloc), R (free_requested), F (free_completed) or S (segment_alloc)";
            return Err(row.refuse(other, known));
        }
    };
    let (address, bytes, stream) = (row.number(1)?, row.number(2)?, row.number(3)?);
    Ok(Entry::new(action, address, bytes, stream))
}

fn add_state(row: &Row<'_>, segments: &mut Vec<Segment>) -> Result<(), TraceError> {
    let (address, bytes) = (row.number(1)?, row.number(2)?);
    match row.fields[0] {
        "segment" => segments.push(Segment {
            device: 0,
            address,
            total_bytes: bytes,
            allocated_bytes: 0,
            active_bytes: 0,
            requested_bytes: None,
            stream: row.number(5)?,
            large: row.fields[4] == "large",
            pool: None,
            expandable: false,
            stack: None,
            blocks: Vec::new(),
        }),
        "block" => {
            let outside = || {
                row.refuse(
                    row.fields[1],
                    "expected a block inside the segment above it",
                )
            };
            let segment = segments.last_mut().ok_or_else(outside)?;
            let offset = address.checked_sub(segment.address).ok_or_else(outside)?;
            if offset
                .checked_add(bytes)
                .is_none_or(|end| end > segment.total_bytes)
            {
                return Err(outside());
            }
            segment.blocks.push(Block {
                address,
                bytes,
                requested_bytes: Some(row.number(3)?),
                state: state(row)?,
                stack: None,
            });
        }
        other => return Err(row.refuse(other, "expected 'segment' or 'block'")),
    }
    Ok(())
}

fn state(row: &Row<'_>) -> Result<BlockState, TraceError> {
    match row.fields[6] {
        "active_allocated" => Ok(BlockState::ActiveAllocated),
        "active_pending_free" | "active_awaiting_free" => Ok(BlockState::ActivePendingFree),
        "inactive" => Ok(BlockState::Inactive),
        other => Err(row.refuse(
            other,
            "expected active_allocated, active_pending_free or inactive",
        )),
    }
}
