//! What all charts share: the sheet, its heading, panels with axes and grid, legends.

use super::axis::{Axis, Scale};
use super::palette::{Dash, Look, Marker};
use super::scene::{Align, Color, Scene, Spot, Type, text_width, wrap};

pub(super) const WIDTH: f64 = 1600.0;
pub(super) const HEIGHT: f64 = 1000.0;
pub(super) const MARGIN: f64 = 28.0;

pub(super) const INK: Color = (0x22, 0x22, 0x22);
pub(super) const SOFT: Color = (0x5A, 0x5A, 0x5A);
const GRID: Color = (0xE4, 0xE4, 0xE4);
/// The look of a guide, a horizontal line that no series is.
pub(super) const GUIDE: Look = Look {
    color: (0xB0, 0x1E, 0x2E),
    dash: Dash::Even,
    marker: Marker::Circle,
};

pub(super) const TITLE: Type = Type {
    size: 37.0,
    bold: true,
    color: INK,
};
pub(super) const SUBTITLE: Type = Type {
    size: 27.0,
    bold: false,
    color: SOFT,
};
pub(super) const LABEL: Type = Type {
    size: 28.0,
    bold: false,
    color: INK,
};
pub(super) const TICK: Type = Type {
    size: 26.0,
    bold: false,
    color: INK,
};
pub(super) const LINE: f64 = 32.0;

/// The room that tick labels and an axis title take below a panel.
pub(super) const BELOW: f64 = 92.0;
/// The room that a turned axis title takes to the left of the tick labels.
pub(super) const BESIDE: f64 = 44.0;

/// Writes title and subtitle, and answers where the chart may begin.
pub(super) fn heading(scene: &mut Scene, title: &str, subtitle: &str) -> f64 {
    let mut y = MARGIN - 4.0;
    for (text, face, line) in [(title, TITLE, 46.0), (subtitle, SUBTITLE, 36.0)] {
        for words in wrap(text, face, WIDTH - 2.0 * MARGIN, 2)
            .iter()
            .filter(|line| !line.is_empty())
        {
            scene.text((MARGIN, y + line / 2.0), words, face, Align::Left);
            y += line;
        }
    }
    y + 22.0
}

const NOTE: Type = Type {
    size: 23.0,
    bold: false,
    color: SOFT,
};
const NOTE_LINE: f64 = 29.0;

/// The lines of a note.
fn note_lines(words: &str) -> Vec<String> {
    let lines = wrap(words, NOTE, WIDTH - 2.0 * MARGIN, 3);
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The room that a note takes below a chart.
pub(super) fn note_height(words: &str) -> f64 {
    note_lines(words).len() as f64 * NOTE_LINE
}

/// Writes how to read a chart along the lower edge of the sheet.
pub(super) fn note(scene: &mut Scene, words: &str) {
    let mut y = scene.height - MARGIN + 8.0 - note_height(words);
    for line in note_lines(words) {
        scene.text((MARGIN, y + NOTE_LINE / 2.0), &line, NOTE, Align::Left);
        y += NOTE_LINE;
    }
}

/// A plotting area with its two scales.
pub(super) struct Panel {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
    pub x: Scale,
    pub y: Scale,
}

impl Panel {
    /// Where a value of the horizontal axis is, kept inside.
    pub fn px(&self, value: f64) -> f64 {
        let share = (self.x.along(value) - self.x.low) / (self.x.high - self.x.low);
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Where a value of the vertical axis is, kept inside.
    pub fn py(&self, value: f64) -> f64 {
        let share = (self.y.along(value) - self.y.low) / (self.y.high - self.y.low);
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }

    /// Thin lines at all ticks.
    pub fn grid(&self, scene: &mut Scene) {
        for (value, _) in &self.x.ticks {
            let x = self.px(*value);
            scene.line(vec![(x, self.top), (x, self.bottom)], GRID, 1.0);
        }
        for (value, _) in &self.y.ticks {
            let y = self.py(*value);
            scene.line(vec![(self.left, y), (self.right, y)], GRID, 1.0);
        }
    }

    /// The two axis lines, over what is plotted.
    pub fn axes(&self, scene: &mut Scene) {
        let corner = (self.left, self.bottom);
        scene.line(
            vec![(self.left, self.top), corner, (self.right, self.bottom)],
            INK,
            2.0,
        );
    }

    /// Numbers below the panel.
    pub fn x_labels(&self, scene: &mut Scene) {
        for (value, label) in &self.x.ticks {
            let x = self.px(*value);
            scene.line(vec![(x, self.bottom), (x, self.bottom + 7.0)], INK, 2.0);
            scene.text((x, self.bottom + 25.0), label, TICK, Align::Centre);
        }
    }

    /// Numbers to the left of the panel.
    pub fn y_labels(&self, scene: &mut Scene) {
        for (value, label) in &self.y.ticks {
            let y = self.py(*value);
            scene.line(vec![(self.left - 7.0, y), (self.left, y)], INK, 2.0);
            scene.text((self.left - 13.0, y), label, TICK, Align::Right);
        }
    }

    /// Numbers and words of both axes.
    pub fn labels(&self, scene: &mut Scene, x: &Axis, y: &Axis) {
        self.x_labels(scene);
        self.y_labels(scene);
        let (centre, middle) = (
            (self.left + self.right) / 2.0,
            (self.top + self.bottom) / 2.0,
        );
        x_title(scene, &self.x.title(&x.label), (centre, self.bottom));
        y_title(scene, &self.y.title(&y.label), middle);
    }

    /// Words in the middle, where there is nothing to show.
    pub fn note(&self, scene: &mut Scene, words: &str) {
        let at = (
            (self.left + self.right) / 2.0,
            (self.top + self.bottom) / 2.0,
        );
        scene.text(
            at,
            words,
            Type {
                color: SOFT,
                ..LABEL
            },
            Align::Centre,
        );
    }
}

/// The title of a horizontal axis, under the tick labels of a panel that ends at `below`.
pub(super) fn x_title(scene: &mut Scene, words: &str, below: Spot) {
    scene.text((below.0, below.1 + 64.0), words, LABEL, Align::Centre);
}

/// The title of a vertical axis, at the left edge of the sheet.
pub(super) fn y_title(scene: &mut Scene, words: &str, middle: f64) {
    scene.turned_text((MARGIN + 12.0, middle), words, LABEL);
}

/// The room that the tick labels of a vertical axis take.
pub(super) fn y_room(scale: &Scale) -> f64 {
    let widths = scale.ticks.iter().map(|(_, label)| text_width(label, TICK));
    widths.fold(0.0, f64::max) + 20.0
}

/// The scale with the most ticks, up to eleven, whose labels stand clear of one another on a
/// horizontal axis of that width.
pub(super) fn fit(width: f64, scale: impl Fn(usize) -> Scale) -> Scale {
    const CLEAR: f64 = 22.0;
    let clear = |scale: &Scale| {
        let along =
            |value: f64| (scale.along(value) - scale.low) / (scale.high - scale.low) * width;
        scale.ticks.windows(2).all(|pair| {
            let room = along(pair[1].0) - along(pair[0].0);
            room >= (text_width(&pair[0].1, TICK) + text_width(&pair[1].1, TICK)) / 2.0 + CLEAR
        })
    };
    (2..=11)
        .rev()
        .map(&scale)
        .find(clear)
        .unwrap_or_else(|| scale(1))
}

/// How an entry of a legend is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Swatch {
    /// A stroke in a series' dash, with its marker.
    Stroke(Look),
    /// A stroke without a marker.
    Plain(Look),
    /// A filled box.
    Fill(Color),
    /// A marker alone.
    Sign(Marker, Color),
    /// A marker with a white middle.
    Hollow(Marker, Color),
}

/// An entry of a legend.
pub(super) struct Entry {
    pub swatch: Swatch,
    pub label: String,
}

const SWATCH: f64 = 60.0;
const WIDEST_LEGEND: f64 = 400.0;

/// The width that a legend needs, gap to the panel included; nothing where it is empty.
pub(super) fn legend_width(entries: &[Entry]) -> f64 {
    let widths = entries.iter().flat_map(|entry| {
        let room = WIDEST_LEGEND - SWATCH - 12.0;
        wrap(&entry.label, TICK, room, 3)
            .into_iter()
            .map(|line| text_width(&line, TICK))
    });
    widths
        .fold(None, |widest: Option<f64>, width| {
            Some(widest.unwrap_or(0.0).max(width))
        })
        .map_or(0.0, |widest| widest + SWATCH + 12.0 + 30.0)
}

/// The height that a legend needs.
pub(super) fn legend_height(entries: &[Entry]) -> f64 {
    let heights = entries.iter().map(|entry| {
        let room = WIDEST_LEGEND - SWATCH - 12.0;
        wrap(&entry.label, TICK, room, 3).len() as f64 * LINE + 9.0
    });
    heights.sum()
}

/// Draws a legend downwards from a spot.
pub(super) fn legend(scene: &mut Scene, at: Spot, entries: &[Entry]) {
    let mut y = at.1 + LINE / 2.0;
    for entry in entries {
        swatch(scene, (at.0, y), entry.swatch);
        for line in wrap(&entry.label, TICK, WIDEST_LEGEND - SWATCH - 12.0, 3) {
            scene.text((at.0 + SWATCH + 12.0, y), &line, TICK, Align::Left);
            y += LINE;
        }
        y += 9.0;
    }
}

/// Draws one swatch, `SWATCH` wide, from its left end.
pub(super) fn swatch(scene: &mut Scene, at: Spot, swatch: Swatch) {
    let (from, to, middle) = (at, (at.0 + SWATCH, at.1), (at.0 + SWATCH / 2.0, at.1));
    match swatch {
        Swatch::Stroke(look) => {
            scene.dashed(&[from, to], look, 4.0);
            scene.sign(middle, look.marker, 7.0, look.color);
        }
        Swatch::Plain(look) => scene.dashed(&[from, to], look, 3.0),
        Swatch::Fill(color) => {
            scene.rect(
                (at.0 + 18.0, at.1 - 11.0),
                (at.0 + SWATCH, at.1 + 11.0),
                color,
                1.0,
            );
        }
        Swatch::Sign(marker, color) => scene.sign((at.0 + 39.0, at.1), marker, 8.0, color),
        Swatch::Hollow(marker, color) => {
            scene.sign((at.0 + 39.0, at.1), marker, 9.0, color);
            scene.sign((at.0 + 39.0, at.1), marker, 5.4, (255, 255, 255));
        }
    }
}
