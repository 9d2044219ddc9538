//! `.vlt`, the native binary format: compact, versioned, checksummed, and read as a
//! stream. It carries all that a [`Trace`] holds. `docs/traces.md` tells the layout.

mod block;
mod bytes;
mod frame;
mod tables;

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use super::check::Checker;
use super::{Event, Trace, TraceError};
use block::BlockWriter;
use frame::{FrameReader, FrameWriter};
use tables::Tables;

pub use frame::{MAGIC, MAX_PAYLOAD_BYTES, VERSION};

/// Events of a block: long enough to compress and to decode fast, short enough that a
/// reader holds little.
const BLOCK_EVENTS: usize = 1 << 14;

/// Writes a trace event by event, for generators that never hold one whole.
pub struct VltWriter<W> {
    frames: FrameWriter<W>,
    block: BlockWriter,
    checker: Checker,
    payload: Vec<u8>,
    timed: bool,
    events: u64,
}

impl<W: Write> VltWriter<W> {
    /// Begins a trace. Of `head` the name, device, capacity, initial events, streams,
    /// pools and labels are written; its events are not.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W, head: &Trace, timed: bool) -> io::Result<Self> {
        let mut frames = FrameWriter::new(out)?;
        frames.frame(tables::HEAD, &tables::put_head(head, timed))?;
        Ok(VltWriter {
            frames,
            block: BlockWriter::default(),
            checker: Checker::new(head),
            payload: Vec::new(),
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
    /// At an event that no trace may hold (see [`super::check`]): the generator is wrong.
    pub fn push(&mut self, event: &Event, time_ns: u64) -> io::Result<()> {
        if let Err(fault) = self.checker.step(event) {
            panic!("event {}: {fault}: {event:?}", self.events);
        }
        self.block.push(event, self.timed.then_some(time_ns));
        self.events += 1;
        if self.block.len() == BLOCK_EVENTS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.block.take(&mut self.payload);
        self.frames.frame(tables::BLOCK, &self.payload)
    }

    /// How many slots the events have named so far.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.checker.slots()
    }

    /// Ends the trace. Of `tail` the slots, ids, tags, recorded truth and report are
    /// written.
    ///
    /// # Errors
    /// What the file says, or that `tail` contradicts the events (see [`super::check`]).
    pub fn finish(mut self, tail: &Trace) -> io::Result<W> {
        if let Err(fault) = self.checker.end(tail, self.events) {
            let what = format!("after {} events: {fault}", self.events);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if self.block.len() > 0 {
            self.flush()?;
        }
        tables::write(&mut self.frames, tail, self.events)?;
        self.frames.finish()
    }
}

/// Writes a whole trace.
///
/// # Errors
/// What `out` says.
///
/// # Panics
/// At a trace that breaks the rules of [`super::check`].
pub fn write<W: Write>(trace: &Trace, out: W) -> io::Result<()> {
    let mut writer = VltWriter::new(out, trace, trace.has_times())?;
    for (at, event) in trace.events.iter().enumerate() {
        let time_ns = trace.times_ns.get(at).copied().unwrap_or(0);
        writer.push(event, time_ns)?;
    }
    writer.finish(trace).map(drop)
}

/// Reads a trace block by block, never holding more than one.
pub struct VltReader<R> {
    frames: FrameReader<R>,
    head: Trace,
    timed: bool,
    checker: Checker,
    events: u64,
    blocks_done: bool,
}

impl<R: Read> VltReader<R> {
    /// Reads the head of the trace in `input`, which errors call `file`.
    ///
    /// # Errors
    /// A wrong magic number, version, checksum or head.
    pub fn new(input: R, file: &str) -> Result<Self, TraceError> {
        let mut frames = FrameReader::new(input, file)?;
        frames.next()?;
        if frames.tag != tables::HEAD {
            let tag = frames.tag;
            return Err(frames.error(format!(
                "a frame of kind 0x{tag:02x} where the head belongs"
            )));
        }
        let (head, timed) =
            tables::head(&frames.payload).map_err(|what| frames.error(format!("head: {what}")))?;
        Ok(VltReader {
            checker: Checker::new(&head),
            frames,
            head,
            timed,
            events: 0,
            blocks_done: false,
        })
    }

    /// The head: name, device, capacity, initial events, streams, pools, labels.
    #[must_use]
    pub fn head(&self) -> &Trace {
        &self.head
    }

    /// Whether the trace has times.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.timed
    }

    /// Puts the next block into `events` and `times` (empty where the trace has none);
    /// false, and both empty, after the last one.
    ///
    /// # Errors
    /// A frame that is damaged, cut short or wrong: the error names its offset.
    pub fn next_block(
        &mut self,
        events: &mut Vec<Event>,
        times: &mut Vec<u64>,
    ) -> Result<bool, TraceError> {
        events.clear();
        times.clear();
        self.append_block(events, times)
    }

    /// As [`next_block`](Self::next_block), behind what `events` and `times` hold.
    fn append_block(
        &mut self,
        events: &mut Vec<Event>,
        times: &mut Vec<u64>,
    ) -> Result<bool, TraceError> {
        if self.blocks_done {
            return Ok(false);
        }
        self.frames.next()?;
        if self.frames.tag != tables::BLOCK {
            self.blocks_done = true;
            return Ok(false);
        }
        let before = events.len();
        block::append(&self.frames.payload, self.timed, events, times)
            .map_err(|what| self.frames.error(format!("block of events: {what}")))?;
        for (event, at) in events[before..].iter().zip(self.events..) {
            if let Err(fault) = self.checker.step(event) {
                return Err(self.frames.error(format!("event {at}: {fault}")));
            }
        }
        self.events += (events.len() - before) as u64;
        Ok(true)
    }

    /// Reads what comes after the events: the trace without them.
    ///
    /// # Errors
    /// As [`next_block`](Self::next_block).
    pub fn finish(mut self) -> Result<Trace, TraceError> {
        let (mut events, mut times) = (Vec::new(), Vec::new());
        while self.next_block(&mut events, &mut times)? {}
        let mut tables = Tables::new(self.head);
        while self.frames.tag != tables::END {
            tables
                .frame(self.frames.tag, &self.frames.payload)
                .map_err(|what| self.frames.error(what))?;
            self.frames.next()?;
        }
        let (events, trace) = tables
            .end(&self.frames.payload)
            .map_err(|what| self.frames.error(format!("end: {what}")))?;
        if events != self.events {
            let read = self.events;
            return Err(self
                .frames
                .error(format!("{read} events came, {events} were announced")));
        }
        self.checker
            .end(&trace, events)
            .map_err(|fault| self.frames.error(fault.to_string()))?;
        self.frames.end()?;
        Ok(trace)
    }
}

/// Reads a whole trace.
///
/// # Errors
/// As [`VltReader`].
pub fn read(input: impl Read, file: &str) -> Result<Trace, TraceError> {
    let mut reader = VltReader::new(input, file)?;
    let (mut events, mut times) = (Vec::new(), Vec::new());
    while reader.append_block(&mut events, &mut times)? {}
    let mut trace = reader.finish()?;
    trace.events = events;
    trace.times_ns = times;
    Ok(trace)
}
