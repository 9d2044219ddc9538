//! Random programs against ordered maps of the standard library, and the shapes that break trees.

mod granules;
mod programs;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{ByAddress, BySize, Entry};
use programs::{Ground, Step, any_address, any_bytes, any_ground, any_step};

/// Both indexes beside one obvious model of each.
#[derive(Default)]
struct Pair {
    by_size: BySize,
    by_address: ByAddress,
    sizes: BTreeSet<(u64, u64)>,
    holes: BTreeMap<u64, u64>,
}

/// The handle is a function of the address and the bytes that an entry was inserted with.
fn entry_of_size(&(bytes, address): &(u64, u64)) -> Entry {
    let block = (address ^ bytes) as u32;
    Entry {
        address,
        bytes,
        block,
    }
}

fn entry_of_hole((&address, &bytes): (&u64, &u64)) -> (u64, u64) {
    (address, bytes)
}

fn place(entry: Entry) -> (u64, u64) {
    (entry.address, entry.bytes)
}

impl Pair {
    fn insert(&mut self, bytes: u64, address: u64) {
        let fits = self.by_size.total_bytes().checked_add(bytes).is_some();
        if self.holes.contains_key(&address) || !fits {
            return;
        }
        let block = (address ^ bytes) as u32;
        self.by_size.insert(bytes, address, block);
        self.by_address.insert(address, bytes, block);
        self.sizes.insert((bytes, address));
        self.holes.insert(address, bytes);
    }

    fn remove(&mut self, address: u64, bytes: u64) {
        let there = self.holes.get(&address) == Some(&bytes);
        assert_eq!(self.by_size.remove(bytes, address), there);
        assert_eq!(self.sizes.remove(&(bytes, address)), there);
        if there || !self.holes.contains_key(&address) {
            let removed = self.by_address.remove(address).map(place);
            assert_eq!(removed, self.holes.remove(&address).map(|b| (address, b)));
        }
    }

    fn rekey(&mut self, old: u64, new: u64, bytes: u64) {
        let taken = new != old && self.holes.contains_key(&new);
        let Some(&old_bytes) = self.holes.get(&old).filter(|_| !taken) else {
            return;
        };
        let rest = self.by_size.total_bytes() - old_bytes;
        if rest.checked_add(bytes).is_none() {
            return;
        }
        let moved = match new == old {
            true => self.by_address.set_bytes(old, bytes),
            false => self.by_address.rekey(old, entry_of_size(&(bytes, new))),
        };
        assert!(moved && self.by_size.remove(old_bytes, old));
        self.by_size.insert(bytes, new, (new ^ bytes) as u32);
        self.sizes.remove(&(old_bytes, old));
        self.sizes.insert((bytes, new));
        self.holes.remove(&old);
        self.holes.insert(new, bytes);
    }

    /// The entry with this number, counted round.
    fn pick(&self, number: usize) -> Option<(u64, u64)> {
        let at = number.checked_rem(self.holes.len())?;
        self.holes.iter().nth(at).map(entry_of_hole)
    }

    fn apply(&mut self, step: &Step, ground: Ground) {
        match *step {
            Step::Insert(bytes, address) => {
                self.insert(ground.bytes(bytes), ground.address(address));
            }
            Step::RemoveAny(bytes, address) => {
                self.remove(ground.address(address), ground.bytes(bytes));
            }
            Step::Remove(number) => {
                if let Some((address, bytes)) = self.pick(number) {
                    self.remove(address, bytes);
                }
            }
            Step::Resize(number, bytes) => {
                if let Some((address, _)) = self.pick(number) {
                    self.rekey(address, address, ground.bytes(bytes));
                }
            }
            Step::Rekey(number, address, bytes) => {
                if let Some((old, _)) = self.pick(number) {
                    // Mostly next to where it was, as a hole shrinks or grows at its lower end.
                    let by = ground.granule.max(16);
                    let near = old.saturating_add(address % 3 * by).saturating_sub(by);
                    let is_near = bytes % 8 == 0;
                    let new = if is_near {
                        near
                    } else {
                        ground.address(address)
                    };
                    self.rekey(old, new, ground.bytes(bytes));
                }
            }
            Step::Run(bytes, address, count, up) => {
                let start = address % 24_000;
                for step in 0..count {
                    let step = if up { step } else { count - 1 - step };
                    self.insert(ground.bytes(bytes), ground.address(start + step * 16));
                }
            }
            Step::Clear(number, count) => {
                for _ in 0..count {
                    let Some((address, bytes)) = self.pick(number) else {
                        break;
                    };
                    self.remove(address, bytes);
                }
            }
        }
    }

    fn check(&self) {
        self.by_size.check();
        self.by_address.check();
        let expected: Vec<Entry> = self.sizes.iter().map(entry_of_size).collect();
        assert_eq!(self.by_size.iter().collect::<Vec<_>>(), expected);
        let holes = self.holes.iter().map(entry_of_hole);
        assert!(self.by_address.iter().map(place).eq(holes));
        assert_eq!(self.by_size.len(), self.sizes.len());
        assert_eq!(self.by_address.len(), self.holes.len());
        assert_eq!(self.by_size.is_empty(), self.by_address.is_empty());
        let total_bytes = self.holes.values().sum::<u64>();
        assert_eq!(self.by_size.total_bytes(), total_bytes);
        let worst = self.sizes.last().map(|last| {
            let mut equal = self.sizes.range((last.0, 0)..);
            entry_of_size(equal.next().expect("the last is one of them"))
        });
        assert_eq!(self.by_size.largest(), worst);
        assert_eq!(self.by_address.largest().map(place), worst.map(place));
    }

    /// Compares every query at one point.
    fn ask(&self, bytes: u64, address: u64) {
        let by_size = &self.by_size;
        let first = |from| self.sizes.range(from..).next().map(entry_of_size);
        assert_eq!(by_size.first_at_least(bytes), first((bytes, 0)));
        let at = (bytes, address);
        assert_eq!(by_size.first_at_least_from(bytes, address), first(at));
        let mut after = self.sizes.range(at..).filter(|key| **key != at);
        let after = after.next().map(entry_of_size);
        assert_eq!(by_size.next_after(bytes, address), after);
        let before = self.sizes.range(..at).next_back().map(entry_of_size);
        assert_eq!(by_size.prev_before(bytes, address), before);

        let by_address = &self.by_address;
        let mut fits = self.holes.iter().filter(|(_, b)| **b >= bytes);
        let found = by_address.first_fit(bytes).map(place);
        assert_eq!(found, fits.next().map(entry_of_hole));
        let mut fits = self.holes.range(address..).filter(|(_, b)| **b >= bytes);
        let found = by_address.first_fit_from(bytes, address).map(place);
        assert_eq!(found, fits.next().map(entry_of_hole));
        let floor = self.holes.range(..=address).next_back().map(entry_of_hole);
        assert_eq!(by_address.floor(address).map(place), floor);
        let contains = floor.filter(|(start, b)| address - start < *b);
        let after = self.holes.range(address..).map(entry_of_hole);
        let after = || after.clone().find(|(start, _)| *start > address);
        let found = by_address.containing_or_after(address).map(place);
        assert_eq!(found, contains.or_else(after));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree_with_ordered_maps(
        ground in any_ground(),
        steps in prop::collection::vec((any_step(), any_bytes(), any_address()), 1..250)
    ) {
        let mut pair = Pair::default();
        for (step, bytes, address) in &steps {
            pair.apply(step, ground);
            pair.ask(*bytes, *address);
            pair.ask(ground.bytes(*bytes), ground.address(*address));
            if let Some((address, bytes)) = pair.pick(*address as usize) {
                pair.ask(bytes, address);
                pair.ask(bytes.saturating_add(1), address.saturating_add(1));
            }
            pair.check();
        }
    }
}

/// Asks at every entry and on both sides of it.
fn ask_everywhere(pair: &Pair) {
    for (&address, &bytes) in &pair.holes {
        pair.ask(bytes, address);
        pair.ask(bytes.saturating_add(1), address.saturating_add(1));
        pair.ask(bytes.saturating_sub(1), address.saturating_sub(1));
    }
    pair.check();
}

#[test]
fn empty_indexes_answer_nothing() {
    let pair = Pair::default();
    pair.ask(0, 0);
    pair.ask(u64::MAX, u64::MAX);
    pair.check();
    assert_eq!(pair.by_size.nodes() + pair.by_address.nodes(), 0);
}

#[test]
fn the_ends_of_the_number_line_are_keys_like_others() {
    let mut pair = Pair::default();
    for address in [0, 1, u64::MAX - 1, u64::MAX] {
        pair.insert(0, address);
    }
    pair.insert(u64::MAX, u64::MAX / 2);
    ask_everywhere(&pair);
    assert_eq!(pair.by_size.total_bytes(), u64::MAX);
    pair.remove(u64::MAX / 2, u64::MAX);
    pair.remove(u64::MAX, 0);
    pair.insert(u64::MAX, u64::MAX);
    ask_everywhere(&pair);
    assert_eq!(
        pair.by_size.first_at_least_from(u64::MAX, u64::MAX),
        pair.by_size.largest()
    );
    for fill in 0..200 {
        pair.insert(0, u64::MAX - 1 - 2 * fill);
    }
    ask_everywhere(&pair);
}

#[test]
fn many_small_then_one_large_is_found_at_once() {
    let mut pair = Pair::default();
    for page in 0..5000 {
        pair.insert(512, page * 1024);
    }
    pair.insert(1 << 30, 5000 * 1024);
    pair.check();
    pair.ask(513, 0);
    pair.ask(513, 2500 * 1024);
    pair.ask(1 << 30, 5000 * 1024 + 1);
    let found = pair.by_address.first_fit(513).map(place);
    assert_eq!(found, Some((5000 * 1024, 1 << 30)));
}

#[test]
fn ascending_and_descending_orders_fill_and_drain() {
    for (fill_up, drain_up) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = Pair::default();
        let order = |up: bool| (0..4000u64).map(move |at| if up { at } else { 3999 - at });
        for at in order(fill_up) {
            pair.insert(at % 7 * 512, at * 4096);
        }
        ask_everywhere(&pair);
        for at in order(drain_up) {
            pair.remove(at * 4096, at % 7 * 512);
            if at % 97 == 0 {
                pair.ask(at % 5 * 512, at * 4096);
                pair.check();
            }
        }
        assert_eq!(pair.by_size.nodes() + pair.by_address.nodes(), 0);
    }
}

#[test]
fn sparse_nodes_are_joined_and_used_again() {
    let mut pair = Pair::default();
    for round in 0..20u64 {
        for at in 0..6000 {
            pair.insert(512, (at * 4 + round % 4) * 512);
        }
        let kept = 6000 / 100;
        let holes: Vec<_> = pair.holes.iter().map(entry_of_hole).collect();
        for (at, (address, bytes)) in holes.into_iter().enumerate() {
            if at % 100 != 0 {
                pair.remove(address, bytes);
            }
        }
        pair.check();
        // Of two neighbours both may stay half empty, or one emptier and the other fuller; not worse.
        let bound = pair.holes.len() / 2 + 4;
        assert!(pair.holes.len() >= kept);
        assert!(
            pair.by_address.nodes() <= bound,
            "{} nodes",
            pair.by_address.nodes()
        );
        assert!(
            pair.by_size.nodes() <= bound,
            "{} nodes",
            pair.by_size.nodes()
        );
    }
}

#[test]
fn a_block_may_outgrow_its_separator() {
    let mut pair = Pair::default();
    for page in 0..500 {
        pair.insert(16, page * 64);
    }
    // Every other block goes, so that separators name blocks that are no longer there; then the
    // rest moves over them, up and down.
    for page in (1..500).step_by(2) {
        pair.remove(page * 64, 16);
    }
    for by in [100, 3] {
        for page in (0..250).rev().map(|pair| pair * 2) {
            let old = pair.by_address.floor(page * 64 + 127).map(place);
            let (old, bytes) = old.expect("a block in each pair of pages");
            pair.rekey(old, page * 64 + by, bytes + 1);
            pair.check();
        }
        ask_everywhere(&pair);
    }
}

#[test]
fn cleared_indexes_start_again() {
    let mut pair = Pair::default();
    for page in 0..3000 {
        pair.insert(page % 9, page * 64);
    }
    pair.by_size.clear();
    pair.by_address.clear();
    pair.sizes.clear();
    pair.holes.clear();
    pair.check();
    pair.insert(512, 0);
    ask_everywhere(&pair);
}

#[test]
#[should_panic(expected = "the same block twice")]
fn the_same_address_twice_is_a_bug() {
    let mut index = ByAddress::new();
    index.insert(64, 1, 0);
    index.insert(64, 2, 1);
}
