//! Why segments went back to the driver: because the program emptied the cache, or
//! because the allocator made room for a request by itself.
//!
//! Source: the project's specification of PyTorch's caching allocator, section 9.3. A
//! group of `segment_free` and `segment_unmap` with no growth and no failure after it is
//! an `empty_cache`. One with `oom` after it is the allocator's own. One with a growth
//! after it is the allocator's own only if the growth would have failed before it. The
//! cap is not in the file, but it is no lower than the most that was ever reserved
//! (`peak`): a growth that would have ended at or below the peak cannot have failed, so
//! the group is an `empty_cache`. Above the peak it is a retry where a cap is known to
//! exist (the recording holds a failure, its settings set a memory fraction, or the
//! reader was told a capacity), else an `empty_cache`. On the project's recordings this
//! meets every count of retries that the allocator reported.

use crate::trace::snapshot::{Action, Entry};

use super::sizes::{SMALL_SEGMENT_BYTES, SizeRules};

/// Why a group of segments went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The program called `empty_cache`.
    Emptied,
    /// The allocator synchronised, released its cache and tried again.
    Retried,
    /// Garbage collection, or the release of oversized blocks: no synchronisation.
    Collected,
}

/// What came after a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// A growth for a request of `rounded_bytes` on `stream`, for which the cap is asked
    /// `segment_bytes`.
    Growth {
        stream: u64,
        rounded_bytes: u64,
        segment_bytes: u64,
    },
    /// A failure.
    Oom,
    /// Anything else: a hit, a free, the end.
    Other,
}

/// What is known of the limits under which a recording was made.
#[derive(Debug, Clone)]
pub(super) struct Limits<'a> {
    pub rules: &'a SizeRules,
    /// The cap, where the reader was told it.
    pub capacity_bytes: Option<u64>,
    /// Whether a cap is known to exist.
    pub capped: bool,
    /// The most bytes that were ever reserved.
    pub peak_reserved_bytes: u64,
}

impl Limits<'_> {
    /// Why `frees` went back, `reserved_bytes` being reserved before the first of them.
    pub fn cause<'e>(
        &self,
        frees: impl Iterator<Item = &'e Entry> + Clone,
        reserved_bytes: u64,
        after: After,
    ) -> Cause {
        if after == After::Other {
            return Cause::Emptied;
        }
        let large =
            |free: &Entry| free.action == Action::SegmentFree && free.bytes != SMALL_SEGMENT_BYTES;
        if self.collects(reserved_bytes) && frees.clone().all(large) {
            return Cause::Collected;
        }
        let After::Growth {
            stream,
            rounded_bytes,
            segment_bytes,
        } = after
        else {
            return Cause::Retried;
        };
        if !self.fails(reserved_bytes.saturating_add(segment_bytes)) {
            Cause::Emptied
        } else if self.releases_oversized(frees, stream, rounded_bytes) {
            Cause::Collected
        } else {
            Cause::Retried
        }
    }

    /// Whether `frees` are what the release of oversized blocks gives for a request: one
    /// block of the stream that is large enough, or smaller ones, the largest first, until
    /// they are enough together. Where it did not find enough, a retry followed.
    fn releases_oversized<'e>(
        &self,
        frees: impl Iterator<Item = &'e Entry>,
        stream: u64,
        rounded_bytes: u64,
    ) -> bool {
        let Some(max_split_bytes) = self.rules.max_split_bytes else {
            return false;
        };
        let key_bytes = rounded_bytes.max(max_split_bytes);
        let (mut released_bytes, mut last_bytes) = (0u64, u64::MAX);
        for free in frees {
            let oversized = free.action == Action::SegmentFree
                && free.stream == stream
                && (max_split_bytes..=last_bytes).contains(&free.bytes);
            if !oversized || released_bytes >= key_bytes {
                return false;
            }
            released_bytes = released_bytes.saturating_add(free.bytes);
            last_bytes = free.bytes;
        }
        released_bytes >= key_bytes
    }

    /// Whether garbage collection can have run with `reserved_bytes` reserved.
    fn collects(&self, reserved_bytes: u64) -> bool {
        let least_cap = self.capacity_bytes.unwrap_or(self.peak_reserved_bytes);
        let threshold = u128::from(least_cap) * u128::from(self.rules.gc_threshold_ppm) / 1_000_000;
        self.rules.gc_threshold_ppm > 0 && u128::from(reserved_bytes) > threshold
    }

    /// Whether a growth to `reserved_bytes` must be taken as failed.
    fn fails(&self, reserved_bytes: u64) -> bool {
        match self.capacity_bytes {
            Some(capacity) => reserved_bytes > capacity,
            None => self.capped && reserved_bytes > self.peak_reserved_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::pytorch::testing::entry;
    use crate::units::MIB;

    fn cause(limits: &Limits<'_>, frees_mib: &[u64], reserved_mib: u64, after: After) -> Cause {
        let frees: Vec<Entry> = frees_mib
            .iter()
            .map(|mebibytes| entry(Action::SegmentFree, 0, mebibytes * MIB))
            .collect();
        limits.cause(frees.iter(), reserved_mib * MIB, after)
    }

    const GROWTH: After = After::Growth {
        stream: 0,
        rounded_bytes: 20 * MIB,
        segment_bytes: 20 * MIB,
    };

    #[test]
    fn a_growth_that_had_room_follows_an_emptied_cache() {
        let rules = SizeRules::default();
        let mut limits = Limits {
            rules: &rules,
            capacity_bytes: None,
            capped: true,
            peak_reserved_bytes: 100 * MIB,
        };
        assert_eq!(cause(&limits, &[20, 2], 80, GROWTH), Cause::Emptied);
        assert_eq!(cause(&limits, &[20, 2], 81, GROWTH), Cause::Retried);
        assert_eq!(cause(&limits, &[20, 2], 100, After::Other), Cause::Emptied);
        assert_eq!(cause(&limits, &[20, 2], 10, After::Oom), Cause::Retried);
        limits.capped = false;
        assert_eq!(cause(&limits, &[20, 2], 100, GROWTH), Cause::Emptied);
        limits.capacity_bytes = Some(110 * MIB);
        assert_eq!(cause(&limits, &[20, 2], 90, GROWTH), Cause::Emptied);
        assert_eq!(cause(&limits, &[20, 2], 91, GROWTH), Cause::Retried);
    }

    #[test]
    fn garbage_collection_and_oversized_releases_are_the_allocators_own() {
        let rules = SizeRules {
            gc_threshold_ppm: 600_000,
            max_split_bytes: Some(32 * MIB),
            ..SizeRules::default()
        };
        let limits = Limits {
            rules: &rules,
            capacity_bytes: None,
            capped: true,
            peak_reserved_bytes: 100 * MIB,
        };
        assert_eq!(cause(&limits, &[20], 61, GROWTH), Cause::Collected);
        assert_eq!(cause(&limits, &[20], 60, GROWTH), Cause::Emptied);
        assert_eq!(cause(&limits, &[20, 2], 61, GROWTH), Cause::Emptied);
        assert_eq!(cause(&limits, &[40, 2], 90, GROWTH), Cause::Retried);
        let limits = Limits {
            rules: &SizeRules {
                max_split_bytes: Some(32 * MIB),
                ..SizeRules::default()
            },
            ..limits
        };
        let growth = After::Growth {
            stream: 0,
            rounded_bytes: 70 * MIB,
            segment_bytes: 70 * MIB,
        };
        assert_eq!(cause(&limits, &[80], 90, growth), Cause::Collected);
        assert_eq!(cause(&limits, &[40, 40], 90, growth), Cause::Collected);
        assert_eq!(cause(&limits, &[40], 90, growth), Cause::Retried);
        assert_eq!(cause(&limits, &[40, 40, 40], 90, growth), Cause::Retried);
        assert_eq!(cause(&limits, &[80, 2], 90, growth), Cause::Retried);
    }
}
