//! Small multiples: a panel a curve, all with the same axes.

use super::curves::{areas, beside, curve, signs};
use super::{LineChart, Point, Series, guide_entries, guides, x_scale, y_scale};
use crate::plot::axis::Scale;
use crate::plot::frame::{self, BELOW, BESIDE, HEIGHT, LINE, MARGIN, Panel, TICK, WIDTH};
use crate::plot::palette::{Dash, Look};
use crate::plot::scene::{Align, Scene, Spot, Type, text_width, wrap};

const HEAD: Type = Type { bold: true, ..TICK };
/// Between two columns of panels, at least.
const GAP: f64 = 26.0;
/// Curves of no more points than this are drawn, pale, into each other's panels too.
const FEW_POINTS: usize = 64;

/// Where the panels are.
struct Grid {
    left: f64,
    top: f64,
    columns: usize,
    gap: f64,
    width: f64,
    height: f64,
    /// The height of the names above a panel.
    head: f64,
}

impl Grid {
    /// Left, upper, right and lower edge of a panel.
    fn place(&self, at: usize) -> (f64, f64, f64, f64) {
        let left = self.left + (at % self.columns) as f64 * (self.width + self.gap);
        let bottom = self.top + (at / self.columns + 1) as f64 * self.height - 12.0;
        let top = bottom + 12.0 - self.height + self.head;
        (left, top, left + self.width, bottom)
    }
}

/// Draws a chart of many curves.
pub(in crate::plot) fn multiples(chart: &LineChart, looks: &[Look]) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    let mut top = frame::heading(&mut scene, &chart.title, &chart.subtitle);
    top = guide_row(&mut scene, chart, top);
    let count = chart.series.len().max(1);
    let columns = columns(count);
    let rows = count.div_ceil(columns);
    let y = y_scale(chart, 4);
    let (left, right) = (MARGIN + BESIDE + frame::y_room(&y), WIDTH - MARGIN - 16.0);
    let wide = |gap: f64| (right - left + gap) / columns as f64 - gap;
    let gap = gap(&x_scale(chart, wide(GAP)));
    let width = wide(gap);
    let series = chart.series.iter();
    let heads: Vec<_> = series.map(|s| wrap(&s.name, HEAD, width, 2)).collect();
    let head = heads.iter().map(Vec::len).max().unwrap_or(1) as f64 * LINE + 8.0;
    let height = ((HEIGHT - MARGIN - BELOW - top) / rows as f64).max(head + 190.0);
    scene.height = (top + height * rows as f64 + BELOW + MARGIN).round();
    let grid = Grid {
        left,
        top,
        columns,
        gap,
        width,
        height,
        head,
    };
    let x = x_scale(chart, width);
    for (at, look) in looks.iter().enumerate() {
        let (left, top, right, bottom) = grid.place(at);
        let panel = Panel {
            left,
            top,
            right,
            bottom,
            x: x.clone(),
            y: y.clone(),
        };
        name(&mut scene, &heads[at], (left, top));
        multiple(&mut scene, &panel, chart, at, *look);
        if at.is_multiple_of(columns) {
            panel.y_labels(&mut scene);
        }
        if at + columns >= count {
            panel.x_labels(&mut scene);
        }
    }
    let foot = top + height * rows as f64 - 12.0;
    let title = x.title(&chart.x.label);
    frame::x_title(&mut scene, &title, ((left + right) / 2.0, foot));
    frame::y_title(&mut scene, &y.title(&chart.y.label), (top + foot) / 2.0);
    scene
}

/// The room that the last number of a panel and the first of the next need between the two.
fn gap(x: &Scale) -> f64 {
    let (Some(first), Some(last)) = (x.ticks.first(), x.ticks.last()) else {
        return GAP;
    };
    let widths = text_width(&first.1, TICK) + text_width(&last.1, TICK);
    GAP.max(widths / 2.0 + 12.0)
}

/// How many panels stand side by side.
fn columns(count: usize) -> usize {
    match count {
        0..=3 => count,
        4 => 2,
        5..=9 => 3,
        10..=16 => 4,
        _ => 5,
    }
}

/// The name of a curve above its panel.
fn name(scene: &mut Scene, lines: &[String], at: Spot) {
    for (line, words) in lines.iter().rev().enumerate() {
        let y = at.1 - 20.0 - line as f64 * LINE;
        scene.text((at.0, y), words, HEAD, Align::Left);
    }
}

/// One curve in a panel of its own; where curves have few points, the others pale behind it.
fn multiple(scene: &mut Scene, panel: &Panel, chart: &LineChart, at: usize, look: Look) {
    let series = &chart.series[at];
    areas(scene, panel, series, look);
    panel.grid(scene);
    guides(scene, panel, &chart.guides);
    let few = |series: &Series| {
        let middles = series.points.iter().all(|point| point.middle.is_some());
        middles && series.points.len() <= FEW_POINTS
    };
    if chart.series.iter().all(few) {
        for other in (0..chart.series.len()).filter(|other| *other != at) {
            beside(scene, panel, &chart.series[other]);
        }
    }
    let solid = Look {
        dash: Dash::Solid,
        ..look
    };
    curve(scene, panel, series, solid, 2.5);
    if few(series) {
        signs(scene, panel, series, solid, 0.0);
    }
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
