//! When entries are written in granules, and when they no longer are.

use super::{Pair, ask_everywhere};

/// As many entries as make a tree of three levels, from `base` up.
fn fill(pair: &mut Pair, base: u64, granule: u64) {
    for at in 0..300 {
        pair.insert((at % 7 + 1) * granule, base + at * 8 * granule);
    }
}

#[test]
fn addresses_are_counted_in_granules_as_long_as_they_can_be() {
    let far = 1u64 << 63;
    for base in [0, 1 << 47, far - (1 << 20), u64::MAX << 30] {
        let mut pair = Pair::default();
        // The whole at first, as a policy begins; then finer than that.
        pair.insert(1 << 38, base & u64::MAX << 38);
        fill(&mut pair, base, 512);
        assert!(pair.by_address.is_narrow());
        pair.insert(256, base + 256);
        assert!(pair.by_address.is_narrow());
        ask_everywhere(&pair);
        // A change to what 31 bits do not hold: finer, and what is there is 256 GiB.
        pair.rekey(base + 256, base + 257, 3);
        assert!(!pair.by_address.is_narrow());
        ask_everywhere(&pair);
        pair.rekey(base + 257, base + 300, 1);
        ask_everywhere(&pair);
    }
    for (bytes, address) in [(1, far), (1, u64::MAX), (1 << 62, 8), (0, 8)] {
        let mut pair = Pair::default();
        fill(&mut pair, 0, 16);
        pair.insert(bytes, address);
        assert!(!pair.by_address.is_narrow());
        ask_everywhere(&pair);
        pair.remove(address, bytes);
        ask_everywhere(&pair);
    }
}

#[test]
fn an_index_that_looks_for_scales_too_often_gives_up() {
    let mut pair = Pair::default();
    for step in 0..40 {
        let base = pair
            .holes
            .keys()
            .next_back()
            .map_or(0, |last| last + (1 << 40));
        pair.by_address.clear();
        (pair.by_size, pair.sizes, pair.holes) = Default::default();
        fill(&mut pair, base, 256);
        assert_eq!(pair.by_address.is_narrow(), step <= 8, "step {step}");
        ask_everywhere(&pair);
    }
}
