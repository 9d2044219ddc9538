//! Chunks of things from one thread to another.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// So many things go over at once: few enough to stay in a cache.
const CHUNK: usize = 2048;
/// Chunks that are on their way at most.
const CHUNKS: usize = 4;

/// Takes things one by one, and gives them to a [`Taker`] chunk by chunk; without one it
/// holds them all.
#[derive(Debug)]
pub(super) struct Giver<T> {
    /// All of them, or those since the last full chunk.
    held: Vec<T>,
    /// How many were given away.
    given: usize,
    ways: Option<Ways<T>>,
}

#[derive(Debug)]
struct Ways<T> {
    full: SyncSender<Vec<T>>,
    spare: Receiver<Vec<T>>,
}

/// What a [`Giver`] gives comes here, on another thread.
#[derive(Debug)]
pub(super) struct Taker<T> {
    full: Receiver<Vec<T>>,
    spare: SyncSender<Vec<T>>,
}

impl<T> Default for Giver<T> {
    fn default() -> Self {
        Giver {
            held: Vec::new(),
            given: 0,
            ways: None,
        }
    }
}

/// Both ends.
pub(super) fn relay<T>() -> (Giver<T>, Taker<T>) {
    let (to_taker, full) = sync_channel(CHUNKS);
    let (spare, from_taker) = sync_channel(CHUNKS);
    let giver = Giver {
        held: Vec::with_capacity(CHUNK),
        given: 0,
        ways: Some(Ways {
            full: to_taker,
            spare: from_taker,
        }),
    };
    (giver, Taker { full, spare })
}

impl<T> Giver<T> {
    /// Whether there is anybody who takes what is given.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.ways.is_some()
    }

    /// How many things there were so far.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.given + self.held.len()
    }

    /// One more.
    #[inline(always)]
    pub(super) fn push(&mut self, thing: T) {
        self.held.push(thing);
        if self.held.len() == CHUNK {
            self.give();
        }
    }

    #[cold]
    fn give(&mut self) {
        if let Some(ways) = &self.ways {
            self.given += self.held.len();
            let empty = ways.spare.try_recv();
            let empty = empty.unwrap_or_else(|_| Vec::with_capacity(CHUNK));
            let full = std::mem::replace(&mut self.held, empty);
            if ways.full.send(full).is_err() {
                self.ways = None;
            }
        }
    }

    /// There is no more: the taker gets the rest and comes to its end. What is told back
    /// was held, where there is no taker.
    pub(super) fn close(&mut self) -> Vec<T> {
        self.give();
        self.ways = None;
        std::mem::take(&mut self.held)
    }
}

impl<T> Taker<T> {
    /// Calls `take` with chunk after chunk until the giver closes, or `take` has enough.
    pub(super) fn each(self, mut take: impl FnMut(&[T]) -> ControlFlow<()>) {
        for mut chunk in self.full {
            if take(&chunk).is_break() {
                return;
            }
            chunk.clear();
            // Where enough are on their way back, this one is not needed.
            let _ = self.spare.try_send(chunk);
        }
    }
}

/// Whether work is worth dividing: there is more than one thread to do it.
pub(super) fn several_threads() -> bool {
    rayon::current_num_threads() > 1
}
