//! The rows of a raster: which are in use, and where their cells are.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::Rectangle;

/// Rows of one page, which are found by one look-up.
const PAGE_ROWS: usize = 16;

/// No place yet.
const NONE: usize = usize::MAX;

/// Rows of `1 << height_log2` bytes that something was in use in, a bounded number.
#[derive(Debug)]
pub(super) struct Rows {
    most: usize,
    pub height_log2: u32,
    /// The number of the row at each place: its address without the bits of the height.
    pub numbers: Vec<u64>,
    /// The places of neighbours, by the number of their page.
    pages: HashMap<u64, [usize; PAGE_ROWS], RandomState>,
}

impl Rows {
    pub fn new(most: usize) -> Self {
        Rows {
            most,
            height_log2: 0,
            numbers: Vec::new(),
            pages: HashMap::default(),
        }
    }

    /// The places of a block's rows, from the lowest; false where there would be too many
    /// rows.
    pub fn take(&mut self, block: &Rectangle, places: &mut Vec<usize>) -> bool {
        let last_byte = block.address + (block.bytes - 1);
        let first = block.address >> self.height_log2;
        let last = last_byte >> self.height_log2;
        places.clear();
        if last - first >= self.most as u64 {
            return false;
        }
        let mut row = first;
        while row <= last {
            let page = self.pages.entry(row / PAGE_ROWS as u64);
            let page = page.or_insert([NONE; PAGE_ROWS]);
            for place in &mut page[(row % PAGE_ROWS as u64) as usize..] {
                if *place == NONE {
                    if self.numbers.len() == self.most {
                        return false;
                    }
                    *place = self.numbers.len();
                    self.numbers.push(row);
                }
                places.push(*place);
                row += 1;
                if row > last {
                    break;
                }
            }
        }
        true
    }

    /// Joins rows two by two; tells the new place of each old one, which is never above it.
    pub fn heighten(&mut self) -> Vec<usize> {
        self.height_log2 += 1;
        self.pages.clear();
        let old = std::mem::take(&mut self.numbers);
        let moved = old.into_iter().map(|number| {
            let row = number >> 1;
            let page = self.pages.entry(row / PAGE_ROWS as u64);
            let page = page.or_insert([NONE; PAGE_ROWS]);
            let place = &mut page[(row % PAGE_ROWS as u64) as usize];
            if *place == NONE {
                *place = self.numbers.len();
                self.numbers.push(row);
            }
            *place
        });
        moved.collect()
    }
}
