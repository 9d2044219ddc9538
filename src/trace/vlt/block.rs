//! Blocks of events: one column for each kind of value, each block on its own.
//!
//! Columns: the kind of each event with its flags; streams that differ from the event
//! before; slots as differences; sizes, ids and numbers; alignment, pool and tag of
//! requests where they differ from the request before; times as differences.

use super::bytes::{Broken, Cursor, put, put_signed};
use crate::trace::{Event, PoolStep};

/// The most events of a block.
pub const MAX_EVENTS: usize = 1 << 16;

const COLUMNS: usize = 6;
const KIND: u8 = 0x1f;
/// The event's stream differs from that of the event before.
const NEW_STREAM: u8 = 0x20;
/// The request's alignment, pool or tag differs from the request before.
const NEW_EXTRAS: u8 = 0x40;

const ALLOC: u8 = 0;
const ATTEMPT: u8 = 1;
const FREE: u8 = 2;
const FREE_DEFERRED: u8 = 3;
const FREE_AGAIN: u8 = 4;
const FREE_UNKNOWN: u8 = 5;
const FREE_AT: u8 = 6;
const USE: u8 = 7;
const RECORD: u8 = 8;
const WAIT: u8 = 9;
const SYNC: u8 = 10;
const COMPLETE: u8 = 11;
const PIN: u8 = 12;
const UNPIN: u8 = 13;
const COMPACT: u8 = 14;
const TRIM: u8 = 15;
const POOL_BEGIN: u8 = 16;
const POOL_END: u8 = 17;
const POOL_RELEASE: u8 = 18;
const MARK: u8 = 19;

/// What an event is compared with; a block begins from zeros.
#[derive(Default)]
struct Before {
    stream: u16,
    slot: u32,
    extras: (u8, u16, u32),
    time_ns: u64,
}

/// A block that is being filled.
#[derive(Default)]
pub struct BlockWriter {
    columns: [Vec<u8>; COLUMNS],
    before: Before,
}

impl BlockWriter {
    /// How many events the block holds.
    pub fn len(&self) -> usize {
        self.columns[0].len()
    }

    /// Adds an event; `time_ns` where the trace has times.
    pub fn push(&mut self, event: &Event, time_ns: Option<u64>) {
        if let Some(time_ns) = time_ns {
            let difference = time_ns.wrapping_sub(self.before.time_ns);
            put_signed(&mut self.columns[5], difference as i64);
            self.before.time_ns = time_ns;
        }
        match *event {
            Event::Alloc {
                slot,
                bytes,
                align_log2,
                stream,
                pool,
                tag,
            } => {
                self.value(bytes);
                self.slot(slot);
                self.request(ALLOC, stream, (align_log2, pool, tag));
            }
            Event::Attempt {
                bytes,
                align_log2,
                stream,
                pool,
                tag,
            } => {
                self.value(bytes);
                self.request(ATTEMPT, stream, (align_log2, pool, tag));
            }
            Event::Free {
                slot,
                stream,
                deferred,
            } => {
                self.slot(slot);
                self.on(if deferred { FREE_DEFERRED } else { FREE }, stream);
            }
            Event::Use { slot, stream } => {
                self.slot(slot);
                self.on(USE, stream);
            }
            Event::Complete { slot } => self.of_slot(COMPLETE, slot),
            Event::Pin { slot } => self.of_slot(PIN, slot),
            Event::Unpin { slot } => self.of_slot(UNPIN, slot),
            _ => self.push_rare(event),
        }
    }

    /// Adds an event that names no slot.
    fn push_rare(&mut self, event: &Event) {
        let (kind, value, stream) = match *event {
            Event::FreeAgain { id } => (FREE_AGAIN, Some(id), None),
            Event::FreeUnknown { id } => (FREE_UNKNOWN, Some(id), None),
            Event::FreeAt { address } => (FREE_AT, Some(address), None),
            Event::Record { stream, event } => (RECORD, Some(u64::from(event)), Some(stream)),
            Event::Wait { stream, event } => (WAIT, Some(u64::from(event)), Some(stream)),
            Event::Sync { stream } => (SYNC, None, Some(stream)),
            Event::Compact => (COMPACT, None, None),
            Event::Trim => (TRIM, None, None),
            Event::Pool { step, pool, stream } => {
                let kind = match step {
                    PoolStep::Begin => POOL_BEGIN,
                    PoolStep::End => POOL_END,
                    PoolStep::Release => POOL_RELEASE,
                };
                (kind, Some(u64::from(pool)), Some(stream))
            }
            Event::Mark { label } => (MARK, Some(u64::from(label)), None),
            _ => unreachable!("events of slots are written by push"),
        };
        if let Some(value) = value {
            self.value(value);
        }
        match stream {
            Some(stream) => self.on(kind, stream),
            None => self.columns[0].push(kind),
        }
    }

    fn value(&mut self, value: u64) {
        put(&mut self.columns[3], value);
    }

    fn of_slot(&mut self, kind: u8, slot: u32) {
        self.columns[0].push(kind);
        self.slot(slot);
    }

    /// The kind of an event with a stream.
    fn on(&mut self, kind: u8, stream: u16) {
        let mut flags = 0;
        if stream != self.before.stream {
            flags = NEW_STREAM;
            put(&mut self.columns[1], u64::from(stream));
            self.before.stream = stream;
        }
        self.columns[0].push(kind | flags);
    }

    fn request(&mut self, kind: u8, stream: u16, extras: (u8, u16, u32)) {
        let mut flags = 0;
        if extras != self.before.extras {
            flags = NEW_EXTRAS;
            let column = &mut self.columns[4];
            put(column, u64::from(extras.0));
            put(column, u64::from(extras.1));
            put(column, u64::from(extras.2));
            self.before.extras = extras;
        }
        self.on(kind | flags, stream);
    }

    fn slot(&mut self, slot: u32) {
        let difference = i64::from(slot) - i64::from(self.before.slot);
        put_signed(&mut self.columns[2], difference);
        self.before.slot = slot;
    }

    /// Puts the block into `payload` and begins the next one.
    pub fn take(&mut self, payload: &mut Vec<u8>) {
        payload.clear();
        for column in &self.columns {
            put(payload, column.len() as u64);
        }
        for column in &mut self.columns {
            payload.append(column);
        }
        self.before = Before::default();
    }
}

/// A block that is being read.
struct BlockReader<'a> {
    streams: Cursor<'a>,
    slots: Cursor<'a>,
    values: Cursor<'a>,
    extras: Cursor<'a>,
    before: Before,
}

/// Decodes a block behind what `events` and, where the trace is `timed`, `times` hold.
pub fn append(
    payload: &[u8],
    timed: bool,
    events: &mut Vec<Event>,
    times: &mut Vec<u64>,
) -> Result<(), Broken> {
    let mut cursor = Cursor::new(payload);
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = cursor.number()?;
    }
    let kinds = cursor.take(lengths[0])?;
    if kinds.len() > MAX_EVENTS {
        let events = kinds.len();
        return Err(format!(
            "a block of {events} events, where at most {MAX_EVENTS} are allowed"
        ));
    }
    let mut block = BlockReader {
        streams: Cursor::new(cursor.take(lengths[1])?),
        slots: Cursor::new(cursor.take(lengths[2])?),
        values: Cursor::new(cursor.take(lengths[3])?),
        extras: Cursor::new(cursor.take(lengths[4])?),
        before: Before::default(),
    };
    let mut time = Cursor::new(cursor.take(lengths[5])?);
    cursor.end()?;
    events.reserve(kinds.len());
    for kind in kinds {
        events.push(block.event(*kind)?);
    }
    block.streams.end()?;
    block.slots.end()?;
    block.values.end()?;
    block.extras.end()?;
    if timed {
        times.reserve(kinds.len());
        let mut now_ns = 0u64;
        for _ in kinds {
            now_ns = now_ns.wrapping_add(time.signed()? as u64);
            times.push(now_ns);
        }
    }
    time.end()
}

impl BlockReader<'_> {
    #[inline]
    fn event(&mut self, kind: u8) -> Result<Event, Broken> {
        let flags = kind & !KIND;
        Ok(match kind & KIND {
            ALLOC => {
                let (align_log2, pool, tag) = self.request(flags)?;
                Event::Alloc {
                    slot: self.slot()?,
                    bytes: self.values.number()?,
                    align_log2,
                    stream: self.stream(flags)?,
                    pool,
                    tag,
                }
            }
            ATTEMPT => {
                let (align_log2, pool, tag) = self.request(flags)?;
                Event::Attempt {
                    bytes: self.values.number()?,
                    align_log2,
                    stream: self.stream(flags)?,
                    pool,
                    tag,
                }
            }
            kind @ (FREE | FREE_DEFERRED) => Event::Free {
                slot: self.slot()?,
                stream: self.stream(flags)?,
                deferred: kind == FREE_DEFERRED,
            },
            USE => Event::Use {
                slot: self.slot()?,
                stream: self.stream(flags)?,
            },
            COMPLETE => Event::Complete { slot: self.slot()? },
            other => return self.rare(other, flags),
        })
    }

    /// The kinds that are a small part of every trace.
    fn rare(&mut self, kind: u8, flags: u8) -> Result<Event, Broken> {
        Ok(match kind {
            FREE_AGAIN => Event::FreeAgain {
                id: self.values.number()?,
            },
            FREE_UNKNOWN => Event::FreeUnknown {
                id: self.values.number()?,
            },
            FREE_AT => Event::FreeAt {
                address: self.values.number()?,
            },
            RECORD => Event::Record {
                event: self.values.narrow("event")?,
                stream: self.stream(flags)?,
            },
            WAIT => Event::Wait {
                event: self.values.narrow("event")?,
                stream: self.stream(flags)?,
            },
            SYNC => Event::Sync {
                stream: self.stream(flags)?,
            },
            PIN => Event::Pin { slot: self.slot()? },
            UNPIN => Event::Unpin { slot: self.slot()? },
            COMPACT => Event::Compact,
            TRIM => Event::Trim,
            POOL_BEGIN | POOL_END | POOL_RELEASE => Event::Pool {
                step: match kind {
                    POOL_BEGIN => PoolStep::Begin,
                    POOL_END => PoolStep::End,
                    _ => PoolStep::Release,
                },
                pool: self.values.narrow("pool")?,
                stream: self.stream(flags)?,
            },
            MARK => Event::Mark {
                label: self.values.narrow("label")?,
            },
            _ => return Err(format!("event kind {kind} is not known")),
        })
    }

    #[inline]
    fn stream(&mut self, flags: u8) -> Result<u16, Broken> {
        if flags & NEW_STREAM != 0 {
            self.before.stream = self.streams.narrow("stream")?;
        }
        Ok(self.before.stream)
    }

    #[inline]
    fn request(&mut self, flags: u8) -> Result<(u8, u16, u32), Broken> {
        if flags & NEW_EXTRAS != 0 {
            self.before.extras = (
                self.extras.narrow("alignment")?,
                self.extras.narrow("pool")?,
                self.extras.narrow("tag")?,
            );
        }
        Ok(self.before.extras)
    }

    #[inline]
    fn slot(&mut self) -> Result<u32, Broken> {
        let slot = i64::from(self.before.slot).wrapping_add(self.slots.signed()?);
        self.before.slot =
            u32::try_from(slot).map_err(|_| format!("slot {slot} is out of range"))?;
        Ok(self.before.slot)
    }
}
