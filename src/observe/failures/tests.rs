use super::*;
use crate::observe::testing::{Script, Walk, replay};
use crate::space::Cause;
use crate::trace::builder::Ask;
use crate::trace::truth::{TruthEntry, TruthSegment};
use crate::trace::{ANY_STREAM, Event, Trace};
use crate::units::{GIB, MIB};

fn failures(trace: &Trace, policy: Walk, capacity_bytes: u64) -> Failures {
    let mut failures = Failures::default();
    replay(trace, policy, capacity_bytes, &mut failures);
    failures
}

fn verdicts(trace: &Trace, policy: Walk, capacity_bytes: u64) -> Vec<Verdict> {
    let failures = failures(trace, policy, capacity_bytes);
    failures
        .records()
        .iter()
        .map(|record| record.verdict)
        .collect()
}

/// Two used blocks of 1024 and two holes of 1024, then a request of 2048.
fn holed() -> Trace {
    let mut script = Script::new();
    for key in 0..4 {
        script.alloc(key, 1024);
    }
    script.free(0).free(2).alloc(4, 2048).finish()
}

#[test]
fn overflow_comes_before_capacity() {
    let trace = Script::new()
        .alloc(0, u64::MAX - 3)
        .alloc(1, u64::MAX - 255)
        .finish();
    assert_eq!(
        verdicts(&trace, Walk::default(), 4096),
        [Verdict::Overflow, Verdict::Capacity],
        "2^64 - 256 is a multiple of 256 and does not overflow"
    );
}

/// S38: a limit of 89.77 GiB, three of 27 GiB live, the fourth fails. No fragmentation.
#[test]
fn a_true_shortage_is_capacity() {
    let mut script = Script::new();
    for key in 0..4 {
        script.alloc(key, 27 * GIB);
    }
    let limit = 8977 * GIB / 100;
    let failures = failures(&script.finish(), Walk::default(), limit);
    let record = failures.records()[0];
    assert_eq!((record.event, record.verdict), (3, Verdict::Capacity));
    assert_eq!(record.requested_bytes, 81 * GIB);
    assert_eq!(failures.count(Verdict::Fragmentation), 0);
}

/// S15: 64 MiB asked, 2.60 GiB of 12 in use: no model can fail here.
#[test]
fn a_request_with_room_does_not_fail() {
    let trace = Script::new()
        .alloc(0, 26 * GIB / 10)
        .alloc(1, 64 * MIB)
        .finish();
    let failures = failures(&trace, Walk::default(), 12 * GIB);
    assert_eq!(failures.records(), []);
    assert!(failures.counts().all(|(_, count)| count == 0));
}

/// S35: 31.06 M asked, 58.64 M free, the largest block 30.56 M.
#[test]
fn scattered_memory_is_fragmentation() {
    const M: u64 = 1_000_000;
    let sizes = [2808, 1000, 3056, 1000].map(|hundredths| hundredths * M / 100);
    let mut script = Script::new();
    for (key, bytes) in sizes.into_iter().enumerate() {
        script.alloc(key as u64, bytes);
    }
    let trace = script.free(0).free(2).alloc(4, 3106 * M / 100).finish();
    let policy = Walk {
        quantum: 1,
        ..Walk::default()
    };
    let failures = failures(&trace, policy, sizes.iter().sum());
    let record = failures.records()[0];
    assert_eq!(record.verdict, Verdict::Fragmentation);
    assert_eq!(record.free_bytes, 5864 * M / 100);
    assert_eq!(record.largest_free_bytes, 3056 * M / 100);
}

#[test]
fn what_the_policy_knows_of_its_blocks_is_taken_over() {
    for (cause, verdict) in [
        (Cause::Pool, Verdict::Pool),
        (Cause::Stream, Verdict::Stream),
        (Cause::Class, Verdict::Class),
        (Cause::Pinned, Verdict::Pinned),
        (Cause::NoFit, Verdict::Fragmentation),
    ] {
        let policy = Walk {
            cause,
            ..Walk::default()
        };
        assert_eq!(verdicts(&holed(), policy, 4096), [verdict]);
        let control = Script::new().alloc(0, 4096).alloc(1, 1).finish();
        assert_eq!(
            verdicts(&control, policy, 4096),
            [Verdict::Capacity],
            "what cannot be served at all is no matter of pools, streams or classes"
        );
    }
}

#[test]
fn a_pending_block_that_fits_is_a_matter_of_streams() {
    let mut script = Script::new();
    script.alloc(0, 1024).alloc(1, 1024).free(0);
    script.0.free(1, None, true);
    script.alloc(2, 2048).alloc(3, 1024);
    script.0.complete(1);
    let trace = script.free(3).alloc(4, 2048).finish();
    let policy = Walk {
        blind: false,
        ..Walk::default()
    };
    assert_eq!(verdicts(&trace, policy, 2048), [Verdict::Stream]);
    assert_eq!(
        verdicts(&holed(), policy, 4096),
        [Verdict::Fragmentation],
        "control: holes that are not neighbours"
    );
}

/// S05 and S05b: freed on stream 1, asked for on stream 2 before the wait.
#[test]
fn memory_of_another_stream_is_a_matter_of_streams() {
    let mut script = Script::new();
    script
        .alloc_on(0, 2048, 1)
        .free(0)
        .alloc_on(1, 1024, 2)
        .alloc_on(2, 4096, 2);
    let stream = script.0.stream(1);
    script.0.push(Event::Sync { stream });
    let trace = script.alloc_on(3, 1024, 2).alloc_on(4, 1024, 1).finish();
    let policy = Walk {
        blind: false,
        ..Walk::default()
    };
    assert_eq!(
        verdicts(&trace, policy, 2048),
        [Verdict::Stream, Verdict::Capacity]
    );
}

/// 700 is rounded to 768 and leaves 232: 200 fits, 256 does not.
#[test]
fn a_request_that_would_fit_unrounded_is_rounding() {
    let trace = Script::new()
        .alloc(0, 700)
        .alloc(1, 200)
        .alloc(2, 240)
        .alloc(3, 301)
        .finish();
    assert_eq!(
        verdicts(&trace, Walk::default(), 1000),
        [Verdict::Rounding, Verdict::Fragmentation, Verdict::Capacity]
    );
    let grows = Walk {
        grows: true,
        ..Walk::default()
    };
    assert_eq!(
        verdicts(&trace, grows, 1000),
        [Verdict::Rounding, Verdict::Fragmentation, Verdict::Capacity],
        "the same where the driver would have given it"
    );
}

#[test]
fn a_hole_without_an_aligned_start_is_not_rounding() {
    let mut script = Script::new();
    script.alloc(0, 256).alloc(1, 512).alloc(2, 256).free(1);
    let ask = Ask {
        bytes: 300,
        align_log2: 10,
        ..Ask::default()
    };
    script.0.attempt(9, ask);
    assert_eq!(
        verdicts(&script.finish(), Walk::default(), 1024),
        [Verdict::Fragmentation]
    );
}

fn fact(event: u32, kind: TruthKind, address: u64, bytes: u64) -> TruthEntry {
    TruthEntry {
        event,
        kind,
        stream: 0,
        pool: 0,
        address,
        bytes,
    }
}

/// The recorded process had 1000 reserved and 500 of the card were free: others held
/// 2596 of 4096.
#[test]
fn a_card_held_by_others_is_outside() {
    let mut truth = Truth::default();
    truth.initial.push(TruthSegment {
        address: 0,
        bytes: 400,
        stream: 0,
        pool: 0,
        large: true,
        expandable: false,
        blocks: Vec::new(),
    });
    truth.entries = vec![
        fact(0, TruthKind::SegmentAlloc, 4096, 700),
        fact(0, TruthKind::SegmentFree, 4096, 100),
        fact(1, TruthKind::Oom, 500, 1024),
    ];
    let trace = Script::new()
        .alloc(0, 1024)
        .alloc(1, 1024)
        .alloc(2, 2048)
        .finish();
    let verdict = |capacity_bytes, card_bytes, truth: Option<&Truth>| {
        let mut config = crate::observe::testing::config(&trace, capacity_bytes);
        config.device = std::sync::Arc::new(crate::space::Device::bare(card_bytes));
        let mut failures = Failures::new(10, truth);
        crate::replay::Replay::new(Box::new(Walk::default()), config)
            .expect("room")
            .feed(&trace.events, &[], &mut failures);
        failures.records()[0].verdict
    };
    assert_eq!(verdict(1500, 4096, Some(&truth)), Verdict::Outside);
    assert_eq!(verdict(1500, 4096, None), Verdict::Capacity);
    assert_eq!(
        verdict(1500, 1600, Some(&truth)),
        Verdict::Capacity,
        "the card is too small"
    );
    assert_eq!(
        verdict(1499, 4096, Some(&truth)),
        Verdict::Capacity,
        "a cap below what was left"
    );
}

#[test]
fn all_are_counted_and_the_first_are_kept() {
    let mut script = Script::new();
    script.alloc(0, 4096);
    for key in 1..100 {
        script.alloc(key, 256);
    }
    script.0.push(Event::Sync { stream: ANY_STREAM });
    let mut failures = Failures::new(2, None);
    replay(&script.finish(), Walk::default(), 4096, &mut failures);
    assert_eq!(failures.count(Verdict::Capacity), 99);
    let mut text = Vec::new();
    failures.write_csv(&mut text).expect("memory is writable");
    assert_eq!(
        String::from_utf8(text).expect("it is text"),
        "event,time_ns,bytes,wanted_bytes,stream,pool,tag,requested_bytes,occupied_bytes,\
         reserved_bytes,free_bytes,largest_free_bytes,verdict\n\
         1,1000,256,256,0,0,0,4096,4096,4096,0,0,capacity\n\
         2,2000,256,256,0,0,0,4096,4096,4096,0,0,capacity\n"
    );
    assert!(
        Verdict::Capacity
            .to_string()
            .starts_with("capacity: the request and what is live")
    );
}
