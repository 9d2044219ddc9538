use super::*;
use crate::observe::testing::{EachMoment, Walk, mixed, replay};

#[test]
fn a_spike_of_one_event_in_ten_million_survives() {
    const EVENTS: u64 = 10_000_000;
    const SPIKE: u64 = 7_654_321;
    let mut timeline = Timeline::default();
    let calm = Sample {
        requested_bytes: 1000,
        occupied_bytes: 1024,
        reserved_bytes: 4096,
        free_bytes: 3072,
        largest_free_bytes: 3072,
        failed: 0,
    };
    for event in 0..EVENTS {
        let mut sample = calm;
        if event == SPIKE {
            (sample.requested_bytes, sample.largest_free_bytes) = (1001, 1536);
        }
        if event == EVENTS - 1 {
            (sample.failed, sample.requested_bytes) = (1, 7);
        }
        timeline.add(event, event * 10, &sample);
    }
    let buckets = timeline.buckets();
    assert!(
        buckets.len() > 1024 && buckets.len() <= 2048,
        "{}",
        buckets.len()
    );
    let spiky: Vec<_> = buckets
        .iter()
        .filter(|bucket| bucket.requested_bytes.max == 1001)
        .collect();
    assert_eq!(spiky.len(), 1);
    assert!((spiky[0].first_event..=spiky[0].last_event).contains(&SPIKE));
    assert_eq!(
        spiky[0].external_fragmentation_ppm,
        Some(Range {
            min: 0,
            max: 500_000,
            last: 0
        })
    );
    let (first, last) = (buckets[0], buckets[buckets.len() - 1]);
    assert_eq!((first.first_event, first.first_ns), (0, 0));
    assert_eq!(
        (last.last_event, last.last_ns),
        (EVENTS - 1, (EVENTS - 1) * 10)
    );
    assert_eq!((last.failed, last.requested_bytes.last), (1, 7));
    let spanned: u64 = buckets.iter().map(Bucket::events).sum();
    assert_eq!(spanned, EVENTS, "every event is in one bucket");
}

/// Against all samples kept: minimum, maximum and last of every bucket, at every length.
#[test]
fn buckets_tell_the_same_as_all_samples() {
    let mut timeline = Timeline::new(5);
    let mut values = Vec::new();
    for event in 0..200u64 {
        let value = event * 7919 % 101;
        values.push(value);
        let sample = Sample {
            free_bytes: value,
            largest_free_bytes: value / 2,
            ..Sample::default()
        };
        timeline.add(event, event, &sample);
        assert!(timeline.buckets().len() <= 5);
        let mut next = 0;
        for bucket in timeline.buckets() {
            assert_eq!(bucket.first_event, next, "buckets leave no gap");
            let all = &values[next as usize..=bucket.last_event as usize];
            assert_eq!(Some(&bucket.free_bytes.min), all.iter().min());
            assert_eq!(Some(&bucket.free_bytes.max), all.iter().max());
            assert_eq!(Some(&bucket.free_bytes.last), all.last());
            next = bucket.last_event + 1;
        }
        assert_eq!(next, event + 1);
    }
}

#[test]
fn events_seen_in_runs_and_one_by_one_make_one_timeline() {
    let trace = mixed();
    for grows in [false, true] {
        let policy = Walk {
            grows,
            ..Walk::default()
        };
        let mut in_runs = Timeline::new(100);
        replay(&trace, policy, 24_000, &mut in_runs);
        let mut singly = (Timeline::new(100), EachMoment);
        replay(&trace, policy, 24_000, &mut singly);
        assert_eq!(in_runs.buckets(), singly.0.buckets());
        assert!(in_runs.last.failed > 10, "{}", in_runs.last.failed);
    }
}

#[test]
fn the_csv_leaves_undefined_cells_empty() {
    let mut timeline = Timeline::default();
    timeline.add(0, 5, &Sample::default());
    let mut text = Vec::new();
    timeline.write_csv(&mut text).expect("memory is writable");
    let text = String::from_utf8(text).expect("it is text");
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    assert!(header.starts_with(
        "first_event,last_event,first_ns,last_ns,requested_bytes,min_requested_bytes,"
    ));
    assert!(header.ends_with("max_external_fragmentation_ppm,failed"));
    assert_eq!(
        lines.next(),
        Some("0,0,5,5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,,,,0")
    );
}
