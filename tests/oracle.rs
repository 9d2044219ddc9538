//! Best fit beside the crate range-alloc, which looks through all free ranges: both place
//! every request at the same address, and refuse the same requests.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use range_alloc::RangeAllocator;
use vramlab::policy::Registry;
use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::SpaceConfig;
use vramlab::trace::{Event, Slot};

/// What best fit's sizes are multiples of.
const GRANULE_BYTES: u64 = 256;
const CAPACITY_BYTES: u64 = 48 << 20;

/// Where the last request was placed; `None` where it was refused.
#[derive(Default)]
struct Placed(Option<u64>);

impl Observer for Placed {
    fn see(&mut self, moment: &Moment<'_>) {
        self.0 = match moment.outcome {
            Outcome::Served(block) => Some(moment.space.base(block)),
            _ => None,
        };
    }
}

/// Replaces blocks of `live` slots at random, and compares every placement; the number of
/// requests that were refused.
fn compare(live: u32, seed: u64) -> u32 {
    let registry = Registry::default();
    let chosen = registry.find("best-fit").expect("a preset");
    let policy = registry.build(&chosen).expect("a preset builds");
    let config = SpaceConfig::bare(CAPACITY_BYTES);
    let mut replay = Replay::new(policy, config).expect("the capacity is there");
    let mut ranges = RangeAllocator::new(0..CAPACITY_BYTES);
    let mut held = vec![None; live as usize];
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut refused = 0;
    for event in 0..6 * live {
        let slot: Slot = rng.next_u32() % live;
        let (stream, deferred) = (0, false);
        if let Some(range) = held[slot as usize].take() {
            ranges.free_range(range);
            let free = Event::Free {
                slot,
                stream,
                deferred,
            };
            replay.feed(&[free], &[], &mut ());
        }
        let bytes = 1 + u64::from(rng.next_u32() >> (rng.next_u32() % 16 + 11));
        let request = Event::Alloc {
            slot,
            bytes,
            align_log2: 0,
            stream,
            pool: 0,
            tag: 0,
        };
        let mut placed = Placed::default();
        replay.feed(&[request], &[], &mut placed);
        let range = ranges.allocate_range(bytes.next_multiple_of(GRANULE_BYTES));
        held[slot as usize] = range.ok();
        let expected = held[slot as usize].as_ref().map(|range| range.start);
        assert_eq!(placed.0, expected, "request {event} of {bytes} bytes");
        refused += u32::from(expected.is_none());
    }
    refused
}

#[test]
fn best_fit_places_as_a_linear_search_does() {
    let refused: u32 = [(20, 1), (60, 2), (400, 3), (2_000, 4)]
        .map(|(live, seed)| compare(live, seed))
        .iter()
        .sum();
    assert!(refused > 0, "the memory was full at times");
}
