//! Size histograms: how many requests of which size, and how many bytes they are together.

use super::axis::{Axis, Scale, Unit, spelled};
use super::frame::{self, BELOW, BESIDE, HEIGHT, MARGIN, Panel, SOFT, TICK, WIDTH};
use super::scene::{Align, Color, Scene, Type, text_width};

const COUNT: Color = (0x00, 0x72, 0xB2);
const BYTES: Color = (0xE6, 0x9F, 0x00);

/// Requests by size, in bins of a power of two.
#[derive(Clone, Debug)]
pub struct SizeHistogram {
    /// What the chart shows.
    pub title: String,
    /// Of what: trace, seed.
    pub subtitle: String,
    /// The bins, in any order, none twice; a missing one is empty.
    pub bins: Vec<SizeBin>,
    /// Requests of zero bytes, which no bin holds.
    pub zeros: u64,
}

/// Requests of `2^log2` bytes up to, but not including, twice that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBin {
    /// The binary logarithm of the smallest size, 0 to 63.
    pub log2: u32,
    /// Requests.
    pub count: u64,
    /// Their bytes together.
    pub bytes: u64,
}

impl SizeHistogram {
    /// Counts sizes in bytes. A sum of bytes beyond 64 bits stays at the largest number there is.
    pub fn of(title: &str, subtitle: &str, sizes: impl IntoIterator<Item = u64>) -> Self {
        let empty = |log2| SizeBin {
            log2,
            count: 0,
            bytes: 0,
        };
        let mut bins: Vec<SizeBin> = (0..64).map(empty).collect();
        let mut zeros = 0;
        for size in sizes {
            let Some(log2) = size.checked_ilog2() else {
                zeros += 1;
                continue;
            };
            let bin = &mut bins[log2 as usize];
            bin.count += 1;
            bin.bytes = bin.bytes.saturating_add(size);
        }
        bins.retain(|bin| bin.count > 0);
        SizeHistogram {
            title: title.to_owned(),
            subtitle: subtitle.to_owned(),
            bins,
            zeros,
        }
    }
}

pub(super) fn scene(chart: &SizeHistogram) -> Scene {
    let mut scene = Scene::new(WIDTH, HEIGHT);
    let top = frame::heading(&mut scene, &chart.title, &chart.subtitle) + 8.0;
    let most = |value: fn(&SizeBin) -> u64| chart.bins.iter().map(value).max().unwrap_or(0) as f64;
    let count = Scale::from_zero(Unit::Events, 0.0, most(|bin| bin.count), 5);
    let bytes = Scale::from_zero(Unit::Bytes, 0.0, most(|bin| bin.bytes), 5);
    let left = MARGIN + BESIDE + frame::y_room(&count).max(frame::y_room(&bytes));
    let (right, bottom) = (WIDTH - MARGIN - 40.0, HEIGHT - MARGIN - BELOW + 8.0);
    let x = sizes(chart, right - left);
    let middle = (top + bottom) / 2.0;
    let upper = Panel {
        left,
        top,
        right,
        bottom: middle - 22.0,
        x: x.clone(),
        y: count,
    };
    let lower = Panel {
        left,
        top: middle + 22.0,
        right,
        bottom,
        x,
        y: bytes,
    };
    bars(&mut scene, chart, &upper, Unit::Events, COUNT);
    bars(&mut scene, chart, &lower, Unit::Bytes, BYTES);
    upper.y_labels(&mut scene);
    let title = upper.y.title("requests");
    frame::y_title(&mut scene, &title, (upper.top + upper.bottom) / 2.0);
    lower.labels(
        &mut scene,
        &Axis::new("size of a request", Unit::Number),
        &Axis::new("bytes", Unit::Bytes),
    );
    if chart.bins.is_empty() {
        upper.note(&mut scene, "no data");
        lower.note(&mut scene, "no data");
    }
    if chart.zeros > 0 {
        let words = format!(
            "not shown: {} of zero bytes",
            spelled(Unit::Events, chart.zeros as f64)
        );
        let face = Type {
            color: SOFT,
            ..TICK
        };
        scene.text((right, bottom + 64.0), &words, face, Align::Right);
    }
    scene
}

/// An axis of binary logarithms, a tick at the edges of bins, as many as there is room for.
fn sizes(chart: &SizeHistogram, width: f64) -> Scale {
    let low = chart.bins.iter().map(|bin| bin.log2).min().unwrap_or(0);
    let high = chart.bins.iter().map(|bin| bin.log2).max().unwrap_or(9) + 1;
    frame::fit(width, |most| {
        let step = if most == 11 {
            1
        } else {
            (high - low).div_ceil(most as u32)
        };
        let scale = Scale::over(Unit::Number, f64::from(low), f64::from(high), 1);
        let edges = (low..=high).filter(|log2| log2.is_multiple_of(step));
        let power = |log2: u32| spelled(Unit::Bytes, (1u128 << log2) as f64);
        scale.with_ticks(edges.map(|log2| (f64::from(log2), power(log2))).collect())
    })
}

fn bars(scene: &mut Scene, chart: &SizeHistogram, panel: &Panel, unit: Unit, color: Color) {
    panel.grid(scene);
    let value = |bin: &SizeBin| {
        if unit == Unit::Bytes {
            bin.bytes as f64
        } else {
            bin.count as f64
        }
    };
    let words = |bin: &SizeBin| spelled(unit, value(bin));
    let face = Type { size: 22.0, ..TICK };
    let width = panel.px(panel.x.low + 1.0) - panel.left;
    let room = chart
        .bins
        .iter()
        .all(|bin| text_width(&words(bin), face) + 6.0 <= width);
    for bin in chart.bins.iter().filter(|bin| value(bin) > 0.0) {
        let (left, top) = (panel.px(f64::from(bin.log2)), panel.py(value(bin)));
        // A bin that holds anything shows, were it but a line.
        let top = top.min(panel.bottom - 2.0);
        scene.rect(
            (left + 2.0, top),
            (left + width - 2.0, panel.bottom),
            color,
            1.0,
        );
        if room {
            scene.text(
                (left + width / 2.0, top - 14.0),
                &words(bin),
                face,
                Align::Centre,
            );
        }
    }
    panel.axes(scene);
}
