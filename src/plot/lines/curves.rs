//! The curves of a line chart: what of them can be seen, as strokes, fillings and markers.

use super::{Point, Series, Shape};
use crate::plot::frame::Panel;
use crate::plot::palette::Look;
use crate::plot::scene::{Color, Mark, Scene, Spot};

/// The pieces of a curve between its gaps.
fn pieces(series: &Series) -> impl Iterator<Item = &[Point]> {
    series
        .points
        .split(|point| !point.finite())
        .filter(|piece| !piece.is_empty())
}

/// What of a piece can be seen: one edge of it in sheet units.
fn edge(panel: &Panel, piece: &[Point], shape: Shape, value: impl Fn(&Point) -> f64) -> Vec<Spot> {
    let all: Vec<Spot> = piece
        .iter()
        .map(|p| (panel.px(p.x), panel.py(value(p))))
        .collect();
    let seen = thin(&all);
    if shape == Shape::Line {
        seen
    } else {
        stairs(&seen)
    }
}

/// Of the points in one column of pixels only the first, the extremes and the last can be seen.
fn thin(points: &[Spot]) -> Vec<Spot> {
    let mut out = Vec::new();
    for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        if column.len() <= 4 {
            out.extend(column);
            continue;
        }
        let by_y = |a: &usize, b: &usize| column[*a].1.total_cmp(&column[*b].1);
        let low = (0..column.len()).min_by(by_y).unwrap_or(0);
        let high = (0..column.len()).max_by(by_y).unwrap_or(0);
        let mut kept = [0, low.min(high), low.max(high), column.len() - 1].to_vec();
        kept.dedup();
        out.extend(kept.into_iter().map(|at| column[at]));
    }
    out
}

/// Holds each value until the next point.
fn stairs(points: &[Spot]) -> Vec<Spot> {
    let rises = points
        .windows(2)
        .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    rises.chain(points.last().copied()).collect()
}

/// The fillings of a series: down to zero for an area, between the extremes for bands.
pub(super) fn areas(scene: &mut Scene, panel: &Panel, series: &Series, look: Look) {
    for piece in pieces(series).filter(|piece| piece.len() > 1) {
        let top = edge(panel, piece, series.shape, |p| p.high);
        let columns: Vec<(f64, f64, f64)> = match series.shape {
            Shape::Area => {
                let zero = panel.py(0.0);
                top.into_iter().map(|(x, y)| (x, y, zero)).collect()
            }
            Shape::Line if banded(piece) => band(panel, piece),
            Shape::Step if banded(piece) => held(&band(panel, piece)),
            Shape::Line | Shape::Step => continue,
        };
        // An area over another hides it, so that each has one tint, that of the legend.
        let pale = |part: u8| (u16::from(part) / 3 + 170) as u8;
        let (red, green, blue) = look.color;
        let (color, alpha) = match series.shape {
            Shape::Area => ((pale(red), pale(green), pale(blue)), 1.0),
            Shape::Line | Shape::Step => (look.color, 0.25),
        };
        scene.marks.push(Mark::Band {
            columns,
            color,
            alpha,
        });
    }
}

/// Whether a piece has extremes that differ.
fn banded(piece: &[Point]) -> bool {
    piece.iter().any(|point| point.low < point.high)
}

/// Holds each column of a band until the next.
fn held(columns: &[(f64, f64, f64)]) -> Vec<(f64, f64, f64)> {
    let steps = columns
        .windows(2)
        .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1, pair[0].2)]);
    steps.chain(columns.last().copied()).collect()
}

/// The extremes of each column of pixels.
fn band(panel: &Panel, piece: &[Point]) -> Vec<(f64, f64, f64)> {
    let columns = piece.chunk_by(|a, b| panel.px(a.x).floor() == panel.px(b.x).floor());
    let extremes = columns.map(|column| {
        let high = column.iter().map(|p| p.high).fold(f64::MIN, f64::max);
        let low = column.iter().map(|p| p.low).fold(f64::MAX, f64::min);
        (panel.px(column[0].x), panel.py(high), panel.py(low))
    });
    extremes.collect()
}

/// The stroke of a series; where it is a band without a middle, its two edges.
pub(super) fn curve(scene: &mut Scene, panel: &Panel, series: &Series, look: Look, width: f64) {
    for piece in pieces(series) {
        if piece.len() == 1 {
            let at = (panel.px(piece[0].x), panel.py(piece[0].stroke()));
            scene.sign(at, look.marker, 6.0, look.color);
        }
        let stroke = edge(panel, piece, series.shape, Point::stroke);
        scene.dashed(&stroke, look, width);
        let extremes = piece.iter().any(|point| point.middle.is_none());
        if extremes && banded(piece) {
            let lower = edge(panel, piece, series.shape, |p| p.low);
            scene.dashed(&lower, look, width / 2.0);
        }
    }
}

/// The stroke of a series that is only there to be compared with.
pub(super) fn beside(scene: &mut Scene, panel: &Panel, series: &Series) {
    const PALE: Color = (0xC4, 0xC4, 0xC4);
    for piece in pieces(series) {
        let stroke = edge(panel, piece, series.shape, Point::stroke);
        scene.line(stroke, PALE, 1.5);
    }
}

/// Markers along a curve: at every point where a few are measured, else a few, each series at
/// a place of its own.
pub(super) fn signs(scene: &mut Scene, panel: &Panel, series: &Series, look: Look, share: f64) {
    const APART: f64 = 180.0;
    const FEW: usize = 24;
    if series.shape == Shape::Area {
        return;
    }
    let middles = series.points.iter().all(|point| point.middle.is_some());
    let apart = if middles && series.points.len() <= FEW {
        0.0
    } else {
        APART
    };
    let mut next = panel.left + apart * share;
    for point in series.points.iter().filter(|point| point.finite()) {
        let at = (panel.px(point.x), panel.py(point.stroke()));
        if at.0 >= next {
            scene.sign(at, look.marker, 6.0, look.color);
            if apart > 0.0 {
                next += ((at.0 - next) / apart).floor() * apart + apart;
            }
        }
    }
}
