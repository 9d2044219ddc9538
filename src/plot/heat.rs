//! Heat maps: a measure over two parameters of a policy, the value written in each cell.

use super::axis::{Axis, Scale, Unit, spelled};
use super::frame::{self, BELOW, BESIDE, INK, LABEL, LINE, MARGIN, SOFT, TICK, WIDTH};
use super::palette::RAMP;
use super::scene::{Align, Color, Scene, Type, text_width, wrap};

/// Cells are no higher than this, however few.
const HIGHEST: f64 = 120.0;
const LOWEST: f64 = 46.0;
const WIDEST_NAME: f64 = 300.0;
/// The width of the bar that explains the colours.
const BAR: f64 = 34.0;

/// Two parameters and a measure.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// What the chart shows, the policy named.
    pub title: String,
    /// Of what: workload, capacity, seeds.
    pub subtitle: String,
    /// The parameter from left to right.
    pub x: String,
    /// Its values.
    pub columns: Vec<String>,
    /// The parameter from top to bottom.
    pub y: String,
    /// Its values.
    pub rows: Vec<String>,
    /// What is measured.
    pub value: Axis,
    /// A row of cells for each of `rows`; `None` where nothing is known.
    pub cells: Vec<Vec<Option<f64>>>,
    /// How to read the values, in a sentence below the chart; may be empty.
    pub note: String,
}

impl HeatMap {
    fn cell(&self, row: usize, column: usize) -> Option<f64> {
        let value = self.cells.get(row)?.get(column).copied().flatten()?;
        value.is_finite().then_some(value)
    }

    /// The least and the greatest value.
    fn range(&self) -> Option<(f64, f64)> {
        let values = self.cells.iter().flatten().flatten().copied();
        let finite = values.filter(|value| value.is_finite());
        finite.fold(None, |range, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    }

    /// Whether one unit for all would write a value as 0 that is not.
    fn is_wide(&self) -> bool {
        let values = || self.cells.iter().flatten().flatten().copied();
        let high = values().fold(0.0, f64::max);
        values().any(|value| value > 0.0 && value * 100.0 < high)
    }
}

/// Where the cells are.
struct Grid {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

pub(super) fn scene(chart: &HeatMap) -> Scene {
    let mut scene = Scene::new(WIDTH, 0.0);
    let top = frame::heading(&mut scene, &chart.title, &chart.subtitle) + 8.0;
    let range = chart.range().unwrap_or((0.0, 0.0));
    let ramp = Scale::over(chart.value.unit, range.0, range.1, 6);
    let side = legend_width(chart, &ramp);
    let names: Vec<_> = chart
        .rows
        .iter()
        .map(|name| wrap(name, TICK, WIDEST_NAME, 2))
        .collect();
    let widths = names.iter().flatten().map(|line| text_width(line, TICK));
    let left = MARGIN + BESIDE + widths.fold(0.0, f64::max) + 18.0;
    let rows = chart.rows.len().max(1) as f64;
    let two = names.iter().any(|lines| lines.len() > 1);
    let least = if two { 2.0 * LINE + 8.0 } else { LOWEST };
    let height = (640.0 / rows).clamp(least, HIGHEST);
    let grid = Grid {
        left,
        top,
        width: (WIDTH - MARGIN - side - left) / chart.columns.len().max(1) as f64,
        height,
    };
    let bottom = top + height * rows.max(3.0);
    cells(&mut scene, chart, &grid, &ramp);
    for (row, lines) in names.iter().enumerate() {
        let middle = grid.top + height * (row as f64 + 0.5);
        for (line, words) in lines.iter().enumerate() {
            let y = middle + (line as f64 - (lines.len() - 1) as f64 / 2.0) * LINE;
            scene.text((left - 14.0, y), words, TICK, Align::Right);
        }
    }
    let below = columns(&mut scene, chart, &grid);
    scene.height = (bottom.max(below) + BELOW + MARGIN + frame::note_height(&chart.note)).round();
    let right = WIDTH - MARGIN - side;
    let title = wrap(&chart.x, LABEL, right - left, 1).concat();
    frame::x_title(&mut scene, &title, ((left + right) / 2.0, below));
    let middle = grid.top + height * rows / 2.0;
    let title = wrap(&chart.y, LABEL, height * rows.max(3.0), 1).concat();
    let half = text_width(&title, LABEL) / 2.0;
    frame::y_title(&mut scene, &title, middle.max(top + half));
    legend(&mut scene, chart, &ramp, (right + 40.0, top), bottom - top);
    frame::note(&mut scene, &chart.note);
    scene
}

/// The colours and, in one size of letters for all, the values.
fn cells(scene: &mut Scene, chart: &HeatMap, grid: &Grid, ramp: &Scale) {
    let range = chart.range().unwrap_or((0.0, 0.0));
    let unit = chart.value.unit;
    let own_units = chart.is_wide() && matches!(unit, Unit::Bytes | Unit::TimeNs);
    let spell = |value| {
        if own_units {
            spelled(unit, value)
        } else {
            ramp.number(unit, value)
        }
    };
    let words = |row, column| {
        let value = chart.cell(row, column);
        value.map_or("\u{2013}".to_owned(), spell)
    };
    let all = || {
        (0..chart.rows.len())
            .flat_map(|row| (0..chart.columns.len()).map(move |column| (row, column)))
    };
    let fits = |size: &f64| {
        let face = Type {
            size: *size,
            ..TICK
        };
        all().all(|(row, column)| text_width(&words(row, column), face) + 12.0 <= grid.width)
    };
    let size = [26.0, 23.0, 20.0, 18.0, 16.0].into_iter().find(fits);
    for (row, column) in all() {
        let (x, y) = (
            grid.left + grid.width * column as f64,
            grid.top + grid.height * row as f64,
        );
        let to = (x + grid.width - 2.0, y + grid.height - 2.0);
        let color = chart.cell(row, column).map(|value| shade(value, range));
        match color {
            Some(color) => scene.rect((x, y), to, color, 1.0),
            None => scene.rect((x, y), to, (0xEE, 0xEE, 0xEE), 1.0),
        }
        if let Some(size) = size {
            let face = Type {
                size,
                bold: false,
                color: color.map_or(SOFT, on),
            };
            let middle = ((x + to.0) / 2.0, (y + to.1) / 2.0);
            scene.text(middle, &words(row, column), face, Align::Centre);
        }
    }
}

/// The values of the horizontal parameter below the cells, on two lines where one is too narrow, only
/// some of them where both are; answers where they end.
fn columns(scene: &mut Scene, chart: &HeatMap, grid: &Grid) -> f64 {
    let bottom = grid.top + grid.height * chart.rows.len().max(1) as f64;
    let split = |stride: usize| -> Vec<Vec<String>> {
        let room = grid.width * stride as f64 - 10.0;
        let names = chart.columns.iter().step_by(stride);
        names.map(|name| wrap(name, TICK, room, 2)).collect()
    };
    let whole = |lines: &Vec<String>| lines.iter().all(|line| !line.contains('\u{2026}'));
    let stride = (1..=4).find(|stride| split(*stride).iter().all(whole));
    let stride = stride.unwrap_or(1);
    let lines = split(stride);
    for (at, lines) in lines.iter().enumerate() {
        let x = grid.left + grid.width * ((at * stride) as f64 + 0.5) - 1.0;
        for (line, words) in lines.iter().enumerate() {
            let y = bottom + 25.0 + line as f64 * LINE;
            scene.text((x, y), words, TICK, Align::Centre);
        }
    }
    let most = lines.iter().map(Vec::len).max().unwrap_or(1);
    bottom + (most as f64 - 1.0) * LINE
}

fn legend_width(chart: &HeatMap, ramp: &Scale) -> f64 {
    let words = wrap(&ramp.title(&chart.value.label), TICK, 240.0, 4);
    let words = words.iter().map(|line| text_width(line, TICK));
    let ticks = BAR + 14.0 + frame::y_room(ramp);
    words.fold(ticks, f64::max) + 40.0
}

/// The bar of colours with its ticks, what is measured above it.
fn legend(scene: &mut Scene, chart: &HeatMap, ramp: &Scale, at: (f64, f64), height: f64) {
    let mut top = at.1;
    for words in wrap(&ramp.title(&chart.value.label), TICK, 240.0, 4) {
        scene.text((at.0, top + LINE / 2.0), &words, TICK, Align::Left);
        top += LINE;
    }
    let (top, bottom) = (top + 20.0, at.1 + height.min(520.0));
    let Some(range) = chart.range().filter(|_| bottom > top) else {
        return;
    };
    const STEPS: u32 = 64;
    for step in 0..STEPS {
        let y = |step: u32| bottom - (bottom - top) * f64::from(step) / f64::from(STEPS);
        let value = (f64::from(step) + 0.5) / f64::from(STEPS);
        let color = if range.0 < range.1 {
            ramp_color(value)
        } else {
            shade(range.0, range)
        };
        scene.rect((at.0, y(step + 1)), (at.0 + BAR, y(step)), color, 1.0);
    }
    for (value, label) in &ramp.ticks {
        let share = (value - ramp.low) / (ramp.high - ramp.low);
        let y = bottom - share * (bottom - top);
        scene.line(vec![(at.0 + BAR, y), (at.0 + BAR + 7.0, y)], INK, 2.0);
        scene.text((at.0 + BAR + 14.0, y), label, TICK, Align::Left);
    }
}

/// The colour of a value; where all are equal, that of the middle.
fn shade(value: f64, (low, high): (f64, f64)) -> Color {
    let span = high - low;
    ramp_color(if span > 0.0 {
        (value - low) / span
    } else {
        0.5
    })
}

/// Between the steps of the ramp in a straight line.
fn ramp_color(share: f64) -> Color {
    let along = share.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let at = (along.floor() as usize).min(RAMP.len() - 2);
    let (a, b, part) = (RAMP[at], RAMP[at + 1], along - at as f64);
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// The colour of letters that can be read on a ground: dark, unless the ground is.
fn on(ground: Color) -> Color {
    let parts = [(ground.0, 0.299), (ground.1, 0.587), (ground.2, 0.114)];
    let light: f64 = parts.iter().map(|part| f64::from(part.0) * part.1).sum();
    if light > 125.0 { INK } else { (255, 255, 255) }
}
