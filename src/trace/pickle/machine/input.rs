//! Reading the input: nothing is taken that is not there.

use super::{Machine, PickleError, Problem, Sink, Step};

impl<'a, S: Sink> Machine<'a, '_, S> {
    #[inline(always)]
    pub(super) fn byte(&mut self) -> Result<u8, PickleError> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => Err(self.truncated(1)),
        }
    }

    #[inline(always)]
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(&chunk) => {
                self.at += N;
                Ok(chunk)
            }
            None => Err(self.truncated(N as u64)),
        }
    }

    /// The next `len` bytes, which are there or it is an error: a length is a claim until then.
    #[inline(always)]
    pub(super) fn take(&mut self, len: u64) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        if len > rest.len() as u64 {
            return Err(self.truncated(len));
        }
        let len = len as usize;
        self.at += len;
        Ok(&rest[..len])
    }

    /// The bytes up to the next line break, which is read too.
    pub(super) fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        let Some(len) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(self.truncated(rest.len() as u64 + 1));
        };
        self.at += len + 1;
        Ok(&rest[..len])
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
        if len > (self.bytes.len() - self.at) as u64 {
            return Err(self.truncated(len));
        }
        Ok(())
    }
}
