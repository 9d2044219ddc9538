//! What an explanation finds beyond the moment: who holds memory, what leaks, what helps.

use serde::Serialize;

/// What held memory the longest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holders {
    /// By stack, the greatest first; empty where the trace has no stacks.
    pub by_stack: Vec<Holder>,
    /// By size, the greatest first.
    pub by_size: Vec<Holder>,
}

/// Allocations that have a stack or a size in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The stack.
    pub stack: Option<String>,
    /// Sizes from this power of two to less than twice that, bytes.
    pub from_bytes: Option<u64>,
    /// How many were made.
    pub allocations: u64,
    /// What of them is live at the moment, bytes asked for.
    pub live_bytes: u64,
    /// Bytes asked for times seconds, rounded down.
    pub byte_seconds: u64,
    /// The same as a part of all, ppm.
    pub share_ppm: u64,
}

/// Leaked as against cached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leaks {
    /// What parts the periods.
    pub parted_by: PartedBy,
    /// How many periods count, those of the warm-up included.
    pub periods: u64,
    /// How many of the first are left out, as warm-up.
    pub warm_up: u64,
    /// The least live bytes in the first period that counts, and in each after it.
    pub least_live_bytes: Vec<u64>,
    /// What grows by stack, the greatest growth first; empty where the trace has no stacks.
    pub by_stack: Vec<Growth>,
    /// What grows by size.
    pub by_size: Vec<Growth>,
    /// What the pool only kept.
    pub cached: Cached,
}

/// What parts the periods of a leak check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PartedBy {
    /// Marks of the trace, such as the beginnings of its iterations.
    Marks {
        /// Their word, without numbers.
        word: String,
    },
    /// The points at which live bytes are low before they rise again by so much.
    Lows {
        /// The rise, bytes.
        rise_bytes: u64,
    },
    /// Nothing repeats: equal slices. A leak cannot be told from a phase that only grows.
    Slices,
}

/// Live bytes that grow from period to period and never fall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// The stack.
    pub stack: Option<String>,
    /// Sizes from this power of two to less than twice that, bytes.
    pub from_bytes: Option<u64>,
    /// The least live bytes in the first period that counts.
    pub first_bytes: u64,
    /// The same in the last.
    pub last_bytes: u64,
    /// In how many periods it grew.
    pub grew: u64,
    /// Growth for each period, bytes, rounded down.
    pub per_period_bytes: u64,
}

/// What a trim (`torch.cuda.empty_cache()`) right before the moment gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Cached {
    /// Reserved but free before it, bytes.
    pub free_bytes: u64,
    /// What the trim gave back to the driver, bytes.
    pub returned_bytes: u64,
    /// What stayed: free in segments that hold live blocks, or kept by the policy.
    pub kept_bytes: u64,
}

/// Settings and policies that were tried on the same trace and capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedies {
    /// The policy that is explained, replayed as the others are.
    pub own: Option<Remedy>,
    /// Those that serve the request: fewest failures first, then the least cost.
    pub serve: Vec<Remedy>,
    /// Those that do not.
    pub fail: Vec<Remedy>,
}

/// One setting or policy, replayed from an empty card over the whole trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The policy, as `--policy` takes it.
    pub policy: String,
    /// What to set, where it is an option of PyTorch.
    pub setting: Option<String>,
    /// One line on what it is.
    pub about: String,
    /// Whether the request of the moment was served, under every address order tried.
    pub serves: bool,
    /// External fragmentation right after the event, ppm.
    pub external_fragmentation_ppm: Option<u64>,
    /// Requests that failed over the whole trace.
    pub failed: u64,
    /// The first of them.
    pub first_failure_event: Option<u64>,
    /// Address orders of the driver that were tried.
    pub orders: u64,
    /// Whether they all agree on failures and on the peak of what is reserved.
    pub exact: bool,
    /// Peak of what is mapped, bytes; where the policy takes all at the start, the
    /// high-water mark.
    pub peak_footprint_bytes: u64,
    /// Calls of the driver.
    pub driver_calls: u64,
    /// Blocks moved.
    pub moves: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Bytes copied to the host and back.
    pub paged_bytes: u64,
    /// Reuses of memory that another stream may still use: such a policy leaves the order of
    /// streams to others.
    pub hazards: u64,
    /// Cost of driver calls, moves and stalls by the card's table, ns.
    pub cost_ns: u64,
    /// What kept it from a result: it could not start, or broke a rule.
    pub trouble: Option<String>,
}
