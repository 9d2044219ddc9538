//! Why a file is not a snapshot.

use crate::trace::pickle::PickleError;

/// Why a snapshot could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The pickle itself is damaged, or would run code.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// A value is not what the key asks for.
    #[error(
        "{place}, near byte {offset}: `{key}` should be {expected}, but is {found}; record the snapshot again with torch.cuda.memory._dump_snapshot"
    )]
    Value {
        /// Which entry, segment or block.
        place: String,
        /// The byte at which its dict begins.
        offset: u64,
        /// The key.
        key: &'static str,
        /// What was expected.
        expected: &'static str,
        /// What the file has.
        found: String,
    },
    /// A dict lacks a key.
    #[error(
        "{place}, near byte {offset}: the key `{key}` is missing; record the snapshot again with torch.cuda.memory._dump_snapshot"
    )]
    Missing {
        /// Which entry, segment or block.
        place: String,
        /// The byte at which its dict begins.
        offset: u64,
        /// The key.
        key: &'static str,
    },
    /// The same list serves in two places; a file that does so would expand without bound.
    #[error(
        "{place}: this list is already used elsewhere in the file; no snapshot shares it: record the snapshot again"
    )]
    SharedList {
        /// Which entry, segment or block.
        place: String,
    },
    /// The pickle is sound, but holds something else.
    #[error(
        "this pickle is not a memory snapshot: it holds {found}, not a dict with `segments` or `device_traces`, nor a list of segments; write one with torch.cuda.memory._dump_snapshot"
    )]
    NotASnapshot {
        /// What it holds.
        found: String,
    },
}
