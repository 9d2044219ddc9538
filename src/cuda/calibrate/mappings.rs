//! The single calls of virtual memory, for mappings of pages that are mapped elsewhere too.

use super::{Point, Times};
use crate::cuda::card::{Card, CardError};
use crate::cuda::timing::timed;

/// cuMemCreate, cuMemMap and cuMemSetAccess by size, one handle each, and cuMemUnmap of a
/// range of that size whose pages were mapped one by one.
pub(super) struct Mappings {
    pub create: Vec<Point>,
    pub map: Vec<Point>,
    pub access: Vec<Point>,
    pub unmap: Vec<Point>,
}

pub(super) fn mappings(
    card: &mut dyn Card,
    page_bytes: u64,
    sizes: &[u64],
) -> Result<Mappings, CardError> {
    let mut unmap = Vec::new();
    let mut curves = [const { Vec::new() }; 3];
    for bytes in sizes.iter().copied() {
        unmap.push(unmapped(card, bytes, page_bytes)?);
        let first = card.reserve(bytes)?;
        card.back(first, bytes, bytes)?;
        let second = card.reserve(bytes)?;
        let points = Times::measure(bytes, || {
            let (create_ns, handle) = timed(|| card.create(bytes))?;
            card.release(handle)?;
            let (map_ns, ()) = timed(|| card.alias(second, first, bytes))?;
            let (access_ns, ()) = timed(|| card.open(second, bytes))?;
            card.unback(second, bytes)?;
            Ok([create_ns, map_ns, access_ns])
        })?;
        for (curve, point) in curves.iter_mut().zip(points) {
            curve.push(point);
        }
        card.unback(first, bytes)?;
        card.unreserve(first)?;
        card.unreserve(second)?;
    }
    let [create, map, access] = curves;
    Ok(Mappings {
        create,
        map,
        access,
        unmap,
    })
}

/// Takes a second mapping of many pages away.
fn unmapped(card: &mut dyn Card, bytes: u64, page_bytes: u64) -> Result<Point, CardError> {
    let (first, second) = (card.reserve(bytes)?, card.reserve(bytes)?);
    card.back(first, bytes, page_bytes)?;
    let [point] = Times::measure(bytes, || {
        card.alias(second, first, bytes)?;
        card.open(second, bytes)?;
        Ok([timed(|| card.unback(second, bytes))?.0])
    })?;
    card.unback(first, bytes)?;
    card.unreserve(first)?;
    card.unreserve(second)?;
    Ok(point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::host::HostCard;
    use crate::units::MIB;

    #[test]
    fn every_size_has_its_four_costs_and_nothing_is_left() {
        let mut card = HostCard::new(1 << 30);
        let sizes = [2 * MIB, 16 * MIB];
        let found = mappings(&mut card, 2 * MIB, &sizes).expect("there is room");
        for curve in [found.create, found.map, found.access, found.unmap] {
            let measured: Vec<u64> = curve.iter().map(|point| point.bytes).collect();
            assert_eq!(measured, sizes);
        }
        assert_eq!(card.free_bytes(), Ok(Some(1 << 30)));
    }
}
