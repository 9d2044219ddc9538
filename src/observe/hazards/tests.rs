use super::*;
use crate::observe::testing::{Script, Walk, replay};
use crate::trace::Trace;

fn hazards(trace: &Trace, policy: Walk, capacity_bytes: u64) -> Hazards {
    let mut hazards = Hazards::new(trace.streams.len(), policy.blind).expect("several streams");
    replay(trace, policy, capacity_bytes, &mut hazards);
    hazards
}

fn events(hazards: &Hazards) -> Vec<(u64, u64, Option<StreamId>)> {
    let shown = |hazard: &Hazard| (hazard.event, hazard.address, hazard.behind);
    hazards.first().iter().map(shown).collect()
}

fn order(script: &mut Script, from: u64, to: u64, event: u32) {
    let (from, to) = (script.0.stream(from), script.0.stream(to));
    script.0.push(Event::Record {
        stream: from,
        event,
    });
    script.0.push(Event::Wait { stream: to, event });
}

/// Scenario S04, blind: d gets 1024 on stream 2 while stream 1 may still use it.
#[test]
fn reuse_before_the_wait_is_one_hazard() {
    let mut script = Script::new();
    script
        .alloc_on(0, 1024, 1)
        .alloc_on(1, 1024, 1)
        .free(0)
        .alloc_on(2, 1024, 1)
        .free(1);
    script.alloc_on(3, 1024, 2);
    order(&mut script, 1, 2, 0);
    let trace = script.alloc_on(4, 1024, 2).alloc_on(5, 1024, 1).finish();
    let one = trace
        .streams
        .iter()
        .position(|raw| *raw == 1)
        .expect("stream 1") as StreamId;
    let hazards = hazards(&trace, Walk::default(), 4096);
    assert_eq!(events(&hazards), [(5, 1024, Some(one))]);
}

/// Scenario S05, blind: b gets half of what stream 1 freed, too early; c gets the other
/// half after the host waited for stream 1; d fails.
#[test]
fn reuse_after_the_host_waited_is_none() {
    let mut script = Script::new();
    script.alloc_on(0, 2048, 1).free(0).alloc_on(1, 1024, 2);
    let stream = script.0.stream(1);
    script.0.push(Event::Sync { stream });
    let trace = script.alloc_on(2, 1024, 2).alloc_on(3, 1024, 1).finish();
    let hazards = hazards(&trace, Walk::default(), 2048);
    assert_eq!(events(&hazards), [(2, 0, Some(stream))]);
}

#[test]
fn a_wait_passes_on_what_was_waited_for_before() {
    let mut script = Script::new();
    script.alloc_on(0, 2048, 1).free(0);
    order(&mut script, 1, 2, 0);
    order(&mut script, 2, 3, 1);
    let trace = script.alloc_on(1, 2048, 3).finish();
    assert_eq!(hazards(&trace, Walk::default(), 2048).count(), 0);
}

/// Stream 2 took it too early and freed it; stream 3 waited for stream 2 alone.
#[test]
fn a_range_handed_out_too_early_is_still_behind_its_first_stream() {
    let mut script = Script::new();
    script
        .alloc_on(0, 2048, 1)
        .free(0)
        .alloc_on(1, 1024, 2)
        .free(1);
    order(&mut script, 2, 3, 0);
    script.alloc_on(2, 1024, 3).free(2);
    order(&mut script, 1, 3, 1);
    let trace = script.alloc_on(3, 512, 3).finish();
    let hazards = hazards(&trace, Walk::default(), 2048);
    assert_eq!((hazards.count(), hazards.first()[1].event), (2, 6));
}

#[test]
fn one_request_over_many_ranges_is_one_hazard() {
    let mut script = Script::new();
    for key in 0..4 {
        script.alloc_on(key, 1024, key % 2);
    }
    for key in 0..4 {
        script.free(key);
    }
    let trace = script.alloc_on(4, 4096, 2).alloc_on(5, 256, 2).finish();
    assert_eq!(hazards(&trace, Walk::default(), 4096).count(), 1);
}

/// A deferred free holds every stream, its own included, until it completes; another
/// stream must be ordered even then.
#[test]
fn a_deferred_free_holds_until_it_completes() {
    let mut script = Script::new();
    script.alloc_on(0, 1024, 1);
    script.0.free(0, None, true);
    script.alloc_on(1, 512, 1);
    script.0.complete(0);
    script.alloc_on(2, 256, 1).alloc_on(3, 256, 2);
    let stream = script.0.stream(1);
    let hazards = hazards(&script.finish(), Walk::default(), 1024);
    assert_eq!(events(&hazards), [(2, 0, None), (5, 768, Some(stream))]);
}

#[test]
fn a_stream_that_was_told_to_use_a_block_holds_it() {
    let mut script = Script::new();
    script.alloc_on(0, 1024, 1);
    let (slot, stream) = (script.0.slot(0).expect("live"), script.0.stream(2));
    script.0.push(Event::Use { slot, stream });
    script.free(0).alloc_on(1, 256, 1);
    order(&mut script, 2, 1, 0);
    let trace = script.alloc_on(2, 256, 1).finish();
    assert_eq!(
        events(&hazards(&trace, Walk::default(), 1024)),
        [(3, 0, Some(stream))]
    );
}

#[test]
fn what_waits_for_the_device_settles_everything() {
    let trace = |event: Event| {
        let mut script = Script::new();
        script.alloc_on(0, 1024, 1).alloc_on(1, 1024, 1).free(0);
        script.0.push(event);
        script.alloc_on(2, 512, 2).finish()
    };
    let grows = Walk {
        grows: true,
        ..Walk::default()
    };
    let count = |event, policy| hazards(&trace(event), policy, 2048).count();
    assert_eq!(
        count(Event::Sync { stream: ANY_STREAM }, Walk::default()),
        0
    );
    assert_eq!(count(Event::Compact, Walk::default()), 0, "a block moved");
    assert_eq!(count(Event::Trim, grows), 0, "the segment went back");
    assert_eq!(count(Event::FreeAt { address: 1024 }, Walk::default()), 0);
    assert_eq!(
        count(Event::Mark { label: 0 }, Walk::default()),
        1,
        "control"
    );
}

#[test]
fn there_is_nothing_to_watch_on_one_stream_or_under_a_policy_that_orders() {
    assert!(Hazards::new(1, true).is_none());
    assert!(Hazards::new(4, false).is_none());
}
