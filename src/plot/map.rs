//! Address maps: which addresses were in use when, under one policy.

mod cells;

use super::axis::{Axis, Scale, Unit, spelled};
use super::frame::{self, BELOW, BESIDE, Entry, HEIGHT, LABEL, MARGIN, Panel, Swatch, TICK, WIDTH};
use super::palette::{COLORS, Marker, RAMP};
use super::scene::{Align, Color, Scene, text_width};
use cells::Cells;

/// Up to so many blocks are drawn one by one; of more than that, what a reader can see of them.
const MOST_BLOCKS: usize = 4000;
/// A map of more rectangles than this is drawn with larger cells.
const MOST_RUNS: usize = 40_000;

const MAPPED: Color = (0xEA, 0xEA, 0xEA);
const FAILURE: Color = (0xC2, 0x10, 0x1E);

/// Blocks as rectangles: address by time.
#[derive(Clone, Debug)]
pub struct AddressMap {
    /// What the map shows, the policy named.
    pub title: String,
    /// Of what: trace, capacity, seed.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// What was mapped and when; shown in grey. May be empty.
    pub segments: Vec<Segment>,
    /// The blocks in use.
    pub rects: Vec<Rect>,
    /// The names of the classes, to which `Rect::class` points.
    pub classes: Vec<String>,
    /// What the classes are, as in "block size" or "stream".
    pub class_label: String,
    /// How classes are coloured.
    pub colouring: Colouring,
    /// Where requests failed, on the horizontal axis.
    pub failures: Vec<f64>,
}

/// Whether classes have an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colouring {
    /// Dark to light, as for sizes; eight colours in all.
    Ordered,
    /// Colours without an order, as for streams; fifteen in all.
    Named,
}

/// A mapped range of addresses over a range of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Mapped at.
    pub x0: f64,
    /// Unmapped at; not finite where never.
    pub x1: f64,
    /// The first address.
    pub address: u64,
    /// The length.
    pub bytes: u64,
}

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    /// Allocated at.
    pub x0: f64,
    /// Freed at; not finite where never.
    pub x1: f64,
    /// The first address.
    pub address: u64,
    /// The length.
    pub bytes: u64,
    /// An index into the classes of the map.
    pub class: usize,
}

/// Sorts blocks into at most eight classes of size, each some powers of two wide, and answers their names.
pub fn size_classes(rects: &mut [Rect]) -> Vec<String> {
    let log = |rect: &Rect| rect.bytes.max(1).ilog2();
    let (Some(low), Some(high)) = (rects.iter().map(log).min(), rects.iter().map(log).max()) else {
        return Vec::new();
    };
    let wide = (high - low + 1).div_ceil(8);
    for rect in rects.iter_mut() {
        rect.class = ((log(rect) - low) / wide) as usize;
    }
    let power = |log: u32| spelled(Unit::Bytes, (1u128 << log) as f64);
    let classes = (low..=high).step_by(wide as usize);
    classes
        .map(|from| format!("{} \u{2013} {}", power(from), power(from + wide)))
        .collect()
}

pub(super) fn scene(chart: &AddressMap) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    let mut top = frame::heading(&mut scene, &chart.title, &chart.subtitle);
    if !chart.failures.is_empty() {
        top += 18.0;
    }
    let ranges = ranges(chart);
    let bottom = HEIGHT - MARGIN - BELOW + 8.0;
    let stack = Stack::new(&ranges, top, bottom);
    let names = stack.names(&ranges);
    let entries = entries(chart);
    let panel = panel(chart, &ranges, &names, &entries, (top, bottom));
    panel.grid(&mut scene);
    paint(&mut scene, chart, &panel, &stack);
    failures(&mut scene, chart, &panel);
    panel.axes(&mut scene);
    titles(&mut scene, chart, &panel, &ranges);
    for (at, name) in &names {
        let left = panel.left;
        scene.line(vec![(left - 7.0, *at), (left, *at)], frame::INK, 2.0);
        scene.text((left - 13.0, *at), name, TICK, Align::Right);
    }
    if chart.rects.is_empty() && chart.segments.is_empty() {
        panel.note(&mut scene, "no data");
    }
    let beside = panel.right + 30.0;
    let label = (beside, top + 14.0);
    scene.text(label, &chart.class_label, LABEL, Align::Left);
    frame::legend(&mut scene, (beside, top + 40.0), &entries);
    scene
}

/// The panel between two heights: names or numbers to its left, the legend to its right.
fn panel(
    chart: &AddressMap,
    ranges: &[(u128, u128)],
    names: &[(f64, String)],
    entries: &[Entry],
    (top, bottom): (f64, f64),
) -> Panel {
    let y = match ranges {
        [(start, end)] => Scale::over(Unit::Bytes, 0.0, (end - start) as f64, 9),
        _ => Scale::over(Unit::Bytes, 0.0, 1.0, 1).with_ticks(Vec::new()),
    };
    let widths = names.iter().map(|(_, name)| text_width(name, TICK) + 20.0);
    let left = MARGIN + BESIDE + widths.fold(frame::y_room(&y), f64::max);
    let legend = frame::legend_width(entries).max(text_width(&chart.class_label, LABEL) + 40.0);
    let right = WIDTH - MARGIN - legend;
    let (low, high) = extent(chart);
    let x = frame::fit(right - left, |most| {
        Scale::over(chart.x.unit, low, high, most)
    });
    Panel {
        left,
        top,
        right,
        bottom,
        x,
        y,
    }
}

/// Numbers and words of both axes.
fn titles(scene: &mut Scene, chart: &AddressMap, panel: &Panel, ranges: &[(u128, u128)]) {
    panel.x_labels(scene);
    panel.y_labels(scene);
    let below = ((panel.left + panel.right) / 2.0, panel.bottom);
    frame::x_title(scene, &panel.x.title(&chart.x.label), below);
    let label = address_label(ranges);
    let title = if ranges.len() == 1 {
        panel.y.title(&label)
    } else {
        label
    };
    frame::y_title(scene, &title, (panel.top + panel.bottom) / 2.0);
}

fn address_label(ranges: &[(u128, u128)]) -> String {
    match ranges {
        [] => "address".to_owned(),
        [(start, _)] => format!("address from {start:#x}"),
        _ => format!("address ({} ranges, gaps left out)", ranges.len()),
    }
}

fn entries(chart: &AddressMap) -> Vec<Entry> {
    let class = |(at, name): (usize, &String)| Entry {
        swatch: Swatch::Fill(color(chart, at)),
        label: name.clone(),
    };
    let mut entries: Vec<_> = chart.classes.iter().enumerate().map(class).collect();
    if !chart.segments.is_empty() {
        entries.push(Entry {
            swatch: Swatch::Fill(MAPPED),
            label: "mapped, not in use".into(),
        });
    }
    if !chart.failures.is_empty() {
        let label = format!(
            "failed request ({})",
            spelled(Unit::Events, chart.failures.len() as f64)
        );
        entries.push(Entry {
            swatch: Swatch::Sign(Marker::Down, FAILURE),
            label,
        });
    }
    entries
}

fn color(chart: &AddressMap, class: usize) -> Color {
    match chart.colouring {
        Colouring::Named => COLORS[class % COLORS.len()],
        Colouring::Ordered => {
            let last = chart.classes.len().max(2) - 1;
            RAMP[class.min(last) * (RAMP.len() - 1) / last]
        }
    }
}

/// The extremes of time on the map.
fn extent(chart: &AddressMap) -> (f64, f64) {
    let segments = chart
        .segments
        .iter()
        .flat_map(|segment| [segment.x0, segment.x1]);
    let rects = chart.rects.iter().flat_map(|rect| [rect.x0, rect.x1]);
    let all = segments
        .chain(rects)
        .chain(chart.failures.iter().copied())
        .filter(|x| x.is_finite());
    let wide = all.fold((f64::MAX, f64::MIN), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    if wide.0 > wide.1 { (0.0, 0.0) } else { wide }
}

/// The ranges of addresses that ever held something, in order, small gaps closed.
fn ranges(chart: &AddressMap) -> Vec<(u128, u128)> {
    let segments = chart
        .segments
        .iter()
        .map(|segment| (segment.address, segment.bytes));
    let rects = chart.rects.iter().map(|rect| (rect.address, rect.bytes));
    let end =
        |(start, bytes): (u64, u64)| (u128::from(start), u128::from(start) + u128::from(bytes));
    let mut all: Vec<(u128, u128)> = segments
        .chain(rects)
        .filter(|part| part.1 > 0)
        .map(end)
        .collect();
    all.sort_unstable();
    let tight = join(&all, 0);
    let total: u128 = tight.iter().map(|(start, end)| end - start).sum();
    join(&tight, total / 64)
}

/// Joins ranges that overlap or lie no further apart than `gap`.
fn join(sorted: &[(u128, u128)], gap: u128) -> Vec<(u128, u128)> {
    let mut joined: Vec<(u128, u128)> = Vec::new();
    for &(start, end) in sorted {
        match joined.last_mut() {
            Some(last) if start <= last.1 + gap => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Ranges of addresses one above the other, on one scale, with small gaps between.
struct Stack {
    /// First address, first address behind, height of the first on the sheet.
    floors: Vec<(u128, u128, f64)>,
    units_per_byte: f64,
}

impl Stack {
    fn new(ranges: &[(u128, u128)], top: f64, bottom: f64) -> Self {
        let count = ranges.len().max(1) as f64;
        let gap = if count > 1.0 {
            (0.1 * (bottom - top) / count).min(8.0)
        } else {
            0.0
        };
        let total: u128 = ranges.iter().map(|(start, end)| end - start).sum();
        let units_per_byte = (bottom - top - gap * (count - 1.0)) / total.max(1) as f64;
        let mut floor = bottom;
        let floors = ranges.iter().map(|&(start, end)| {
            let this = floor;
            floor -= (end - start) as f64 * units_per_byte + gap;
            (start, end, this)
        });
        Stack {
            floors: floors.collect(),
            units_per_byte,
        }
    }

    /// Where an address that lies in one of the ranges, or at its end, is on the sheet.
    fn y(&self, base: u128, address: u128) -> f64 {
        let at = self.floors.partition_point(|floor| floor.0 <= base).max(1) - 1;
        let (start, _, floor) = self.floors[at];
        floor - (address - start) as f64 * self.units_per_byte
    }

    /// The first address of each range beside it, where there is more than one and as far as there is room.
    fn names(&self, ranges: &[(u128, u128)]) -> Vec<(f64, String)> {
        let mut names: Vec<(f64, String)> = Vec::new();
        for floor in self.floors.iter().filter(|_| ranges.len() > 1) {
            if names.last().is_none_or(|last| last.0 - floor.2 >= 30.0) {
                names.push((floor.2, format!("{:#x}", floor.0)));
            }
        }
        names
    }
}

/// Left, upper, right and lower edge on the sheet.
type Place = (f64, f64, f64, f64);

fn place(
    panel: &Panel,
    stack: &Stack,
    (x0, x1): (f64, f64),
    (address, bytes): (u64, u64),
) -> Place {
    let base = u128::from(address);
    let right = if x1.is_finite() {
        panel.px(x1)
    } else {
        panel.right
    };
    let upper = stack.y(base, base + u128::from(bytes));
    (panel.px(x0), upper, right, stack.y(base, base))
}

fn paint(scene: &mut Scene, chart: &AddressMap, panel: &Panel, stack: &Stack) {
    for segment in chart.segments.iter().filter(|segment| segment.bytes > 0) {
        let at = place(
            panel,
            stack,
            (segment.x0, segment.x1),
            (segment.address, segment.bytes),
        );
        scene.rect((at.0, at.1), (at.2, at.3), MAPPED, 1.0);
    }
    let rects = chart
        .rects
        .iter()
        .filter(|rect| rect.bytes > 0 && rect.x0.is_finite());
    let places = rects.map(|rect| {
        (
            place(panel, stack, (rect.x0, rect.x1), (rect.address, rect.bytes)),
            rect.class,
        )
    });
    if chart.rects.len() <= MOST_BLOCKS {
        for ((left, upper, right, lower), class) in places {
            let line = if lower - upper > 4.0 { 1.0 } else { 0.0 };
            scene.rect(
                (left, upper + line),
                (right, lower),
                color(chart, class),
                1.0,
            );
        }
        return;
    }
    let places: Vec<(Place, usize)> = places.collect();
    let runs = (1..=4).map(|cell| Cells::new(panel, f64::from(cell), &places).runs());
    let fine = runs
        .enumerate()
        .find(|(at, runs)| runs.len() <= MOST_RUNS || *at == 3);
    for ((left, upper, right, lower), class) in fine.map(|(_, runs)| runs).unwrap_or_default() {
        scene.rect((left, upper), (right, lower), color(chart, class), 1.0);
    }
}

/// A row of triangles above the map, no more than can be told apart.
fn failures(scene: &mut Scene, chart: &AddressMap, panel: &Panel) {
    let finite = chart.failures.iter().filter(|x| x.is_finite());
    let mut places: Vec<i64> = finite
        .map(|x| (panel.px(*x) / 4.0).round() as i64)
        .collect();
    places.sort_unstable();
    places.dedup();
    for place in places {
        scene.sign(
            (place as f64 * 4.0, panel.top - 13.0),
            Marker::Down,
            8.0,
            FAILURE,
        );
    }
}
