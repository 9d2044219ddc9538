//! Ranges of addresses one above the other, without what lies between them.

use crate::observe::AddressMap;

/// All gaps together are this part of what is shown.
const GAPS: u64 = 24;
/// Places are multiples of this, so that they pack well.
const STEP: u64 = 512;

/// A stretch of addresses and its place on the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// Where it begins on the axis, in bytes from its foot.
    pub place: u64,
}

/// The bands of a map, by address; what it holds lies in one of them.
pub(super) fn bands(map: &AddressMap) -> Vec<Band> {
    let mapped = map.mapped.iter().map(|it| (it.address, it.bytes));
    let blocks = map.rectangles.iter().map(|it| (it.address, it.bytes));
    let cells = map.cells.iter().map(|it| (it.address, it.bytes));
    let mut ranges: Vec<(u64, u64)> = mapped.chain(blocks).chain(cells).collect();
    ranges.sort_unstable();
    let mut bands: Vec<Band> = Vec::new();
    for (address, bytes) in ranges {
        match bands.last_mut() {
            Some(last) if address <= last.address + last.bytes => {
                last.bytes = last.bytes.max(address + bytes - last.address);
            }
            _ => bands.push(Band {
                address,
                bytes,
                place: 0,
            }),
        }
    }
    let total: u64 = bands.iter().map(|band| band.bytes).sum();
    let most = total / GAPS / (bands.len() as u64).max(1);
    let mut place = 0;
    let mut end = None;
    for band in &mut bands {
        if let Some(end) = end {
            place += most.min(band.address - end) / STEP * STEP;
        }
        band.place = place;
        place += band.bytes.next_multiple_of(STEP);
        end = Some(band.address + band.bytes);
    }
    bands
}

/// Where an address lies on the axis.
///
/// # Panics
/// If no band holds it.
pub(super) fn place(bands: &[Band], address: u64) -> u64 {
    let after = bands.partition_point(|band| band.address <= address);
    let band = &bands[after - 1];
    band.place + (address - band.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::map::{MappedRange, When};

    #[test]
    fn gaps_shrink_and_neighbours_are_one_band() {
        let range = |address, bytes| MappedRange {
            address,
            bytes,
            from: When::default(),
            to: When::default(),
        };
        let map = AddressMap {
            end: When::default(),
            rectangles: Vec::new(),
            in_raster: 0,
            cells: Vec::new(),
            columns: Vec::new(),
            mapped: vec![
                range(1 << 40, 1 << 20),
                range(4096, 1 << 20),
                range(4096 + (1 << 20), 1 << 20),
            ],
            mapped_left_out: 0,
        };
        let bands = bands(&map);
        assert_eq!(bands.len(), 2);
        assert_eq!((bands[0].place, bands[0].bytes), (0, 2 << 20));
        // 3 MiB in two bands: a gap is at most 3 MiB / 24 / 2, in steps of 512.
        assert_eq!(bands[1].place, (2 << 20) + 65536);
        assert_eq!(place(&bands, (1 << 40) + 7), (2 << 20) + 65536 + 7);
    }
}
