//! Uniform rounding: all sizes become multiples of one size, plus a padding.
//!
//! Source: the fixed-size partitions of early operating systems, as in Randell, "A note
//! on storage fragmentation and program segmentation" (CACM 12, 1969), which trades
//! external for internal fragmentation; the padding is the practice of asking for a
//! little more than is needed.
//!
//! Parameters: `over`, the policy that places the rounded requests; `multiple`;
//! `padding`, added before rounding.
//!
//! Tie-breaks: those of the policy below.

use serde::Deserialize;

use super::{Compacted, Motion, Policy, PolicyError, Tallies};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::{round_up, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The policy that places the rounded requests, as the registry finds it.
    pub over: String,
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_bytes")]
    pub multiple: u64,
    /// Bytes added to every request before rounding.
    #[serde(with = "serde_bytes")]
    pub padding: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            over: "best-fit".into(),
            multiple: 64 << 10,
            padding: 0,
        }
    }
}

/// The wrapper.
pub struct Uniform {
    inner: Box<dyn Policy>,
    spec: Spec,
}

impl Uniform {
    /// Uniform rounding over `inner`.
    ///
    /// # Errors
    /// A multiple of no bytes.
    pub fn new(spec: Spec, inner: Box<dyn Policy>) -> Result<Self, PolicyError> {
        if spec.multiple == 0 {
            let what = "multiple = 0: expected at least 1 byte, such as 64KiB";
            return Err(PolicyError::new("uniform", what));
        }
        Ok(Uniform { inner, spec })
    }

    fn rounded(&self, bytes: u64) -> Option<u64> {
        round_up(bytes.checked_add(self.spec.padding)?, self.spec.multiple)
    }
}

impl Policy for Uniform {
    fn joins(&self) -> bool {
        self.inner.joins()
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.inner.start(space)
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = self
            .rounded(request.bytes)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        self.inner.alloc(&Request { bytes, ..*request }, space)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        self.inner.free(block, stream, pending, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        let bytes = self.rounded(request.bytes)?;
        self.inner.rounded_bytes(&Request { bytes, ..*request })
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let largest_bytes = self.inner.servable(space, stream);
        let whole_bytes = largest_bytes - largest_bytes % self.spec.multiple;
        whole_bytes.saturating_sub(self.spec.padding)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        self.inner.largest_free(space)
    }

    fn blind(&self) -> bool {
        self.inner.blind()
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        self.inner.complete(block, space);
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        self.inner.use_on(block, stream, space);
    }

    fn trim(&mut self, space: &mut Space) {
        self.inner.trim(space);
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.inner.mark(label, space);
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.inner.pool(step, pool, stream, space);
    }

    fn ordered(&mut self, space: &mut Space) {
        self.inner.ordered(space);
    }

    fn motion(&self) -> Motion {
        self.inner.motion()
    }

    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        self.inner.compact(space)
    }

    fn gather(&mut self, space: &mut Space) -> Compacted {
        self.inner.gather(space)
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        self.inner.forget(free, space);
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.inner.learn(free, space);
    }

    fn tallies(&self) -> Tallies {
        self.inner.tallies()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn sizes_are_multiples_with_a_padding() {
        // 1 and 924 become 1000, 925 becomes 2000 (padded to 1001); best fit rounds each
        // up to 256 besides: 1024 and 2048.
        let hand = play(
            "uniform:multiple=1000,padding=76",
            5120,
            "A a 1 ; A b 925 ; A c 924 ; F a ; A d 925 ; A e 18446744073709551600 ; A f 500",
        );
        assert_eq!(
            hand.told,
            ["0", "1024", "3072", "ok", "OOM", "overflow", "0"]
        );
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        assert_eq!(policy.servable(space, 0), 924);
    }
}
