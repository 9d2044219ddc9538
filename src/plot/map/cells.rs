//! What can be seen of very many blocks: a raster, drawn as few rectangles.

use super::Place;
use crate::plot::frame::Panel;

/// A panel cut into square cells, each of one class or empty.
pub(super) struct Cells {
    corner: (f64, f64),
    size: f64,
    columns: usize,
    /// Class plus one, row by row; zero is empty.
    cells: Vec<u16>,
}

impl Cells {
    /// Blocks of at least a cell first; smaller ones only where that left a cell empty, so that they
    /// show without hiding what is larger.
    pub fn new(panel: &Panel, size: f64, places: &[(Place, usize)]) -> Self {
        let columns = ((panel.right - panel.left) / size).ceil() as usize;
        let rows = ((panel.bottom - panel.top) / size).ceil() as usize;
        let corner = (panel.left, panel.top);
        let mut map = Cells {
            corner,
            size,
            columns,
            cells: vec![0; columns * rows],
        };
        for large in [true, false] {
            for (place, class) in places {
                map.put(
                    *place,
                    rows,
                    (*class).min(usize::from(u16::MAX) - 1) as u16 + 1,
                    large,
                );
            }
        }
        map
    }

    fn put(&mut self, place: Place, rows: usize, class: u16, large: bool) {
        let cell = |from: f64, to: f64, most: usize| {
            let first = ((from / self.size).round() as usize).min(most - 1);
            let end = ((to / self.size).round() as usize).min(most);
            (first, end.max(first + 1), end > first)
        };
        let (left, right, wide) = cell(
            place.0 - self.corner.0,
            place.2 - self.corner.0,
            self.columns,
        );
        let (upper, lower, high) = cell(place.1 - self.corner.1, place.3 - self.corner.1, rows);
        if (wide && high) != large {
            return;
        }
        for row in upper..lower {
            let line = &mut self.cells[row * self.columns..][left..right];
            for cell in line.iter_mut().filter(|cell| large || **cell == 0) {
                *cell = class;
            }
        }
    }

    /// The cells as few rectangles: runs of a row, joined with equal runs of the rows below.
    pub fn runs(&self) -> Vec<(Place, usize)> {
        let mut done: Vec<(Place, usize)> = Vec::new();
        // Runs that reach into the row before: first column, first behind, class, first row.
        let mut open: Vec<(usize, usize, u16, usize)> = Vec::new();
        let rows = self.cells.len() / self.columns.max(1);
        for row in 0..=rows {
            let line = self
                .cells
                .get(row * self.columns..(row + 1) * self.columns)
                .unwrap_or(&[]);
            let mut next = Vec::new();
            let mut column = 0;
            for run in line.chunk_by(|a, b| a == b) {
                if run[0] > 0 {
                    next.push((column, column + run.len(), run[0], row));
                }
                column += run.len();
            }
            let mut at = 0;
            for old in open {
                at += next[at..].partition_point(|new: &(usize, usize, u16, usize)| new.0 < old.0);
                match next.get_mut(at) {
                    Some(new) if (new.0, new.1, new.2) == (old.0, old.1, old.2) => new.3 = old.3,
                    _ => done.push((self.place(old, row), usize::from(old.2) - 1)),
                }
            }
            open = next;
        }
        done
    }

    fn place(&self, run: (usize, usize, u16, usize), end: usize) -> Place {
        let x = |column: usize| self.corner.0 + column as f64 * self.size;
        let y = |row: usize| self.corner.1 + row as f64 * self.size;
        (x(run.0), y(run.3), x(run.1), y(end))
    }
}
