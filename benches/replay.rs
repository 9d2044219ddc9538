//! Replay with the summary observer: what an event costs under each policy.
//!
//! `bump` is the floor: the same loop with next to nothing to decide. `ordered-set` is
//! best fit over an ordered set of the standard library, all else equal. After the
//! benchmarks a table gives each policy's best time per event, its ratio to bump, and how
//! the cost grows from the smallest to the largest number of live blocks.
//!
//! `churn`: a number of live blocks of all magnitudes, of which one at random is replaced
//! at a time. `training`: blocks that live through an iteration, come in order and go in
//! reverse, between scratch blocks that go at once.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use vramlab::observe::summary::Summary;
use vramlab::policy::fit::{Fit, Rule, Spec};
use vramlab::policy::holes::{Holes, holds};
use vramlab::policy::index::Entry;
use vramlab::policy::{Policy, Registry};
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;
use vramlab::trace::{Event, Slot};

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

const SET: &str = "ordered-set";

const POLICIES: [&str; 7] = [
    "bump",
    "first-fit",
    "next-fit",
    "best-fit",
    "worst-fit",
    "size-class",
    SET,
];

fn policy(name: &str) -> Box<dyn Policy> {
    if name == SET {
        return Box::new(Fit::<SmallestOfSet>::new(Spec::default()));
    }
    let registry = Registry::default();
    let chosen = registry.find(name).expect("a preset");
    registry.build(&chosen).expect("a preset builds")
}

/// Events that fill the Space once, and events that can be fed again and again after.
struct Load {
    fill: Vec<Event>,
    turn: Vec<Event>,
    capacity_bytes: u64,
}

fn alloc(slot: Slot, bytes: u64) -> Event {
    Event::Alloc {
        slot,
        bytes,
        align_log2: 0,
        stream: 0,
        pool: 0,
        tag: 0,
    }
}

fn free(slot: Slot) -> Event {
    Event::Free {
        slot,
        stream: 0,
        deferred: false,
    }
}

/// From 512 bytes to 16 MiB, each magnitude as often as the others.
fn draw_bytes(rng: &mut ChaCha8Rng) -> u64 {
    let word = rng.next_u64();
    let magnitude = 9 + word % 15;
    (1 << magnitude) + ((word >> 8) & ((1 << magnitude) - 1))
}

/// A number below `limit`.
fn draw_below(rng: &mut ChaCha8Rng, limit: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(limit)) >> 32) as u32
}

fn churn(live: u32, pairs: usize) -> Load {
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(live));
    let sizes: Vec<u64> = (0..live).map(|_| draw_bytes(&mut rng)).collect();
    let fill = (0..live).map(|slot| alloc(slot, sizes[slot as usize]));
    let mut turn = Vec::with_capacity(2 * pairs);
    for _ in 0..pairs {
        let slot = draw_below(&mut rng, live);
        turn.extend([free(slot), alloc(slot, draw_bytes(&mut rng))]);
    }
    Load {
        fill: fill.collect(),
        turn,
        // Wide enough for worst fit and for classes.
        capacity_bytes: sizes.iter().sum::<u64>() * 16,
    }
}

fn training(layers: u32) -> Load {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let sizes: Vec<u64> = (0..layers).map(|_| draw_bytes(&mut rng)).collect();
    let kept = |layer: u32| 3 * layer + 1;
    let mut turn = Vec::new();
    let scratch = |turn: &mut Vec<Event>, layer: u32, slot: Slot| {
        let bytes = sizes[((layer + slot) % layers) as usize];
        turn.extend([alloc(slot, bytes), free(slot)]);
    };
    for layer in 0..layers {
        scratch(&mut turn, layer, 3 * layer + 2);
        turn.push(alloc(kept(layer), sizes[layer as usize]));
    }
    for layer in (0..layers).rev() {
        scratch(&mut turn, layer, 3 * layer + 3);
        turn.push(free(kept(layer)));
    }
    Load {
        fill: vec![alloc(0, 1 << 30)],
        turn,
        capacity_bytes: sizes.iter().sum::<u64>() * 16 + (2 << 30),
    }
}

/// Events that are timed together: few enough to run in one go on a busy machine.
const SLICE: usize = 1_000;

/// Feeds all events of a turn, and keeps the best time of each slice.
fn turn(
    replay: &mut Replay,
    events: &[Event],
    summary: &mut Summary,
    best_ns: &mut [u64],
) -> Duration {
    let mut spent = Duration::ZERO;
    for (slice, best_ns) in events.chunks(SLICE).zip(best_ns) {
        let start = Instant::now();
        replay.feed(black_box(slice), &[], summary);
        let slice = start.elapsed();
        *best_ns = (*best_ns).min(slice.as_nanos() as u64);
        spent += slice;
    }
    spent
}

/// Best time per event of each policy, in picoseconds, by load.
type Table = Vec<(String, Vec<(&'static str, u64)>)>;

fn bench(criterion: &mut Criterion, table: &mut Table, label: &str, load: &Load) {
    let mut group = criterion.benchmark_group("replay");
    let mut row = Vec::new();
    for name in POLICIES {
        // Bump serves from fresh addresses as long as something lives.
        let capacity_bytes = if name == "bump" {
            1 << 60
        } else {
            load.capacity_bytes
        };
        let config = SpaceConfig::bare(capacity_bytes);
        let mut replay = Replay::new(policy(name), config).expect("the capacity is there");
        let mut summary = Summary::default();
        replay.feed(&load.fill, &[], &mut summary);
        let mut best_ns = vec![u64::MAX; load.turn.len().div_ceil(SLICE)];
        group.bench_function(BenchmarkId::new(name, label), |bencher| {
            bencher.iter_custom(|turns| {
                let turn = |_| turn(&mut replay, &load.turn, &mut summary, &mut best_ns);
                (0..turns).map(turn).sum()
            });
        });
        assert_eq!(replay.totals().failed, 0, "{name} fails in {label}");
        let best_ns: u64 = best_ns.iter().sum();
        row.push((name, best_ns * 1000 / load.turn.len() as u64));
    }
    table.push((label.to_owned(), row));
}

fn print(table: &Table) {
    println!("\nbest time per event, ns (ratio to bump)");
    for (label, row) in table {
        let floor_ps = row[0].1;
        print!("{label:>16}");
        for (name, ps) in row {
            let (ns, ratio) = (*ps as f64 / 1e3, *ps as f64 / floor_ps as f64);
            print!("  {name} {ns:.1} ({ratio:.1})");
        }
        println!();
    }
    let churns: Vec<_> = table
        .iter()
        .filter(|row| row.0.starts_with("churn"))
        .collect();
    let (Some(small), Some(large)) = (churns.first(), churns.last()) else {
        return;
    };
    print!("from {} to {}:", small.0, large.0);
    for (at, (name, ps)) in large.1.iter().enumerate() {
        print!("  {name} x{:.1}", *ps as f64 / small.1[at].1 as f64);
    }
    println!();
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let mut table = Table::new();
    for live in [1_000, 10_000, 100_000, 1_000_000] {
        let load = churn(live, 100_000.max(live as usize / 5));
        bench(&mut criterion, &mut table, &format!("churn {live}"), &load);
    }
    bench(&mut criterion, &mut table, "training", &training(2_000));
    criterion.final_summary();
    print(&table);
}
