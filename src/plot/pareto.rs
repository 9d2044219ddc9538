//! Pareto charts: two measures against each other, less of both being better.

mod labels;

use super::axis::{Axis, Scale};
use super::frame::{
    self, BELOW, BESIDE, Entry, HEIGHT, INK, LINE, MARGIN, Panel, SOFT, Swatch, WIDTH,
};
use super::palette::{self, Look};
use super::scene::{Align, Color, Scene, Spot, Type, text_width};
use labels::{Label, place};

/// From this ratio between the largest and the smallest value on, the horizontal axis counts in
/// powers of ten.
const FAR: f64 = 50.0;
const FRONT: Color = (0x8A, 0x8A, 0x8A);
const RADIUS: f64 = 9.0;

/// Policies as points, the front of what no other beats marked.
#[derive(Clone, Debug)]
pub struct ParetoChart {
    /// What the chart shows.
    pub title: String,
    /// Of what: workload, capacity, seeds.
    pub subtitle: String,
    /// The measure from left to right, less is better.
    pub x: Axis,
    /// The measure from below, less is better.
    pub y: Axis,
    /// The policies.
    pub points: Vec<ParetoPoint>,
    /// How to read the marks, in a sentence below the chart; may be empty.
    pub note: String,
}

/// A policy.
#[derive(Clone, Debug)]
pub struct ParetoPoint {
    /// The name; it decides colour and marker.
    pub name: String,
    /// How far to the right.
    pub x: f64,
    /// How high.
    pub y: f64,
    /// From where to where `x` spreads, as from the first to the third quartile over seeds.
    pub x_range: Option<(f64, f64)>,
    /// From where to where `y` spreads.
    pub y_range: Option<(f64, f64)>,
    /// Whether every request was served. What was not served costs nothing: a policy that failed is
    /// drawn hollow and beats nobody.
    pub complete: bool,
}

impl ParetoPoint {
    fn finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }

    fn xs(&self) -> [f64; 3] {
        let (low, high) = self.x_range.unwrap_or((self.x, self.x));
        [low, self.x, high]
    }

    fn ys(&self) -> [f64; 3] {
        let (low, high) = self.y_range.unwrap_or((self.y, self.y));
        [low, self.y, high]
    }
}

/// The indices of the points that no other complete one beats, from left to right.
pub(super) fn front(points: &[ParetoPoint]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len())
        .filter(|at| points[*at].complete && points[*at].finite())
        .collect();
    let key = |at: usize| (points[at].x, points[at].y);
    order.sort_by(|a, b| {
        let (a, b) = (key(*a), key(*b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut front: Vec<usize> = Vec::new();
    for at in order {
        let last = front.last().copied().map(key);
        if last.is_none_or(|last| key(at).1 < last.1 || key(at) == last) {
            front.push(at);
        }
    }
    front
}

pub(super) fn scene(chart: &ParetoChart) -> Scene {
    let points: Vec<&ParetoPoint> = chart.points.iter().filter(|it| it.finite()).collect();
    let names: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
    let looks = palette::signs(&names);
    let entries: Vec<Entry> = points.iter().zip(&looks).map(entry).collect();
    // Names stand beside their points; where that leaves no room for one, all are in a legend.
    drawn(chart, &looks, &[]).unwrap_or_else(|| {
        drawn(chart, &looks, &entries).expect("with a legend no name needs a place")
    })
}

fn entry((point, look): (&&ParetoPoint, &Look)) -> Entry {
    let swatch = if point.complete {
        Swatch::Sign(look.marker, look.color)
    } else {
        Swatch::Hollow(look.marker, look.color)
    };
    Entry {
        swatch,
        label: point.name.clone(),
    }
}

/// Draws the chart with so many entries in a legend; `None` where the names need one and it is empty.
fn drawn(chart: &ParetoChart, looks: &[Look], entries: &[Entry]) -> Option<Scene> {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    let top = frame::heading(&mut scene, &chart.title, &chart.subtitle) + 8.0;
    let foot = frame::note_height(&chart.note);
    scene.height = HEIGHT.max(top + frame::legend_height(entries) + MARGIN + foot);
    let axes = Axes::new(chart);
    let left = MARGIN + BESIDE + frame::y_room(&axes.y);
    let legend = frame::legend_width(entries).max(24.0);
    let (right, bottom) = (
        WIDTH - MARGIN - legend,
        scene.height - MARGIN - BELOW - foot,
    );
    let panel = Panel {
        left,
        top,
        right,
        bottom,
        x: axes.x(right - left),
        y: axes.y.clone(),
    };
    panel.grid(&mut scene);
    let points: Vec<ParetoPoint> = chart
        .points
        .iter()
        .filter(|it| it.finite())
        .cloned()
        .collect();
    let spots: Vec<Spot> = points
        .iter()
        .map(|point| (panel.px(point.x), panel.py(point.y)))
        .collect();
    let front = front(&points);
    let stairs = stairs(&panel, &front, &spots);
    let mut strokes: Vec<(Spot, Spot)> = stairs.windows(2).map(|it| (it[0], it[1])).collect();
    scene.line(stairs, FRONT, 3.0);
    for (point, look) in points.iter().zip(looks) {
        for (from, to) in cross(&panel, point) {
            scene.line(vec![from, to], look.color, 2.0);
            strokes.push((from, to));
        }
    }
    if entries.is_empty() {
        let corners = (
            (panel.left + 4.0, top + 4.0),
            (WIDTH - MARGIN, bottom - 4.0),
        );
        names(&mut scene, corners, &points, &spots, &front, &strokes)?;
    }
    // The signs come last: a leader must not cut them.
    for (at, point) in points.iter().enumerate() {
        sign(&mut scene, spots[at], point.complete, looks[at]);
    }
    panel.axes(&mut scene);
    panel.labels(&mut scene, &axes.title(chart), &chart.y);
    if points.is_empty() {
        panel.note(&mut scene, "no data");
    }
    frame::legend(&mut scene, (right + 30.0, top), entries);
    frame::note(&mut scene, &chart.note);
    Some(scene)
}

/// The two scales; the horizontal one may count in powers of ten.
struct Axes {
    unit: super::Unit,
    low: f64,
    high: f64,
    far: bool,
    y: Scale,
}

impl Axes {
    fn new(chart: &ParetoChart) -> Self {
        let points = || chart.points.iter().filter(|point| point.finite());
        let range = |values: Vec<f64>| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
            if low <= high { (low, high) } else { (0.0, 0.0) }
        };
        let (low, high) = range(points().flat_map(ParetoPoint::xs).collect());
        let (bottom, top) = range(points().flat_map(ParetoPoint::ys).collect());
        Axes {
            unit: chart.x.unit,
            low,
            high,
            far: low > 0.0 && high > FAR * low,
            y: Scale::round(chart.y.unit, bottom, top, 8),
        }
    }

    fn x(&self, width: f64) -> Scale {
        frame::fit(width, |most| {
            if self.far {
                Scale::powers(self.unit, (self.low, self.high), false, most)
            } else {
                Scale::round(self.unit, self.low, self.high, most)
            }
        })
    }

    fn title(&self, chart: &ParetoChart) -> Axis {
        if self.far {
            Axis::in_powers(&chart.x.label, chart.x.unit)
        } else {
            chart.x.clone()
        }
    }
}

/// The front as stairs: what lies right of and above them is beaten.
fn stairs(panel: &Panel, front: &[usize], spots: &[Spot]) -> Vec<Spot> {
    let (Some(first), Some(last)) = (front.first(), front.last()) else {
        return Vec::new();
    };
    let mut line = vec![(spots[*first].0, panel.top)];
    for pair in front.windows(2) {
        let (a, b) = (spots[pair[0]], spots[pair[1]]);
        line.extend([a, (b.0, a.1)]);
    }
    line.extend([spots[*last], (panel.right, spots[*last].1)]);
    line
}

/// How far a point spreads both ways, as two strokes.
fn cross(panel: &Panel, point: &ParetoPoint) -> [(Spot, Spot); 2] {
    let (x, y) = (panel.px(point.x), panel.py(point.y));
    let [left, _, right] = point.xs().map(|value| panel.px(value));
    let [low, _, high] = point.ys().map(|value| panel.py(value));
    [((left, y), (right, y)), ((x, low), (x, high))]
}

fn sign(scene: &mut Scene, at: Spot, complete: bool, look: Look) {
    scene.sign(at, look.marker, RADIUS + 2.5, (255, 255, 255));
    scene.sign(at, look.marker, RADIUS, look.color);
    if !complete {
        scene.sign(at, look.marker, RADIUS * 0.6, (255, 255, 255));
    }
}

/// Names beside their points, those of the front in bold and first, those at one spot together;
/// `None` where one finds no place.
fn names(
    scene: &mut Scene,
    (from, to): (Spot, Spot),
    points: &[ParetoPoint],
    spots: &[Spot],
    front: &[usize],
    strokes: &[(Spot, Spot)],
) -> Option<()> {
    let rest = (0..points.len()).filter(|at| !front.contains(at));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in front.iter().copied().chain(rest) {
        let near = |other: usize| {
            let (a, b) = (spots[at], spots[other]);
            (a.0 - b.0).abs() < RADIUS && (a.1 - b.1).abs() < RADIUS
        };
        match groups.iter_mut().find(|group| near(group[0])) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    let label = |group: &Vec<usize>| {
        let names: Vec<&str> = group.iter().map(|at| &*points[*at].name).collect();
        let bold = front.contains(&group[0]);
        Label::new(&names.join(", "), spots[group[0]], bold, group.len() + 1)
    };
    let labels: Vec<Label> = groups.iter().map(label).collect();
    let places = place(&labels, (spots, strokes), from, to)?;
    for (label, place) in labels.iter().zip(&places) {
        if let Some(leader) = place.leader {
            scene.line(vec![label.spot, leader], SOFT, 1.0);
        }
    }
    for (group, (label, place)) in groups.iter().zip(labels.iter().zip(&places)) {
        let served = group.iter().any(|at| points[*at].complete);
        let face = Type {
            color: if served { INK } else { SOFT },
            ..label.face
        };
        for (line, words) in label.lines.iter().enumerate() {
            let y = place.top + (line as f64 + 0.5) * LINE;
            let x = place.left + (label.width - text_width(words, face)) * place.lean;
            scene.text((x, y), words, face, Align::Left);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64, complete: bool) -> ParetoPoint {
        ParetoPoint {
            name: format!("{x}-{y}"),
            x,
            y,
            x_range: None,
            y_range: None,
            complete,
        }
    }

    #[test]
    fn the_front_is_what_no_complete_point_beats() {
        let points = [
            point(5.0, 1.0, true),
            point(1.0, 9.0, true),
            point(1.0, 8.0, true),
            point(3.0, 4.0, true),
            point(3.0, 4.0, true),
            point(4.0, 4.0, true),
            point(0.5, 0.5, false),
            point(f64::NAN, 0.0, true),
            point(6.0, 1.0, true),
        ];
        assert_eq!(front(&points), [2, 3, 4, 0]);
        assert!(front(&points[6..8]).is_empty());
    }
}
