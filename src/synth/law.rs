//! Laws of sizes and of lifetimes, shared by the families that draw them at random.
//!
//! What the literature on allocators simulates with: uniform, exponential and log-normal
//! populations as in Shore (1975), powers of two, and tables taken from a recording, which
//! Zorn and Grunwald (1994) found to be the only ones that predict a real program.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::dice::Dice;
use crate::units::{parse_nanos, serde_bytes};

/// How large requests are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// The logarithm is uniform: each octave is asked for as often as any other.
    LogUniform(Range),
    /// The powers of two in the range, each equally likely.
    PowersOfTwo(Range),
    /// Sizes at equal steps of the distribution, from the smallest to the largest. A draw
    /// lies between two neighbours, log-uniform; equal neighbours are drawn exactly.
    Quantiles(Vec<u64>),
}

/// A range of sizes, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The smallest size.
    #[serde(with = "serde_bytes")]
    pub smallest_bytes: u64,
    /// The largest size.
    #[serde(with = "serde_bytes")]
    pub largest_bytes: u64,
}

impl Range {
    /// Whether it is a range of sizes.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> Result<(), String> {
        if self.smallest_bytes == 0 || self.smallest_bytes > self.largest_bytes {
            return Err("smallest_bytes must be above 0 and at most largest_bytes".into());
        }
        Ok(())
    }

    /// A log-uniform size, in bytes.
    ///
    /// # Panics
    /// At a range that [`check`](Self::check) refuses.
    pub fn draw(&self, dice: &mut Dice) -> u64 {
        dice.log_uniform(self.smallest_bytes, self.largest_bytes)
    }
}

impl Sizes {
    /// Whether the parameters go together.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Sizes::LogUniform(range) => range.check(),
            Sizes::PowersOfTwo(range) => {
                range.check()?;
                let power = range.smallest_bytes.checked_next_power_of_two();
                let holds_power = power.is_some_and(|power| power <= range.largest_bytes);
                if !holds_power {
                    return Err(
                        "no power of two lies between smallest_bytes and largest_bytes; \
                                widen the range, or use log-uniform"
                            .into(),
                    );
                }
                Ok(())
            }
            Sizes::Quantiles(table) => table_fits(table, "sizes"),
        }
    }

    /// The largest size there is, in bytes.
    ///
    /// # Panics
    /// At an empty table, which [`check`](Self::check) refuses.
    #[must_use]
    pub fn largest_bytes(&self) -> u64 {
        match self {
            Sizes::LogUniform(range) | Sizes::PowersOfTwo(range) => range.largest_bytes,
            Sizes::Quantiles(table) => *table.last().expect("a table that was checked"),
        }
    }

    /// A size, in bytes.
    ///
    /// # Panics
    /// At parameters that [`check`](Self::check) refuses.
    pub fn draw(&self, dice: &mut Dice) -> u64 {
        match self {
            Sizes::LogUniform(range) => range.draw(dice),
            Sizes::PowersOfTwo(range) => {
                let first = range.smallest_bytes.next_power_of_two().ilog2();
                let last = range.largest_bytes.ilog2();
                1 << dice.between(u64::from(first), u64::from(last))
            }
            Sizes::Quantiles(table) => quantile(table, dice),
        }
    }
}

/// How long an allocation lives.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Lives {
    /// A random one goes whenever `live` are live.
    RandomVictim {
        /// How many are live once the start is over.
        live: u64,
    },
    /// Exponential: however old, each is as likely to go next.
    Exponential {
        /// The mean.
        mean: Span,
    },
    /// Log-normal: most go early, a few stay for very long.
    LogNormal {
        /// Half live longer.
        median: Span,
        /// Standard deviation of the logarithm to base 2, in millionths.
        spread_ppm: u64,
    },
    /// Exponential, with one mean for small and one for large requests.
    BySize {
        /// What counts as large.
        #[serde(with = "serde_bytes")]
        large_from_bytes: u64,
        /// The mean of what is smaller.
        small_mean: Span,
        /// The mean of the rest.
        large_mean: Span,
    },
    /// Lifetimes in requests at equal steps of the distribution, from the shortest to the
    /// longest.
    Quantiles(Vec<u64>),
}

/// A lifetime: by the clock of allocations (requests made meanwhile, an integer in TOML)
/// or by time (a text such as `"3 s"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Requests made meanwhile.
    Requests(u64),
    /// Time, ns.
    Nanos(u64),
}

impl Span {
    /// The number, whatever its unit.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Span::Requests(number) | Span::Nanos(number) => number,
        }
    }

    /// Whether it is a time.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Span::Nanos(_))
    }
}

impl Lives {
    /// Whether the parameters go together.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> Result<(), String> {
        let zero = "a lifetime of 0: nothing would ever be live; give a longer one";
        match self {
            Lives::RandomVictim { live: 0 } => {
                Err("live = 0: at least one allocation must be live".into())
            }
            Lives::Exponential { mean } if mean.number() == 0 => Err(zero.into()),
            Lives::LogNormal { median, .. } if median.number() == 0 => Err(zero.into()),
            Lives::BySize {
                small_mean,
                large_mean,
                ..
            } => {
                if small_mean.is_time() != large_mean.is_time() {
                    return Err(
                        "small_mean and large_mean: one is a time, the other a number \
                                of requests; give both in one unit"
                            .into(),
                    );
                }
                if small_mean.number() == 0 || large_mean.number() == 0 {
                    return Err(zero.into());
                }
                Ok(())
            }
            Lives::Quantiles(table) => table_fits(table, "lifetimes"),
            _ => Ok(()),
        }
    }

    /// Whether lifetimes are times; else they are numbers of requests.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        match self {
            Lives::RandomVictim { .. } | Lives::Quantiles(_) => false,
            Lives::Exponential { mean } => mean.is_time(),
            Lives::LogNormal { median, .. } => median.is_time(),
            Lives::BySize { small_mean, .. } => small_mean.is_time(),
        }
    }

    /// The lifetime of a request of `bytes`; `None` where a random victim is chosen later.
    ///
    /// # Panics
    /// At parameters that [`check`](Self::check) refuses.
    pub fn draw(&self, bytes: u64, dice: &mut Dice) -> Option<u64> {
        match self {
            Lives::RandomVictim { .. } => None,
            Lives::Exponential { mean } => Some(dice.exponential(mean.number())),
            Lives::LogNormal { median, spread_ppm } => {
                Some(dice.log_normal(median.number(), *spread_ppm))
            }
            Lives::BySize {
                large_from_bytes,
                small_mean,
                large_mean,
            } => {
                let mean = if bytes < *large_from_bytes {
                    small_mean
                } else {
                    large_mean
                };
                Some(dice.exponential(mean.number()))
            }
            Lives::Quantiles(table) => Some(quantile(table, dice)),
        }
    }
}

/// Whether a table of quantiles can be drawn from.
fn table_fits(table: &[u64], of: &str) -> Result<(), String> {
    if table.is_empty() {
        return Err(format!("quantiles of {of}: the table is empty"));
    }
    if table[0] == 0 {
        return Err(format!("quantiles of {of}: 0 is no value; begin with 1"));
    }
    if !table.is_sorted() {
        return Err(format!("quantiles of {of}: values must not decrease"));
    }
    Ok(())
}

/// A draw from a table of quantiles.
fn quantile(table: &[u64], dice: &mut Dice) -> u64 {
    if table.len() == 1 {
        return table[0];
    }
    let at = dice.below(table.len() as u64 - 1) as usize;
    dice.log_uniform(table[at], table[at + 1])
}

/// Takes a number of requests or a time.
struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a number of requests, or a time such as \"3 s\"")
    }

    fn visit_u64<E: Error>(self, requests: u64) -> Result<Span, E> {
        Ok(Span::Requests(requests))
    }

    fn visit_i64<E: Error>(self, requests: i64) -> Result<Span, E> {
        u64::try_from(requests)
            .map(Span::Requests)
            .map_err(|_| E::custom(format!("a lifetime of {requests} requests is negative")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        parse_nanos(text).map(Span::Nanos).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SpanVisitor)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Span::Requests(requests) => to.serialize_u64(*requests),
            Span::Nanos(nanos) => to.serialize_str(&format!("{nanos}ns")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_to_their_laws() {
        let range = || Range {
            smallest_bytes: 500,
            largest_bytes: 5000,
        };
        let mut dice = Dice::new("sizes", 1);
        for _ in 0..1000 {
            let power = Sizes::PowersOfTwo(range()).draw(&mut dice);
            assert!([512, 1024, 2048, 4096].contains(&power), "{power}");
            let bytes = Sizes::LogUniform(range()).draw(&mut dice);
            assert!((500..=5000).contains(&bytes), "{bytes}");
            let bytes = Sizes::Quantiles(vec![8, 8, 64]).draw(&mut dice);
            assert!((8..=64).contains(&bytes), "{bytes}");
        }
        let draws = (0..1000).map(|_| Sizes::Quantiles(vec![8, 8, 64]).draw(&mut dice));
        let eights = draws.filter(|bytes| *bytes == 8).count();
        assert!((450..600).contains(&eights), "{eights} of 1000 are 8");
    }

    #[test]
    fn lifetimes_have_their_means() {
        let mut dice = Dice::new("lives", 1);
        let mut mean = |lives: &Lives, bytes| {
            let sum: u64 = (0..20_000)
                .filter_map(|_| lives.draw(bytes, &mut dice))
                .sum();
            sum / 20_000
        };
        let by_size = Lives::BySize {
            large_from_bytes: 1 << 20,
            small_mean: Span::Requests(1000),
            large_mean: Span::Requests(10),
        };
        assert!((970..=1030).contains(&mean(&by_size, 512)));
        assert!((9..=10).contains(&mean(&by_size, 1 << 20)));
        let log_normal = Lives::LogNormal {
            median: Span::Requests(1000),
            spread_ppm: 2_000_000,
        };
        // exp((2 ln 2)^2 / 2) is 2.61; the sum of twelve has no far tail.
        assert!((2300..=2800).contains(&mean(&log_normal, 1)));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let mixed = Lives::BySize {
            large_from_bytes: 1,
            small_mean: Span::Requests(1),
            large_mean: Span::Nanos(1),
        };
        assert!(mixed.check().unwrap_err().contains("one unit"));
        let falling = Sizes::Quantiles(vec![2, 1]);
        assert!(falling.check().unwrap_err().contains("must not decrease"));
        let narrow = Sizes::PowersOfTwo(Range {
            smallest_bytes: 5,
            largest_bytes: 7,
        });
        assert!(narrow.check().unwrap_err().contains("no power of two"));
    }
}
