//! The times of a trace: microseconds since 1970 in the file, nanoseconds since the first
//! entry in the events, and never backwards.

use crate::trace::snapshot::Snapshot;

/// Turns the times of entries into times of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    first_us: i64,
    /// Entries whose time lies before that of an earlier one: they get the later time.
    pub steps_back: u64,
    /// Entries without a time.
    pub timeless: u64,
}

/// The times of entries, in order, as they are looked over.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// The first and the latest time so far.
    seen_us: Option<(i64, i64)>,
    steps_back: u64,
    timeless: u64,
}

impl Times {
    /// The time of the next entry.
    #[inline]
    pub fn add(&mut self, time_us: Option<i64>) {
        match (time_us, &mut self.seen_us) {
            (None, _) => self.timeless += 1,
            (Some(time_us), Some((_, latest_us))) if time_us < *latest_us => self.steps_back += 1,
            (Some(time_us), Some((_, latest_us))) => *latest_us = time_us,
            (Some(time_us), none) => *none = Some((time_us, time_us)),
        }
    }

    /// The clock of these times; `None` where there are none.
    pub fn clock(&self) -> Option<Clock> {
        self.seen_us.map(|(first_us, _)| Clock {
            first_us,
            steps_back: self.steps_back,
            timeless: self.timeless,
        })
    }
}

impl Clock {
    /// `time_us` in ns since the first entry; 0 before it.
    pub fn nanos(&self, time_us: i64) -> u64 {
        if time_us <= self.first_us {
            return 0;
        }
        time_us.abs_diff(self.first_us).saturating_mul(1_000)
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
