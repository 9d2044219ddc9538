//! A reader of Python pickles that hold data and nothing else.
//!
//! A pickle is a program for a small stack machine. This reader runs only the part of it that builds
//! dicts, lists, tuples, texts and numbers; every opcode that could import a name or call something is
//! refused (see [`Problem::Refused`]). What keeps it safe on hostile input:
//! - nothing recurses: nesting lives on an explicit stack;
//! - nothing is allocated because of a length that the file merely claims: texts are kept once they
//!   are there, memo slots are numbered no further than the bytes already read allow;
//! - an object shared through the memo stays one object, so sharing never expands.
//!
//! What keeps it fast: values are 8 bytes and `Copy`, and a [`Sink`] may take a dict as soon as its
//! pairs have arrived and keep it in a form of its own, so that the million small dicts of a trace are
//! never built. Protocols 0 to 5 are read, as far as plain data goes.

mod error;
mod machine;
mod opcode;
mod packed;
mod slot;
mod text;
mod value;

use std::io::Read;

pub use error::{PickleError, Problem};
pub use packed::Packed;
pub use value::{Record, Store, Text, Value};

/// Receives dicts while they are read.
pub trait Sink {
    /// The number of a text that the sink knows as a key or a name, or 0; asked once when the text is
    /// read and kept in [`Text::word`], so that keys are later compared as numbers.
    fn word(&self, text: &[u8]) -> u16;

    /// A dict was filled in one go with `pairs` (key, value, key, value, ...). Returning a record takes
    /// the dict over: its pairs are dropped and only the record is kept. Returning `None` leaves it a
    /// plain dict.
    fn dict(&mut self, pairs: &[Packed], store: &mut Store) -> Option<Record>;

    /// As [`dict`](Self::dict), where the keys are one by one those of the dict that came before, and
    /// so are the values of all pairs but those that `changed` has a bit for, the first pair the lowest.
    fn like_before(&mut self, pairs: &[Packed], changed: u32, store: &mut Store) -> Option<Record> {
        let _ = changed;
        self.dict(pairs, store)
    }
}

/// What a pickle held.
#[derive(Debug)]
pub struct Document {
    /// The containers and texts.
    pub store: Store,
    /// The pickled object.
    pub root: Value,
    /// Bytes after the pickle's end, which were not read.
    pub trailing_bytes: u64,
}

/// Reads one pickle from the beginning of `input`, and what follows it to count it. Of the
/// input no more is held at a time than an opcode needs.
///
/// # Errors
/// [`PickleError`], with the byte offset of the offending opcode: a truncated or malformed file, or one
/// that would run code when loaded by Python.
pub fn read<S: Sink>(input: impl Read, sink: &mut S) -> Result<Document, PickleError> {
    machine::Machine::new(input, sink).run()
}

/// Whether `bytes` begin as a pickle does. Only the beginning is looked at.
///
/// Protocol 2 and later announce themselves; earlier ones are recognised by a dict or list followed by
/// its memo slot, the way every pickler begins one.
pub fn looks_like_pickle(bytes: &[u8]) -> bool {
    match bytes {
        [0x80, version, ..] => (2..=5).contains(version),
        [b'}' | b']', b'q' | b'r', ..] => true,
        [b'(', b'd' | b'l', b'p', ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
