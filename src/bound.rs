//! What no policy can beat: the peak of live requested bytes; and how near a packing comes
//! that knows the whole trace ([`pack`](pack::pack)).
//!
//! A slot is live from its `Alloc` up to its `Free`, the event of the free not included
//! (half-open): a request that follows the free in the trace may use the same bytes.
//! Deferred frees count until their `Free`, not until their `Complete`. A request that
//! failed when it was recorded (an `Attempt`) was never live and counts nothing, and so
//! does one of no bytes. Where a trace frees raw addresses, any live request may be the
//! one meant, so the largest ones are left out: the bound stays one.

pub mod exact;
pub mod greedy;
pub mod improve;
mod layers;
pub mod lifetimes;
mod overlaps;
pub mod pack;
pub mod packing;
pub mod plan;
pub mod sweep;
pub mod validate;

pub use lifetimes::{Life, Until, lifetimes};
pub use pack::{Budget, pack};
pub use packing::{Buffer, Packing, max_load_bytes};
pub use plan::plan;
pub use validate::validate;

use crate::policy::Policy;
use crate::space::Request;
use crate::trace::{Event, Trace};
use crate::units::round_up;

/// The peak of live requested bytes; `u64::MAX` where it passes that.
#[must_use]
pub fn peak_live_requested_bytes(trace: &Trace) -> u64 {
    peak_live_rounded_bytes(trace, 1)
}

/// The same with every request rounded up to a multiple of `quantum_bytes`.
///
/// # Panics
/// If `quantum_bytes` is 0.
#[must_use]
pub fn peak_live_rounded_bytes(trace: &Trace, quantum_bytes: u64) -> u64 {
    let mut peak = PeakLive::new(quantum_bytes);
    for event in &trace.events {
        peak.see(event);
    }
    peak.peak_bytes()
}

/// The same with every request rounded as a policy rounds it.
#[must_use]
pub fn peak_live_rounded_by(trace: &Trace, policy: &dyn Policy) -> u64 {
    let mut peak = PeakLive::new(1);
    for event in &trace.events {
        let mut event = *event;
        if let Event::Alloc {
            bytes,
            align_log2,
            stream,
            pool,
            tag,
            ..
        } = &mut event
            && *bytes > 0
        {
            let request = Request {
                bytes: *bytes,
                align: 1 << *align_log2,
                stream: *stream,
                pool: *pool,
                tag: *tag,
            };
            *bytes = policy.rounded_bytes(&request).unwrap_or(u64::MAX);
        }
        peak.see(&event);
    }
    peak.peak_bytes()
}

/// The bound of a trace that is read as a stream: 8 bytes a slot are held.
#[derive(Debug, Clone)]
pub struct PeakLive {
    quantum_bytes: u64,
    slots: Vec<u64>,
    live_bytes: u128,
    peak_bytes: u128,
    /// Frees of raw addresses so far.
    unnamed_frees: usize,
}

impl PeakLive {
    /// Nothing is live; requests are rounded up to multiples of `quantum_bytes`.
    ///
    /// # Panics
    /// If `quantum_bytes` is 0.
    #[must_use]
    pub fn new(quantum_bytes: u64) -> Self {
        assert!(quantum_bytes > 0, "a quantum of no bytes");
        PeakLive {
            quantum_bytes,
            slots: Vec::new(),
            live_bytes: 0,
            peak_bytes: 0,
            unnamed_frees: 0,
        }
    }

    /// The next event.
    pub fn see(&mut self, event: &Event) {
        match *event {
            Event::Alloc { slot, bytes, .. } => {
                let at = slot as usize;
                if at >= self.slots.len() {
                    self.slots.resize(at + 1, 0);
                }
                let bytes = round_up(bytes, self.quantum_bytes).unwrap_or(u64::MAX);
                self.live_bytes += u128::from(bytes);
                self.live_bytes -= u128::from(std::mem::replace(&mut self.slots[at], bytes));
                self.peak_bytes = self.peak_bytes.max(self.surely_live_bytes());
            }
            Event::Free { slot, .. } => {
                if let Some(bytes) = self.slots.get_mut(slot as usize) {
                    self.live_bytes -= u128::from(std::mem::take(bytes));
                }
            }
            Event::FreeAt { .. } => self.unnamed_frees += 1,
            _ => {}
        }
    }

    /// The peak so far, in bytes; `u64::MAX` where it passes that.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        u64::try_from(self.peak_bytes).unwrap_or(u64::MAX)
    }

    /// Live bytes without the largest requests that a raw free may have meant.
    fn surely_live_bytes(&self) -> u128 {
        if self.unnamed_frees == 0 {
            return self.live_bytes;
        }
        let mut sizes = self.slots.clone();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
            .iter()
            .skip(self.unnamed_frees)
            .map(|bytes| u128::from(*bytes))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceBuilder;
    use crate::trace::builder::Ask;

    fn ask(bytes: u64) -> Ask {
        Ask {
            bytes,
            ..Ask::default()
        }
    }

    fn alloc(builder: &mut TraceBuilder, key: u64, bytes: u64) {
        builder.alloc(key, ask(bytes)).expect("a fresh key");
    }

    #[test]
    fn a_free_ends_before_the_request_that_follows() {
        let mut builder = TraceBuilder::new("half-open");
        alloc(&mut builder, 0, 100);
        alloc(&mut builder, 1, 50);
        builder.free(0, None, true);
        alloc(&mut builder, 2, 90);
        builder.complete(0);
        builder.attempt(3, ask(1 << 40));
        alloc(&mut builder, 4, 0);
        let trace = builder.finish();
        assert_eq!(peak_live_requested_bytes(&trace), 150);
        assert_eq!(peak_live_rounded_bytes(&trace, 64), 128 + 64);
        assert_eq!(peak_live_rounded_bytes(&trace, 80), 160 + 80);
    }

    #[test]
    fn sizes_beyond_all_integers_saturate_and_are_given_back() {
        let mut builder = TraceBuilder::new("overflow");
        alloc(&mut builder, 0, u64::MAX - 3);
        alloc(&mut builder, 1, u64::MAX - 7);
        builder.free(0, None, false);
        builder.free(1, None, false);
        alloc(&mut builder, 2, 10);
        assert_eq!(peak_live_requested_bytes(&builder.finish()), u64::MAX);
    }

    /// S08: `A a 1024 ; Fptr 256 ; Fptr 2048 ; A b 1024 ; Fptr 0 ; A c 512`. Every policy
    /// holds 2048 at most; the two early frees may both have meant `a`.
    #[test]
    fn a_free_of_a_raw_address_never_raises_the_bound() {
        let mut builder = TraceBuilder::new("S08");
        alloc(&mut builder, 0, 1024);
        builder.push(Event::FreeAt { address: 256 });
        alloc(&mut builder, 1, 1024);
        assert_eq!(peak_live_requested_bytes(builder.trace_mut()), 1024);
        builder.push(Event::FreeAt { address: 0 });
        alloc(&mut builder, 2, 1536);
        assert_eq!(peak_live_requested_bytes(&builder.finish()), 1024);
    }
}
