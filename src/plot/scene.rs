//! The scene: a chart laid out as marks on a sheet, before any backend draws it.
//!
//! Charts only ever add marks here, in sheet units (one unit is one pixel of the PNG and one
//! unit of the SVG), so that both formats show the same picture and a test can ask whether two
//! labels overlap.

use super::canvas;
use super::palette::{Dash, Look, Marker};

/// An opaque colour as red, green and blue.
pub(super) type Color = (u8, u8, u8);

/// A point on the sheet: right and down are positive.
pub(super) type Spot = (f64, f64);

/// Where a text stands relative to its spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// The text begins at the spot.
    Left,
    /// The text is centred on the spot.
    Centre,
    /// The text ends at the spot.
    Right,
}

/// Size, weight and colour of letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    pub size: f64,
    pub bold: bool,
    pub color: Color,
}

/// A piece of text; `at` is on the middle of its line height.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub at: Spot,
    pub text: String,
    pub face: Type,
    pub align: Align,
    /// Turned a quarter to the left, to be read from below.
    pub turned: bool,
}

/// One thing on the sheet.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// A stroke through the points.
    Line {
        points: Vec<Spot>,
        color: Color,
        width: f64,
    },
    /// A filled rectangle.
    Rect {
        from: Spot,
        to: Spot,
        color: Color,
        alpha: f64,
    },
    /// A filled area between two curves: (x, upper y, lower y), x never decreasing.
    Band {
        columns: Vec<(f64, f64, f64)>,
        color: Color,
        alpha: f64,
    },
    /// A filled shape around a spot.
    Sign {
        at: Spot,
        marker: Marker,
        radius: f64,
        color: Color,
    },
    /// Words.
    Text(Text),
}

/// A sheet and what is on it, in painting order.
#[derive(Debug)]
pub(super) struct Scene {
    pub width: f64,
    pub height: f64,
    pub marks: Vec<Mark>,
}

impl Scene {
    /// A white sheet.
    pub fn new(width: f64, height: f64) -> Self {
        Scene {
            width,
            height,
            marks: Vec::new(),
        }
    }

    /// Adds a solid stroke.
    pub fn line(&mut self, points: Vec<Spot>, color: Color, width: f64) {
        self.marks.push(Mark::Line {
            points,
            color,
            width,
        });
    }

    /// Adds a filled rectangle; the corners may come in any order.
    pub fn rect(&mut self, a: Spot, b: Spot, color: Color, alpha: f64) {
        let from = (a.0.min(b.0), a.1.min(b.1));
        let to = (a.0.max(b.0), a.1.max(b.1));
        self.marks.push(Mark::Rect {
            from,
            to,
            color,
            alpha,
        });
    }

    /// Adds text.
    pub fn text(&mut self, at: Spot, text: &str, face: Type, align: Align) {
        let text = printable(text);
        self.marks.push(Mark::Text(Text {
            at,
            text,
            face,
            align,
            turned: false,
        }));
    }

    /// Adds text to be read from below, centred on the spot.
    pub fn turned_text(&mut self, at: Spot, text: &str, face: Type) {
        let (align, text) = (Align::Centre, printable(text));
        self.marks.push(Mark::Text(Text {
            at,
            text,
            face,
            align,
            turned: true,
        }));
    }

    /// Adds a marker.
    pub fn sign(&mut self, at: Spot, marker: Marker, radius: f64, color: Color) {
        self.marks.push(Mark::Sign {
            at,
            marker,
            radius,
            color,
        });
    }

    /// Adds a stroke in the dash pattern of a look.
    pub fn dashed(&mut self, points: &[Spot], look: Look, width: f64) {
        if look.dash == Dash::Solid {
            self.line(points.to_vec(), look.color, width);
            return;
        }
        for piece in cut(points, look.dash.pattern()) {
            self.line(piece, look.color, width);
        }
    }
}

/// The width of a text in sheet units.
pub(super) fn text_width(text: &str, face: Type) -> f64 {
    canvas::text_width(text, face.size, face.bold)
}

/// Breaks a text into at most `most` lines of at most `width` units, at blanks and punctuation where
/// it can; what is too long even so loses its middle, so that both ends of a spec stay readable.
pub(super) fn wrap(text: &str, face: Type, width: f64, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(&printable(text)) {
        let line = lines.last_mut().expect("there is always a line");
        let joined = format!("{line}{word}");
        if line.is_empty() || text_width(joined.trim_end(), face) <= width {
            *line = joined;
        } else {
            lines.push(word);
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most - 1).concat();
        lines.push(rest);
    }
    lines
        .iter()
        .map(|line| shorten(line.trim(), face, width))
        .collect()
}

/// Splits after blanks and after the separators of a policy spec; the pieces joined are the text.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in text.chars() {
        words.last_mut().expect("never empty").push(letter);
        if matches!(letter, ' ' | ',' | ':' | '=' | '_' | '-' | '/') {
            words.push(String::new());
        }
    }
    words
}

/// Takes letters out of the middle until the text fits.
fn shorten(text: &str, face: Type, width: f64) -> String {
    if text_width(text, face) <= width {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let shape = |kept: usize| -> String {
        let head = kept.div_ceil(2);
        let tail = letters.len() - (kept - head);
        letters[..head]
            .iter()
            .chain(&['\u{2026}'])
            .chain(&letters[tail..])
            .collect()
    };
    let (mut fits, mut fails) = (0, letters.len());
    while fits + 1 < fails {
        let middle = (fits + fails) / 2;
        if text_width(&shape(middle), face) <= width {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    shape(fits)
}

/// Control characters are no part of a picture, nor allowed in XML.
fn printable(text: &str) -> String {
    let fine = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars()
        .map(|c| if fine(c) { c } else { ' ' })
        .collect()
}

/// Cuts a stroke into dashes. A steep piece counts for no more than `STEEP` units of the pattern,
/// so that a curve of spikes becomes a few hundred dashes and not a hundred thousand.
fn cut(points: &[Spot], pattern: &[f64]) -> Vec<Vec<Spot>> {
    const STEEP: f64 = 40.0;
    let steep = if points.len() > 2 {
        STEEP
    } else {
        f64::INFINITY
    };
    let mut pieces = Vec::new();
    let mut piece: Vec<Spot> = points.first().copied().into_iter().collect();
    let (mut part, mut left) = (0, pattern[0]);
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let length = (b.0 - a.0).abs() + (b.1 - a.1).abs().min(steep);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let share = done / length;
            let spot = (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share);
            if part % 2 == 0 {
                piece.push(spot);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![spot];
            }
            part = (part + 1) % pattern.len();
            left = pattern[part];
        }
        left -= length - done;
        if part % 2 == 0 {
            piece.push(b);
        }
    }
    if piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}
