//! Builds a trace from ids or pointers: hands out slots, and finds double and unknown frees.

mod live;
mod served;

use std::collections::HashMap;

use foldhash::fast::RandomState;

use live::{Held, Live};
use served::Served;

use super::{ANY_STREAM, Event, Ids, PoolId, PoolStep, Slot, StreamId, Trace};

/// What one request asks, before it has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ask {
    /// Bytes asked for.
    pub bytes: u64,
    /// Alignment as a power of two; 0 where the file asks for none.
    pub align_log2: u8,
    /// Stream, from [`TraceBuilder::stream`].
    pub stream: StreamId,
    /// Pool, from [`TraceBuilder::pool`].
    pub pool: PoolId,
    /// Tag, from [`TraceBuilder::tag`]; 0 is none.
    pub tag: u32,
}

/// Turns the records of a file into events. A *key* is what the file calls an
/// allocation: an id, or a pointer, which may be used again after its free.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    trace: Trace,
    /// The keys of all requests in order, those that failed among them.
    keys: Vec<u64>,
    live: Live,
    /// Slots of those that were freed with their completion outstanding.
    pending: HashMap<u64, Slot, RandomState>,
    served: Served,
    spare: Vec<Slot>,
    streams: HashMap<u64, StreamId>,
    last_stream: Option<(u64, StreamId)>,
    pools: HashMap<(u64, u64), PoolId>,
    last_pool: Option<((u64, u64), PoolId)>,
    labels: HashMap<String, u32>,
    tags: HashMap<String, u32>,
    timed: bool,
    now_ns: u64,
}

impl TraceBuilder {
    /// An empty trace named `name`, with the default pool.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let mut builder = TraceBuilder::default();
        builder.trace.name = name.into();
        builder.trace.tags.push(String::new());
        builder.pool((0, 0));
        builder
    }

    /// The dense number of a raw stream handle.
    ///
    /// # Panics
    /// Past 65,534 streams.
    pub fn stream(&mut self, raw: u64) -> StreamId {
        self.try_stream(raw)
            .expect("more than 65,534 streams in one trace")
    }

    /// As [`stream`](Self::stream), for files that may name any number of them: `None`
    /// past 65,534 streams.
    pub fn try_stream(&mut self, raw: u64) -> Option<StreamId> {
        // Neighbours as a rule name the same stream.
        if let Some((last, id)) = self.last_stream
            && last == raw
        {
            return Some(id);
        }
        let id = match self.streams.get(&raw) {
            Some(id) => *id,
            None => {
                let id = StreamId::try_from(self.trace.streams.len()).ok()?;
                if id >= ANY_STREAM - 1 {
                    return None;
                }
                self.trace.streams.push(raw);
                self.streams.insert(raw, id);
                id
            }
        };
        self.last_stream = Some((raw, id));
        Some(id)
    }

    /// The dense number of a raw pool id.
    ///
    /// # Panics
    /// Past 65,534 pools.
    pub fn pool(&mut self, raw: (u64, u64)) -> PoolId {
        self.try_pool(raw)
            .expect("more than 65,534 pools in one trace")
    }

    /// As [`pool`](Self::pool), for files that may name any number of them: `None`
    /// past 65,534 pools.
    pub fn try_pool(&mut self, raw: (u64, u64)) -> Option<PoolId> {
        if let Some((last, id)) = self.last_pool
            && last == raw
        {
            return Some(id);
        }
        let id = match self.pools.get(&raw) {
            Some(id) => *id,
            None => {
                let id = PoolId::try_from(self.trace.pools.len()).ok()?;
                if id >= PoolId::MAX - 1 {
                    return None;
                }
                self.trace.pools.push(raw);
                self.pools.insert(raw, id);
                id
            }
        };
        self.last_pool = Some((raw, id));
        Some(id)
    }

    /// The number of a tag; the empty text is 0.
    pub fn tag(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        intern(&mut self.tags, &mut self.trace.tags, text)
    }

    /// Sets the time of the events that follow, in ns since the start.
    pub fn at(&mut self, time_ns: u64) {
        if !self.timed {
            self.timed = true;
            self.trace.times_ns.resize(self.trace.events.len(), 0);
        }
        self.now_ns = time_ns;
    }

    /// Makes room for so many events that are to come, half of them requests.
    pub fn reserve(&mut self, events: usize) {
        self.trace.events.reserve(events);
        self.keys.reserve(events / 2);
        if self.timed {
            self.trace.times_ns.reserve(events);
        }
    }

    /// How many events there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.trace.events.len()
    }

    /// Whether there is no event yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trace.events.is_empty()
    }

    /// Adds an event that names no slot of its own.
    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        self.trace.events.push(event);
        if self.timed {
            self.trace.times_ns.push(self.now_ns);
        }
    }

    /// Whether `key` names a live allocation.
    #[must_use]
    pub fn is_live(&self, key: u64) -> bool {
        self.live.slot(key).is_some()
    }

    /// Whether `key` names an allocation whose deferred free is not complete.
    #[must_use]
    pub fn is_pending(&self, key: u64) -> bool {
        self.pending.contains_key(&key)
    }

    /// The bytes of a live allocation; 0 where `key` names none.
    #[must_use]
    pub fn bytes(&self, key: u64) -> u64 {
        let slot = self.live.slot(key);
        slot.map_or(0, |slot| self.live.held(slot).bytes)
    }

    /// The slot of a live or pending allocation.
    #[must_use]
    pub fn slot(&self, key: u64) -> Option<Slot> {
        self.live
            .slot(key)
            .or_else(|| self.pending.get(&key).copied())
    }

    /// A request for `key`. A key that is live already is told back as an error, so
    /// that the importer can name the place.
    ///
    /// # Errors
    /// [`AlreadyLive`], and nothing is added.
    #[inline(always)]
    pub fn alloc(&mut self, key: u64, ask: Ask) -> Result<Slot, AlreadyLive> {
        let Ask {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
        } = ask;
        let held = Held { stream, bytes };
        let slot = self.live.insert(key, self.keys.len(), held, || {
            self.spare.pop().unwrap_or_else(|| {
                self.trace.slots += 1;
                self.trace.slots - 1
            })
        });
        let Some(slot) = slot else {
            return Err(AlreadyLive);
        };
        self.keys.push(key);
        self.push(Event::Alloc {
            slot,
            bytes,
            align_log2,
            stream,
            pool,
            tag,
        });
        Ok(slot)
    }

    /// A request that failed when it was recorded.
    pub fn attempt(&mut self, key: u64, ask: Ask) {
        self.served.failed(self.keys.len());
        self.keys.push(key);
        let Ask {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
        } = ask;
        self.push(Event::Attempt {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
        });
    }

    /// A free of `key` on `stream`, or on the stream of its allocation. A `deferred`
    /// free keeps its slot until [`complete`](Self::complete).
    pub fn free(&mut self, key: u64, stream: Option<StreamId>, deferred: bool) -> Freed {
        self.free_as(key, key, stream, deferred)
    }

    /// As [`free`](Self::free); `id` is what the event of a wrong free calls the key.
    #[inline(always)]
    pub fn free_as(
        &mut self,
        key: u64,
        id: u64,
        stream: Option<StreamId>,
        deferred: bool,
    ) -> Freed {
        let Some(slot) = self.live.remove(key) else {
            return self.wrong_free(key, id);
        };
        self.push(Event::Free {
            slot,
            stream: stream.unwrap_or_else(|| self.live.held(slot).stream),
            deferred,
        });
        if deferred {
            self.pending.insert(key, slot);
        } else {
            self.spare.push(slot);
        }
        Freed::Live
    }

    /// A free of what is not live: freed already, or never allocated.
    #[cold]
    fn wrong_free(&mut self, key: u64, id: u64) -> Freed {
        if self.served.contains(key, &self.keys) {
            self.push(Event::FreeAgain { id });
            Freed::Again
        } else {
            self.push(Event::FreeUnknown { id });
            Freed::Unknown
        }
    }

    /// The deferred free of `key` became reusable; false where there was none.
    pub fn complete(&mut self, key: u64) -> bool {
        let Some(slot) = self.pending.remove(&key) else {
            return false;
        };
        self.push(Event::Complete { slot });
        self.spare.push(slot);
        true
    }

    /// A phase begins.
    pub fn mark(&mut self, label: &str) {
        let label = intern(&mut self.labels, &mut self.trace.labels, label);
        self.push(Event::Mark { label });
    }

    /// A pool step.
    pub fn pool_step(&mut self, step: PoolStep, pool: PoolId, stream: StreamId) {
        self.push(Event::Pool { step, pool, stream });
    }

    /// The leading events so far rebuild what was live before the recording began.
    pub fn initial_done(&mut self) {
        self.trace.initial_events = self.trace.events.len();
    }

    /// The trace so far, for fields that an importer sets itself.
    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// Ends the trace; keys become its ids. It has no times where none was set.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        if self.trace.streams.is_empty() {
            self.trace.streams.push(0);
        }
        self.trace.ids = if self
            .keys
            .iter()
            .enumerate()
            .all(|(at, key)| at as u64 == *key)
        {
            Ids::Ordinal
        } else {
            Ids::Numbers(self.keys)
        };
        self.trace.report.events = self.trace.events.len() as u64;
        self.trace
    }
}

/// The key of a request names an allocation that is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyLive;

/// What a free met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// A live allocation.
    Live,
    /// An allocation that had been freed before.
    Again,
    /// Nothing that was ever allocated.
    Unknown,
}

/// The number of `text` among `texts`.
fn intern(known: &mut HashMap<String, u32>, texts: &mut Vec<String>, text: &str) -> u32 {
    if let Some(number) = known.get(text) {
        return *number;
    }
    let number = if text.is_empty() && !texts.is_empty() && texts[0].is_empty() {
        0
    } else {
        texts.push(text.to_owned());
        (texts.len() - 1) as u32
    };
    known.insert(text.to_owned(), number);
    number
}
