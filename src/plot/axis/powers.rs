//! An axis in powers of ten, by plain arithmetic: the same on every machine.

use super::{Scale, Spacing, Unit, spelled};

/// The decimal logarithm of a positive value, exact to about twelve digits.
///
/// Squaring doubles a logarithm: each time the square passes ten, the next binary digit is one.
pub fn log10(value: f64) -> f64 {
    let (mut whole, mut rest) = (0.0, value);
    while rest >= 10.0 {
        rest /= 10.0;
        whole += 1.0;
    }
    while rest < 1.0 && rest > 0.0 {
        rest *= 10.0;
        whole -= 1.0;
    }
    let (mut fraction, mut digit) = (0.0, 0.5);
    for _ in 0..40 {
        rest *= rest;
        if rest >= 10.0 {
            rest /= 10.0;
            fraction += digit;
        }
        digit /= 2.0;
    }
    whole + fraction
}

/// What lies left of the smallest value above zero, where zero has a place: this share of the rest.
const ZERO_SHARE: f64 = 0.15;

impl Scale {
    /// A scale of logarithms from `low` to `high`, both positive, wide enough for the round values
    /// around them, with as many ticks as `most` allows: of bytes at powers of two, else at 1, 2,
    /// 5 times each power of ten. With `zero`, zero has a place of its own left of all others.
    pub fn powers(unit: Unit, (low, high): (f64, f64), zero: bool, most: usize) -> Self {
        let (least, last) = (log10(low / 1.3), log10(high * 1.3));
        let first = if zero {
            least - ZERO_SHARE * (last - least)
        } else {
            least
        };
        let room = if zero { most.max(2) - 1 } else { most };
        let round = if unit == Unit::Bytes {
            twos(low, high, room)
        } else {
            tens(unit, low, high, room)
        };
        let within = |tick: &(f64, String)| (least..=last).contains(&log10(tick.0));
        let zeros = zero.then(|| (0.0, "0".to_owned()));
        let ticks = zeros.into_iter().chain(round.into_iter().filter(within));
        Scale {
            spacing: Spacing::Powers { zero_at: first },
            ..Scale::over(Unit::Number, first, last, 1).with_ticks(ticks.collect())
        }
    }
}

/// Powers of two with their units, at a stride that leaves at most so many of them.
fn twos(low: f64, high: f64, most: usize) -> Vec<(f64, String)> {
    let whole = |value: f64| value.clamp(1.0, 9e18) as u64;
    let (first, last) = (whole(low / 1.3).ilog2(), whole(high * 1.3).ilog2());
    let at = |stride: u32| (first.next_multiple_of(stride)..=last).step_by(stride as usize);
    let stride = [1, 2, 5, 10, 20].into_iter();
    let stride = stride.clone().find(|stride| at(*stride).count() <= most);
    let power = |exponent| (1u64 << exponent) as f64;
    at(stride.unwrap_or(20))
        .map(|exponent| (power(exponent), spelled(Unit::Bytes, power(exponent))))
        .collect()
}

/// Round numbers at 1, 2, 5 times each power of ten, or fewer.
fn tens(unit: Unit, low: f64, high: f64, most: usize) -> Vec<(f64, String)> {
    let (first, last) = (log10(low).floor() as i32, log10(high).floor() as i32);
    let power = |exponent: i32| {
        let ten = (0..exponent.abs()).fold(1.0, |power, _| power * 10.0);
        if exponent < 0 { 1.0 / ten } else { ten }
    };
    let multiples = |of: &'static [f64]| {
        let all = (first..=last + 1).flat_map(move |at| of.iter().map(move |m| m * power(at)));
        all.filter(move |value| *value >= low * 0.45 && *value <= high * 2.3)
    };
    let choices: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let of = choices
        .into_iter()
        .find(|of| multiples(of).count() <= most)
        .unwrap_or(choices[2]);
    let stride = multiples(of).count().div_ceil(most.max(1)).max(1);
    multiples(of)
        .step_by(stride)
        .map(|value| (value, label(unit, value)))
        .collect()
}

/// A round value with its unit, in steps of a thousand.
fn label(unit: Unit, value: f64) -> String {
    let names: &[(f64, &str)] = match unit {
        Unit::TimeNs => &[(1e9, " s"), (1e6, " ms"), (1e3, " \u{b5}s"), (1.0, " ns")],
        _ => &[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")],
    };
    let fit = names.iter().find(|name| value >= name.0 * 0.999);
    let (factor, name) = fit.unwrap_or(&(1.0, ""));
    let shown = value / factor;
    if shown >= 1.0 {
        format!("{shown:.0}{name}")
    } else {
        format!("{shown}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_library() {
        for value in [1e-9, 0.02, 1.0, 3.0, 9.999_999, 10.0, 12_345.678, 4e18] {
            assert!((log10(value) - f64::log10(value)).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn ticks_are_round_and_as_many_as_fit() {
        let labels = |low, high, most| -> Vec<String> {
            let scale = Scale::powers(Unit::TimeNs, (low, high), false, most);
            scale.ticks.into_iter().map(|tick| tick.1).collect()
        };
        assert_eq!(
            labels(1.5e6, 2.5e9, 5),
            ["10 ms", "100 ms", "1 s"],
            "a tick lies within the scale"
        );
        assert_eq!(
            labels(1e6, 8e7, 9),
            ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "100 ms"]
        );
    }

    #[test]
    fn bytes_have_ticks_at_powers_of_two_and_zero_lies_left_of_them() {
        let gib = 1u64 << 30;
        let range = ((gib / 2) as f64, (600 * gib) as f64);
        let scale = Scale::powers(Unit::Bytes, range, true, 7);
        let labels: Vec<&str> = scale.ticks.iter().map(|tick| &*tick.1).collect();
        let told = ["0", "1 GiB", "4 GiB", "16 GiB", "64 GiB", "256 GiB"];
        assert_eq!(labels, told);
        let places: Vec<f64> = scale.ticks.iter().map(|it| scale.along(it.0)).collect();
        assert!(places.is_sorted() && places[0] == scale.low, "{places:?}");
    }
}
