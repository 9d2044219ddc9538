//! Indexes over free blocks: what a policy searches instead of the whole address space.
//!
//! [`BySize`] is ordered by bytes, then by address: best fit, worst fit and everything that asks for
//! "the smallest that is large enough". [`ByAddress`] is ordered by address and knows the largest
//! entry below each node: first fit and next fit. Both are exact and deterministic, and take no
//! memory from the system once they have reached their largest size.
//!
//! An index holds copies of a block's address and bytes: the policy tells it of every change, and
//! asserts on the answer of `remove` where a missing entry would be a bug.
//!
//! [`ByAddress`] is a B+-tree, after Comer, "The Ubiquitous B-Tree" (1979). The bins of [`BySize`]
//! under a two-level bitmap follow Masmano et al., "TLSF" (2004), but a bin is searched for its best
//! entry, so that the fit is the best one and not merely a good one.

mod bins;
mod buckets;
mod by_address;
mod by_size;
mod digits;
mod group;
mod scale;
#[cfg(test)]
mod tests;

pub use by_address::ByAddress;
pub use by_size::BySize;

/// One free block, as an index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// First address of the block.
    pub address: u64,
    /// Length of the block in bytes.
    pub bytes: u64,
    /// Handle of the block in the space that owns it; the index only carries it.
    pub block: u32,
}
