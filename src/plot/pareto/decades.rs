//! An axis in powers of ten, by plain arithmetic: the same on every machine.

use crate::plot::axis::{Scale, Unit};

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

/// A scale of logarithms from `low` to `high`, both positive, wide enough for the round values
/// around them; as many of 1, 2, 5 times each power of ten have ticks as `most` allows.
pub fn scale(unit: Unit, low: f64, high: f64, most: usize) -> Scale {
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
    let ticks: Vec<(f64, String)> = multiples(of)
        .step_by(stride)
        .map(|value| (log10(value), label(unit, value)))
        .collect();
    let ends = (log10(low / 1.3), log10(high * 1.3));
    Scale::over(Unit::Number, ends.0, ends.1, 1).with_ticks(
        ticks
            .into_iter()
            .filter(|tick| tick.0 >= ends.0 && tick.0 <= ends.1)
            .collect(),
    )
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
            let scale = scale(Unit::TimeNs, low, high, most);
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
}
