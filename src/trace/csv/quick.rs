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
    /// The next row, if it is plain and its line end is there too.
    #[inline(always)]
    fn row(&mut self) -> Option<Plain> {
        let begin = self.at;
        let head = self.ahead()?;
        let request = head << 16 == ALLOC;
        if request {
            self.at += 6;
        } else if head << 24 == FREE {
            self.at += 5;
        } else {
            return None;
        }
        let first = self.at;
        let (key, digits) = self.number()?;
        if digits == 0 || (digits > 1 && self.text[first] == b'0') {
            return None;
        }
        let key = plain_key(key)?;
        let (bytes, has_bytes) = self.cell()?;
        let (stream, has_stream) = self.cell()?;
        let (time_ns, has_time) = self.cell()?;
        match self.text.get(self.at..)? {
            [b'\n', ..] => self.at += 1,
            [b'\r', b'\n', ..] => self.at += 2,
            _ => return None,
        }
        Some(Plain {
            key,
            bytes,
            stream,
            time_ns,
            len: (self.at - begin) as u32,
            request,
            has_bytes,
            has_stream,
            has_time,
        })
    }

    /// The next eight bytes, the first one lowest; none where the text may end with them.
    #[inline(always)]
    fn ahead(&self) -> Option<u64> {
        let ahead = self.text.get(self.at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*ahead))
    }

    /// The number of the next cell, and whether there is one: the row may end before it, and
    /// it may be empty.
    #[inline(always)]
    fn cell(&mut self) -> Option<(u64, bool)> {
        if self.text.get(self.at) != Some(&b',') {
            return Some((0, false));
        }
        self.at += 1;
        let (number, digits) = self.number()?;
        Some((number, digits > 0))
    }

    /// The digits that come next, as a number, and how many they are. Nothing where there are
    /// more than surely fit, or where the text may end with them.
    #[inline(always)]
    fn number(&mut self) -> Option<(u64, usize)> {
        let eight = self.ahead()?;
        let count = leading_digits(eight);
        self.at += count;
        if count == 8 {
            return self.long_number(digits_value(eight, 8));
        }
        let value = if count == 0 {
            0
        } else {
            digits_value(eight, count)
        };
        Some((value, count))
    }

    /// As [`number`](Self::number), where the first eight digits are read and are `value`.
    #[inline(always)]
    fn long_number(&mut self, mut value: u64) -> Option<(u64, usize)> {
        let mut digits = 8;
        loop {
            let eight = self.ahead()?;
            let count = leading_digits(eight);
            if count == 0 {
                return Some((value, digits));
            }
            digits += count;
            if digits > MOST_DIGITS {
                return None;
            }
            self.at += count;
            value = value * POWERS[count] + digits_value(eight, count);
        }
    }
}

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

/// How many of eight bytes, the first one lowest, are decimal digits before another comes.
#[inline(always)]
fn leading_digits(eight: u64) -> usize {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const SIX: u64 = 0x0606_0606_0606_0606;
    // A digit's high half is 3, also when 6 is added; a carry only spoils what comes later.
    let other = (eight ^ ZEROS) & HIGH | (eight.wrapping_add(SIX) ^ ZEROS) & HIGH;
    (other.trailing_zeros() / 8) as usize
}

/// Eight times the digit 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The value of the first `count` of eight bytes, which are digits; `count` is not 0.
///
/// Digits are joined in pairs, then in fours, then in eights, all of them at once.
#[inline(always)]
fn digits_value(eight: u64, count: usize) -> u64 {
    const PAIRS: u64 = 0x0000_00ff_0000_00ff;
    // Zeros in front make eight of them.
    let digits = (eight ^ ZEROS) << (64 - 8 * count);
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
        let text = format!("{text}       ");
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
        ] {
            let text = format!("{number},alloc,0,0");
            let (text, digits) = (text.as_bytes(), text.len() - 10);
            let mut cursor = Cursor { text, at: 0 };
            assert_eq!(cursor.number(), Some((number, digits)));
            assert_eq!(cursor.at, digits);
        }
        for (text, number) in [
            (b",/:;<=>?", (0, 0)),
            (b"0/345678", (0, 1)),
            (b"9:345678", (9, 1)),
        ] {
            let mut cursor = Cursor { text, at: 0 };
            assert_eq!(cursor.number(), Some(number), "{text:?}");
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
