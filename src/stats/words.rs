//! Lines in words: "best-fit fails 1.8 times less often than first-fit, 95 % confidence
//! 1.5 to 2.1, 64 seeds".
//!
//! A factor is told where it is at least 1.1, and a percentage below; shares differ by
//! points. What is not shown is not told as a difference, and a single run has no
//! confidence.

use super::paired::EXACT_PAIRS;
use super::{Estimate, LEVEL, Line, Values, Verdict, Versus};
use crate::observe::metric::{Better, Metric, Unit};

/// From this on a factor is told, below it a percentage.
const LEAST_FACTOR: f64 = 1.1;

/// What a line says.
pub(super) fn sentence(line: &Line, metric: &Metric) -> String {
    let policy = &*line.policy;
    let Some(values) = &line.values else {
        return format!("{} is undefined under {policy} in every seed", metric.label);
    };
    let mut text = match &line.versus {
        None => alone(policy, line.n, values, metric),
        Some(versus) => match line.verdict {
            Verdict::Same => same(policy, versus, metric),
            Verdict::NotShown => not_shown(policy, versus, metric),
            _ => differs(policy, versus, metric),
        },
    };
    if line.undefined > 0 {
        text += &format!("; undefined in {}", seeds(line.undefined));
    }
    text
}

/// `1 seed`, `64 seeds`.
fn seeds(count: usize) -> String {
    format!("{count} seed{}", if count == 1 { "" } else { "s" })
}

/// The interval and the number of seeds, as they end a sentence.
fn ending(interval: Option<(String, String)>, count: usize) -> String {
    match interval {
        _ if count == 1 => "one run: no confidence".into(),
        Some((low, high)) => format!("95 % confidence {low} to {high}, {}", seeds(count)),
        None => seeds(count),
    }
}

fn printed(estimate: &Estimate, print: impl Fn(f64) -> String) -> Option<(String, String)> {
    estimate
        .interval
        .map(|(low, high)| (print(low), print(high)))
}

/// A policy without a baseline.
fn alone(policy: &str, n: usize, values: &Values, metric: &Metric) -> String {
    let mean = &values.mean;
    let end = ending(printed(mean, |end| metric.print(end)), n);
    match metric.verb {
        Some(verb) if values.greatest == 0.0 => format!("{policy} never {verb}, {}", seeds(n)),
        Some(verb) => format!(
            "{policy} {verb} {} on average, {end}",
            times(metric, mean.value)
        ),
        None => {
            let value = metric.print(mean.value);
            format!(
                "{} under {policy} is {value} on average, {end}",
                metric.label
            )
        }
    }
}

/// `12.3 times`.
fn times(metric: &Metric, value: f64) -> String {
    format!("{} times", metric.print(value))
}

/// Every pair is equal.
fn same(policy: &str, versus: &Versus, metric: &Metric) -> String {
    let (baseline, seeds) = (&versus.baseline, seeds(versus.pairs));
    match metric.verb {
        Some(verb) if versus.baseline_mean == 0.0 => {
            format!("neither {policy} nor {baseline} ever {verb}, {seeds}")
        }
        _ => format!(
            "{} is the same under {policy} as under {baseline} in every seed, {seeds}",
            metric.label
        ),
    }
}

/// The policy's mean over the pairs; 0 where it never does what is counted.
fn own_mean(versus: &Versus) -> f64 {
    match versus.ratio {
        Some(ratio) => ratio.value * versus.baseline_mean,
        None => versus.mean_difference.value,
    }
}

/// A difference may be there, but is not shown.
fn not_shown(policy: &str, versus: &Versus, metric: &Metric) -> String {
    let difference = &versus.mean_difference;
    let end = ending(printed(difference, |end| metric.print(end)), versus.pairs);
    let mut text = format!(
        "no difference shown in {}: {} under {policy}, {} under {}; the mean difference is {}, {end}",
        metric.label,
        metric.print(own_mean(versus)),
        metric.print(versus.baseline_mean),
        versus.baseline,
        metric.print(difference.value),
    );
    // Even if all pairs differ the same way, that has a chance of 2 in 2^n.
    let least = 2.0 / 2.0_f64.powi(versus.differing.min(EXACT_PAIRS) as i32);
    if least > LEVEL {
        text += ", too few to show one";
    }
    text
}

/// A difference is shown, or seen in a single run.
fn differs(policy: &str, versus: &Versus, metric: &Metric) -> String {
    let baseline = &*versus.baseline;
    let lower = versus.mean_difference.value < 0.0;
    if let Some(verb) = metric.verb {
        return match factor(versus, lower) {
            Some((amount, interval)) if own_mean(versus) > 0.0 => {
                let way = if lower { "less often" } else { "more often" };
                let end = ending(interval, versus.pairs);
                format!("{policy} {verb} {amount} {way} than {baseline}, {end}")
            }
            _ => seldom(policy, verb, versus, metric),
        };
    }
    let ratio = factor(versus, lower).filter(|_| !is_share(metric));
    let (amount, interval) = ratio.unwrap_or_else(|| distance(versus, metric, lower));
    let way = if lower { "lower" } else { "higher" };
    let merit = match metric.better {
        Better::Neither => "",
        Better::Lower if lower => " (better)",
        Better::Higher if !lower => " (better)",
        _ => " (worse)",
    };
    format!(
        "{} is {amount} {way}{merit} under {policy} than under {baseline}, {}",
        metric.label,
        ending(interval, versus.pairs)
    )
}

/// What one of the two does never, or too seldom for a ratio with confidence.
fn seldom(policy: &str, verb: &str, versus: &Versus, metric: &Metric) -> String {
    let (own, base) = (own_mean(versus), versus.baseline_mean);
    let baseline = &*versus.baseline;
    let lower = own < base;
    let (_, interval) = distance(versus, metric, lower);
    let end = ending(interval, versus.pairs);
    let (less, more, least, most) = if lower {
        (policy, baseline, own, base)
    } else {
        (baseline, policy, base, own)
    };
    let often = times(metric, most);
    if least == 0.0 {
        return format!("{less} never {verb}, {more} {verb} {often} on average, {end}");
    }
    let seldom = times(metric, least);
    let apart = metric.print(most - least);
    format!("{less} {verb} {seldom} on average, {more} {often}; the means differ by {apart}, {end}")
}

fn is_share(metric: &Metric) -> bool {
    matches!(metric.unit, Unit::Share | Unit::Rate)
}

/// An amount in words, and the ends of its interval.
type Amount = (String, Option<(String, String)>);

/// How many times less or more, or by how many percent; `None` where the ratio has no
/// confidence although there are several seeds.
fn factor(versus: &Versus, lower: bool) -> Option<Amount> {
    let ratio = versus.ratio?;
    let sure = ratio.interval.is_some() || versus.pairs == 1;
    let ratio = sure.then_some(ratio)?;
    let factor = turned(&ratio, |end| if lower { 1.0 / end } else { end });
    let ends = |(low, high): (f64, f64)| low > 0.0 && high.is_finite();
    if factor.value >= LEAST_FACTOR && factor.interval.is_none_or(ends) {
        let ends = printed(&factor, |end| format!("{end:.1}"));
        return Some((format!("{:.1} times", factor.value), ends));
    }
    let percent = turned(&ratio, |end| {
        100.0 * if lower { 1.0 - end } else { end - 1.0 }
    });
    let print = |value: f64| format!("{value:.1} %");
    Some((print(percent.value), printed(&percent, print)))
}

/// By how much the means differ, without a sign.
fn distance(versus: &Versus, metric: &Metric, lower: bool) -> Amount {
    let size = turned(
        &versus.mean_difference,
        |end| if lower { -end } else { end },
    );
    let print = |value: f64| match is_share(metric) {
        true => format!("{:.1} points", value / 1e4),
        false => metric.print(value),
    };
    (print(size.value), printed(&size, print))
}

/// An estimate after a function that rises or falls; the interval's ends stay in order.
fn turned(estimate: &Estimate, by: impl Fn(f64) -> f64) -> Estimate {
    let ends = estimate.interval.map(|(low, high)| (by(low), by(high)));
    Estimate {
        value: by(estimate.value),
        interval: ends.map(|(a, b)| (a.min(b), a.max(b))),
    }
}

#[cfg(test)]
mod tests;
