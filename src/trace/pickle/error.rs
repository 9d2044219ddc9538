//! What can be wrong with a pickle, and where.

/// Why a pickle could not be read, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct PickleError {
    /// Offset of the opcode at fault from the beginning of the uncompressed file.
    pub offset: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// The ways in which a pickle can be unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file ends before the pickle does.
    #[error(
        "the file ends here: {needed} more bytes are needed, {left} are left. It is truncated; copy or record it again"
    )]
    Truncated {
        /// Bytes that the opcode asks for.
        needed: u64,
        /// Bytes that the file still has.
        left: u64,
    },
    /// The reader of the file failed.
    #[error("the file cannot be read on: {what}")]
    Unreadable {
        /// What it said.
        what: String,
    },
    /// The opcode imports or calls something.
    #[error(
        "opcode {opcode} is refused: this file would run code when loaded; re-save with torch.cuda.memory._dump_snapshot"
    )]
    Refused {
        /// Python's name of the opcode.
        opcode: &'static str,
    },
    /// The byte is no opcode, or one that plain data never needs.
    #[error(
        "byte 0x{byte:02x} is not an opcode of plain data: the file is damaged, or not a snapshot; re-save with torch.cuda.memory._dump_snapshot"
    )]
    Unsupported {
        /// The byte found.
        byte: u8,
    },
    /// A protocol later than any known.
    #[error("pickle protocol {version} is not known (0 to 5 are); re-save with protocol 4")]
    Protocol {
        /// The protocol announced.
        version: u8,
    },
    /// An opcode needs more values than there are since the last mark.
    #[error("an opcode finds too few values on the stack: the file is damaged")]
    StackUnderflow,
    /// Something is appended to, or set in, what is not a list or dict.
    #[error("an item is added to what is not a {wanted}: the file is damaged")]
    WrongContainer {
        /// The container that the opcode works on.
        wanted: &'static str,
    },
    /// A dict gets a key without a value.
    #[error("a dict gets a key without a value: the file is damaged")]
    OddPairs,
    /// A list or dict is changed after something that holds it was complete.
    #[error(
        "a list or dict is changed after it was used: no pickler writes plain data like this; the file is damaged"
    )]
    ChangedAfterUse,
    /// A memo slot is read that was never written.
    #[error("memo slot {index} is read but was never written: the file is damaged")]
    MemoUnset {
        /// The slot.
        index: u64,
    },
    /// A memo slot with an absurd number.
    #[error(
        "memo slot {index} is written, more than the bytes before it could have filled: the file is damaged"
    )]
    MemoIndex {
        /// The slot.
        index: u64,
    },
    /// Marks nested without end.
    #[error(
        "more than {limit} containers are open inside each other: this is not a snapshot, or the file is damaged"
    )]
    TooDeep {
        /// The most that are allowed.
        limit: usize,
    },
    /// More objects than 32-bit handles can name, or a text longer than 4 GiB.
    #[error("more than 4294967295 {what}: the file is too large; record fewer events")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
    },
    /// A number or text of the text protocols that cannot be understood.
    #[error("{what} cannot be understood here; re-save with protocol 4")]
    BadLine {
        /// What was expected on the line.
        what: &'static str,
    },
}
