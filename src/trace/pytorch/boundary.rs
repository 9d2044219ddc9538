//! How large the blocks are that were live before a trace and freed inside it.
//!
//! Source: the project's specification of PyTorch's caching allocator, section 9.1 (ii).
//! Only the requested size of such a block is recorded. In the pool of small blocks and
//! in expandable segments the rounded size is exact. Elsewhere a block may keep up to
//! 1 MiB of slack. Every block and every free remainder of that pool is larger than
//! 1 MiB, so a gap of at most 1 MiB behind a block can only be its slack; and as free
//! blocks are consumed from their low end, the first allocation that lands within 1 MiB
//! behind a block, with nothing live between, shows where the block ends. Where neither
//! tells, the slack is taken as 0.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::snapshot::{Action, Entry};

use super::rewind::{Start, region_of};
use super::sizes::SizeRules;

/// How the sizes of the initial blocks were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Inference {
    /// Blocks whose end an allocation behind them showed.
    pub inferred: u64,
    /// Blocks of which nothing tells the slack: taken as 0.
    pub guessed: u64,
    /// Blocks in no known segment.
    pub homeless: u64,
}

/// A block whose end is to be found.
#[derive(Debug, Clone, Copy)]
struct Open {
    rounded_bytes: u64,
    limit_bytes: u64,
    region_end: u64,
}

/// Gives every block of `start` its size.
pub(super) fn infer_sizes(start: &mut Start, entries: &[Entry], rules: &SizeRules) -> Inference {
    let mut inference = Inference::default();
    let mut open = settle_by_gaps(start, rules, &mut inference);
    if open.is_empty() {
        return inference;
    }
    let mut live: BTreeSet<u64> = start.blocks.keys().copied().collect();
    for entry in entries {
        match entry.action {
            Action::Alloc => {
                if let Some((address, bytes)) = shown_by(entry.address(), &live, &open) {
                    open.remove(&address);
                    settle(start, address, bytes);
                    inference.inferred += 1;
                }
                live.insert(entry.address());
            }
            Action::FreeCompleted => {
                live.remove(&entry.address());
                inference.guessed += u64::from(close(start, &mut open, entry.address()));
            }
            _ => {}
        }
        if open.is_empty() {
            return inference;
        }
    }
    for address in open.keys().copied().collect::<Vec<_>>() {
        inference.guessed += u64::from(close(start, &mut open, address));
    }
    inference
}

/// Settles all blocks whose size follows from their pool or from the gap behind them;
/// the others are told back.
fn settle_by_gaps(
    start: &mut Start,
    rules: &SizeRules,
    inference: &mut Inference,
) -> BTreeMap<u64, Open> {
    let mut open = BTreeMap::new();
    let mut next_start = u64::MAX;
    for (&address, held) in start.blocks.iter_mut().rev() {
        let next = std::mem::replace(&mut next_start, address);
        if held.bytes.is_some() {
            continue;
        }
        let rounded_bytes = rules.rounded(held.requested_bytes);
        let Some((from, region)) = region_of(&start.regions, address) else {
            inference.homeless += 1;
            held.bytes = Some(rounded_bytes.min(next - address));
            continue;
        };
        let region_end = from.saturating_add(region.bytes);
        let room = next.min(region_end) - address;
        let limit_bytes = rules.slack_limit(rounded_bytes);
        let exact = !region.large || region.expandable || room <= rounded_bytes;
        if exact {
            held.bytes = Some(rounded_bytes.min(room));
        } else if room - rounded_bytes <= limit_bytes {
            held.bytes = Some(room);
        } else {
            let tail = Open {
                rounded_bytes,
                limit_bytes,
                region_end,
            };
            open.insert(address, tail);
        }
    }
    open
}

/// The open block that an allocation at `at` shows the end of, and its size.
fn shown_by(at: u64, live: &BTreeSet<u64>, open: &BTreeMap<u64, Open>) -> Option<(u64, u64)> {
    let &before = live.range(..at).next_back()?;
    let tail = open.get(&before)?;
    let bytes = at - before;
    let slack = bytes.checked_sub(tail.rounded_bytes)?;
    (slack <= tail.limit_bytes && at < tail.region_end).then_some((before, bytes))
}

/// Settles an open block at its rounded size; false where it is not open.
fn close(start: &mut Start, open: &mut BTreeMap<u64, Open>, address: u64) -> bool {
    let Some(tail) = open.remove(&address) else {
        return false;
    };
    settle(start, address, tail.rounded_bytes);
    true
}

fn settle(start: &mut Start, address: u64, bytes: u64) {
    if let Some(held) = start.blocks.get_mut(&address) {
        held.bytes = Some(bytes);
    }
}
