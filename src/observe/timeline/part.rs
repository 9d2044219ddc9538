//! Parts of runs, a column at a time.

use std::ops::Range as Places;

use super::{Bucket, Range, Sample, Timeline};
use crate::replay::{Columns, Run};
use crate::units::ppm;

impl Range {
    /// Takes in the values that follow; there is one at least.
    #[inline]
    fn take_all(&mut self, values: &[u64]) {
        for value in values {
            self.min = self.min.min(*value);
            self.max = self.max.max(*value);
        }
        self.last = values[values.len() - 1];
    }
}

impl Bucket {
    /// Takes in what was seen after each of some events that follow, but for fragmentation.
    fn take_all(&mut self, columns: &Columns<'_>, part: Places<usize>) {
        for (range, values) in [
            (&mut self.requested_bytes, columns.requested_bytes),
            (&mut self.occupied_bytes, columns.used_bytes),
            (&mut self.reserved_bytes, columns.reserved_bytes),
            (&mut self.free_bytes, columns.free_bytes),
            (&mut self.largest_free_bytes, columns.largest_free_bytes),
        ] {
            range.take_all(&values[part.clone()]);
        }
    }
}

impl Timeline {
    /// What was seen after the events of a run from one of them on, as many as the bucket at
    /// hand takes: how many those are.
    pub(super) fn add_part(&mut self, run: &Run<'_>, from: usize) -> usize {
        // Plain events fail nowhere.
        let failed = self.last.failed;
        let room = match self.buckets.last() {
            Some(bucket) => self.span.saturating_sub(bucket.events()),
            None => 0,
        };
        let count = room.min((run.glances.len() - from) as u64) as usize;
        let last = from + count.max(1) - 1;
        let glance = run.glances.get(last).expect("an event of the run");
        let event = run.first_event + last as u64;
        let sample = Sample::at(&glance, failed);
        if count <= 1 {
            self.add(event, run.time_ns(last), &sample);
            return 1;
        }
        let columns = run.glances.columns();
        self.see_fragmentation(&columns, from..from + count);
        let bucket = self.buckets.last_mut().expect("one with room");
        bucket.take_all(&columns, from..from + count);
        bucket.last_event = event;
        bucket.last_ns = run.time_ns(last);
        bucket.failed = failed;
        self.last = sample;
        count
    }

    /// Takes fragmentation after each of some events into the last bucket.
    fn see_fragmentation(&mut self, columns: &Columns<'_>, part: Places<usize>) {
        let bucket = self.buckets.last_mut().expect("one with room");
        let range = &mut bucket.external_fragmentation_ppm;
        let (mut free, mut largest) = (self.last.free_bytes, self.last.largest_free_bytes);
        for at in part {
            let now = (columns.free_bytes[at], columns.largest_free_bytes[at]);
            // A division an event is dear: it is done only where something changed.
            if now == (free, largest) {
                continue;
            }
            (free, largest) = now;
            self.last_ppm = (free > 0).then(|| ppm(free - largest, free));
            match (&mut *range, self.last_ppm) {
                (Some(range), Some(ppm)) => range.take(ppm),
                (none, Some(ppm)) => *none = Some(Range::at(ppm)),
                (_, None) => {}
            }
        }
    }
}
