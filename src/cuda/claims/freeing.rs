//! (c) A free while a kernel runs: when does the call come back?

use serde::Serialize;

use crate::cuda::card::{Card, CardError};
use crate::cuda::timing::{Spread, timed};
use crate::units::MIB;

/// How long the kernel runs.
const KERNELS_NS: [u64; 3] = [1_000_000, 10_000_000, 50_000_000];
const TURNS: usize = 7;
const BYTES: u64 = 16 * MIB;

/// One call beside one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Freeing {
    /// `cudaFreeAsync` or `cudaFree`.
    pub call: &'static str,
    /// How long the kernel was told to run.
    pub kernel_ns: u64,
    /// When the call came back, median.
    pub returned_ns: u64,
    /// The tenth percentile.
    pub low_ns: u64,
    /// The ninetieth percentile.
    pub high_ns: u64,
    /// How many times it was tried.
    pub samples: u64,
}

/// Measures both calls beside kernels of several lengths.
///
/// # Errors
/// What the card says.
pub fn freeing(card: &mut dyn Card) -> Result<Vec<Freeing>, CardError> {
    let mut rows = Vec::new();
    for kernel_ns in KERNELS_NS {
        card.open_pool(4 * BYTES, u64::MAX)?;
        let (mut ordered, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let address = card.take(BYTES, 0)?;
            card.sync()?;
            card.lag(0, kernel_ns)?;
            ordered.push(timed(|| card.give(address, 0))?.0);
            card.sync()?;
            let address = card.map(BYTES)?;
            card.lag(0, kernel_ns)?;
            plain.push(timed(|| card.unmap(address))?.0);
            card.sync()?;
        }
        card.clear();
        rows.push(row("cudaFreeAsync", kernel_ns, Spread::of(ordered)));
        rows.push(row("cudaFree", kernel_ns, Spread::of(plain)));
    }
    Ok(rows)
}

fn row(call: &'static str, kernel_ns: u64, spread: Spread) -> Freeing {
    Freeing {
        call,
        kernel_ns,
        returned_ns: spread.median_ns,
        low_ns: spread.low_ns,
        high_ns: spread.high_ns,
        samples: spread.samples,
    }
}
