//! `ort-arena`: the arena of ONNX Runtime.
//!
//! Source: ONNX Runtime's arena configuration (`arena_extend_strategy`,
//! `initial_chunk_size_bytes`, `max_dead_bytes_per_chunk`,
//! `initial_growth_chunk_size_bytes`, `max_power_of_two_extend_bytes`) as its users
//! describe it; microsoft/onnxruntime#14474 and PR#15983. See [`super`] for the
//! tie-breaks; its rules that differ: a refused extension is given up below 8 KiB,
//! doubling goes on although the driver refuses, and a trim (its `Shrink`) gives free
//! regions back, but under doubling never the first.

use serde::Deserialize;

use super::{Bfc, Growth, Rules, SPLIT_SLACK_BYTES, Slack};
use crate::policy::limit::Limit;
use crate::units::{GIB, KIB, MIB, serde_bytes};

/// Below this a refused extension is given up.
const RETRY_DOWN_TO_BYTES: u64 = 8 * KIB;

/// How the arena grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// By powers of two (`kNextPowerOfTwo`, the default).
    NextPowerOfTwo,
    /// By the request (`kSameAsRequested`).
    SameAsRequested,
}

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// How the arena grows.
    pub arena_extend_strategy: Strategy,
    /// The first region under powers of two, in bytes.
    #[serde(with = "serde_bytes")]
    pub initial_chunk_bytes: u64,
    /// A rest of so many bytes is always split off.
    #[serde(with = "serde_bytes")]
    pub max_dead_bytes_per_chunk: u64,
    /// The next region after a shrinkage under powers of two, in bytes.
    #[serde(with = "serde_bytes")]
    pub initial_growth_chunk_bytes: u64,
    /// Doubling stops here, in bytes; a larger request still gets its power of two.
    #[serde(with = "serde_bytes")]
    pub max_power_of_two_extend_bytes: u64,
    /// What the arena may hold (`gpu_mem_limit`).
    pub memory_limit: Limit,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            arena_extend_strategy: Strategy::NextPowerOfTwo,
            initial_chunk_bytes: MIB,
            max_dead_bytes_per_chunk: SPLIT_SLACK_BYTES,
            initial_growth_chunk_bytes: 2 * MIB,
            max_power_of_two_extend_bytes: GIB,
            memory_limit: Limit::Capacity,
        }
    }
}

/// The policy by `spec`.
#[must_use]
pub fn build(spec: &Spec) -> Bfc {
    Bfc::new(Rules {
        limit: spec.memory_limit,
        growth: match spec.arena_extend_strategy {
            Strategy::SameAsRequested => Growth::AsRequested,
            Strategy::NextPowerOfTwo => Growth::Doubling {
                first_bytes: spec.initial_chunk_bytes,
                most_bytes: Some(spec.max_power_of_two_extend_bytes),
            },
        },
        slack: Slack::Bytes(spec.max_dead_bytes_per_chunk),
        collects: false,
        continues: false,
        retry_down_to_bytes: RETRY_DOWN_TO_BYTES,
        shrinks_to_bytes: Some(spec.initial_growth_chunk_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::space::{Request, Space, SpaceConfig};

    /// By hand: 1 MiB, then 32 MiB for 20 MiB; the second region is given back by a
    /// trim, the first is not, and the next one has 2 MiB.
    #[test]
    fn powers_of_two_and_a_shrinkage_by_hand() {
        let mut space = Space::new(SpaceConfig::bare(64 * MIB));
        let mut policy = build(&Spec::default());
        policy.start(&mut space).expect("nothing is taken");
        let ask = |bytes| Request {
            bytes,
            align: 1,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        let small = policy.alloc(&ask(1000), &mut space).expect("room");
        let large = policy.alloc(&ask(20 * MIB), &mut space).expect("room");
        assert_eq!(space.bytes(small), 1024);
        assert_eq!(
            (space.bytes(large), space.counters().reserved_bytes),
            (32 * MIB, 33 * MIB)
        );
        policy.free(small, 0, false, &mut space);
        policy.free(large, 0, false, &mut space);
        policy.trim(&mut space);
        assert_eq!(space.counters().reserved_bytes, MIB);
        policy.alloc(&ask(2 * MIB), &mut space).expect("room");
        assert_eq!(space.counters().reserved_bytes, 3 * MIB);
    }
}
