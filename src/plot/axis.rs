//! Axes: units, round ticks, and how numbers are written beside them.

mod powers;

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Number,
    /// A position in a trace, or a count.
    Events,
    /// Nanoseconds, shown as ns, µs, ms, s, min, h or days, whichever fits the span.
    TimeNs,
    /// Bytes, shown in B, KiB, MiB, GiB or TiB with ticks at powers of two.
    Bytes,
    /// Hundredths: 30.0 is 30 %.
    Percent,
}

/// An axis: what is measured and in which unit the numbers come.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is measured, as in "reserved memory"; the unit is added by the chart.
    pub label: String,
    /// What the numbers are.
    pub unit: Unit,
    /// Whether it counts in powers, for values over several orders of magnitude.
    pub in_powers: bool,
}

impl Axis {
    /// An axis with even steps.
    pub fn new(label: &str, unit: Unit) -> Self {
        Axis {
            label: label.to_owned(),
            unit,
            in_powers: false,
        }
    }

    /// An axis that counts in powers, and says so.
    pub fn in_powers(label: &str, unit: Unit) -> Self {
        Axis {
            label: format!("{label} (logarithmic)"),
            unit,
            in_powers: true,
        }
    }
}

/// A range of values with its ticks.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<(f64, String)>,
    /// The unit that the tick labels are in; empty for plain numbers.
    unit: String,
    /// What one of that unit is.
    factor: f64,
    spacing: Spacing,
}

/// How the values of a scale lie from its low end to its high one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spacing {
    /// Equal steps are equally wide.
    Even,
    /// Equal ratios are; the ends of the scale are logarithms, and zero is at the place told.
    Powers { zero_at: f64 },
}

impl Scale {
    /// Where a value lies between the ends of the scale.
    pub fn along(&self, value: f64) -> f64 {
        match self.spacing {
            Spacing::Even => value,
            Spacing::Powers { zero_at } if value <= 0.0 => zero_at,
            Spacing::Powers { .. } => powers::log10(value),
        }
    }

    /// From zero (or below, where values are negative) to a round value at or above `high`.
    pub fn from_zero(unit: Unit, low: f64, high: f64, most: usize) -> Self {
        let low = low.min(0.0);
        let high = if high > low { high } else { least_span(unit) };
        let step = step(unit, high - low, most);
        let top = (high / step - 1e-9).ceil() * step;
        Scale::over(unit, (low / step + 1e-9).floor() * step, top, most)
    }

    /// Between round values around `low` and `high`; from zero where zero is not far below.
    pub fn round(unit: Unit, low: f64, high: f64, most: usize) -> Self {
        if low <= 0.3 * high {
            return Scale::from_zero(unit, low, high, most);
        }
        let (low, high) = if high > low {
            (low, high)
        } else {
            around(unit, low)
        };
        let step = step(unit, high - low, most);
        let bottom = (low / step + 1e-9).floor() * step;
        Scale::over(unit, bottom, (high / step - 1e-9).ceil() * step, most)
    }

    /// Exactly from `low` to `high` (wider where they are equal), with about `most` ticks within.
    pub fn over(unit: Unit, low: f64, high: f64, most: usize) -> Self {
        let (low, high) = if high > low {
            (low, high)
        } else {
            around(unit, low)
        };
        let span = high - low;
        let far = unit == Unit::TimeNs && low > 20.0 * span;
        let origin = if far { round_below(low, span) } else { 0.0 };
        let step = step(unit, span, most);
        let (factor, name) = measure(unit, (high - origin).max(origin - low), step);
        let decimals = decimals(step / factor);
        let first = ((low - origin) / step - 1e-9).ceil();
        let count = ((high - origin) / step + 1e-9).floor() - first;
        let ticks = (0..=count.max(0.0) as u64).map(|i| {
            let value = (first + i as f64) * step;
            (
                value + origin,
                tick_label(unit, value, factor, decimals, name),
            )
        });
        let ticks = ticks.collect();
        let unit = match unit {
            Unit::Number | Unit::Events => String::new(),
            _ if far => format!("{name} after {origin:.0} ns"),
            _ => name.to_owned(),
        };
        Scale {
            low,
            high,
            ticks,
            unit,
            factor,
            spacing: Spacing::Even,
        }
    }

    /// A value as the ticks write theirs, as finely as the span of the axis deserves.
    pub fn number(&self, unit: Unit, value: f64) -> String {
        let counted = unit == Unit::Number && self.factor != 1.0;
        if counted || unit == Unit::Events {
            return spelled(unit, value);
        }
        let span = (self.high - self.low) / self.factor;
        let fine = |bound: &f64| span < *bound;
        let decimals = [100.0, 10.0, 1.0].iter().filter(|it| fine(it)).count();
        let rounded = format!("{:.decimals$}", value / self.factor);
        if rounded.trim_matches(['-', '0', '.']).is_empty() {
            return rounded.replace('-', "");
        }
        rounded
    }

    /// The scale of an axis whose places are counted and have no ticks.
    pub fn blank(places: usize) -> Self {
        Scale::over(Unit::Number, 0.0, places.max(1) as f64, 1).with_ticks(Vec::new())
    }

    /// The same range with other ticks.
    pub fn with_ticks(self, ticks: Vec<(f64, String)>) -> Self {
        Scale { ticks, ..self }
    }

    /// The words beside the axis.
    pub fn title(&self, label: &str) -> String {
        match (label.is_empty(), self.unit.is_empty()) {
            (_, true) => label.to_owned(),
            (true, false) => format!("[{}]", self.unit),
            (false, false) => format!("{label} [{}]", self.unit),
        }
    }
}

/// A value with its unit, as it stands beside a bar.
pub(super) fn spelled(unit: Unit, value: f64) -> String {
    match unit {
        // 99.996 % is not 100 %: cut, never rounded up.
        Unit::Percent if value > 99.0 => format!("{} %", plain((value * 100.0).floor() / 100.0, 2)),
        Unit::Percent if value > 0.0 && value < 0.1 => "< 0.1 %".to_owned(),
        Unit::Percent => format!("{} %", plain(value, 1)),
        Unit::Events => grouped(value),
        Unit::Number => plain(value, 3),
        Unit::Bytes | Unit::TimeNs => {
            let (factor, name) = measure(unit, value.abs(), value);
            let decimals = if factor == 1.0 { 0 } else { 2 };
            format!("{} {name}", plain(value / factor, decimals))
        }
    }
}

/// A number with at most so many decimals and no trailing zeros.
fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number in groups of three digits, as long as each digit is certain.
fn grouped(value: f64) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.3e}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    out
}

fn tick_label(unit: Unit, value: f64, factor: f64, decimals: usize, name: &str) -> String {
    let counted = matches!(unit, Unit::Number | Unit::Events) && value != 0.0;
    match counted {
        true if decimals > 2 && factor > 1.0 => grouped(value),
        true => format!("{:.decimals$}{name}", value / factor),
        // Adding zero turns -0 into 0.
        false => format!("{:.decimals$}", value / factor + 0.0),
    }
}

const KIB: f64 = 1024.0;
const HOUR: f64 = 3600e9;

/// From which value on a unit is used, how large it is, its name.
type Measure = (f64, f64, &'static str);

const BYTES: [Measure; 5] = [
    (0.0, 1.0, "B"),
    (KIB, KIB, "KiB"),
    (KIB * KIB, KIB * KIB, "MiB"),
    (KIB * KIB * KIB, KIB * KIB * KIB, "GiB"),
    (KIB * KIB * KIB * KIB, KIB * KIB * KIB * KIB, "TiB"),
];

const TIMES: [Measure; 7] = [
    (0.0, 1.0, "ns"),
    (2e3, 1e3, "µs"),
    (2e6, 1e6, "ms"),
    (2e9, 1e9, "s"),
    (180e9, 60e9, "min"),
    (3.0 * HOUR, HOUR, "h"),
    (72.0 * HOUR, 24.0 * HOUR, "days"),
];

const COUNTS: [Measure; 6] = [
    (0.0, 1.0, ""),
    (1e4, 1e3, "k"),
    (2e6, 1e6, "M"),
    (2e9, 1e9, "G"),
    (2e12, 1e12, "T"),
    (2e15, 1e15, "P"),
];

/// The factor and name of the unit that fits values up to `high`.
fn measure(unit: Unit, high: f64, step: f64) -> (f64, &'static str) {
    let measures: &[Measure] = match unit {
        Unit::Percent => &[(0.0, 1.0, "%")],
        Unit::TimeNs => &TIMES,
        Unit::Bytes => &BYTES,
        Unit::Number | Unit::Events if step < 1.0 => &COUNTS[..1],
        Unit::Number | Unit::Events => &COUNTS,
    };
    let fit = measures
        .iter()
        .rev()
        .find(|measure| high >= measure.0)
        .unwrap_or(&measures[0]);
    (fit.1, fit.2)
}

/// The distance between ticks: a power of two for bytes, else 1, 2 or 5 times a power of ten of the unit
/// shown, and whole for what is counted.
fn step(unit: Unit, span: f64, most: usize) -> f64 {
    let least = span / most.max(1) as f64;
    match unit {
        Unit::Bytes => std::iter::successors(Some(1.0), |step| Some(step * 2.0))
            .find(|step| *step >= least)
            .expect("powers of two have no end"),
        Unit::Events => nice(least).max(1.0),
        Unit::TimeNs => {
            let (factor, _) = measure(unit, span, least);
            nice(least / factor) * factor
        }
        Unit::Number | Unit::Percent => nice(least),
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `value`.
fn nice(value: f64) -> f64 {
    let power = round_power(value);
    let enough = |multiple: &f64| multiple * power >= value * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(enough).unwrap_or(10.0) * power
}

/// The largest power of ten that is at most `value`, by plain arithmetic: the same on every machine.
fn round_power(value: f64) -> f64 {
    let mut power = 1.0;
    while power * 10.0 <= value && power < 1e300 {
        power *= 10.0;
    }
    while power > value && power > 1e-300 {
        power /= 10.0;
    }
    power
}

/// A round value at or below `low`, no further away than ten spans.
fn round_below(low: f64, span: f64) -> f64 {
    let grain = round_power(span).max(1.0) * 10.0;
    (low / grain).floor() * grain
}

/// How many decimals it takes to write multiples of `step` exactly, up to six.
fn decimals(step: f64) -> usize {
    let mut scaled = step;
    for digits in 0..6 {
        if scaled > 0.5 && (scaled - scaled.round()).abs() < 1e-6 * scaled {
            return digits;
        }
        scaled *= 10.0;
    }
    6
}

/// A range for a chart that holds a single value.
fn around(unit: Unit, value: f64) -> (f64, f64) {
    if unit == Unit::Percent && (0.0..=100.0).contains(&value) {
        return (0.0, 100.0);
    }
    let margin = least_span(unit).max(value.abs() * 0.1) / 2.0;
    if (0.0..margin).contains(&value) {
        (0.0, 2.0 * margin)
    } else {
        (value - margin, value + margin)
    }
}

/// The span of an axis on which all values are equal.
fn least_span(unit: Unit) -> f64 {
    match unit {
        Unit::Number => 1.0,
        Unit::Events => 10.0,
        Unit::TimeNs => 1e3,
        Unit::Bytes => KIB,
        Unit::Percent => 100.0,
    }
}
