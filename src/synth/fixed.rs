//! Logarithms and powers of two in 32.32 fixed point, made of integers alone, so that a
//! generator gives the same bytes on every machine.

/// One, in 32.32 fixed point.
pub const ONE: u64 = 1 << 32;

/// The natural logarithm of two, in 32.32 fixed point.
const LN_2: u64 = 2_977_044_471;

/// `ROOTS[k]` is 2^(2^-(k+1)) with 62 bits behind the point: each is the square root of
/// the one before it.
const ROOTS: [u64; 32] = {
    let mut roots = [0; 32];
    let (mut at, mut root) = (0, 2_u128 << 62);
    while at < roots.len() {
        root = (root << 62).isqrt();
        roots[at] = root as u64;
        at += 1;
    }
    roots
};

/// The logarithm to base 2, rounded down to 32 bits behind the point.
///
/// # Panics
/// At 0, which has none.
#[must_use]
pub fn log2(value: u64) -> u64 {
    let whole = u64::from(value.ilog2());
    let mut mantissa = u128::from(value << value.leading_zeros());
    let mut bits = 0;
    // Squaring doubles the logarithm: what passes 2 is the next bit of it.
    for _ in 0..32 {
        mantissa = mantissa * mantissa >> 63;
        bits <<= 1;
        if mantissa >> 64 != 0 {
            mantissa >>= 1;
            bits |= 1;
        }
    }
    whole << 32 | bits
}

/// Two to the power of `exponent`, rounded down; `u64::MAX` past what fits.
#[must_use]
pub fn exp2(exponent: u64) -> u64 {
    let whole = exponent >> 32;
    if whole >= 64 {
        return u64::MAX;
    }
    let mut product = 1_u128 << 62;
    for (at, root) in ROOTS.iter().enumerate() {
        if exponent >> (31 - at) & 1 == 1 {
            product = product * u128::from(*root) >> 62;
        }
    }
    ((product << whole) >> 62) as u64
}

/// `-ln(part / 2^32)`, for `part` from 1 to 2^32, in 32.32 fixed point.
///
/// # Panics
/// At 0, and past 2^32.
#[must_use]
pub fn minus_ln(part: u64) -> u64 {
    let log2 = (32 << 32) - log2(part);
    (u128::from(log2) * u128::from(LN_2) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact_and_the_rest_is_close() {
        for bit in 0..64 {
            assert_eq!(log2(1 << bit), bit << 32);
            assert_eq!(exp2(bit << 32), 1 << bit);
        }
        for value in [3_u64, 7, 1000, 123_456_789, 987_654_321_987] {
            let exact = (value as f64).log2();
            assert!((log2(value) as f64 / ONE as f64 - exact).abs() < 1e-9);
            let back = exp2(log2(value));
            assert!(back <= value && (value - back) as f64 <= value as f64 * 1e-8 + 1.0);
        }
        assert_eq!(exp2(64 << 32), u64::MAX);
        assert!((exp2((1 << 31) + (10 << 32)) as f64 - 1024.0 * 2_f64.sqrt()).abs() < 1.0);
    }

    #[test]
    fn the_natural_logarithm_is_that_of_the_fraction() {
        assert_eq!(minus_ln(ONE), 0);
        assert!((minus_ln(ONE / 2) as f64 / ONE as f64 - 2_f64.ln()).abs() < 1e-9);
        assert!((minus_ln(1) as f64 / ONE as f64 - 32.0 * 2_f64.ln()).abs() < 1e-7);
    }
}
