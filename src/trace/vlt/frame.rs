//! Frames: a tag, a length, a payload, and a checksum over all frames so far, so that
//! a frame that is changed, lost, doubled or moved is found where it stands.

use std::io::{self, Read, Write};

use crate::trace::TraceError;

/// The first bytes: the high bit and the line ends show a file that was copied as text.
pub const MAGIC: [u8; 8] = *b"\x89VLT\r\n\x1a\n";
/// The layout that this code writes, and the only one that it reads.
pub const VERSION: u32 = 1;
/// The longest payload: checked before any memory is taken for it.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

const SUM_BYTES: usize = 8;

/// Chains the checksum of a frame to that of the frame before it.
fn chain(before: [u8; SUM_BYTES], tag: u8, payload: &[u8]) -> [u8; SUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before);
    hasher.update(&[tag]);
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..SUM_BYTES]);
    sum
}

/// Writes frames.
pub struct FrameWriter<W> {
    out: W,
    sum: [u8; SUM_BYTES],
}

impl<W: Write> FrameWriter<W> {
    /// Writes the magic and the version.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(FrameWriter {
            out,
            sum: [0; SUM_BYTES],
        })
    }

    /// Writes a frame.
    pub fn frame(&mut self, tag: u8, payload: &[u8]) -> io::Result<()> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a table entry of {} bytes: .vlt holds entries up to {MAX_PAYLOAD_BYTES} bytes",
                    payload.len()
                ),
            ));
        }
        self.sum = chain(self.sum, tag, payload);
        self.out.write_all(&[tag])?;
        self.out.write_all(&(payload.len() as u32).to_le_bytes())?;
        self.out.write_all(payload)?;
        self.out.write_all(&self.sum)
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Reads frames, one in memory at a time.
pub struct FrameReader<R> {
    input: R,
    file: String,
    offset: u64,
    sum: [u8; SUM_BYTES],
    frame_offset: u64,
    /// The tag of the frame last read.
    pub tag: u8,
    /// The payload of the frame last read.
    pub payload: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Reads and checks the magic and the version.
    pub fn new(input: R, file: &str) -> Result<Self, TraceError> {
        let mut reader = FrameReader {
            input,
            file: file.to_owned(),
            offset: 0,
            sum: [0; SUM_BYTES],
            frame_offset: 0,
            tag: 0,
            payload: Vec::new(),
        };
        let mut magic = [0; MAGIC.len()];
        reader.exact(&mut magic, "the magic number")?;
        if magic != MAGIC {
            return Err(TraceError::at_offset(
                file,
                0,
                format!(
                    "'{}' is not the magic number of a .vlt trace",
                    magic.escape_ascii()
                ),
            )
            .or("a .vlt file must be copied as binary"));
        }
        let mut version = [0; 4];
        reader.exact(&mut version, "the version")?;
        let version = u32::from_le_bytes(version);
        if version != VERSION {
            return Err(TraceError::at_offset(
                file,
                8,
                format!("version {version} of the .vlt layout"),
            )
            .or(format!(
                "this program reads version {VERSION}; write the trace again with it"
            )));
        }
        Ok(reader)
    }

    /// Reads the next frame and checks its sum.
    pub fn next(&mut self) -> Result<(), TraceError> {
        self.frame_offset = self.offset;
        let mut head = [0; 5];
        self.exact(&mut head, "the next frame")?;
        self.tag = head[0];
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(self.error(format!(
                "a frame of {length} bytes, where at most {MAX_PAYLOAD_BYTES} are allowed"
            )));
        }
        self.payload.clear();
        // The buffer grows with what is really there, not with what the length says.
        let read = (&mut self.input)
            .take(length as u64)
            .read_to_end(&mut self.payload);
        let read = read.map_err(|source| io_error(&self.file, self.offset, source))?;
        self.offset += read as u64;
        if read < length {
            return Err(self.ends(&format!("a frame of {length} bytes")));
        }
        let mut sum = [0; SUM_BYTES];
        self.exact(&mut sum, "a checksum")?;
        self.sum = chain(self.sum, self.tag, &self.payload);
        if self.sum != sum {
            return Err(self
                .error("the checksum of this frame differs".to_owned())
                .or("the file is damaged; copy or make it again"));
        }
        Ok(())
    }

    /// Nothing may follow the last frame.
    pub fn end(&mut self) -> Result<(), TraceError> {
        let mut byte = [0];
        let read = self.input.read(&mut byte);
        match read.map_err(|source| io_error(&self.file, self.offset, source))? {
            0 => Ok(()),
            _ => Err(TraceError::at_offset(
                &self.file,
                self.offset,
                "something follows the end of the trace",
            )),
        }
    }

    /// An error at the start of the frame last read.
    pub fn error(&self, what: String) -> TraceError {
        TraceError::at_offset(&self.file, self.frame_offset, what)
    }

    fn exact(&mut self, buffer: &mut [u8], what: &str) -> Result<(), TraceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => return Err(self.ends(what)),
                Ok(read) => {
                    filled += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(io_error(&self.file, self.offset, source)),
            }
        }
        Ok(())
    }

    fn ends(&self, what: &str) -> TraceError {
        TraceError::at_offset(
            &self.file,
            self.offset,
            format!("the file ends inside {what}"),
        )
        .or("it is cut short; copy or make it again")
    }
}

/// What a reader below says, placed: broken compression is bad input.
fn io_error(file: &str, offset: u64, source: io::Error) -> TraceError {
    match source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            TraceError::at_offset(file, offset, source.to_string())
        }
        _ => TraceError::io(file, source),
    }
}
