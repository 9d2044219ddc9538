//! The size rules of PyTorch's caching allocator that a reader of its recordings needs:
//! rounding, the size of a segment, and the limits that the settings move.
//!
//! Source: the project's behavioural specification of the allocator of torch 2.11
//! (sections 2.1 to 2.3 and 13), written from the public sources and checked against
//! the official library.

use crate::units::MIB;

/// Smallest block and rounding quantum in bytes.
pub const MIN_BLOCK_BYTES: u64 = 512;
/// Largest rounded request that the pool of small blocks serves, in bytes.
pub const SMALL_LIMIT_BYTES: u64 = MIB;
/// A segment of the pool of small blocks, in bytes.
pub const SMALL_SEGMENT_BYTES: u64 = 2 * MIB;
/// Requests of this many bytes and more get a segment of their own size.
pub const OWN_SEGMENT_BYTES: u64 = 10 * MIB;
/// A remainder of at most this many bytes is not split off in the pool of large blocks.
pub const LARGE_SLACK_BYTES: u64 = MIB;

/// How sizes follow from a request under given settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeRules {
    /// Power-of-two divisions: entry `i` serves sizes from 2^(20+i) bytes; 0 and 1 are off.
    pub divisions: [u64; 16],
    /// Blocks of this many bytes and more are never split; `None` is unlimited.
    pub max_split_bytes: Option<u64>,
    /// How much larger than the request an unsplit block may be at most.
    pub max_non_split_rounding_bytes: u64,
    /// A segment for requests above 1 MiB and below 10 MiB, in bytes.
    pub large_segment_bytes: u64,
    /// Garbage collection starts above this part of the cap, in ppm; 0 is off.
    pub gc_threshold_ppm: u64,
}

impl Default for SizeRules {
    fn default() -> Self {
        SizeRules {
            divisions: [0; 16],
            max_split_bytes: None,
            max_non_split_rounding_bytes: 20 * MIB,
            large_segment_bytes: 20 * MIB,
            gc_threshold_ppm: 0,
        }
    }
}

impl SizeRules {
    /// The block size of a request: at least 512 B, whole multiples of 512 B, or the
    /// next step between powers of two where divisions are set. Saturates at `u64::MAX`.
    #[must_use]
    pub fn rounded(&self, requested_bytes: u64) -> u64 {
        if requested_bytes < MIN_BLOCK_BYTES {
            return MIN_BLOCK_BYTES;
        }
        let magnitude = requested_bytes.ilog2();
        let divisions = self.divisions[magnitude.saturating_sub(20).min(15) as usize];
        if divisions > 1 && requested_bytes > MIN_BLOCK_BYTES.saturating_mul(divisions) {
            return power_of_two_rounded(requested_bytes, divisions);
        }
        requested_bytes
            .checked_next_multiple_of(MIN_BLOCK_BYTES)
            .unwrap_or(u64::MAX)
    }

    /// The driver allocation that a growth for `rounded_bytes` asks for.
    #[must_use]
    pub fn segment(&self, rounded_bytes: u64) -> u64 {
        if rounded_bytes <= SMALL_LIMIT_BYTES {
            SMALL_SEGMENT_BYTES
        } else if rounded_bytes < OWN_SEGMENT_BYTES {
            self.large_segment_bytes
        } else {
            rounded_bytes
                .checked_next_multiple_of(2 * MIB)
                .unwrap_or(u64::MAX)
        }
    }

    /// How many bytes more than its rounded request an unsplit block of the pool of
    /// large blocks may have, outside expandable segments.
    #[must_use]
    pub fn slack_limit(&self, rounded_bytes: u64) -> u64 {
        match self.max_split_bytes {
            Some(limit) if rounded_bytes >= limit => self.max_non_split_rounding_bytes,
            _ => LARGE_SLACK_BYTES,
        }
    }

    /// Takes what the string of `PYTORCH_CUDA_ALLOC_CONF` tells and the other fields of a
    /// snapshot do not: `large_segment_size_mb` and `max_non_split_rounding_mb`. Words
    /// that cannot be read are left alone: the recording says what the allocator did.
    pub fn read_conf(&mut self, conf: &str) {
        let number = |key| conf_value(conf, key).and_then(|value| value.parse::<u64>().ok());
        if let Some(mebibytes) = number("large_segment_size_mb") {
            self.large_segment_bytes = mebibytes.saturating_mul(MIB);
            self.max_non_split_rounding_bytes = self.large_segment_bytes;
        }
        if let Some(mebibytes) = number("max_non_split_rounding_mb") {
            self.max_non_split_rounding_bytes = mebibytes.saturating_mul(MIB);
        }
    }
}

/// The value of `key` in a string of comma-separated `key:value` pairs.
#[must_use]
pub fn conf_value<'a>(conf: &'a str, key: &str) -> Option<&'a str> {
    conf.split(',')
        .filter_map(|pair| pair.split_once(':'))
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .next_back()
}

/// `bytes` rounded up to a step of `divisions` equal parts between two powers of two.
fn power_of_two_rounded(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1u64 << bytes.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 {
        return floor.saturating_mul(2);
    }
    bytes.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_to_512_and_to_divisions() {
        let plain = SizeRules::default();
        assert_eq!(plain.rounded(1), 512);
        assert_eq!(plain.rounded(513), 1024);
        assert_eq!(plain.rounded(u64::MAX), u64::MAX);
        let divided = SizeRules {
            divisions: [4; 16],
            ..SizeRules::default()
        };
        for (asked, rounded) in [
            (1_200, 1_536),
            (2_049, 2_560),
            (1_100_000, 1_310_720),
            (9_000_000, 10_485_760),
            (1 << 24, 1 << 24),
        ] {
            assert_eq!(divided.rounded(asked), rounded, "{asked}");
        }
    }

    #[test]
    fn segments_are_2_20_or_their_own_mebibytes() {
        let rules = SizeRules::default();
        assert_eq!(rules.segment(MIB), 2 * MIB);
        assert_eq!(rules.segment(MIB + 512), 20 * MIB);
        assert_eq!(rules.segment(10 * MIB), 10 * MIB);
        assert_eq!(rules.segment(10 * MIB + 512), 12 * MIB);
    }

    #[test]
    fn the_settings_string_moves_the_limits() {
        let mut rules = SizeRules {
            max_split_bytes: Some(64 * MIB),
            ..SizeRules::default()
        };
        rules.read_conf("max_split_size_mb:64, large_segment_size_mb:32");
        assert_eq!(rules.segment(2 * MIB), 32 * MIB);
        assert_eq!(rules.slack_limit(64 * MIB), 32 * MIB);
        assert_eq!(rules.slack_limit(63 * MIB), MIB);
        rules.read_conf("max_non_split_rounding_mb:100");
        assert_eq!(rules.slack_limit(64 * MIB), 100 * MIB);
    }
}
