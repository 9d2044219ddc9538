//! Copies between the card and its host.

use super::{Fact, Point, Times, bytes_per_s};
use crate::cuda::card::{Card, CardError, HostMemory};
use crate::cuda::timing::timed;
use crate::units::{MIB, format_bytes};

/// Larger buffers take long to be pinned, and tell no more.
const MOST_BYTES: u64 = 256 * MIB;

/// Pinned copies by size, each half of one there and back, and what each direction does.
pub(super) fn bus(
    card: &mut dyn Card,
    sizes: &[u64],
) -> Result<(Vec<Point>, Vec<Fact>), CardError> {
    let mut curve = Vec::new();
    let mut facts = Vec::new();
    for bytes in sizes.iter().copied().filter(|bytes| *bytes <= MOST_BYTES) {
        let base = card.map(bytes)?;
        let [half, to_host, to_card] = there_and_back(card, base, bytes, HostMemory::Pinned)?;
        let [_, pageable_to_host, pageable_to_card] =
            there_and_back(card, base, bytes, HostMemory::Pageable)?;
        card.unmap(base)?;
        curve.push(half);
        facts = vec![
            fact("pinned memory of the host", to_host),
            fact("the card from pinned memory", to_card),
            fact("pageable memory of the host", pageable_to_host),
            fact("the card from pageable memory", pageable_to_card),
        ];
    }
    Ok((curve, facts))
}

fn there_and_back(
    card: &mut dyn Card,
    base: u64,
    bytes: u64,
    kept_in: HostMemory,
) -> Result<[Point; 3], CardError> {
    Times::measure(bytes, || {
        let (out_ns, ticket) = timed(|| card.save(base, bytes, kept_in))?;
        let (back_ns, ()) = timed(|| card.load(ticket, base))?;
        card.forget(ticket)?;
        Ok([(out_ns + back_ns) / 2, out_ns, back_ns])
    })
}

fn fact(way: &str, point: Point) -> Fact {
    let rate = format_bytes(bytes_per_s(point));
    let what = format!("{} to {way}", format_bytes(point.bytes));
    Fact::new(what, format!("{rate} a second"))
}
