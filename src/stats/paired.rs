//! Two policies on the same seeds: is there a difference, and how large is it?

use super::normal;

/// Up to so many pairs that differ the p-value is exact.
pub const EXACT_PAIRS: usize = 100;

/// The two-sided p-value of Wilcoxon's signed-rank test: how likely is a sum of signed
/// ranks as far out as this one, if each difference could as well have the other sign?
///
/// Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945).
/// Differences of 0 are left out, equal ones share the mean of their ranks. Up to
/// [`EXACT_PAIRS`] the distribution over all signs is computed, ties and all; above, the
/// normal one with the variance corrected for ties, without a correction for continuity.
/// 1 where no pair differs.
#[must_use]
pub fn wilcoxon(differences: &[f64]) -> f64 {
    let mut differing: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    differing.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    if differing.is_empty() {
        return 1.0;
    }
    // Ranks are doubled, so that a mean of two is whole.
    let mut ranks: Vec<u64> = Vec::with_capacity(differing.len());
    let mut ties = 0.0;
    for equal in differing.chunk_by(|a, b| a.abs() == b.abs()) {
        let before = ranks.len() as u64;
        let count = equal.len() as u64;
        ranks.extend(std::iter::repeat_n(2 * before + 1 + count, equal.len()));
        ties += (count as f64).powi(3) - count as f64;
    }
    let signed = differing.iter().zip(&ranks);
    let positive: u64 = signed
        .filter(|(d, _)| **d > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    if ranks.len() <= EXACT_PAIRS {
        exact(&ranks, positive)
    } else {
        near(ranks.len() as f64, ties, positive)
    }
}

/// The same from the normal distribution, for `n` ranks with that many `ties`.
fn near(n: f64, ties: f64, positive: u64) -> f64 {
    let variance = (n * (n + 1.0) * (2.0 * n + 1.0) - ties / 2.0) / 24.0;
    let apart = positive as f64 / 2.0 - n * (n + 1.0) / 4.0;
    2.0 * normal::upper(apart.abs() / variance.sqrt())
}

/// Twice the probability of a sum as small, or as large, as `positive`, if every rank
/// counts with probability one half.
fn exact(ranks: &[u64], positive: u64) -> f64 {
    let total: u64 = ranks.iter().sum();
    let mut chances = vec![0.0; total as usize + 1];
    chances[0] = 1.0;
    let mut most = 0;
    for rank in ranks.iter().map(|rank| *rank as usize) {
        most += rank;
        for sum in (0..=most).rev() {
            let with = if sum >= rank {
                chances[sum - rank]
            } else {
                0.0
            };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    let positive = positive as usize;
    let small: f64 = chances[..=positive].iter().sum();
    let large: f64 = chances[positive..].iter().sum();
    (2.0 * small.min(large)).min(1.0)
}

/// Cliff's delta: how much more often a value of `a` is greater than one of `b` than less,
/// over all pairs of the two; from -1 (all are less) to 1.
///
/// Cliff, "Dominance statistics", Psychological Bulletin 114 (1993).
///
/// # Panics
/// If either is empty.
#[must_use]
pub fn cliffs_delta(a: &[f64], b: &[f64]) -> f64 {
    assert!(!a.is_empty() && !b.is_empty(), "nothing to compare");
    let mut ascending = b.to_vec();
    ascending.sort_by(f64::total_cmp);
    let dominance = |value: &f64| {
        let less = ascending.partition_point(|other| other < value);
        let not_greater = ascending.partition_point(|other| other <= value);
        less as i64 - (ascending.len() - not_greater) as i64
    };
    let sum: i64 = a.iter().map(dominance).sum();
    sum as f64 / (a.len() * b.len()) as f64
}

/// The share of the differences that are negative, those of 0 half.
///
/// # Panics
/// If there is no difference.
#[must_use]
pub fn lower_share(differences: &[f64]) -> f64 {
    assert!(!differences.is_empty(), "nothing to compare");
    let halves = differences.iter().map(|difference| match difference {
        d if *d < 0.0 => 2,
        d if *d > 0.0 => 0,
        _ => 1,
    });
    f64::from(halves.sum::<u32>()) / (2 * differences.len()) as f64
}

/// P-values corrected for their number, so that the chance of one false find among all is
/// what a level says; those that are absent stay so and count nothing.
///
/// Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
/// of Statistics 6 (1979).
#[must_use]
pub fn holm(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let present = values.iter().enumerate();
    let mut present: Vec<(usize, f64)> = present.filter_map(|(at, p)| Some((at, (*p)?))).collect();
    present.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut corrected = vec![None; values.len()];
    let mut most = 0.0_f64;
    for (rank, (at, p)) in present.iter().enumerate() {
        most = most.max(p * (present.len() - rank) as f64).min(1.0);
        corrected[*at] = Some(most);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: five differences of one sign have one way in 2^5, so p = 2/32; ranks of
    /// 1, -2, 3 give the positive sum 4: P(T >= 4) = 3/8, p = 6/8.
    #[test]
    fn small_p_values_by_hand() {
        assert_eq!(wilcoxon(&[1.0, 2.0, 3.0, 4.0, 5.0]), 0.0625);
        assert_eq!(wilcoxon(&[1.0, -2.0, 3.0]), 0.75);
        assert_eq!(wilcoxon(&[0.0, 1.0, 0.0, -2.0, 3.0]), 0.75);
        assert_eq!(wilcoxon(&[1.0, 1.0, 1.0]), 0.25);
        assert_eq!(wilcoxon(&[0.0, 0.0]), 1.0);
        assert_eq!(wilcoxon(&[]), 1.0);
    }

    /// By hand: of (1, 3) against (2, 3), one pair is greater, two are less, one ties.
    #[test]
    fn effect_sizes_by_hand() {
        assert_eq!(cliffs_delta(&[1.0, 3.0], &[2.0, 3.0]), -0.25);
        assert_eq!(cliffs_delta(&[5.0], &[1.0, 2.0]), 1.0);
        assert_eq!(lower_share(&[-1.0, 0.0, 1.0, -3.0]), 0.625);
    }

    /// By hand: 0.01 * 3, then 0.02 * 2, then 0.03 * 1, which must not be less than what
    /// came before.
    #[test]
    fn corrected_p_values_by_hand() {
        let corrected = holm(&[Some(0.03), None, Some(0.01), Some(0.02)]);
        assert_eq!(corrected, [Some(0.04), None, Some(0.03), Some(0.04)]);
        assert_eq!(holm(&[Some(0.9), Some(0.8)]), [Some(1.0), Some(1.0)]);
    }

    #[test]
    fn the_exact_and_the_normal_p_value_agree_where_they_meet() {
        let ranks: Vec<u64> = (1..=100).map(|rank| 2 * rank).collect();
        for positive in [5050, 4000, 3400] {
            let (exact, near) = (exact(&ranks, positive), near(100.0, 0.0, positive));
            assert!((exact - near).abs() < 0.005, "{exact} {near}");
        }
    }
}
