//! Why a request failed: one verdict, the first that holds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::replay::Moment;
use crate::space::{Cause, OutOfMemory, Request, Space, State};

/// Why a request was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Rounding the request up passed the largest integer.
    Overflow,
    /// Other processes or the context held too much of the card, as recorded.
    Outside,
    /// The request and the live ones together are more than the capacity.
    Capacity,
    /// A block that fits is there, but belongs to another pool.
    Pool,
    /// A block that fits is there, but a stream may still use it, or some of it.
    Stream,
    /// A block that fits is there, but belongs to another size class.
    Class,
    /// Moving blocks would have made room, had one not been pinned.
    Pinned,
    /// The request as it was asked would fit, but not as the policy rounds it.
    Rounding,
    /// There is enough that no live request asked for, but not in one piece.
    Fragmentation,
}

impl Verdict {
    /// All verdicts, in the order in which they are tried.
    pub const ALL: [Verdict; 9] = [
        Verdict::Overflow,
        Verdict::Outside,
        Verdict::Capacity,
        Verdict::Pool,
        Verdict::Stream,
        Verdict::Class,
        Verdict::Pinned,
        Verdict::Rounding,
        Verdict::Fragmentation,
    ];

    /// The word for it, as in csv and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Overflow => "overflow",
            Verdict::Outside => "outside",
            Verdict::Capacity => "capacity",
            Verdict::Pool => "pool",
            Verdict::Stream => "stream",
            Verdict::Class => "class",
            Verdict::Pinned => "pinned",
            Verdict::Rounding => "rounding",
            Verdict::Fragmentation => "fragmentation",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::Overflow => "the size, rounded up, is larger than any number of 64 bits",
            Verdict::Outside => {
                "other processes or the context held the card; with all of it, it could be served"
            }
            Verdict::Capacity => {
                "the request and what is live are more than the capacity; no policy could serve it"
            }
            Verdict::Pool => "a block that fits is free, but it belongs to another pool",
            Verdict::Stream => "memory that fits was freed, but a stream may still use it",
            Verdict::Class => "a block that fits is free, but it belongs to another size class",
            Verdict::Pinned => "moving blocks would make room, but a pinned one is in the way",
            Verdict::Rounding => "it would fit as it was asked, but not as the policy rounds it",
            Verdict::Fragmentation => {
                "enough is not in use, but no piece of it is large enough for the request"
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.meaning())
    }
}

/// The verdict on a failed request; `left_bytes` is what other processes left of the
/// card, where the recording tells it.
pub(super) fn of(
    moment: &Moment<'_>,
    request: &Request,
    shortage: OutOfMemory,
    left_bytes: Option<u64>,
) -> Verdict {
    let (space, cause) = (moment.space, shortage.cause);
    let needed_bytes = request.bytes.saturating_add(moment.totals.requested_bytes);
    if cause == Cause::Overflow {
        Verdict::Overflow
    } else if left_bytes.is_some_and(|left| held_outside(space, needed_bytes, left)) {
        Verdict::Outside
    } else if needed_bytes > space.capacity_bytes() {
        Verdict::Capacity
    } else if cause == Cause::Pool {
        Verdict::Pool
    } else if cause == Cause::Stream || held_by_streams(space, request, shortage.wanted_bytes) {
        Verdict::Stream
    } else if cause == Cause::Class {
        Verdict::Class
    } else if cause == Cause::Pinned {
        Verdict::Pinned
    } else if fits_unrounded(moment, request) {
        Verdict::Rounding
    } else {
        Verdict::Fragmentation
    }
}

/// No policy could serve it from what others left, but the whole card would hold it.
/// Where the capacity is below what was left, others are not what it failed on.
fn held_outside(space: &Space, needed_bytes: u64, left_bytes: u64) -> bool {
    left_bytes <= space.capacity_bytes()
        && needed_bytes > left_bytes
        && needed_bytes <= space.device().total_bytes
}

/// A run of neighbours of `wanted_bytes` is there that would be free, did a stream not
/// have to be waited for. Walks over all blocks, but only where some are so held.
fn held_by_streams(space: &Space, request: &Request, wanted_bytes: u64) -> bool {
    let counters = space.counters();
    if counters.pending_bytes == 0 && !space.ordered()
        || counters.free_bytes + counters.pending_bytes < wanted_bytes
    {
        return false;
    }
    space.segments().any(|segment| {
        let (mut run_bytes, mut held) = (0, false);
        space.blocks(segment).any(|block| {
            match space.state(block) {
                State::Pending => held = true,
                State::Free => held |= !space.usable(block, request.stream),
                _ => {
                    (run_bytes, held) = (0, false);
                    return false;
                }
            }
            run_bytes += space.bytes(block);
            held && run_bytes >= wanted_bytes
        })
    })
}

/// The bytes asked for, not rounded, fit a free block at their alignment, or what the
/// driver would still give.
fn fits_unrounded(moment: &Moment<'_>, request: &Request) -> bool {
    let space = moment.space;
    // Whoever checks the capacity, the driver gives no more than is left of it.
    let reserved_bytes = space.counters().reserved_bytes;
    let left_bytes = space.capacity_bytes().saturating_sub(reserved_bytes);
    if request.bytes <= left_bytes.min(space.room_bytes()) {
        return true;
    }
    if request.bytes > moment.largest_free_bytes {
        return false;
    }
    if request.align <= 1 && !space.ordered() {
        return true;
    }
    space.walk().any(|block| {
        let start = space.base(block).checked_next_multiple_of(request.align);
        let end = start.and_then(|start| start.checked_add(request.bytes));
        space.state(block) == State::Free
            && space.usable(block, request.stream)
            && end.is_some_and(|end| end <= space.end(block))
    })
}
