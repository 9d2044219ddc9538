//! The single calls of virtual memory, for mappings of pages that are mapped elsewhere too.

use super::{Fact, Point, Times};
use crate::cuda::card::{Card, CardError};
use crate::cuda::timing::timed;

/// How many pages one call opens and unmaps, where it is tried.
const PAGES: u64 = 64;

/// cuMemMap, cuMemSetAccess and cuMemUnmap by size, one handle each.
pub(super) struct Mappings {
    pub map: Vec<Point>,
    pub access: Vec<Point>,
    pub unmap: Vec<Point>,
}

pub(super) fn mappings(card: &mut dyn Card, sizes: &[u64]) -> Result<Mappings, CardError> {
    let mut curves = [const { Vec::new() }; 3];
    for bytes in sizes.iter().copied() {
        let points = twice(card, bytes, bytes)?;
        for (curve, point) in curves.iter_mut().zip(points) {
            curve.push(point);
        }
    }
    let [map, access, unmap] = curves;
    Ok(Mappings { map, access, unmap })
}

/// What opening and unmapping many pages by one call each takes, against one page.
pub(super) fn many(card: &mut dyn Card, page_bytes: u64) -> Result<Fact, CardError> {
    let [_, one_access, one_unmap] = twice(card, page_bytes, page_bytes)?;
    let [_, access, unmap] = twice(card, PAGES * page_bytes, page_bytes)?;
    let times = |many: Point, one: Point| many.spread.median_ns / one.spread.median_ns.max(1);
    let found = format!(
        "{} and {} times as long",
        times(access, one_access),
        times(unmap, one_unmap)
    );
    let what = format!("one cuMemSetAccess and one cuMemUnmap of {PAGES} pages, against one page");
    Ok(Fact::new(what, found))
}

/// Maps `bytes`, in handles of `page_bytes`, a second time: what that, opening it and
/// unmapping it take.
fn twice(card: &mut dyn Card, bytes: u64, page_bytes: u64) -> Result<[Point; 3], CardError> {
    let (first, second) = (card.reserve(bytes)?, card.reserve(bytes)?);
    card.back(first, bytes, page_bytes)?;
    let points = Times::measure(bytes, || {
        let (map_ns, ()) = timed(|| card.alias(second, first, bytes))?;
        let (access_ns, ()) = timed(|| card.open(second, bytes))?;
        let (unmap_ns, ()) = timed(|| card.unback(second, bytes))?;
        Ok([map_ns, access_ns, unmap_ns])
    })?;
    card.unback(first, bytes)?;
    card.unreserve(first)?;
    card.unreserve(second)?;
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::host::HostCard;
    use crate::units::MIB;

    #[test]
    fn every_size_has_its_three_costs_and_nothing_is_left() {
        let mut card = HostCard::new(1 << 30);
        let sizes = [2 * MIB, 16 * MIB];
        let found = mappings(&mut card, &sizes).expect("there is room");
        for curve in [found.map, found.access, found.unmap] {
            let measured: Vec<u64> = curve.iter().map(|point| point.bytes).collect();
            assert_eq!(measured, sizes);
        }
        assert!(
            many(&mut card, 2 * MIB)
                .expect("there is room")
                .found
                .ends_with("long")
        );
        assert_eq!(card.free_bytes(), Ok(Some(1 << 30)));
    }
}
