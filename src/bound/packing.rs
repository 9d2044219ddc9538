//! Buffers with known lifetimes, and packings of them: dynamic storage allocation, problem
//! SR2 of Garey and Johnson, "Computers and Intractability" (1979).

/// A buffer: so many bytes, alive over a half-open range of moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Its first moment.
    pub lower: u32,
    /// The moment after its last one; above `lower`.
    pub upper: u32,
    /// Bytes; never 0.
    pub bytes: u64,
    /// Its offset is a multiple of this; never 0.
    pub align: u64,
}

/// A place for every buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packing {
    /// First byte of each buffer, in their order.
    pub offsets: Vec<u64>,
    /// The highest end of a buffer, in bytes.
    pub height_bytes: u64,
    /// The packer that found it.
    pub by: &'static str,
    /// Whether no packing is lower: its height is the maximum load, or a search that
    /// leaves nothing out found none.
    pub proven: bool,
}

/// The maximum load: the most bytes that are alive at one moment, `u64::MAX` where they
/// pass that. No packing is lower.
#[must_use]
pub fn max_load_bytes(buffers: &[Buffer]) -> u64 {
    let mut changes: Vec<(u32, bool, u64)> = Vec::with_capacity(2 * buffers.len());
    for buffer in buffers {
        changes.push((buffer.lower, true, buffer.bytes));
        changes.push((buffer.upper, false, buffer.bytes));
    }
    // Ends come before beginnings at the same moment: ranges are half-open.
    changes.sort_unstable();
    let (mut load, mut most) = (0_u128, 0);
    for (_, begins, bytes) in changes {
        if begins {
            load += u128::from(bytes);
            most = most.max(load);
        } else {
            load -= u128::from(bytes);
        }
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}
