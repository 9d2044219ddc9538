//! Replay with the summary observer: what an event costs under each policy.
//!
//! `bump` is the floor: the same loop with next to nothing to decide. Bump's index does
//! not know its largest free block, so the Space keeps the sizes of free blocks in order
//! for it, here the size of one; `bump-known` is bump without that. `ordered-set` is best
//! fit over an ordered set of the standard library, all else equal. After the benchmarks
//! a table gives each policy's best time per event, its ratio to bump, and how the cost
//! grows from the smallest to the largest number of live blocks.
//!
//! `churn`: a number of live blocks of all magnitudes, of which one at random is replaced
//! at a time. `training`: blocks that live through an iteration, come in order and go in
//! reverse, between scratch blocks that go at once. The recordings are whole programs:
//! each turn replays one from its first event on.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, SamplingMode};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use vramlab::observe::summary::Summary;
use vramlab::policy::fit::{Fit, Rule, Spec};
use vramlab::policy::holes::{Holes, holds};
use vramlab::policy::index::Entry;
use vramlab::policy::{Policy, Registry};
use vramlab::replay::Replay;
use vramlab::space::{BlockId, OutOfMemory, Request, Space, SpaceConfig};
use vramlab::trace::open::{OpenOptions, open};
use vramlab::trace::{Event, Slot, StreamId};

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

/// Bump that tells its largest free block: all that it has free is one block.
struct BumpKnown(Box<dyn Policy>);

impl Policy for BumpKnown {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.0.start(space)
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        self.0.alloc(request, space)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        self.0.free(block, stream, pending, space);
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        self.0.servable(space, stream)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        Some(space.counters().free_bytes)
    }
}

const SET: &str = "ordered-set";
const KNOWN: &str = "bump-known";

const POLICIES: [&str; 12] = [
    "bump",
    KNOWN,
    "first-fit",
    "next-fit",
    "best-fit",
    "worst-fit",
    "tlsf",
    "buddy",
    "size-class",
    "pytorch",
    "pytorch-expandable",
    SET,
];

fn preset(name: &str) -> Box<dyn Policy> {
    let registry = Registry::default();
    let chosen = registry.find(name).expect("a preset");
    registry.build(&chosen).expect("a preset builds")
}

fn policy(name: &str) -> Box<dyn Policy> {
    match name {
        SET => Box::new(Fit::<SmallestOfSet>::new(Spec::default())),
        KNOWN => Box::new(BumpKnown(preset("bump"))),
        preset_name => preset(preset_name),
    }
}

/// Events that fill the Space once, and events that can be fed again and again after.
struct Load {
    label: String,
    fill: Vec<Event>,
    turn: Vec<Event>,
    capacity_bytes: u64,
    /// The raw handles of the streams.
    streams: Vec<u64>,
    /// Each turn begins anew, with an empty Space.
    anew: bool,
}

impl Load {
    /// A policy at the first event of a turn.
    fn begin(&self, name: &str, summary: &mut Summary) -> Replay {
        // Bump serves from fresh addresses as long as something lives.
        let capacity_bytes = if name.starts_with("bump") {
            1 << 60
        } else {
            self.capacity_bytes
        };
        let config = SpaceConfig::bare(capacity_bytes);
        let mut replay = Replay::new(policy(name), config).expect("the capacity is there");
        replay.name_streams(&self.streams);
        replay.feed(&self.fill, &[], summary);
        replay
    }
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
        label: format!("churn {live}"),
        fill: fill.collect(),
        turn,
        // Wide enough for worst fit and for classes.
        capacity_bytes: sizes.iter().sum::<u64>() * 16,
        streams: vec![0],
        anew: false,
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
        label: "training".to_owned(),
        fill: vec![alloc(0, 1 << 30)],
        turn,
        capacity_bytes: sizes.iter().sum::<u64>() * 16 + (2 << 30),
        streams: vec![0],
        anew: false,
    }
}

/// A recording of the shared material, where it is there.
fn recorded(name: &str) -> Option<Load> {
    let path = common::shared(&format!("recordings/torch/{name}.pickle.gz"))?;
    let traces = open(&path, &OpenOptions::default()).expect("a good recording");
    let trace = traces.into_iter().next().expect("one device");
    Some(Load {
        label: name.to_owned(),
        fill: Vec::new(),
        turn: trace.events,
        // A card that none of the policies fills.
        capacity_bytes: 1 << 40,
        streams: trace.streams,
        anew: true,
    })
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

/// Best time per event of each policy of [`POLICIES`], in picoseconds, by load; `None`
/// where the policy was filtered out.
type Table = Vec<(String, [Option<u64>; POLICIES.len()])>;

fn bench(criterion: &mut Criterion, table: &mut Table, load: &Load) {
    let mut group = criterion.benchmark_group("replay");
    group.sampling_mode(SamplingMode::Flat);
    let mut row = [None; POLICIES.len()];
    for (name, cell) in POLICIES.into_iter().zip(&mut row) {
        let mut summary = Summary::default();
        let mut replay = load.begin(name, &mut summary);
        let mut best_ns = vec![u64::MAX; load.turn.len().div_ceil(SLICE)];
        group.bench_function(BenchmarkId::new(name, &load.label), |bencher| {
            bencher.iter_custom(|turns| {
                let mut spent = Duration::ZERO;
                for _ in 0..turns {
                    if load.anew {
                        replay = load.begin(name, &mut summary);
                    }
                    spent += turn(&mut replay, &load.turn, &mut summary, &mut best_ns);
                }
                spent
            });
        });
        assert_eq!(replay.totals().failed, 0, "{name} fails in {}", load.label);
        let ran = !best_ns.contains(&u64::MAX);
        *cell = ran.then(|| best_ns.iter().sum::<u64>() * 1000 / load.turn.len() as u64);
    }
    table.push((load.label.clone(), row));
}

/// One line a policy, one column a load: ns an event (ratio to bump).
fn print(table: &Table) {
    println!("\nbest time per event, ns (ratio to bump)");
    print!("{:<18}", "");
    for (label, _) in table {
        print!("  {label:>16}");
    }
    println!("  growth by churn");
    let mut churns = table.iter().filter(|row| row.0.starts_with("churn"));
    let (small, large) = (churns.next(), churns.next_back());
    for (at, name) in POLICIES.iter().enumerate() {
        print!("{name:<18}");
        for (_, row) in table {
            let cell = row[at].map_or_else(String::new, |ps| {
                let ns = ps as f64 / 1e3;
                row[0].map_or_else(
                    || format!("{ns:.1}"),
                    |floor_ps| format!("{ns:.1} ({:.1})", ps as f64 / floor_ps as f64),
                )
            });
            print!("  {cell:>16}");
        }
        let growth = small
            .zip(large)
            .and_then(|(small, large)| Some(large.1[at]? as f64 / small.1[at]? as f64));
        println!(
            "  {}",
            growth.map_or_else(String::new, |by| format!("x {by:.1}"))
        );
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    let mut table = Table::new();
    // `cargo test` runs each bench once without optimisation: only the small loads then.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let lives = [1_000, 10_000, 100_000, 1_000_000];
    for live in lives
        .into_iter()
        .take(if is_bench { lives.len() } else { 1 })
    {
        let load = churn(live, 100_000);
        bench(&mut criterion, &mut table, &load);
    }
    bench(&mut criterion, &mut table, &training(2_000));
    for name in ["llama_generate", "gpt2_varlen"] {
        if let Some(load) = recorded(name) {
            bench(&mut criterion, &mut table, &load);
        }
    }
    criterion.final_summary();
    if is_bench {
        print(&table);
    }
}
