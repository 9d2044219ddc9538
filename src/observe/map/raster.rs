//! Cells of addresses by events: how much of each was in use.
//!
//! Columns span a number of events, rows a number of bytes, both powers of two. Where
//! there would be too many, neighbours are joined two by two. Rows are kept only where
//! something was in use, so that gaps between segments cost nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

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
    most_rows: usize,
    span_log2: u32,
    height_log2: u32,
    columns: Vec<Column>,
    /// Bytes times events in use, by row and column.
    rows: HashMap<u64, Vec<u128>, RandomState>,
}

impl Raster {
    pub fn new(most_columns: usize, most_rows: usize) -> Self {
        assert!(
            most_columns >= 2 && most_rows >= 2,
            "a raster of {most_columns} by {most_rows} cells cannot be halved"
        );
        Raster {
            most_columns,
            most_rows,
            span_log2: 0,
            height_log2: 0,
            columns: Vec::new(),
            rows: HashMap::default(),
        }
    }

    /// An event happened; events come in order, none is left out.
    pub fn column(&mut self, now: When, failed: bool) {
        while now.event >> self.span_log2 >= self.most_columns as u64 {
            self.widen();
        }
        let at = (now.event >> self.span_log2) as usize;
        if at == self.columns.len() {
            self.columns.push(Column {
                from: now,
                failed: 0,
            });
        }
        self.columns[at].failed += u64::from(failed);
    }

    /// A block that was in use up to an event that was seen, or one past it.
    pub fn add(&mut self, block: &Rectangle) {
        let end = block.address + block.bytes;
        while ((end - 1) >> self.height_log2) - (block.address >> self.height_log2)
            >= self.most_rows as u64
        {
            self.heighten();
        }
        let (height, span) = (1u64 << self.height_log2, 1u64 << self.span_log2);
        for row in block.address >> self.height_log2..=(end - 1) >> self.height_log2 {
            let base = row << self.height_log2;
            let bytes = end.min(base + height) - block.address.max(base);
            let cells = self.rows.entry(row).or_default();
            let mut event = block.from.event;
            while event < block.to.event {
                let at = (event >> self.span_log2) as usize;
                let next = ((at as u64 + 1) * span).min(block.to.event);
                if at >= cells.len() {
                    cells.resize(at + 1, 0);
                }
                cells[at] += u128::from(bytes) * u128::from(next - event);
                event = next;
            }
        }
        while self.rows.len() > self.most_rows {
            self.heighten();
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
        for cells in self.rows.values_mut() {
            let half = cells.len().div_ceil(2);
            for at in 0..half {
                cells[at] = cells[2 * at] + cells.get(2 * at + 1).copied().unwrap_or(0);
            }
            cells.truncate(half);
        }
    }

    /// Joins rows two by two.
    fn heighten(&mut self) {
        self.height_log2 += 1;
        for (row, mut cells) in std::mem::take(&mut self.rows) {
            match self.rows.entry(row >> 1) {
                Entry::Vacant(alone) => {
                    alone.insert(cells);
                }
                Entry::Occupied(mut joined) => {
                    let sums = joined.get_mut();
                    if sums.len() < cells.len() {
                        std::mem::swap(sums, &mut cells);
                    }
                    for (sum, cell) in sums.iter_mut().zip(cells) {
                        *sum += cell;
                    }
                }
            }
        }
    }

    pub fn columns(&self) -> Vec<Column> {
        self.columns.clone()
    }

    /// The cells that hold something, by address and event; the last column reaches to `end`.
    pub fn cells(&self, end: When) -> Vec<Cell> {
        let bytes = 1u64 << self.height_log2;
        let mut cells = Vec::new();
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(row, _)| **row);
        for (row, sums) in rows {
            for (at, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0) {
                let from = (at as u64) << self.span_log2;
                let events = end.event.min(from + (1 << self.span_log2)) - from;
                let full = u128::from(bytes) * u128::from(events);
                cells.push(Cell {
                    address: row << self.height_log2,
                    bytes,
                    column: at as u32,
                    occupancy_ppm: share_ppm(*sum, full),
                });
            }
        }
        cells
    }
}

/// `part / whole` where both may be larger than 64 bits.
fn share_ppm(part: u128, whole: u128) -> u64 {
    let shift = (u128::BITS - whole.leading_zeros()).saturating_sub(u64::BITS);
    ppm((part >> shift) as u64, (whole >> shift) as u64)
}
