//! Line charts: curves over time, steps and areas; many curves become small multiples.

mod curves;

use super::axis::{Axis, Scale, Unit};
use super::frame::{
    self, BELOW, BESIDE, Entry, GUIDE, HEIGHT, LINE, MARGIN, Panel, Swatch, TICK, WIDTH,
};
use super::palette::{self, Look};
use super::scene::{Align, Scene, Type, text_width, wrap};
use curves::{areas, curve, signs};

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
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis, from zero.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
    /// Horizontal lines such as a warning level or a capacity.
    pub guides: Vec<Guide>,
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
}

impl Point {
    /// A point of one value.
    pub fn at(x: f64, y: f64) -> Self {
        Point { x, low: y, high: y }
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
    if chart.series.len() > MOST_IN_ONE {
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

/// A panel a curve, all with the same axes.
fn multiples(chart: &LineChart, looks: &[Look]) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    let mut top = frame::heading(&mut scene, &chart.title, &chart.subtitle);
    top = guide_row(&mut scene, chart, top);
    let count = chart.series.len();
    let columns = if count <= 9 {
        3
    } else if count <= 16 {
        4
    } else {
        5
    };
    let rows = count.div_ceil(columns);
    let y = y_scale(chart, 4);
    let (left, right) = (MARGIN + BESIDE + frame::y_room(&y), WIDTH - MARGIN - 16.0);
    let gap = 26.0;
    let width = (right - left + gap) / columns as f64 - gap;
    let heads: Vec<_> = chart
        .series
        .iter()
        .map(|s| wrap(&s.name, HEAD, width, 2))
        .collect();
    let head = heads.iter().map(Vec::len).max().unwrap_or(1) as f64 * LINE + 8.0;
    let height = ((HEIGHT - MARGIN - BELOW - top) / rows as f64).max(head + 190.0);
    scene.height = (top + height * rows as f64 + BELOW + MARGIN).round();
    let x = x_scale(chart, width);
    for (at, (series, look)) in chart.series.iter().zip(looks).enumerate() {
        let left = left + (at % columns) as f64 * (width + gap);
        let bottom = top + (at / columns + 1) as f64 * height - 12.0;
        let panel_top = bottom + 12.0 - height + head;
        let (x, y) = (x.clone(), y.clone());
        let panel = Panel {
            left,
            top: panel_top,
            right: left + width,
            bottom,
            x,
            y,
        };
        for (line, words) in heads[at].iter().rev().enumerate() {
            let line = panel_top - 20.0 - line as f64 * LINE;
            scene.text(
                (left, line),
                words,
                Type {
                    color: look.color,
                    ..HEAD
                },
                Align::Left,
            );
        }
        multiple(&mut scene, &panel, chart, series, *look);
        if at.is_multiple_of(columns) {
            panel.y_labels(&mut scene);
        }
        if at + columns >= count {
            panel.x_labels(&mut scene);
        }
    }
    let foot = top + height * rows as f64 - 12.0;
    frame::x_title(
        &mut scene,
        &x.title(&chart.x.label),
        ((left + right) / 2.0, foot),
    );
    frame::y_title(&mut scene, &y.title(&chart.y.label), (top + foot) / 2.0);
    scene
}

const HEAD: Type = Type { bold: true, ..TICK };

/// One curve in a panel of its own.
fn multiple(scene: &mut Scene, panel: &Panel, chart: &LineChart, series: &Series, look: Look) {
    areas(scene, panel, series, look);
    panel.grid(scene);
    guides(scene, panel, &chart.guides);
    curve(
        scene,
        panel,
        series,
        Look {
            dash: palette::Dash::Solid,
            ..look
        },
        2.5,
    );
    panel.axes(scene);
    if !series.points.iter().any(Point::finite) {
        panel.note(scene, "no data");
    }
}

/// The guides' labels in a row above the panels; answers where the panels may begin.
fn guide_row(scene: &mut Scene, chart: &LineChart, top: f64) -> f64 {
    let mut x = MARGIN;
    for entry in guide_entries(chart) {
        frame::swatch(scene, (x, top), entry.swatch);
        scene.text((x + 72.0, top), &entry.label, TICK, Align::Left);
        x += 72.0 + text_width(&entry.label, TICK) + 40.0;
    }
    if chart.guides.is_empty() {
        top - 12.0
    } else {
        top + 18.0
    }
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
    let top = y_scale(chart, 9).high;
    let entry = |guide: &Guide| {
        let off = if guide.value > top {
            " (above the chart)"
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
    frame::fit(width, |most| Scale::over(chart.x.unit, low, high, most))
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
    Scale::from_zero(chart.y.unit, low, high, most)
}

fn guides(scene: &mut Scene, panel: &Panel, guides: &[Guide]) {
    for guide in guides.iter().filter(|guide| guide.value <= panel.y.high) {
        let y = panel.py(guide.value);
        scene.dashed(&[(panel.left, y), (panel.right, y)], GUIDE, 2.0);
    }
}
