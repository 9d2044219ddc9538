//! The single calls of virtual memory, for mappings of pages that are mapped elsewhere too.

use super::{Point, Times};
use crate::cuda::card::{Card, CardError};
use crate::cuda::timing::timed;

/// cuMemCreate, cuMemMap, cuMemSetAccess and cuMemUnmap by size, one handle each.
pub(super) struct Mappings {
    pub create: Vec<Point>,
    pub map: Vec<Point>,
    pub access: Vec<Point>,
    pub unmap: Vec<Point>,
}

pub(super) fn mappings(card: &mut dyn Card, sizes: &[u64]) -> Result<Mappings, CardError> {
    let mut curves = [const { Vec::new() }; 4];
    for bytes in sizes.iter().copied() {
        let first = card.reserve(bytes)?;
        card.back(first, bytes, bytes)?;
        let second = card.reserve(bytes)?;
        let points = Times::measure(bytes, || {
            let (create_ns, handle) = timed(|| card.create(bytes))?;
            card.release(handle)?;
            let (map_ns, ()) = timed(|| card.alias(second, first, bytes))?;
            let (access_ns, ()) = timed(|| card.open(second, bytes))?;
            let (unmap_ns, ()) = timed(|| card.unback(second, bytes))?;
            Ok([create_ns, map_ns, access_ns, unmap_ns])
        })?;
        for (curve, point) in curves.iter_mut().zip(points) {
            curve.push(point);
        }
        card.unback(first, bytes)?;
        card.unreserve(first)?;
        card.unreserve(second)?;
    }
    let [create, map, access, unmap] = curves;
    Ok(Mappings {
        create,
        map,
        access,
        unmap,
    })
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
        let found = mappings(&mut card, &sizes).expect("there is room");
        for curve in [found.create, found.map, found.access, found.unmap] {
            let measured: Vec<u64> = curve.iter().map(|point| point.bytes).collect();
            assert_eq!(measured, sizes);
        }
        assert_eq!(card.free_bytes(), Ok(Some(1 << 30)));
    }
}
