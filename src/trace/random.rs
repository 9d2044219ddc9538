//! Random traces of every event, for tests of formats.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::builder::Ask;
use super::truth::{TruthBlock, TruthEntry, TruthKind, TruthSegment, TruthState};
use super::{ANY_STREAM, Event, Ids, PoolStep, Trace, TraceBuilder, Truth};

/// Numbers for a trace.
struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    /// Small and huge numbers alike.
    fn wide(&mut self) -> u64 {
        let bits = self.below(64);
        self.0.next_u64() >> bits
    }
}

/// A trace of `events` events, valid, with times where `seed` is even and words for ids
/// where it is a multiple of 3.
pub fn random_trace(seed: u64, events: usize) -> Trace {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let mut builder = TraceBuilder::new("random");
    let (mut live, mut pending, mut next) = (Vec::new(), Vec::new(), 0);
    let initial = dice.below(events as u64 + 1) as usize;
    let mut time_ns = 0;
    while builder.len() < events {
        if seed.is_multiple_of(2) {
            time_ns += dice.below(1 << 20);
            builder.at(time_ns);
        }
        step(&mut builder, &mut dice, &mut live, &mut pending, &mut next);
        if builder.len() == initial {
            builder.initial_done();
        }
    }
    let mut trace = builder.finish();
    if seed.is_multiple_of(3) && trace.requests() > 0 {
        let name = |at| format!("a {at},\"\\n\n{}", trace.ids.name(at));
        trace.ids = Ids::Names((0..trace.requests() as usize).map(name).collect());
    }
    trace.capacity_bytes = (dice.below(2) == 0).then(|| dice.wide());
    trace.device = dice.below(3) as u32;
    trace
}

/// Adds one event of any kind that is allowed now.
fn step(
    builder: &mut TraceBuilder,
    dice: &mut Dice,
    live: &mut Vec<u64>,
    pending: &mut Vec<u64>,
    next: &mut u64,
) {
    let kind = dice.below(25);
    if kind < 8 || live.is_empty() && kind < 14 {
        *next += 1 + dice.below(3);
        let ask = Ask {
            bytes: dice.wide(),
            align_log2: (dice.below(4) * dice.below(16)) as u8,
            stream: builder.stream([0, 0, 7, u64::MAX][dice.below(4) as usize]),
            pool: builder.pool([(0, 0), (0, 3), (1, 0)][dice.below(3) as usize]),
            tag: builder.tag(["", "x", "a,\n\"b\"\\ "][dice.below(3) as usize]),
        };
        if kind == 0 {
            builder.attempt(*next, ask);
        } else {
            builder.alloc(*next, ask).expect("a fresh key");
            live.push(*next);
        }
        return;
    }
    let chosen = dice.below(live.len().max(1) as u64) as usize;
    match kind {
        8..12 => {
            let key = live.swap_remove(chosen);
            let deferred = dice.below(4) == 0;
            let stream = (dice.below(3) == 0).then(|| builder.stream(9));
            builder.free(key, stream, deferred);
            if deferred {
                pending.push(key);
            }
        }
        12 => {
            let slot = builder.slot(live[chosen]).expect("live");
            let stream = if dice.below(2) == 0 {
                ANY_STREAM
            } else {
                builder.stream(0)
            };
            builder.push(Event::Use { slot, stream });
        }
        13 => {
            let slot = builder.slot(live[chosen]).expect("live");
            builder.push(Event::Pin { slot });
            builder.push(Event::Unpin { slot });
        }
        14 => {
            if let Some(key) = pending.pop() {
                builder.complete(key);
            }
        }
        _ => builder_other(builder, dice, kind),
    }
}

/// Adds an event that names no live allocation.
fn builder_other(builder: &mut TraceBuilder, dice: &mut Dice, kind: u64) {
    // A stream is named only where an event has it: text formats keep no others.
    let mut named = || builder.stream([0, 7][dice.below(2) as usize]);
    let stream = if matches!(kind, 18..=20 | 22) {
        named()
    } else {
        0
    };
    let event = match kind {
        15 => Event::FreeAgain { id: dice.wide() },
        16 => Event::FreeUnknown { id: dice.wide() },
        17 => Event::FreeAt {
            address: dice.wide(),
        },
        18 => Event::Record {
            stream,
            event: dice.wide() as u32,
        },
        19 => Event::Wait {
            stream,
            event: dice.wide() as u32,
        },
        20 => Event::Sync { stream },
        23 => Event::Sync { stream: ANY_STREAM },
        21 if dice.below(2) == 0 => Event::Compact,
        21 => Event::Trim,
        22 => {
            let step = [PoolStep::Begin, PoolStep::End, PoolStep::Release][dice.below(3) as usize];
            let pool = builder.pool((2, dice.below(3)));
            return builder.pool_step(step, pool, stream);
        }
        _ => return builder.mark(["warm up", "a,b", "step 1\n"][dice.below(3) as usize]),
    };
    builder.push(event);
}

/// Recorded facts of every kind.
pub fn random_truth(seed: u64, events: u32) -> Truth {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let kinds = [
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
    let entries = (0..events)
        .map(|event| TruthEntry {
            event,
            kind: kinds[dice.below(13) as usize],
            stream: 0,
            pool: 0,
            address: dice.wide() >> 4,
            bytes: dice.wide() >> 4,
        })
        .collect();
    let states = [
        TruthState::Active,
        TruthState::Pending,
        TruthState::Inactive,
    ];
    // Blocks lie in address order inside their segment, and name a slot that every trace
    // of some length has.
    let mut segment = || {
        let address = dice.wide() >> 4;
        let mut end = address;
        let blocks = (0..dice.below(5)).map(|_| {
            end += dice.wide() >> 8;
            let bytes = dice.wide() >> 8;
            let from = end;
            end += bytes;
            TruthBlock {
                address: from,
                bytes,
                requested_bytes: dice.wide(),
                state: states[dice.below(3) as usize],
                slot: (events > 40 && dice.below(2) == 0).then_some(0),
            }
        });
        let blocks: Vec<TruthBlock> = blocks.collect();
        TruthSegment {
            address,
            bytes: end - address,
            stream: 0,
            pool: 0,
            large: dice.below(2) == 0,
            expandable: dice.below(2) == 0,
            blocks,
        }
    };
    Truth {
        source: "pytorch".to_owned(),
        entries,
        initial: (0..3).map(|_| segment()).collect(),
        last: (0..2).map(|_| segment()).collect(),
        settings: vec![("max_split_size".to_owned(), "-1".to_owned())],
    }
}
