//! Where names go around their points, so that none covers another, a point or a leader.

use crate::plot::frame::{LINE, TICK};
use crate::plot::scene::{Spot, Type, text_width, wrap};

const WIDEST: f64 = 330.0;
/// What a point keeps free around itself.
const AROUND: f64 = 13.0;
/// Distances at which a place is tried, the nearest first.
const DISTANCES: [f64; 7] = [15.0, 32.0, 55.0, 85.0, 120.0, 165.0, 220.0];
/// Nearer than this a name needs no leader.
const NEAR: f64 = 40.0;
/// Directions in which a place is tried: right, left, above, below, then between.
#[rustfmt::skip]
const DIRECTIONS: [Spot; 12] = [
    (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (0.0, 1.0),
    (0.8, -0.6), (0.8, 0.6), (-0.8, -0.6), (-0.8, 0.6),
    (0.6, -0.8), (0.6, 0.8), (-0.6, -0.8), (-0.6, 0.8),
];

/// A name to be placed.
pub struct Label {
    pub lines: Vec<String>,
    pub face: Type,
    pub width: f64,
    pub spot: Spot,
}

impl Label {
    /// A name, or several at one spot, separated by commas.
    pub fn new(name: &str, spot: Spot, bold: bool, most_lines: usize) -> Self {
        let face = Type { bold, ..TICK };
        let lines = wrap(name, face, WIDEST, most_lines);
        let widths = lines.iter().map(|line| text_width(line, face));
        let width = widths.fold(0.0, f64::max);
        Label {
            lines,
            face,
            width,
            spot,
        }
    }
}

/// Where a name stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub left: f64,
    pub top: f64,
    /// How its lines are set: 0 to the left, 0.5 centred, 1 to the right.
    pub lean: f64,
    /// Where the line from the point ends, where there is one.
    pub leader: Option<Spot>,
}

/// Left, upper, right and lower edge.
type Area = (f64, f64, f64, f64);

/// Places all names between two corners, in their order; `None` where one finds no place. No name
/// covers a spot; strokes are kept clear of names as long as there is another place.
pub fn place(
    labels: &[Label],
    (spots, strokes): (&[Spot], &[(Spot, Spot)]),
    from: Spot,
    to: Spot,
) -> Option<Vec<Place>> {
    let around = |(x, y): &Spot| (x - AROUND, y - AROUND, x + AROUND, y + AROUND);
    let points: Vec<Area> = spots.iter().map(around).collect();
    let (mut areas, mut leaders) = (Vec::<Area>::new(), Vec::<(Spot, Spot)>::new());
    let mut places = Vec::new();
    for label in labels {
        let fits = |place: &Place| {
            let area = area(label, place);
            let inside = area.0 >= from.0 && area.1 >= from.1 && area.2 <= to.0 && area.3 <= to.1;
            let leader = place.leader.map(|end| (label.spot, end));
            inside
                && !points.iter().chain(&areas).any(|other| meet(area, *other))
                && !leaders.iter().any(|line| crosses(*line, area))
                && leader.is_none_or(|line| !areas.iter().any(|other| crosses(line, *other)))
        };
        let clear = |place: &Place| {
            let area = area(label, place);
            fits(place) && !strokes.iter().any(|line| crosses(*line, area))
        };
        let best = candidates(label).find(clear);
        let place = best.or_else(|| candidates(label).find(fits))?;
        areas.push(area(label, &place));
        leaders.extend(place.leader.map(|end| (label.spot, end)));
        places.push(place);
    }
    Some(places)
}

fn candidates(label: &Label) -> impl Iterator<Item = Place> {
    let all = DISTANCES
        .into_iter()
        .flat_map(|distance| DIRECTIONS.map(|direction| (distance, direction)));
    all.map(|(distance, (x, y))| candidate(label, distance, (x, y)))
}

/// The place in one direction: the nearest corner or side of the text is at the distance.
fn candidate(label: &Label, distance: f64, (x, y): Spot) -> Place {
    let height = label.lines.len() as f64 * LINE;
    let anchor = (label.spot.0 + x * distance, label.spot.1 + y * distance);
    let lean = if x > 0.1 {
        0.0
    } else if x < -0.1 {
        1.0
    } else {
        0.5
    };
    let rise = (1.0 - y.clamp(-1.0, 1.0)) / 2.0;
    Place {
        left: anchor.0 - label.width * lean,
        top: anchor.1 - height * rise,
        lean,
        leader: (distance > NEAR).then_some((anchor.0 - x * 4.0, anchor.1 - y * 4.0)),
    }
}

fn area(label: &Label, place: &Place) -> Area {
    let height = label.lines.len() as f64 * LINE;
    let (left, top) = (place.left, place.top + 3.0);
    (
        left - 3.0,
        top,
        left + label.width + 3.0,
        top + height - 6.0,
    )
}

fn meet(a: Area, b: Area) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

/// Whether a line touches an area, tried at steps of a few units.
fn crosses((from, to): (Spot, Spot), area: Area) -> bool {
    const STEPS: u32 = 96;
    (0..=STEPS).any(|step| {
        let share = f64::from(step) / f64::from(STEPS);
        let x = from.0 + (to.0 - from.0) * share;
        let y = from.1 + (to.1 - from.1) * share;
        area.0 < x && x < area.2 && area.1 < y && y < area.3
    })
}
