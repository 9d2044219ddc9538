//! Sentences for what can come out.

use crate::observe::metric::Metric;
use crate::stats::{Group, Verdict, compare};

/// The verdict and the sentence of `own` against `base`, seed by seed.
fn said(metric: &str, own: &[f64], base: &[f64]) -> (Verdict, String) {
    let group = |policy: &str, values: &[f64]| Group {
        policy: policy.into(),
        samples: (0..).zip(values.iter().map(|value| Some(*value))).collect(),
        ..Group::default()
    };
    let metric = Metric::find(metric).expect("it is known");
    let groups = [group("best-fit", own), group("first-fit", base)];
    let lines = compare(&groups, metric, Some("first-fit"));
    assert_eq!(
        lines[1].versus, None,
        "the baseline is not compared with itself"
    );
    (lines[0].verdict, lines[0].sentence.clone())
}

/// Values around `middle` that differ from seed to seed.
fn around(middle: f64, count: u32, salt: u32) -> Vec<f64> {
    let apart = |at: u32| f64::from((at * 37 + salt) % 11) / 5.0 - 1.0;
    (0..count)
        .map(|at| middle * (1.0 + 0.2 * apart(at)))
        .collect()
}

#[test]
fn a_shown_difference_is_told_with_its_factor_and_confidence() {
    let (own, base) = (around(10.0, 64, 0), around(18.0, 64, 5));
    let (verdict, text) = said("failed", &own, &base);
    assert_eq!(verdict, Verdict::Better);
    assert_eq!(
        text,
        "best-fit fails 1.8 times less often than first-fit, 95 % confidence 1.7 to 1.9, 64 seeds"
    );
    let (verdict, text) = said("failed", &base, &own);
    assert_eq!(verdict, Verdict::Worse);
    assert!(
        text.starts_with("best-fit fails 1.8 times more often than first-fit"),
        "{text}"
    );
    let (verdict, text) = said("served", &base, &own);
    assert_eq!(verdict, Verdict::Better);
    assert!(
        text.starts_with("requests served is 1.8 times higher (better) under best-fit"),
        "{text}"
    );
}

#[test]
fn small_differences_are_percentages_and_shares_differ_by_points() {
    let base = around(1e9, 30, 0);
    let own: Vec<f64> = base.iter().map(|value| value * 0.98).collect();
    let (verdict, text) = said("footprint_bytes", &own, &base);
    assert_eq!(verdict, Verdict::Better);
    assert_eq!(
        text,
        "footprint is 2.0 % lower (better) under best-fit than under first-fit, \
         95 % confidence 2.0 % to 2.0 %, 30 seeds"
    );
    let own: Vec<f64> = (0..30).map(|at| 300_000.0 + f64::from(at % 3)).collect();
    let (verdict, text) = said("mean_external_fragmentation_ppm", &own, &[250_000.0; 30]);
    assert_eq!(verdict, Verdict::Worse);
    assert!(
        text.starts_with("mean external fragmentation is 5.0 points higher (worse)"),
        "{text}"
    );
}

#[test]
fn never_has_no_ratio() {
    let (verdict, text) = said("failed", &[0.0; 10], &around(5.0, 10, 0));
    assert_eq!(verdict, Verdict::Better);
    assert!(
        text.starts_with("best-fit never fails, first-fit fails 5.0 times on average, 95 % "),
        "{text}"
    );
    let (verdict, text) = said("failed", &around(5.0, 10, 0), &[0.0; 10]);
    assert_eq!(verdict, Verdict::Worse);
    assert!(
        text.starts_with("first-fit never fails, best-fit fails 5.0 times"),
        "{text}"
    );
    let (verdict, text) = said("failed", &[0.0; 10], &[0.0; 10]);
    assert_eq!(verdict, Verdict::Same);
    assert_eq!(text, "neither best-fit nor first-fit ever fails, 10 seeds");
    let (_, text) = said("moved_bytes", &[2048.0; 10], &[0.0; 10]);
    assert!(
        text.starts_with("bytes moved is 2.00 KiB higher (worse) under best-fit than under"),
        "{text}"
    );
}

/// In some resamples the baseline never fails, so its ratio has no confidence; a policy
/// that may never fail has no greatest factor.
#[test]
fn what_happens_seldom_is_told_without_a_factor() {
    let (own, seldom) = ([5.0, 6.0, 5.0, 7.0, 5.0, 6.0, 4.0, 6.0], [0.0; 7]);
    let seldom = [&seldom[..], &[1.0]].concat();
    let (verdict, text) = said("failed", &own, &seldom);
    assert_eq!(verdict, Verdict::Worse);
    assert!(
        text.starts_with(
            "first-fit fails 0.125 times on average, best-fit 5.5 times; the means differ by 5.4, 95 % "
        ),
        "{text}"
    );
    let (verdict, text) = said("failed", &seldom, &own);
    assert_eq!(verdict, Verdict::Better);
    assert!(
        text.starts_with("best-fit fails 97.7 % less often than first-fit, 95 % confidence ")
            && text.ends_with(" to 100.0 %, 8 seeds"),
        "{text}"
    );
}

#[test]
fn what_is_not_shown_is_not_told_as_a_difference() {
    let (own, base) = (around(10.0, 12, 0), around(10.0, 12, 3));
    let (verdict, text) = said("failed", &own, &base);
    assert_eq!(verdict, Verdict::NotShown);
    assert!(
        text.starts_with("no difference shown in failed requests: "),
        "{text}"
    );
    assert!(text.ends_with(", 12 seeds"), "{text}");
    let (verdict, text) = said("failed", &[1.0, 2.0, 3.0], &[11.0, 12.0, 14.0]);
    assert_eq!(verdict, Verdict::NotShown);
    assert!(text.ends_with(", 3 seeds, too few to show one"), "{text}");
}

#[test]
fn one_run_has_no_confidence() {
    let (verdict, text) = said("failed", &[10.0], &[18.0]);
    assert_eq!(verdict, Verdict::Unknown);
    assert_eq!(
        text,
        "best-fit fails 1.8 times less often than first-fit, one run: no confidence"
    );
}
