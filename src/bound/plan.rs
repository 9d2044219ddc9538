//! A packing of a trace's requests, as a plan that a policy can follow.

use std::collections::BTreeMap;

use super::lifetimes::{Life, Until, lifetimes};
use super::pack::{Budget, pack};
use super::packing::Buffer;
use crate::policy::planned::{Place, Plan};
use crate::trace::{Event, StreamId, Trace};

/// Plans a trace: a region for each stream, its requests packed until they may really be
/// used again, with sizes and offsets that are multiples of `alignment`. Requests that had
/// failed when recorded are left to the pool.
///
/// # Panics
/// As [`lifetimes`] and [`pack`].
#[must_use]
pub fn plan(trace: &Trace, alignment: u64, budget: &Budget<'_>) -> Plan {
    let lives = lifetimes(trace, alignment, Until::Reusable);
    let mut streams: BTreeMap<StreamId, Vec<&Life>> = BTreeMap::new();
    for life in &lives {
        streams.entry(life.stream).or_default().push(life);
    }
    let mut plan = Plan::default();
    let mut placed: BTreeMap<u32, Place> = BTreeMap::new();
    for (region, (stream, lives)) in streams.into_iter().enumerate() {
        let buffers: Vec<Buffer> = lives.iter().map(|life| life.buffer).collect();
        let packing = pack(&buffers, None, budget);
        plan.region_bytes.push(packing.height_bytes);
        for (life, offset) in lives.into_iter().zip(packing.offsets) {
            let place = Place {
                bytes: life.bytes,
                stream: Some(stream),
                region: region as u16,
                offset: Some(offset),
                block_bytes: life.buffer.bytes,
            };
            placed.insert(life.event, place);
        }
    }
    let places = trace
        .events
        .iter()
        .zip(0u32..)
        .filter_map(|(event, at)| match *event {
            Event::Alloc { .. } => placed.get(&at).copied(),
            Event::Attempt { bytes, stream, .. } => (bytes > 0).then_some(Place {
                bytes,
                stream: Some(stream),
                region: 0,
                offset: None,
                block_bytes: bytes,
            }),
            _ => None,
        });
    plan.places = places.collect();
    plan
}
