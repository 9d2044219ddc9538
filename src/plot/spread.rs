//! How a measure spreads over seeds: boxes with their points, and differences from a baseline.

use super::axis::{Axis, Scale};
use super::frame::{self, INK, LABEL, LINE, Panel, SOFT, TICK, WIDTH};
use super::lines::Guide;
use super::palette::{self, Look, Marker};
use super::rows::{self, Rows};
use super::scene::{Align, Color, Scene, Type, text_width, wrap};

/// With more panels than this no value is written beside a row: there is no room.
const MOST_WITH_VALUES: usize = 2;
/// Half the height of a box, and how far a point may stand from the middle of its row.
const HALF: f64 = 17.0;

/// A row a policy, a panel a condition.
#[derive(Clone, Debug)]
pub struct SpreadChart {
    /// What the chart shows.
    pub title: String,
    /// Of what: workload, card, seeds.
    pub subtitle: String,
    /// What is measured.
    pub x: Axis,
    /// The policies, from top to bottom; a name decides the colour.
    pub names: Vec<String>,
    /// The conditions, from left to right, all on one scale; four of them can be read.
    pub panels: Vec<SpreadPanel>,
    /// A vertical line such as a baseline or a warning level.
    pub guide: Option<Guide>,
    /// How to read the marks, in a sentence below the chart; may be empty.
    pub note: String,
}

/// One condition.
#[derive(Clone, Debug)]
pub struct SpreadPanel {
    /// Which, as in "capacity 8 GiB"; may be empty.
    pub label: String,
    /// One a policy; `None`, or missing at the end, where nothing is known.
    pub cells: Vec<Option<Spread>>,
}

/// What one policy reached under one condition.
#[derive(Clone, Debug)]
pub struct Spread {
    /// One value a seed; what is not finite is left out.
    pub points: Vec<f64>,
    /// What they come to.
    pub summary: Summary,
}

/// What many values come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Summary {
    /// A box with its whiskers.
    Quartiles {
        /// A quarter of the values is at or below it.
        q1: f64,
        /// Half of the values is at or below it.
        median: f64,
        /// Three quarters of the values are at or below it.
        q3: f64,
    },
    /// A value with an interval of confidence.
    Estimate {
        /// The value.
        value: f64,
        /// Where the interval begins.
        low: f64,
        /// Where it ends.
        high: f64,
    },
}

impl Summary {
    fn parts(self) -> [f64; 3] {
        match self {
            Summary::Quartiles { q1, median, q3 } => [q1, median, q3],
            Summary::Estimate { value, low, high } => [low, value, high],
        }
    }
}

impl SpreadPanel {
    fn cell(&self, row: usize) -> Option<&Spread> {
        let cell = self.cells.get(row)?.as_ref()?;
        let known = cell.summary.parts().into_iter().all(f64::is_finite);
        known.then_some(cell)
    }

    fn known(&self) -> impl Iterator<Item = &Spread> {
        (0..self.cells.len()).filter_map(|row| self.cell(row))
    }
}

impl Spread {
    fn finite(&self) -> impl Iterator<Item = f64> {
        self.points
            .iter()
            .copied()
            .filter(|point| point.is_finite())
    }
}

pub(super) fn scene(chart: &SpreadChart) -> Scene {
    let mut scene = Scene::new(WIDTH, 0.0);
    let mut top = frame::heading(&mut scene, &chart.title, &chart.subtitle);
    let labelled = chart.panels.iter().any(|panel| !panel.label.is_empty());
    let heads = top;
    top += if labelled { 2.0 * LINE } else { 0.0 };
    let headed = chart.guide.is_some() || chart.panels.len() <= MOST_WITH_VALUES;
    top += if headed { LINE } else { 0.0 };
    let names: Vec<&str> = chart.names.iter().map(String::as_str).collect();
    let looks = palette::assign(&names);
    let room = frame::note_height(&chart.note);
    let layout = Rows::new(&mut scene, &names, top, 60.0, room);
    for (panel, place) in chart.panels.iter().zip(layout.columns(chart.panels.len())) {
        let face = Type { bold: true, ..TICK };
        let head = wrap(&panel.label, face, place.1 - place.0, 2);
        for (line, words) in head.iter().enumerate() {
            let y = heads + (line as f64 + 0.5) * LINE;
            scene.text((place.0, y), words, face, Align::Left);
        }
        condition(&mut scene, chart, &layout, panel, &looks, place);
    }
    if let [first, .., last] = &*layout.columns(chart.panels.len().max(2)) {
        let title = scale(chart, WIDTH).title(&chart.x.label);
        let centre = ((first.0 + last.1) / 2.0, layout.bottom);
        frame::x_title(&mut scene, &title, centre);
    }
    if chart.names.is_empty() || chart.panels.is_empty() {
        let at = (WIDTH / 2.0, (layout.top + layout.bottom) / 2.0);
        let face = Type {
            color: SOFT,
            ..LABEL
        };
        scene.text(at, "no data", face, Align::Centre);
    }
    frame::note(&mut scene, &chart.note);
    scene
}

/// Draws one panel between the given left and right edge.
fn condition(
    scene: &mut Scene,
    chart: &SpreadChart,
    layout: &Rows,
    cells: &SpreadPanel,
    looks: &[Look],
    place: (f64, f64),
) {
    let rough = scale(chart, place.1 - place.0);
    let words = values(chart, cells, &rough);
    let head = text_width(values_head(chart, cells), TICK);
    let widths = words.iter().map(|words| text_width(words, TICK).max(head));
    let room = widths.fold(0.0, f64::max);
    // Without values the last number of an axis stands clear of the first one beside it.
    let right = place.1 - if room > 0.0 { room + 18.0 } else { 40.0 };
    let panel = Panel {
        left: place.0,
        top: layout.top,
        right,
        bottom: layout.bottom,
        x: scale(chart, right - place.0),
        y: Scale::blank(chart.names.len()),
    };
    panel.grid(scene);
    if let Some(guide) = &chart.guide {
        rows::guide(scene, &panel, guide, panel.right);
    }
    for (row, look) in looks.iter().enumerate() {
        let middle = layout.middle(row);
        match cells.cell(row) {
            Some(spread) => draw(scene, &panel, spread, look.color, middle),
            None => {
                let face = Type {
                    color: SOFT,
                    ..TICK
                };
                let at = (panel.left + 12.0, middle);
                scene.text(at, "no value", face, Align::Left);
            }
        }
        if let Some(words) = words.get(row) {
            scene.text((right + 18.0, middle), words, TICK, Align::Left);
        }
    }
    panel.axes(scene);
    panel.x_labels(scene);
    if !words.is_empty() {
        let head = values_head(chart, cells);
        let at = (right + 18.0, layout.top - 18.0);
        let face = Type {
            color: SOFT,
            ..TICK
        };
        scene.text(at, head, face, Align::Left);
    }
}

/// What the values beside the rows are.
fn values_head(chart: &SpreadChart, cells: &SpreadPanel) -> &'static str {
    let estimate = |spread: &Spread| matches!(spread.summary, Summary::Estimate { .. });
    if chart.panels.len() == 1 && cells.known().any(estimate) {
        "median [95 %]"
    } else if cells.known().all(|spread| spread.points.len() < 2) {
        "value"
    } else if cells.known().next().is_some() {
        "median"
    } else {
        ""
    }
}

/// What stands beside each row, where there is room: the middle value, and where fewer seeds than
/// elsewhere have one, how many have.
fn values(chart: &SpreadChart, cells: &SpreadPanel, scale: &Scale) -> Vec<String> {
    if chart.panels.len() > MOST_WITH_VALUES {
        return Vec::new();
    }
    let all = chart.panels.iter().flat_map(SpreadPanel::known);
    let most = all.map(|spread| spread.finite().count()).max().unwrap_or(0);
    let words = |row: usize| {
        let Some(spread) = cells.cell(row) else {
            return String::new();
        };
        let [low, middle, high] = spread.summary.parts();
        let spell = |value| scale.number(chart.x.unit, value);
        let mut words = spell(middle);
        if matches!(spread.summary, Summary::Estimate { .. }) && chart.panels.len() == 1 {
            words += &format!(" [{}, {}]", spell(low), spell(high));
        }
        let count = spread.finite().count();
        if count < most {
            words += &format!(" (n = {count})");
        }
        words
    };
    (0..chart.names.len()).map(words).collect()
}

/// One scale for all panels: every point, every summary and the guide are on it.
fn scale(chart: &SpreadChart, width: f64) -> Scale {
    let spreads = chart.panels.iter().flat_map(SpreadPanel::known);
    let values = spreads.flat_map(|spread| spread.finite().chain(spread.summary.parts()));
    let values = values.chain(chart.guide.as_ref().map(|guide| guide.value));
    let range = values.fold(None, |range: Option<(f64, f64)>, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    let (low, high) = range.unwrap_or((0.0, 0.0));
    frame::fit(width, |most| {
        Scale::round(chart.x.unit, low, high, most.min(8))
    })
}

/// The points of one row and their summary over them.
fn draw(scene: &mut Scene, panel: &Panel, spread: &Spread, color: Color, middle: f64) {
    let points: Vec<f64> = spread.finite().collect();
    let [low, centre, high] = spread.summary.parts().map(|value| panel.px(value));
    match spread.summary {
        Summary::Quartiles { .. } if points.len() == 1 => {
            scene.sign((centre, middle), Marker::Circle, 9.0, color);
        }
        Summary::Quartiles { q1, q3, .. } => {
            let (from, to) = ((low - 1.0, middle - HALF), (high + 1.0, middle + HALF));
            scene.rect(from, to, tint(color, 0.22), 1.0);
            dots(scene, panel, &points, color, middle);
            let (start, end) = whiskers(&points, q1, q3);
            for (edge, end) in [(low, panel.px(start)), (high, panel.px(end))] {
                scene.line(vec![(edge, middle), (end, middle)], INK, 2.0);
                let cap = vec![(end, middle - 8.0), (end, middle + 8.0)];
                scene.line(cap, INK, 2.0);
            }
            let corners = [(from.0, from.1), (to.0, from.1), to, (from.0, to.1), from];
            scene.line(corners.to_vec(), INK, 2.0);
            let median = vec![(centre, middle - HALF), (centre, middle + HALF)];
            scene.line(median, INK, 5.0);
        }
        Summary::Estimate { .. } => {
            dots(scene, panel, &points, color, middle);
            let bar = vec![(low, middle), (high, middle)];
            scene.line(bar.clone(), (255, 255, 255), 9.0);
            scene.line(bar, INK, 4.0);
            for end in [low, high] {
                scene.line(vec![(end, middle - 12.0), (end, middle + 12.0)], INK, 3.0);
            }
            scene.sign((centre, middle), Marker::Diamond, 8.0, (255, 255, 255));
            scene.sign((centre, middle), Marker::Diamond, 6.0, INK);
        }
    }
}

/// The furthest points within one and a half times the box (Tukey's rule).
fn whiskers(points: &[f64], q1: f64, q3: f64) -> (f64, f64) {
    let reach = 1.5 * (q3 - q1);
    let near = |value: &&f64| (q1 - reach..=q3 + reach).contains(*value);
    let near = points.iter().filter(near).copied();
    near.fold((q1, q3), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// A disc a point, set apart along the height of the row by the golden ratio: the same places
/// every time, and neighbours never on one another. Of discs that would hide each other one is drawn.
fn dots(scene: &mut Scene, panel: &Panel, points: &[f64], color: Color, middle: f64) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (radius, strength) = match points.len() {
        0..=40 => (5.0, 0.75),
        41..=150 => (4.0, 0.75),
        _ => (3.0, 0.5),
    };
    let mut taken = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let turn = (at as f64 * GOLDEN).fract() - 0.5;
        let spot = (panel.px(*point), middle + turn * 2.0 * (HALF - 3.0));
        taken.push((spot.0.round() as i64, spot.1.round() as i64));
    }
    taken.sort_unstable();
    taken.dedup();
    for (x, y) in taken {
        let at = (x as f64, y as f64);
        scene.sign(at, Marker::Circle, radius, tint(color, strength));
    }
}

/// A colour thinned with white.
fn tint(color: Color, share: f64) -> Color {
    let thin = |part: u8| (255.0 - (255.0 - f64::from(part)) * share).round() as u8;
    (thin(color.0), thin(color.1), thin(color.2))
}
