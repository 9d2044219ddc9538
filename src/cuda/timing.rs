//! Measured times: what the host waits for, medians and spreads.

use std::time::Instant;

use serde::Serialize;

use super::card::CardError;

/// How long a call takes as the host waits for it, ns, and its answer.
pub(super) fn timed<T>(call: impl FnOnce() -> Result<T, CardError>) -> Result<(u64, T), CardError> {
    let started = Instant::now();
    let answer = call()?;
    Ok((started.elapsed().as_nanos() as u64, answer))
}

/// The middle of repeated measurements, and between what most of them lie; nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Spread {
    /// The tenth percentile.
    pub low_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The ninetieth percentile.
    pub high_ns: u64,
    /// How many measurements.
    pub samples: u64,
}

impl Spread {
    /// Of measured times, by nearest rank.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn of(mut times_ns: Vec<u64>) -> Self {
        assert!(!times_ns.is_empty(), "a spread of no measurements");
        times_ns.sort_unstable();
        let rank = |percent: usize| times_ns[(times_ns.len() * percent).div_ceil(100).max(1) - 1];
        Spread {
            low_ns: rank(10),
            median_ns: rank(50),
            high_ns: rank(90),
            samples: times_ns.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest_ranks() {
        let spread = Spread::of((1..=10).rev().collect());
        let ranks = (spread.low_ns, spread.median_ns, spread.high_ns);
        assert_eq!((ranks, spread.samples), ((1, 5, 9), 10));
        assert_eq!(Spread::of(vec![7]).median_ns, 7);
    }
}
