//! An exact packer in the manner of MiniMalloc.
//!
//! Source: Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated
//! machine learning", ASPLOS 2023. As there: time is cut into sections, packings are
//! canonical (nothing could sink), dominated ones are left out (no gap that a later buffer
//! would fill), what is left falls apart into parts that are searched for themselves, and a
//! section whose rest no longer fits ends a branch.
//!
//! Otherwise than there, buffers are not placed by rising offset. The search asks which
//! buffer rests on the floor of one section, or whether none does, and asks first where the
//! fewest answers are left for the failures seen so far (Boussemart, Hemery, Lecoutre and
//! Sais, "Boosting systematic search by weighting constraints", ECAI 2004): a narrow place
//! is filled before the rest. What fails tells the sections in which it lies, and decisions
//! that touch none of them are not tried again (Prosser, "Hybrid algorithms for the
//! constraint satisfaction problem", 1993). States that failed are kept by their hash; and
//! the search starts again and again, each time in another order, and trusts what it has
//! learned about the sections.
//!
//! A search is a function of its inputs: it counts decisions, and the clock only stops it.

mod search;
mod sections;
mod settle;
mod state;

use search::{End, Search};
use sections::Sections;

use super::packing::Buffer;

/// What a search for a packing of a given height came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Offsets that keep within the height.
    Fits(Vec<u64>),
    /// There are none: nothing was left out.
    Impossible,
    /// The budget or the time was used up before that was known.
    Unknown,
}

/// Decisions before the first new start; a quarter more every four starts.
const FIRST_TRIES: u64 = 1_000;
/// Keys of an order are numbers of this size before they are disturbed.
const UNIT: u128 = 64;
/// The stack of a search, which calls itself for every decision; used only as far as it
/// goes.
const STACK_BYTES: usize = 256 << 20;

/// Searches for a packing of at most `height_bytes`, with at most `tries` decisions;
/// `stop` is asked now and then whether the time is over.
#[must_use]
pub fn decide(
    buffers: &[Buffer],
    height_bytes: u64,
    tries: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Answer {
    let search = || search(buffers, height_bytes, tries, stop);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let running = thread
            .spawn_scoped(scope, search)
            .expect("the system gives another thread");
        running
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Starts searches until one ends.
fn search(
    buffers: &[Buffer],
    height_bytes: u64,
    tries: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Answer {
    let sections = Sections::new(buffers);
    let mut search = Search::new(buffers, &sections, stop);
    let mut tries_of_start = FIRST_TRIES;
    for start in 0u64.. {
        let order = order(buffers, &sections, search.blame(), start);
        let left = tries - search.tries;
        let end = search.run(&order, height_bytes, tries_of_start.min(left));
        match end {
            End::Found => return Answer::Fits(search.into_offsets()),
            End::Impossible(_) => return Answer::Impossible,
            End::GaveUp if search.tries >= tries || stop() => return Answer::Unknown,
            End::GaveUp => {}
        }
        for blame in search.blame() {
            *blame = (*blame * 3 / 4).max(1);
        }
        if start % 4 == 3 {
            tries_of_start += tries_of_start / 4;
        }
    }
    unreachable!("a start uses at least one try")
}

/// In which order buffers at one offset are placed: by the fullest section they meet, their
/// sections and their area, as MiniMalloc does, in turn with two more; later starts add
/// the blame of sections and some noise, a hash of start and number.
fn order(buffers: &[Buffer], sections: &Sections, blame: &[u64], start: u64) -> Vec<u32> {
    let fullest = u128::from(
        sections
            .load_bytes
            .iter()
            .copied()
            .max()
            .unwrap_or(1)
            .max(1),
    );
    let most_blame = u128::from(blame.iter().copied().max().unwrap_or(0)) + 1;
    let weigh = |section: usize| {
        let load = u128::from(sections.load_bytes[section]) * 1024 / fullest;
        let blamed = u128::from(blame[section]) * 1024 / most_blame;
        // Half of the later starts trust the loads alone.
        if start < 4 || (start / 4).is_multiple_of(2) {
            load
        } else {
            load + blamed
        }
    };
    let key = |at: &u32| {
        let number = *at as usize;
        let span = sections.span(number);
        let weight = span.clone().map(weigh).max().unwrap_or(0);
        let noise = match start {
            0..4 => UNIT,
            _ => {
                UNIT + u128::from(mix(start << 32 | u64::from(*at)) % (16 + 8 * (start / 4).min(6)))
            }
        };
        let width = span.len() as u128 * noise;
        let area = width * u128::from(buffers[number].bytes);
        let keys = match start % 4 {
            0 => [weight, width, area],
            1 => [weight, area, width],
            2 => [width, area, weight],
            _ => [u128::from(buffers[number].bytes) * noise, width, weight],
        };
        (keys.map(std::cmp::Reverse), *at)
    };
    let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
    order.sort_by_cached_key(key);
    order
}

/// Scrambles 64 bits: the finaliser of `SplitMix64` (Steele, Lea and Flood 2014).
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
