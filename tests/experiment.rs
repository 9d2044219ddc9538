//! The runner of one cell: a broken policy, one that cannot start, and the capacity rule.

use std::sync::Arc;

use vramlab::experiment::{Capacity, Ended, Origin, Scene, Wanted, Watch, run_cell};
use vramlab::policy::{Policy, Registry};
use vramlab::space::{BlockId, Device, OutOfMemory, Request, Space};
use vramlab::trace::builder::Ask;
use vramlab::trace::{StreamId, Trace, TraceBuilder};

/// Hands out the same block twice.
struct Careless(Option<BlockId>);

impl Policy for Careless {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.0 = Some(space.map(space.capacity_bytes())?);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let block = self.0.expect("it has started");
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, _: BlockId, _: StreamId, _: bool, _: &mut Space) {}

    fn servable(&self, _: &Space, _: StreamId) -> u64 {
        0
    }
}

/// Wants more than there is.
struct Greedy;

impl Policy for Greedy {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        space.map(space.capacity_bytes() + 1).map(drop)
    }

    fn alloc(&mut self, request: &Request, _: &mut Space) -> Result<BlockId, OutOfMemory> {
        Err(OutOfMemory::no_fit(request.bytes))
    }

    fn free(&mut self, _: BlockId, _: StreamId, _: bool, _: &mut Space) {}

    fn servable(&self, _: &Space, _: StreamId) -> u64 {
        0
    }
}

fn trace() -> Trace {
    let mut builder = TraceBuilder::new("two");
    for (key, bytes) in [(1, 1000), (2, 500), (3, 0)] {
        let ask = Ask {
            bytes,
            ..Ask::default()
        };
        builder.alloc(key, ask).expect("keys are new");
    }
    builder.finish()
}

fn ended(policy: &str) -> Ended {
    let registry = Registry::default()
        .with("careless", |_| Ok(Box::new(Careless(None))))
        .with("greedy", |_| Ok(Box::new(Greedy)));
    let scene = Scene::new(trace(), Arc::new(Device::bare(1 << 20)), Wanted::ByTrace);
    let chosen = registry.find(policy).expect("it is registered");
    let watch = Watch {
        map: false,
        progress: &|_| (),
        extra: (),
    };
    run_cell(&scene, &registry, &chosen, watch).expect("it builds")
}

#[test]
fn a_policy_that_breaks_a_rule_is_told_with_its_event() {
    let Ended::Broke(what) = ended("careless") else {
        panic!("placing on a used block passed unseen");
    };
    assert!(what.starts_with("event 1: "), "{what}");
}

#[test]
fn a_policy_that_cannot_start_serves_nothing() {
    let Ended::NotStarted(row, shortage) = ended("greedy") else {
        panic!("it started with more than there is");
    };
    assert_eq!(shortage.wanted_bytes, 1651);
    assert_eq!(
        (row.requests, row.served, row.failed, row.zero_sizes),
        (3, 0, 2, 1)
    );
    assert_eq!((row.first_failure_event, row.success_ppm), (Some(0), 0));
}

#[test]
fn the_capacity_is_what_is_asked_else_told_else_tight() {
    let mut trace = trace();
    let choose =
        |wanted, trace: &Trace, card| Capacity::choose(wanted, trace, 1500, &Device::bare(card));
    let of = |bytes, origin| Capacity { bytes, origin };
    assert_eq!(
        choose(Wanted::ByTrace, &trace, 9000),
        of(1650, Origin::Tight)
    );
    assert_eq!(
        choose(Wanted::ByTrace, &trace, 1600),
        of(1600, Origin::Card)
    );
    assert_eq!(choose(Wanted::Card, &trace, 9000), of(9000, Origin::Card));
    trace.capacity_bytes = Some(2000);
    assert_eq!(
        choose(Wanted::ByTrace, &trace, 9000),
        of(2000, Origin::Trace)
    );
    assert_eq!(choose(Wanted::Bytes(7), &trace, 9000), of(7, Origin::Asked));
}
