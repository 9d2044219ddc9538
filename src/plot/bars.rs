//! Bar charts: one row a policy, one column a measure, the value written beside each bar.

use super::axis::{Scale, Unit, spelled};
use super::frame::{self, BELOW, GUIDE, LABEL, LINE, MARGIN, Panel, SOFT, TICK, WIDTH};
use super::lines::Guide;
use super::palette::{self, Look};
use super::scene::{Align, Scene, Type, text_width, wrap};

const WIDEST_NAME: f64 = 430.0;

/// Horizontal bars.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// What the chart shows.
    pub title: String,
    /// Of what: trace, capacity, seed.
    pub subtitle: String,
    /// The measures, from left to right.
    pub columns: Vec<BarColumn>,
    /// The policies, from top to bottom.
    pub rows: Vec<BarRow>,
}

/// A measure.
#[derive(Clone, Debug)]
pub struct BarColumn {
    /// What is measured.
    pub label: String,
    /// What the numbers are.
    pub unit: Unit,
    /// The end of the axis, where it is given (100 for a rate); else the largest value decides.
    pub end: Option<f64>,
    /// A vertical line such as a warning level.
    pub guide: Option<Guide>,
}

/// A policy and its values, one for each column.
#[derive(Clone, Debug)]
pub struct BarRow {
    /// The name; it decides the colour.
    pub name: String,
    /// The values; `None` where a measure is undefined, and where there are fewer than columns.
    pub values: Vec<Option<f64>>,
}

/// How the requests of a run under one policy ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the policy.
    pub policy: String,
    /// Requests asked.
    pub requests: u64,
    /// Requests that failed, of those asked.
    pub failed: u64,
}

impl BarChart {
    /// Failures and success rate of each policy, with a line at the rate below which the field warns.
    pub fn outcomes(title: &str, subtitle: &str, outcomes: &[Outcome], warn_percent: f64) -> Self {
        let row = |outcome: &Outcome| {
            let served = outcome.requests.saturating_sub(outcome.failed);
            let rate = 100.0 * served as f64 / outcome.requests as f64;
            let rate = (outcome.requests > 0).then_some(rate);
            BarRow {
                name: outcome.policy.clone(),
                values: vec![Some(outcome.failed as f64), rate],
            }
        };
        let label = format!("warning below {}", spelled(Unit::Percent, warn_percent));
        let guide = Some(Guide {
            value: warn_percent,
            label,
        });
        let failed = BarColumn {
            label: "failed requests".into(),
            unit: Unit::Events,
            end: None,
            guide: None,
        };
        let rate = BarColumn {
            label: "success rate".into(),
            unit: Unit::Percent,
            end: Some(100.0),
            guide,
        };
        BarChart {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            columns: vec![failed, rate],
            rows: outcomes.iter().map(row).collect(),
        }
    }
}

pub(super) fn scene(chart: &BarChart) -> Scene {
    let mut scene = Scene::new(WIDTH, 0.0);
    let top = frame::heading(&mut scene, &chart.title, &chart.subtitle) + LINE + 8.0;
    let names: Vec<&str> = chart.rows.iter().map(|row| row.name.as_str()).collect();
    let looks = palette::assign(&names);
    let lines: Vec<_> = names
        .iter()
        .map(|name| wrap(name, TICK, WIDEST_NAME, 2))
        .collect();
    let widths = lines.iter().flatten().map(|line| text_width(line, TICK));
    let left = MARGIN + widths.fold(0.0, f64::max) + 18.0;
    let row = if lines.iter().any(|lines| lines.len() > 1) {
        2.0 * LINE + 12.0
    } else {
        56.0
    };
    let bottom = top + row * chart.rows.len().max(2) as f64;
    scene.height = bottom + BELOW + MARGIN;
    for (at, lines) in lines.iter().enumerate() {
        let middle = top + row * (at as f64 + 0.5) - LINE / 2.0 * (lines.len() - 1) as f64;
        for (line, words) in lines.iter().enumerate() {
            let y = middle + line as f64 * LINE;
            scene.text((left - 18.0, y), words, TICK, Align::Right);
        }
    }
    let gap = 44.0;
    let width = (WIDTH - MARGIN - left + gap) / chart.columns.len().max(1) as f64 - gap;
    for at in 0..chart.columns.len() {
        let left = left + at as f64 * (width + gap);
        column(
            &mut scene,
            chart,
            &looks,
            at,
            (left, top, left + width, bottom),
        );
    }
    scene
}

/// Draws one measure into the given left, top, right and bottom.
fn column(
    scene: &mut Scene,
    chart: &BarChart,
    looks: &[Look],
    at: usize,
    place: (f64, f64, f64, f64),
) {
    let (left, top, right, bottom) = place;
    let measure = &chart.columns[at];
    let value = |row: usize| {
        chart.rows[row]
            .values
            .get(at)
            .copied()
            .flatten()
            .filter(|v| v.is_finite())
    };
    let words =
        |row: usize| value(row).map_or("undefined".to_owned(), |v| spelled(measure.unit, v));
    let rows = 0..chart.rows.len();
    let room = rows
        .clone()
        .map(|row| text_width(&words(row), TICK))
        .fold(30.0, f64::max)
        + 16.0;
    let largest = rows.clone().filter_map(value).fold(0.0, f64::max);
    let high = measure.end.unwrap_or(largest);
    let x = frame::fit(right - room - left, |most| {
        Scale::from_zero(measure.unit, 0.0, high, most.min(6))
    });
    let y =
        Scale::over(Unit::Number, 0.0, chart.rows.len().max(1) as f64, 1).with_ticks(Vec::new());
    let panel = Panel {
        left,
        top,
        right: right - room,
        bottom,
        x,
        y,
    };
    panel.grid(scene);
    let row_height = (bottom - top) / chart.rows.len().max(2) as f64;
    let middle = |row: usize| top + row_height * (row as f64 + 0.5);
    let end = |row: usize| value(row).map_or(left, |v| panel.px(v));
    for row in rows
        .clone()
        .filter(|row| value(*row).is_some_and(|v| v > 0.0))
    {
        // A value that is not zero shows, were it but a line.
        let (from, to) = (
            (left, middle(row) - 17.0),
            (end(row).max(left + 2.0), middle(row) + 17.0),
        );
        scene.rect(from, to, looks[row].color, 1.0);
    }
    guide(scene, &panel, measure);
    for row in rows {
        let (at, words) = ((end(row) + 10.0, middle(row)), words(row));
        let color = if value(row).is_some() {
            TICK.color
        } else {
            SOFT
        };
        let to = (at.0 + 3.0 + text_width(&words, TICK), at.1 + 14.0);
        scene.rect((at.0 - 5.0, at.1 - 14.0), to, (255, 255, 255), 1.0);
        scene.text(at, &words, Type { color, ..TICK }, Align::Left);
    }
    panel.axes(scene);
    panel.x_labels(scene);
    let centre = (panel.left + panel.right) / 2.0;
    frame::x_title(scene, &panel.x.title(&measure.label), (centre, bottom));
    if chart.rows.is_empty() {
        panel.note(scene, "no data");
    }
}

/// The vertical line of a measure, its label above the panel.
fn guide(scene: &mut Scene, panel: &Panel, measure: &BarColumn) {
    let Some(guide) = measure
        .guide
        .as_ref()
        .filter(|guide| guide.value <= panel.x.high)
    else {
        return;
    };
    let x = panel.px(guide.value);
    scene.dashed(&[(x, panel.top), (x, panel.bottom)], GUIDE, 2.0);
    let face = Type {
        color: GUIDE.color,
        size: TICK.size,
        bold: LABEL.bold,
    };
    let half = text_width(&guide.label, face) / 2.0;
    let middle = x.clamp(
        panel.left + half,
        (WIDTH - MARGIN - half).max(panel.left + half),
    );
    scene.text(
        (middle, panel.top - 18.0),
        &guide.label,
        face,
        Align::Centre,
    );
}
