//! What the text formats share: bounded lines, cells of a row, columns by name,
//! and numbers.

mod blocks;
mod lines;

use std::borrow::Cow;

use crate::units;

pub use blocks::Blocks;
pub use lines::Lines;

/// The longest line that is read: a longer one is no table, and must not fill memory.
pub const MAX_LINE_BYTES: u64 = 1 << 20;
/// The most cells of a row.
pub const MAX_CELLS: usize = 32;

/// Which file is being read, for its errors and its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file as errors name it.
    pub file: String,
    /// The name of the trace: the file's, without folders and known extensions.
    pub name: String,
}

impl Source {
    /// A source whose file and trace have the same name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Source {
            file: name.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// The cells of one line, split at commas outside double quotes.
pub struct Row<'t> {
    text: &'t str,
    cells: [(u32, u32); MAX_CELLS],
    count: usize,
}

impl<'t> Row<'t> {
    /// Splits a line.
    ///
    /// # Errors
    /// An open quote, or more than [`MAX_CELLS`] cells.
    pub fn split(text: &'t str) -> Result<Self, String> {
        let mut row = Row {
            text,
            cells: [(0, 0); MAX_CELLS],
            count: 0,
        };
        let (mut begin, mut quoted) = (0, false);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'"' => quoted = !quoted,
                b',' if !quoted => {
                    row.add(begin, at)?;
                    begin = at + 1;
                }
                _ => {}
            }
        }
        if quoted {
            return Err("a double quote is opened and not closed".to_owned());
        }
        row.add(begin, text.len())?;
        Ok(row)
    }

    fn add(&mut self, begin: usize, end: usize) -> Result<(), String> {
        let Some(cell) = self.cells.get_mut(self.count) else {
            return Err(format!("more than {MAX_CELLS} cells in a row"));
        };
        *cell = (begin as u32, end as u32);
        self.count += 1;
        Ok(())
    }

    /// How many cells there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// A cell, trimmed and without quotes; empty where the row or the table has none.
    #[must_use]
    pub fn get(&self, column: Option<usize>) -> Cow<'t, str> {
        let Some(column) = column.filter(|column| *column < self.count) else {
            return Cow::Borrowed("");
        };
        let (begin, end) = self.cells[column];
        let cell = &self.text[begin as usize..end as usize];
        let plain = |byte: Option<&u8>| byte.is_none_or(|byte| matches!(byte, b'#'..=b'~'));
        if plain(cell.as_bytes().first()) && plain(cell.as_bytes().last()) {
            return Cow::Borrowed(cell);
        }
        let cell = cell.trim();
        match cell
            .strip_prefix('"')
            .and_then(|cell| cell.strip_suffix('"'))
        {
            Some(inner) if inner.contains('"') => Cow::Owned(inner.replace("\"\"", "\"")),
            Some(inner) => Cow::Borrowed(inner),
            None => Cow::Borrowed(cell),
        }
    }
}

/// The columns of a table, by the names of its header.
pub struct Columns {
    names: Vec<String>,
    asked: Vec<bool>,
}

impl Columns {
    /// Columns of a header line; names are matched without regard to case.
    ///
    /// # Errors
    /// As [`Row::split`], or a name that comes twice.
    pub fn of(header: &str) -> Result<Self, String> {
        let row = Row::split(header)?;
        let names: Vec<String> = (0..row.count())
            .map(|at| row.get(Some(at)).to_ascii_lowercase())
            .collect();
        for (at, name) in names.iter().enumerate() {
            if !name.is_empty() && names[..at].contains(name) {
                return Err(format!("column '{name}' comes twice in the header"));
            }
        }
        Ok(Columns {
            asked: vec![false; names.len()],
            names,
        })
    }

    /// Where the column is that has one of these names.
    pub fn find(&mut self, names: &[&str]) -> Option<usize> {
        let at = self
            .names
            .iter()
            .position(|name| names.contains(&&**name))?;
        self.asked[at] = true;
        Some(at)
    }

    /// As [`find`](Self::find), for a column without which the table makes no sense.
    ///
    /// # Errors
    /// No such column: the error tells the header.
    pub fn need(&mut self, names: &[&str]) -> Result<usize, String> {
        self.find(names).ok_or_else(|| {
            format!(
                "the header '{}' lacks a column '{}'",
                self.names.join(","),
                names.join("' or '")
            )
        })
    }

    /// How many columns there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The names that nothing asked for: what the importer does not carry over.
    pub fn unread(&self) -> impl Iterator<Item = &str> {
        let asked = self.asked.iter();
        self.names
            .iter()
            .zip(asked)
            .filter_map(|(name, asked)| (!asked && !name.is_empty()).then_some(&**name))
    }
}

/// A plain number, decimal or `0x...`.
///
/// # Errors
/// Anything else, or more than 64 bits: the message names `what` and the text.
pub fn number(text: &str, what: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if is_hex(digits) => u64::from_str_radix(digits, 16).ok(),
        None if is_decimal(text) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| {
        format!(
            "{what} '{}': expected a number from 0 to {}, decimal or 0x...",
            shown(text),
            u64::MAX
        )
    })
}

/// A size in bytes: a plain number, or one with a binary unit.
///
/// # Errors
/// As [`units::parse_bytes`].
pub fn bytes(text: &str, what: &str) -> Result<u64, String> {
    if is_decimal(text)
        && let Ok(bytes) = text.parse()
    {
        return Ok(bytes);
    }
    units::parse_bytes(text).map_err(|error| {
        let error = error.to_string();
        let rest = error.strip_prefix("size").unwrap_or(&error);
        format!("{what}{}", shown(rest))
    })
}

/// A size or an address: as [`bytes`], or `0x...`.
///
/// # Errors
/// As [`number`] and [`bytes`].
pub fn bytes_or_hex(text: &str, what: &str) -> Result<u64, String> {
    if text.starts_with("0x") || text.starts_with("0X") {
        number(text, what)
    } else {
        bytes(text, what)
    }
}

/// Nanoseconds: a plain number of them, or one with a unit of time.
///
/// # Errors
/// As [`units::parse_nanos`].
pub fn nanos(text: &str) -> Result<u64, String> {
    if is_decimal(text)
        && let Ok(nanos) = text.parse()
    {
        return Ok(nanos);
    }
    units::parse_nanos(text).map_err(|error| format!("time: {}", shown(&error.to_string())))
}

/// Whether the text is nothing but decimal digits.
#[must_use]
pub fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is nothing but hexadecimal digits.
#[must_use]
pub fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The text as an error shows it: control characters escaped, cut after 120 characters.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(120).flat_map(escaped).collect();
    if text.chars().nth(120).is_some() {
        out.push_str("...");
    }
    out
}

fn escaped(c: char) -> Vec<char> {
    if c.is_control() {
        c.escape_default().collect()
    } else {
        vec![c]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_split_at_commas_outside_quotes() {
        let row = Row::split("mark, \"a, \"\"b\"\"\" ,,7").unwrap();
        assert_eq!(row.count(), 4);
        assert_eq!(row.get(Some(1)), "a, \"b\"");
        assert_eq!(row.get(Some(2)), "");
        assert_eq!(row.get(Some(9)), "");
        assert!(Row::split("a,\"b").is_err());
        assert!(Row::split(&",".repeat(MAX_CELLS)).is_err());
    }

    #[test]
    fn numbers_refuse_signs_and_overflow_and_name_the_text() {
        assert_eq!(number("0x1F", "stream"), Ok(31));
        for bad in ["-1", "+1", "", "0x", "18446744073709551616", "1e3"] {
            let message = number(bad, "stream").unwrap_err();
            assert!(message.contains(&format!("'{bad}'")), "{message}");
        }
    }

    #[test]
    fn lines_are_bounded_and_name_the_bad_byte() {
        let mut input: &[u8] = b"\xef\xbb\xbfa\r\n\nb\xff\n";
        let mut lines = Lines::new(&mut input, "f");
        let mut text = String::new();
        assert!(lines.next(&mut text).unwrap());
        assert_eq!(text, "a");
        let error = lines.next_row(&mut text, "#").unwrap_err().to_string();
        assert!(
            error.starts_with("f, line 3: byte 0xff at column 2"),
            "{error}"
        );
        let mut endless = std::io::BufReader::new(std::io::repeat(0));
        let error = Lines::new(&mut endless, "f").next(&mut text).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
