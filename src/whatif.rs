//! What would another setting have reserved? A free-standing replay, with addresses of
//! the driver's model, and a word on how sure the answer is.
//!
//! The driver is closed, and equal-size ties of an allocator may fall to the lowest
//! address. So a prediction runs under several address orders: where all agree it does
//! not hang on the driver and is exact; else it is a range.

use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use crate::policy::registry::Chosen;
use crate::policy::{PolicyError, Registry};
use crate::replay::Replay;
use crate::space::{AddressOrder, Device, SpaceConfig};
use crate::trace::Trace;

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
    let runs: Vec<Replay> = ORDERS
        .par_iter()
        .map(|order| run(trace, registry, chosen, setup, order.clone()))
        .collect::<Result<_, _>>()?;
    let peaks = || runs.iter().map(peak_reserved_bytes);
    let failures = || runs.iter().map(|run| run.totals().failed);
    let own = &runs[0];
    let (peak, failed) = (peak_reserved_bytes(own), own.totals().failed);
    Ok(Prediction {
        policy: chosen.label.clone(),
        peak_reserved_bytes: peak,
        low_peak_reserved_bytes: peaks().min().unwrap_or(peak),
        high_peak_reserved_bytes: peaks().max().unwrap_or(peak),
        exact: peaks().all(|other| other == peak) && failures().all(|other| other == failed),
        failed,
        high_failed: failures().max().unwrap_or(failed),
        served_instead: own.totals().instants,
        driver_calls: own.space().counters().driver_calls,
        statistics: own.policy().statistics(),
    })
}

fn peak_reserved_bytes(run: &Replay) -> u64 {
    run.space().counters().peak_reserved_bytes
}

fn run(
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
    replay.feed(&trace.events, &trace.times_ns, &mut ());
    Ok(replay)
}
