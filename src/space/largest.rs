//! The sizes of all Free blocks as an ordered multiset: the fallback that knows the
//! largest one for policies whose own index does not.

use std::collections::BTreeMap;

use super::{Space, State};

/// Sizes with how often each occurs.
#[derive(Debug, Clone, Default)]
pub(super) struct Sizes(BTreeMap<u64, u32>);

impl Sizes {
    fn add(&mut self, bytes: u64) {
        *self.0.entry(bytes).or_insert(0) += 1;
    }

    fn remove(&mut self, bytes: u64) {
        let count = self.0.get_mut(&bytes).expect("a size that was added");
        *count -= 1;
        if *count == 0 {
            self.0.remove(&bytes);
        }
    }
}

impl Space {
    /// Keeps the sizes of Free blocks in order from here on.
    pub fn track_largest(&mut self) {
        let mut sizes = Sizes::default();
        for block in self.walk() {
            if self.state(block) == State::Free {
                sizes.add(self.bytes(block));
            }
        }
        self.largest = Some(sizes);
        self.judge_plain();
    }

    /// The largest Free block by the tracked sizes, in bytes; 0 where none is free, or
    /// where [`track_largest`](Self::track_largest) was not called.
    #[must_use]
    pub fn tracked_largest(&self) -> u64 {
        let sizes = self.largest.as_ref();
        let largest = sizes.and_then(|sizes| sizes.0.last_key_value());
        largest.map_or(0, |(bytes, _)| *bytes)
    }

    #[inline]
    pub(super) fn gain_free(&mut self, bytes: u64) {
        self.counters.free_bytes += bytes;
        self.counters.free_blocks += 1;
        if self.largest.is_some() {
            self.retrack(&[], &[bytes]);
        }
    }

    #[inline]
    pub(super) fn lose_free(&mut self, bytes: u64) {
        self.counters.free_bytes -= bytes;
        self.counters.free_blocks -= 1;
        if self.largest.is_some() {
            self.retrack(&[bytes], &[]);
        }
    }

    /// A Free block was cut into two of these bytes.
    #[inline]
    pub(super) fn cut_free(&mut self, low_bytes: u64, high_bytes: u64) {
        self.counters.free_blocks += 1;
        if self.largest.is_some() {
            self.retrack(&[low_bytes + high_bytes], &[low_bytes, high_bytes]);
        }
    }

    /// Two Free blocks of these bytes became one.
    #[inline]
    pub(super) fn join_free(&mut self, low_bytes: u64, high_bytes: u64) {
        self.counters.free_blocks -= 1;
        if self.largest.is_some() {
            self.retrack(&[low_bytes, high_bytes], &[low_bytes + high_bytes]);
        }
    }

    /// Keeps the tracked sizes up to date.
    #[inline(never)]
    fn retrack(&mut self, gone: &[u64], come: &[u64]) {
        if let Some(sizes) = &mut self.largest {
            gone.iter().for_each(|bytes| sizes.remove(*bytes));
            come.iter().for_each(|bytes| sizes.add(*bytes));
        }
    }
}
