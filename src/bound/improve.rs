//! An iterated improver for many buffers: squeaky wheel optimisation.
//!
//! Source: Joslin and Clements, "Squeaky wheel optimization", Journal of Artificial
//! Intelligence Research 10 (1999). Buffers are placed in an order; those that end above
//! the target are to blame and move to the front half of their way; the next round places
//! them in the new order. The target lies between the best height and the maximum load.
//!
//! Rounds alternate between first fit and best fit, and each run of rounds without gain
//! begins anew from another greedy order. Nothing is drawn at random.

use super::greedy::{Gap, Order, Placer};
use super::packing::{Buffer, Packing};

/// The name of what it finds.
const NAME: &str = "squeaky wheel";
/// Rounds without gain before another order is taken.
const PATIENCE: u64 = 12;
/// The orders it begins with.
const ORDERS: [(Order, Gap); 4] = [
    (Order::Size, Gap::First),
    (Order::Lifetime, Gap::Best),
    (Order::Classes, Gap::Best),
    (Order::Area, Gap::First),
];

/// Lowers `best` in at most `rounds` rounds; `stop` is asked now and then whether the
/// time is over.
pub fn improve(
    buffers: &[Buffer],
    best: &mut Packing,
    load_bytes: u64,
    rounds: u64,
    stop: &(dyn Fn() -> bool + Sync),
) {
    let mut placer = Placer::new(buffers);
    let mut starts = ORDERS.iter().cycle();
    let (mut order, mut gap, mut idle, mut local) = (Vec::new(), Gap::First, PATIENCE, u64::MAX);
    for _ in 0..rounds {
        if best.proven || stop() {
            return;
        }
        if idle >= PATIENCE {
            let (first, with) = starts.next().expect("a cycle has no end");
            (order, gap, idle, local) = (first.of(buffers), *with, 0, u64::MAX);
        }
        let Some(height_bytes) = placer.run(&order, gap, stop) else {
            return;
        };
        idle += 1;
        if height_bytes < local {
            (local, idle) = (height_bytes, 0);
        }
        if height_bytes < best.height_bytes {
            *best = Packing {
                offsets: placer.offsets().to_vec(),
                height_bytes,
                by: NAME,
                proven: height_bytes == load_bytes,
            };
        }
        let target_bytes = load_bytes + (best.height_bytes - load_bytes) / 2;
        promote(buffers, placer.offsets(), target_bytes, &mut order);
    }
}

/// Moves every buffer that ends above the target to half its place in the order.
fn promote(buffers: &[Buffer], offsets: &[u64], target_bytes: u64, order: &mut [u32]) {
    let mut ranked: Vec<(usize, u32)> = order
        .iter()
        .enumerate()
        .map(|(place, at)| {
            let number = *at as usize;
            let is_to_blame = offsets[number] + buffers[number].bytes > target_bytes;
            let rank = if is_to_blame { place } else { 2 * place + 1 };
            (rank, *at)
        })
        .collect();
    ranked.sort_unstable_by_key(|(rank, at)| (*rank, *at));
    for (to, (_, at)) in order.iter_mut().zip(ranked) {
        *to = at;
    }
}
