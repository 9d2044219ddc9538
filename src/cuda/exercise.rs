//! A small trace that uses whatever a card can do: what `validate` runs where no trace is
//! named, and what planted faults are shown on.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trace::builder::Ask;
use crate::trace::{ANY_STREAM, Event, StreamId, Trace, TraceBuilder};

/// Streams of the exercise.
const STREAMS: u64 = 3;
/// Blocks that live at once, about.
const LIVE: usize = 96;
/// One in so many frees is deferred, behind a use on another stream.
const DEFERRED: u64 = 24;
/// A mark every so many rounds.
const MARK_EVERY: usize = 100;

/// A churn on three streams that hand blocks to each other behind events: `rounds`
/// requests of 1 byte to `most_bytes`, most of them no multiple of four, with uses by
/// other streams, deferred frees, marks, and a wait for the device here and there.
#[must_use]
pub fn exercise(rounds: usize, most_bytes: u64) -> Trace {
    let mut churn = Churn {
        dice: ChaCha8Rng::seed_from_u64(5),
        builder: TraceBuilder::new("exercise"),
        live: Vec::new(),
        pending: Vec::new(),
        event: 0,
    };
    for stream in 0..STREAMS {
        churn.builder.stream(stream);
    }
    for round in 0..rounds {
        if round % MARK_EVERY == 0 {
            churn.builder.mark(&format!("round {round}"));
        }
        churn.request(round as u64, most_bytes);
        if churn.live.len() > LIVE {
            churn.free();
        }
        match churn.below(16) {
            0..4 => churn.hand_over(),
            4 => churn.complete(),
            5 => churn.builder.push(Event::Sync { stream: ANY_STREAM }),
            _ => {}
        }
    }
    churn.builder.finish()
}

struct Churn {
    dice: ChaCha8Rng,
    builder: TraceBuilder,
    /// Key and stream of what lives.
    live: Vec<(u64, StreamId)>,
    pending: Vec<u64>,
    event: u32,
}

impl Churn {
    fn below(&mut self, end: u64) -> u64 {
        self.dice.next_u64() % end
    }

    fn stream(&mut self) -> StreamId {
        self.below(STREAMS) as StreamId
    }

    fn request(&mut self, key: u64, most_bytes: u64) {
        // Each octave of sizes is as frequent as the next.
        let octave = self.below(u64::from(most_bytes.ilog2()) + 1);
        let bytes = (1 + self.below(most_bytes)) >> octave;
        let stream = self.stream();
        let ask = Ask {
            bytes: bytes.max(1),
            stream,
            ..Ask::default()
        };
        let asked = self.builder.alloc(key, ask);
        asked.expect("every round has a key of its own");
        self.live.push((key, stream));
    }

    /// Frees a block on its own stream, or behind a use on another.
    fn free(&mut self) {
        let at = self.below(self.live.len() as u64) as usize;
        let (key, stream) = self.live.swap_remove(at);
        let deferred = self.below(DEFERRED) == 0;
        if deferred {
            let slot = self.builder.slot(key).expect("it lives");
            let user = (stream + 1) % STREAMS as StreamId;
            self.builder.push(Event::Use { slot, stream: user });
            self.pending.push(key);
        }
        self.builder.free(key, Some(stream), deferred);
    }

    /// One stream goes on behind another.
    fn hand_over(&mut self) {
        let (stream, on) = (self.stream(), self.stream());
        let event = self.event;
        self.event += 1;
        self.builder.push(Event::Record { stream: on, event });
        self.builder.push(Event::Wait { stream, event });
    }

    fn complete(&mut self) {
        if let Some(key) = self.pending.pop() {
            self.builder.complete(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::check::check;

    #[test]
    fn the_exercise_is_a_valid_trace_with_every_kind_of_event_that_a_card_sees() {
        let trace = exercise(600, 1 << 16);
        assert_eq!(check(&trace), Ok(()));
        let count = |is: fn(&Event) -> bool| trace.events.iter().filter(|event| is(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Alloc { .. })), 600);
        assert_eq!(count(|event| matches!(event, Event::Mark { .. })), 6);
        assert!(count(|event| matches!(event, Event::Wait { .. })) > 50);
        assert!(count(|event| matches!(event, Event::Use { .. })) > 5);
        assert!(count(|event| matches!(event, Event::Complete { .. })) > 5);
        let odd = |event: &Event| matches!(event, Event::Alloc { bytes, .. } if bytes % 4 != 0);
        assert!(count(odd) > 200);
    }
}
