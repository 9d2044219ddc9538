//! Programs that fill bins by size and by address, beside an ordered map of the standard library.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{BySize, Entry};

/// A kind of blocks, and which of them.
#[derive(Clone, Copy, Debug)]
struct Draw {
    kind: u8,
    word: u64,
}

fn any_draw() -> impl Strategy<Value = Draw> {
    (0u8..12, any::<u64>()).prop_map(|(kind, word)| Draw { kind, word })
}

impl Draw {
    /// Bytes and address: mostly granules of 256 bytes in one address space of a device.
    fn block(self) -> (u64, u64) {
        let (high, low) = (self.word >> 32, self.word & 0xffff_ffff);
        let address = (low % 0x40_0000) << 8;
        match self.kind {
            // One size, anywhere, and side by side.
            0..=2 => (512, address),
            3 => (512, (low % 300) << 8),
            // Sizes of one bin, and the same far up.
            4 | 5 => ((1 << 30) + ((high % 4096) << 8), address),
            6 => ((1 << 20) + ((high % 64) << 8), (1 << 46) + address),
            // All magnitudes.
            7 => (256 << (high % 20), address),
            // Addresses next to 2^63, and at the end.
            8 => (
                256 * (1 + high % 3),
                (1 << 63) - (1 << 20) + ((low % 8192) << 8),
            ),
            9 => (high % 3, u64::MAX - low % 40),
            // No common granule; next to the greatest sizes.
            10 => (high % 100_000, low),
            _ => ((1 << 57) - 64 + high % 128, low % 64),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Draw),
    /// So many blocks of a kind.
    Fill(Draw, u16),
    /// The block of this number, counted round.
    Remove(u64),
    /// So many, from this number on.
    Drain(u64, u16),
    /// Another in the place of one, or the block itself with fewer bytes from higher up.
    Change(u64, Option<Draw>),
    Clear,
}

/// Only kinds up to a limit, so that some programs stay with narrow words.
fn any_step(kinds: u8) -> impl Strategy<Value = Step> {
    let draw = move || {
        any_draw().prop_map(move |draw| Draw {
            kind: draw.kind % kinds,
            ..draw
        })
    };
    prop_oneof![
        40 => draw().prop_map(Step::Insert),
        6 => (draw(), 1u16..200).prop_map(|(draw, count)| Step::Fill(draw, count)),
        30 => any::<u64>().prop_map(Step::Remove),
        4 => (any::<u64>(), 1u16..200).prop_map(|(at, count)| Step::Drain(at, count)),
        20 => (any::<u64>(), prop::option::of(draw())).prop_map(|(at, to)| Step::Change(at, to)),
        1 => Just(Step::Clear),
    ]
}

/// The index beside an obvious model.
#[derive(Default)]
struct Pair {
    index: BySize,
    model: BTreeMap<(u64, u64), u32>,
    blocks: u32,
}

fn entry(((bytes, address), block): (&(u64, u64), &u32)) -> Entry {
    Entry {
        address: *address,
        bytes: *bytes,
        block: *block,
    }
}

impl Pair {
    fn fits(&self, (bytes, address): (u64, u64), gone_bytes: u64) -> bool {
        let rest = self.index.total_bytes() - gone_bytes;
        rest.checked_add(bytes).is_some() && !self.model.contains_key(&(bytes, address))
    }

    fn insert(&mut self, key: (u64, u64)) {
        if self.fits(key, 0) {
            self.blocks += 1;
            self.index.insert(key.0, key.1, self.blocks);
            self.model.insert(key, self.blocks);
        }
    }

    fn pick(&self, number: u64) -> Option<Entry> {
        let at = number.checked_rem(self.model.len() as u64)?;
        self.model.iter().nth(at as usize).map(entry)
    }

    fn remove(&mut self, number: u64) {
        if let Some(gone) = self.pick(number) {
            assert!(self.index.remove(gone.bytes, gone.address));
            assert!(!self.index.remove(gone.bytes, gone.address));
            self.model.remove(&(gone.bytes, gone.address));
        }
    }

    fn change(&mut self, number: u64, to: Option<Draw>) {
        let Some(old) = self.pick(number) else { return };
        let rest = |old: Entry| {
            let cut = old.bytes.min(256);
            (old.bytes - cut, old.address.saturating_add(cut))
        };
        let new = to.map_or_else(|| rest(old), Draw::block);
        if !self.fits(new, old.bytes) {
            return;
        }
        self.blocks += 1;
        let new = entry((&new, &self.blocks));
        assert!(self.index.change(old, new));
        self.model.remove(&(old.bytes, old.address));
        self.model.insert((new.bytes, new.address), new.block);
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Insert(draw) => self.insert(draw.block()),
            Step::Fill(draw, count) => {
                for at in 0..u64::from(count) {
                    let word = draw
                        .word
                        .wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    self.insert(Draw { word, ..draw }.block());
                }
            }
            Step::Remove(number) => self.remove(number),
            Step::Drain(number, count) => (0..count).for_each(|_| self.remove(number)),
            Step::Change(number, to) => self.change(number, to),
            Step::Clear => {
                self.index.clear();
                self.model.clear();
            }
        }
    }

    /// Compares every question about one place in the order.
    fn ask(&self, (bytes, address): (u64, u64)) {
        let at = (bytes, address);
        let first = |from| self.model.range(from..).next().map(entry);
        assert_eq!(self.index.first_at_least(bytes), first((bytes, 0)));
        assert_eq!(self.index.first_at_least_from(bytes, address), first(at));
        let mut after = self.model.range(at..).filter(|(key, _)| **key != at);
        assert_eq!(
            self.index.next_after(bytes, address),
            after.next().map(entry)
        );
        let before = self.model.range(..at).next_back().map(entry);
        assert_eq!(self.index.prev_before(bytes, address), before);
        let last = self.model.last_key_value().map_or(0, |(key, _)| key.0);
        assert_eq!(self.index.largest_bytes(), last);
        assert_eq!(self.index.largest(), first((last, 0)));
        assert_eq!(self.index.len(), self.model.len());
    }

    fn check(&self) {
        self.index.check();
        assert!(self.index.iter().eq(self.model.iter().map(entry)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn crowded_bins_agree_with_an_ordered_map(
        steps in (1u8..=12).prop_flat_map(|kinds| {
            prop::collection::vec((any_step(kinds), any_draw()), 1..150)
        })
    ) {
        let mut pair = Pair::default();
        for (at, (step, draw)) in steps.iter().enumerate() {
            pair.apply(step);
            pair.ask(draw.block());
            if let Some(near) = pair.pick(draw.word) {
                pair.ask((near.bytes, near.address));
                pair.ask((near.bytes + 1, near.address));
                pair.ask((near.bytes.saturating_sub(1), near.address.saturating_add(1)));
            }
            if at % 8 == 0 {
                pair.check();
            }
        }
        pair.check();
    }
}

#[test]
fn thousands_of_one_size_lie_by_address_and_leave_no_node_behind() {
    for base in [0, (1 << 63) - (1 << 21)] {
        let mut pair = Pair::default();
        let order = |at: u64| base + at * 7919 % 4096 * 1024;
        (0..4096).for_each(|at| pair.insert((512, order(at))));
        pair.check();
        assert!(pair.index.nodes() > 64, "two levels of nodes");
        for at in 0..4096 {
            assert!(pair.index.remove(512, order(at)));
            pair.model.remove(&(512, order(at)));
            pair.ask((512, order(at)));
        }
        pair.check();
        assert_eq!(pair.index.nodes(), 0);
    }
}

#[test]
fn addresses_that_begin_elsewhere_come_above_those_that_are_there() {
    let mut pair = Pair::default();
    // Each range is far from those before, whose node gets one above it.
    for range in 0..6 {
        (0..64).for_each(|at| pair.insert((512, (1 << (16 + 6 * range)) + at * 512)));
        pair.check();
        pair.ask((512, 1 << (16 + 6 * range)));
        pair.ask((512, (1 << (16 + 6 * range)) - 1));
    }
    for at in [0, 1 << 20, 1 << 33, 1 << 40, 1 << 62] {
        pair.ask((512, at));
    }
}

#[test]
fn a_finer_granule_and_wider_bits_keep_what_is_there() {
    let mut pair = Pair::default();
    (0..100).for_each(|at| pair.insert((4096 * (1 + at % 5), at << 20)));
    for (bytes, address) in [
        (512, 512),
        (1, 3),
        (1 << 40, 1 << 41),
        ((1 << 60) + 1, u64::MAX),
    ] {
        pair.insert((bytes, address));
        pair.insert((bytes, address - 1));
        pair.check();
        pair.ask((bytes, address));
        pair.ask((bytes - 1, address));
    }
}

#[test]
fn a_block_whose_bits_are_all_ones_is_like_others() {
    for (bytes, address) in [(1, u64::MAX >> 1), (1, u64::MAX), (u64::MAX >> 1, 1)] {
        let mut pair = Pair::default();
        pair.insert((bytes, address));
        pair.insert((bytes + 1, 0));
        pair.check();
        pair.ask((bytes, address));
        pair.remove(0);
        pair.check();
    }
}

#[test]
#[should_panic(expected = "the same block twice")]
fn the_same_block_twice_is_a_bug() {
    let mut index = BySize::new();
    (0..40).for_each(|at| index.insert(512, at * 512, 0));
    index.insert(512, 20 * 512, 0);
}

#[test]
fn a_block_that_is_not_there_changes_nothing() {
    let mut index = BySize::new();
    assert!(!index.remove(0, 0));
    for at in 0..40 {
        index.insert(512, at * 512, 0);
        assert!(!index.remove(512, at * 512 + 512));
        assert!(!index.remove(512, at * 512 + 1));
        assert!(!index.remove(1024, at * 512));
        index.check();
    }
    assert_eq!((index.len(), index.total_bytes()), (40, 40 * 512));
}
