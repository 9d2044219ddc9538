//! Charts of what cells saw.

use crate::experiment::Scene;
use crate::observe::map::When;
use crate::observe::timeline::{Bucket, Range};
use crate::observe::warnings::{FRAGMENTATION_PPM, SUCCESS_PPM};
use crate::observe::{AddressMap, RequestSizes, Row};
use crate::plot::experiment::pareto;
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

/// What the charts of a comparison say below their titles; rows and a manifest tell it too.
pub struct Caption<'a> {
    /// The trace's name.
    pub trace: &'a str,
    /// What may be reserved.
    pub capacity_bytes: u64,
    /// The card's name.
    pub card: &'a str,
}

impl<'a> Caption<'a> {
    /// Of a trace on a card.
    pub fn of(scene: &'a Scene) -> Self {
        Caption {
            trace: &scene.trace.name,
            capacity_bytes: scene.capacity.bytes,
            card: &scene.device.name,
        }
    }

    fn words(&self) -> String {
        let capacity = format_bytes(self.capacity_bytes);
        format!("{}, capacity {capacity}, card {}", self.trace, self.card)
    }
}

/// A policy's name and its timeline.
pub type Timed<'a> = (&'a str, &'a [Bucket]);

/// Whether a timeline has times of its own: without any, an event counts 1 us.
pub fn timed(buckets: &[Bucket]) -> bool {
    let counted = |bucket: &Bucket| {
        let (first, last) = (bucket.first_event, bucket.last_event);
        (bucket.first_ns, bucket.last_ns) == (first * 1000, last * 1000)
    };
    !buckets.iter().all(counted)
}

/// The horizontal axis: time where the trace has times, else the number of the event.
fn axis(timed: bool) -> Axis {
    if timed {
        Axis::new("trace time", Unit::TimeNs)
    } else {
        Axis::new("event", Unit::Events)
    }
}

fn series(
    timed: bool,
    buckets: &[Bucket],
    name: &str,
    shape: Shape,
    value: impl Fn(&Bucket) -> Option<Range>,
) -> Series {
    let point = |bucket: &Bucket| {
        let x = if timed {
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
        points: buckets.iter().map(point).collect(),
    }
}

/// External fragmentation over time, one curve a policy.
pub fn fragmentation(caption: &Caption<'_>, timelines: &[Timed<'_>]) -> Chart {
    let timed = timelines.iter().any(|(_, buckets)| timed(buckets));
    let curve = |(name, buckets): &Timed<'_>| {
        let value = |bucket: &Bucket| bucket.external_fragmentation_ppm;
        let mut curve = series(timed, buckets, name, Shape::Step, value);
        for point in &mut curve.points {
            // From parts per million to percent.
            (point.low, point.high) = (point.low / 1e4, point.high / 1e4);
        }
        curve
    };
    Chart::Lines(LineChart {
        title: "External fragmentation over time".into(),
        subtitle: caption.words(),
        x: axis(timed),
        y: Axis::new("1 - largest free / free", Unit::Percent),
        series: timelines.iter().map(curve).collect(),
        guides: vec![Guide {
            value: WARN_FRAGMENTATION,
            label: format!("warning above {WARN_FRAGMENTATION} %"),
        }],
        apart: false,
    })
}

/// Requested, occupied and reserved bytes over time under one policy.
pub fn memory(caption: &Caption<'_>, (policy, buckets): Timed<'_>) -> Chart {
    let timed = timed(buckets);
    let curve = |name, shape, value: fn(&Bucket) -> Range| {
        series(timed, buckets, name, shape, |bucket| Some(value(bucket)))
    };
    Chart::Lines(LineChart {
        title: format!("Memory over time under {policy}"),
        subtitle: caption.words(),
        x: axis(timed),
        y: Axis::new("memory", Unit::Bytes),
        series: vec![
            curve("reserved", Shape::Step, |bucket| bucket.reserved_bytes),
            curve("occupied", Shape::Step, |bucket| bucket.occupied_bytes),
            curve("requested", Shape::Step, |bucket| bucket.requested_bytes),
        ],
        guides: vec![Guide {
            value: caption.capacity_bytes as f64,
            label: "capacity".into(),
        }],
        apart: false,
    })
}

/// What of a comparison is drawn from the rows alone, with the stems of the files.
pub fn of_rows(caption: &Caption<'_>, rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let outcome = |row: &Row| Outcome {
        policy: row.policy.clone(),
        requests: row.served + row.failed,
        failed: row.failed,
    };
    let outcomes: Vec<Outcome> = rows.iter().map(outcome).collect();
    let title = "Failures and success rate";
    let bars = BarChart::outcomes(title, &caption.words(), &outcomes, WARN_SUCCESS);
    let mut charts = vec![("outcomes", Chart::Bars(bars))];
    let policies: Vec<(&str, Vec<&Row>)> = rows
        .iter()
        .map(|row| (row.policy.as_str(), vec![row]))
        .collect();
    charts.extend(pareto(&caption.words(), &policies).map(|chart| ("pareto", chart)));
    charts
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
        subtitle: Caption::of(scene).words(),
        x: axis(timed),
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
