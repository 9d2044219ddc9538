//! Confidence by the bootstrap.
//!
//! Efron, "Better bootstrap confidence intervals", JASA 82 (1987): BCa intervals, which are
//! corrected for bias (the share of the resamples below the estimate, ties half) and for
//! acceleration (by leaving out each value once), and plain percentile intervals. The ends
//! are linear quantiles of the resampled estimates. All samples of one size share one set
//! of resamples, so that a line of a table does not hang on which other lines there are.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::{
    normal,
    quantile::{mean, quantile},
};

/// How many resamples are drawn.
pub const RESAMPLES: usize = 5_000;
/// What of the estimates lies below an interval, and as much above: 95 % confidence.
const OUTSIDE: f64 = 0.025;
/// What the resamples are drawn for; their seed is its hash.
const PURPOSE: &[u8] = b"vramlab stats: bootstrap resamples";

/// An estimate with the interval that has 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The interval's ends; none where there is one value only, or where a resample has
    /// no estimate (a ratio to nothing).
    pub interval: Option<(f64, f64)>,
}

/// How the ends of an interval are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Corrected for bias and acceleration: for means and ratios of means.
    Bca,
    /// The quantiles as they are: for medians, on which leaving out one value tells
    /// nothing of the acceleration.
    Percentile,
}

/// Samples drawn with replacement from `n` values, as numbers of the values.
#[derive(Debug, Clone)]
pub struct Resamples {
    n: usize,
    picks: Vec<u32>,
}

impl Resamples {
    /// The resamples of `n` values: always the same ones.
    ///
    /// # Panics
    /// If `n` is 0, or more than 2^32 - 1.
    #[must_use]
    pub fn of(n: usize) -> Self {
        let sides = u32::try_from(n).expect("fewer values than 2^32");
        assert!(n > 0, "resamples of nothing");
        let mut words = ChaCha8Rng::from_seed(*blake3::hash(PURPOSE).as_bytes());
        words.set_stream(u64::from(sides));
        let picks = (0..n * RESAMPLES).map(|_| pick(&mut words, sides));
        Resamples {
            n,
            picks: picks.collect(),
        }
    }

    /// Resamples that were drawn elsewhere, one after the other.
    ///
    /// # Panics
    /// If a pick is not below `n`, or the last resample is not whole.
    #[must_use]
    pub fn given(n: usize, picks: Vec<u32>) -> Self {
        assert!(picks.iter().all(|pick| (*pick as usize) < n), "a far pick");
        assert!(!picks.is_empty() && picks.len().is_multiple_of(n));
        Resamples { n, picks }
    }

    /// An estimate with its interval. `statistic` computes it from the numbers of the
    /// values in a sample.
    pub fn estimate(&self, method: Method, mut statistic: impl FnMut(&[u32]) -> f64) -> Estimate {
        let all: Vec<u32> = (0..self.n as u32).collect();
        let value = statistic(&all);
        if self.n < 2 {
            return Estimate {
                value,
                interval: None,
            };
        }
        let samples = self.picks.chunks_exact(self.n);
        let mut drawn: Vec<f64> = samples.map(&mut statistic).collect();
        let sure = value.is_finite() && drawn.iter().all(|drawn| drawn.is_finite());
        drawn.sort_unstable_by(f64::total_cmp);
        Estimate {
            value,
            interval: sure.then(|| match method {
                Method::Percentile => percentile(&drawn),
                Method::Bca => {
                    let without = |out: usize| [&all[..out], &all[out + 1..]].concat();
                    let out = (0..self.n).map(|out| statistic(&without(out)));
                    bca(value, &drawn, &out.collect::<Vec<f64>>())
                }
            }),
        }
    }
}

/// One of `sides` values, each as likely as any other (Lemire, 2019): a word whose
/// product falls into the part that does not divide evenly is drawn again.
fn pick(words: &mut ChaCha8Rng, sides: u32) -> u32 {
    let uneven = sides.wrapping_neg() % sides;
    loop {
        let product = u64::from(words.next_u32()) * u64::from(sides);
        if product as u32 >= uneven {
            return (product >> 32) as u32;
        }
    }
}

/// The ends of a percentile interval.
fn percentile(ascending: &[f64]) -> (f64, f64) {
    let end = |share| quantile(ascending, share);
    (end(OUTSIDE), end(1.0 - OUTSIDE))
}

/// The ends of a BCa interval. Where all resamples lie on one side of the estimate the bias
/// is infinite, and where leaving out makes no difference there is no acceleration; the
/// percentiles serve then.
fn bca(value: f64, ascending: &[f64], left_out: &[f64]) -> (f64, f64) {
    let below = ascending.partition_point(|drawn| *drawn < value);
    let not_above = ascending.partition_point(|drawn| *drawn <= value);
    let bias = normal::quantile((below + not_above) as f64 / (2 * ascending.len()) as f64);
    let centre = mean(left_out);
    let (mut squares, mut cubes) = (0.0, 0.0);
    for one in left_out {
        let apart = centre - one;
        squares += apart * apart;
        cubes += apart * apart * apart;
    }
    let acceleration = cubes / (6.0 * squares * squares.sqrt());
    if !bias.is_finite() || !acceleration.is_finite() {
        return percentile(ascending);
    }
    let end = |share: f64| {
        let from = bias + normal::quantile(share);
        let share = normal::cdf(bias + from / (1.0 - acceleration * from));
        quantile(ascending, share)
    };
    (end(OUTSIDE), end(1.0 - OUTSIDE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resamples_are_the_same_always_and_others_for_another_size() {
        let (three, again) = (Resamples::of(3), Resamples::of(3));
        assert_eq!(three.picks, again.picks);
        assert_eq!(three.picks.len(), 3 * RESAMPLES);
        // Golden: the stream must not change from one release to the next.
        assert_eq!(three.picks[..12], GOLDEN);
        let count = |side| three.picks.iter().filter(|pick| **pick == side).count();
        for side in 0..3 {
            assert!(count(side).abs_diff(RESAMPLES) < 300, "each is as likely");
        }
        assert_ne!(Resamples::of(4).picks[..12], GOLDEN);
    }

    const GOLDEN: [u32; 12] = [0, 2, 2, 2, 0, 1, 1, 1, 0, 2, 2, 1];

    #[test]
    fn what_does_not_vary_has_an_interval_of_one_point() {
        let estimate = Resamples::of(5).estimate(Method::Bca, |_| 2.5);
        assert_eq!(estimate.interval, Some((2.5, 2.5)));
        assert_eq!(
            Resamples::of(1).estimate(Method::Bca, |_| 2.5).interval,
            None
        );
        let some_undefined = |picks: &[u32]| 1.0 / f64::from(picks[0]);
        assert_eq!(
            Resamples::of(5)
                .estimate(Method::Bca, some_undefined)
                .interval,
            None
        );
    }

    /// All resamples lie below the greatest value or on it: where none is on it, the plain
    /// quantiles serve.
    #[test]
    fn an_infinite_bias_falls_back_to_plain_quantiles() {
        let ascending: Vec<f64> = (0..=1000).map(f64::from).collect();
        assert_eq!(bca(2000.0, &ascending, &[1.0, 2.0, 4.0]), (25.0, 975.0));
    }
}
