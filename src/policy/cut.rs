//! Cutting a free block to the bytes and the alignment of a request.

use crate::space::{BlockId, Space};

/// Bytes to look for, so that a request of `bytes` at `align` fits wherever the block
/// begins: allocators that know no alignment beyond their `quantum` leave the rest to
/// the program, which asks for more and cuts. `None` where that passes the largest integer.
pub(super) fn padded_bytes(bytes: u64, align: u64, quantum: u64) -> Option<u64> {
    bytes.checked_add(align.saturating_sub(quantum))
}

/// Cuts off what lies below the first address at `align`: the padding, if any, and the
/// block that begins at it.
pub(super) fn cut_front(
    block: BlockId,
    align: u64,
    space: &mut Space,
) -> (Option<BlockId>, BlockId) {
    let start = space.base(block).next_multiple_of(align);
    if start == space.base(block) {
        return (None, block);
    }
    let high = space.split(block, start - space.base(block));
    (Some(block), high)
}

/// Cuts the block to `bytes`: the rest above, if any.
pub(super) fn cut_back(block: BlockId, bytes: u64, space: &mut Space) -> Option<BlockId> {
    (space.bytes(block) > bytes).then(|| space.split(block, bytes))
}
