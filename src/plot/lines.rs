//! Line charts: curves over time, steps, areas and bands; many curves become small multiples.

mod curves;
mod multiples;

use super::axis::{Axis, Scale, Unit};
use super::frame::{self, BELOW, BESIDE, Entry, GUIDE, HEIGHT, MARGIN, Panel, Swatch, WIDTH};
use super::palette::{self, Look};
use super::scene::Scene;
use curves::{areas, curve, signs};
use multiples::multiples;

/// With more series than this each has a panel of its own: more than eight curves in one another
/// cannot be told apart, whatever their colours.
const MOST_IN_ONE: usize = 8;

/// Curves over a common horizontal axis.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// What the chart shows.
    pub title: String,
    /// Of what: trace, capacity, seed.
    pub subtitle: String,
    /// The horizontal axis; in powers zero has a place of its own.
    pub x: Axis,
    /// The vertical axis, never in powers: from zero, unless all curves have a middle and zero is far below them.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
    /// Horizontal lines such as a warning level or a capacity.
    pub guides: Vec<Guide>,
    /// Whether each curve has a panel of its own, however few they are.
    pub apart: bool,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend; it decides the look.
    pub name: String,
    /// How the points are joined.
    pub shape: Shape,
    /// The points, x never decreasing. A point that is not finite breaks the curve.
    pub points: Vec<Point>,
}

/// How the points of a curve are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// By straight lines.
    Line,
    /// A value holds until the next point.
    Step,
    /// As `Step`, filled down to zero.
    Area,
}

/// A point, or the extremes of what was seen around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The lowest value there.
    pub low: f64,
    /// The highest value there.
    pub high: f64,
    /// The value that the curve goes through, between the two, as a median does; without it both
    /// extremes are drawn.
    pub middle: Option<f64>,
}

impl Point {
    /// A point of one value.
    pub fn at(x: f64, y: f64) -> Self {
        Point::range(x, y, y)
    }

    /// Two extremes.
    pub fn range(x: f64, low: f64, high: f64) -> Self {
        Point {
            x,
            low,
            high,
            middle: None,
        }
    }

    /// A value with the band around it.
    pub fn band(x: f64, low: f64, middle: f64, high: f64) -> Self {
        Point {
            x,
            low,
            high,
            middle: Some(middle),
        }
    }

    /// The value that a single stroke goes through.
    fn stroke(&self) -> f64 {
        self.middle.unwrap_or(self.high)
    }

    fn finite(&self) -> bool {
        self.x.is_finite() && self.low.is_finite() && self.high.is_finite()
    }
}

/// A horizontal line across a chart.
#[derive(Clone, Debug)]
pub struct Guide {
    /// Its height, in the numbers of the axis.
    pub value: f64,
    /// What it is, for the legend.
    pub label: String,
}

pub(super) fn scene(chart: &LineChart) -> Scene {
    let names: Vec<&str> = chart
        .series
        .iter()
        .map(|series| series.name.as_str())
        .collect();
    let looks = palette::assign(&names);
    if chart.apart || chart.series.len() > MOST_IN_ONE {
        multiples(chart, &looks)
    } else {
        overlay(chart, &looks)
    }
}

/// All curves in one panel, the legend to its right.
fn overlay(chart: &LineChart, looks: &[Look]) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    let top = frame::heading(&mut scene, &chart.title, &chart.subtitle);
    let (y, entries) = (y_scale(chart, 9), entries(chart, looks));
    let left = MARGIN + BESIDE + frame::y_room(&y);
    let legend = frame::legend_width(&entries).max(20.0);
    let (right, bottom) = (WIDTH - MARGIN - legend, HEIGHT - MARGIN - BELOW + 8.0);
    let panel = Panel {
        left,
        top,
        right,
        bottom,
        x: x_scale(chart, right - left),
        y,
    };
    for (series, look) in chart.series.iter().zip(looks) {
        areas(&mut scene, &panel, series, *look);
    }
    panel.grid(&mut scene);
    guides(&mut scene, &panel, &chart.guides);
    for (at, (series, look)) in chart.series.iter().zip(looks).enumerate() {
        curve(&mut scene, &panel, series, *look, 3.0);
        signs(
            &mut scene,
            &panel,
            series,
            *look,
            (at as f64 + 0.5) / looks.len() as f64,
        );
    }
    panel.axes(&mut scene);
    panel.labels(&mut scene, &chart.x, &chart.y);
    if bounds(chart).is_none() {
        panel.note(&mut scene, "no data");
    }
    frame::legend(&mut scene, (right + 30.0, top), &entries);
    scene
}

fn entries(chart: &LineChart, looks: &[Look]) -> Vec<Entry> {
    let series = chart.series.iter().zip(looks).map(|(series, look)| {
        let swatch = match series.shape {
            Shape::Area => Swatch::Fill(look.color),
            Shape::Line | Shape::Step => Swatch::Stroke(*look),
        };
        Entry {
            swatch,
            label: series.name.clone(),
        }
    });
    series.chain(guide_entries(chart)).collect()
}

fn guide_entries(chart: &LineChart) -> Vec<Entry> {
    let scale = y_scale(chart, 9);
    let entry = |guide: &Guide| {
        let off = if guide.value > scale.high {
            " (above the chart)"
        } else if guide.value < scale.low {
            " (below the chart)"
        } else {
            ""
        };
        Entry {
            swatch: Swatch::Plain(GUIDE),
            label: format!("{}{off}", guide.label),
        }
    };
    chart.guides.iter().map(entry).collect()
}

/// The extremes of all finite points: x, then y.
fn bounds(chart: &LineChart) -> Option<((f64, f64), (f64, f64))> {
    let finite = chart
        .series
        .iter()
        .flat_map(|series| &series.points)
        .filter(|point| point.finite());
    finite.fold(None, |bounds, p| {
        let (x, y) = bounds.unwrap_or(((p.x, p.x), (p.low, p.high)));
        Some((
            (x.0.min(p.x), x.1.max(p.x)),
            (y.0.min(p.low), y.1.max(p.high)),
        ))
    })
}

fn x_scale(chart: &LineChart, width: f64) -> Scale {
    let ((low, high), _) = bounds(chart).unwrap_or(((0.0, 0.0), (0.0, 0.0)));
    let points = chart.series.iter().flat_map(|series| &series.points);
    let above_zero = points.map(|point| point.x).filter(|x| *x > 0.0);
    let least = above_zero.fold(f64::INFINITY, f64::min);
    frame::fit(width, |most| {
        if chart.x.in_powers && least <= high {
            Scale::powers(chart.x.unit, (least, high), low <= 0.0, most)
        } else {
            Scale::over(chart.x.unit, low, high, most)
        }
    })
}

/// From zero to the highest point and guide; a guide far above all curves is not drawn, for it would
/// press them flat. Percentages are never that far apart.
fn y_scale(chart: &LineChart, most: usize) -> Scale {
    let (_, (low, high)) = bounds(chart).unwrap_or(((0.0, 0.0), (0.0, 0.0)));
    let near = |value: &f64| chart.y.unit == Unit::Percent || high <= 0.0 || *value <= 3.0 * high;
    let high = chart
        .guides
        .iter()
        .map(|guide| guide.value)
        .filter(near)
        .fold(high, f64::max);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    if points().next().is_some() && points().all(|point| point.middle.is_some()) {
        return Scale::round(chart.y.unit, low, high, most);
    }
    Scale::from_zero(chart.y.unit, low, high, most)
}

fn guides(scene: &mut Scene, panel: &Panel, guides: &[Guide]) {
    let shown = |guide: &&Guide| (panel.y.low..=panel.y.high).contains(&guide.value);
    for guide in guides.iter().filter(shown) {
        let y = panel.py(guide.value);
        scene.dashed(&[(panel.left, y), (panel.right, y)], GUIDE, 2.0);
    }
}
