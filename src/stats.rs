//! Statistics over seeds: what a metric is under each policy, and whether it differs from
//! what it is under a baseline.
//!
//! The input is neutral: for each workload, capacity and policy, a value a seed. What each
//! number is, and the source of each method, is told in `docs/statistics.md`. Figures are
//! made of additions, multiplications, divisions and roots in a fixed order, so that they
//! are the same to the last bit on any machine and any number of threads.

pub mod bootstrap;
pub mod normal;
pub mod paired;
pub mod quantile;
mod table;
mod words;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;

pub use bootstrap::{Estimate, Method, RESAMPLES, Resamples};
pub use table::write_csv;

use crate::observe::metric::{Better, Metric};
use quantile::{mean, median, quantile};

/// A corrected p-value up to this shows a difference.
const LEVEL: f64 = 0.05;

/// The values of one metric under one policy, on one workload at one capacity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// The workload or the trace.
    pub workload: String,
    /// The capacity as the experiment names it; it may be another number of bytes for
    /// each seed.
    pub capacity: String,
    /// The policy.
    pub policy: String,
    /// A seed and its value, `None` where the metric is undefined; each seed once, in any
    /// order.
    pub samples: Vec<(u64, Option<f64>)>,
}

/// What is to be said of one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The workload or the trace.
    pub workload: String,
    /// The capacity as the experiment names it.
    pub capacity: String,
    /// The policy.
    pub policy: String,
    /// The metric's name; values are in its unit.
    pub metric: &'static str,
    /// Seeds with a value.
    pub n: usize,
    /// Seeds without one: they are left out of everything.
    pub undefined: usize,
    /// The values by themselves; `None` where no seed has one.
    pub values: Option<Values>,
    /// The values against the baseline's; `None` for the baseline itself, without one, and
    /// where no seed has a value under both.
    pub versus: Option<Versus>,
    /// What came out.
    pub verdict: Verdict,
    /// The same in words.
    pub sentence: String,
}

/// The values of a group by themselves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Values {
    /// The mean.
    pub mean: Estimate,
    /// The median.
    pub median: Estimate,
    /// The quantile of a quarter.
    pub first_quartile: f64,
    /// The quantile of three quarters.
    pub third_quartile: f64,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub greatest: f64,
}

/// The values of a group against those of the baseline, seed by seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Versus {
    /// The baseline's policy.
    pub baseline: String,
    /// Seeds with a value under both.
    pub pairs: usize,
    /// Pairs whose values differ.
    pub differing: usize,
    /// The mean of value - baseline's value.
    pub mean_difference: Estimate,
    /// The median of value - baseline's value.
    pub median_difference: Estimate,
    /// Mean / the baseline's mean, over the pairs; `None` where the baseline's is 0.
    pub ratio: Option<Estimate>,
    /// The baseline's mean over the pairs.
    pub baseline_mean: f64,
    /// Cliff's delta: positive where values under the policy are greater.
    pub cliffs_delta: f64,
    /// Pairs in which the policy is better, ties half; `None` where neither way is better.
    pub win_rate: Option<f64>,
    /// Pairs in which the policy's value is lower, ties half.
    pub lower_share: f64,
    /// Wilcoxon's signed-rank test, two-sided; `None` for a single pair.
    pub p: Option<f64>,
    /// The same after Holm's correction over all comparisons of one [`compare`].
    pub p_holm: Option<f64>,
}

/// What a comparison with the baseline came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A difference is shown, the way that is better.
    Better,
    /// A difference is shown, the other way.
    Worse,
    /// A difference is shown, of a metric that is no merit.
    Different,
    /// No difference is shown; there may be one.
    NotShown,
    /// Every pair is equal.
    Same,
    /// There is nothing to compare, or a single pair that differs.
    Unknown,
}

impl Verdict {
    /// The word for tables and files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::NotShown => "not_shown",
            Verdict::Same => "same",
            Verdict::Unknown => "unknown",
        }
    }
}

/// A line for each group, in their order; each is compared with the group of the policy
/// `baseline` on the same workload at the same capacity, where there is one.
///
/// The p-values of one call are one family: call it once a metric.
///
/// # Panics
/// If a group has a seed twice, or a value is not a number.
#[must_use]
pub fn compare(groups: &[Group], metric: &Metric, baseline: Option<&str>) -> Vec<Line> {
    let sets: Vec<BTreeMap<u64, Option<f64>>> = groups.iter().map(by_seed).collect();
    let against = |group: &Group| {
        let is_base = |other: &&Group| {
            Some(&*other.policy) == baseline
                && (&other.workload, &other.capacity) == (&group.workload, &group.capacity)
        };
        let at = groups.iter().position(|other| is_base(&other))?;
        (groups[at].policy != group.policy).then_some(at)
    };
    let jobs: Vec<Job<'_>> = groups
        .iter()
        .zip(&sets)
        .map(|(group, set)| Job {
            group,
            values: set.values().flatten().copied().collect(),
            pairs: against(group).map_or_else(Vec::new, |at| pairs(set, &sets[at])),
        })
        .collect();
    let resamples = resamples(&jobs);
    let mut lines: Vec<Line> = jobs
        .par_iter()
        .with_max_len(1)
        .map(|job| job.line(metric, baseline, &resamples))
        .collect();
    let p = |line: &Line| line.versus.as_ref()?.p;
    let corrected = paired::holm(&lines.iter().map(p).collect::<Vec<_>>());
    for (line, p_holm) in lines.iter_mut().zip(corrected) {
        if let Some(versus) = &mut line.versus {
            versus.p_holm = p_holm;
            line.verdict = verdict(versus, metric);
        }
        line.sentence = words::sentence(line, metric);
    }
    lines
}

/// The samples in the order of their seeds: sums do not hang on the order of the rows.
fn by_seed(group: &Group) -> BTreeMap<u64, Option<f64>> {
    let set: BTreeMap<u64, Option<f64>> = group.samples.iter().copied().collect();
    assert_eq!(set.len(), group.samples.len(), "a seed of {group:?} twice");
    let number = |value: &Option<f64>| value.is_none_or(f64::is_finite);
    assert!(
        set.values().all(number),
        "a value of {group:?} is no number"
    );
    set
}

/// The pairs of values of the seeds that have both.
fn pairs(a: &BTreeMap<u64, Option<f64>>, b: &BTreeMap<u64, Option<f64>>) -> Vec<(f64, f64)> {
    let both = |(seed, value): (&u64, &Option<f64>)| Some(((*value)?, (*b.get(seed)?)?));
    a.iter().filter_map(both).collect()
}

/// The resamples of every size that occurs, drawn once.
fn resamples(jobs: &[Job<'_>]) -> BTreeMap<usize, Resamples> {
    let sizes = jobs
        .iter()
        .flat_map(|job| [job.values.len(), job.pairs.len()]);
    sizes
        .filter(|size| *size > 0)
        .map(|size| (size, ()))
        .collect::<BTreeMap<_, _>>()
        .into_keys()
        .map(|size| (size, Resamples::of(size)))
        .collect()
}

/// One group with what is computed from it.
struct Job<'a> {
    group: &'a Group,
    values: Vec<f64>,
    /// A value and the baseline's.
    pairs: Vec<(f64, f64)>,
}

impl Job<'_> {
    fn line(
        &self,
        metric: &Metric,
        baseline: Option<&str>,
        resamples: &BTreeMap<usize, Resamples>,
    ) -> Line {
        let values = resamples.get(&self.values.len());
        let pairs = resamples.get(&self.pairs.len());
        Line {
            workload: self.group.workload.clone(),
            capacity: self.group.capacity.clone(),
            policy: self.group.policy.clone(),
            metric: metric.name,
            n: self.values.len(),
            undefined: self.group.samples.len() - self.values.len(),
            values: values.map(|resamples| summary(&self.values, resamples)),
            versus: pairs
                .zip(baseline)
                .map(|(resamples, name)| versus(&self.pairs, name, metric, resamples)),
            verdict: Verdict::Unknown,
            sentence: String::new(),
        }
    }
}

/// The values by themselves.
fn summary(values: &[f64], resamples: &Resamples) -> Values {
    let mut ascending = values.to_vec();
    ascending.sort_by(f64::total_cmp);
    Values {
        mean: resamples.estimate(Method::Bca, |picks| mean_of(values, picks)),
        median: median_estimate(values, resamples),
        first_quartile: quantile(&ascending, 0.25),
        third_quartile: quantile(&ascending, 0.75),
        least: ascending[0],
        greatest: ascending[ascending.len() - 1],
    }
}

/// The mean of the values that a sample picks.
fn mean_of(values: &[f64], picks: &[u32]) -> f64 {
    let sum: f64 = picks.iter().map(|pick| values[*pick as usize]).sum();
    sum / picks.len() as f64
}

fn median_estimate(values: &[f64], resamples: &Resamples) -> Estimate {
    let mut drawn = Vec::with_capacity(values.len());
    resamples.estimate(Method::Percentile, |picks| {
        drawn.clear();
        drawn.extend(picks.iter().map(|pick| values[*pick as usize]));
        median(&mut drawn)
    })
}

/// The pairs of a value and the baseline's.
fn versus(pairs: &[(f64, f64)], baseline: &str, metric: &Metric, resamples: &Resamples) -> Versus {
    let (own, base): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let differences: Vec<f64> = pairs.iter().map(|(own, base)| own - base).collect();
    let baseline_mean = mean(&base);
    let ratio = (baseline_mean != 0.0).then(|| {
        resamples.estimate(Method::Bca, |picks| {
            mean_of(&own, picks) / mean_of(&base, picks)
        })
    });
    let lower_share = paired::lower_share(&differences);
    Versus {
        baseline: baseline.to_owned(),
        pairs: pairs.len(),
        differing: differences.iter().filter(|d| **d != 0.0).count(),
        mean_difference: resamples.estimate(Method::Bca, |picks| mean_of(&differences, picks)),
        median_difference: median_estimate(&differences, resamples),
        ratio,
        baseline_mean,
        cliffs_delta: paired::cliffs_delta(&own, &base),
        win_rate: match metric.better {
            Better::Lower => Some(lower_share),
            Better::Higher => Some(1.0 - lower_share),
            Better::Neither => None,
        },
        lower_share,
        p: (pairs.len() > 1).then(|| paired::wilcoxon(&differences)),
        p_holm: None,
    }
}

/// A difference is shown where the corrected p-value, the interval of the mean difference
/// and the count of pairs all say so, and the same way.
fn verdict(versus: &Versus, metric: &Metric) -> Verdict {
    if versus.differing == 0 {
        return Verdict::Same;
    }
    let interval = versus.mean_difference.interval;
    let (Some(p_holm), Some((low, high))) = (versus.p_holm, interval) else {
        return Verdict::Unknown;
    };
    let lower = high < 0.0 && versus.lower_share > 0.5;
    let higher = low > 0.0 && versus.lower_share < 0.5;
    if p_holm > LEVEL || !(lower || higher) {
        return Verdict::NotShown;
    }
    match metric.better {
        Better::Neither => Verdict::Different,
        Better::Lower if lower => Verdict::Better,
        Better::Higher if higher => Verdict::Better,
        _ => Verdict::Worse,
    }
}
