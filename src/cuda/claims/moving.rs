//! (d) What moving a block costs, against the model that charges compaction.

use serde::Serialize;

use crate::cuda::card::{Card, CardError, Span};
use crate::cuda::moving::{Move, STAGING_BYTES, move_block};
use crate::cuda::timing::{Spread, timed};
use crate::space::Device;
use crate::units::{GIB, KIB, MIB};

const SIZES: [u64; 8] = [
    64 * KIB,
    MIB,
    4 * MIB,
    16 * MIB,
    64 * MIB,
    256 * MIB,
    512 * MIB,
    GIB,
];
const TURNS: usize = 9;

/// Moves of one size by one distance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moving {
    /// Bytes moved.
    pub bytes: u64,
    /// By how many bytes; less than `bytes` is a move over itself, through a buffer.
    pub distance_bytes: u64,
    /// What the host waited, median.
    pub measured_ns: u64,
    /// The tenth percentile.
    pub low_ns: u64,
    /// The ninetieth percentile.
    pub high_ns: u64,
    /// What the model charges.
    pub model_ns: u64,
    /// Wrong bytes after the last move: none.
    pub broken_bytes: u64,
}

/// Measures moves up to `most_bytes`, side by side and over themselves.
///
/// # Errors
/// What the card says.
pub fn moving(
    card: &mut dyn Card,
    device: &Device,
    most_bytes: u64,
) -> Result<Vec<Moving>, CardError> {
    let mut rows = Vec::new();
    for bytes in SIZES.into_iter().filter(|bytes| *bytes <= most_bytes) {
        for distance_bytes in [bytes, bytes / 2] {
            rows.push(moves(card, device, bytes, distance_bytes)?);
            card.clear();
        }
    }
    Ok(rows)
}

fn moves(
    card: &mut dyn Card,
    device: &Device,
    bytes: u64,
    distance_bytes: u64,
) -> Result<Moving, CardError> {
    let base = card.map(bytes + distance_bytes)?;
    let staging = card.map(STAGING_BYTES)?;
    let span = |at: u64| Span {
        base: at,
        from: 0,
        to: bytes,
        seed: bytes,
    };
    let mut times_ns = Vec::new();
    for _ in 0..TURNS {
        card.fill(0, span(base + distance_bytes))?;
        card.sync()?;
        let it = Move {
            to: base,
            from: base + distance_bytes,
            bytes,
        };
        let moved = timed(|| move_block(card, 0, staging, it).and_then(|()| card.sync()))?;
        times_ns.push(moved.0);
    }
    card.check(0, span(base))?;
    let spread = Spread::of(times_ns);
    Ok(Moving {
        bytes,
        distance_bytes,
        measured_ns: spread.median_ns,
        low_ns: spread.low_ns,
        high_ns: spread.high_ns,
        model_ns: device.move_ns(bytes, distance_bytes),
        broken_bytes: card.verdicts()?.iter().sum(),
    })
}
