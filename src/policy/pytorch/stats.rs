//! The statistics of `torch.cuda.memory_stats()`, updated in PyTorch's own order.
//!
//! Source: specification section 10.

/// A value with its peak and the sums of its rises and falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Now.
    pub current: i64,
    /// Highest so far.
    pub peak: i64,
    /// Sum of rises.
    pub allocated: i64,
    /// Sum of falls.
    pub freed: i64,
}

impl Stat {
    fn change(&mut self, by: i64) {
        self.current += by;
        self.peak = self.peak.max(self.current);
        if by >= 0 {
            self.allocated += by;
        } else {
            self.freed -= by;
        }
    }
}

/// One statistic over all pools, the small ones and the large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats3 {
    /// Both kinds of pool.
    pub all: Stat,
    /// Pools of small blocks.
    pub small: Stat,
    /// Pools of large blocks.
    pub large: Stat,
}

impl Stats3 {
    /// Adds `by` for a block of a small or large pool.
    pub fn change(&mut self, small: bool, by: i64) {
        self.all.change(by);
        if small {
            &mut self.small
        } else {
            &mut self.large
        }
        .change(by);
    }
}

/// All of them; names as PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "named and defined by PyTorch")]
pub struct Statistics {
    pub allocation: Stats3,
    pub segment: Stats3,
    pub active: Stats3,
    pub inactive_split: Stats3,
    pub allocated_bytes: Stats3,
    pub reserved_bytes: Stats3,
    pub active_bytes: Stats3,
    pub inactive_split_bytes: Stats3,
    pub requested_bytes: Stats3,
    pub oversize_allocations: Stat,
    pub oversize_segments: Stat,
    pub num_alloc_retries: u64,
    pub num_ooms: u64,
    pub num_sync_all_streams: u64,
    pub num_device_alloc: u64,
    pub num_device_free: u64,
}

impl Statistics {
    /// Adds to a count of oversize blocks or segments.
    pub fn oversize(stat: &mut Stat, by: i64) {
        stat.change(by);
    }
}
