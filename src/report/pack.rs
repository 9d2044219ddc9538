//! Columns of whole numbers, packed small: what the page's script unpacks (`unpack.js`).
//!
//! A column's numbers are divided by what divides them all, taken as differences where that
//! helps, and written as planes of bytes (all lowest bytes, then all second ones), for equal
//! bytes side by side are what deflate is good at. Columns of one pack follow one another and
//! are deflated together; the result is base64.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

/// What the page must know to unpack a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    name: &'static str,
    count: usize,
    /// Every number is multiplied by this.
    scale: u64,
    /// Bytes of a number: how many planes there are.
    width: u32,
    /// Whether the numbers are differences to the one before, signs folded in.
    delta: bool,
    /// Whether 0 stands for "undefined", and everything else is one more than it should be.
    optional: bool,
}

/// Columns that are unpacked together.
#[derive(Debug, Clone, Default)]
pub struct Pack {
    columns: Vec<Column>,
    bytes: Vec<u8>,
}

impl Pack {
    /// Adds a column of numbers that have nothing to do with their neighbours.
    pub fn plain(&mut self, name: &'static str, values: impl IntoIterator<Item = u64>) {
        self.add(name, values.into_iter().collect(), false, false);
    }

    /// Adds a column of numbers that are near the one before.
    pub fn delta(&mut self, name: &'static str, values: impl IntoIterator<Item = u64>) {
        self.add(name, values.into_iter().collect(), true, false);
    }

    /// Adds a column in which a number may be undefined.
    pub fn optional(&mut self, name: &'static str, values: impl IntoIterator<Item = Option<u64>>) {
        let values = values.into_iter();
        let values = values.map(|value| value.map_or(0, |value| value + 1));
        self.add(name, values.collect(), false, true);
    }

    fn add(&mut self, name: &'static str, mut values: Vec<u64>, delta: bool, optional: bool) {
        let count = values.len();
        let scale = values.iter().fold(0, |a, b| gcd(a, *b)).max(1);
        for value in &mut values {
            *value /= scale;
        }
        if delta {
            let mut before = 0;
            for value in &mut values {
                (*value, before) = (folded(*value, before), *value);
            }
        }
        let greatest = values.iter().copied().max().unwrap_or(0);
        let width = (u64::BITS - greatest.leading_zeros()).div_ceil(8);
        for plane in 0..width {
            let bytes = values.iter().map(|value| (value >> (8 * plane)) as u8);
            self.bytes.extend(bytes);
        }
        self.columns.push(Column {
            name,
            count,
            scale,
            width,
            delta,
            optional,
        });
    }

    /// What the page must know of the columns, and the columns as base64.
    #[must_use]
    pub fn finish(self) -> (Vec<Column>, String) {
        (self.columns, deflated(&self.bytes))
    }
}

/// Deflated bytes (with the header of zlib) as base64.
///
/// # Panics
/// Never: memory can be written.
#[must_use]
pub fn deflated(bytes: &[u8]) -> String {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
    out.write_all(bytes).expect("memory is writable");
    base64(&out.finish().expect("memory is writable"))
}

/// The difference `value - before`, with its sign in the lowest bit.
fn folded(value: u64, before: u64) -> u64 {
    let difference = value.wrapping_sub(before) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Base64 as RFC 4648, section 4, has it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() {
                letter as char
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in vectors {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_column_is_divided_folded_and_laid_in_planes() {
        let mut pack = Pack::default();
        pack.delta("address", [512, 1024, 0, 512 * 300]);
        pack.optional("share", [None, Some(0), Some(5)]);
        pack.plain("nothing", [0, 0]);
        let told: Vec<(u64, u32)> = pack.columns.iter().map(|it| (it.scale, it.width)).collect();
        assert_eq!(told, [(512, 2), (1, 1), (1, 0)]);
        // 1, 2, 0, 300 in units of 512: differences 1, 1, -2, 300, folded 2, 2, 3, 600.
        assert_eq!(pack.bytes, [2, 2, 3, 88, 0, 0, 0, 2, 0, 1, 6]);
    }

    #[test]
    fn the_widest_numbers_pass() {
        let mut pack = Pack::default();
        pack.delta("wide", [u64::MAX, 0, u64::MAX]);
        assert_eq!(pack.columns[0].scale, u64::MAX);
        pack.plain("odd", [u64::MAX, 1]);
        assert_eq!(pack.columns[1].width, 8);
    }
}
