//! Call stacks as tags: where the program made an allocation.

use std::fmt::Write as _;

use crate::trace::TraceBuilder;
use crate::trace::snapshot::{Snapshot, StackId, Tables};

/// How many frames of a stack a tag tells, the innermost first.
const FRAMES: usize = 8;

/// The tags of the stacks met so far, so that each stack is written out once.
#[derive(Debug)]
pub(super) struct Tags {
    numbers: Vec<Option<u32>>,
}

impl Tags {
    /// No stack met yet.
    pub fn new(snapshot: &Snapshot) -> Self {
        Tags {
            numbers: vec![None; snapshot.tables.stack_count()],
        }
    }

    /// The tag of `stack`, such as `forward@model.py:12 < main@train.py:40`.
    pub fn number(&mut self, stack: StackId, tables: &Tables, builder: &mut TraceBuilder) -> u32 {
        *self.numbers[stack.index()].get_or_insert_with(|| builder.tag(&text(stack, tables)))
    }
}

fn text(stack: StackId, tables: &Tables) -> String {
    let mut text = String::new();
    for (depth, frame) in tables.stack(stack).iter().take(FRAMES).enumerate() {
        let frame = tables.frame(*frame);
        let gap = if depth == 0 { "" } else { " < " };
        let (name, file) = (tables.text(frame.name), tables.text(frame.filename));
        // Writing into a String cannot fail.
        let _ = write!(text, "{gap}{name}@{file}:{}", frame.line);
    }
    text
}
