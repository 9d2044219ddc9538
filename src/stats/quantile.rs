//! Means and quantiles.
//!
//! A quantile is numpy's default, "linear": number 7 of Hyndman and Fan, "Sample
//! quantiles in statistical packages", The American Statistician 50 (1996). Between two
//! values it lies on the straight line.

/// The mean; the sum goes from the first value to the last.
///
/// # Panics
/// If there is no value.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a mean of nothing");
    values.iter().sum::<f64>() / values.len() as f64
}

/// The quantile of values in ascending order; `share` is from 0 (the least) to 1.
///
/// # Panics
/// If there is no value, or `share` is outside 0 to 1.
#[must_use]
pub fn quantile(ascending: &[f64], share: f64) -> f64 {
    assert!(!ascending.is_empty(), "a quantile of nothing");
    assert!((0.0..=1.0).contains(&share), "a share of {share}");
    let place = share * (ascending.len() - 1) as f64;
    let below = place.floor() as usize;
    let low = ascending[below];
    let high = ascending[(below + 1).min(ascending.len() - 1)];
    low + (high - low) * (place - below as f64)
}

/// The median; the values are put in another order.
///
/// # Panics
/// If there is no value.
pub fn median(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "a median of nothing");
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if below.len() > values.len() - middle - 1 {
        let below = values[..middle].iter().copied();
        let lower = below.max_by(f64::total_cmp).expect("a half is not empty");
        return lower + (upper - lower) * 0.5;
    }
    upper
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: of 1, 2, 4, 8 the first quartile lies at place 0.75, so 1 + 0.75 * 1.
    #[test]
    fn quantiles_lie_on_the_line_between_two_values() {
        let four = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(quantile(&four, 0.25), 1.75);
        assert_eq!(quantile(&four, 0.5), 3.0);
        assert_eq!(quantile(&four, 0.75), 5.0);
        assert_eq!((quantile(&four, 0.0), quantile(&four, 1.0)), (1.0, 8.0));
        assert_eq!(quantile(&[7.0], 0.3), 7.0);
        assert_eq!(mean(&four), 3.75);
    }

    #[test]
    fn a_median_is_the_quantile_in_the_middle() {
        for count in 1..12 {
            let mut mixed: Vec<f64> = (0..count).map(|at| f64::from(at * 7 % 11)).collect();
            let mut ascending = mixed.clone();
            ascending.sort_by(f64::total_cmp);
            assert_eq!(median(&mut mixed), quantile(&ascending, 0.5), "{count}");
        }
    }
}
