//! Cells of addresses by events: how much of each was in use.
//!
//! Columns span a number of events, rows a number of bytes, both powers of two. Where
//! there would be too many, neighbours are joined two by two. Rows are kept only where
//! something was in use, so that gaps between segments cost nothing.

use serde::{Deserialize, Serialize};

use super::rows::Rows;
use super::{Rectangle, When};
use crate::units::ppm;

/// One cell, up to the beginning of its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// First address.
    pub address: u64,
    /// Height.
    pub bytes: u64,
    /// Number of its column.
    pub column: u32,
    /// How much of the cell was in use by blocks of the raster: bytes times events.
    pub occupancy_ppm: u64,
}

/// One column of the raster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its first event.
    pub from: When,
    /// Requests that failed in it.
    pub failed: u64,
}

#[derive(Debug)]
pub(super) struct Raster {
    most_columns: usize,
    span_log2: u32,
    columns: Vec<Column>,
    rows: Rows,
    /// Bytes times events in use by column: at the place of a row, and perhaps more than
    /// once at one place. Most cells of a column hold nothing.
    cells: Vec<Vec<(usize, u128)>>,
    /// The places of the block at hand.
    places: Vec<usize>,
    /// A number for each place, all 0 between two uses.
    sums: Vec<u128>,
}

impl Raster {
    pub fn new(most_columns: usize, most_rows: usize) -> Self {
        assert!(
            most_columns >= 2 && most_rows >= 2,
            "a raster of {most_columns} by {most_rows} cells cannot be halved"
        );
        Raster {
            most_columns,
            span_log2: 0,
            columns: Vec::new(),
            rows: Rows::new(most_rows),
            cells: Vec::new(),
            places: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// An event happened; events come in order, none is left out.
    #[inline]
    pub fn column(&mut self, now: When, failed: bool) {
        if now.event >> self.span_log2 == self.columns.len() as u64 {
            self.open_column(now);
        }
        if failed && let Some(last) = self.columns.last_mut() {
            last.failed += 1;
        }
    }

    fn open_column(&mut self, now: When) {
        if let Some(last) = self.cells.last_mut() {
            gather(last, &mut self.sums);
        }
        if self.columns.len() == self.most_columns {
            self.widen();
            if (now.event >> self.span_log2) < self.columns.len() as u64 {
                return;
            }
        }
        self.columns.push(Column {
            from: now,
            failed: 0,
        });
        self.cells.push(Vec::new());
    }

    /// A block that was in use up to an event that was seen, or one past it.
    pub fn add(&mut self, block: &Rectangle) {
        while !self.rows.take(block, &mut self.places) {
            self.heighten();
        }
        let height_log2 = self.rows.height_log2;
        let first_row = block.address >> height_log2;
        let last_byte = block.address + (block.bytes - 1);
        let mut event = block.from.event;
        while event < block.to.event {
            let at = event >> self.span_log2;
            let next = ((at + 1) << self.span_log2).min(block.to.event);
            let cells = &mut self.cells[at as usize];
            if cells.capacity() - cells.len() < self.places.len() {
                gather(cells, &mut self.sums);
                // At least as many come before the next time.
                cells.reserve(self.places.len().max(cells.len()));
            }
            for (row, place) in (first_row..).zip(&self.places) {
                let base = row << height_log2;
                let top = base + ((1 << height_log2) - 1);
                let bytes = last_byte.min(top) - block.address.max(base) + 1;
                cells.push((*place, u128::from(bytes) * u128::from(next - event)));
            }
            event = next;
        }
    }

    /// Joins columns two by two.
    fn widen(&mut self) {
        self.span_log2 += 1;
        let joined = self.columns.chunks(2).map(|pair| Column {
            from: pair[0].from,
            failed: pair.iter().map(|column| column.failed).sum(),
        });
        self.columns = joined.collect();
        let joined = self.cells.chunks_mut(2).map(|pair| {
            let mut cells = std::mem::take(&mut pair[0]);
            cells.extend(pair[1..].iter().flatten());
            gather(&mut cells, &mut self.sums);
            cells
        });
        self.cells = joined.collect();
    }

    /// Joins rows two by two.
    fn heighten(&mut self) {
        let moved = self.rows.heighten();
        for cells in &mut self.cells {
            for (place, _) in &mut *cells {
                *place = moved[*place];
            }
            gather(cells, &mut self.sums);
        }
    }

    /// The columns, and the cells that hold something by address and event; the last
    /// column reaches to `end`.
    pub fn finish(mut self, end: When) -> (Vec<Column>, Vec<Cell>) {
        let (height_log2, span_log2) = (self.rows.height_log2, self.span_log2);
        let mut found = Vec::new();
        for (column, cells) in (0u32..).zip(&mut self.cells) {
            gather(cells, &mut self.sums);
            let row = |place: usize| self.rows.numbers[place];
            found.extend(cells.iter().map(|(place, sum)| (row(*place), column, *sum)));
        }
        found.sort_unstable();
        let bytes = 1u64 << height_log2;
        let cell = |(row, column, sum): (u64, u32, u128)| {
            let from = u64::from(column) << span_log2;
            let events = end.event.min(from + (1 << span_log2)) - from;
            let full = u128::from(bytes) * u128::from(events);
            Cell {
                address: row << height_log2,
                bytes,
                column,
                occupancy_ppm: share_ppm(sum, full),
            }
        };
        (self.columns, found.into_iter().map(cell).collect())
    }
}

/// Adds up what is at one place. `sums` is all 0, before and after.
fn gather(cells: &mut Vec<(usize, u128)>, sums: &mut Vec<u128>) {
    let mut places = 0;
    for at in 0..cells.len() {
        let (place, part) = cells[at];
        if place >= sums.len() {
            sums.resize(place + 1, 0);
        }
        if sums[place] == 0 {
            cells[places].0 = place;
            places += 1;
        }
        sums[place] += part;
    }
    cells.truncate(places);
    for (place, sum) in cells {
        *sum = std::mem::take(&mut sums[*place]);
    }
}

/// `part / whole` where both may be larger than 64 bits.
fn share_ppm(part: u128, whole: u128) -> u64 {
    let shift = (u128::BITS - whole.leading_zeros()).saturating_sub(u64::BITS);
    ppm((part >> shift) as u64, (whole >> shift) as u64)
}
