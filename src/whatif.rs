//! What would another setting have reserved? A free-standing replay, with addresses of
//! the driver's model, and a word on how sure the answer is.
//!
//! The driver is closed, and equal-size ties of an allocator may fall to the lowest
//! address. So a prediction runs under several address orders: where all agree it does
//! not hang on the driver and is exact; else it is a range.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use crate::observe::Row;
use crate::policy::registry::Chosen;
use crate::policy::{PolicyError, Registry};
use crate::replay::{Observer, Replay};
use crate::space::driver::context::{Taken, given_back};
use crate::space::{AddressOrder, Device, SpaceConfig};
use crate::trace::Trace;
use crate::trace::truth::TruthKind;
use crate::units::{format_bytes, format_count};

/// The card and what of it may be used.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The whole card.
    pub device: Arc<Device>,
    /// What the program may take, in bytes.
    pub capacity_bytes: u64,
}

/// What a policy would have done with a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prediction {
    /// The policy as given.
    pub policy: String,
    /// Peak of what is mapped, bytes, under the driver's own address order.
    pub peak_reserved_bytes: u64,
    /// The lowest of it under all address orders, bytes.
    pub low_peak_reserved_bytes: u64,
    /// The highest of it, bytes.
    pub high_peak_reserved_bytes: u64,
    /// All address orders agree, in peak and in failures.
    pub exact: bool,
    /// Requests that failed.
    pub failed: u64,
    /// The most requests that failed under any address order.
    pub high_failed: u64,
    /// Requests that had failed when recorded and were served here.
    pub served_instead: u64,
    /// Calls of the driver.
    pub driver_calls: u64,
    /// The statistics that the modelled allocator keeps.
    #[serde(skip)]
    pub statistics: Vec<(String, i64)>,
}

impl Prediction {
    /// A statistic by the name that the allocator gives it.
    #[must_use]
    pub fn statistic(&self, name: &str) -> Option<i64> {
        let mut named = self.statistics.iter().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| *value)
    }
}

/// The address orders of a prediction; the driver's own is the first.
pub const ORDERS: [AddressOrder; 5] = [
    AddressOrder::TopDown,
    AddressOrder::BottomUp,
    AddressOrder::Shuffled(1),
    AddressOrder::Shuffled(2),
    AddressOrder::Shuffled(3),
];

/// What one run came to, as far as a prediction tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    peak_reserved_bytes: u64,
    failed: u64,
    served_instead: u64,
    driver_calls: u64,
    statistics: Vec<(String, i64)>,
}

impl Ran {
    /// What a row tells of its run; it has no statistics of the modelled allocator.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        Ran {
            peak_reserved_bytes: row.peak_reserved_bytes,
            failed: row.failed,
            served_instead: row.counterfactual_requests,
            driver_calls: row.driver_calls,
            statistics: Vec::new(),
        }
    }
}

impl Prediction {
    /// What a policy comes to: `own` is its run under the driver's own address order,
    /// `others` are those under the other ones.
    #[must_use]
    pub fn new(policy: &str, own: Ran, others: &[Ran]) -> Self {
        let (peak, failed) = (own.peak_reserved_bytes, own.failed);
        let peaks = || others.iter().map(|run| run.peak_reserved_bytes);
        let failures = || others.iter().map(|run| run.failed);
        Prediction {
            policy: policy.to_owned(),
            peak_reserved_bytes: peak,
            low_peak_reserved_bytes: peaks().fold(peak, u64::min),
            high_peak_reserved_bytes: peaks().fold(peak, u64::max),
            exact: peaks().all(|other| other == peak) && failures().all(|other| other == failed),
            failed,
            high_failed: failures().fold(failed, u64::max),
            served_instead: own.served_instead,
            driver_calls: own.driver_calls,
            statistics: own.statistics,
        }
    }
}

/// Predicts what `chosen` would have reserved for `trace`.
///
/// # Errors
/// [`PolicyError`] where the policy does not build or cannot take what it starts with.
///
/// # Panics
/// If the policy breaks a rule of the Space.
pub fn predict(
    trace: &Trace,
    registry: &Registry,
    chosen: &Chosen,
    setup: &Setup,
) -> Result<Prediction, PolicyError> {
    let mut runs = under(&ORDERS, trace, registry, chosen, setup)?;
    let own = runs.remove(0);
    Ok(Prediction::new(&chosen.label, own, &runs))
}

/// The runs under every address order but the driver's own, for who has replayed that one.
///
/// # Errors
/// As [`predict`].
///
/// # Panics
/// As [`predict`].
pub fn under_other_orders(
    trace: &Trace,
    registry: &Registry,
    chosen: &Chosen,
    setup: &Setup,
) -> Result<Vec<Ran>, PolicyError> {
    under(&ORDERS[1..], trace, registry, chosen, setup)
}

fn under(
    orders: &[AddressOrder],
    trace: &Trace,
    registry: &Registry,
    chosen: &Chosen,
    setup: &Setup,
) -> Result<Vec<Ran>, PolicyError> {
    let moved = context_moved_at(trace);
    let run = |order: &AddressOrder| {
        let mut replay = begin(trace, registry, chosen, setup, order.clone())?;
        feed_knowing(moved, trace, &mut replay, &mut (), |_, _| true);
        Ok(Ran {
            peak_reserved_bytes: replay.space().counters().peak_reserved_bytes,
            failed: replay.totals().failed,
            served_instead: replay.totals().instants,
            driver_calls: replay.space().counters().driver_calls,
            statistics: replay.policy().statistics(),
        })
    };
    orders.par_iter().with_max_len(1).map(run).collect()
}

fn begin(
    trace: &Trace,
    registry: &Registry,
    chosen: &Chosen,
    setup: &Setup,
    addresses: AddressOrder,
) -> Result<Replay, PolicyError> {
    let config = SpaceConfig {
        device: setup.device.clone(),
        capacity_bytes: setup.capacity_bytes,
        blind: false,
        streams: trace.streams.len(),
        addresses,
        record_steps: false,
    };
    let mut replay = Replay::new(registry.build(chosen)?, config).map_err(|shortage| {
        let what = format!(
            "it starts with {} bytes, and the card does not hold them; give a larger --capacity",
            shortage.wanted_bytes
        );
        PolicyError::new(&chosen.label, what)
    })?;
    replay.name_streams(&trace.streams);
    Ok(replay)
}

/// How many events are decoded, fed and reported at once.
const BATCH_EVENTS: usize = 4096;

/// Feeds a whole trace in batches; tells the driver when the context of the program moved.
pub fn feed<O: Observer>(
    trace: &Trace,
    replay: &mut Replay,
    observer: &mut O,
    progress: &(dyn Fn(u64) + Sync),
) {
    feed_while(trace, replay, observer, |_, events| {
        progress(events);
        true
    });
}

/// The same, as long as `go_on` says so after each batch and its number of events.
pub fn feed_while<O: Observer>(
    trace: &Trace,
    replay: &mut Replay,
    observer: &mut O,
    go_on: impl FnMut(&Replay, u64) -> bool,
) {
    feed_knowing(context_moved_at(trace), trace, replay, observer, go_on);
}

/// The same, for who replays a trace many times: `moved` is its [`context_moved_at`].
pub fn feed_knowing<O: Observer>(
    moved: Option<usize>,
    trace: &Trace,
    replay: &mut Replay,
    observer: &mut O,
    mut go_on: impl FnMut(&Replay, u64) -> bool,
) {
    let events = trace.events.len();
    let moved = moved.map_or(events, |event| event.min(events));
    for range in [0..moved, moved..events] {
        if range.start > 0 && !range.is_empty() {
            replay.give_context_back();
        }
        for from in range.clone().step_by(BATCH_EVENTS) {
            let batch = from..range.end.min(from + BATCH_EVENTS);
            let times_ns = trace.times_ns.get(batch.clone()).unwrap_or(&[]);
            replay.feed(&trace.events[batch.clone()], times_ns, observer);
            if !go_on(replay, batch.len() as u64) {
                return;
            }
        }
    }
}

/// Feeds the events of `range`, which begins where the replay stands.
pub fn feed_range<O: Observer>(
    trace: &Trace,
    replay: &mut Replay,
    range: Range<usize>,
    observer: &mut O,
) {
    let moved = context_moved_at(trace).filter(|at| *at > 0 && range.contains(at));
    let middle = moved.unwrap_or(range.end);
    let mut part = |replay: &mut Replay, part: Range<usize>| {
        let times_ns = trace.times_ns.get(part.clone()).unwrap_or(&[]);
        replay.feed(&trace.events[part], times_ns, observer);
    };
    part(replay, range.start..middle);
    if moved.is_some() {
        replay.give_context_back();
    }
    part(replay, middle..range.end);
}

/// The one thing that a prediction takes from a recording beside its requests: when the
/// context of the program moved, which no setting of the allocator changes. It is looked
/// for in all that was recorded.
#[must_use]
pub fn context_moved_at(trace: &Trace) -> Option<usize> {
    let facts = trace.truth.as_deref()?.entries.iter();
    let taken: Vec<Taken> = facts
        .filter(|fact| fact.kind == TruthKind::SegmentAlloc)
        .map(|fact| Taken {
            event: fact.event,
            address: fact.address,
            bytes: fact.bytes,
        })
        .collect();
    given_back(&taken).map(|event| event as usize)
}

/// The presets of PyTorch that are worth a try, the default first.
pub const PYTORCH_SETTINGS: [&str; 9] = [
    "pytorch",
    "pytorch-expandable",
    "pytorch-split-128",
    "pytorch-split-512",
    "pytorch-roundup-4",
    "pytorch-roundup-8",
    "pytorch-expandable-roundup-4",
    "pytorch-large-64",
    "pytorch-gc-80",
];

/// Which settings would have avoided the failures of the first prediction, and at what
/// cost in driver calls; where nothing failed, which reserve the least.
#[must_use]
pub fn advice(predictions: &[Prediction]) -> String {
    let Some((own, others)) = predictions.split_first() else {
        return String::new();
    };
    let cost = |made: &Prediction| {
        let calls = i128::from(made.driver_calls) - i128::from(own.driver_calls);
        let unsure = if made.exact {
            ""
        } else {
            ", hangs on addresses of the driver"
        };
        format!(
            "{} (peak reserved {}, {} driver calls, {calls:+}{unsure})",
            made.policy,
            format_bytes(made.peak_reserved_bytes),
            format_count(made.driver_calls),
        )
    };
    if own.failed == 0 {
        let frugal = others.iter().filter(|made| {
            made.high_failed == 0 && made.high_peak_reserved_bytes < own.low_peak_reserved_bytes
        });
        return match frugal.min_by_key(|made| made.peak_reserved_bytes) {
            Some(least) => format!(
                "Nothing failed under {}; least: {}.",
                own.policy,
                cost(least)
            ),
            None => format!(
                "Nothing failed under {}, and no other setting reserves less.",
                own.policy
            ),
        };
    }
    let avoiding: Vec<String> = others
        .iter()
        .filter(|made| made.high_failed == 0)
        .map(cost)
        .collect();
    let failures = format!(
        "{} requests failed under {}",
        format_count(own.failed),
        own.policy
    );
    if avoiding.is_empty() {
        format!("{failures}; none of these settings would have avoided all of it.")
    } else {
        format!(
            "{failures}; it would have been avoided by {}.",
            avoiding.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(policy: &str, peak: u64, failed: u64, driver_calls: u64) -> Prediction {
        Prediction {
            policy: policy.into(),
            peak_reserved_bytes: peak,
            low_peak_reserved_bytes: peak,
            high_peak_reserved_bytes: peak,
            exact: true,
            failed,
            high_failed: failed,
            served_instead: 0,
            driver_calls,
            statistics: Vec::new(),
        }
    }

    #[test]
    fn the_advice_names_what_avoids_a_failure_and_its_cost() {
        let (own, other) = (made("a", 4 << 20, 2, 10), made("b", 3 << 20, 0, 25));
        let told = advice(&[own.clone(), made("c", 1 << 20, 1, 5), other]);
        assert!(told.contains("2 requests failed under a"), "{told}");
        assert!(
            told.contains("25 driver calls, +15") && !told.contains("c ("),
            "{told}"
        );
        assert!(advice(&[own]).contains("none of these"));
        let told = advice(&[made("a", 4 << 20, 0, 10), made("b", 3 << 20, 0, 8)]);
        assert!(told.contains("least: b") && told.contains("-2"), "{told}");
    }
}
