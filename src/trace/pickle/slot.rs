//! What a dict or a list of a pickle is, in as few bytes as a trace of millions of them asks for.

use super::{Packed, Record};

/// A dict is nothing yet, plain pairs, or a sink's record. 8 bytes, because a trace has one an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum DictSlot {
    Empty,
    Pairs(u32),
    Record { kind: u8, index: u32 },
}

/// A list is nothing yet, plain items, a run of records, or a number that a sink sealed it with.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListSlot {
    Empty,
    Items(u32),
    Run(u32),
    Sealed(u32),
}

/// Records of one kind that follow each other without a gap: what the list of a trace holds. Kept as a
/// range, so that an event takes no room in its list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub first: Record,
    pub len: u32,
}

impl Run {
    pub fn continues_with(self, record: Record) -> bool {
        record.kind == self.first.kind
            && Some(record.index) == self.first.index.checked_add(self.len)
    }

    pub fn records(self) -> impl Iterator<Item = Packed> {
        let Record { kind, index } = self.first;
        (index..index + self.len).map(move |index| Packed::record(Record { kind, index }))
    }
}

/// The pairs of a plain dict and where they begin in the file.
#[derive(Debug)]
pub(super) struct Pairs {
    pub offset: u64,
    pub values: Vec<Packed>,
}
