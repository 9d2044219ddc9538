//! A small model of the policy that an adversary plays against: one heap without an end,
//! holes joined at once, requests cut from the low end of the hole that the rule chooses.

use std::collections::{BTreeMap, BTreeSet};

use super::Against;

/// The heap, in units.
#[derive(Debug)]
pub struct Heap {
    rule: Against,
    by_address: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    /// Above it nothing is taken.
    frontier: u64,
    high_water: u64,
}

impl Heap {
    /// An empty heap.
    pub fn new(rule: Against) -> Self {
        Heap {
            rule,
            by_address: BTreeMap::new(),
            by_size: BTreeSet::new(),
            frontier: 0,
            high_water: 0,
        }
    }

    /// How far the heap ever reached: what a policy that meets this trace needs.
    pub fn high_water(&self) -> u64 {
        self.high_water
    }

    /// Places `units` and answers where they begin.
    pub fn place(&mut self, units: u64) -> u64 {
        let Some((at, hole)) = self.choose(units) else {
            let at = self.frontier;
            self.frontier += units;
            self.high_water = self.high_water.max(self.frontier);
            return at;
        };
        self.remove(at, hole);
        if hole > units {
            self.insert(at + units, hole - units);
        }
        at
    }

    /// Gives `units` at `at` back, joined with free neighbours.
    pub fn release(&mut self, mut at: u64, mut units: u64) {
        if let Some((below, hole)) = self.by_address.range(..at).next_back() {
            let (below, hole) = (*below, *hole);
            if below + hole == at {
                self.remove(below, hole);
                (at, units) = (below, hole + units);
            }
        }
        if let Some(above) = self.by_address.get(&(at + units)).copied() {
            self.remove(at + units, above);
            units += above;
        }
        if at + units == self.frontier {
            self.frontier = at;
        } else {
            self.insert(at, units);
        }
    }

    /// The hole that the rule takes: its address and its units.
    fn choose(&self, units: u64) -> Option<(u64, u64)> {
        let (largest, _) = self.by_size.last()?;
        if *largest < units {
            return None;
        }
        match self.rule {
            Against::BestFit => {
                let (hole, at) = self.by_size.range((units, 0)..).next()?;
                Some((*at, *hole))
            }
            Against::FirstFit => {
                let fits = |(_, hole): &(&u64, &u64)| **hole >= units;
                let (at, hole) = self.by_address.iter().find(fits)?;
                Some((*at, *hole))
            }
        }
    }

    fn insert(&mut self, at: u64, units: u64) {
        self.by_address.insert(at, units);
        self.by_size.insert((units, at));
    }

    fn remove(&mut self, at: u64, units: u64) {
        self.by_address.remove(&at);
        self.by_size.remove(&(units, at));
    }
}
