//! For the tests of this room: a policy that is obvious, and short ways to replay.

use crate::policy::{Compacted, Policy};
use crate::replay::{Moment, Observer, Replay};
use crate::space::{BlockId, Cause, OutOfMemory, Request, Space, SpaceConfig, State};
use crate::trace::builder::Ask;
use crate::trace::{Event, StreamId, Trace, TraceBuilder};
use crate::units::round_up;

/// Asks for every moment, so that whoever looks on beside it is shown no runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EachMoment;

impl Observer for EachMoment {
    fn see(&mut self, _: &Moment<'_>) {}
}

/// A trace of many requests and frees with failures, marks and a trim among them.
pub(crate) fn mixed() -> Trace {
    let mut script = Script::new();
    let mut live = Vec::new();
    for key in 0..3000u64 {
        let dice = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        script.alloc(key, 1 + dice % 3000);
        live.push(key);
        if live.len() > 30 {
            script.free(live.swap_remove(dice as usize % 30));
        }
        if key % 257 == 0 {
            script.0.push(Event::Trim);
        }
    }
    script.finish()
}

/// First fit by a walk over all blocks, lowest address first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// Sizes are rounded up to multiples of this.
    pub quantum: u64,
    /// Leaves the order of streams to others.
    pub blind: bool,
    /// What it says of a shortage.
    pub cause: Cause,
    /// Maps a segment where nothing fits, and gives whole free ones back at a trim;
    /// else it takes all at the start.
    pub grows: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Walk {
            quantum: 256,
            blind: true,
            cause: Cause::NoFit,
            grows: false,
        }
    }
}

impl Policy for Walk {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        if !self.grows {
            space.map(space.capacity_bytes())?;
        }
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let wanted_bytes =
            round_up(request.bytes, self.quantum).ok_or(OutOfMemory::overflow(request.bytes))?;
        let fits = |block: &BlockId| {
            space.state(*block) == State::Free
                && space.usable(*block, request.stream)
                && space.bytes(*block) >= wanted_bytes
                && space.base(*block).is_multiple_of(request.align)
        };
        let found = space.walk().find(fits);
        let block = match found {
            Some(block) => block,
            None if self.grows => space.map(wanted_bytes)?,
            None => {
                return Err(OutOfMemory {
                    wanted_bytes,
                    cause: self.cause,
                });
            }
        };
        if space.bytes(block) > wanted_bytes {
            space.split(block, wanted_bytes);
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            space.defer(block);
        } else {
            space.release(block, stream);
            settle(block, space);
        }
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        space.tracked_largest()
    }

    fn blind(&self) -> bool {
        self.blind
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let stream = space.stream(block);
        space.release(block, stream);
        settle(block, space);
    }

    fn trim(&mut self, space: &mut Space) {
        let whole = |block: &BlockId| {
            space.state(*block) == State::Free
                && space.prev(*block).is_none()
                && space.next(*block).is_none()
        };
        let blocks: Vec<_> = space.walk().filter(whole).collect();
        for block in blocks {
            space.unmap(block);
        }
    }

    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        let before = *space.counters();
        while let Some((free, used)) = lowest_gap(space) {
            space.slide(free, used);
            settle(free, space);
        }
        Some(Compacted {
            moves: space.counters().moves - before.moves,
            moved_bytes: space.counters().moved_bytes - before.moved_bytes,
        })
    }
}

/// The lowest free block with a used one above it.
fn lowest_gap(space: &Space) -> Option<(BlockId, BlockId)> {
    space.walk().find_map(|free| {
        let used = space.next(free)?;
        (space.state(free) == State::Free && space.state(used) == State::Used)
            .then_some((free, used))
    })
}

/// Joins a free block with the free neighbours that may be joined.
fn settle(block: BlockId, space: &mut Space) {
    if let Some(above) = space.free_next(block)
        && space.mergeable(block, above)
    {
        space.merge(block, above);
    }
    if let Some(below) = space.free_prev(block)
        && space.mergeable(below, block)
    {
        space.merge(below, block);
    }
}

/// A builder with short words.
#[derive(Debug)]
pub(crate) struct Script(pub TraceBuilder);

impl Script {
    pub fn new() -> Self {
        let mut builder = TraceBuilder::new("script");
        builder.stream(0);
        Script(builder)
    }

    pub fn alloc(&mut self, key: u64, bytes: u64) -> &mut Self {
        self.alloc_on(key, bytes, 0)
    }

    pub fn alloc_on(&mut self, key: u64, bytes: u64, raw_stream: u64) -> &mut Self {
        let stream = self.0.stream(raw_stream);
        let ask = Ask {
            bytes,
            stream,
            ..Ask::default()
        };
        self.0.alloc(key, ask).expect("a fresh key");
        self
    }

    pub fn free(&mut self, key: u64) -> &mut Self {
        self.0.free(key, None, false);
        self
    }

    pub fn finish(&mut self) -> Trace {
        std::mem::take(&mut self.0).finish()
    }
}

/// A Space of `capacity_bytes` for `trace`, steps recorded.
pub(crate) fn config(trace: &Trace, capacity_bytes: u64) -> SpaceConfig {
    SpaceConfig {
        streams: trace.streams.len(),
        record_steps: true,
        ..SpaceConfig::bare(capacity_bytes)
    }
}

/// Replays `trace` under `policy`.
pub(crate) fn replay<O: Observer>(
    trace: &Trace,
    policy: Walk,
    capacity_bytes: u64,
    observer: &mut O,
) -> Replay {
    let mut replay = Replay::new(Box::new(policy), config(trace, capacity_bytes))
        .expect("the card holds the capacity");
    replay.feed(&trace.events, &trace.times_ns, observer);
    replay
}
