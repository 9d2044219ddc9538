//! Bands over time: how fragmentation and memory run through a trace, over all seeds.
//!
//! Every cell keeps its state at [`POINTS`] moments that divide the trace's events evenly.
//! Over the seeds of a (trace, capacity, policy) they become a median and two quartiles a
//! moment. Quartiles are those of linear interpolation (Hyndman and Fan 1996, type 7),
//! rounded to the nearest integer.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::observe::timeline::Sample;
use crate::replay::{Glance, Moment, Observer, Run};

/// Moments of a band.
pub const POINTS: u64 = 200;

/// What a cell was like at each moment. A trace without events has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Points {
    /// External fragmentation; `None` where nothing is free.
    pub external_fragmentation_ppm: Vec<Option<u64>>,
    /// Bytes mapped from the driver.
    pub reserved_bytes: Vec<u64>,
    /// Bytes of Used blocks.
    pub occupied_bytes: Vec<u64>,
}

/// Takes the points while a trace of known length is replayed.
#[derive(Debug, Clone)]
pub struct Sampler {
    events: u64,
    points: Points,
}

impl Sampler {
    /// For a trace of so many events.
    #[must_use]
    pub fn new(events: u64) -> Self {
        Sampler {
            events,
            points: Points::default(),
        }
    }

    /// The event after which the next point is taken: the last one of its share.
    fn next_event(&self) -> u64 {
        let taken = self.points.reserved_bytes.len() as u64;
        let end = (u128::from(taken + 1) * u128::from(self.events)).div_ceil(u128::from(POINTS));
        u64::try_from(end).unwrap_or(u64::MAX).saturating_sub(1)
    }

    /// What was taken.
    #[must_use]
    pub fn finish(self) -> Points {
        self.points
    }

    /// Takes the points at one event.
    fn take(&mut self, event: u64, glance: &Glance) {
        // A short trace has several points at one event.
        while event == self.next_event() && (self.points.reserved_bytes.len() as u64) < POINTS {
            let sample = Sample::at(glance, 0);
            let points = &mut self.points;
            points
                .external_fragmentation_ppm
                .push(sample.external_fragmentation_ppm());
            points.reserved_bytes.push(sample.reserved_bytes);
            points.occupied_bytes.push(sample.occupied_bytes);
        }
    }
}

impl Observer for Sampler {
    fn see(&mut self, moment: &Moment<'_>) {
        self.take(moment.index, &moment.glance());
    }

    fn wants_moments(&self) -> bool {
        false
    }

    fn see_run(&mut self, run: &Run<'_>) {
        while let Some(ahead) = self.next_event().checked_sub(run.first_event)
            && let Some(glance) = run.glances.get(ahead as usize)
            && (self.points.reserved_bytes.len() as u64) < POINTS
        {
            self.take(run.first_event + ahead, &glance);
        }
    }
}

/// Lower quartile, median and upper quartile; `None` of nothing.
#[must_use]
pub fn quartiles(values: &mut [u64]) -> Option<[u64; 3]> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some([1, 2, 3].map(|quarters| {
        let (place, rest) = (last * quarters / 4, (last * quarters % 4) as u128);
        let low = values[place];
        let step = u128::from(values[(place + 1).min(last)] - low);
        low + ((step * rest + 2) / 4) as u64
    }))
}

/// What a band is about, in the order of the columns.
const SERIES: [&str; 3] = [
    "external_fragmentation_ppm",
    "reserved_bytes",
    "occupied_bytes",
];

/// Writes `bands.csv`, group by group.
pub struct Writer<W: Write>(csv::Writer<W>);

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W) -> io::Result<Self> {
        let mut csv = csv::Writer::from_writer(out);
        let mut header: Vec<String> = ["trace", "capacity_asked", "policy", "point"]
            .map(str::to_owned)
            .to_vec();
        for name in SERIES {
            header.extend(["median", "q1", "q3"].map(|which| format!("{which}_{name}")));
        }
        csv.write_record(header)?;
        Ok(Writer(csv))
    }

    /// Writes the band of a group: what its seeds were like at each moment.
    ///
    /// # Errors
    /// What `out` says.
    pub fn group(&mut self, group: [&str; 3], seeds: &[Points]) -> io::Result<()> {
        let most = seeds.iter().map(|points| points.reserved_bytes.len()).max();
        for at in 0..most.unwrap_or(0) {
            let mut record = group.map(str::to_owned).to_vec();
            record.push(at.to_string());
            let mut add = |mut values: Vec<u64>| match quartiles(&mut values) {
                Some([q1, median, q3]) => {
                    record.extend([median, q1, q3].map(|value| value.to_string()));
                }
                None => record.extend([const { String::new() }; 3]),
            };
            let shares = seeds.iter();
            add(shares
                .filter_map(|it| *it.external_fragmentation_ppm.get(at)?)
                .collect());
            let reserved = seeds.iter().filter_map(|it| it.reserved_bytes.get(at));
            add(reserved.copied().collect());
            let occupied = seeds.iter().filter_map(|it| it.occupied_bytes.get(at));
            add(occupied.copied().collect());
            self.0.write_record(record)?;
        }
        Ok(())
    }

    /// Hands everything on.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::testing::{EachMoment, Walk, mixed, replay};

    /// As `numpy.percentile(values, [25, 50, 75])` answers, rounded.
    #[test]
    fn quartiles_interpolate() {
        assert_eq!(quartiles(&mut []), None);
        assert_eq!(quartiles(&mut [7]), Some([7, 7, 7]));
        assert_eq!(quartiles(&mut [4, 1, 3, 2]), Some([2, 3, 3]));
        assert_eq!(quartiles(&mut [10, 0, 40, 20, 30]), Some([10, 20, 30]));
        assert_eq!(quartiles(&mut [0, 100, 1000]), Some([50, 100, 550]));
        assert_eq!(
            quartiles(&mut [0, u64::MAX]).expect("two")[2],
            u64::MAX / 4 * 3 + 2
        );
    }

    #[test]
    fn points_divide_the_events_evenly() {
        for events in [1, 3, 199, 200, 201, 1000, 123_457] {
            let mut sampler = Sampler::new(events);
            let mut last = 0;
            for taken in 0..POINTS {
                let next = sampler.next_event();
                assert!(next >= last && next < events, "{events}: {taken} at {next}");
                last = next;
                sampler.points.reserved_bytes.push(0);
            }
            assert_eq!(last, events - 1, "the last point is the end");
        }
    }

    #[test]
    fn points_taken_in_runs_are_those_taken_one_by_one() {
        let trace = mixed();
        for events in [trace.events.len() as u64, 150] {
            let mut in_runs = Sampler::new(events);
            replay(&trace, Walk::default(), 24_000, &mut in_runs);
            let mut singly = (Sampler::new(events), EachMoment);
            replay(&trace, Walk::default(), 24_000, &mut singly);
            assert_eq!(in_runs.points, singly.0.points);
            assert_eq!(in_runs.points.reserved_bytes.len() as u64, POINTS);
        }
    }

    #[test]
    fn a_band_leaves_out_what_is_undefined() {
        let points = |ppm, bytes| Points {
            external_fragmentation_ppm: vec![ppm],
            reserved_bytes: vec![bytes],
            occupied_bytes: vec![bytes / 2],
        };
        let mut csv = Vec::new();
        let mut writer = Writer::new(&mut csv).expect("memory is writable");
        let seeds = [points(None, 100), points(Some(5), 300)];
        writer.group(["a", "1.1x", "bump"], &seeds).expect("memory");
        writer
            .group(["a", "1.1x", "tlsf"], &seeds[..1])
            .expect("memory");
        writer.finish().expect("memory");
        let text = String::from_utf8(csv).expect("text");
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "a,1.1x,bump,0,5,5,5,200,150,250,100,75,125",
                "a,1.1x,tlsf,0,,,,100,100,100,50,50,50"
            ]
        );
    }
}
