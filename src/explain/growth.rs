//! What held memory, and what grows: sums over the lives of allocations, by stack and by
//! size. What is live is told by the replay; addresses play no part.

use std::collections::BTreeMap;

use super::findings::{Cached, Growth, Holder, Holders, Leaks, PartedBy};
use super::ledger::Change;
use super::stack;
use crate::trace::{Event, Trace};
use crate::units::ppm;

/// Rows that are told of each kind.
const TOLD: usize = 10;
/// Periods where the trace has no marks.
const SLICES: u64 = 8;
/// Fewer marks than this tell nothing.
const LEAST_MARKS: usize = 4;
/// Of more marks than this, every second one is left out until few enough are left.
const MOST_MARKS: usize = 64;
/// A low point is followed by a rise of such a part of the peak: a fifth, else less.
const LOW_PARTS: [u64; 3] = [5, 10, 20];
const NS_PER_SECOND: u128 = 1_000_000_000;

/// What allocations have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Tag(u32),
    /// The power of two.
    Size(u32),
}

impl Key {
    fn of_size(bytes: u64) -> Self {
        Key::Size(bytes.max(1).ilog2())
    }

    /// The stack or the size, as told.
    fn told(self, trace: &Trace) -> (Option<String>, Option<u64>) {
        match self {
            Key::Tag(tag) => (stack(trace, tag), None),
            Key::Size(power) => (None, Some(1 << power)),
        }
    }
}

/// Both keys of an allocation; without a stack only one.
fn keys(change: &Change) -> impl Iterator<Item = Key> {
    let tag = (change.tag != 0).then_some(Key::Tag(change.tag));
    tag.into_iter().chain([Key::of_size(change.bytes)])
}

/// What one key held so far.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    allocations: u64,
    live_bytes: u64,
    since_ns: u64,
    byte_ns: u128,
}

impl Held {
    fn go_on(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        self.byte_ns += u128::from(self.live_bytes) * u128::from(passed_ns);
        self.since_ns = now_ns;
    }
}

/// What held memory the longest, until `now_ns`.
pub(super) fn holders(trace: &Trace, changes: &[Change], now_ns: u64) -> Holders {
    let mut held: BTreeMap<Key, Held> = BTreeMap::new();
    for change in changes {
        for key in keys(change) {
            let held = held.entry(key).or_default();
            held.go_on(change.time_ns);
            if change.comes {
                held.allocations += 1;
                held.live_bytes += change.bytes;
            } else {
                held.live_bytes -= change.bytes;
            }
        }
    }
    held.values_mut().for_each(|held| held.go_on(now_ns));
    let by_size = held.iter().filter(|(key, _)| matches!(key, Key::Size(_)));
    let all: u128 = by_size.map(|(_, held)| held.byte_ns).sum();
    let mut rows: Vec<(Key, Held)> = held.into_iter().collect();
    rows.sort_by_key(|(key, held)| (std::cmp::Reverse((held.byte_ns, held.live_bytes)), *key));
    let told = |wanted: fn(&Key) -> bool| -> Vec<Holder> {
        let rows = rows.iter().filter(|(key, _)| wanted(key)).take(TOLD);
        rows.map(|(key, held)| holder(trace, *key, held, all))
            .collect()
    };
    Holders {
        by_stack: told(|key| matches!(key, Key::Tag(_))),
        by_size: told(|key| matches!(key, Key::Size(_))),
    }
}

fn holder(trace: &Trace, key: Key, held: &Held, all: u128) -> Holder {
    let (stack, from_bytes) = key.told(trace);
    // Scaled down together, so that both are integers of 64 bits.
    let scale = (all >> 63) + 1;
    Holder {
        stack,
        from_bytes,
        allocations: held.allocations,
        live_bytes: held.live_bytes,
        byte_seconds: u64::try_from(held.byte_ns / NS_PER_SECOND).unwrap_or(u64::MAX),
        share_ppm: ppm((held.byte_ns / scale) as u64, (all / scale) as u64),
    }
}

/// What parts the periods, and the events at which they begin, after the first: marks,
/// else low points, else slices.
fn borders(trace: &Trace, changes: &[Change], first: u64) -> (PartedBy, Vec<u64>) {
    if let Some((word, borders)) = marks(trace) {
        return (PartedBy::Marks { word }, borders);
    }
    let peak_bytes = live_after(changes).map(|(_, live)| live).max().unwrap_or(0);
    for part in LOW_PARTS {
        let rise_bytes = (peak_bytes / part).max(1);
        let lows = lows(changes, rise_bytes);
        if lows.len() >= LEAST_MARKS {
            return (PartedBy::Lows { rise_bytes }, thinned(lows));
        }
    }
    let end = trace.events.len() as u64;
    let slice = |number| first + (end - first) * number / SLICES;
    (PartedBy::Slices, (1..SLICES).map(slice).collect())
}

/// The marks of the word that comes most often (of equals the first), without numbers.
fn marks(trace: &Trace) -> Option<(String, Vec<u64>)> {
    let mut groups: BTreeMap<String, (usize, Vec<u64>)> = BTreeMap::new();
    for (at, event) in trace.events.iter().enumerate() {
        if let Event::Mark { label } = event {
            let word = trace.labels.get(*label as usize).map_or("", |it| it);
            let word: String = word.chars().filter(|c| !c.is_ascii_digit()).collect();
            let order = groups.len();
            let group = groups.entry(word).or_insert((order, Vec::new()));
            group.1.push(at as u64);
        }
    }
    let most = groups
        .into_iter()
        .max_by_key(|(_, (order, marks))| (marks.len(), std::cmp::Reverse(*order)));
    let (word, (_, marks)) = most.filter(|(_, (_, marks))| marks.len() >= LEAST_MARKS)?;
    Some((word, thinned(marks)))
}

fn thinned(mut marks: Vec<u64>) -> Vec<u64> {
    while marks.len() > MOST_MARKS {
        marks = marks.into_iter().step_by(2).collect();
    }
    marks
}

/// Live bytes after each change.
fn live_after(changes: &[Change]) -> impl Iterator<Item = (u64, u64)> + '_ {
    changes.iter().scan(0, |live, change| {
        apply(live, change);
        Some((change.event, *live))
    })
}

fn apply(bytes: &mut u64, change: &Change) {
    *bytes = if change.comes {
        *bytes + change.bytes
    } else {
        *bytes - change.bytes
    };
}

/// The events after which live bytes are low: they fell by `rise_bytes` at least, and rise
/// by as much again.
fn lows(changes: &[Change], rise_bytes: u64) -> Vec<u64> {
    let mut lows = Vec::new();
    let (mut high, mut low, mut falling) = (0, (0, 0), false);
    for (event, live) in live_after(changes) {
        if falling && live < low.1 {
            low = (event, live);
        } else if falling && live >= low.1 + rise_bytes {
            lows.push(low.0);
            (falling, high) = (false, live);
        } else if !falling && live > high {
            high = live;
        } else if !falling && live + rise_bytes <= high {
            (falling, low) = (true, (event, live));
        }
    }
    lows
}

/// The least live bytes of each period, of all and by key.
#[derive(Default)]
struct Least {
    all: Vec<u64>,
    keys: BTreeMap<Key, Vec<u64>>,
}

fn least(changes: &[Change], borders: &[u64]) -> Least {
    let mut least = Least {
        all: vec![0; borders.len() + 1],
        keys: BTreeMap::new(),
    };
    let (mut live, mut all, mut at): (BTreeMap<Key, u64>, u64, usize) = (BTreeMap::new(), 0, 0);
    let periods = least.all.len();
    for change in changes {
        while at < borders.len() && borders[at] <= change.event {
            at += 1;
            // A period begins with what the one before ended with.
            least.all[at] = all;
            for (key, bytes) in &live {
                let row = least.keys.entry(*key).or_insert_with(|| vec![0; periods]);
                row[at] = *bytes;
            }
        }
        apply(&mut all, change);
        least.all[at] = least.all[at].min(all);
        for key in keys(change) {
            let bytes = live.entry(key).or_default();
            apply(bytes, change);
            let row = least.keys.entry(key).or_insert_with(|| vec![0; periods]);
            row[at] = row[at].min(*bytes);
        }
    }
    // Nothing changed in the periods that are left.
    for at in at + 1..periods {
        least.all[at] = all;
        for (key, row) in &mut least.keys {
            row[at] = live.get(key).copied().unwrap_or(0);
        }
    }
    least
}

/// What grows from period to period and never falls, over the whole trace. Nothing of the
/// warm-up counts: the first quarter of the periods, at least one; nor does the period
/// behind the last mark, which may be cut off before its lowest point.
pub(super) fn leaks(trace: &Trace, changes: &[Change], first: u64) -> Leaks {
    let (parted_by, borders) = borders(trace, changes, first);
    let least = least(changes, &borders);
    let periods = least.all.len() - usize::from(parted_by != PartedBy::Slices);
    let warm_up = (periods / 4).max(1);
    let mut growing: Vec<(Key, Growth)> = least
        .keys
        .iter()
        .filter_map(|(key, row)| Some((*key, growth(trace, *key, &row[warm_up..periods])?)))
        .collect();
    growing.sort_by_key(|(key, it)| (std::cmp::Reverse(it.last_bytes - it.first_bytes), *key));
    let told = |wanted: fn(&Key) -> bool| -> Vec<Growth> {
        let rows = growing.iter().filter(|(key, _)| wanted(key)).take(TOLD);
        rows.map(|(_, growth)| growth.clone()).collect()
    };
    Leaks {
        parted_by,
        periods: periods as u64,
        warm_up: warm_up as u64,
        least_live_bytes: least.all[warm_up..periods].to_vec(),
        by_stack: told(|key| matches!(key, Key::Tag(_))),
        by_size: told(|key| matches!(key, Key::Size(_))),
        cached: Cached::default(),
    }
}

/// A row that grows in half of its steps or more, in two at least, and never falls.
fn growth(trace: &Trace, key: Key, row: &[u64]) -> Option<Growth> {
    let steps = row.len().saturating_sub(1);
    let falls = row.windows(2).any(|pair| pair[1] < pair[0]);
    let grew = row.windows(2).filter(|pair| pair[1] > pair[0]).count();
    if falls || grew < 2 || grew * 2 < steps {
        return None;
    }
    let (stack, from_bytes) = key.told(trace);
    Some(Growth {
        stack,
        from_bytes,
        first_bytes: row[0],
        last_bytes: row[steps],
        grew: grew as u64,
        per_period_bytes: (row[steps] - row[0]) / steps as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes by one allocation each, an event apart.
    fn changes(steps: &[i64]) -> Vec<Change> {
        let change = |(at, step): (usize, &i64)| Change {
            event: at as u64,
            time_ns: at as u64,
            bytes: step.unsigned_abs(),
            tag: 0,
            comes: *step > 0,
        };
        steps.iter().enumerate().map(change).collect()
    }

    #[test]
    fn a_low_point_lies_between_a_fall_and_a_rise() {
        // Live: 10, 4, 5, 3, 9, 8, 10.
        let changes = changes(&[10, -6, 1, -2, 6, -1, 2]);
        assert_eq!(lows(&changes, 5), [3], "the lowest between them");
        assert_eq!(lows(&changes, 1), [1, 3, 5]);
        assert_eq!(lows(&changes, 8), Vec::<u64>::new());
    }

    #[test]
    fn the_least_of_a_period_counts_from_what_it_begins_with() {
        // Live: 8, 13, 8, 11, 8.
        let changes = changes(&[8, 5, -5, 3, -3]);
        let least = least(&changes, &[2, 4, 9]);
        assert_eq!(
            least.all,
            [0, 8, 8, 8],
            "nothing changes in the last period"
        );
    }
}
