//! (a) A loop that works on a buffer: mapped anew each time, taken once, or from a pool.

use serde::Serialize;

use crate::cuda::card::{Card, CardError, Span};
use crate::cuda::timing::timed;
use crate::units::{GIB, KIB, MIB, ppm};

/// Sizes of the buffer.
const SIZES: [u64; 8] = [
    KIB,
    8 * KIB,
    64 * KIB,
    512 * KIB,
    4 * MIB,
    32 * MIB,
    256 * MIB,
    GIB,
];
/// Bytes that all turns of one size work on, about; at least ten turns.
const WORK_BYTES: u64 = 4 * GIB;
const MOST_TURNS: u64 = 300;
const LEAST_TURNS: u64 = 10;
/// What the pool may hold.
const POOL_BYTES: u64 = 2 * GIB;

/// One way of allocating, at one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Allocating {
    /// `cudaMalloc each time`, `one allocation reused` or `pool`.
    pub way: &'static str,
    /// Bytes of the buffer.
    pub bytes: u64,
    /// Turns of the loop; each fills the buffer once and waits.
    pub turns: u64,
    /// Time in calls that allocate and free.
    pub allocating_ns: u64,
    /// All of the loop.
    pub total_ns: u64,
    /// Their share, in parts per million.
    pub share_ppm: u64,
}

/// Measures every way at every size up to `most_bytes`.
///
/// # Errors
/// What the card says.
pub fn allocating(card: &mut dyn Card, most_bytes: u64) -> Result<Vec<Allocating>, CardError> {
    let mut rows = Vec::new();
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= most_bytes) {
        let turns = (WORK_BYTES / bytes).clamp(LEAST_TURNS, MOST_TURNS);
        rows.push(each_time(card, bytes, turns)?);
        rows.push(reused(card, bytes, turns)?);
        rows.push(pooled(card, bytes, turns)?);
    }
    Ok(rows)
}

fn row(way: &'static str, bytes: u64, turns: u64, times: (u64, u64)) -> Allocating {
    let (allocating_ns, working_ns) = times;
    let total_ns = allocating_ns + working_ns;
    Allocating {
        way,
        bytes,
        turns,
        allocating_ns,
        total_ns,
        share_ppm: ppm(allocating_ns, total_ns),
    }
}

/// One turn's work: a kernel over the buffer, and a wait.
fn work(card: &mut dyn Card, base: u64, bytes: u64) -> Result<u64, CardError> {
    let span = Span {
        base,
        from: 0,
        to: bytes,
        seed: bytes,
    };
    let (time_ns, ()) = timed(|| card.fill(0, span).and_then(|()| card.sync_lane(0)))?;
    Ok(time_ns)
}

fn each_time(card: &mut dyn Card, bytes: u64, turns: u64) -> Result<Allocating, CardError> {
    let mut times = (0, 0);
    for _ in 0..turns {
        let (map_ns, base) = timed(|| card.map(bytes))?;
        times.1 += work(card, base, bytes)?;
        let (unmap_ns, ()) = timed(|| card.unmap(base))?;
        times.0 += map_ns + unmap_ns;
    }
    Ok(row("cudaMalloc each time", bytes, turns, times))
}

fn reused(card: &mut dyn Card, bytes: u64, turns: u64) -> Result<Allocating, CardError> {
    let (map_ns, base) = timed(|| card.map(bytes))?;
    let mut times = (map_ns, 0);
    for _ in 0..turns {
        times.1 += work(card, base, bytes)?;
    }
    let (unmap_ns, ()) = timed(|| card.unmap(base))?;
    times.0 += unmap_ns;
    Ok(row("one allocation reused", bytes, turns, times))
}

fn pooled(card: &mut dyn Card, bytes: u64, turns: u64) -> Result<Allocating, CardError> {
    card.open_pool(POOL_BYTES, u64::MAX)?;
    let mut times = (0, 0);
    for _ in 0..turns {
        let (take_ns, base) = timed(|| card.take(bytes, 0))?;
        times.1 += work(card, base, bytes)?;
        let (give_ns, ()) = timed(|| card.give(base, 0))?;
        times.0 += take_ns + give_ns;
    }
    card.clear();
    Ok(row("pool", bytes, turns, times))
}
