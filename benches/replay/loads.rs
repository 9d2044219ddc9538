//! What is replayed: events that fill the memory once, and a turn of events to feed again
//! and again.
//!
//! `ml`: a program that trains, with 2,400 blocks that stay, 20 holes between them, activations that come in order
//! and go in reverse, and scratch blocks in between. `churn N`: N live blocks of all
//! magnitudes, of which one at random is replaced at a time. `adv`: 100,000 holes that are
//! too small for anything asked for. The recordings are whole programs of PyTorch: each
//! turn replays one from its first event on.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use vramlab::trace::open::{OpenOptions, open};
use vramlab::trace::{Event, Slot};

use crate::common;

/// Events that fill the Space once, and events that can be fed again and again after.
pub struct Load {
    /// Its name in the table.
    pub label: String,
    /// Fed once, before time is taken.
    pub fill: Vec<Event>,
    /// One turn.
    pub turn: Vec<Event>,
    /// What every contestant may hand out; within 2^32 granules of 256 bytes, which is all
    /// that some of the peers can count.
    pub capacity_bytes: u64,
    /// The raw handles of the streams.
    pub streams: Vec<u64>,
    /// Each turn begins anew, with nothing allocated.
    pub anew: bool,
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

/// From 512 bytes to 1 MiB, each magnitude as often as the others.
fn draw_bytes(rng: &mut ChaCha8Rng) -> u64 {
    let word = rng.next_u64();
    let magnitude = 9 + word % 11;
    (1 << magnitude) + ((word >> 8) & ((1 << magnitude) - 1))
}

/// A number below `limit`.
fn draw_below(rng: &mut ChaCha8Rng, limit: u32) -> u32 {
    ((u64::from(rng.next_u32()) * u64::from(limit)) >> 32) as u32
}

fn synthetic(label: &str, fill: Vec<Event>, turn: Vec<Event>) -> Load {
    let sum_bytes: u64 = fill
        .iter()
        .take(2_000_000)
        .chain(&turn)
        .map(asked_bytes)
        .sum();
    Load {
        label: label.to_owned(),
        fill,
        turn,
        // Room for every policy, whatever it wastes.
        capacity_bytes: (sum_bytes * 4).next_power_of_two().min(1 << 39),
        streams: vec![0],
        anew: false,
    }
}

fn asked_bytes(event: &Event) -> u64 {
    match event {
        Event::Alloc { bytes, .. } => *bytes,
        _ => 0,
    }
}

/// `live` blocks of all magnitudes, of which one at random is replaced at a time.
pub fn churn(live: u32, pairs: usize) -> Load {
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(live));
    let fill = (0..live).map(|slot| alloc(slot, draw_bytes(&mut rng)));
    let mut fill: Vec<Event> = fill.collect();
    // Until the holes are as many as they will be.
    fill.extend(replace(&mut rng, 0, live, 2 * live as usize));
    let turn = replace(&mut rng, 0, live, pairs);
    synthetic(&format!("churn 1e{}", live.ilog10()), fill, turn)
}

/// Replaces blocks of the `live` slots from `first` on, one at random at a time.
fn replace(rng: &mut ChaCha8Rng, first: Slot, live: u32, pairs: usize) -> Vec<Event> {
    let mut turn = Vec::with_capacity(2 * pairs);
    for _ in 0..pairs {
        let slot = first + draw_below(rng, live);
        turn.extend([free(slot), alloc(slot, draw_bytes(rng))]);
    }
    turn
}

/// Holes too small for what is asked for, at the low end, and churn of 1,000 blocks behind.
pub fn adverse(holes: u32, pairs: usize) -> Load {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let live = 1_000;
    let pinned = 2 * holes;
    let mut fill: Vec<Event> = (0..pinned).map(|slot| alloc(slot, 256)).collect();
    fill.extend((0..live).map(|at| alloc(pinned + at, draw_bytes(&mut rng))));
    fill.extend((0..holes).map(|hole| free(2 * hole)));
    let turn = replace(&mut rng, pinned, live, pairs);
    synthetic("adv", fill, turn)
}

/// Blocks that stay, layers of which each keeps some blocks until its turn backwards, and
/// scratch that goes at once.
pub fn training() -> Load {
    let (stay, layers, kept) = (2_400, 100, 6);
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let fill = (0..stay).map(|slot| alloc(slot, draw_bytes(&mut rng)));
    let mut fill: Vec<Event> = fill.collect();
    fill.extend((0..stay / 120).map(|at| free(120 * at)));
    let sizes: Vec<u64> = (0..layers * kept).map(|_| draw_bytes(&mut rng)).collect();
    let scratch_slot = stay + layers * kept;
    let mut turn = Vec::new();
    let scratch = |turn: &mut Vec<Event>, at: u32| {
        for near in 0..3 {
            let bytes = sizes[((at * 7 + near) % (layers * kept)) as usize];
            turn.push(alloc(scratch_slot + near, bytes));
        }
        turn.extend((0..3).map(|near| free(scratch_slot + near)));
    };
    for at in 0..layers * kept {
        scratch(&mut turn, at);
        turn.push(alloc(stay + at, sizes[at as usize]));
    }
    for at in (0..layers * kept).rev() {
        scratch(&mut turn, at);
        turn.push(free(stay + at));
    }
    synthetic("ml", fill, turn)
}

/// A recording of the shared material, where it is there.
pub fn recorded(name: &str) -> Option<Load> {
    let path = common::shared(&format!("recordings/torch/{name}.pickle.gz"))?;
    let traces = open(&path, &OpenOptions::default()).expect("a good recording");
    let trace = traces.into_iter().next().expect("one device");
    Some(Load {
        label: name.to_owned(),
        fill: Vec::new(),
        turn: trace.events,
        // A card that none of the policies fills.
        capacity_bytes: 1 << 39,
        streams: trace.streams,
        anew: true,
    })
}
