//! The timeline of a replay, decimated: a bounded number of buckets, however long the
//! trace, with the extremes of every bucket kept exactly.
//!
//! A bucket spans a number of events. When all buckets are taken, neighbours are joined
//! two by two and each spans twice as many from then on. So no event is left out, the
//! first and the last included, and a spike of one event survives as a bucket's maximum.

mod part;
mod read;

use std::io::{self, Write};

use crate::replay::{Glance, Moment, Observer, Run};
use crate::units::ppm;

pub use read::read_csv;

/// Buckets where nothing else is asked for: more than a screen has columns.
const BUCKETS: usize = 2048;

/// What is followed, after one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Bytes asked for by live blocks.
    pub requested_bytes: u64,
    /// Bytes of Used blocks.
    pub occupied_bytes: u64,
    /// Bytes mapped from the driver.
    pub reserved_bytes: u64,
    /// Bytes of Free blocks.
    pub free_bytes: u64,
    /// The largest Free block, bytes.
    pub largest_free_bytes: u64,
    /// Requests not served so far.
    pub failed: u64,
}

impl Sample {
    /// What a moment shows.
    #[must_use]
    pub fn of(moment: &Moment<'_>) -> Self {
        Sample::at(&moment.glance(), moment.totals.failed)
    }

    /// What a glance shows, after so many requests that were not served.
    #[must_use]
    pub fn at(glance: &Glance, failed: u64) -> Self {
        Sample {
            requested_bytes: glance.requested_bytes,
            occupied_bytes: glance.used_bytes,
            reserved_bytes: glance.reserved_bytes,
            free_bytes: glance.free_bytes,
            largest_free_bytes: glance.largest_free_bytes,
            failed,
        }
    }

    /// External fragmentation in parts per million; `None` where nothing is free.
    #[must_use]
    pub fn external_fragmentation_ppm(&self) -> Option<u64> {
        let scattered = self.free_bytes - self.largest_free_bytes;
        (self.free_bytes > 0).then(|| ppm(scattered, self.free_bytes))
    }
}

/// The least, the greatest and the last value of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Least.
    pub min: u64,
    /// Greatest.
    pub max: u64,
    /// After the bucket's last event.
    pub last: u64,
}

impl Range {
    fn at(value: u64) -> Self {
        Range {
            min: value,
            max: value,
            last: value,
        }
    }

    /// Takes in the value that follows; most stay as they were.
    #[inline]
    fn take(&mut self, value: u64) {
        if value != self.last {
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            self.last = value;
        }
    }

    fn join(&mut self, later: Range) {
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.last = later.last;
    }
}

/// A span of events with the extremes of what was seen after each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Number of its first event.
    pub first_event: u64,
    /// Number of its last event.
    pub last_event: u64,
    /// Time of its first event, ns.
    pub first_ns: u64,
    /// Time of its last event, ns.
    pub last_ns: u64,
    /// Bytes asked for by live blocks.
    pub requested_bytes: Range,
    /// Bytes of Used blocks.
    pub occupied_bytes: Range,
    /// Bytes mapped from the driver.
    pub reserved_bytes: Range,
    /// Bytes of Free blocks.
    pub free_bytes: Range,
    /// The largest Free block, bytes.
    pub largest_free_bytes: Range,
    /// External fragmentation; `None` where nothing was free after any of its events.
    /// Its `last` is that of the last event after which something was free.
    pub external_fragmentation_ppm: Option<Range>,
    /// Requests not served, from the start to the bucket's last event.
    pub failed: u64,
}

impl Bucket {
    fn of(event: u64, time_ns: u64, sample: &Sample, fragmentation_ppm: Option<u64>) -> Self {
        Bucket {
            first_event: event,
            last_event: event,
            first_ns: time_ns,
            last_ns: time_ns,
            requested_bytes: Range::at(sample.requested_bytes),
            occupied_bytes: Range::at(sample.occupied_bytes),
            reserved_bytes: Range::at(sample.reserved_bytes),
            free_bytes: Range::at(sample.free_bytes),
            largest_free_bytes: Range::at(sample.largest_free_bytes),
            external_fragmentation_ppm: fragmentation_ppm.map(Range::at),
            failed: sample.failed,
        }
    }

    /// Takes in what was seen after the event that follows.
    #[inline]
    fn take(&mut self, event: u64, time_ns: u64, sample: &Sample, fragmentation_ppm: Option<u64>) {
        self.last_event = event;
        self.last_ns = time_ns;
        self.requested_bytes.take(sample.requested_bytes);
        self.occupied_bytes.take(sample.occupied_bytes);
        self.reserved_bytes.take(sample.reserved_bytes);
        self.free_bytes.take(sample.free_bytes);
        self.largest_free_bytes.take(sample.largest_free_bytes);
        match (&mut self.external_fragmentation_ppm, fragmentation_ppm) {
            (Some(range), Some(ppm)) => range.take(ppm),
            (none, Some(ppm)) => *none = Some(Range::at(ppm)),
            (_, None) => {}
        }
        self.failed = sample.failed;
    }

    /// Takes in the bucket that follows.
    fn join(&mut self, later: &Bucket) {
        self.last_event = later.last_event;
        self.last_ns = later.last_ns;
        self.requested_bytes.join(later.requested_bytes);
        self.occupied_bytes.join(later.occupied_bytes);
        self.reserved_bytes.join(later.reserved_bytes);
        self.free_bytes.join(later.free_bytes);
        self.largest_free_bytes.join(later.largest_free_bytes);
        if let Some(later) = later.external_fragmentation_ppm {
            match &mut self.external_fragmentation_ppm {
                Some(range) => range.join(later),
                none => *none = Some(later),
            }
        }
        self.failed = later.failed;
    }

    fn events(&self) -> u64 {
        self.last_event - self.first_event + 1
    }
}

/// The decimated timeline.
#[derive(Debug, Clone)]
pub struct Timeline {
    most: usize,
    span: u64,
    buckets: Vec<Bucket>,
    last: Sample,
    last_ppm: Option<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline::new(BUCKETS)
    }
}

impl Observer for Timeline {
    fn see(&mut self, moment: &Moment<'_>) {
        self.add(moment.index, moment.time_ns, &Sample::of(moment));
    }

    fn wants_moments(&self) -> bool {
        false
    }

    fn see_run(&mut self, run: &Run<'_>) {
        let mut from = 0;
        while from < run.glances.len() {
            from += self.add_part(run, from);
        }
    }
}

impl Timeline {
    /// An empty timeline of at most `most` buckets.
    ///
    /// # Panics
    /// If `most` is below 2.
    #[must_use]
    pub fn new(most: usize) -> Self {
        assert!(most >= 2, "a timeline of {most} buckets cannot be halved");
        Timeline {
            most,
            span: 1,
            buckets: Vec::with_capacity(most),
            last: Sample::default(),
            last_ppm: None,
        }
    }

    /// What was seen after one event; events come in order.
    pub fn add(&mut self, event: u64, time_ns: u64, sample: &Sample) {
        // A division an event is dear: it is done only where something changed.
        let same = (sample.free_bytes, sample.largest_free_bytes)
            == (self.last.free_bytes, self.last.largest_free_bytes);
        if !same {
            self.last_ppm = sample.external_fragmentation_ppm();
        }
        self.last = *sample;
        if let Some(bucket) = self.buckets.last_mut()
            && bucket.events() < self.span
        {
            bucket.take(event, time_ns, sample, self.last_ppm);
            return;
        }
        if self.buckets.len() == self.most {
            self.halve();
            self.add(event, time_ns, sample);
            return;
        }
        let new = Bucket::of(event, time_ns, sample, self.last_ppm);
        self.buckets.push(new);
    }

    /// Joins neighbours two by two.
    fn halve(&mut self) {
        let half = self.buckets.len().div_ceil(2);
        for at in 0..half {
            let mut joined = self.buckets[2 * at];
            if let Some(later) = self.buckets.get(2 * at + 1) {
                joined.join(later);
            }
            self.buckets[at] = joined;
        }
        self.buckets.truncate(half);
        self.span *= 2;
    }

    /// The buckets so far, in order; together they span every event.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Writes `timeline.csv`: one row a bucket; the plain name is the value after the
    /// bucket's last event, `min_` and `max_` are its extremes. Undefined cells are empty.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        write!(out, "first_event,last_event,first_ns,last_ns")?;
        for name in SERIES {
            write!(out, ",{name},min_{name},max_{name}")?;
        }
        writeln!(out, ",failed")?;
        for bucket in &self.buckets {
            write!(
                out,
                "{},{},{},{}",
                bucket.first_event, bucket.last_event, bucket.first_ns, bucket.last_ns
            )?;
            for range in bucket.series() {
                match range {
                    Some(Range { min, max, last }) => write!(out, ",{last},{min},{max}")?,
                    None => write!(out, ",,,")?,
                }
            }
            writeln!(out, ",{}", bucket.failed)?;
        }
        Ok(())
    }
}

/// The names of [`Bucket::series`] in csv.
pub const SERIES: [&str; 6] = [
    "requested_bytes",
    "occupied_bytes",
    "reserved_bytes",
    "free_bytes",
    "largest_free_bytes",
    "external_fragmentation_ppm",
];

impl Bucket {
    /// What is followed, in the order of [`SERIES`].
    #[must_use]
    pub fn series(&self) -> [Option<Range>; 6] {
        [
            Some(self.requested_bytes),
            Some(self.occupied_bytes),
            Some(self.reserved_bytes),
            Some(self.free_bytes),
            Some(self.largest_free_bytes),
            self.external_fragmentation_ppm,
        ]
    }
}

#[cfg(test)]
mod tests;
