//! Lines of a text, bounded and placed.

use std::io::{BufRead, Read};

use super::super::TraceError;
use super::MAX_LINE_BYTES;

/// Reads a file line by line, never holding more than one.
pub struct Lines<'a> {
    input: &'a mut dyn BufRead,
    file: &'a str,
    line: u64,
}

impl<'a> Lines<'a> {
    /// Lines of `input`, which errors call `file`.
    pub fn new(input: &'a mut dyn BufRead, file: &'a str) -> Self {
        Lines {
            input,
            file,
            line: 0,
        }
    }

    /// As [`new`](Self::new), where `line` lines were read before.
    pub fn after(input: &'a mut dyn BufRead, file: &'a str, line: u64) -> Self {
        Lines { input, file, line }
    }

    /// Puts the next line into `text`, without its end; false after the last one.
    ///
    /// # Errors
    /// A line that is too long or not UTF-8, or what the reader says.
    pub fn next(&mut self, text: &mut String) -> Result<bool, TraceError> {
        let mut bytes = std::mem::take(text).into_bytes();
        bytes.clear();
        self.line += 1;
        if !self.line_into(&mut bytes)? {
            self.line -= 1;
            return Ok(false);
        }
        while matches!(bytes.last(), Some(b'\n' | b'\r')) {
            bytes.pop();
        }
        if self.line == 1 && bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        *text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[at];
            self.error(format!(
                "byte 0x{byte:02x} at column {} is not UTF-8",
                at + 1
            ))
            .or("save the file as UTF-8")
        })?;
        Ok(true)
    }

    /// The bytes up to the next line end, and with it; false where nothing is left.
    fn line_into(&mut self, bytes: &mut Vec<u8>) -> Result<bool, TraceError> {
        // Nearly every line lies in the reader's buffer as a whole.
        let ready = self.fill()?;
        if let Some(end) = memchr::memchr(b'\n', ready)
            && (end as u64) < MAX_LINE_BYTES
        {
            bytes.extend_from_slice(&ready[..=end]);
            self.input.consume(end + 1);
            return Ok(true);
        }
        let read = (&mut *self.input)
            .take(MAX_LINE_BYTES + 1)
            .read_until(b'\n', bytes)
            .map_err(|source| self.io(source))?;
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(self
                .error(format!("a line of more than {MAX_LINE_BYTES} bytes"))
                .or("this is no text trace; check that the file is what its header says"));
        }
        Ok(read > 0)
    }

    /// What the reader's buffer holds; empty at the end.
    fn fill(&mut self) -> Result<&[u8], TraceError> {
        while let Err(error) = self.input.fill_buf() {
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(self.io(error));
            }
        }
        let ready = self.input.fill_buf();
        ready.map_err(|error| TraceError::io(self.file, error))
    }

    /// Offers the bytes that lie ready to `take`, which answers how many whole lines it
    /// took from their beginning, and how many bytes these are; tells how many lines.
    ///
    /// # Errors
    /// What the reader says.
    pub fn ready(&mut self, take: impl FnOnce(&[u8]) -> (u64, usize)) -> Result<u64, TraceError> {
        self.line += 1;
        let (lines, bytes) = take(self.fill()?);
        self.line -= 1;
        self.line += lines;
        self.input.consume(bytes);
        Ok(lines)
    }

    /// As [`next`](Self::next), passing over blank lines and, where `comment` is given,
    /// over lines that begin with it.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_row(&mut self, text: &mut String, comment: &str) -> Result<bool, TraceError> {
        while self.next(text)? {
            let row = text.trim_start();
            if !row.is_empty() && (comment.is_empty() || !row.starts_with(comment)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The number of the line last read, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// An error at the line last read.
    pub fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::at_line(self.file, self.line, what)
    }

    /// Puts `what` at the line last read, where it is an error.
    ///
    /// # Errors
    /// `result`'s.
    pub fn place<T, E: Into<String>>(&self, result: Result<T, E>) -> Result<T, TraceError> {
        result.map_err(|what| self.error(what))
    }

    /// An error of the reader below: broken compression, or the system's.
    fn io(&self, source: std::io::Error) -> TraceError {
        match source.kind() {
            std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                self.error(source.to_string())
            }
            _ => TraceError::io(self.file, source),
        }
    }
}
