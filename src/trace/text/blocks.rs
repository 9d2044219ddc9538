//! Text in large blocks, which are worth more than one thread.

use std::io::{self, BufRead, ErrorKind, Read};

/// Blocks are as large as this, where there is so much.
const BLOCK_BYTES: usize = 2 << 20;

/// Gathers what a reader gives in small pieces; large ones are passed on as they are.
pub struct Blocks<'a> {
    input: &'a mut dyn BufRead,
    block: Vec<u8>,
    /// The next byte of `block`.
    at: usize,
    /// Whether what was given last lies in the reader itself.
    passed_on: bool,
    /// What the reader said behind the end of `block`.
    failure: Option<io::Error>,
}

impl<'a> Blocks<'a> {
    /// Blocks of `input`.
    pub fn new(input: &'a mut dyn BufRead) -> Self {
        Blocks {
            input,
            block: Vec::new(),
            at: 0,
            passed_on: false,
            failure: None,
        }
    }

    /// Reads the next block; a failure is told once all that came before it was.
    fn gather(&mut self) -> io::Result<()> {
        self.block.clear();
        self.at = 0;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.block.len() < BLOCK_BYTES {
            match self.input.fill_buf() {
                Ok([]) => break,
                Ok(ready) => {
                    self.block.extend_from_slice(ready);
                    let read = ready.len();
                    self.input.consume(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if self.block.is_empty() => return Err(error),
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        Ok(())
    }
}

impl BufRead for Blocks<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.block.len() {
            self.passed_on = self.failure.is_none() && self.input.fill_buf()?.len() >= BLOCK_BYTES;
            if self.passed_on {
                return self.input.fill_buf();
            }
            self.gather()?;
        }
        Ok(&self.block[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        if self.passed_on {
            self.input.consume(bytes);
        } else {
            self.at += bytes;
        }
    }
}

impl Read for Blocks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, and fails at the end.
    struct Slow(usize);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::other("gone"));
            }
            let count = self.0.min(buffer.len()).min(1000);
            buffer[..count].fill(b'a');
            self.0 -= count;
            Ok(count)
        }
    }

    #[test]
    fn small_pieces_are_gathered_and_a_failure_comes_after_them() {
        let mut slow = io::BufReader::new(Slow(BLOCK_BYTES + 7000));
        let mut blocks = Blocks::new(&mut slow);
        let first = blocks.fill_buf().unwrap().len();
        assert!(first >= BLOCK_BYTES);
        blocks.consume(first);
        let second = blocks.fill_buf().unwrap().len();
        assert_eq!(first + second, BLOCK_BYTES + 7000);
        blocks.consume(second - 1);
        assert_eq!(blocks.fill_buf().unwrap(), b"a");
        blocks.consume(1);
        assert_eq!(blocks.fill_buf().unwrap_err().to_string(), "gone");
    }

    #[test]
    fn large_pieces_are_passed_on() {
        let text = vec![b'x'; BLOCK_BYTES + 3];
        let mut input = &text[..];
        let mut blocks = Blocks::new(&mut input);
        assert_eq!(blocks.fill_buf().unwrap().as_ptr(), text.as_ptr());
        blocks.consume(BLOCK_BYTES);
        assert_eq!(blocks.fill_buf().unwrap(), b"xxx");
        blocks.consume(3);
        assert!(blocks.fill_buf().unwrap().is_empty());
    }
}
