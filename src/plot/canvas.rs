//! The canvas: draws a scene through plotters, as SVG text or as the bytes of a PNG file.

use std::sync::Once;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontDesc, FontFamily, FontStyle, FontTransform, RGBAColor, RGBColor, ShapeStyle,
    TextStyle, register_font,
};

use super::PlotError;
use super::palette::Marker;
use super::scene::{Align, Color, Mark, Scene, Spot, Text};

/// DejaVu Sans is in the binary; Verdana has the same widths where a reader of the SVG lacks it.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
static REGULAR: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../../assets/fonts/DejaVuSans-Bold.ttf");

/// The PNG is drawn this many times larger and averaged down: smooth edges for every shape.
const OVERSAMPLE: usize = 2;

/// The share of a font's size by which its baseline lies under the spot that plotters is given,
/// with the text anchored at its top: on a bitmap, and in SVG.
const BITMAP_BASELINE: f64 = 0.5;
const SVG_BASELINE: f64 = 0.76 / 1.24;

/// The share of a font's size by which a baseline lies under the middle of a line of text.
const MIDDLE_TO_BASELINE: f64 = 0.3;

/// The font of all charts, from the binary.
fn font(size: f64, bold: bool) -> FontDesc<'static> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (style, bytes) in [(FontStyle::Normal, REGULAR), (FontStyle::Bold, BOLD)] {
            assert!(
                register_font(FAMILY, style, bytes).is_ok(),
                "the bundled font is a font"
            );
        }
    });
    let style = if bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    FontDesc::new(FontFamily::Name(FAMILY), size, style)
}

/// The width of a text in sheet units, measured finely since plotters answers whole pixels.
pub(super) fn text_width(text: &str, size: f64, bold: bool) -> f64 {
    const FINE: f64 = 16.0;
    let ((left, _), (right, _)) = font(size * FINE, bold)
        .layout_box(text)
        .expect("the bundled font is registered");
    f64::from(right - left) / FINE
}

/// The scene as an SVG file.
pub(super) fn svg(scene: &Scene) -> Result<Vec<u8>, PlotError> {
    let mut out = String::new();
    let size = (scene.width as u32, scene.height as u32);
    let backend = SVGBackend::with_string(&mut out, size);
    Pen {
        backend,
        scale: 1.0,
        vector: true,
    }
    .draw(scene)?;
    Ok(out.into_bytes())
}

/// The scene as a PNG file.
pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, PlotError> {
    let (width, height) = (scene.width as usize, scene.height as usize);
    // White, as the sheet is.
    let mut large = vec![255; width * height * OVERSAMPLE * OVERSAMPLE * 3];
    let size = ((width * OVERSAMPLE) as u32, (height * OVERSAMPLE) as u32);
    let backend = BitMapBackend::with_buffer(&mut large, size);
    Pen {
        backend,
        scale: OVERSAMPLE as f64,
        vector: false,
    }
    .draw(scene)?;
    let small = shrink(&large, width, height);
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::FilterType::Paeth);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&small)?;
    writer.finish()?;
    Ok(out)
}

/// Averages squares of two by two pixels.
fn shrink(large: &[u8], width: usize, height: usize) -> Vec<u8> {
    let row = width * OVERSAMPLE * 3;
    let mut small = vec![0; width * height * 3];
    let mut sums = vec![0u16; row];
    let mut means = vec![0u8; row - 3];
    for (y, line) in small.chunks_exact_mut(width * 3).enumerate() {
        let (upper, lower) = large[2 * y * row..][..2 * row].split_at(row);
        // Every byte has its like below it and three further on, so that many are added at
        // once; of the means every second pixel's is one of a whole square.
        for ((sum, a), b) in sums.iter_mut().zip(upper).zip(lower) {
            *sum = u16::from(*a) + u16::from(*b);
        }
        for ((mean, a), b) in means.iter_mut().zip(&sums).zip(&sums[3..]) {
            *mean = ((a + b + 2) / 4) as u8;
        }
        for (pixel, mean) in line.chunks_exact_mut(3).zip(means.chunks(6)) {
            pixel.copy_from_slice(&mean[..3]);
        }
    }
    small
}

/// A plotters backend with the scale of the sheet on it.
struct Pen<DB> {
    backend: DB,
    scale: f64,
    /// True where shapes stay shapes (SVG), false where they become pixels.
    vector: bool,
}

impl<DB: DrawingBackend> Pen<DB> {
    fn draw(mut self, scene: &Scene) -> Result<(), PlotError> {
        self.backend.ensure_prepared().map_err(PlotError::backend)?;
        if self.vector {
            let sheet = (scene.width, scene.height);
            self.rect((0.0, 0.0), sheet, fill((255, 255, 255), 1.0))?;
        }
        for mark in &scene.marks {
            match mark {
                Mark::Line {
                    points,
                    color,
                    width,
                } => self.line(points, *color, *width)?,
                Mark::Rect {
                    from,
                    to,
                    color,
                    alpha,
                } => self.rect(*from, *to, fill(*color, *alpha))?,
                Mark::Band {
                    columns,
                    color,
                    alpha,
                } => self.band(columns, fill(*color, *alpha))?,
                Mark::Sign {
                    at,
                    marker,
                    radius,
                    color,
                } => self.sign(*at, *marker, *radius, *color)?,
                Mark::Text(text) => self.text(text)?,
            }
        }
        self.backend.present().map_err(PlotError::backend)
    }

    fn spot(&self, spot: Spot) -> (i32, i32) {
        (
            (spot.0 * self.scale).round() as i32,
            (spot.1 * self.scale).round() as i32,
        )
    }

    /// Fills a rectangle, half-open on the right and below, at least one pixel wide and high.
    fn rect(&mut self, from: Spot, to: Spot, style: ShapeStyle) -> Result<(), PlotError> {
        let (from, to) = (self.spot(from), self.spot(to));
        let to = (to.0.max(from.0 + 1), to.1.max(from.1 + 1));
        self.backend
            .draw_rect(from, to, &style, true)
            .map_err(PlotError::backend)
    }

    /// On a bitmap each straight piece is drawn by itself: plotters' polygon of a whole path leaves
    /// holes where the path crosses itself.
    fn line(&mut self, points: &[Spot], color: Color, width: f64) -> Result<(), PlotError> {
        let stroke = ((width * self.scale).round() as u32).max(1);
        let style = ShapeStyle {
            color: rgb(color).to_rgba(),
            filled: false,
            stroke_width: stroke,
        };
        if self.vector {
            let path: Vec<_> = points.iter().map(|p| self.spot(*p)).collect();
            return self
                .backend
                .draw_path(path, &style)
                .map_err(PlotError::backend);
        }
        let half = f64::from(stroke) / self.scale / 2.0;
        for pair in points.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            if (a.0 - b.0).abs() * self.scale < 0.5 || (a.1 - b.1).abs() * self.scale < 0.5 {
                let from = (a.0.min(b.0) - half, a.1.min(b.1) - half);
                let to = (a.0.max(b.0) + half, a.1.max(b.1) + half);
                self.rect(from, to, fill(color, 1.0))?;
            } else {
                let path = [self.spot(a), self.spot(b)];
                self.backend
                    .draw_path(path, &style)
                    .map_err(PlotError::backend)?;
            }
        }
        for joint in points.iter().skip(1).rev().skip(1) {
            let (from, to) = (
                (joint.0 - half, joint.1 - half),
                (joint.0 + half, joint.1 + half),
            );
            self.rect(from, to, fill(color, 1.0))?;
        }
        Ok(())
    }

    /// A polygon in SVG; on a bitmap one stroke for each column of pixels.
    fn band(&mut self, columns: &[(f64, f64, f64)], style: ShapeStyle) -> Result<(), PlotError> {
        if self.vector {
            let upper = columns.iter().map(|&(x, top, _)| self.spot((x, top)));
            let lower = columns
                .iter()
                .rev()
                .map(|&(x, _, bottom)| self.spot((x, bottom)));
            let outline: Vec<_> = upper.chain(lower).collect();
            return self
                .backend
                .fill_polygon(outline, &style)
                .map_err(PlotError::backend);
        }
        for pair in columns.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let first = (a.0 * self.scale).round();
            for pixel in 0..((b.0 * self.scale).round() - first) as usize {
                let x = (first + pixel as f64) / self.scale;
                let share = ((x - a.0) / (b.0 - a.0)).clamp(0.0, 1.0);
                let top = a.1 + (b.1 - a.1) * share;
                let bottom = a.2 + (b.2 - a.2) * share;
                self.rect((x, top), (x + 1.0 / self.scale, bottom), style)?;
            }
        }
        Ok(())
    }

    fn sign(&mut self, at: Spot, marker: Marker, r: f64, color: Color) -> Result<(), PlotError> {
        let style = fill(color, 1.0);
        let corners: &[Spot] = match marker {
            Marker::Circle => {
                let (at, radius) = (self.spot(at), (r * self.scale).round() as u32);
                return self
                    .backend
                    .draw_circle(at, radius, &style, true)
                    .map_err(PlotError::backend);
            }
            Marker::Cross => {
                let (a, b) = ((at.0 - r, at.1 - r), (at.0 + r, at.1 + r));
                self.line(&[a, b], color, r / 2.0)?;
                return self.line(&[(a.0, b.1), (b.0, a.1)], color, r / 2.0);
            }
            Marker::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Marker::Diamond => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
            Marker::Up => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
            Marker::Down => &[(0.0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
        };
        let outline: Vec<_> = corners
            .iter()
            .map(|c| self.spot((at.0 + c.0 * r, at.1 + c.1 * r)))
            .collect();
        self.backend
            .fill_polygon(outline, &style)
            .map_err(PlotError::backend)
    }

    fn text(&mut self, text: &Text) -> Result<(), PlotError> {
        let align = match text.align {
            Align::Left => HPos::Left,
            Align::Centre => HPos::Center,
            Align::Right => HPos::Right,
        };
        let baseline = if self.vector {
            SVG_BASELINE
        } else {
            BITMAP_BASELINE
        };
        let up = (baseline - MIDDLE_TO_BASELINE) * text.face.size;
        let (at, turn) = if text.turned {
            ((text.at.0 - up, text.at.1), FontTransform::Rotate270)
        } else {
            ((text.at.0, text.at.1 - up), FontTransform::None)
        };
        let font = font(text.face.size * self.scale, text.face.bold).transform(turn);
        let color = rgb(text.face.color);
        let style = TextStyle::from(font)
            .color(&color)
            .pos(Pos::new(align, VPos::Top));
        let at = self.spot(at);
        self.backend
            .draw_text(&text.text, &style, at)
            .map_err(PlotError::backend)
    }
}

fn rgb(color: Color) -> RGBColor {
    RGBColor(color.0, color.1, color.2)
}

fn fill(color: Color, alpha: f64) -> ShapeStyle {
    let color = RGBAColor(color.0, color.1, color.2, alpha);
    ShapeStyle {
        color,
        filled: true,
        stroke_width: 0,
    }
}
