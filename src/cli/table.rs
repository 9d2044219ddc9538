//! The one table printer: as wide as the reader has room for, never breaking a number.

/// How a cell is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// As it is.
    #[default]
    None,
    /// Better than the rest.
    Good,
    /// A warning of the field: a `!` stands behind it.
    Warn,
    /// Of less importance.
    Faint,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    text: String,
    mark: Mark,
}

impl Cell {
    /// A marked cell.
    pub fn new(text: impl Into<String>, mark: Mark) -> Self {
        let text = text.into();
        let text = match mark {
            Mark::Warn => format!("{text} !"),
            _ => text,
        };
        Cell { text, mark }
    }
}

impl Cell {
    /// What it says.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How it is to be looked at.
    pub fn mark(&self) -> Mark {
        self.mark
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell::new(text, Mark::None)
    }
}

/// One column; the title may have two lines.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    /// What is dropped first has the highest rank; 0 stays.
    rank: u8,
    left: bool,
}

impl Column {
    /// A column of numbers.
    pub const fn number(title: &'static str, rank: u8) -> Self {
        Column {
            title,
            rank,
            left: false,
        }
    }

    /// A column of words, from the left.
    pub const fn words(title: &'static str, rank: u8) -> Self {
        Column {
            title,
            rank,
            left: true,
        }
    }
}

/// Rows under columns. The first column is shortened in its middle where it must be.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

const GAP: usize = 2;
/// The first column is never shorter than this.
const LEAST_FIRST: usize = 14;
/// Words in the last column are never cut shorter than this.
const LEAST_LAST: usize = 16;
/// The first column gives way to other columns, but for words at the end, down to this.
const FAIR_FIRST: usize = 28;

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// The titles, and whether their cells are words.
    pub fn titles(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.columns
            .iter()
            .map(|column| (column.title, column.left))
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Adds a row; cells that are missing at its end are empty.
    pub fn row(&mut self, mut cells: Vec<Cell>) {
        cells.resize(self.columns.len(), Cell::default());
        self.rows.push(cells);
    }

    /// The lines for a reader with `room` columns, and the titles that were left out.
    pub fn lines(&self, room: usize, colour: bool) -> (Vec<String>, Vec<String>) {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let mut widths: Vec<usize> = kept.iter().map(|at| self.width(*at)).collect();
        let natural_first = widths[0];
        widths[0] = natural_first.min(FAIR_FIRST);
        let total = |kept: &[usize], widths: &[usize]| {
            kept.iter().map(|at| widths[*at] + GAP).sum::<usize>() - GAP
        };
        while total(&kept, &widths) > room {
            let least = kept.iter().max_by_key(|at| self.columns[**at].rank);
            match least.copied().filter(|at| self.columns[*at].rank > 0) {
                Some(least) => kept.retain(|at| *at != least),
                None => break,
            }
        }
        // Words at the end can be cut, so that they take nothing from the first column.
        let last = kept[kept.len() - 1];
        let words = self.is_cut(last).then_some(widths[last]);
        if let Some(width) = words {
            widths[last] = width.min(LEAST_LAST);
        }
        let spare = room as isize - total(&kept, &widths) as isize;
        let first = widths[0] as isize + spare;
        widths[0] = (first.max(LEAST_FIRST as isize) as usize).min(natural_first);
        if let Some(width) = words {
            widths[last] = width;
        }
        self.cut_last(&kept, &mut widths, room);
        let dropped = (0..self.columns.len()).filter(|at| !kept.contains(at));
        let dropped = dropped.map(|at| self.columns[at].title.replace('\n', " "));
        let mut lines = self.head(&kept, &widths);
        for row in &self.rows {
            lines.push(self.line(row, &kept, &widths, colour));
        }
        (lines, dropped.collect())
    }

    /// Whether what stands in the column may be cut where it is the last one.
    fn is_cut(&self, last: usize) -> bool {
        self.columns[last].left && last > 0
    }

    /// Words at the end of a line are cut where they are too long.
    fn cut_last(&self, kept: &[usize], widths: &mut [usize], room: usize) {
        let last = kept[kept.len() - 1];
        let before: usize = kept.iter().map(|at| widths[*at] + GAP).sum::<usize>() - widths[last];
        if self.is_cut(last) {
            let left = room.saturating_sub(before - GAP).max(LEAST_LAST);
            widths[last] = widths[last].min(left);
        }
    }

    fn width(&self, at: usize) -> usize {
        let title = self.columns[at].title.lines().map(letters).max();
        let cells = self.rows.iter().map(|row| letters(&row[at].text)).max();
        title.max(cells).unwrap_or(0)
    }

    /// The lines of titles, set at the bottom, and a rule.
    fn head(&self, kept: &[usize], widths: &[usize]) -> Vec<String> {
        let titles = |at: &usize| self.columns[*at].title.lines().collect::<Vec<_>>();
        let most = kept.iter().map(|at| titles(at).len()).max().unwrap_or(1);
        let mut lines: Vec<String> = (0..most)
            .map(|number| {
                let cells = kept.iter().map(|at| {
                    let parts = titles(at);
                    let below = most - parts.len();
                    let text = number.checked_sub(below).map_or("", |part| parts[part]);
                    pad(text, widths[*at], self.columns[*at].left)
                });
                joined(cells)
            })
            .collect();
        let rule: usize = kept.iter().map(|at| widths[*at] + GAP).sum();
        lines.push("-".repeat(rule - GAP));
        lines
    }

    fn line(&self, row: &[Cell], kept: &[usize], widths: &[usize], colour: bool) -> String {
        let cells = kept.iter().map(|at| {
            let cell = &row[*at];
            let text = match at {
                0 => shorten(&cell.text, widths[0]),
                _ if self.columns[*at].left => cut(&cell.text, widths[*at]),
                _ => cell.text.clone(),
            };
            let text = pad(&text, widths[*at], self.columns[*at].left);
            if colour {
                painted(&text, cell.mark)
            } else {
                text
            }
        });
        joined(cells)
    }
}

fn joined(cells: impl Iterator<Item = String>) -> String {
    let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
    line.trim_end().to_owned()
}

fn letters(text: &str) -> usize {
    text.chars().count()
}

fn pad(text: &str, width: usize, left: bool) -> String {
    if left {
        format!("{text:<width$}")
    } else {
        format!("{text:>width$}")
    }
}

/// Cuts words at their end.
fn cut(text: &str, width: usize) -> String {
    if letters(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    format!("{kept}\u{2026}")
}

/// Takes letters out of the middle, so that both ends of a spec stay readable.
fn shorten(text: &str, width: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= width {
        return text.to_owned();
    }
    let head = (width - 1).div_ceil(2);
    let tail = width - 1 - head;
    let (start, end) = (&all[..head], &all[all.len() - tail..]);
    start.iter().chain(&['\u{2026}']).chain(end).collect()
}

/// A cell in the colour of its mark.
fn painted(text: &str, mark: Mark) -> String {
    match mark {
        Mark::None => text.to_owned(),
        Mark::Good => format!("\x1b[32m{text}\x1b[0m"),
        Mark::Warn => format!("\x1b[33m{text}\x1b[0m"),
        Mark::Faint => format!("\x1b[2m{text}\x1b[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::words("policy", 0),
            Column::number("failed\nrequests", 0),
            Column::number("cost", 2),
            Column::number("moves", 1),
        ]);
        table.row(vec![
            "best-fit:alignment=512B,more=of-it".into(),
            Cell::new("12", Mark::Warn),
            "1.25 ms".into(),
            "3".into(),
        ]);
        table
    }

    #[test]
    fn with_room_everything_is_shown() {
        let (lines, dropped) = table().lines(80, false);
        assert_eq!(
            lines,
            [
                "                                      failed",
                "policy                              requests     cost  moves",
                "------------------------------------------------------------",
                "best-fit:alignment=512B,more=of-it      12 !  1.25 ms      3",
            ]
        );
        assert_eq!(dropped, Vec::<String>::new());
    }

    #[test]
    fn without_room_columns_go_by_rank_and_names_lose_their_middle() {
        let (lines, dropped) = table().lines(32, false);
        assert_eq!(lines[3], "best-fit:al\u{2026}more=of-it      12 !");
        assert_eq!(dropped, ["cost", "moves"]);
        assert!(lines.iter().all(|line| letters(line) <= 32));
    }

    #[test]
    fn words_at_the_end_are_cut() {
        let mut table = Table::new(vec![Column::words("policy", 0), Column::words("what", 0)]);
        table.row(vec![
            "bump".into(),
            "A moving offset in one block; and more".into(),
        ]);
        let (lines, _) = table.lines(40, false);
        assert_eq!(lines[2], "bump    A moving offset in one block; a\u{2026}");
    }

    #[test]
    fn words_at_the_end_take_nothing_from_the_first_column() {
        let mut table = Table::new(vec![Column::words("policy", 0), Column::words("what", 0)]);
        let name = "pytorch-expandable-roundup-4";
        table.row(vec![name.into(), "words and words and ".repeat(9).into()]);
        let (lines, _) = table.lines(60, false);
        assert!(lines[2].starts_with(name), "{lines:?}");
        assert_eq!(letters(&lines[2]), 60);
        let (narrow, _) = table.lines(32, false);
        assert_eq!(letters(&narrow[2]), 32, "{narrow:?}");
    }

    #[test]
    fn marks_are_colours_on_request() {
        let (lines, _) = table().lines(80, true);
        assert!(lines[3].contains("\x1b[33m    12 !\x1b[0m"), "{lines:?}");
    }
}
