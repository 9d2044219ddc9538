//! Statistics against what scipy, numpy and statsmodels say: tests/reference/stats.py
//! writes the numbers.

use serde::Deserialize;
use vramlab::observe::Metric;
use vramlab::stats::bootstrap::{Estimate, Method, Resamples};
use vramlab::stats::quantile::{mean, median, quantile};
use vramlab::stats::{Group, Line, compare, normal, paired, write_csv};

#[derive(Deserialize)]
struct Reference {
    own: Vec<f64>,
    base: Vec<f64>,
    quantiles: Vec<(f64, f64)>,
    picks: Vec<u32>,
    fixed: Intervals,
    free: Intervals,
    signed_rank: Vec<SignedRank>,
    cliffs_delta: f64,
    holm: Holm,
    normal_cdf: Vec<(f64, f64)>,
    normal_quantile: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct Intervals {
    mean: (f64, f64),
    median: (f64, f64),
    mean_difference: (f64, f64),
    median_difference: (f64, f64),
    ratio: (f64, f64),
}

#[derive(Deserialize)]
struct SignedRank {
    differences: Vec<f64>,
    p: f64,
}

#[derive(Deserialize)]
struct Holm {
    p: Vec<f64>,
    corrected: Vec<f64>,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("reference/stats.json")).expect("the script wrote it")
}

/// Equal but for the rounding of sums in another order.
fn close(own: f64, other: f64, what: &str) {
    let apart = (own - other).abs();
    assert!(apart <= 1e-12 * other.abs(), "{what}: {own} is not {other}");
}

#[test]
fn quantiles_are_those_of_numpy() {
    let reference = reference();
    let mut ascending = reference.own.clone();
    ascending.sort_by(f64::total_cmp);
    for (share, value) in reference.quantiles {
        close(quantile(&ascending, share), value, "a quantile");
    }
}

#[test]
fn the_normal_distribution_is_that_of_scipy() {
    let reference = reference();
    for (z, share) in reference.normal_cdf {
        close(normal::cdf(z), share, "a share");
    }
    for (share, z) in reference.normal_quantile {
        close(normal::quantile(share), z, "a quantile");
    }
}

/// The same resamples give the same interval, to the rounding of a sum.
#[test]
fn intervals_over_given_resamples_are_those_of_scipy() {
    let Reference {
        own,
        base,
        picks,
        fixed,
        ..
    } = reference();
    let n = 13;
    let resamples = Resamples::given(n, picks);
    let apart: Vec<f64> = own
        .iter()
        .zip(&base)
        .map(|(own, base)| own - base)
        .collect();
    let of = |values: &[f64], picks: &[u32]| -> Vec<f64> {
        picks.iter().map(|pick| values[*pick as usize]).collect()
    };
    let check = |method, what: &str, wanted: (f64, f64), statistic: &dyn Fn(&[u32]) -> f64| {
        let made = resamples.estimate(method, statistic);
        let (low, high) = made.interval.expect("13 values have an interval");
        close(low, wanted.0, what);
        close(high, wanted.1, what);
    };
    check(Method::Bca, "mean", fixed.mean, &|picks| {
        mean(&of(&own, picks))
    });
    check(Method::Percentile, "median", fixed.median, &|picks| {
        median(&mut of(&own, picks))
    });
    check(Method::Bca, "difference", fixed.mean_difference, &|picks| {
        mean(&of(&apart, picks))
    });
    let middle = fixed.median_difference;
    check(Method::Percentile, "median difference", middle, &|picks| {
        median(&mut of(&apart, picks))
    });
    check(Method::Bca, "ratio", fixed.ratio, &|picks| {
        mean(&of(&own, picks)) / mean(&of(&base, picks))
    });
}

/// Seed by seed, in a mixed order; a seed without a value is among them.
fn lines() -> Vec<Line> {
    let Reference { own, base, .. } = reference();
    let group = |policy: &str, values: &[f64]| {
        let seeds = (0..).map(|at: u64| at * 7 % 40);
        let taken = seeds.zip(0..values.len()).map(|(seed, _)| seed);
        let mut samples: Vec<(u64, Option<f64>)> = taken
            .map(|seed| (seed, Some(values[seed as usize])))
            .collect();
        samples.insert(3, (1000, None));
        Group {
            workload: "churn".into(),
            capacity: "1.1 x peak".into(),
            policy: policy.into(),
            samples,
        }
    };
    let metric = Metric::find("failed").expect("it is a column");
    let groups = [group("best-fit", &own), group("first-fit", &base)];
    compare(&groups, metric, Some("first-fit"))
}

/// An end of an interval lies within four standard errors of what 100,000 resamples
/// say: an error is 0.038 standard deviations for 5,000 of them, and an interval spans
/// 3.92 deviations. Medians of counts are whole or half: they may be off by a half.
#[test]
fn intervals_are_those_of_scipy_within_the_error_of_the_resampling() {
    let free = reference().free;
    let line = lines().swap_remove(0);
    let values = line.values.expect("there are values");
    let versus = line.versus.expect("there is a baseline");
    let near = |made: Estimate, wanted: (f64, f64), least: f64, what: &str| {
        let (low, high) = made.interval.expect("40 values have an interval");
        let error = (4.0 * 0.038 * (wanted.1 - wanted.0) / 3.92).max(least);
        assert!((low - wanted.0).abs() <= error, "{what}: {low} {wanted:?}");
        assert!(
            (high - wanted.1).abs() <= error,
            "{what}: {high} {wanted:?}"
        );
    };
    near(values.mean, free.mean, 0.0, "mean");
    near(values.median, free.median, 0.5, "median");
    near(
        versus.mean_difference,
        free.mean_difference,
        0.0,
        "difference",
    );
    near(
        versus.median_difference,
        free.median_difference,
        0.5,
        "median difference",
    );
    near(
        versus.ratio.expect("no zero below"),
        free.ratio,
        0.0,
        "ratio",
    );
}

#[test]
fn tests_and_effect_sizes_are_those_of_scipy_and_statsmodels() {
    let reference = reference();
    for (at, case) in reference.signed_rank.iter().enumerate() {
        close(
            paired::wilcoxon(&case.differences),
            case.p,
            &format!("signed ranks {at}"),
        );
    }
    let delta = paired::cliffs_delta(&reference.own, &reference.base);
    close(delta, reference.cliffs_delta, "delta");
    let given: Vec<Option<f64>> = reference.holm.p.into_iter().map(Some).collect();
    let corrected = paired::holm(&given).into_iter().flatten();
    for (own, other) in corrected.zip(reference.holm.corrected) {
        close(own, other, "holm");
    }
}

#[test]
fn lines_leave_out_and_count_what_is_undefined() {
    let (lines, reference) = (lines(), reference());
    let [own, base] = &lines[..] else {
        panic!("one line a group");
    };
    assert_eq!((own.n, own.undefined), (40, 1));
    let versus = own.versus.as_ref().expect("there is a baseline");
    assert_eq!(versus.pairs, 40);
    close(versus.cliffs_delta, reference.cliffs_delta, "delta");
    close(versus.baseline_mean, mean(&reference.base), "the mean");
    assert_eq!(versus.p, versus.p_holm, "a family of one");
    assert_eq!(base.versus, None);
    assert!(
        own.sentence
            .starts_with("best-fit fails 2.1 times less often"),
        "{}",
        own.sentence
    );
    assert!(
        own.sentence.ends_with("40 seeds; undefined in 1 seed"),
        "{}",
        own.sentence
    );
}

/// The whole file, of a sample small enough to follow by hand: the values 1, 2, 4 and 8
/// against 2, 4, 8 and 16.
#[test]
fn the_csv_is_the_same_bytes_on_any_number_of_threads() {
    let group = |policy: &str, factor: f64| Group {
        workload: "w".into(),
        capacity: "8GiB".into(),
        policy: policy.into(),
        samples: [1.0, 2.0, 4.0, 8.0]
            .iter()
            .zip(0..)
            .map(|(value, seed)| (seed, Some(value * factor)))
            .collect(),
    };
    let groups: Vec<Group> = (1..=6)
        .map(|factor| group(&format!("p{factor}"), f64::from(factor)))
        .collect();
    let written = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let metric = Metric::find("moves").expect("it is a column");
        let lines = pool
            .expect("threads")
            .install(|| compare(&groups, metric, Some("p2")));
        let mut csv = Vec::new();
        write_csv(&lines, &mut csv).expect("memory is writable");
        String::from_utf8(csv).expect("it is text")
    };
    let csv = written(1);
    assert_eq!(csv, written(2));
    assert_eq!(csv, written(16));
    let mut rows = csv.lines();
    let head: Vec<&str> = rows.next().expect("a header").split(',').collect();
    let first: Vec<&str> = rows
        .next()
        .expect("a row")
        .splitn(head.len(), ',')
        .collect();
    let of = |name: &str| first[head.iter().position(|it| *it == name).expect("a column")];
    assert_eq!((of("mean"), of("median")), ("3.75", "3"));
    assert_eq!((of("first_quartile"), of("third_quartile")), ("1.75", "5"));
    assert_eq!((of("mean_difference"), of("ratio")), ("-3.75", "0.5"));
    assert_eq!((of("ratio_low"), of("ratio_high")), ("0.5", "0.5"));
    // Of the 16 pairs of a value and the baseline's, 3 are greater, 10 less and 3 equal.
    // Four differences of one sign: 2 ways in 2^4; five comparisons.
    assert_eq!((of("p"), of("p_holm")), ("0.125", "0.625"));
    assert_eq!((of("win_rate"), of("cliffs_delta")), ("1", "-0.4375"));
    assert_eq!((of("baseline"), of("verdict")), ("p2", "not_shown"));
}
