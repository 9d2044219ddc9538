//! The lifetimes of a trace's requests, as buffers to pack.

use super::packing::Buffer;
use crate::trace::{Event, StreamId, Trace};
use crate::units::{ADDRESS_LIMIT, round_up};

/// When the bytes of a request count as free again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At its free: what no policy can beat.
    Freed,
    /// When they may really be used again: at the `Complete` of a deferred free.
    Reusable,
}

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Its number among the trace's requests, failed ones and those of no bytes included;
    /// [`Ids::name`](crate::trace::Ids::name) tells its id.
    pub ordinal: u32,
    /// The event of the request.
    pub event: u32,
    /// The stream that asked.
    pub stream: StreamId,
    /// Bytes asked for.
    pub bytes: u64,
    /// Its lifetime in numbers of events, with its bytes rounded up.
    pub buffer: Buffer,
}

/// The requests of a trace that lived, in order. Requests of no bytes and those that had
/// failed when recorded are left out; what is never freed lives to the end. A free of a
/// raw address ends nothing, as it is not known what it meant. Left out is also what would
/// pass the end of all addresses, were all requests to lie side by side: no card holds it.
/// `quantum_bytes`, up to which sizes are rounded, is never 0.
///
/// # Panics
/// If the trace has 2^32 events.
#[must_use]
pub fn lifetimes(trace: &Trace, quantum_bytes: u64, until: Until) -> Vec<Life> {
    let end = u32::try_from(trace.events.len()).expect("events are counted in 32 bits");
    let mut lives: Vec<Life> = Vec::new();
    let mut holder = vec![usize::MAX; trace.slots as usize];
    let mut ordinal = 0;
    let mut room_bytes = ADDRESS_LIMIT;
    for (event, at) in trace.events.iter().zip(0u32..) {
        match *event {
            Event::Alloc {
                slot,
                bytes,
                align_log2,
                stream,
                ..
            } => {
                holder[slot as usize] = usize::MAX;
                let align = quantum_bytes.max(1 << align_log2);
                let rounded = round_up(bytes, quantum_bytes).filter(|_| bytes > 0);
                let left_bytes = rounded
                    .and_then(|rounded| room_bytes.checked_sub(rounded)?.checked_sub(align - 1));
                if let Some((bytes_up, left_bytes)) = rounded.zip(left_bytes) {
                    room_bytes = left_bytes;
                    holder[slot as usize] = lives.len();
                    let buffer = Buffer {
                        lower: at,
                        upper: end,
                        bytes: bytes_up,
                        align,
                    };
                    lives.push(Life {
                        ordinal,
                        event: at,
                        stream,
                        bytes,
                        buffer,
                    });
                }
                ordinal += 1;
            }
            Event::Attempt { .. } => ordinal += 1,
            Event::Free { slot, deferred, .. } => {
                let waits = deferred && until == Until::Reusable;
                if let Some(life) = lives.get_mut(holder[slot as usize]).filter(|_| !waits) {
                    life.buffer.upper = at;
                    holder[slot as usize] = usize::MAX;
                }
            }
            Event::Complete { slot } => {
                if let Some(life) = lives.get_mut(holder[slot as usize]) {
                    life.buffer.upper = at;
                    holder[slot as usize] = usize::MAX;
                }
            }
            _ => {}
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceBuilder;
    use crate::trace::builder::Ask;

    #[test]
    fn what_passes_all_addresses_together_is_left_out() {
        let ask = |bytes| Ask {
            bytes,
            ..Ask::default()
        };
        let mut builder = TraceBuilder::new("huge");
        for (key, bytes) in [(0, u64::MAX), (1, 1 << 60), (2, 1 << 60), (3, 1)] {
            builder.alloc(key, ask(bytes)).expect("a fresh key");
        }
        let trace = builder.finish();
        let lives = lifetimes(&trace, 1, Until::Freed);
        let ordinals: Vec<u32> = lives.iter().map(|life| life.ordinal).collect();
        assert_eq!(ordinals, [1, 2]);
        assert!(lifetimes(&trace, 1 << 62, Until::Freed).is_empty());
    }

    #[test]
    fn a_deferred_free_ends_a_lifetime_once_its_bytes_may_be_used_again() {
        let ask = |bytes| Ask {
            bytes,
            ..Ask::default()
        };
        let mut builder = TraceBuilder::new("pending");
        builder.alloc(0, ask(100)).expect("a fresh key");
        builder.alloc(1, ask(0)).expect("a fresh key");
        builder.attempt(2, ask(7));
        builder.free(0, None, true);
        builder.alloc(3, ask(5)).expect("a fresh key");
        builder.complete(0);
        let trace = builder.finish();
        let ranges = |until| -> Vec<(u32, u32, u32, u64)> {
            let lives = lifetimes(&trace, 64, until);
            let told = |life: &Life| {
                let Buffer {
                    lower,
                    upper,
                    bytes,
                    ..
                } = life.buffer;
                (life.ordinal, lower, upper, bytes)
            };
            lives.iter().map(told).collect()
        };
        assert_eq!(ranges(Until::Freed), [(0, 0, 3, 128), (3, 4, 6, 64)]);
        assert_eq!(ranges(Until::Reusable), [(0, 0, 5, 128), (3, 4, 6, 64)]);
    }
}
