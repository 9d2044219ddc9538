//! Reading the input through a window: nothing is taken that is not there, and no more of
//! the file is held than an opcode at a time asks for.

use std::io::{self, Read};
use std::ops::Range;

use super::{Machine, PickleError, Problem, Sink, Step};

/// How much is read at once.
const CHUNK_BYTES: u64 = 256 << 10;
/// The window has so many bytes before an opcode, unless the file ends: more than any
/// opcode takes whose length is not written in it.
const LOW_BYTES: usize = 4096;

/// Of a text so much is kept; what is longer is read over. A frame of this length is
/// looked at as a whole.
const HELD_BYTES: u64 = 1 << 20;

/// The part of the input that is looked at.
pub(super) struct Window<R> {
    input: R,
    pub(super) bytes: Vec<u8>,
    /// The next byte to read, in `bytes`.
    pub(super) at: usize,
    /// Where in the input `bytes` begin.
    base: u64,
    ended: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R) -> Self {
        Window {
            input,
            bytes: Vec::new(),
            at: 0,
            base: 0,
            ended: false,
        }
    }

    /// The offset of the next byte in the input.
    #[inline(always)]
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next byte, which is not read yet.
    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Bytes ahead in the window.
    #[inline(always)]
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Sees to it that an opcode finds what it needs.
    #[inline(always)]
    pub(super) fn ready(&mut self) -> io::Result<()> {
        if self.left() < LOW_BYTES && !self.ended {
            return self.fill(LOW_BYTES as u64);
        }
        Ok(())
    }

    /// Reads until `count` bytes lie ahead, or the input ends.
    #[cold]
    fn fill(&mut self, count: u64) -> io::Result<()> {
        self.bytes.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        while !self.ended && (self.bytes.len() as u64) < count {
            let chunk = (&mut self.input).take(CHUNK_BYTES);
            self.ended = { chunk }.read_to_end(&mut self.bytes)? == 0;
        }
        Ok(())
    }

    /// Reads over `count` bytes, or as many as there are, and answers how many these were.
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let ahead = count.min(self.left() as u64);
        self.at += ahead as usize;
        let mut rest = (&mut self.input).take(count - ahead);
        let skipped = io::copy(&mut rest, &mut io::sink())?;
        self.base += skipped;
        Ok(ahead + skipped)
    }

    /// How many bytes are left in the input, all of them read to be counted.
    pub(super) fn count_rest(&mut self) -> io::Result<u64> {
        let rest = io::copy(&mut self.input, &mut io::sink())?;
        Ok(self.left() as u64 + rest)
    }
}

impl<R: Read, S: Sink> Machine<'_, R, S> {
    #[inline(always)]
    pub(super) fn byte(&mut self) -> Result<u8, PickleError> {
        match self.window.peek() {
            Some(byte) => {
                self.window.at += 1;
                Ok(byte)
            }
            None => Err(self.truncated(1)),
        }
    }

    #[inline(always)]
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        match self.window.bytes[self.window.at..].first_chunk::<N>() {
            Some(&chunk) => {
                self.window.at += N;
                Ok(chunk)
            }
            None => Err(self.truncated(N as u64)),
        }
    }

    /// Where in the window the next `len` bytes are, which are there or it is an error: a
    /// length is a claim until then.
    #[inline(always)]
    pub(super) fn take(&mut self, len: u64) -> Result<Range<usize>, PickleError> {
        if len > self.window.left() as u64 {
            self.need(len)?;
        }
        let start = self.window.at;
        self.window.at += len as usize;
        Ok(start..self.window.at)
    }

    /// Sees to it that `len` bytes lie ahead.
    #[cold]
    fn need(&mut self, len: u64) -> Step {
        self.window.fill(len).map_err(|error| self.broken(&error))?;
        if len > self.window.left() as u64 {
            return Err(self.truncated(len));
        }
        Ok(())
    }

    /// As [`take`](Self::take), for what may be long: of more than a MiB only the beginning
    /// is held, and the rest is read over.
    #[inline(always)]
    pub(super) fn take_beginning(&mut self, len: u64) -> Result<Range<usize>, PickleError> {
        if len <= HELD_BYTES {
            return self.take(len);
        }
        self.take_over(len)
    }

    #[cold]
    fn take_over(&mut self, len: u64) -> Result<Range<usize>, PickleError> {
        self.window
            .fill(HELD_BYTES)
            .map_err(|error| self.broken(&error))?;
        let kept = self.window.left().min(HELD_BYTES as usize);
        let start = self.window.at;
        self.window.at += kept;
        let rest = len - kept as u64;
        let skipped = self.window.skip(rest);
        let skipped = skipped.map_err(|error| self.broken(&error))?;
        if skipped < rest {
            return Err(self.error(Problem::Truncated {
                needed: len,
                left: kept as u64 + skipped,
            }));
        }
        self.store.count_cut();
        Ok(start..start + kept)
    }

    /// Where in the window the bytes up to the next line break are, which is read too.
    pub(super) fn line(&mut self) -> Result<Range<usize>, PickleError> {
        let mut seen = 0;
        loop {
            let ahead = &self.window.bytes[self.window.at..];
            if let Some(len) = memchr::memchr(b'\n', &ahead[seen..]) {
                let start = self.window.at;
                let end = start + seen + len;
                self.window.at = end + 1;
                return Ok(start..end);
            }
            seen = ahead.len();
            self.need(seen as u64 + 1)?;
        }
    }

    pub(super) fn protocol(&mut self) -> Step {
        match self.byte()? {
            0..=5 => Ok(()),
            version => Err(self.error(Problem::Protocol { version })),
        }
    }

    /// A frame only announces how much follows, so it is a chance to see early that a file is cut.
    pub(super) fn frame(&mut self) -> Step {
        let len = u64::from_le_bytes(self.fixed()?);
        if len > self.window.left() as u64 && len <= HELD_BYTES {
            self.need(len)?;
        }
        Ok(())
    }

    #[cold]
    pub(super) fn truncated(&self, needed: u64) -> PickleError {
        self.error(Problem::Truncated {
            needed,
            left: self.window.left() as u64,
        })
    }

    #[cold]
    pub(super) fn broken(&self, error: &io::Error) -> PickleError {
        self.error(Problem::Unreadable {
            what: error.to_string(),
        })
    }
}
