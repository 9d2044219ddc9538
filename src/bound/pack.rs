//! The best packing that a budget allows: greedy ones first, then the exact search towards
//! the maximum load, then the iterated improver.

use super::exact::{Answer, decide};
use super::greedy::greedy;
use super::improve::improve;
use super::packing::{Buffer, Packing};

/// How much work a packing is worth. Work is counted, so that the same budget gives the
/// same packing on any machine, as long as `stop` never says so.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    /// Pairs of buffers that greedy packers may look at; a sweep in time always runs.
    pub pairs: u64,
    /// Decisions that the exact search may try for each height.
    pub tries: u64,
    /// Rounds of the improver.
    pub rounds: u64,
    /// Whether the time is over.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

impl Budget<'_> {
    /// What a comparison spends on its first line: some tenths of a second, by counting alone.
    pub const CHEAP: Budget<'static> = Budget {
        pairs: 4_000_000,
        tries: 3_000,
        rounds: 0,
        stop: &|| false,
    };
}

/// More buffers than this are too many for the exact search.
const MOST_EXACT: usize = 2_000;
/// A height is first searched for with this part of the tries: a search that does not
/// succeed soon seldom does later.
const QUICK: u64 = 100;
/// Heights between the best known and the best thinkable that are searched for.
const BISECTIONS: u32 = 6;

/// Packs buffers. `goal_bytes` is a height that would do, such as a capacity: it is
/// searched for before lower ones.
///
/// # Panics
/// If the sum of bytes passes the largest integer.
#[must_use]
pub fn pack(buffers: &[Buffer], goal_bytes: Option<u64>, budget: &Budget<'_>) -> Packing {
    let swept = greedy(buffers, budget.pairs, budget.stop);
    let (mut best, load_bytes) = (swept.packing, swept.load_bytes);
    if buffers.len() > MOST_EXACT || budget.tries == 0 {
        improve(buffers, &mut best, load_bytes, budget.rounds, budget.stop);
        return best;
    }
    let mut least_bytes = load_bytes;
    let goal_bytes = goal_bytes.filter(|goal| *goal > load_bytes && *goal < best.height_bytes);
    if let Some(goal_bytes) = goal_bytes {
        search(buffers, goal_bytes, &mut least_bytes, &mut best, budget);
    }
    let quick = Budget {
        tries: budget.tries / QUICK,
        ..*budget
    };
    search(buffers, load_bytes, &mut least_bytes, &mut best, &quick);
    if !best.proven {
        improve(buffers, &mut best, load_bytes, budget.rounds, budget.stop);
    }
    let mut low_bytes = least_bytes;
    for _ in 0..BISECTIONS {
        if best.proven || low_bytes >= best.height_bytes || (budget.stop)() {
            break;
        }
        let middle = low_bytes + (best.height_bytes - low_bytes) / 2;
        search(buffers, middle, &mut least_bytes, &mut best, &quick);
        if best.height_bytes > middle {
            low_bytes = middle + 1;
        }
    }
    search(buffers, load_bytes, &mut least_bytes, &mut best, budget);
    best
}

/// Searches for one height; `least_bytes` is what no packing is below.
fn search(
    buffers: &[Buffer],
    height_bytes: u64,
    least_bytes: &mut u64,
    best: &mut Packing,
    budget: &Budget<'_>,
) {
    if height_bytes >= best.height_bytes || best.proven {
        return;
    }
    match decide(buffers, height_bytes, budget.tries, budget.stop) {
        Answer::Fits(offsets) => {
            let ends = buffers
                .iter()
                .zip(&offsets)
                .map(|(it, from)| from + it.bytes);
            *best = Packing {
                height_bytes: ends.max().unwrap_or(0),
                offsets,
                by: "exact search",
                proven: false,
            };
        }
        Answer::Impossible => *least_bytes = (*least_bytes).max(height_bytes + 1),
        Answer::Unknown => {}
    }
    best.proven = best.height_bytes <= *least_bytes;
}
