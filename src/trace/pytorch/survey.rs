//! What the entries of a device show when they are looked over once, before any is
//! interpreted: whether a request failed, which streams and pools there are, and their times.

use std::collections::HashSet;

use crate::trace::snapshot::{Action, Entry, PoolId};

use super::clock::{Clock, Times};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Whether a request failed.
    pub failed: bool,
    pub streams: HashSet<u64>,
    pub pools: HashSet<PoolId>,
    /// None where no entry has a time.
    pub clock: Option<Clock>,
}

impl Survey {
    /// Looks `entries` over.
    pub fn of(entries: &[Entry]) -> Self {
        let mut survey = Survey::default();
        let mut times = Times::default();
        let mut last = None;
        for entry in entries {
            survey.failed |= entry.action == Action::Oom;
            // Neighbours as a rule share both.
            if last != Some((entry.stream, entry.pool)) {
                last = Some((entry.stream, entry.pool));
                survey.streams.insert(entry.stream);
                survey.pools.extend(entry.pool);
            }
            times.add(entry.time_us());
        }
        survey.clock = times.clock();
        survey
    }
}
