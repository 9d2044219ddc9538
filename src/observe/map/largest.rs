//! The largest of many rectangles, a bounded number of them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is compared by area.
pub(super) trait Area: Copy {
    /// Bytes times events.
    fn area(&self) -> u128;
    /// Tells rectangles apart; of two of one area the lower one is kept. Sorts the result.
    fn key(&self) -> (u64, u64);
}

/// Keeps the largest.
#[derive(Debug)]
pub(super) struct Largest<T> {
    most: usize,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
}

/// Larger areas first, of equal ones lower keys; both are looked at often and found once.
type Rank = (u128, Reverse<(u64, u64)>);

#[derive(Debug, Clone, Copy)]
struct Ranked<T> {
    rank: Rank,
    one: T,
}

impl<T: Area> Ranked<T> {
    fn new(one: T) -> Self {
        let rank = (one.area(), Reverse(one.key()));
        Ranked { rank, one }
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<T: Area> Largest<T> {
    pub fn new(most: usize) -> Self {
        Largest {
            most,
            heap: BinaryHeap::new(),
        }
    }

    /// Takes one in; answers the smallest where there are too many.
    pub fn push(&mut self, one: T) -> Option<T> {
        let new = Ranked::new(one);
        if self.heap.len() < self.most {
            self.heap.push(Reverse(new));
            return None;
        }
        // Most of a long trace's are smaller than all that are kept.
        let Some(mut smallest) = self.heap.peek_mut().filter(|it| it.0 < new) else {
            return Some(one);
        };
        Some(std::mem::replace(&mut *smallest, Reverse(new)).0.one)
    }

    /// All that were kept, by their keys.
    pub fn into_sorted(self) -> Vec<T> {
        let mut all: Vec<T> = self.heap.into_iter().map(|it| it.0.one).collect();
        all.sort_unstable_by_key(Area::key);
        all
    }
}
