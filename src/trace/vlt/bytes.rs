//! Variable-length numbers: seven bits a byte, low bits first, the top bit says "more".

/// What a payload that cannot be decoded says; the frame adds its offset.
pub type Broken = String;

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference so that small ones of either sign are short.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a text with its length.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A place in a payload. Every read is checked against what is there.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Broken> {
        let (first, rest) = self.rest.split_first().ok_or_else(short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], Broken> {
        let count = usize::try_from(count).map_err(|_| short())?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next number.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Broken> {
        if let [first @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*first));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Result<u64, Broken> {
        let mut value = 0u64;
        for (at, byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && *byte > 1 {
                return Err("a number of more than 64 bits".to_owned());
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(short())
    }

    /// The next difference.
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Broken> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next number, of a narrower type.
    #[inline]
    pub fn narrow<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, Broken> {
        let value = self.number()?;
        T::try_from(value).map_err(|_| format!("{what} {value} is out of range"))
    }

    /// The next count, of things that take at least one byte each: so that a count can
    /// never ask for more memory than the payload is long.
    pub fn count(&mut self, what: &str) -> Result<usize, Broken> {
        let count = self.number()?;
        if count > self.rest.len() as u64 {
            let left = self.rest.len();
            return Err(format!("{count} {what} in the {left} bytes that are left"));
        }
        Ok(count as usize)
    }

    /// The next text.
    pub fn text(&mut self) -> Result<String, Broken> {
        let length = self.number()?;
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8".to_owned())?;
        Ok(text.to_owned())
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Broken> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(format!("{left} bytes are left over")),
        }
    }
}

fn short() -> Broken {
    "the payload ends too early".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_at_every_length() {
        let mut out = Vec::new();
        let values = (0..64).map(|bit| 1u64 << bit).chain([0, u64::MAX]);
        for value in values.clone() {
            put(&mut out, value);
            put_signed(&mut out, value as i64);
        }
        let mut cursor = Cursor::new(&out);
        for value in values {
            assert_eq!(cursor.number(), Ok(value));
            assert_eq!(cursor.signed(), Ok(value as i64));
        }
        assert_eq!(cursor.end(), Ok(()));
    }

    #[test]
    fn broken_numbers_are_errors() {
        assert!(Cursor::new(&[0x80]).number().is_err());
        assert!(Cursor::new(&[0xff; 10]).number().is_err());
        assert!(Cursor::new(&[0xff; 11]).number().is_err());
        assert!(Cursor::new(&[5, 1]).count("texts").is_err());
        assert!(Cursor::new(&[3, b'a']).text().is_err());
    }
}
