//! The address map in letters: which part of what was reserved was in use when.

use super::output::Output;
use crate::observe::map::When;
use crate::observe::{AddressMap, Row};
use crate::units::{format_bytes, format_count};

/// Lines of addresses.
const ROWS: usize = 12;
/// More columns than this show nothing more.
const MOST_COLUMNS: usize = 100;
/// What stands left of the map.
const BESIDE_COLUMNS: usize = 12;

/// Reserved but not in use, then in use from little to all.
const BLOCKS: [char; 5] = ['·', '░', '▒', '▓', '█'];
const LETTERS: [char; 5] = ['.', ':', '+', '#', '@'];

/// The map in lines; gaps between reserved ranges are left out.
pub fn lines(row: &Row, map: &AddressMap, output: &Output) -> Vec<String> {
    let letters = if output.unicode { BLOCKS } else { LETTERS };
    let edge = if output.unicode { '│' } else { '|' };
    let mut lines = vec![
        format!("addresses under {}:", row.policy),
        format!(
            "{} reserved, {}{}{}{} in use more and more",
            letters[0], letters[1], letters[2], letters[3], letters[4]
        ),
    ];
    let Some(grid) = Grid::of(map, output.columns) else {
        lines.push("nothing was ever reserved".into());
        return lines;
    };
    let beside = BESIDE_COLUMNS - 2;
    for at in (0..ROWS).rev() {
        let label = match at {
            0 => "0 B".into(),
            _ if at == ROWS - 1 => format_bytes(grid.height_bytes),
            _ => String::new(),
        };
        let drawn: String = (0..grid.columns)
            .map(|column| grid.letter(at, column, letters))
            .collect();
        lines.push(format!("{label:>beside$} {edge}{}", drawn.trim_end()));
    }
    let last = format!("event {}", format_count(map.end.event));
    let first = "0";
    let width = grid.columns.saturating_sub(first.len());
    lines.push(format!("{:beside$}  {first}{last:>width$}", ""));
    let failed: u64 = map.columns.iter().map(|column| column.failed).sum();
    if failed > 0 {
        let marks = grid.failures(map, if output.unicode { '×' } else { 'x' });
        let marks = marks.trim_end();
        let marks = if output.colour {
            format!("\x1b[31m{marks}\x1b[0m")
        } else {
            marks.to_owned()
        };
        lines.push(format!("{:>beside$}  {marks}", "failures"));
    }
    lines
}

/// Bytes times events in each cell, by row from the lowest address.
struct Grid {
    columns: usize,
    events: u64,
    height_bytes: u64,
    /// Reserved ranges by address, with what lies below each in the map.
    ranges: Vec<Reserved>,
    used: Vec<u128>,
    reserved: Vec<u128>,
}

/// A range of addresses that was reserved at some time.
#[derive(Clone, Copy)]
struct Reserved {
    from: u64,
    to: u64,
    below_bytes: u64,
}

impl Grid {
    /// `None` where nothing was reserved, or no event happened.
    fn of(map: &AddressMap, room: usize) -> Option<Self> {
        let ranges = reserved(map);
        let top = ranges.last()?;
        let height_bytes = top.below_bytes + (top.to - top.from);
        let events = map.end.event;
        let most = room.saturating_sub(BESIDE_COLUMNS).clamp(8, MOST_COLUMNS);
        let columns = (events as usize).min(most);
        if columns == 0 {
            return None;
        }
        let mut grid = Grid {
            columns,
            events,
            height_bytes,
            ranges,
            used: vec![0; ROWS * columns],
            reserved: vec![0; ROWS * columns],
        };
        for range in &map.mapped {
            let span = (range.from.event, range.to.event);
            grid.add(range.address, range.bytes, span, 1_000_000, false);
        }
        for block in &map.rectangles {
            let span = (block.from.event, block.to.event);
            grid.add(block.address, block.bytes, span, 1_000_000, true);
        }
        for cell in &map.cells {
            let column = cell.column as usize;
            let from = map.columns[column].from;
            let to: When = map
                .columns
                .get(column + 1)
                .map_or(map.end, |next| next.from);
            let span = (from.event, to.event);
            grid.add(cell.address, cell.bytes, span, cell.occupancy_ppm, true);
        }
        Some(grid)
    }

    /// The first byte of a row, and of the one above it.
    fn row(&self, row: usize) -> (u64, u64) {
        let at = |row: usize| (u128::from(self.height_bytes) * row as u128 / ROWS as u128) as u64;
        (at(row), at(row + 1))
    }

    /// The first event of a column, and of the next one.
    fn column(&self, column: usize) -> (u64, u64) {
        let at = |column: usize| {
            (u128::from(self.events) * column as u128 / self.columns as u128) as u64
        };
        (at(column), at(column + 1))
    }

    /// Adds a block: addresses over events, of which a share counts.
    fn add(&mut self, address: u64, bytes: u64, events: (u64, u64), ppm: u64, used: bool) {
        let end = address.saturating_add(bytes);
        let first = self.ranges.partition_point(|range| range.to <= address);
        let met = self.ranges[first..]
            .iter()
            .take_while(|range| range.from < end);
        let parts: Vec<(u64, u64)> = met
            .map(|range| {
                let at = |address: u64| range.below_bytes + (address - range.from);
                (at(address.max(range.from)), at(end.min(range.to)))
            })
            .collect();
        for part in parts {
            for row in 0..ROWS {
                let high = overlap(self.row(row), part);
                if high == 0 {
                    continue;
                }
                for column in 0..self.columns {
                    let wide = overlap(self.column(column), events);
                    let area = u128::from(high) * u128::from(wide) * u128::from(ppm);
                    let cells = if used {
                        &mut self.used
                    } else {
                        &mut self.reserved
                    };
                    cells[row * self.columns + column] += area;
                }
            }
        }
    }

    fn letter(&self, row: usize, column: usize, letters: [char; 5]) -> char {
        let (low, high) = self.row(row);
        let (from, to) = self.column(column);
        let full = u128::from(high - low) * u128::from(to - from) * 1_000_000;
        let at = row * self.columns + column;
        let (used, reserved) = (self.used[at].min(full), self.reserved[at]);
        match used {
            0 if reserved * 2 >= full && full > 0 => letters[0],
            0 => ' ',
            // A quarter and less is the first, a whole is the last.
            _ => letters[((used * 4).div_ceil(full) as usize).clamp(1, 4)],
        }
    }

    /// A mark in each column in which a request failed.
    fn failures(&self, map: &AddressMap, mark: char) -> String {
        let mut marks = vec![' '; self.columns];
        for column in map.columns.iter().filter(|column| column.failed > 0) {
            let event = column.from.event.min(self.events - 1);
            let at = u128::from(event) * self.columns as u128 / u128::from(self.events);
            marks[at as usize] = mark;
        }
        marks.into_iter().collect()
    }
}

/// How far two half-open ranges overlap.
fn overlap(one: (u64, u64), other: (u64, u64)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

/// What was reserved at any time, by address; ranges that touch are one.
fn reserved(map: &AddressMap) -> Vec<Reserved> {
    let mapped = map.mapped.iter().map(|range| (range.address, range.bytes));
    let blocks = map
        .rectangles
        .iter()
        .map(|block| (block.address, block.bytes));
    let mut all: Vec<(u64, u64)> = mapped
        .chain(blocks)
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    all.sort_unstable();
    let mut ranges: Vec<Reserved> = Vec::new();
    for (from, bytes) in all {
        let to = from.saturating_add(bytes);
        match ranges.last_mut() {
            Some(last) if from <= last.to => last.to = last.to.max(to),
            _ => ranges.push(Reserved {
                from,
                to,
                below_bytes: 0,
            }),
        }
    }
    let mut below_bytes = 0;
    for range in &mut ranges {
        range.below_bytes = below_bytes;
        below_bytes += range.to - range.from;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::map::{MappedRange, Rectangle};

    fn when(event: u64) -> When {
        When {
            event,
            time_ns: event,
        }
    }

    /// Two segments with a gap: the lower one full for the first half, the upper one free.
    fn map() -> AddressMap {
        let range = |address, from, to| MappedRange {
            address,
            bytes: 600,
            from: when(from),
            to: when(to),
        };
        AddressMap {
            end: when(40),
            rectangles: vec![Rectangle {
                address: 1000,
                bytes: 600,
                segment_address: 1000,
                from: when(0),
                to: when(20),
                stream: 0,
                ordinal: 0,
            }],
            in_raster: 0,
            cells: Vec::new(),
            columns: vec![],
            mapped: vec![range(1000, 0, 40), range(900_000, 20, 40)],
            mapped_left_out: 0,
        }
    }

    #[test]
    fn used_reserved_and_unreserved_cells_differ_and_gaps_take_no_room() {
        let grid = Grid::of(&map(), 52).expect("something is reserved");
        assert_eq!((grid.columns, grid.height_bytes), (40, 1200));
        let line = |row: usize| -> String {
            (0..grid.columns)
                .map(|column| grid.letter(row, column, BLOCKS))
                .collect()
        };
        assert_eq!(line(0), "█".repeat(20) + &"·".repeat(20));
        assert_eq!(line(ROWS - 1), " ".repeat(20) + &"·".repeat(20));
    }

    #[test]
    fn narrow_maps_join_columns() {
        let grid = Grid::of(&map(), 20).expect("something is reserved");
        assert_eq!(grid.columns, 8);
        let letters: String = (0..8)
            .map(|column| grid.letter(0, column, LETTERS))
            .collect();
        assert_eq!(letters, "@@@@....");
        let mut quarter = map();
        quarter.rectangles[0].to = when(1);
        let grid = Grid::of(&quarter, 20).expect("something is reserved");
        assert_eq!(grid.letter(0, 0, LETTERS), ':', "a fifth of the cell");
    }
}
