//! `xla-bfc`: the allocator of TensorFlow and JAX on a card.
//!
//! Source: TensorFlow 2.21 and jaxlib, `BFCAllocator`; part A of the project's
//! specification. See [`super`] for the tie-breaks.

use serde::Deserialize;

use super::{Bfc, Growth, Rules, SPLIT_SLACK_BYTES, Slack};
use crate::policy::PolicyError;
use crate::policy::limit::Limit;
use crate::units::MIB;

/// The first region of a pool that grows.
const FIRST_REGION_BYTES: u64 = 2 * MIB;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The whole limit is taken at the first request; else regions of 2 MiB, 4 MiB and so
    /// on (`allow_growth`).
    pub preallocate: bool,
    /// What the pool may hold.
    pub memory_limit: Limit,
    /// Free regions go back to the driver before a request fails.
    pub garbage_collection: bool,
    /// Part of the limit from which on a rest is split off; 0 stands for 128 MiB.
    pub fragmentation_fraction: f64,
    /// New memory that begins where a region ends continues it, as with sub-allocators
    /// over virtual memory.
    pub coalesce_regions: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            preallocate: true,
            memory_limit: Limit::Capacity,
            garbage_collection: false,
            fragmentation_fraction: 0.0,
            coalesce_regions: false,
        }
    }
}

/// The policy by `spec`.
///
/// # Errors
/// A fragmentation fraction that is no part of 1.
pub fn build(spec: &Spec) -> Result<Bfc, PolicyError> {
    if !(0.0..=1.0).contains(&spec.fragmentation_fraction) {
        let what = format!(
            "fragmentation_fraction {}: expected 0 to 1",
            spec.fragmentation_fraction
        );
        return Err(PolicyError::new("xla-bfc", what));
    }
    let first_bytes = if spec.preallocate {
        u64::MAX
    } else {
        FIRST_REGION_BYTES
    };
    Ok(Bfc::new(Rules {
        limit: spec.memory_limit,
        growth: Growth::Doubling {
            first_bytes,
            most_bytes: None,
        },
        slack: if spec.fragmentation_fraction > 0.0 {
            Slack::Fraction(spec.fragmentation_fraction)
        } else {
            Slack::Bytes(SPLIT_SLACK_BYTES)
        },
        collects: spec.garbage_collection,
        continues: spec.coalesce_regions,
        retry_down_to_bytes: 0,
        shrinks_to_bytes: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::space::{Request, Space, SpaceConfig};

    fn ask(bytes: u64, align: u64) -> Request {
        Request {
            bytes,
            align,
            stream: 0,
            pool: 0,
            tag: 0,
        }
    }

    /// By hand: 2 MiB for 1 byte; 4 MiB for 3,000,000, more than half of it, so whole;
    /// 1 MiB fits behind the first chunk; the freed first chunk is the best fit for 256.
    #[test]
    fn a_growing_pool_by_hand() {
        let mut space = Space::new(SpaceConfig::bare(16 * MIB));
        let spec = Spec {
            preallocate: false,
            ..Spec::default()
        };
        let mut policy = build(&spec).expect("valid");
        policy.start(&mut space).expect("nothing is taken");
        let mut place = |bytes: u64, space: &mut Space| {
            let block = policy.alloc(&ask(bytes, 1), space).expect("room");
            (block, space.base(block), space.bytes(block))
        };
        let (one, base, bytes) = place(1, &mut space);
        assert_eq!(
            (base, bytes, space.counters().reserved_bytes),
            (0, 256, 2 * MIB)
        );
        let (_, base, bytes) = place(3_000_000, &mut space);
        assert_eq!(
            (base, bytes, space.counters().reserved_bytes),
            (2 * MIB, 4 * MIB, 6 * MIB)
        );
        let (_, base, bytes) = place(MIB - 256, &mut space);
        assert_eq!((base, bytes), (256, MIB - 256));
        policy.free(one, 0, false, &mut space);
        let again = policy.alloc(&ask(256, 1), &mut space).expect("room");
        assert_eq!(
            (space.base(again), policy.largest_free(&space)),
            (0, Some(MIB))
        );
    }

    #[test]
    fn what_is_cut_off_in_front_of_an_aligned_block_stays_free() {
        let mut space = Space::new(SpaceConfig::bare(16 * MIB));
        let mut policy = build(&Spec::default()).expect("valid");
        policy.start(&mut space).expect("nothing is taken");
        policy.alloc(&ask(1, 1), &mut space).expect("room");
        let aligned = policy.alloc(&ask(512, 4096), &mut space).expect("room");
        let small = policy.alloc(&ask(512, 1), &mut space).expect("room");
        assert_eq!((space.base(aligned), space.base(small)), (4096, 256));
        let refused = policy.alloc(&ask(u64::MAX - 2, 1), &mut space);
        assert_eq!(
            refused,
            Err(crate::space::OutOfMemory::overflow(u64::MAX - 2))
        );
    }
}
