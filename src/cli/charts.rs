//! Charts of what cells saw.

use crate::experiment::{Ended, Scene, Seen};
use crate::observe::RequestSizes;
use crate::observe::timeline::{Bucket, Range, Timeline};
use crate::plot::{
    Axis, BarChart, Chart, Guide, LineChart, Outcome, Point, Series, Shape, SizeBin, SizeHistogram,
    Unit,
};
use crate::trace::{Event, Trace};
use crate::units::format_bytes;

/// Success below this is warned of, in percent.
const WARN_SUCCESS: f64 = 90.0;
/// External fragmentation above this is warned of, in percent.
const WARN_FRAGMENTATION: f64 = 30.0;

/// What every chart of a trace says below its title.
fn subtitle(scene: &Scene) -> String {
    format!(
        "{}, capacity {}, card {}",
        scene.trace.name,
        format_bytes(scene.capacity.bytes),
        scene.device.name
    )
}

/// The horizontal axis: time where the trace has times, else the number of the event.
fn axis(trace: &Trace) -> Axis {
    if trace.has_times() {
        Axis::new("trace time", Unit::TimeNs)
    } else {
        Axis::new("event", Unit::Events)
    }
}

fn series(
    trace: &Trace,
    timeline: &Timeline,
    name: &str,
    shape: Shape,
    value: impl Fn(&Bucket) -> Option<Range>,
) -> Series {
    let point = |bucket: &Bucket| {
        let x = if trace.has_times() {
            bucket.last_ns
        } else {
            bucket.last_event
        };
        let (low, high) = value(bucket).map_or((f64::NAN, f64::NAN), |range| {
            (range.min as f64, range.max as f64)
        });
        Point {
            x: x as f64,
            low,
            high,
        }
    };
    Series {
        name: name.to_owned(),
        shape,
        points: timeline.buckets().iter().map(point).collect(),
    }
}

/// External fragmentation over time, one curve a policy.
pub fn fragmentation(scene: &Scene, cells: &[&Seen]) -> Chart {
    let curve = |seen: &&Seen| {
        let name = &seen.row.policy;
        let value = |bucket: &Bucket| bucket.external_fragmentation_ppm;
        let mut curve = series(&scene.trace, &seen.timeline, name, Shape::Step, value);
        for point in &mut curve.points {
            // From parts per million to percent.
            (point.low, point.high) = (point.low / 1e4, point.high / 1e4);
        }
        curve
    };
    Chart::Lines(LineChart {
        title: "External fragmentation over time".into(),
        subtitle: subtitle(scene),
        x: axis(&scene.trace),
        y: Axis::new("1 - largest free / free", Unit::Percent),
        series: cells.iter().map(curve).collect(),
        guides: vec![Guide {
            value: WARN_FRAGMENTATION,
            label: format!("warning above {WARN_FRAGMENTATION} %"),
        }],
    })
}

/// Requested, occupied and reserved bytes over time under one policy.
pub fn memory(scene: &Scene, seen: &Seen) -> Chart {
    let trace = &scene.trace;
    let curve = |name, shape, value: fn(&Bucket) -> Range| {
        series(trace, &seen.timeline, name, shape, |bucket| {
            Some(value(bucket))
        })
    };
    Chart::Lines(LineChart {
        title: format!("Memory over time under {}", seen.row.policy),
        subtitle: subtitle(scene),
        x: axis(trace),
        y: Axis::new("memory", Unit::Bytes),
        series: vec![
            curve("reserved", Shape::Step, |bucket| bucket.reserved_bytes),
            curve("occupied", Shape::Step, |bucket| bucket.occupied_bytes),
            curve("requested", Shape::Step, |bucket| bucket.requested_bytes),
        ],
        guides: vec![Guide {
            value: scene.capacity.bytes as f64,
            label: "capacity".into(),
        }],
    })
}

/// Failures and success rate of each policy.
pub fn outcomes(scene: &Scene, cells: &[&Ended]) -> Chart {
    let rows = cells.iter().filter_map(|ended| ended.row());
    let outcome = |row: &crate::observe::Row| Outcome {
        policy: row.policy.clone(),
        requests: row.served + row.failed,
        failed: row.failed,
    };
    let outcomes: Vec<Outcome> = rows.map(outcome).collect();
    Chart::Bars(BarChart::outcomes(
        "Failures and success rate",
        &subtitle(scene),
        &outcomes,
        WARN_SUCCESS,
    ))
}

/// How many requests of which size the trace makes.
pub fn sizes(scene: &Scene) -> Chart {
    let sizes = request_sizes(&scene.trace);
    let bins = (0u32..).zip(sizes.0.bins);
    let bin = |(log2, bin): (u32, crate::observe::histogram::Bin)| SizeBin {
        log2,
        count: bin.count,
        bytes: bin.bytes,
    };
    Chart::Histogram(SizeHistogram {
        title: "Request sizes".into(),
        subtitle: scene.trace.name.clone(),
        bins: bins.filter(|(_, bin)| bin.count > 0).map(bin).collect(),
        zeros: sizes.0.zeros,
    })
}

/// The sizes of a trace's requests by powers of two.
pub fn request_sizes(trace: &Trace) -> RequestSizes {
    let mut sizes = RequestSizes::default();
    for event in &trace.events {
        if let Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. } = *event {
            sizes.0.add(bytes);
        }
    }
    sizes
}
