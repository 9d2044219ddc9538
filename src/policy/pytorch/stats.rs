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
    #[inline]
    fn rise(&mut self, by: i64) {
        self.current += by;
        self.peak = self.peak.max(self.current);
        self.allocated += by;
    }

    #[inline]
    fn fall(&mut self, by: i64) {
        self.current -= by;
        self.freed += by;
    }

    #[inline]
    fn change(&mut self, by: i64) {
        if by >= 0 {
            self.rise(by);
        } else {
            self.fall(-by);
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
    #[inline]
    fn of(&mut self, small: bool) -> &mut Stat {
        if small {
            &mut self.small
        } else {
            &mut self.large
        }
    }

    /// Adds `by`, not below 0, for a block of a small or large pool.
    #[inline]
    pub fn rise(&mut self, small: bool, by: i64) {
        self.all.rise(by);
        self.of(small).rise(by);
    }

    /// Takes `by`, not below 0, away for a block of a small or large pool.
    #[inline]
    pub fn fall(&mut self, small: bool, by: i64) {
        self.all.fall(by);
        self.of(small).fall(by);
    }

    /// Adds `by` of any sign for a block of a small or large pool.
    #[inline]
    pub fn change(&mut self, small: bool, by: i64) {
        self.all.change(by);
        self.of(small).change(by);
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
    /// Every number by the name that `torch.cuda.memory_stats()` gives it.
    #[must_use]
    pub fn named(&self) -> Vec<(String, i64)> {
        let arrays = [
            ("allocation", self.allocation),
            ("segment", self.segment),
            ("active", self.active),
            ("inactive_split", self.inactive_split),
            ("allocated_bytes", self.allocated_bytes),
            ("reserved_bytes", self.reserved_bytes),
            ("active_bytes", self.active_bytes),
            ("inactive_split_bytes", self.inactive_split_bytes),
            ("requested_bytes", self.requested_bytes),
        ];
        let mut named = Vec::new();
        let mut add = |name: &str, stat: Stat| {
            for (metric, value) in [
                ("current", stat.current),
                ("peak", stat.peak),
                ("allocated", stat.allocated),
                ("freed", stat.freed),
            ] {
                named.push((format!("{name}.{metric}"), value));
            }
        };
        for (name, Stats3 { all, small, large }) in arrays {
            add(&format!("{name}.all"), all);
            add(&format!("{name}.small_pool"), small);
            add(&format!("{name}.large_pool"), large);
        }
        add("oversize_allocations", self.oversize_allocations);
        add("oversize_segments", self.oversize_segments);
        for (name, count) in [
            ("num_alloc_retries", self.num_alloc_retries),
            ("num_ooms", self.num_ooms),
            ("num_sync_all_streams", self.num_sync_all_streams),
            ("num_device_alloc", self.num_device_alloc),
            ("num_device_free", self.num_device_free),
        ] {
            named.push((name.to_owned(), count as i64));
        }
        named
    }

    /// Adds to a count of oversize blocks or segments.
    pub fn oversize(stat: &mut Stat, by: i64) {
        stat.change(by);
    }
}
