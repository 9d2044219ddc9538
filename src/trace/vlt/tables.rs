//! What a trace holds beside its events: the head before them, the tables after them.

use std::io::{self, Write};

use super::bytes::{Broken, Cursor, put, put_signed, put_text};
use super::frame::FrameWriter;
use crate::trace::truth::{TruthBlock, TruthEntry, TruthKind, TruthSegment, TruthState};
use crate::trace::{Ids, Note, Trace, Truth};

/// The tags of frames.
pub const HEAD: u8 = b'H';
pub const BLOCK: u8 = b'B';
pub const END: u8 = b'E';
const ID_NUMBERS: u8 = b'I';
const ID_NAMES: u8 = b'N';
const TAGS: u8 = b'G';
const TRUTH: u8 = b'R';
const FACTS: u8 = b'F';
const SEGMENTS_FIRST: u8 = b'S';
const SEGMENTS_LAST: u8 = b'L';

/// A frame of a table is written once it is about this long.
const CHUNK_BYTES: usize = 256 << 10;

/// The kinds of facts by number; the order is part of the layout.
const KINDS: [TruthKind; 13] = [
    TruthKind::Alloc,
    TruthKind::FreeRequested,
    TruthKind::FreeCompleted,
    TruthKind::SegmentAlloc,
    TruthKind::SegmentFree,
    TruthKind::SegmentMap,
    TruthKind::SegmentUnmap,
    TruthKind::Oom,
    TruthKind::UsedAfter,
    TruthKind::ReservedAfter,
    TruthKind::LargestFreeAfter,
    TruthKind::DeviceFreeAfter,
    TruthKind::HostNs,
];

/// The states of blocks by number; the order is part of the layout.
const STATES: [TruthState; 3] = [
    TruthState::Active,
    TruthState::Pending,
    TruthState::Inactive,
];

/// The payload of the head.
pub fn put_head(head: &Trace, timed: bool) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, &head.name);
    put(&mut out, u64::from(head.device));
    put(&mut out, u64::from(timed));
    put(&mut out, head.initial_events as u64);
    put(&mut out, u64::from(head.capacity_bytes.is_some()));
    put(&mut out, head.capacity_bytes.unwrap_or(0));
    put(&mut out, head.streams.len() as u64);
    for raw in &head.streams {
        put(&mut out, *raw);
    }
    put(&mut out, head.pools.len() as u64);
    for (high, low) in &head.pools {
        put(&mut out, *high);
        put(&mut out, *low);
    }
    put(&mut out, head.labels.len() as u64);
    for label in &head.labels {
        put_text(&mut out, label);
    }
    out
}

/// The head of a payload, and whether the trace has times.
pub fn head(payload: &[u8]) -> Result<(Trace, bool), Broken> {
    let mut cursor = Cursor::new(payload);
    let mut trace = Trace {
        name: cursor.text()?,
        device: cursor.narrow("device")?,
        ..Trace::default()
    };
    let timed = cursor.number()? != 0;
    trace.initial_events = cursor.narrow("initial events")?;
    let has_capacity = cursor.number()? != 0;
    let capacity_bytes = cursor.number()?;
    trace.capacity_bytes = has_capacity.then_some(capacity_bytes);
    for _ in 0..cursor.count("streams")? {
        trace.streams.push(cursor.number()?);
    }
    for _ in 0..cursor.count("pools")? {
        trace.pools.push((cursor.number()?, cursor.number()?));
    }
    for _ in 0..cursor.count("labels")? {
        trace.labels.push(cursor.text()?);
    }
    cursor.end()?;
    Ok((trace, timed))
}

/// Writes items into as many frames as they need.
fn chunks<W: Write, T>(
    frames: &mut FrameWriter<W>,
    tag: u8,
    items: impl IntoIterator<Item = T>,
    mut put_item: impl FnMut(&mut Vec<u8>, T),
) -> io::Result<()> {
    let mut payload = Vec::new();
    for item in items {
        put_item(&mut payload, item);
        if payload.len() >= CHUNK_BYTES {
            frames.frame(tag, &payload)?;
            payload.clear();
        }
    }
    if payload.is_empty() {
        return Ok(());
    }
    frames.frame(tag, &payload)
}

/// Writes the tables after the events, and the end.
pub fn write<W: Write>(frames: &mut FrameWriter<W>, trace: &Trace, events: u64) -> io::Result<()> {
    let mut before = 0u64;
    match &trace.ids {
        Ids::Ordinal => {}
        Ids::Numbers(numbers) => chunks(frames, ID_NUMBERS, numbers, |out, number| {
            put_signed(out, number.wrapping_sub(before) as i64);
            before = *number;
        })?,
        Ids::Names(names) => chunks(frames, ID_NAMES, names, |out, name| put_text(out, name))?,
    }
    chunks(frames, TAGS, &trace.tags, |out, tag| put_text(out, tag))?;
    if let Some(truth) = &trace.truth {
        write_truth(frames, truth)?;
    }
    let mut out = Vec::new();
    put(&mut out, events);
    put(&mut out, u64::from(trace.slots));
    put(&mut out, ids_kind(&trace.ids));
    put_text(&mut out, &trace.report.format);
    put(&mut out, trace.report.entries);
    put(&mut out, trace.report.events);
    put(&mut out, trace.report.notes.len() as u64);
    for note in &trace.report.notes {
        put(&mut out, note.count);
        put_text(&mut out, &note.what);
    }
    frames.frame(END, &out)
}

/// Which kind of ids there are, as an empty table would not show it.
fn ids_kind(ids: &Ids) -> u64 {
    match ids {
        Ids::Ordinal => 0,
        Ids::Numbers(_) => 1,
        Ids::Names(_) => 2,
    }
}

fn write_truth<W: Write>(frames: &mut FrameWriter<W>, truth: &Truth) -> io::Result<()> {
    let mut out = Vec::new();
    put_text(&mut out, &truth.source);
    put(&mut out, truth.settings.len() as u64);
    for (name, value) in &truth.settings {
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    frames.frame(TRUTH, &out)?;
    let (mut event, mut address) = (0u32, 0u64);
    chunks(frames, FACTS, &truth.entries, |out, fact| {
        put_signed(out, i64::from(fact.event) - i64::from(event));
        out.push(number_of(&KINDS, fact.kind));
        put(out, u64::from(fact.stream));
        put(out, u64::from(fact.pool));
        put_signed(out, fact.address.wrapping_sub(address) as i64);
        put(out, fact.bytes);
        (event, address) = (fact.event, fact.address);
    })?;
    chunks(frames, SEGMENTS_FIRST, &truth.initial, put_segment)?;
    chunks(frames, SEGMENTS_LAST, &truth.last, put_segment)
}

/// The number of a kind in its table.
fn number_of<T: PartialEq>(table: &[T], item: T) -> u8 {
    let at = table.iter().position(|known| *known == item);
    at.expect("every kind stands in its table") as u8
}

fn put_segment(out: &mut Vec<u8>, segment: &TruthSegment) {
    put(out, segment.address);
    put(out, segment.bytes);
    put(out, u64::from(segment.stream));
    put(out, u64::from(segment.pool));
    put(
        out,
        u64::from(segment.large) | u64::from(segment.expandable) << 1,
    );
    put(out, segment.blocks.len() as u64);
    let mut at = segment.address;
    for block in &segment.blocks {
        put_signed(out, block.address.wrapping_sub(at) as i64);
        put(out, block.bytes);
        put(out, block.requested_bytes);
        out.push(number_of(&STATES, block.state));
        put(out, block.slot.map_or(0, |slot| u64::from(slot) + 1));
        at = block.address.wrapping_add(block.bytes);
    }
}

/// Reads the tables, frame by frame.
pub struct Tables {
    trace: Trace,
    numbers: Vec<u64>,
    names: Vec<String>,
    last_event: u32,
    last_address: u64,
}

impl Tables {
    /// Tables for the trace that begins with `head`.
    pub fn new(head: Trace) -> Self {
        Tables {
            trace: head,
            numbers: Vec::new(),
            names: Vec::new(),
            last_event: 0,
            last_address: 0,
        }
    }

    /// Reads one frame that is not the end.
    pub fn frame(&mut self, tag: u8, payload: &[u8]) -> Result<(), Broken> {
        let mut cursor = Cursor::new(payload);
        match tag {
            TRUTH => self.truth_head(&mut cursor)?,
            _ => {
                while cursor.left() > 0 {
                    self.item(tag, &mut cursor)?;
                }
            }
        }
        cursor.end()
    }

    fn item(&mut self, tag: u8, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        match tag {
            ID_NUMBERS => {
                let before = self.numbers.last().copied().unwrap_or(0);
                let number = before.wrapping_add(cursor.signed()? as u64);
                self.numbers.push(number);
            }
            ID_NAMES => self.names.push(cursor.text()?),
            TAGS => self.trace.tags.push(cursor.text()?),
            FACTS => {
                let fact = self.fact(cursor)?;
                self.truth()?.entries.push(fact);
            }
            SEGMENTS_FIRST => self.truth()?.initial.push(segment(cursor)?),
            SEGMENTS_LAST => self.truth()?.last.push(segment(cursor)?),
            _ => return Err(format!("a frame of kind 0x{tag:02x}, which is not known")),
        }
        Ok(())
    }

    fn truth(&mut self) -> Result<&mut Truth, Broken> {
        let truth = self.trace.truth.as_deref_mut();
        truth.ok_or_else(|| "facts come before their head".to_owned())
    }

    fn truth_head(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if self.trace.truth.is_some() {
            return Err("the head of the facts comes twice".to_owned());
        }
        let mut truth = Truth {
            source: cursor.text()?,
            ..Truth::default()
        };
        for _ in 0..cursor.count("settings")? {
            truth.settings.push((cursor.text()?, cursor.text()?));
        }
        self.trace.truth = Some(Box::new(truth));
        Ok(())
    }

    fn fact(&mut self, cursor: &mut Cursor<'_>) -> Result<TruthEntry, Broken> {
        let event = i64::from(self.last_event).wrapping_add(cursor.signed()?);
        let event = u32::try_from(event).map_err(|_| format!("event {event} is out of range"))?;
        let kind = usize::from(cursor.byte()?);
        let kind = KINDS
            .get(kind)
            .ok_or_else(|| format!("fact kind {kind} is not known"))?;
        let fact = TruthEntry {
            event,
            kind: *kind,
            stream: cursor.narrow("stream")?,
            pool: cursor.narrow("pool")?,
            address: self.last_address.wrapping_add(cursor.signed()? as u64),
            bytes: cursor.number()?,
        };
        (self.last_event, self.last_address) = (event, fact.address);
        Ok(fact)
    }

    /// Reads the end: how many events it tells, and the whole trace but for them.
    pub fn end(mut self, payload: &[u8]) -> Result<(u64, Trace), Broken> {
        let mut cursor = Cursor::new(payload);
        let events = cursor.number()?;
        self.trace.slots = cursor.narrow("slots")?;
        self.trace.ids = match cursor.number()? {
            0 => Ids::Ordinal,
            1 => Ids::Numbers(self.numbers),
            2 => Ids::Names(self.names),
            kind => return Err(format!("ids of kind {kind} are not known")),
        };
        let report = &mut self.trace.report;
        report.format = cursor.text()?;
        report.entries = cursor.number()?;
        report.events = cursor.number()?;
        for _ in 0..cursor.count("notes")? {
            let count = cursor.number()?;
            let what = cursor.text()?;
            report.notes.push(Note { count, what });
        }
        cursor.end()?;
        Ok((events, self.trace))
    }
}

fn segment(cursor: &mut Cursor<'_>) -> Result<TruthSegment, Broken> {
    let (address, bytes) = (cursor.number()?, cursor.number()?);
    let (stream, pool) = (cursor.narrow("stream")?, cursor.narrow("pool")?);
    let flags = cursor.number()?;
    let mut blocks = Vec::new();
    let mut at = address;
    for _ in 0..cursor.count("blocks")? {
        let address = at.wrapping_add(cursor.signed()? as u64);
        let (bytes, requested_bytes) = (cursor.number()?, cursor.number()?);
        let state = usize::from(cursor.byte()?);
        let state = STATES
            .get(state)
            .ok_or_else(|| format!("block state {state} is not known"))?;
        let slot: u64 = cursor.number()?;
        let slot = slot.checked_sub(1).map(u32::try_from).transpose();
        blocks.push(TruthBlock {
            address,
            bytes,
            requested_bytes,
            state: *state,
            slot: slot.map_err(|_| "the slot of a block is out of range".to_owned())?,
        });
        at = address.wrapping_add(bytes);
    }
    Ok(TruthSegment {
        address,
        bytes,
        stream,
        pool,
        large: flags & 1 != 0,
        expandable: flags & 2 != 0,
        blocks,
    })
}
