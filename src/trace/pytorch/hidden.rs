//! Kinds of entries that a recording leaves out (`skip_actions`, PyTorch 2.11 and later).
//! No marker says so: they are told by their absence.

use crate::trace::snapshot::{Action, BlockState, Entry, Snapshot};

/// Which kinds of entries are missing from a device's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Hidden {
    /// There is no free of any kind: a free shows only in that its place is used again.
    pub frees: bool,
    /// Frees are requested and never completed, and none is pending at the end.
    pub completions: bool,
    /// Frees are completed that were never requested.
    pub requests: bool,
}

impl Hidden {
    /// What `entries` leave out, as far as their kinds alone tell.
    pub fn of(snapshot: &Snapshot, device: u32, entries: &[Entry]) -> Self {
        let any = |action| entries.iter().any(|entry| entry.action == action);
        let allocs = any(Action::Alloc);
        let (requested, completed) = (any(Action::FreeRequested), any(Action::FreeCompleted));
        let mut blocks = snapshot
            .segments
            .iter()
            .filter(|segment| segment.device == device)
            .flat_map(|segment| &segment.blocks);
        Hidden {
            frees: allocs && !requested && !completed,
            completions: requested
                && !completed
                && blocks.all(|block| block.state != BlockState::ActivePendingFree),
            requests: !requested && allocs && completed,
        }
    }
}
