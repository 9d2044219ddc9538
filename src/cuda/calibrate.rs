//! Measures the cost table of a card: what a file of `experiments/devices/` holds.

mod bus;
mod mappings;
mod rules;
mod write;

use serde::Serialize;

use super::card::{Card, CardError, Identity, Span};
pub use super::timing::Spread;
use super::timing::timed;

use crate::units::{GIB, KIB, MIB};

/// Sizes at which cudaMalloc and cudaFree are measured.
const MALLOC_SIZES: [u64; 12] = [
    512,
    2 * KIB,
    8 * KIB,
    32 * KIB,
    128 * KIB,
    512 * KIB,
    2 * MIB,
    8 * MIB,
    32 * MIB,
    128 * MIB,
    512 * MIB,
    2 * GIB,
];
/// Sizes at which addresses and pages are measured.
const PAGE_SIZES: [u64; 4] = [2 * MIB, 16 * MIB, 128 * MIB, GIB];
/// Sizes at which copies are measured.
const COPY_SIZES: [u64; 8] = [
    KIB,
    8 * KIB,
    64 * KIB,
    512 * KIB,
    4 * MIB,
    32 * MIB,
    256 * MIB,
    2 * GIB,
];
/// Measurements of one size, after one that is not counted.
const TURNS: u64 = 41;
/// Of what takes longer.
const FEW_TURNS: u64 = 11;
/// From this size on there are fewer.
const LARGE_BYTES: u64 = 512 * MIB;

/// A measured cost at one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Bytes.
    pub bytes: u64,
    /// The host's time.
    pub spread: Spread,
}

/// Something that was found out besides times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What was tried.
    pub what: String,
    /// What came of it.
    pub found: String,
}

impl Fact {
    fn new(what: impl Into<String>, found: impl Into<String>) -> Self {
        Fact {
            what: what.into(),
            found: found.into(),
        }
    }
}

/// The costs of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Calibration {
    /// Which card.
    pub identity: Identity,
    /// Waiting for the device behind one short kernel.
    pub sync: Spread,
    /// cuMemAlloc.
    pub malloc: Vec<Point>,
    /// cuMemFree, nothing running.
    pub free: Vec<Point>,
    /// cuMemAddressReserve.
    pub reserve: Vec<Point>,
    /// cuMemCreate, cuMemMap and cuMemSetAccess together, one handle.
    pub back: Vec<Point>,
    /// cuMemUnmap and cuMemRelease together.
    pub unback: Vec<Point>,
    /// A copy inside the device, waited for.
    pub copy: Vec<Point>,
    /// cuMemMap of a handle that is mapped elsewhere too.
    pub map: Vec<Point>,
    /// cuMemSetAccess of such a mapping.
    pub access: Vec<Point>,
    /// cuMemUnmap of such a mapping.
    pub unmap: Vec<Point>,
    /// A copy between the card and pinned memory of the host: half of one there and back.
    pub host_copy: Vec<Point>,
    /// Bytes a second that the largest copy moves.
    pub copy_bytes_per_s: u64,
    /// Page size, sharing of pages, reuse rules.
    pub facts: Vec<Fact>,
}

/// Measures a card for a device file called `name`, with buffers of at most `most_bytes`.
///
/// # Errors
/// What the card says.
pub fn calibrate(
    card: &mut dyn Card,
    name: &str,
    most_bytes: u64,
) -> Result<Calibration, CardError> {
    let identity = Identity {
        name: name.to_owned(),
        ..card.identity()
    };
    let mut facts = rules::facts(card, &identity)?;
    let sizes = |sizes: &[u64]| -> Vec<u64> {
        let fit = sizes.iter().copied().filter(|bytes| *bytes <= most_bytes);
        fit.collect()
    };
    let (malloc, free) = malloc_and_free(card, &sizes(&MALLOC_SIZES))?;
    let (reserve, back, unback) = pages(card, &sizes(&PAGE_SIZES))?;
    let copy = copies(card, &sizes(&COPY_SIZES))?;
    let single = mappings::mappings(card, &sizes(&PAGE_SIZES))?;
    facts.push(mappings::many(card, identity.page_bytes)?);
    let (host_copy, ways) = bus::bus(card, &sizes(&COPY_SIZES))?;
    facts.extend(ways);
    card.clear();
    let largest = copy.last().copied();
    Ok(Calibration {
        identity,
        sync: waits(card)?,
        malloc,
        free,
        reserve,
        back,
        unback,
        copy,
        map: single.map,
        access: single.access,
        unmap: single.unmap,
        host_copy,
        copy_bytes_per_s: largest.map_or(0, bytes_per_s),
        facts,
    })
}

impl Calibration {
    /// The measured tables, by the names that a device file has for them.
    #[must_use]
    pub fn tables(&self) -> [(&'static str, &[Point]); 10] {
        [
            ("malloc", &self.malloc),
            ("free", &self.free),
            ("reserve", &self.reserve),
            ("back", &self.back),
            ("unback", &self.unback),
            ("copy", &self.copy),
            ("map", &self.map),
            ("access", &self.access),
            ("unmap", &self.unmap),
            ("host_copy", &self.host_copy),
        ]
    }
}

/// Bytes a second that copies at the median move.
fn bytes_per_s(point: Point) -> u64 {
    let each_ns = u128::from(point.spread.median_ns.max(1));
    (u128::from(point.bytes) * 1_000_000_000 / each_ns) as u64
}

fn turns(bytes: u64) -> u64 {
    if bytes < LARGE_BYTES {
        TURNS
    } else {
        FEW_TURNS
    }
}

/// Times of several calls at one size; the first turn is not counted.
struct Times<const CALLS: usize>([Vec<u64>; CALLS]);

impl<const CALLS: usize> Times<CALLS> {
    /// Lets `turn` make its calls as often as the size asks.
    fn measure(
        bytes: u64,
        mut turn: impl FnMut() -> Result<[u64; CALLS], CardError>,
    ) -> Result<[Point; CALLS], CardError> {
        let mut times = Times::<CALLS>([const { Vec::new() }; CALLS]);
        turn()?;
        for _ in 0..turns(bytes) {
            for (times_ns, time_ns) in times.0.iter_mut().zip(turn()?) {
                times_ns.push(time_ns);
            }
        }
        Ok(times.0.map(|times_ns| Point {
            bytes,
            spread: Spread::of(times_ns),
        }))
    }
}

fn malloc_and_free(
    card: &mut dyn Card,
    sizes: &[u64],
) -> Result<(Vec<Point>, Vec<Point>), CardError> {
    let (mut malloc, mut free) = (Vec::new(), Vec::new());
    for bytes in sizes {
        let [one, other] = Times::measure(*bytes, || {
            let (map_ns, base) = timed(|| card.map(*bytes))?;
            let (unmap_ns, ()) = timed(|| card.unmap(base))?;
            Ok([map_ns, unmap_ns])
        })?;
        malloc.push(one);
        free.push(other);
    }
    Ok((malloc, free))
}

type Pages = (Vec<Point>, Vec<Point>, Vec<Point>);

fn pages(card: &mut dyn Card, sizes: &[u64]) -> Result<Pages, CardError> {
    let (mut reserve, mut back, mut unback) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in sizes {
        let [first, second, third] = Times::measure(*bytes, || {
            let (reserve_ns, base) = timed(|| card.reserve(*bytes))?;
            let (back_ns, ()) = timed(|| card.back(base, *bytes, *bytes))?;
            let (unback_ns, ()) = timed(|| card.unback(base, *bytes))?;
            card.unreserve(base)?;
            Ok([reserve_ns, back_ns, unback_ns])
        })?;
        reserve.push(first);
        back.push(second);
        unback.push(third);
    }
    Ok((reserve, back, unback))
}

fn copies(card: &mut dyn Card, sizes: &[u64]) -> Result<Vec<Point>, CardError> {
    let mut copy = Vec::new();
    for bytes in sizes {
        let (from, to) = (card.map(*bytes)?, card.map(*bytes)?);
        let [point] = Times::measure(*bytes, || {
            let copied = || card.copy(0, to, from, *bytes).and_then(|()| card.sync());
            Ok([timed(copied)?.0])
        })?;
        copy.push(point);
        card.unmap(from)?;
        card.unmap(to)?;
    }
    Ok(copy)
}

/// The host waits for a device that runs one short kernel.
fn waits(card: &mut dyn Card) -> Result<Spread, CardError> {
    let base = card.map(MIB)?;
    let span = Span {
        base,
        from: 0,
        to: MIB,
        seed: 0,
    };
    let [point] = Times::measure(MIB, || {
        card.fill(0, span)?;
        Ok([timed(|| card.sync())?.0])
    })?;
    card.unmap(base)?;
    Ok(point.spread)
}
