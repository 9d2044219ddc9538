//! The rows that most files are made of, read in one pass over their bytes.
//!
//! Such a row is a request or a free by number, in the usual order of the columns, with
//! plain decimal cells up to its time: what [`write()`](super::write()) makes of nearly
//! every event. A row with anything else in it, and one that may be wrong, is left to the
//! reader of all rows, which gives the same.

use std::ops::ControlFlow;
use std::thread;

use super::super::builder::{Ask, TraceBuilder};
use super::super::keys::plain_key;
use super::super::relay::{relay, several_threads};
use super::Table;

/// So many digits fit 64 bits, whatever they are.
const MOST_DIGITS: usize = 19;

/// A row of plain cells; a cell that is empty or not there is 0, and not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Plain {
    key: u64,
    bytes: u64,
    stream: u64,
    time_ns: u64,
    /// Bytes of the row with its line end, which are fewer than 4 GiB: its numbers are bounded.
    len: u32,
    request: bool,
    has_bytes: bool,
    has_stream: bool,
    has_time: bool,
}

/// Whether the columns of a table come in the usual order.
pub(super) fn is_usual(table: &Table) -> bool {
    let cells = [table.event, table.id, table.bytes, table.stream, table.time];
    let mut places = cells.iter().zip(0..);
    places.all(|(cell, place)| *cell == Some(place))
}

/// So many rows are read before a second thread is worth its start.
const ROWS_ALONE: u64 = 1024;
/// So much text must be left for it.
const BYTES_SHARED: usize = 256 << 10;

/// Reads rows from the beginning of `text` as long as they are plain; answers how many
/// they were, and how many bytes with their line ends.
///
/// Of a long text another thread reads the digits while this one makes the events.
pub(super) fn rows(text: &[u8], builder: &mut TraceBuilder) -> (u64, usize) {
    let mut cursor = Cursor { text, at: 0 };
    let mut made = Made {
        builder,
        rows: 0,
        taken: 0,
    };
    while made.rows < ROWS_ALONE {
        let Some(row) = cursor.row() else {
            return (made.rows, made.taken);
        };
        if made.add(&[row]).is_break() {
            return (made.rows, made.taken);
        }
    }
    if text.len() - cursor.at < BYTES_SHARED || !several_threads() {
        while let Some(row) = cursor.row()
            && made.add(&[row]).is_continue()
        {}
        return (made.rows, made.taken);
    }
    let rows_left = (text.len() - cursor.at) / (cursor.at / made.rows as usize);
    made.builder.reserve(rows_left);
    let (mut giver, taker) = relay();
    thread::scope(|scope| {
        scope.spawn(move || {
            while giver.is_open()
                && let Some(row) = cursor.row()
            {
                giver.push(row);
            }
            giver.close();
        });
        taker.each(|rows| made.add(rows));
    });
    (made.rows, made.taken)
}

/// The events of the rows so far.
struct Made<'b> {
    builder: &'b mut TraceBuilder,
    rows: u64,
    /// Bytes of these rows.
    taken: usize,
}

impl Made<'_> {
    /// Adds the events of rows up to the first that may be wrong: it is still to be added.
    #[inline(always)]
    fn add(&mut self, rows: &[Plain]) -> ControlFlow<()> {
        for row in rows {
            if !add(row, self.builder) {
                return ControlFlow::Break(());
            }
            self.rows += 1;
            self.taken += row.len as usize;
        }
        ControlFlow::Continue(())
    }
}

/// Adds the event of a row; false where it may be wrong, and then it is still to be added.
#[inline(always)]
fn add(row: &Plain, builder: &mut TraceBuilder) -> bool {
    if row.has_time {
        builder.at(row.time_ns);
    }
    if !row.request {
        let stream = if row.has_stream {
            let Some(stream) = builder.try_stream(row.stream) else {
                return false;
            };
            Some(stream)
        } else {
            None
        };
        builder.free(row.key, stream, false);
        return true;
    }
    let Some(stream) = builder.try_stream(row.stream) else {
        return false;
    };
    let ask = Ask {
        bytes: row.bytes,
        stream,
        ..Ask::default()
    };
    row.has_bytes && !builder.is_pending(row.key) && builder.alloc(row.key, ask).is_ok()
}

struct Cursor<'t> {
    text: &'t [u8],
    /// The next byte.
    at: usize,
}

impl Cursor<'_> {
    /// The next row, if it is plain and does not lie at the very end of the text.
    #[inline(always)]
    fn row(&mut self) -> Option<Plain> {
        let window = self.text.get(self.at..)?.first_chunk()?;
        let row = Cells::of(window)?.row()?;
        self.at += row.len as usize;
        Some(row)
    }
}

/// More bytes than a row of plain cells has, and those that are looked at behind it.
const WINDOW: usize = 128;

/// The cells of one row.
struct Cells<'t> {
    window: &'t [u8; WINDOW],
    /// The next byte.
    at: usize,
    request: bool,
    /// Has a high bit where a digit was none, or where a number is too long.
    wrong: u64,
}

impl<'t> Cells<'t> {
    /// The cells behind the word of a request or a free.
    #[inline(always)]
    fn of(window: &'t [u8; WINDOW]) -> Option<Self> {
        let mut cells = Cells {
            window,
            at: 0,
            request: false,
            wrong: 0,
        };
        let head = cells.ahead();
        cells.request = head << 16 == ALLOC;
        cells.at = if cells.request {
            6
        } else if head << 24 == FREE {
            5
        } else {
            return None;
        };
        Some(cells)
    }

    #[inline(always)]
    fn row(mut self) -> Option<Plain> {
        let first = self.at;
        let (key, digits) = self.number();
        if digits == 0 || (digits > 1 && self.window[first] == b'0') {
            return None;
        }
        let (bytes, has_bytes) = self.cell();
        let (stream, has_stream) = self.cell();
        let (time_ns, has_time) = self.cell();
        let line_end = match self.window[self.at..self.at + 2] {
            [b'\n', _] => 1,
            [b'\r', b'\n'] => 2,
            _ => return None,
        };
        if self.wrong & HIGH_BITS != 0 {
            return None;
        }
        Some(Plain {
            key: plain_key(key)?,
            bytes,
            stream,
            time_ns,
            len: (self.at + line_end) as u32,
            request: self.request,
            has_bytes,
            has_stream,
            has_time,
        })
    }

    /// The next eight bytes, the first one lowest.
    #[inline(always)]
    fn ahead(&self) -> u64 {
        let ahead = self.window[self.at..].first_chunk();
        u64::from_le_bytes(*ahead.expect("four cells are shorter than the window"))
    }

    /// The number of the next cell, and whether there is one: the row may end before it, and
    /// it may be empty.
    #[inline(always)]
    fn cell(&mut self) -> (u64, bool) {
        if self.window[self.at] != b',' {
            return (0, false);
        }
        self.at += 1;
        let (number, digits) = self.number();
        (number, digits > 0)
    }

    /// The digits that come next, as a number, and how many they are.
    #[inline(always)]
    fn number(&mut self) -> (u64, usize) {
        let (mut value, mut digits) = self.eight();
        if digits == 8 {
            let mut count = 8;
            while count == 8 && digits <= MOST_DIGITS {
                let (more, so_many) = self.eight();
                count = so_many;
                value = value.wrapping_mul(POWERS[count]).wrapping_add(more);
                digits += count;
            }
            if digits > MOST_DIGITS {
                self.wrong = HIGH_BITS;
            }
        }
        (value, digits)
    }

    /// The value of the next digits, and how many they are: eight at most.
    ///
    /// Bytes that are taken for digits and are none, as a colon, make the row wrong.
    #[inline(always)]
    fn eight(&mut self) -> (u64, usize) {
        // What ends a cell lacks this bit of a digit.
        const DIGIT: u64 = 0x1010_1010_1010_1010;
        const ABOVE_NINE: u64 = 0x7676_7676_7676_7676;
        let ahead = self.ahead();
        let count = ((!ahead & DIGIT).trailing_zeros() / 8) as usize;
        if count == 0 {
            return (0, 0);
        }
        self.at += count;
        // Zeros in front make eight of them.
        let digits = (ahead ^ ZEROS) << (64 - 8 * count);
        self.wrong |= digits.wrapping_add(ABOVE_NINE) | digits;
        (digits_value(digits), count)
    }
}

/// The highest bit of each of eight bytes.
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// `alloc,` and `free,` at the upper end of eight bytes.
const ALLOC: u64 = u64::from_le_bytes(*b"\0\0alloc,");
const FREE: u64 = u64::from_le_bytes(*b"\0\0\0free,");

/// The powers of ten by which a number grows with so many digits more.
const POWERS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// Eight times the digit 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The value of eight digits, the first one lowest.
///
/// They are joined in pairs, then in fours, then in eights, all of them at once.
#[inline(always)]
fn digits_value(digits: u64) -> u64 {
    const PAIRS: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let low = (pairs >> 16 & PAIRS).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row at the beginning of a longer text.
    fn row(text: &str) -> Option<Plain> {
        let text = format!("{text}{}", " ".repeat(WINDOW));
        let text = text.as_bytes();
        Cursor { text, at: 0 }.row()
    }

    #[test]
    fn numbers_of_every_length_are_read() {
        for number in [
            0,
            7,
            12,
            1_234_567,
            12_345_678,
            123_456_789,
            9_876_543_210_987_654,
            1_234_567_890_123_456_789,
        ] {
            let read = row(&format!("alloc,{number},{number},0,{number}\n"));
            let read = read.unwrap_or_else(|| panic!("{number}"));
            assert_eq!(
                (read.key, read.bytes, read.time_ns),
                (number, number, number)
            );
        }
        let zeros = "0".repeat(MOST_DIGITS);
        assert_eq!(row(&format!("alloc,1,{zeros}\n")).unwrap().bytes, 0);
        assert_eq!(row(&format!("alloc,1,0{zeros}\n")), None);
        for wrong in [":", "/", "1:2", "12345678:", "1;", "p", "?345678", "\u{b1}"] {
            assert_eq!(row(&format!("alloc,1,{wrong},0\n")), None, "{wrong}");
        }
    }

    #[test]
    fn plain_rows_are_read_and_all_others_left() {
        let whole = row("alloc,7,4096,3,1500\n").unwrap();
        assert_eq!((whole.request, whole.key, whole.bytes), (true, 7, 4096));
        assert_eq!((whole.stream, whole.time_ns), (3, 1500));
        assert_eq!(whole.len, 20);
        let short = row("free,0\r\n").unwrap();
        assert_eq!(
            (short.request, short.has_bytes, short.has_stream),
            (false, false, false)
        );
        let late = row("free,0,,,9\n").unwrap();
        assert_eq!((late.has_time, late.time_ns), (true, 9));
        for left in [
            "alloc,7,4096",
            "alloc,7,4096,3,15",
            "alloc,07,1\n",
            "alloc,,1\n",
            "alloc,a,1\n",
            "alloc,7,1KiB\n",
            "alloc,7,1,0x1\n",
            "alloc,7,1,,,16\n",
            "alloc, 7,1\n",
            "Alloc,7,1\n",
            "free_deferred,7\n",
            "alloc,18446744073709551615,1\n",
            "alloc,12345678901234567890,1\n",
            "free,7,,,1us\n",
            "",
        ] {
            assert_eq!(row(left), None, "{left:?}");
        }
    }
}
