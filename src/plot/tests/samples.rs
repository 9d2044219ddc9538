//! Charts as they come in use, and at their edges, from a small generator of its own.

use crate::plot::{
    AddressMap, Axis, BarChart, Chart, Colouring, Guide, LineChart, Outcome, Point, Rect, Segment,
    Series, Shape, SizeHistogram, Unit, size_classes,
};

pub const POLICIES: [&str; 12] = [
    "best-fit",
    "first-fit",
    "next-fit",
    "worst-fit",
    "size-class",
    "buddy",
    "tlsf",
    "stream-first-fit",
    "compaction:over=best-fit,threshold=0.3,interval=5min",
    "pytorch",
    "pytorch:max_split_size_mb:128,expandable_segments:True,garbage_collection_threshold:0.8",
    "rmm-arena",
];
pub const SUBTITLE: &str =
    "gpt2-varlen, 48 213 events, capacity 8 GiB (8 589 934 592 bytes), seed 7";
pub const GIB: f64 = 1073741824.0;

/// Numbers that look random (splitmix64).
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        b ^ (b >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn walk(seed: u64, count: usize, top: f64, step_ns: f64) -> Vec<Point> {
    let mut noise = Noise(seed);
    let mut level = 0.2 + 0.4 * noise.unit();
    let points = (0..count).map(|i| {
        level =
            (level + (noise.unit() - 0.5) * 0.08 * (600.0 / count as f64).sqrt()).clamp(0.01, 0.97);
        Point::at(i as f64 * step_ns, level * top)
    });
    points.collect()
}

fn lines(title: &str, y: Axis, series: Vec<Series>, guides: Vec<Guide>) -> Chart {
    let (title, subtitle, x) = (
        title.to_owned(),
        SUBTITLE.to_owned(),
        Axis::new("trace time", Unit::TimeNs),
    );
    Chart::Lines(LineChart {
        title,
        subtitle,
        x,
        y,
        series,
        guides,
        apart: false,
    })
}

fn warning() -> Vec<Guide> {
    vec![Guide {
        value: 30.0,
        label: "warning above 30 %".into(),
    }]
}

/// Fragmentation of so many policies at so many points, with gaps where it is undefined.
pub fn fragmentation(policies: usize, points: usize) -> Chart {
    let series = (0..policies).map(|at| {
        let name = match POLICIES.get(at) {
            Some(name) => (*name).to_owned(),
            None => format!("user-policy-{at}"),
        };
        let mut points = walk(at as u64 + 1, points, 100.0, 4e6);
        let count = points.len();
        for point in points.iter_mut().skip(count / 3).take(count / 20) {
            point.high = f64::NAN;
        }
        Series {
            name,
            shape: Shape::Line,
            points,
        }
    });
    let y = Axis::new("external fragmentation", Unit::Percent);
    lines(
        "External fragmentation over time",
        y,
        series.collect(),
        warning(),
    )
}

fn memory(count: usize, top: f64, capacity: f64) -> Chart {
    let requested = walk(11, count, top * 0.8, 86e9);
    let more = |factor: f64, points: &[Point]| -> Vec<Point> {
        points
            .iter()
            .map(|p| Point::at(p.x, p.high * factor))
            .collect()
    };
    let occupied = more(1.08, &requested);
    let mut peak = 0.0f64;
    let reserved = occupied.iter().map(|p| {
        peak = peak.max(p.high);
        Point::at(p.x, (peak / (0.02 * top)).ceil() * 0.02 * top)
    });
    let reserved = reserved.collect();
    let series = [
        ("reserved", reserved),
        ("occupied", occupied),
        ("requested", requested),
    ];
    let series = series.map(|(name, points)| Series {
        name: name.into(),
        shape: Shape::Area,
        points,
    });
    let guides = vec![Guide {
        value: capacity,
        label: format!("capacity {} GiB", capacity / GIB),
    }];
    lines(
        "Memory over time, best-fit",
        Axis::new("memory", Unit::Bytes),
        series.to_vec(),
        guides,
    )
}

fn bands() -> Chart {
    let series = ["best-fit", "first-fit", "buddy"]
        .into_iter()
        .enumerate()
        .map(|(at, name)| {
            let points = walk(at as u64 + 40, 300, 100.0, 1e9);
            let wide = |p: &Point| Point::range(p.x, p.low * 0.8, (p.high * 1.1).min(100.0));
            Series {
                name: name.into(),
                shape: Shape::Line,
                points: points.iter().map(wide).collect(),
            }
        });
    let y = Axis::new("external fragmentation", Unit::Percent);
    lines("Extremes of 64 seeds", y, series.collect(), warning())
}

fn outcomes(title: &str, failed: impl Fn(usize) -> u64, requests: u64) -> Chart {
    let rows = POLICIES.iter().enumerate().map(|(at, policy)| Outcome {
        policy: (*policy).to_owned(),
        requests,
        failed: failed(at),
    });
    let rows: Vec<Outcome> = rows.collect();
    Chart::Bars(BarChart::outcomes(title, SUBTITLE, &rows, 90.0))
}

/// Blocks in segments far apart, at the upper end of what 64 bits hold.
pub fn map(blocks: usize, segments: u64) -> Chart {
    let mut noise = Noise(5);
    let bytes = 1u64 << 30;
    let top = u64::MAX - bytes * 40 * segments + 1;
    let base = |at: u64| {
        if segments == 1 {
            0x7f12_3400_0000
        } else {
            top + at * bytes * 40
        }
    };
    let mut rects = Vec::new();
    let mut place = [(0.0, 0u64); 1];
    while rects.len() < blocks {
        let (x, at) = place[0];
        let size = 512u64 << (noise.next() % 16) << (noise.next() % 4);
        let address = (noise.next() % (bytes - size)) / 512 * 512;
        let length = 2e9 * noise.unit() * noise.unit() * 4000.0 / blocks as f64 + 1e6;
        let segment = noise.next() % segments;
        let x1 = if noise.next().is_multiple_of(50) {
            f64::INFINITY
        } else {
            x + length * 40.0
        };
        rects.push(Rect {
            x0: x,
            x1,
            address: base(segment) + address,
            bytes: size,
            class: 0,
        });
        place[0] = (x + 1e11 / blocks as f64, at + 1);
    }
    let classes = size_classes(&mut rects);
    let segments = (0..segments).map(|at| Segment {
        x0: at as f64 * 1e10,
        x1: f64::NAN,
        address: base(at),
        bytes: if at + 1 == segments { bytes - 1 } else { bytes },
    });
    let segments = segments.collect();
    let failures = (0..40).map(|_| 5e10 + 3e10 * noise.unit()).collect();
    Chart::Map(AddressMap {
        title: "Address map, best-fit".into(),
        subtitle: SUBTITLE.into(),
        x: Axis::new("trace time", Unit::TimeNs),
        segments,
        rects,
        classes,
        class_label: "block size".into(),
        colouring: Colouring::Ordered,
        failures,
    })
}

/// Blocks of four streams side by side, few enough to be seen one by one.
fn streams() -> Chart {
    let rects = (0..120u64).map(|at| {
        let (lane, turn) = (at % 6, (at / 6) as f64);
        let bytes = (1 << 20) * (1 + (at * 7) % 4);
        let x0 = turn * 10.0 + lane as f64;
        Rect {
            x0,
            x1: x0 + 8.0,
            address: lane * (4 << 20),
            bytes,
            class: (at % 4) as usize,
        }
    });
    Chart::Map(AddressMap {
        title: "Address map by stream, stream-first-fit".into(),
        subtitle: "four streams, 120 blocks".into(),
        x: Axis::new("event", Unit::Events),
        segments: vec![Segment {
            x0: 0.0,
            x1: 220.0,
            address: 0,
            bytes: 24 << 20,
        }],
        rects: rects.collect(),
        classes: (0..4).map(|stream| format!("stream {stream}")).collect(),
        class_label: "stream".into(),
        colouring: Colouring::Named,
        failures: Vec::new(),
    })
}

fn sizes(count: usize, spread: u64) -> Chart {
    let mut noise = Noise(9);
    let size = |_| (64 + noise.next() % 64) << (noise.next() % spread).min(noise.next() % spread);
    let sizes: Vec<u64> = (0..count).map(size).chain([0, 0, 0]).collect();
    Chart::Histogram(SizeHistogram::of(
        "Sizes of requests",
        "gpt2-varlen, 48 213 events",
        sizes,
    ))
}

fn empty_map() -> Chart {
    let Chart::Map(mut chart) = map(1, 1) else {
        unreachable!("a map is a map")
    };
    (chart.rects, chart.segments, chart.failures) = (Vec::new(), Vec::new(), Vec::new());
    Chart::Map(chart)
}

/// A chart whose words are as bad as words can be.
fn words() -> Chart {
    let name = "an-unreasonably-long-policy-name-without-any-blank".repeat(5);
    let odd = "<script>&\"quoted\"\u{1}\n</script> µ → ∞".to_owned();
    let series = [name.clone(), odd.clone(), name + "2"]
        .into_iter()
        .enumerate()
        .map(|(at, name)| Series {
            name,
            shape: Shape::Step,
            points: walk(at as u64, 50, 2e7, 1e15),
        });
    let title = "A title that goes on and on, as titles of papers like to do, ".repeat(6);
    Chart::Lines(LineChart {
        title,
        subtitle: odd.repeat(6),
        x: Axis::new("trace time", Unit::TimeNs),
        y: Axis::new("moved", Unit::Number),
        series: series.collect(),
        guides: Vec::new(),
        apart: false,
    })
}

/// Every sample with the name of its file.
pub fn all() -> Vec<(&'static str, Chart)> {
    let y = || Axis::new("external fragmentation", Unit::Percent);
    let single = |points| Series {
        name: "best-fit".into(),
        shape: Shape::Line,
        points,
    };
    let late = (0..200).map(|i| Point::at(1.7e18 + f64::from(i) * 1e6, f64::from(i % 7)));
    vec![
        ("fragmentation-3", fragmentation(3, 600)),
        ("fragmentation-8", fragmentation(8, 600)),
        ("fragmentation-12", fragmentation(12, 600)),
        ("fragmentation-30", fragmentation(30, 200)),
        ("fragmentation-dense", fragmentation(4, 20_000)),
        (
            "fragmentation-empty",
            lines(
                "Fragmentation, nothing recorded",
                y(),
                Vec::new(),
                warning(),
            ),
        ),
        (
            "fragmentation-point",
            lines(
                "One point",
                y(),
                vec![single(vec![Point::at(5e9, 12.0)])],
                vec![],
            ),
        ),
        (
            "fragmentation-late",
            lines(
                "Clock of the day",
                y(),
                vec![single(late.collect())],
                warning(),
            ),
        ),
        ("bands", bands()),
        ("memory", memory(900, 7.0 * GIB, 8.0 * GIB)),
        ("memory-far-capacity", memory(900, 0.7 * GIB, 80.0 * GIB)),
        (
            "outcomes",
            outcomes(
                "Failures and success",
                |at| [0, 3, 181, 5210, 48_000][at % 5],
                48_213,
            ),
        ),
        ("outcomes-none", outcomes("No failures", |_| 0, 48_213)),
        (
            "outcomes-all",
            outcomes("Nothing but failures", |_| u64::MAX, u64::MAX),
        ),
        ("outcomes-undefined", outcomes("No requests", |_| 0, 0)),
        (
            "outcomes-empty",
            Chart::Bars(BarChart::outcomes("No policies", SUBTITLE, &[], 90.0)),
        ),
        ("map", map(1500, 1)),
        ("map-segments", map(3000, 5)),
        ("map-dense", map(120_000, 3)),
        ("map-streams", streams()),
        ("map-empty", empty_map()),
        ("sizes", sizes(48_213, 18)),
        ("sizes-wide", sizes(48_213, 40)),
        ("sizes-one", sizes(1, 1)),
        (
            "sizes-empty",
            Chart::Histogram(SizeHistogram::of("No requests", "an empty trace", [])),
        ),
        ("words", words()),
    ]
}
