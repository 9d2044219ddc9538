//! Replay with the summary observer beside peers over the same events, in one run.
//!
//! Contestants take turns, so that what else the machine does hits all of them; of each
//! slice of a turn the best time counts. Not with criterion, which times one contestant
//! after another: on a shared machine the ratios would be those of the neighbours.
//!
//! `cargo bench --bench replay` prints ns an event and the ratios that are wanted;
//! `-- --all` takes every preset, `-- --load churn --policy best` what the words name,
//! `-- --seconds 20` more time a load, `-- --memory` the bytes a live block instead.

#[path = "../../tests/common/mod.rs"]
mod common;
mod loads;
mod memory;
mod ours;
mod peers;
mod table;

use std::hint::black_box;
use std::time::{Duration, Instant};

use loads::Load;
use offset_allocator::Allocator;
use ours::{Ours, SET_ON_SPACE};
use peers::{Loop, OrderedSet};
use range_alloc::RangeAllocator;
use table::Table;
use vramlab::policy::registry::PRESETS;
use vramlab::trace::Event;
use xalloc::SysTlsf;

/// Events that are timed together: few enough to run in one go on a busy machine.
const SLICE: usize = 500;

/// Who takes longer than this for the events that fill the memory, or for its first turn,
/// takes no part in a load: some allocators are linear in what is live.
const PATIENCE: Duration = Duration::from_secs(10);

const PEERS: [&str; 4] = [
    "ordered-set",
    "crate offset-allocator",
    "crate range-alloc",
    "crate xalloc",
];
const POLICIES: [&str; 14] = [
    "bump",
    "first-fit",
    "next-fit",
    "best-fit",
    "worst-fit",
    "tlsf",
    "buddy",
    "size-class",
    "offset-allocator",
    "pytorch",
    "pytorch-expandable",
    "xla-bfc",
    "rmm-pool",
    SET_ON_SPACE,
];

/// Makes a load; `None` where the material is absent.
type Maker = fn() -> Option<Load>;

/// One of those that take turns.
enum Contestant {
    Ours(Box<Ours>),
    Set(Box<Loop<OrderedSet>>),
    Offset(Box<Loop<Allocator<u32>>>),
    Range(Box<Loop<RangeAllocator<u64>>>),
    Tlsf(Box<Loop<SysTlsf<u32>>>),
}

impl Contestant {
    fn new(name: &str, load: &Load) -> Option<Self> {
        let bytes = load.capacity_bytes;
        let mut made = match name {
            "ordered-set" => Contestant::Set(Box::new(Loop::new(bytes))),
            "crate offset-allocator" => Contestant::Offset(Box::new(Loop::new(bytes))),
            "crate range-alloc" => Contestant::Range(Box::new(Loop::new(bytes))),
            "crate xalloc" => Contestant::Tlsf(Box::new(Loop::new(bytes))),
            policy => Contestant::Ours(Box::new(Ours::new(policy, load)?)),
        };
        let start = Instant::now();
        for slice in load.fill.chunks(SLICE) {
            made.feed(slice);
            if start.elapsed() > PATIENCE {
                return None;
            }
        }
        Some(made)
    }

    fn feed(&mut self, events: &[Event]) {
        match self {
            Contestant::Ours(replay) => replay.feed(events),
            Contestant::Set(peer) => peer.feed(events),
            Contestant::Offset(peer) => peer.feed(events),
            Contestant::Range(peer) => peer.feed(events),
            Contestant::Tlsf(peer) => peer.feed(events),
        }
    }
}

/// A contestant in a load, with the best time of each slice.
struct Lane {
    name: String,
    contestant: Contestant,
    best_ns: Vec<u64>,
    spent: Duration,
}

impl Lane {
    /// Takes a turn, or what of it patience allows.
    fn turn(&mut self, load: &Load) {
        let begin = Instant::now();
        if load.anew {
            self.contestant = Contestant::new(&self.name, load).expect("as before");
        }
        for (slice, best_ns) in load.turn.chunks(SLICE).zip(&mut self.best_ns) {
            let start = Instant::now();
            self.contestant.feed(black_box(slice));
            *best_ns = (*best_ns).min(start.elapsed().as_nanos() as u64);
            if begin.elapsed() > PATIENCE {
                break;
            }
        }
        self.spent += begin.elapsed();
    }

    /// Picoseconds an event, at best.
    fn event_ps(&self, load: &Load) -> u64 {
        self.best_ns.iter().sum::<u64>() * 1000 / load.turn.len() as u64
    }
}

/// Lets all take turns until the time is over, each at least once; those that are slow
/// take fewer turns.
fn race(load: &Load, names: &[String], seconds: f64, table: &mut Table) {
    let slices = load.turn.len().div_ceil(SLICE);
    let lane = |name: &String| {
        Some(Lane {
            name: name.clone(),
            contestant: Contestant::new(name, load)?,
            best_ns: vec![u64::MAX; slices],
            spent: Duration::ZERO,
        })
    };
    let mut lanes: Vec<Lane> = names.iter().filter_map(lane).collect();
    lanes.retain_mut(|lane| {
        lane.turn(load);
        lane.spent <= PATIENCE
    });
    let takes_part = |name: &String| lanes.iter().any(|lane| lane.name == *name);
    for name in names.iter().filter(|name| !takes_part(name)) {
        eprintln!("{:<16} {name:<22} takes no part", load.label);
    }
    let share = Duration::from_secs_f64(seconds / lanes.len() as f64);
    let mut busy = true;
    while busy {
        busy = false;
        for lane in lanes.iter_mut().filter(|lane| lane.spent < share) {
            lane.turn(load);
            busy = true;
        }
    }
    for lane in &lanes {
        let mut note = String::new();
        if let Contestant::Ours(ours) = &lane.contestant {
            if ours.failed() > 0 {
                continue;
            }
            let (free, used) = ours.blocks();
            note = format!("{used} live blocks, {free} free ones at the end");
        }
        eprintln!(
            "{:<16} {:<22} {:>8.1} ns  {note}",
            load.label,
            lane.name,
            lane.event_ps(load) as f64 / 1e3
        );
        table.put(&lane.name, &load.label, lane.event_ps(load));
    }
}

/// The value behind a flag of the command line.
fn option(flag: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != flag).nth(1)
}

fn names(is_all: bool) -> Vec<String> {
    let wanted = option("--policy").unwrap_or_default();
    let presets: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    // A plan is made from one whole trace, and paging needs a host.
    let ours = if is_all { presets } else { POLICIES.to_vec() };
    let all = PEERS.into_iter().chain(ours);
    let all = all.filter(|name| wanted.split(',').any(|word| name.contains(word)));
    all.map(str::to_owned).collect()
}

fn main() {
    let has = |flag: &str| std::env::args().any(|word| word == flag);
    if let Some(name) = option("--memory-of") {
        memory::measure_one(&name);
        return;
    }
    if has("--memory") {
        memory::measure();
        return;
    }
    // `cargo test` runs each bench once without optimisation: only a small load then.
    let is_bench = has("--bench");
    let seconds =
        option("--seconds").map_or(10.0, |text| text.parse().expect("a number of seconds"));
    let wanted = option("--load").unwrap_or_default();
    let names = names(has("--all"));
    let mut table = Table::default();
    let makers: [(&str, Maker); 8] = [
        ("ml", || Some(loads::training())),
        ("churn 1e3", || Some(loads::churn(1_000, 100_000))),
        ("churn 1e4", || Some(loads::churn(10_000, 100_000))),
        ("churn 1e5", || Some(loads::churn(100_000, 100_000))),
        ("churn 1e6", || Some(loads::churn(1_000_000, 100_000))),
        ("adv", || Some(loads::adverse(100_000, 5_000))),
        ("llama_generate", || loads::recorded("llama_generate")),
        ("gpt2_varlen", || loads::recorded("gpt2_varlen")),
    ];
    for (label, make) in makers.into_iter().take(if is_bench { 8 } else { 1 }) {
        if wanted.split(',').any(|word| label.contains(word))
            && let Some(load) = make()
        {
            race(
                &load,
                &names,
                if is_bench { seconds } else { 0.0 },
                &mut table,
            );
        }
    }
    table.print();
}
