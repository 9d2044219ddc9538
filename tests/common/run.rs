//! A policy on a bare card that is driven request by request, for cases by hand.
#![allow(dead_code, reason = "each test binary uses its part")]

use vramlab::policy::Registry;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::SpaceConfig;
use vramlab::trace::{Event, Slot, StreamId};

/// A policy on a bare card, driven by hand.
pub struct Run {
    pub replay: Replay,
    next: Slot,
}

/// What the last event came to.
struct Last(Option<Outcome>);

impl Observer for Last {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0 = Some(moment.outcome);
    }
}

impl Run {
    pub fn new(policy: &str, capacity_bytes: u64) -> Self {
        let registry = Registry::default();
        let chosen = registry.find(policy).expect("a policy");
        let policy = registry.build(&chosen).expect("it builds");
        let config = SpaceConfig {
            streams: 4,
            ..SpaceConfig::bare(capacity_bytes)
        };
        let replay = Replay::new(policy, config).expect("it starts");
        Run { replay, next: 0 }
    }

    pub fn feed(&mut self, event: Event) -> Outcome {
        let mut last = Last(None);
        self.replay.feed(&[event], &[], &mut last);
        last.0.expect("seen")
    }

    pub fn outcome(&mut self, bytes: u64, stream: StreamId) -> (Slot, Outcome) {
        let slot = self.next;
        self.next += 1;
        let ask = Event::Alloc {
            slot,
            bytes,
            align_log2: 0,
            stream,
            pool: 0,
            tag: 0,
        };
        (slot, self.feed(ask))
    }

    pub fn serve_on(&mut self, bytes: u64, stream: StreamId) -> Slot {
        let (slot, outcome) = self.outcome(bytes, stream);
        assert!(
            matches!(outcome, Outcome::Served(_)),
            "{bytes} bytes: {outcome:?}"
        );
        slot
    }

    pub fn serve(&mut self, bytes: u64) -> Slot {
        self.serve_on(bytes, 0)
    }

    pub fn fails(&mut self, bytes: u64) -> bool {
        matches!(self.outcome(bytes, 0).1, Outcome::Failed(_))
    }

    pub fn free_on(&mut self, slot: Slot, stream: StreamId) {
        let free = Event::Free {
            slot,
            stream,
            deferred: false,
        };
        assert!(matches!(self.feed(free), Outcome::Freed { .. }));
    }

    pub fn free(&mut self, slot: Slot) {
        self.free_on(slot, 0);
    }

    pub fn reserved(&self) -> u64 {
        self.replay.space().counters().reserved_bytes
    }

    pub fn base(&self, slot: Slot) -> u64 {
        let block = self.replay.block_of(slot).expect("live");
        self.replay.space().base(block)
    }
}

/// Fills the pool of `run` but for `free` bytes, none of whose holes holds `asked`; sizes are
/// multiples of `quantum`. What stays in use between the holes.
pub fn strand(run: &mut Run, pool: u64, free: u64, asked: u64, quantum: u64) -> Vec<Slot> {
    let pool = pool - pool % quantum;
    // One block of all of it first: every later one is a part of it.
    let whole = run.serve(pool);
    run.free(whole);
    let hole = asked / quantum * quantum - quantum;
    let holes = free / hole;
    let last = (free - holes * hole) / quantum * quantum;
    let sizes = (0..holes).map(|_| hole).chain((last > 0).then_some(last));
    let kept = (pool - free) / (holes + 1) / quantum * quantum;
    assert!(kept >= quantum, "the holes need something between them");
    let (mut freed, mut live) = (Vec::new(), Vec::new());
    for size in sizes {
        freed.push(run.serve(size));
        live.push(run.serve(kept));
    }
    // What rounding left over at the end, and may not serve the request.
    let rest = run.replay.policy().servable(run.replay.space(), 0);
    if rest >= quantum {
        live.push(run.serve(rest / quantum * quantum));
    }
    freed.iter().for_each(|slot| run.free(*slot));
    live
}

/// A pool that is full but for `free` bytes, none of whose holes holds `asked`: the
/// request must fail although `free` is enough, and be served once all is freed.
pub fn stranded(policy: &str, pool: u64, free: u64, asked: u64) {
    let quantum = 512;
    let mut run = Run::new(policy, pool - pool % quantum);
    let live = strand(&mut run, pool, free, asked, quantum);
    let free_bytes = run.replay.space().counters().free_bytes;
    let largest = run.replay.largest_free_bytes();
    assert!(
        free_bytes >= asked && asked > largest,
        "{free_bytes} {largest}"
    );
    let holes = live.len() as u64;
    assert!(free - free_bytes < quantum * (holes + 2), "{free_bytes}");
    assert!(run.fails(asked), "{policy}");
    live.iter().for_each(|slot| run.free(*slot));
    run.serve(asked);
}
