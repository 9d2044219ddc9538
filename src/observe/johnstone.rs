//! Johnstone and Wilson's four measures of fragmentation.
//!
//! Source: Johnstone and Wilson, "The memory fragmentation problem: solved?", ISMM 1998,
//! section on measuring fragmentation. Each is what the allocator holds beyond what the
//! program asked for, relative to the latter; they differ in the points in time:
//! 1. the mean over all points in time;
//! 2. at the point of most live memory;
//! 3. at the point where the allocator holds most;
//! 4. the most that the allocator holds against the most that is live, whenever each is.
//!
//! Points in time are events here. What the allocator holds is the footprint. Where a
//! maximum is reached several times, the first time counts.

use crate::units::ppm;

/// The four measures, kept event by event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Johnstone {
    sum_ppm: u128,
    points: u64,
    most_live: Point,
    most_held: Point,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Point {
    live_bytes: u64,
    held_bytes: u64,
}

impl Point {
    #[inline]
    fn overhead_ppm(self) -> Option<u64> {
        let over = self.held_bytes.saturating_sub(self.live_bytes);
        (self.live_bytes > 0).then(|| ppm(over, self.live_bytes))
    }
}

/// The first point of a row where one of its figures has this value.
#[inline(never)]
fn first_of(figures: &[u64], value: u64, live: &[u64], held: &[u64]) -> Point {
    let at = figures.iter().position(|figure| *figure == value);
    let at = at.expect("the greatest is one of them");
    Point {
        live_bytes: live[at],
        held_bytes: held[at],
    }
}

impl Johnstone {
    /// How things stand after an event: requested and live, and held by the allocator.
    #[inline]
    pub fn see(&mut self, live_bytes: u64, held_bytes: u64) {
        self.see_peak(live_bytes, held_bytes);
        let point = Point {
            live_bytes,
            held_bytes,
        };
        if let Some(overhead_ppm) = point.overhead_ppm() {
            self.sum_ppm += u128::from(overhead_ppm);
            self.points += 1;
        }
    }

    /// Points in a row whose overheads come to a sum; their peaks are for
    /// [`see_peaks`](Self::see_peaks).
    #[inline]
    pub(super) fn see_all(&mut self, sum_ppm: u128, points: u64) {
        self.sum_ppm += sum_ppm;
        self.points += points;
    }

    /// The peaks of points in a row, of whose figures the greatest are told.
    #[inline]
    pub(super) fn see_peaks(&mut self, live: &[u64], held: &[u64], most: (u64, u64)) {
        if most.0 > self.most_live.live_bytes {
            self.most_live = first_of(live, most.0, live, held);
        }
        if most.1 > self.most_held.held_bytes {
            self.most_held = first_of(held, most.1, live, held);
        }
    }

    /// How things stood for an instant within an event; the mean leaves it out.
    #[inline]
    pub fn see_peak(&mut self, live_bytes: u64, held_bytes: u64) {
        let point = Point {
            live_bytes,
            held_bytes,
        };
        if live_bytes > self.most_live.live_bytes {
            self.most_live = point;
        }
        if held_bytes > self.most_held.held_bytes {
            self.most_held = point;
        }
    }

    /// Measure 1, in parts per million; `None` where nothing was ever live.
    #[must_use]
    pub fn mean_ppm(&self) -> Option<u64> {
        (self.points > 0).then(|| (self.sum_ppm / u128::from(self.points)) as u64)
    }

    /// Measure 2, in parts per million; `None` where nothing was ever live.
    #[must_use]
    pub fn at_most_live_ppm(&self) -> Option<u64> {
        self.most_live.overhead_ppm()
    }

    /// Measure 3, in parts per million; `None` where nothing was live at that point.
    #[must_use]
    pub fn at_most_held_ppm(&self) -> Option<u64> {
        self.most_held.overhead_ppm()
    }

    /// Measure 4, in parts per million; `None` where nothing was ever live.
    #[must_use]
    pub fn peaks_ppm(&self) -> Option<u64> {
        let peaks = Point {
            live_bytes: self.most_live.live_bytes,
            held_bytes: self.most_held.held_bytes,
        };
        peaks.overhead_ppm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Live 100 of 150 held; 200 of 300; 100 of 400; nothing live; 100 of 400 again.
    #[test]
    fn the_four_measures_by_hand() {
        let mut measures = Johnstone::default();
        for (live, held) in [(100, 150), (200, 300), (100, 400), (0, 400), (100, 400)] {
            measures.see(live, held);
        }
        assert_eq!(
            measures.mean_ppm(),
            Some((500_000 + 500_000 + 3_000_000 + 3_000_000) / 4)
        );
        assert_eq!(measures.at_most_live_ppm(), Some(500_000));
        assert_eq!(measures.at_most_held_ppm(), Some(3_000_000));
        assert_eq!(measures.peaks_ppm(), Some(1_000_000));
        measures.see_peak(800, 1000);
        assert_eq!(measures.at_most_live_ppm(), Some(250_000));
        assert_eq!(
            measures.mean_ppm(),
            Some(1_750_000),
            "an instant is no point in time"
        );
    }

    #[test]
    fn what_is_never_live_has_no_overhead() {
        let mut measures = Johnstone::default();
        measures.see(0, 4096);
        assert_eq!(measures.mean_ppm(), None);
        assert_eq!(measures.at_most_live_ppm(), None);
        assert_eq!(measures.at_most_held_ppm(), None);
        assert_eq!(measures.peaks_ppm(), None);
    }
}
