//! The times of a trace: microseconds since 1970 in the file, nanoseconds since the first
//! entry in the events, and never backwards.

use crate::trace::snapshot::{Entry, Snapshot};

/// Turns the times of entries into times of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    first_us: i64,
    /// Entries whose time lies before that of an earlier one: they get the later time.
    pub steps_back: u64,
    /// Entries without a time.
    pub timeless: u64,
}

impl Clock {
    /// The clock of `entries`; `None` where none of them has a time.
    pub fn of(entries: &[Entry]) -> Option<Self> {
        let first_us = entries.iter().find_map(Entry::time_us)?;
        let mut clock = Clock {
            first_us,
            steps_back: 0,
            timeless: 0,
        };
        let mut latest_us = first_us;
        for entry in entries {
            match entry.time_us() {
                None => clock.timeless += 1,
                Some(time_us) if time_us < latest_us => clock.steps_back += 1,
                Some(time_us) => latest_us = time_us,
            }
        }
        Some(clock)
    }

    /// `time_us` in ns since the first entry; 0 before it.
    pub fn nanos(&self, time_us: i64) -> u64 {
        let since = (i128::from(time_us) - i128::from(self.first_us)) * 1_000;
        u64::try_from(since.max(0)).unwrap_or(u64::MAX)
    }
}

/// What the program annotated on one device: the beginnings in order of time.
pub(super) fn marks<'a>(snapshot: &'a Snapshot, device: u32, clock: &Clock) -> Vec<(u64, &'a str)> {
    let mut marks: Vec<(u64, &str)> = snapshot
        .annotations
        .iter()
        .filter(|annotation| annotation.device == device && annotation.stage == "START")
        .map(|annotation| (clock.nanos(annotation.time_us), annotation.name.as_str()))
        .collect();
    marks.sort_by_key(|(time_ns, _)| *time_ns);
    marks
}
