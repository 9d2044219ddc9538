//! Charts in rows: the names of policies down the left side, panels of equal width beside them.

use super::frame::{BELOW, GUIDE, LINE, MARGIN, Panel, TICK, WIDTH};
use super::lines::Guide;
use super::scene::{Align, Scene, Type, text_width, wrap};

const WIDEST_NAME: f64 = 430.0;
/// Between the panels of two columns.
const GAP: f64 = 44.0;

/// Where the rows of a chart are.
pub(super) struct Rows {
    /// Where the names end and the panels may begin.
    pub left: f64,
    pub top: f64,
    pub bottom: f64,
    height: f64,
}

impl Rows {
    /// Writes the names from `top` downwards and sets the height of the sheet: each row is at least
    /// `least` high, `foot` is kept free below the axes.
    pub fn new(scene: &mut Scene, names: &[&str], top: f64, least: f64, foot: f64) -> Self {
        let wrapped: Vec<_> = names
            .iter()
            .map(|name| wrap(name, TICK, WIDEST_NAME, 2))
            .collect();
        let widths = wrapped.iter().flatten().map(|line| text_width(line, TICK));
        let left = MARGIN + widths.fold(0.0, f64::max) + 18.0;
        let two = wrapped.iter().any(|lines| lines.len() > 1);
        let height = if two {
            least.max(2.0 * LINE + 12.0)
        } else {
            least
        };
        let bottom = top + height * names.len().max(2) as f64;
        scene.height = (bottom + BELOW + foot + MARGIN).round();
        let rows = Rows {
            left,
            top,
            bottom,
            height,
        };
        for (at, lines) in wrapped.iter().enumerate() {
            let first = rows.middle(at) - LINE / 2.0 * (lines.len() - 1) as f64;
            for (line, words) in lines.iter().enumerate() {
                let y = first + line as f64 * LINE;
                scene.text((left - 18.0, y), words, TICK, Align::Right);
            }
        }
        rows
    }

    /// The middle of a row.
    pub fn middle(&self, row: usize) -> f64 {
        self.top + self.height * (row as f64 + 0.5)
    }

    /// Left and right edge of each of so many columns.
    pub fn columns(&self, count: usize) -> Vec<(f64, f64)> {
        let width = (WIDTH - MARGIN - self.left + GAP) / count.max(1) as f64 - GAP;
        let left = |at: usize| self.left + at as f64 * (width + GAP);
        (0..count).map(|at| (left(at), left(at) + width)).collect()
    }
}

/// A vertical line in a panel, its label above and not beyond `right`; nothing where it is beyond
/// the end of the axis.
pub(super) fn guide(scene: &mut Scene, panel: &Panel, guide: &Guide, right: f64) {
    if guide.value > panel.x.high {
        return;
    }
    let x = panel.px(guide.value);
    scene.dashed(&[(x, panel.top), (x, panel.bottom)], GUIDE, 2.0);
    let face = Type {
        color: GUIDE.color,
        ..TICK
    };
    let label = wrap(&guide.label, face, right - panel.left, 1).concat();
    let half = text_width(&label, face) / 2.0;
    let least = panel.left + half;
    let at = (x.clamp(least, (right - half).max(least)), panel.top - 18.0);
    scene.text(at, &label, face, Align::Centre);
}
