//! The rows that most files are made of, read in one pass over their bytes.
//!
//! Such a row is a request or a free by number, in the usual order of the columns, with
//! plain decimal cells up to its time: what [`write()`](super::write()) makes of nearly
//! every event. A row with anything else in it, and one that may be wrong, is left to the
//! reader of all rows, which gives the same.

use super::super::builder::{Ask, TraceBuilder};
use super::super::keys::plain_key;
use super::Table;

/// So many digits fit 64 bits, whatever they are.
const MOST_DIGITS: usize = 19;

/// A row of plain cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plain {
    request: bool,
    key: u64,
    bytes: Option<u64>,
    stream: Option<u64>,
    time_ns: Option<u64>,
}

/// Whether the columns of a table come in the usual order.
pub(super) fn is_usual(table: &Table) -> bool {
    let cells = [table.event, table.id, table.bytes, table.stream, table.time];
    let mut places = cells.iter().zip(0..);
    places.all(|(cell, place)| *cell == Some(place))
}

/// Reads rows from the beginning of `text` as long as they are plain; answers how many
/// they were, and how many bytes with their line ends.
pub(super) fn rows(text: &[u8], builder: &mut TraceBuilder) -> (u64, usize) {
    let (mut rows, mut taken) = (0, 0);
    let mut cursor = Cursor { rest: text };
    while let Some(row) = cursor.row()
        && add(&row, builder)
    {
        rows += 1;
        taken = text.len() - cursor.rest.len();
    }
    (rows, taken)
}

/// Adds the event of a row; false where it may be wrong, and then it is still to be added.
fn add(row: &Plain, builder: &mut TraceBuilder) -> bool {
    if let Some(time_ns) = row.time_ns {
        builder.at(time_ns);
    }
    if !row.request {
        let stream = match row.stream.map(|raw| builder.try_stream(raw)) {
            Some(None) => return false,
            Some(stream) => stream,
            None => None,
        };
        builder.free(row.key, stream, false);
        return true;
    }
    let (Some(bytes), Some(stream)) = (row.bytes, builder.try_stream(row.stream.unwrap_or(0)))
    else {
        return false;
    };
    let ask = Ask {
        bytes,
        stream,
        ..Ask::default()
    };
    !builder.is_pending(row.key) && builder.alloc(row.key, ask).is_ok()
}

struct Cursor<'t> {
    rest: &'t [u8],
}

impl Cursor<'_> {
    /// The next row, if it is plain and its line end is there too.
    #[inline]
    fn row(&mut self) -> Option<Plain> {
        let request = self.word(b"alloc,");
        if !request && !self.word(b"free,") {
            return None;
        }
        if let [b'0', b'0'..=b'9', ..] = self.rest {
            return None;
        }
        let key = plain_key(self.number()??)?;
        Some(Plain {
            request,
            key,
            bytes: self.cell()?,
            stream: self.cell()?,
            time_ns: self.cell()?,
        })
        .filter(|_| self.word(b"\n") || self.word(b"\r\n"))
    }

    /// Whether `word` comes next; then it is behind.
    #[inline]
    fn word(&mut self, word: &[u8]) -> bool {
        let Some(rest) = self.rest.strip_prefix(word) else {
            return false;
        };
        self.rest = rest;
        true
    }

    /// The number of the next cell; none where the row ends before it or it is empty.
    #[inline]
    fn cell(&mut self) -> Option<Option<u64>> {
        if !self.word(b",") {
            return Some(None);
        }
        self.number()
    }

    /// The digits that come next, as a number; none where there are none. Nothing where
    /// there are more than surely fit, or where the text may end with them.
    #[inline(always)]
    fn number(&mut self) -> Option<Option<u64>> {
        let (mut value, mut digits) = (0u64, 0);
        loop {
            let eight = u64::from_le_bytes(*self.rest[digits..].first_chunk()?);
            let count = leading_digits(eight);
            if count == 0 {
                break;
            }
            // Of a number that is too long only its length counts.
            value = value.wrapping_mul(POWERS[count]);
            value = value.wrapping_add(digits_value(eight, count));
            digits += count;
            if digits > MOST_DIGITS {
                return None;
            }
            if count < 8 {
                break;
            }
        }
        self.rest = &self.rest[digits..];
        Some((digits > 0).then_some(value))
    }
}

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
        Cursor {
            rest: text.as_bytes(),
        }
        .row()
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
            let mut cursor = Cursor {
                rest: text.as_bytes(),
            };
            assert_eq!(cursor.number(), Some(Some(number)));
            assert_eq!(cursor.rest, b",alloc,0,0");
        }
        for (text, number) in [
            (",/:;<=>?", None),
            ("0/345678", Some(0)),
            ("9:345678", Some(9)),
        ] {
            let mut cursor = Cursor {
                rest: text.as_bytes(),
            };
            assert_eq!(cursor.number(), Some(number), "{text}");
        }
    }

    #[test]
    fn plain_rows_are_read_and_all_others_left() {
        let whole = row("alloc,7,4096,3,1500\n").unwrap();
        assert_eq!(
            (whole.request, whole.key, whole.bytes),
            (true, 7, Some(4096))
        );
        assert_eq!((whole.stream, whole.time_ns), (Some(3), Some(1500)));
        let short = row("free,0\r\n").unwrap();
        assert_eq!(
            (short.request, short.bytes, short.stream),
            (false, None, None)
        );
        assert_eq!(row("free,0,,,9\n").unwrap().time_ns, Some(9));
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
