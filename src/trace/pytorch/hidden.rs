//! Kinds of entries that a recording leaves out (`skip_actions`, PyTorch 2.11 and later).
//! No marker says so: they are told by their absence.

use crate::trace::snapshot::{BlockState, Snapshot};

use super::survey::Survey;

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
    /// What entries leave out, as far as their kinds alone tell.
    pub fn of(snapshot: &Snapshot, device: u32, survey: &Survey) -> Self {
        let (allocs, requested, completed) = (
            survey.allocs,
            survey.requested_frees,
            survey.completed_frees,
        );
        let mut blocks = snapshot
            .segments
            .iter()
            .filter(|segment| segment.device == device)
            .flat_map(|segment| &segment.blocks);
        Hidden {
            frees: allocs > 0 && requested == 0 && completed == 0,
            completions: requested > 0
                && completed == 0
                && blocks.all(|block| block.state != BlockState::ActivePendingFree),
            requests: requested == 0 && allocs > 0 && completed > 0,
        }
    }
}
