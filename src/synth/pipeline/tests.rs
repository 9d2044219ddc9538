//! Streams, events and the three ways in which an input goes.

use crate::synth::Workload;
use crate::trace::{Event, Trace};

fn trace(options: &str) -> Trace {
    let text = format!("pipeline-4-streams:events=4000,{options}");
    Workload::find(&text).expect("it fits").trace(1)
}

fn count(trace: &Trace, what: impl Fn(&Event) -> bool) -> usize {
    trace.events.iter().filter(|event| what(event)).count()
}

#[test]
fn each_way_of_freeing_shows_in_the_trace() {
    let owner = trace("frees=[\"owner\"]");
    let consumer = trace("frees=[\"consumer\"]");
    let deferred = trace("frees=[\"deferred\"]");
    let mut owners = vec![0; consumer.slots as usize];
    let mut foreign = 0;
    for event in &consumer.events {
        match *event {
            Event::Alloc { slot, stream, .. } => owners[slot as usize] = stream,
            Event::Free { slot, stream, .. } => {
                foreign += usize::from(owners[slot as usize] != stream);
            }
            _ => {}
        }
    }
    let uses = |trace: &Trace| count(trace, |event| matches!(event, Event::Use { .. }));
    let waits = |trace: &Trace| count(trace, |event| matches!(event, Event::Wait { .. }));
    assert!(
        foreign.abs_diff(uses(&consumer)) <= 1,
        "every input is freed by its reader"
    );
    assert!(
        waits(&owner).abs_diff(2 * uses(&owner)) <= 1,
        "and both wait for each other"
    );
    let later = count(&deferred, |event| {
        matches!(event, Event::Free { deferred: true, .. })
    });
    let done = count(&deferred, |event| matches!(event, Event::Complete { .. }));
    // Three inputs a tick are under way for two ticks.
    assert!(
        later.abs_diff(uses(&deferred)) <= 1 && later - done <= 9,
        "{later}, {done}"
    );
    assert_eq!(waits(&consumer), uses(&consumer));
}

#[test]
fn a_stage_reads_only_what_was_recorded_before_it_waited() {
    let trace = trace("frees=[\"owner\",\"consumer\",\"deferred\"]");
    let mut owners = vec![0; trace.slots as usize];
    let mut recorded = [false; 4];
    let mut waited = [[false; 4]; 4];
    for (at, event) in trace.events.iter().enumerate() {
        match *event {
            Event::Alloc { slot, stream, .. } => owners[slot as usize] = stream,
            Event::Record { stream, event } => {
                assert_eq!(u32::from(stream), event);
                recorded[usize::from(stream)] = true;
                for stage in &mut waited {
                    stage[usize::from(stream)] = false;
                }
            }
            Event::Wait { stream, event } => {
                assert!(recorded[event as usize], "event {at}");
                waited[usize::from(stream)][event as usize] = true;
            }
            Event::Use { slot, stream } => {
                let owner = usize::from(owners[slot as usize]);
                assert!(waited[usize::from(stream)][owner], "event {at}");
            }
            _ => {}
        }
    }
    assert_eq!(recorded, [true; 4]);
}

/// Memory does not grow: a tick holds one output a stage and what is deferred.
#[test]
fn what_is_held_is_bounded_by_the_stages() {
    assert!(trace("stage=1ms").slots <= 4 + 1 + 9);
}
