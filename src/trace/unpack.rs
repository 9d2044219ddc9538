//! Undoes `.gz` and `.zst` by content, and bounds what may come out.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::rc::Rc;

use super::TraceError;
use crate::units::format_bytes;

/// How much of a file is looked at before it is decided what it is.
pub const HEAD_BYTES: usize = 64 << 10;
/// How often a file may be compressed over: once more than once.
const MAX_LAYERS: usize = 2;
/// A file that must be held in memory may grow to this many times its compressed size;
/// real snapshots compress 10 to 60 times, a bomb 1,000 times and more.
const MAX_RATIO: u64 = 200;
/// How often the growth of a file is looked at.
const LOOK_BYTES: u64 = 1 << 20;
/// Growth below this many bytes is never taken for a bomb.
const ALWAYS_ALLOWED_BYTES: u64 = 256 << 20;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A file with its compression undone.
pub struct Unpacked {
    /// Its first bytes, at most [`HEAD_BYTES`].
    pub head: Vec<u8>,
    /// The whole of it, `head` again first.
    pub input: Box<dyn BufRead>,
    /// Bytes taken from the file so far.
    packed_bytes: Rc<Cell<u64>>,
}

/// Undoes the compression of `raw`, which errors call `file`; at most `limit_bytes` may
/// come out of it.
///
/// # Errors
/// What the reader says, compression that is broken, or more than two layers of it.
pub fn unpack(raw: Box<dyn Read>, file: &str, limit_bytes: u64) -> Result<Unpacked, TraceError> {
    let packed_bytes = Rc::new(Cell::new(0));
    let mut input: Box<dyn Read> = Box::new(Counted {
        inner: raw,
        bytes: Rc::clone(&packed_bytes),
    });
    for layer in 0..=MAX_LAYERS {
        let (head, whole) = peek(input, file)?;
        let (what, inner): (_, Box<dyn Read>) = if head.starts_with(&GZIP) {
            ("gzip", Box::new(flate2::read::MultiGzDecoder::new(whole)))
        } else if head.starts_with(&ZSTD) {
            let decoder = zstd::Decoder::new(whole);
            (
                "zstd",
                Box::new(decoder.map_err(|error| TraceError::io(file, error))?),
            )
        } else {
            return Ok(Unpacked {
                head,
                input: Box::new(BufReader::with_capacity(HEAD_BYTES, whole)),
                packed_bytes,
            });
        };
        if layer == MAX_LAYERS {
            return Err(TraceError::whole(
                file,
                format!("compressed more than {MAX_LAYERS} times over"),
            )
            .or("decompress it first"));
        }
        input = Box::new(Layer {
            inner,
            what,
            bytes: 0,
            limit_bytes,
        });
    }
    unreachable!("the last layer returns")
}

impl Unpacked {
    /// Reads the whole file into memory, for formats that need it there.
    ///
    /// # Errors
    /// What the reader says, or a file that grows as only a bomb does.
    pub fn hold(self, file: &str) -> Result<Vec<u8>, TraceError> {
        let mut guarded = self.guarded(file);
        let mut bytes = Vec::new();
        let read = guarded.read_to_end(&mut bytes);
        match (read, guarded.fault) {
            (_, Some(fault)) => Err(fault),
            (Err(error), None) => Err(TraceError::io(file, error)),
            (Ok(_), None) => Ok(bytes),
        }
    }

    /// A reader of the file, for formats whose size in memory follows the file's: it ends a
    /// file that grows as only a bomb does.
    #[must_use]
    pub fn guarded(self, file: &str) -> Guarded<'_> {
        Guarded {
            input: self.input,
            packed_bytes: self.packed_bytes,
            file,
            bytes: 0,
            fault: None,
        }
    }
}

/// See [`Unpacked::guarded`].
pub struct Guarded<'a> {
    input: Box<dyn BufRead>,
    packed_bytes: Rc<Cell<u64>>,
    file: &'a str,
    bytes: u64,
    /// What is wrong with the file, once reading has failed.
    pub fault: Option<TraceError>,
}

impl Read for Guarded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // No further than the next point at which the growth is looked at.
        let before = self.bytes / LOOK_BYTES * LOOK_BYTES;
        let ahead = usize::try_from(before + LOOK_BYTES - self.bytes).unwrap_or(usize::MAX);
        let ahead = ahead.min(buffer.len());
        let read = match self.input.read(&mut buffer[..ahead]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => return Err(self.failed(broken(self.file, before, error))),
        };
        self.bytes += read as u64;
        if (read == 0 && !buffer.is_empty()) || self.bytes.is_multiple_of(LOOK_BYTES) {
            let packed = self.packed_bytes.get();
            let allowed = packed.saturating_mul(MAX_RATIO).max(ALWAYS_ALLOWED_BYTES);
            if self.bytes > allowed {
                let (from, to) = (format_bytes(packed), format_bytes(self.bytes));
                let what = format!("{from} of compressed data grew to {to} and more");
                let fault = TraceError::whole(self.file, what)
                    .or("if it is a real trace, decompress it first");
                return Err(self.failed(fault));
            }
        }
        Ok(read)
    }
}

impl Guarded<'_> {
    /// Keeps what is wrong; the reader above is told no more than that something is.
    fn failed(&mut self, fault: TraceError) -> io::Error {
        let told = io::Error::other(fault.to_string());
        self.fault = Some(fault);
        told
    }
}

/// An error of reading: broken compression is bad input, the rest the system's.
#[must_use]
pub fn broken(file: &str, offset: u64, error: io::Error) -> TraceError {
    if error.kind() == io::ErrorKind::InvalidData {
        TraceError::at_offset(file, offset, error.to_string())
    } else {
        TraceError::io(file, error)
    }
}

type Whole = Chain<Cursor<Vec<u8>>, Box<dyn Read>>;

/// The first bytes of a reader, and a reader that has them still before it.
fn peek(mut input: Box<dyn Read>, file: &str) -> Result<(Vec<u8>, Whole), TraceError> {
    let mut head = Vec::new();
    (&mut input)
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(|error| broken(file, 0, error))?;
    let whole = Cursor::new(head.clone()).chain(input);
    Ok((head, whole))
}

/// Counts what is taken from the file.
struct Counted {
    inner: Box<dyn Read>,
    bytes: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

/// One layer of compression: bounded, its errors told as bad input.
struct Layer {
    inner: Box<dyn Read>,
    what: &'static str,
    bytes: u64,
    limit_bytes: u64,
}

/// What a layer says; a layer around it passes it on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct LayerError(String);

impl Read for Layer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).map_err(|error| self.told(error))?;
        self.bytes += read as u64;
        if self.bytes > self.limit_bytes {
            let limit = format_bytes(self.limit_bytes);
            let what = format!("more than {limit} come out of the {} data", self.what);
            return Err(io::Error::new(io::ErrorKind::InvalidData, LayerError(what)));
        }
        Ok(read)
    }
}

impl Layer {
    fn told(&self, error: io::Error) -> io::Error {
        let is_told = error
            .get_ref()
            .is_some_and(|inner| inner.is::<LayerError>());
        let is_system =
            error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted;
        if is_told || is_system {
            return error;
        }
        let what = format!(
            "the {} data is broken or cut short after {} decompressed bytes: {error}",
            self.what, self.bytes
        );
        io::Error::new(io::ErrorKind::InvalidData, LayerError(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: Vec<u8>, limit_bytes: u64) -> Result<Vec<u8>, TraceError> {
        unpack(Box::new(Cursor::new(bytes)), "f", limit_bytes)?.hold("f")
    }

    #[test]
    fn both_compressions_are_undone_by_content_and_twice() {
        let zst = zstd::encode_all(&b"text"[..], 3).unwrap();
        for packed in [
            b"text".to_vec(),
            gz(b"text"),
            zst.clone(),
            gz(&zst),
            gz(&gz(b"text")),
        ] {
            assert_eq!(read(packed, 1 << 30).unwrap(), b"text");
        }
        let error = read(gz(&gz(&gz(b"text"))), 1 << 30).unwrap_err();
        assert!(error.to_string().contains("more than 2 times"), "{error}");
    }

    #[test]
    fn broken_and_cut_compression_is_bad_input() {
        let text: Vec<u8> = (0..200_000u32)
            .flat_map(|n| n.wrapping_mul(n).to_le_bytes())
            .collect();
        for packed in [gz(&text), zstd::encode_all(&text[..], 3).unwrap()] {
            for cut in [5, 12, packed.len() / 2, packed.len() - 1] {
                let error = read(packed[..cut].to_vec(), 1 << 30).unwrap_err();
                assert!(matches!(error, TraceError::Input { .. }), "{cut}: {error}");
            }
            let error = read(packed, 1 << 16).unwrap_err().to_string();
            assert!(error.contains("64.00 KiB"), "{error}");
        }
    }

    #[test]
    fn a_bomb_is_told_before_it_fills_memory() {
        let mut bomb = gz(&vec![0; 64 << 20]);
        for _ in 0..3 {
            bomb.extend_from_within(..);
        }
        let error = read(bomb, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("grew to 257."), "{error}");
    }
}
