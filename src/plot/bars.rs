//! Bar charts: one row a policy, one column a measure, the value written beside each bar.

use super::axis::{Scale, Unit, spelled};
use super::frame::{self, LINE, Panel, SOFT, TICK, WIDTH};
use super::lines::Guide;
use super::palette::{self, Look};
use super::rows::{self, Rows};
use super::scene::{Align, Scene, Type, text_width};

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
    let layout = Rows::new(&mut scene, &names, top, 56.0, 0.0);
    let places = layout.columns(chart.columns.len());
    for (at, (measure, place)) in chart.columns.iter().zip(places).enumerate() {
        let cell = |row: &BarRow| row.values.get(at).copied().flatten();
        let finite = |row| cell(row).filter(|value| value.is_finite());
        let values: Vec<Option<f64>> = chart.rows.iter().map(finite).collect();
        column(&mut scene, &layout, measure, &values, &looks, place);
    }
    scene
}

/// Draws one measure between the given left and right edge.
fn column(
    scene: &mut Scene,
    layout: &Rows,
    measure: &BarColumn,
    values: &[Option<f64>],
    looks: &[Look],
    place: (f64, f64),
) {
    let spell = |value: f64| spelled(measure.unit, value);
    let words = values
        .iter()
        .map(|value| value.map_or("undefined".to_owned(), spell));
    let words: Vec<String> = words.collect();
    let panel = panel(layout, measure, values, &words, place);
    panel.grid(scene);
    let end = |value: Option<f64>| value.map_or(panel.left, |value| panel.px(value));
    for (row, value) in values.iter().enumerate() {
        if value.is_some_and(|value| value > 0.0) {
            // A value that is not zero shows, were it but a line.
            let (right, middle) = (end(*value).max(panel.left + 2.0), layout.middle(row));
            let (from, to) = ((panel.left, middle - 17.0), (right, middle + 17.0));
            scene.rect(from, to, looks[row].color, 1.0);
        }
    }
    if let Some(guide) = &measure.guide {
        rows::guide(scene, &panel, guide, place.1);
    }
    for (row, (value, words)) in values.iter().zip(&words).enumerate() {
        let at = (end(*value) + 10.0, layout.middle(row));
        let color = if value.is_some() { TICK.color } else { SOFT };
        let to = (at.0 + 3.0 + text_width(words, TICK), at.1 + 14.0);
        scene.rect((at.0 - 5.0, at.1 - 14.0), to, (255, 255, 255), 1.0);
        scene.text(at, words, Type { color, ..TICK }, Align::Left);
    }
    panel.axes(scene);
    panel.x_labels(scene);
    let centre = (panel.left + panel.right) / 2.0;
    frame::x_title(
        scene,
        &panel.x.title(&measure.label),
        (centre, layout.bottom),
    );
    if values.is_empty() {
        panel.note(scene, "no data");
    }
}

/// The panel of a measure: room for the widest value is kept to its right.
fn panel(
    layout: &Rows,
    measure: &BarColumn,
    values: &[Option<f64>],
    words: &[String],
    (left, right): (f64, f64),
) -> Panel {
    let widths = words.iter().map(|words| text_width(words, TICK));
    let right = right - widths.fold(30.0, f64::max) - 16.0;
    let largest = values.iter().flatten().copied().fold(0.0, f64::max);
    let high = measure.end.unwrap_or(largest);
    let x = frame::fit(right - left, |most| {
        Scale::from_zero(measure.unit, 0.0, high, most.min(6))
    });
    Panel {
        left,
        top: layout.top,
        right,
        bottom: layout.bottom,
        x,
        y: Scale::blank(values.len()),
    }
}
