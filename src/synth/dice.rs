//! Numbers for a workload, sampled from the raw words of ChaCha8: libraries change how
//! they sample between releases, and a seed must give the same trace for ever.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::fixed;

/// A stream of numbers for one purpose under one seed.
#[derive(Debug, Clone)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The numbers of `purpose` under `seed`. Two purposes share no numbers, so that a
    /// workload which draws more sizes still meets the same lifetimes.
    #[must_use]
    pub fn new(purpose: &str, seed: u64) -> Self {
        let mut key = blake3::Hasher::new_derive_key("vramlab synthetic workload v1");
        key.update(&seed.to_le_bytes()).update(purpose.as_bytes());
        Dice(ChaCha8Rng::from_seed(*key.finalize().as_bytes()))
    }

    /// A number below `end`, each equally likely (Lemire's multiplication with rejection).
    ///
    /// # Panics
    /// At 0: there is no such number.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "a number below 0");
        let reject = end.wrapping_neg() % end;
        loop {
            let wide = u128::from(self.0.next_u64()) * u128::from(end);
            if wide as u64 >= reject {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number from `first` to `last`, both included.
    ///
    /// # Panics
    /// Where `last` is below `first`.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        assert!(first <= last, "a number between {first} and {last}");
        match (last - first).checked_add(1) {
            Some(count) => first + self.below(count),
            None => self.0.next_u64(),
        }
    }

    /// True in `ppm` of a million cases.
    pub fn chance(&mut self, ppm: u64) -> bool {
        self.below(1_000_000) < ppm
    }

    /// A number from `first` to `last` whose logarithm is uniform.
    ///
    /// # Panics
    /// Where `first` is 0 or `last` is below `first`.
    pub fn log_uniform(&mut self, first: u64, last: u64) -> u64 {
        let exponent = self.between(fixed::log2(first), fixed::log2(last));
        fixed::exp2(exponent).clamp(first, last)
    }

    /// An exponential number with the given mean, rounded down: the time between two
    /// arrivals of a Poisson process.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let part = self.below(fixed::ONE) + 1;
        (u128::from(mean) * u128::from(fixed::minus_ln(part)) >> 32) as u64
    }

    /// A number near 0 with variance 1, in 32.32 fixed point: the sum of twelve uniform
    /// numbers less six, which is as normal as a workload needs and never past 6.
    pub fn normal(&mut self) -> i64 {
        let sum: u64 = (0..12).map(|_| self.below(fixed::ONE)).sum();
        sum as i64 - (6 << 32)
    }

    /// A log-normal number with the given median; `spread_ppm` is the standard deviation
    /// of its logarithm to base 2, in millionths.
    ///
    /// # Panics
    /// At a median of 0.
    pub fn log_normal(&mut self, median: u64, spread_ppm: u64) -> u64 {
        let shift = i128::from(self.normal()) * i128::from(spread_ppm) / 1_000_000;
        let exponent = i128::from(fixed::log2(median)) + shift;
        fixed::exp2(u64::try_from(exponent.max(0)).unwrap_or(u64::MAX))
    }

    /// One of `items`.
    ///
    /// # Panics
    /// Where there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of one stream, committed: were they ever others, every synthetic
    /// result would be another.
    #[test]
    fn golden_numbers() {
        let mut dice = Dice::new("sizes", 7);
        let drawn: Vec<u64> = (0..4).map(|_| dice.below(1_000_000)).collect();
        let mut other = Dice::new("lifetimes", 7);
        let others: Vec<u64> = (0..4).map(|_| other.below(1_000_000)).collect();
        assert_eq!([drawn, others], GOLDEN);
        let laws = [
            dice.log_uniform(512, 1 << 30),
            dice.exponential(1_000_000),
            dice.log_normal(4096, 1_000_000),
            dice.between(0, u64::MAX),
        ];
        assert_eq!(laws, LAWS);
    }

    const GOLDEN: [[u64; 4]; 2] = [
        [429_983, 280_540, 263_363, 390_020],
        [201_260, 36_321, 583_637, 64_715],
    ];
    const LAWS: [u64; 4] = [62166922, 3625661, 1692, 18168129109416169602];

    #[test]
    fn laws_have_their_means() {
        let mut dice = Dice::new("means", 1);
        let mean = |mut draw: Box<dyn FnMut() -> u64>| {
            (0..20_000).map(|_| draw()).sum::<u64>() as f64 / 20_000.0
        };
        let mut other = dice.clone();
        let exponential = mean(Box::new(move || other.exponential(1 << 20)));
        assert!(
            (exponential / f64::from(1 << 20) - 1.0).abs() < 0.03,
            "{exponential}"
        );
        let mut other = dice.clone();
        let logs = mean(Box::new(move || {
            fixed::log2(other.log_uniform(1 << 9, 1 << 29)) >> 16
        }));
        assert!((logs / 65_536.0 - 19.0).abs() < 0.15, "{logs}");
        let squares: f64 = (0..20_000)
            .map(|_| (dice.normal() as f64 / fixed::ONE as f64).powi(2))
            .sum();
        assert!((squares / 20_000.0 - 1.0).abs() < 0.05, "{squares}");
    }
}
