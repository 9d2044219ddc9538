//! The pen with which a family writes its trace: slots, times and tags, event by event.

use std::collections::HashMap;

use crate::trace::{Event, Slot, StreamId};

/// What a trace says before its first event: dense streams, and the labels of its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// How many streams there are; stream 0 is always there.
    pub streams: u16,
    /// The labels that [`Pen::mark`] names by number.
    pub labels: Vec<String>,
}

impl Default for Stage {
    fn default() -> Self {
        Stage {
            streams: 1,
            labels: Vec::new(),
        }
    }
}

/// A live allocation of the trace being written. It is not `Copy`: what is freed is gone.
#[derive(Debug, PartialEq, Eq)]
pub struct Held {
    /// Its slot.
    pub slot: Slot,
    /// What was asked for.
    pub bytes: u64,
    /// The stream it belongs to.
    pub stream: StreamId,
}

/// An allocation that was given back while another stream may still use it.
#[derive(Debug, PartialEq, Eq)]
pub struct Deferred(Slot);

/// What a sink says to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It went through.
    Taken,
    /// It was a request, and the memory behind the sink did not serve it.
    Refused,
    /// Nothing more is wanted.
    Over,
}

/// Where the events go: the event and its time in ns. A trace takes all of them; where a
/// policy serves the requests as they are made, it may refuse some.
pub type Sink<'a> = &'a mut dyn FnMut(Event, u64) -> Answer;

/// Writes events to a sink until as many are written as were wanted; what comes later
/// is dropped, so that every length is a beginning of the longer ones.
pub struct Pen<'a> {
    sink: Sink<'a>,
    now_ns: u64,
    left: u64,
    slots: u32,
    spare: Vec<Slot>,
    tags: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl<'a> Pen<'a> {
    /// A pen that writes at most `events` events.
    #[must_use]
    pub fn new(sink: Sink<'a>, events: u64) -> Self {
        Pen {
            sink,
            now_ns: 0,
            left: events,
            slots: 0,
            spare: Vec::new(),
            tags: vec![String::new()],
            numbers: HashMap::from([(String::new(), 0)]),
        }
    }

    /// Whether nothing more will be written: loops end here.
    #[must_use]
    pub fn done(&self) -> bool {
        self.left == 0
    }

    /// The time of the next event, in ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Lets time pass.
    pub fn wait_ns(&mut self, pause_ns: u64) {
        self.now_ns = self.now_ns.saturating_add(pause_ns);
    }

    /// Goes on at `time_ns`; time never runs backwards.
    pub fn at(&mut self, time_ns: u64) {
        self.now_ns = self.now_ns.max(time_ns);
    }

    /// The number of a tag. Tags are kept until the end: name kinds, not allocations.
    pub fn tag(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.tags.len() as u32;
        self.tags.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// Writes an event that names no allocation.
    pub fn write(&mut self, event: Event) {
        self.put(event);
    }

    /// Writes an event; false where it was a request that was refused.
    fn put(&mut self, event: Event) -> bool {
        if self.left == 0 {
            return true;
        }
        self.left -= 1;
        let answer = (self.sink)(event, self.now_ns);
        if answer == Answer::Over {
            self.left = 0;
        }
        answer != Answer::Refused
    }

    /// A request on a stream, of a family that asks for what it needs and goes on.
    pub fn alloc(&mut self, bytes: u64, stream: StreamId, tag: u32) -> Held {
        self.ask(bytes, stream, tag).0
    }

    /// A request on a stream; `None` where the memory behind the sink refused it.
    pub fn try_alloc(&mut self, bytes: u64, stream: StreamId, tag: u32) -> Option<Held> {
        let (held, served) = self.ask(bytes, stream, tag);
        if !served {
            self.spare.push(held.slot);
        }
        served.then_some(held)
    }

    fn ask(&mut self, bytes: u64, stream: StreamId, tag: u32) -> (Held, bool) {
        // Slots are dense in the order of their first use, also where the end drops events.
        let slot = self.spare.pop().unwrap_or_else(|| {
            self.slots += u32::from(self.left > 0);
            self.slots.saturating_sub(1)
        });
        let served = self.put(Event::Alloc {
            slot,
            bytes,
            align_log2: 0,
            stream,
            pool: 0,
            tag,
        });
        let held = Held {
            slot,
            bytes,
            stream,
        };
        (held, served)
    }

    /// Gives an allocation back on its own stream.
    pub fn free(&mut self, held: Held) {
        let stream = held.stream;
        self.free_on(held, stream);
    }

    /// Gives an allocation back on a stream that may be another than its own.
    pub fn free_on(&mut self, held: Held, stream: StreamId) {
        let slot = held.slot;
        self.write(Event::Free {
            slot,
            stream,
            deferred: false,
        });
        self.spare.push(slot);
    }

    /// Gives an allocation back on its own stream while another may still use it; nothing
    /// may reuse it before [`complete`](Self::complete).
    pub fn defer(&mut self, held: Held) -> Deferred {
        let Held { slot, stream, .. } = held;
        self.write(Event::Free {
            slot,
            stream,
            deferred: true,
        });
        Deferred(slot)
    }

    /// Nothing uses the allocation any more.
    pub fn complete(&mut self, deferred: Deferred) {
        let Deferred(slot) = deferred;
        self.write(Event::Complete { slot });
        self.spare.push(slot);
    }

    /// An allocation is read, on a stream that may be another than its own.
    pub fn use_on(&mut self, held: &Held, stream: StreamId) {
        let slot = held.slot;
        self.write(Event::Use { slot, stream });
    }

    /// A phase begins; `label` is a place in [`Stage::labels`].
    pub fn mark(&mut self, label: u32) {
        self.write(Event::Mark { label });
    }

    /// Slots and tags of all that was written.
    #[must_use]
    pub fn finish(self) -> (u32, Vec<String>) {
        (self.slots, self.tags)
    }
}
