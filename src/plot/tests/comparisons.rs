//! Charts that compare policies over seeds, as they come in use, and at their edges.

use super::samples::{GIB, Noise, POLICIES, SUBTITLE};
use crate::plot::{
    Axis, Chart, Guide, HeatMap, LineChart, ParetoChart, ParetoPoint, Point, Series, Shape, Spread,
    SpreadChart, SpreadPanel, Summary, Unit,
};

const BOXES: &str = "Box: first to third quartile, with the median; whiskers: the furthest \
    seeds within 1.5 times the box; dots: one a seed.";

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn boxed(points: Vec<f64>) -> Spread {
    let order = sorted(points.clone());
    let at = |share: f64| order[((order.len() - 1) as f64 * share) as usize];
    let (q1, median, q3) = (at(0.25), at(0.5), at(0.75));
    let summary = Summary::Quartiles { q1, median, q3 };
    Spread { points, summary }
}

fn estimated(points: Vec<f64>) -> Spread {
    let order = sorted(points.clone());
    let at = |share: f64| order[((order.len() - 1) as f64 * share) as usize];
    let summary = Summary::Estimate {
        value: at(0.5),
        low: at(0.4),
        high: at(0.6),
    };
    Spread { points, summary }
}

/// So many values around a level, in the shape of a sum of three dice.
fn cloud(seed: u64, count: usize, level: f64, wide: f64) -> Vec<f64> {
    let mut noise = Noise(seed);
    let value = |_| level + wide * (noise.unit() + noise.unit() + noise.unit() - 1.5);
    (0..count).map(value).collect()
}

fn spread(title: &str, x: Axis, names: usize, panels: Vec<SpreadPanel>) -> SpreadChart {
    let name = |at: usize| match POLICIES.get(at) {
        Some(name) => (*name).to_owned(),
        None => format!("user-policy-{at}"),
    };
    SpreadChart {
        title: title.into(),
        subtitle: SUBTITLE.into(),
        x,
        names: (0..names).map(name).collect(),
        panels,
        guide: None,
        note: BOXES.into(),
    }
}

fn boxes(policies: usize, seeds: usize, panels: usize) -> Chart {
    let panel = |at: usize| {
        let cell = |row: usize| {
            let level = 9.0 + 5.0 * ((row * 7 + at) % 9) as f64;
            boxed(cloud((row * 31 + at) as u64, seeds, level, 6.0))
        };
        SpreadPanel {
            label: match panels {
                1 => String::new(),
                _ => format!("capacity {} GiB", 4 << at),
            },
            cells: (0..policies).map(|row| Some(cell(row))).collect(),
        }
    };
    let x = Axis::new("mean external fragmentation", Unit::Percent);
    let panels = (0..panels).map(panel).collect();
    let mut chart = spread("Spread over seeds", x, policies, panels);
    chart.guide = Some(Guide {
        value: 30.0,
        label: "warning above 30 %".into(),
    });
    Chart::Spread(chart)
}

/// What is missing, alone, or equal for all.
fn odd_boxes() -> Chart {
    let cells = vec![
        Some(boxed(vec![3.25 * GIB; 64])),
        None,
        Some(boxed(vec![3.5 * GIB])),
        Some(boxed(cloud(4, 30, 3.75 * GIB, 0.1 * GIB))),
        Some(boxed(vec![3.1 * GIB, 3.1 * GIB, 4.9 * GIB])),
    ];
    let panel = SpreadPanel {
        label: String::new(),
        cells,
    };
    let x = Axis::new("footprint", Unit::Bytes);
    Chart::Spread(spread(
        "Missing, single and equal values",
        x,
        6,
        vec![panel],
    ))
}

fn differences(policies: usize, seeds: usize, panels: usize) -> Chart {
    let panel = |at: usize| {
        let cell = |row: usize| {
            let level = (row as f64 - 3.0) * 0.08 * GIB;
            estimated(cloud((row + at * 5) as u64, seeds, level, 0.3 * GIB))
        };
        SpreadPanel {
            label: match panels {
                1 => String::new(),
                _ => format!("capacity {} GiB of a card that is larger", 4 << at),
            },
            cells: (0..policies).map(|row| Some(cell(row))).collect(),
        }
    };
    let x = Axis::new("footprint, difference from first-fit", Unit::Bytes);
    let panels = (0..panels).map(panel).collect();
    let mut chart = spread("Paired differences", x, policies, panels);
    chart.guide = Some(Guide {
        value: 0.0,
        label: "first-fit".into(),
    });
    chart.note = "Diamond and bar: median with its 95 % confidence; dots: one a seed. \
        Left of the line is better."
        .into();
    Chart::Spread(chart)
}

fn success(policies: usize, capacities: usize, all: bool) -> Chart {
    let series = (0..policies).map(|row| {
        let mut noise = Noise(row as u64 + 3);
        let mut rate = 62.0 + 20.0 * noise.unit();
        let points = (0..capacities).map(|at| {
            rate += (100.0 - rate) * (0.3 + 0.4 * noise.unit());
            let wide = (100.0 - rate) * 0.25;
            let rate = if all { 100.0 } else { rate };
            let wide = if all { 0.0 } else { wide };
            let x = (4.0 + at as f64) * GIB;
            Point::band(x, rate - wide, rate, (rate + wide).min(100.0))
        });
        Series {
            name: POLICIES[row % POLICIES.len()].into(),
            shape: Shape::Line,
            points: points.collect(),
        }
    });
    Chart::Lines(LineChart {
        title: "Success rate against capacity".into(),
        subtitle: SUBTITLE.into(),
        x: Axis::new("capacity", Unit::Bytes),
        y: Axis::new("requests served", Unit::Percent),
        series: series.collect(),
        guides: vec![Guide {
            value: 90.0,
            label: "warning below 90 %".into(),
        }],
        apart: false,
    })
}

/// Success rates near all, at capacities told in peaks: the ticks are wide, the guide is far below.
fn success_in_peaks() -> Chart {
    let Chart::Lines(mut chart) = success(13, 6, false) else {
        unreachable!("curves are lines")
    };
    chart.x = Axis::new("capacity / peak of live requested bytes", Unit::Number);
    for point in chart
        .series
        .iter_mut()
        .flat_map(|series| &mut series.points)
    {
        let near = |rate: f64| 98.0 + rate / 50.0;
        let middle = point.middle.map_or(f64::NAN, near);
        let x = 0.96 + point.x / GIB / 100.0;
        *point = Point::band(x, near(point.low), middle, near(point.high));
    }
    Chart::Lines(chart)
}

fn bands(policies: usize, points: usize) -> Chart {
    let series = (0..policies).map(|row| {
        let mut noise = Noise(row as u64 + 70);
        let mut level = 15.0 + 10.0 * noise.unit();
        let points = (0..points).map(|at| {
            level = (level + 3.0 * (noise.unit() - 0.49)).clamp(2.0, 80.0);
            let (low, high) = (level * 0.75, (level * 1.2).min(100.0));
            Point::band(at as f64 * 36e9, low, level, high)
        });
        Series {
            name: POLICIES[row % POLICIES.len()].into(),
            shape: Shape::Line,
            points: points.collect(),
        }
    });
    Chart::Lines(LineChart {
        title: "External fragmentation over time: median and quartiles of 64 seeds".into(),
        subtitle: SUBTITLE.into(),
        x: Axis::new("trace time", Unit::TimeNs),
        y: Axis::new("1 - largest free / free", Unit::Percent),
        series: series.collect(),
        guides: Vec::new(),
        apart: true,
    })
}

fn heat(columns: usize, rows: usize, value: Axis, cell: impl Fn(usize, usize) -> f64) -> Chart {
    let cells = |row| {
        let cell = |column| Some(cell(row, column)).filter(|_| (row, column) != (1, 2));
        (0..columns).map(cell).collect()
    };
    Chart::Heat(HeatMap {
        title: "compaction: threshold by interval".into(),
        subtitle: SUBTITLE.into(),
        x: "threshold".into(),
        columns: (0..columns)
            .map(|at| format!("0.{:02}", at * 5 + 5))
            .collect(),
        y: "interval".into(),
        rows: (0..rows).map(|at| format!("{} min", 1 << at)).collect(),
        value,
        cells: (0..rows).map(cells).collect(),
        note: "Median of 64 seeds; less is better.".into(),
    })
}

fn pareto(policies: usize, far: bool) -> Chart {
    let mut noise = Noise(12);
    let point = |at: usize| {
        let x = if far {
            2e6 * (1.0 + 900.0 * noise.unit() * noise.unit() * noise.unit())
        } else {
            4e8 * (1.0 + noise.unit())
        };
        let y = (4.0 + 3.0 * noise.unit()) * GIB;
        ParetoPoint {
            name: match POLICIES.get(at) {
                Some(name) => (*name).to_owned(),
                None => format!("user-policy-{at}"),
            },
            x,
            y,
            x_range: Some((x * 0.9, x * 1.15)),
            y_range: Some((y * 0.97, y * 1.02)),
            complete: at % 5 != 3,
        }
    };
    of_points((0..policies).map(point).collect())
}

fn of_points(points: Vec<ParetoPoint>) -> Chart {
    Chart::Pareto(ParetoChart {
        title: "Reserved memory against the cost of driver calls".into(),
        subtitle: SUBTITLE.into(),
        x: Axis::new("simulated cost of driver calls", Unit::TimeNs),
        y: Axis::new("footprint", Unit::Bytes),
        points,
        note: "Grey: the front that no other policy beats in both. Hollow: some requests failed."
            .into(),
    })
}

/// Many policies at one spot, as policies that differ in nothing here are.
fn same_spot() -> Chart {
    let points = POLICIES.iter().map(|name| ParetoPoint {
        name: (*name).to_owned(),
        x: 5e6,
        y: 4.0 * GIB,
        x_range: None,
        y_range: None,
        complete: true,
    });
    of_points(points.collect())
}

/// Every sample with the name of its file.
pub fn all() -> Vec<(&'static str, Chart)> {
    let percent = || Axis::new("mean external fragmentation", Unit::Percent);
    let bytes = || Axis::new("moved", Unit::Bytes);
    let none = spread("No policies", percent(), 0, Vec::new());
    let no_seeds = spread("No seeds", percent(), 3, vec![]);
    vec![
        ("boxes", boxes(12, 64, 1)),
        ("boxes-2", boxes(5, 8, 2)),
        ("boxes-4", boxes(14, 500, 4)),
        ("boxes-single", boxes(3, 1, 1)),
        ("boxes-odd", odd_boxes()),
        ("boxes-none", Chart::Spread(none)),
        ("boxes-no-panel", Chart::Spread(no_seeds)),
        ("differences", differences(12, 64, 1)),
        ("differences-3", differences(6, 300, 3)),
        ("differences-one", differences(1, 1, 1)),
        ("success-5", success(5, 6, false)),
        ("success-12", success(12, 6, false)),
        ("success-peaks", success_in_peaks()),
        ("success-all", success(3, 4, true)),
        ("success-one", success(1, 1, false)),
        ("bands-3", bands(3, 256)),
        ("bands-12", bands(12, 256)),
        ("bands-1", bands(1, 256)),
        (
            "heat",
            heat(6, 5, percent(), |r, c| {
                4.0 + (r * r) as f64 + 3.3 * c as f64
            }),
        ),
        (
            "heat-bytes",
            heat(9, 7, bytes(), |r, c| {
                0.02 * GIB * ((r + 1) * (9 - c)) as f64
            }),
        ),
        (
            "heat-large",
            heat(19, 16, percent(), |r, c| (r * c) as f64 / 3.0),
        ),
        ("heat-equal", heat(3, 2, percent(), |_, _| 12.5)),
        ("heat-one", heat(1, 1, bytes(), |_, _| 0.0)),
        ("heat-none", heat(0, 0, bytes(), |_, _| 0.0)),
        ("heat-undefined", heat(3, 3, bytes(), |_, _| f64::NAN)),
        ("pareto-6", pareto(6, false)),
        ("pareto-12", pareto(12, true)),
        ("pareto-45", pareto(45, true)),
        ("pareto-same", same_spot()),
        ("pareto-one", pareto(1, false)),
        ("pareto-none", of_points(Vec::new())),
    ]
}
