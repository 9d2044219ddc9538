//! Sums and peaks over a run of events, four events at a time where the processor can.
//!
//! Parts per million are whole numbers, so both ways come to the same figures to the last
//! digit: the quick one divides in floating point and mends the quotient by its rest.

#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "the quick way is for x86-64")
)]

use crate::replay::Columns;
use crate::units::ppm;

/// What a run of events comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    /// Sum of external fragmentation over the events after which something is free.
    pub(super) external_ppm: u64,
    /// How many those are.
    pub(super) external_count: u64,
    /// The greatest external fragmentation.
    pub(super) most_external_ppm: u64,
    /// Sum of the overhead over the events after which something is live.
    pub(super) overhead_ppm: u128,
    /// How many those are.
    pub(super) overhead_count: u64,
    /// The most requested bytes.
    pub(super) most_live_bytes: u64,
    /// The greatest footprint.
    pub(super) most_held_bytes: u64,
    /// Whether internal fragmentation may have passed the peak that was told.
    pub(super) internal_rises: bool,
}

/// What a run comes to, where internal fragmentation has stayed below so many parts per
/// million up to here.
#[allow(
    unsafe_code,
    reason = "code for what only some processors have is called once they are asked"
)]
#[inline]
pub(super) fn of(columns: &Columns<'_>, internal_below_ppm: u64) -> Sums {
    #[cfg(target_arch = "x86_64")]
    if can_go_quick() {
        // SAFETY: the processor has what the function is compiled for.
        let quick = unsafe { quick(columns, internal_below_ppm) };
        if let Some(sums) = quick {
            return sums;
        }
    }
    let _ = internal_below_ppm;
    exact(columns)
}

/// Whether the processor has the instructions of the quick way.
#[cfg(target_arch = "x86_64")]
#[inline]
fn can_go_quick() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// One event after the other, for figures of any size.
#[inline(never)]
fn exact(columns: &Columns<'_>) -> Sums {
    let mut sums = Sums {
        internal_rises: true,
        ..Sums::default()
    };
    let free = columns.free_bytes.iter().zip(columns.largest_free_bytes);
    for (&free_bytes, &largest_bytes) in free {
        if free_bytes > 0 {
            let external_ppm = ppm(free_bytes - largest_bytes, free_bytes);
            sums.external_ppm += external_ppm;
            sums.external_count += 1;
            sums.most_external_ppm = sums.most_external_ppm.max(external_ppm);
        }
    }
    let held = columns.requested_bytes.iter().zip(columns.footprint_bytes);
    for (&live_bytes, &held_bytes) in held {
        if live_bytes > 0 {
            let over_bytes = held_bytes.saturating_sub(live_bytes);
            sums.overhead_ppm += u128::from(ppm(over_bytes, live_bytes));
            sums.overhead_count += 1;
        }
        sums.most_live_bytes = sums.most_live_bytes.max(live_bytes);
        sums.most_held_bytes = sums.most_held_bytes.max(held_bytes);
    }
    sums
}

/// Bytes are below this in the quick way: they, and the rests of their quotients, are whole
/// numbers in floating point.
const MOST_BYTES: u64 = 1 << 51;
/// So many times what is live may be held in the quick way: no ratio passes 50 bits then.
const MOST_TIMES: f64 = (1u64 << 29) as f64;
/// 2^52: a whole number below it is the low bits of its sum with this.
const SHIFT: f64 = (1u64 << 52) as f64;
const LOW_BITS: u64 = (1 << 52) - 1;
const MILLION: f64 = 1e6;
/// A comparison in floating point errs by less than this leaves.
const NEARLY: f64 = 1.0 - 1e-9;

#[inline(always)]
fn float(whole: u64) -> f64 {
    f64::from_bits(whole | SHIFT.to_bits()) - SHIFT
}

/// [`ppm`] of whole numbers below [`MOST_BYTES`] that comes to less than 2^50, `whole` not 0.
///
/// The quotient is off by less than a quarter before it is rounded, so it comes to the
/// right number or one more; its rest is exact, and tells which.
#[inline(always)]
fn quick_ppm(part: f64, whole: f64) -> u64 {
    let scaled = part * MILLION;
    let lost = part.mul_add(MILLION, -scaled);
    let shifted = scaled / whole + SHIFT;
    let rest = (shifted - SHIFT).mul_add(-whole, scaled) + lost;
    (shifted.to_bits() & LOW_BITS) - u64::from(rest < 0.0)
}

/// Four events at a time; none where a figure is too large or too little is live.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn quick(columns: &Columns<'_>, internal_below_ppm: u64) -> Option<Sums> {
    let count = columns.requested_bytes.len();
    let (live, used) = (columns.requested_bytes, &columns.used_bytes[..count]);
    let (free, largest) = (
        &columns.free_bytes[..count],
        &columns.largest_free_bytes[..count],
    );
    let held = &columns.footprint_bytes[..count];
    let below = internal_below_ppm as f64 * NEARLY;
    let (mut all, mut little, mut rises, mut empty) = (0, 0, 0, 0);
    let (mut external, mut overhead) = (0, 0);
    // Signed, since that is what the instructions compare; none has the sign.
    let (mut most_external, mut most_live, mut most_held) = (0i64, 0i64, 0i64);
    for at in 0..count {
        let (live, used) = (live[at], used[at]);
        let (free, largest, held) = (free[at], largest[at], held[at]);
        all |= live | used | free | largest | held;
        most_live = most_live.max(live as i64);
        most_held = most_held.max(held as i64);
        let none = u64::from(free == 0);
        empty += none;
        let scattered = float(free) - float(largest);
        let external_ppm = quick_ppm(scattered, float(free | none));
        external += external_ppm;
        most_external = most_external.max(external_ppm as i64);
        let (live, used, held) = (float(live), float(used), float(held));
        little |= u64::from(held >= live * MOST_TIMES);
        overhead += quick_ppm((held - live).max(0.0), live);
        rises |= u64::from((used - live) * MILLION >= used * below);
    }
    let sums = Sums {
        external_ppm: external,
        external_count: count as u64 - empty,
        most_external_ppm: most_external as u64,
        overhead_ppm: u128::from(overhead),
        overhead_count: count as u64,
        most_live_bytes: most_live as u64,
        most_held_bytes: most_held as u64,
        internal_rises: rises != 0,
    };
    (all < MOST_BYTES && little == 0).then_some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Glance, Glances};
    use proptest::prelude::*;

    /// A number of any magnitude up to `bits` bits.
    fn bytes(bits: u32) -> impl Strategy<Value = u64> {
        (0..=bits, any::<u64>()).prop_map(|(bits, word)| word & ((1u64 << bits) - 1))
    }

    fn glance(bits: u32) -> impl Strategy<Value = Glance> {
        let sizes = (bytes(bits), bytes(bits), bytes(bits), bytes(bits));
        (sizes, any::<u64>()).prop_map(|((live, waste, free, over), word)| {
            let used_bytes = live + waste;
            // All of what is free in one piece is common, and so are whole fractions.
            let largest_free_bytes = match word % 4 {
                0 => free,
                1 => free / 2,
                2 => free - free / 3,
                _ => ((u128::from(free) * u128::from(word)) >> 64) as u64,
            };
            Glance {
                requested_bytes: live,
                used_bytes,
                free_bytes: free,
                largest_free_bytes,
                reserved_bytes: used_bytes + free,
                footprint_bytes: live / 2 + over,
            }
        })
    }

    proptest! {
        #[test]
        fn both_ways_come_to_the_same(
            glances in proptest::collection::vec(glance(50), 1..=64),
        ) {
            let glances: Glances = glances.into_iter().collect();
            let sums = of(&glances.columns(), 1);
            let mut slow = exact(&glances.columns());
            slow.internal_rises = sums.internal_rises;
            prop_assert_eq!(sums, slow);
        }

        #[test]
        fn quick_quotients_are_exact(part in bytes(51), whole in bytes(51)) {
            prop_assume!(whole > 0 && ppm(part, whole) < 1 << 50);
            prop_assert_eq!(quick_ppm(float(part), float(whole)), ppm(part, whole));
        }

        #[test]
        fn quick_quotients_are_exact_beside_whole_numbers(
            quotient in 0u64..1 << 30,
            whole in bytes(33),
            off in 0u64..3,
        ) {
            // Parts whose ratio is just below, at or just above a whole number.
            let part = (u128::from(quotient) * u128::from(whole)).div_ceil(1_000_000) as u64;
            let part = (part + off).saturating_sub(1);
            prop_assume!(whole > 0 && part < MOST_BYTES);
            prop_assert_eq!(quick_ppm(float(part), float(whole)), ppm(part, whole));
        }
    }

    #[test]
    fn a_new_peak_of_internal_fragmentation_is_seen() {
        let run = |used_bytes| {
            let glance = Glance {
                requested_bytes: 1 << 20,
                used_bytes,
                ..Glance::default()
            };
            let glances: Glances = [glance; 5].into_iter().collect();
            of(&glances.columns(), 1000).internal_rises
        };
        // 1,048 of 1,049,624 bytes are 998 parts per million; 1,050 are 1,000.
        assert!(run((1 << 20) + 1050));
        let can = cfg!(target_arch = "x86_64")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma");
        assert_eq!(
            run((1 << 20) + 1048),
            !can,
            "told for certain the quick way"
        );
    }
}
