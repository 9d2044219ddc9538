//! Which time an event has: what the page needs to show one axis as time or as events.

use super::pack::Pack;
use crate::observe::timeline::Bucket;
use crate::trace::Trace;

/// Times that are kept; between them the page takes the way straight on.
const MOST: usize = 400_000;

/// The times of a trace's events, and of its end.
pub(super) fn of_trace(trace: &Trace, pack: &mut Pack) {
    let events = trace.events.len();
    let step = events.div_ceil(MOST).max(1);
    let mut kept: Vec<usize> = (0..events).step_by(step).collect();
    let last = events.saturating_sub(1);
    kept.extend((!last.is_multiple_of(step)).then_some(last));
    let mut points: Vec<(u64, u64)> = kept
        .into_iter()
        .map(|event| (event as u64, trace.time_ns(event)))
        .collect();
    // What is never given back lasts a little longer than the last event.
    let end_ns = trace.time_ns(last) + u64::from(!trace.has_times()) * 1000;
    points.push((events as u64, end_ns));
    add(&points, pack);
}

/// The times of a timeline's buckets.
pub(super) fn of_timeline(buckets: &[Bucket], pack: &mut Pack) {
    let mut points: Vec<(u64, u64)> = Vec::new();
    for bucket in buckets {
        points.push((bucket.first_event, bucket.first_ns));
        if bucket.last_event > bucket.first_event {
            points.push((bucket.last_event, bucket.last_ns));
        }
    }
    add(&points, pack);
}

fn add(points: &[(u64, u64)], pack: &mut Pack) {
    pack.delta("clock.event", points.iter().map(|point| point.0));
    pack.delta("clock.ns", points.iter().map(|point| point.1));
}
