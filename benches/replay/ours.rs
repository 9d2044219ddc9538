//! Our side: a replay with the summary observer, by a preset's name.

use std::collections::BTreeSet;

use vramlab::observe::summary::Summary;
use vramlab::policy::fit::{Fit, Rule, Spec};
use vramlab::policy::holes::{Holes, KnowsLargest, holds};
use vramlab::policy::index::Entry;
use vramlab::policy::{Policy, Registry};
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;
use vramlab::trace::Event;

use crate::loads::Load;

/// Best fit over an ordered set: by bytes, then by address.
#[derive(Default)]
struct OrderedSet(BTreeSet<(u64, u64, u32)>);

impl Holes for OrderedSet {
    fn add(&mut self, hole: Entry) {
        self.0.insert((hole.bytes, hole.address, hole.block));
    }

    fn remove(&mut self, hole: Entry) {
        let known = self.0.remove(&(hole.bytes, hole.address, hole.block));
        assert!(known, "every hole is in the set");
    }

    fn change(&mut self, old: Entry, new: Entry) {
        Holes::remove(self, old);
        self.add(new);
    }
}

impl KnowsLargest for OrderedSet {
    fn largest_bytes(&self) -> u64 {
        self.0.last().map_or(0, |hole| hole.0)
    }
}

/// The smallest hole of an ordered set.
#[derive(Default)]
struct SmallestOfSet;

impl Rule for SmallestOfSet {
    type Holes = OrderedSet;

    fn choose(&self, holes: &OrderedSet, bytes: u64, align: u64) -> Option<Entry> {
        let entry = |&(bytes, address, block): &(u64, u64, u32)| Entry {
            address,
            bytes,
            block,
        };
        let mut fits = holes.0.range((bytes, 0, 0)..).map(entry);
        fits.find(|hole| holds(*hole, bytes, align))
    }
}

/// Best fit on our Space over an ordered set of the standard library, all else equal.
pub const SET_ON_SPACE: &str = "set-on-space";

fn policy(name: &str) -> Box<dyn Policy> {
    if name == SET_ON_SPACE {
        return Box::new(Fit::<SmallestOfSet>::new(Spec::default()));
    }
    let registry = Registry::default();
    let chosen = registry.find(name).expect("a preset");
    registry.build(&chosen).expect("a preset builds")
}

/// A replay that goes on.
pub struct Ours {
    replay: Replay,
    summary: Summary,
}

impl Ours {
    /// At the first event of a load; `None` where the policy needs what the load has not.
    pub fn new(name: &str, load: &Load) -> Option<Self> {
        // Bump serves from fresh addresses as long as something lives.
        let capacity_bytes = match name {
            "bump" => 1 << 50,
            _ => load.capacity_bytes,
        };
        let config = SpaceConfig {
            streams: load.streams.len(),
            ..SpaceConfig::bare(capacity_bytes)
        };
        let mut replay = Replay::new(policy(name), config).ok()?;
        replay.name_streams(&load.streams);
        let summary = Summary::default();
        Some(Ours { replay, summary })
    }

    /// Carries events out.
    pub fn feed(&mut self, events: &[Event]) {
        self.replay.feed(events, &[], &mut self.summary);
    }

    /// Requests that were not served so far.
    pub fn failed(&self) -> u64 {
        self.replay.totals().failed
    }

    /// Free and used blocks now.
    pub fn blocks(&self) -> (u64, u64) {
        let counters = self.replay.space().counters();
        (counters.free_blocks, counters.used_blocks)
    }
}
