//! An exact packer in the manner of MiniMalloc.
//!
//! Source: Moffitt, "MiniMalloc: a lightweight memory allocator for hardware-accelerated
//! machine learning", ASPLOS 2023. As there: time is cut into sections, solutions are
//! canonical (buffers are placed by rising offset, each as low as what lies below it
//! allows), what is left falls apart into parts that are searched for themselves, a buffer
//! is not placed where another one would fit below, and a section whose rest no longer
//! fits ends a branch. Added here: a section's rest is stacked from the earliest offsets of
//! its buffers; a buffer whose turn has passed must be lifted by another one; states that
//! failed are kept by their hash; and the search starts again and again, each time in
//! another order that has learned from the sections that failed.
//!
//! A search is a function of its inputs: it counts placements, and the clock only stops it.

mod search;
mod sections;

use search::{End, Search, mix};
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

/// Placements before the first new start; a quarter more every four starts.
const FIRST_TRIES: u64 = 5_000;
/// Keys of an order are numbers of this size before they are disturbed.
const UNIT: u128 = 64;

/// Searches for a packing of at most `height_bytes`, with at most `tries` placements;
/// `stop` is asked now and then whether the time is over.
#[must_use]
pub fn decide(
    buffers: &[Buffer],
    height_bytes: u64,
    tries: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Answer {
    let sections = Sections::new(buffers);
    let mut search = Search::new(buffers, &sections, stop);
    let mut tries_of_start = FIRST_TRIES;
    for start in 0u64.. {
        let order = order(buffers, &sections, &search.blame, start);
        let left = tries - search.tries;
        let end = search.run(&order, height_bytes, tries_of_start.min(left));
        match end {
            End::Found => return Answer::Fits(search.offsets),
            End::Impossible => return Answer::Impossible,
            End::GaveUp if search.tries >= tries || stop() => return Answer::Unknown,
            End::GaveUp => {}
        }
        for blame in &mut search.blame {
            *blame = *blame * 3 / 4;
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
        if start < 4 || start / 4 % 2 == 0 {
            load
        } else {
            load + blamed
        }
    };
    let key = |at: &u32| {
        let number = *at as usize;
        let (from, end) = sections.span[number];
        let weight = (from as usize..end as usize).map(weigh).max().unwrap_or(0);
        let noise = match start {
            0..4 => UNIT,
            _ => {
                UNIT + u128::from(mix(start << 32 | u64::from(*at)) % (16 + 8 * (start / 4).min(6)))
            }
        };
        let width = u128::from(end - from) * noise;
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
