use super::*;
use crate::observe::testing::{Script, Walk, config};
use crate::replay::Replay;
use crate::trace::builder::Ask;
use crate::trace::{pytorch, snapshot};

fn run(trace: &Trace, policy: Walk, capacity_bytes: u64) -> Snapshot {
    let mut replay = Replay::new(Box::new(policy), config(trace, capacity_bytes)).expect("room");
    let mut recorder = Recorder::new(trace, replay.space());
    replay.feed(&trace.events, &trace.times_ns, &mut recorder);
    recorder.finish(replay.space())
}

/// Action, address and bytes of every entry.
fn entries(snapshot: &Snapshot) -> Vec<(Action, u64, u64)> {
    let entries = snapshot.device_traces[0].iter();
    let shown = entries.map(|entry| (entry.action, entry.address(), entry.bytes));
    shown.collect()
}

const GROWS: Walk = Walk {
    quantum: 512,
    blind: false,
    cause: crate::space::Cause::NoFit,
    grows: true,
};

#[test]
fn what_the_policy_does_is_told_as_pytorch_would() {
    use Action::*;
    let mut script = Script::new();
    script.alloc(0, 1000).alloc(1, 300);
    script.0.free(0, None, true);
    script.alloc(2, 512);
    script.0.complete(0);
    script.free(1).alloc(3, 4096);
    script.0.push(Event::Trim);
    let snapshot = run(&script.finish(), GROWS, 4096);
    assert_eq!(
        entries(&snapshot),
        [
            (SegmentAlloc, 0, 1024),
            (Alloc, 0, 1000),
            (SegmentAlloc, 1024, 512),
            (Alloc, 1024, 300),
            (FreeRequested, 0, 1000),
            (SegmentAlloc, 1536, 512),
            (Alloc, 1536, 512),
            (FreeCompleted, 0, 1000),
            (FreeRequested, 1024, 300),
            (FreeCompleted, 1024, 300),
            (Oom, 0, 4096),
            (SegmentFree, 0, 1024),
            (SegmentFree, 1024, 512),
        ]
    );
    let oom = snapshot.device_traces[0][10];
    assert_eq!(oom.device_free_bytes(), Some(2048));
    let [segment] = &snapshot.segments[..] else {
        panic!("one segment is left");
    };
    assert_eq!((segment.address, segment.total_bytes), (1536, 512));
    assert_eq!(
        (segment.active_bytes, segment.requested_bytes),
        (512, Some(512))
    );
    assert_eq!(segment.blocks[0].state, BlockState::ActiveAllocated);
}

#[test]
fn a_move_is_a_free_and_an_allocation() {
    use Action::*;
    let mut script = Script::new();
    script.alloc(0, 512).alloc(1, 300).free(0);
    script.0.push(Event::Compact);
    let policy = Walk {
        quantum: 512,
        ..Walk::default()
    };
    let snapshot = run(&script.finish(), policy, 2048);
    let told = entries(&snapshot);
    assert_eq!(
        told[0],
        (SegmentAlloc, 0, 2048),
        "what the policy took at the start"
    );
    assert_eq!(
        told[5..],
        [
            (FreeRequested, 512, 300),
            (FreeCompleted, 512, 300),
            (Alloc, 0, 300)
        ]
    );
    let [segment] = &snapshot.segments[..] else {
        panic!("one segment");
    };
    let blocks: Vec<_> = segment
        .blocks
        .iter()
        .map(|block| (block.address, block.state))
        .collect();
    assert_eq!(
        blocks,
        [
            (0, BlockState::ActiveAllocated),
            (512, BlockState::Inactive)
        ]
    );
}

/// Many requests on two streams, with tags, deferred frees and a failure.
fn busy() -> Trace {
    let mut script = Script::new();
    let tag = script.0.tag("forward@model.py:12 < main@train.py:40");
    let mut live: Vec<u64> = Vec::new();
    let mut pending: Vec<u64> = Vec::new();
    let mut state = 11u64;
    for key in 0..500u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        script.0.at(key * 3_000);
        let stream = script.0.stream((key / 7) % 2);
        let ask = Ask {
            bytes: 1 + (state >> 33) % 9000,
            stream,
            tag: tag * u32::from(key % 3 == 0),
            ..Ask::default()
        };
        script.0.alloc(key, ask).expect("a fresh key");
        live.push(key);
        if live.len() > 25 {
            let key = live.swap_remove((state >> 40) as usize % live.len());
            script.0.free(key, None, key.is_multiple_of(5));
            pending.extend(key.is_multiple_of(5).then_some(key));
        }
        if pending.len() > 3 {
            script.0.complete(pending.remove(0));
        }
    }
    // Completions just before a failure belong to the failing call, as PyTorch waits for
    // all of them there: the importer puts them behind it.
    script.alloc(999, 100);
    script.0.attempt(
        1000,
        Ask {
            bytes: 1 << 30,
            ..Ask::default()
        },
    );
    script.finish()
}

#[test]
fn a_run_is_imported_again_as_the_trace_it_replayed() {
    let trace = busy();
    let snapshot = run(&trace, GROWS, 1 << 20);
    let mut bytes = Vec::new();
    snapshot::write(&snapshot, &mut bytes).expect("memory is writable");
    let read = snapshot::read(&bytes).expect("a sound pickle");
    let options = pytorch::Options::default();
    let again = pytorch::import(&read, "run.pickle", "run", options).expect("a snapshot");
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].initial_events, 0);
    let differs = again[0]
        .events
        .iter()
        .zip(&trace.events)
        .find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert_eq!(again[0].events.len(), trace.events.len());
    assert_eq!(again[0].times_ns, trace.times_ns);
    assert_eq!(
        (&again[0].tags, &again[0].streams),
        (&trace.tags, &trace.streams)
    );
}

#[test]
fn tags_are_frames() {
    assert_eq!(frame("forward@model.py:12"), ("forward", "model.py", 12));
    assert_eq!(frame("f@C:/a@b.py:7"), ("f", "C:/a@b.py", 7));
    assert_eq!(frame("the weights: all"), ("the weights: all", "", 0));
}
