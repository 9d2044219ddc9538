//! Sizes by powers of two: of requests, and of the free blocks at a moment.

use std::io::{self, Write};

use crate::replay::{Moment, Observer};
use crate::space::{Space, State};
use crate::trace::Event;

/// One bin of a [`Histogram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bin {
    /// How many sizes.
    pub count: u64,
    /// Their bytes together; stays at `u64::MAX` where it would pass it.
    pub bytes: u64,
}

/// Bin `n` holds the sizes from 2^n up to, but not including, 2^(n+1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The bins, by the binary logarithm of their smallest size.
    pub bins: [Bin; 64],
    /// Sizes of 0 bytes, which no bin holds.
    pub zeros: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            bins: [Bin::default(); 64],
            zeros: 0,
        }
    }
}

impl Histogram {
    /// Counts one size.
    pub fn add(&mut self, bytes: u64) {
        let Some(log2) = bytes.checked_ilog2() else {
            self.zeros += 1;
            return;
        };
        let bin = &mut self.bins[log2 as usize];
        bin.count += 1;
        bin.bytes = bin.bytes.saturating_add(bytes);
    }

    /// The Free blocks as they are now; walks over all blocks.
    #[must_use]
    pub fn of_free_blocks(space: &Space) -> Self {
        let mut histogram = Histogram::default();
        for block in space.walk() {
            if space.state(block) == State::Free {
                histogram.add(space.bytes(block));
            }
        }
        histogram
    }

    /// Writes the bins that hold something as csv: `from_bytes,count,bytes`; the row of
    /// 0 counts requests of no bytes, and each other row reaches up to twice its first column.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(out, "from_bytes,count,bytes")?;
        if self.zeros > 0 {
            writeln!(out, "0,{},0", self.zeros)?;
        }
        for (log2, bin) in self.bins.iter().enumerate() {
            if bin.count > 0 {
                writeln!(out, "{},{},{}", 1u64 << log2, bin.count, bin.bytes)?;
            }
        }
        Ok(())
    }
}

/// Counts the sizes of requests, of every outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestSizes(pub Histogram);

impl Observer for RequestSizes {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. } = *moment.event {
            self.0.add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    #[test]
    fn sizes_fall_into_the_bin_of_their_power_of_two() {
        let mut histogram = Histogram::default();
        for bytes in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX, u64::MAX] {
            histogram.add(bytes);
        }
        let mut text = Vec::new();
        histogram.write_csv(&mut text).expect("memory is writable");
        assert_eq!(
            String::from_utf8(text).expect("it is text"),
            "from_bytes,count,bytes\n0,1,0\n1,1,1\n2,2,5\n4,1,4\n512,1,1023\n1024,1,1024\n\
             9223372036854775808,2,18446744073709551615\n"
        );
    }

    #[test]
    fn free_blocks_are_counted_by_a_walk() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let low = space.map(4096).expect("room");
        space.split(low, 1000);
        let histogram = Histogram::of_free_blocks(&space);
        assert_eq!(
            histogram.bins[9],
            Bin {
                count: 1,
                bytes: 1000
            }
        );
        assert_eq!(
            histogram.bins[11],
            Bin {
                count: 1,
                bytes: 3096
            }
        );
    }
}
