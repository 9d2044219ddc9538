//! What is to happen later, in order: deaths of allocations, arrivals, ends of phases.

use std::collections::BTreeMap;

/// Things by the moment at which they fall due; of one moment, the first that was added
/// comes first.
#[derive(Debug)]
pub struct Dues<T> {
    things: BTreeMap<(u64, u64), T>,
    added: u64,
}

impl<T> Default for Dues<T> {
    fn default() -> Self {
        Dues {
            things: BTreeMap::new(),
            added: 0,
        }
    }
}

impl<T> Dues<T> {
    /// Adds a thing that falls due at `moment`.
    pub fn add(&mut self, moment: u64, thing: T) {
        self.things.insert((moment, self.added), thing);
        self.added += 1;
    }

    /// Takes the next thing out, if it is due by `moment`.
    pub fn due(&mut self, moment: u64) -> Option<T> {
        let next = self.things.first_entry()?;
        (next.key().0 <= moment).then(|| next.remove())
    }

    /// Takes the next thing out, and tells its moment.
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let ((moment, _), thing) = self.things.pop_first()?;
        Some((moment, thing))
    }
}
