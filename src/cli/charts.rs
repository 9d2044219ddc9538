//! Charts of what cells saw.

use crate::experiment::{Ended, Scene, Seen};
use crate::observe::map::When;
use crate::observe::timeline::{Bucket, Range, Timeline};
use crate::observe::warnings::{FRAGMENTATION_PPM, SUCCESS_PPM};
use crate::observe::{AddressMap, RequestSizes};
use crate::plot::{
    self, Axis, BarChart, Chart, Colouring, Guide, LineChart, Outcome, Point, Rect, Segment,
    Series, Shape, SizeBin, SizeHistogram, Unit, size_classes,
};
use crate::trace::{Event, Trace};
use crate::units::format_bytes;

/// Success below this is warned of, in percent.
const WARN_SUCCESS: f64 = SUCCESS_PPM as f64 / 1e4;
/// External fragmentation above this is warned of, in percent.
const WARN_FRAGMENTATION: f64 = FRAGMENTATION_PPM as f64 / 1e4;

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
        Point::range(x as f64, low, high)
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
        apart: false,
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
        apart: false,
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

/// Which addresses were in use when, under one policy.
pub fn map(scene: &Scene, policy: &str, map: &AddressMap) -> Chart {
    let timed = scene.trace.has_times();
    let at = |when: When| if timed { when.time_ns } else { when.event } as f64;
    let mut rects: Vec<Rect> = map
        .rectangles
        .iter()
        .map(|block| Rect {
            x0: at(block.from),
            x1: at(block.to),
            address: block.address,
            bytes: block.bytes,
            class: 0,
        })
        .collect();
    let classes = size_classes(&mut rects);
    rects.extend(raster(map, at));
    let segments = map.mapped.iter().map(|range| Segment {
        x0: at(range.from),
        x1: at(range.to),
        address: range.address,
        bytes: range.bytes,
    });
    let failed = map.columns.iter().filter(|column| column.failed > 0);
    Chart::Map(plot::AddressMap {
        title: format!("Addresses in use under {policy}"),
        subtitle: subtitle(scene),
        x: axis(&scene.trace),
        segments: segments.collect(),
        rects,
        classes,
        class_label: "block size".into(),
        colouring: Colouring::Ordered,
        failures: failed.map(|column| at(column.from)).collect(),
    })
}

/// The cells of the raster that are mostly in use, as blocks of the smallest class:
/// what is not kept as it is, is what is smallest.
fn raster<'a>(map: &'a AddressMap, at: impl Fn(When) -> f64 + 'a) -> impl Iterator<Item = Rect> {
    let mostly = map
        .cells
        .iter()
        .filter(|cell| cell.occupancy_ppm >= 500_000);
    mostly.map(move |cell| {
        let column = cell.column as usize;
        let next = map.columns.get(column + 1);
        Rect {
            x0: at(map.columns[column].from),
            x1: at(next.map_or(map.end, |next| next.from)),
            address: cell.address,
            bytes: cell.bytes,
            class: 0,
        }
    })
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
