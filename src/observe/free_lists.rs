//! The sizes of the free blocks at moments of a replay: evenly spaced ones, and every failure.
//!
//! To know them a moment costs a walk over all blocks, so that not every event is one.

use crate::replay::{Moment, Observer, Outcome};

use super::Histogram;

/// Failures that are moments beside the evenly spaced ones.
const MOST_FAILURES: u64 = 1000;

/// The free blocks after one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreeList {
    /// Number of the event.
    pub event: u64,
    /// Its free blocks by size.
    pub sizes: Histogram,
}

/// Notes the free blocks after every so many events, and after each of the first failures.
#[derive(Debug, Clone)]
pub struct FreeLists {
    every: u64,
    failures_left: u64,
    lists: Vec<FreeList>,
}

impl FreeLists {
    /// About `most` moments, evenly spaced over so many `events`.
    ///
    /// # Panics
    /// If `most` is 0.
    #[must_use]
    pub fn new(events: u64, most: u64) -> Self {
        assert!(most > 0, "no moment is asked for");
        FreeLists {
            every: events.div_ceil(most).max(1),
            failures_left: MOST_FAILURES,
            lists: Vec::new(),
        }
    }

    /// The moments, in order.
    #[must_use]
    pub fn lists(&self) -> &[FreeList] {
        &self.lists
    }
}

impl Observer for FreeLists {
    fn see(&mut self, moment: &Moment<'_>) {
        let failed = matches!(moment.outcome, Outcome::Failed(_)) && self.failures_left > 0;
        self.failures_left -= u64::from(failed);
        if failed || moment.index.is_multiple_of(self.every) {
            self.lists.push(FreeList {
                event: moment.index,
                sizes: Histogram::of_free_blocks(moment.space),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Walk;
    use super::*;
    use crate::replay::Replay;
    use crate::space::SpaceConfig;
    use crate::trace::TraceBuilder;
    use crate::trace::builder::Ask;

    /// Four requests of 1 KiB on 4 KiB, the second and the fourth given back, then one of
    /// 2 KiB that fits in neither hole.
    #[test]
    fn moments_are_evenly_spaced_and_at_failures() {
        let mut trace = TraceBuilder::new("holes");
        let ask = |bytes| Ask {
            bytes,
            ..Ask::default()
        };
        for id in 0..4 {
            trace.alloc(id, ask(1024)).expect("a new id");
        }
        for id in [1, 3] {
            trace.free(id, None, false);
        }
        trace.alloc(4, ask(2048)).expect("a new id");
        let trace = trace.finish();
        let walk = Box::new(Walk::default());
        let mut replay = Replay::new(walk, SpaceConfig::bare(4096)).expect("it starts");
        let mut lists = FreeLists::new(trace.events.len() as u64, 2);
        replay.feed(&trace.events, &[], &mut lists);
        let told: Vec<(u64, u64, u64)> = lists
            .lists()
            .iter()
            .map(|list| {
                let bins = list.sizes.bins.iter();
                let (count, bytes) = bins.fold((0, 0), |(count, bytes), bin| {
                    (count + bin.count, bytes + bin.bytes)
                });
                (list.event, count, bytes)
            })
            .collect();
        assert_eq!(told, [(0, 1, 3072), (4, 1, 1024), (6, 2, 2048)]);
    }
}
