//! The normal distribution, from additions, multiplications, divisions and roots alone:
//! the functions of a system's mathematical library differ in their last bits from one
//! machine to the next, and figures must not.
//!
//! The series in the middle and the continued fraction of the tails are formulas 26.2.11
//! and 26.2.14 of Abramowitz and Stegun, Handbook of Mathematical Functions (1964).

/// From here on the continued fraction converges faster than the series.
const TAIL: f64 = 3.0;
/// Terms of the continued fraction; at `TAIL` it has settled well before.
const FRACTION_TERMS: u32 = 120;
/// Beyond this a tail is less than the least positive number.
const FARTHEST: f64 = 40.0;

/// The share of a standard normal distribution that lies below `z`.
#[must_use]
pub fn cdf(z: f64) -> f64 {
    if z < 0.0 { upper(-z) } else { 1.0 - upper(z) }
}

/// The share that lies above `z`, which is not negative.
#[must_use]
pub fn upper(z: f64) -> f64 {
    let density = exp(-z * z / 2.0) / std::f64::consts::TAU.sqrt();
    if z >= TAIL {
        let fraction = (1..=FRACTION_TERMS)
            .rev()
            .fold(z, |below, term| z + f64::from(term) / below);
        return density / fraction;
    }
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term > sum * 1e-17 {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    0.5 - density * sum
}

/// The value below which a share `p` lies; infinite for 0 and 1.
#[must_use]
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let (mut near, mut far) = (0.0, FARTHEST);
    loop {
        let middle = (near + far) / 2.0;
        if middle <= near || middle >= far {
            return -near;
        }
        if upper(middle) > p {
            near = middle;
        } else {
            far = middle;
        }
    }
}

/// e to the power of `x`, which is not positive: a power of two times a series.
fn exp(x: f64) -> f64 {
    let halvings = (-x / std::f64::consts::LN_2).floor();
    if halvings > 1000.0 {
        return 0.0;
    }
    let rest = x + halvings * std::f64::consts::LN_2;
    let series = (1..=24)
        .rev()
        .fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits((1023 - halvings as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_formulas_meet_and_the_quantile_undoes_the_share() {
        assert!((upper(TAIL) / upper(TAIL - 1e-12) - 1.0).abs() < 1e-10);
        for p in [1e-9, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.999] {
            assert!((cdf(quantile(p)) / p - 1.0).abs() < 1e-13, "{p}");
        }
        assert_eq!(quantile(0.5), 0.0);
        assert_eq!(quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(1.0), f64::INFINITY);
        assert_eq!((cdf(f64::NEG_INFINITY), cdf(60.0)), (0.0, 1.0));
    }
}
