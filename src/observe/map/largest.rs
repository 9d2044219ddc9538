//! The largest of many rectangles, a bounded number of them.

use std::cmp::Reverse;

/// What is compared by area.
pub(super) trait Area: Copy {
    /// Bytes times events.
    fn area(&self) -> u128;
    /// Tells rectangles apart; of two of one area the lower one is kept. Sorts the result.
    fn key(&self) -> Key;
}

/// Compared number by number.
pub(super) type Key = [u64; 4];

/// Larger areas first, of equal ones lower keys.
type Rank = (u128, Reverse<Key>);

fn rank(one: &impl Area) -> Rank {
    (one.area(), Reverse(one.key()))
}

/// Keeps the largest. Up to twice as many are held, so that the smaller half is told apart
/// once for many newcomers.
#[derive(Debug)]
pub(super) struct Largest<T> {
    most: usize,
    held: Vec<T>,
    /// The least of those that were kept when some were left out; all that is kept
    /// from then on is above it.
    bar: Option<Rank>,
}

impl<T: Area> Largest<T> {
    pub fn new(most: usize) -> Self {
        Largest {
            most,
            held: Vec::new(),
            bar: None,
        }
    }

    /// Takes one in; what is too small to be kept goes to `out`, now or later.
    #[inline]
    pub fn push(&mut self, one: T, mut out: impl FnMut(&T)) {
        // Most of a long trace's are smaller than all that are kept.
        if self.bar.is_some_and(|bar| rank(&one) < bar) {
            out(&one);
            return;
        }
        self.held.push(one);
        if self.held.len() >= self.most.saturating_mul(2).max(1) {
            self.leave_out(out);
        }
    }

    /// Keeps the largest and lets the others go to `out`.
    fn leave_out(&mut self, mut out: impl FnMut(&T)) {
        if self.held.len() <= self.most {
            return;
        }
        if let Some(last) = self.most.checked_sub(1) {
            let descending = |a: &T, b: &T| rank(b).cmp(&rank(a));
            let (_, least, _) = self.held.select_nth_unstable_by(last, descending);
            self.bar = Some(rank(least));
        }
        self.held.drain(self.most..).for_each(|small| out(&small));
    }

    /// All that are kept, by their keys; what is too small goes to `out`.
    pub fn finish(mut self, out: impl FnMut(&T)) -> Vec<T> {
        self.leave_out(out);
        self.held.shrink_to_fit();
        self.held.sort_unstable_by_key(Area::key);
        self.held
    }
}
