//! Which keys of a trace were ever allocated.

use std::collections::HashSet;

use foldhash::fast::RandomState;

/// The keys that were ever allocated. Only a wrong free asks for them, so they are
/// gathered at the first one, and caught up with at each that follows.
#[derive(Debug, Default)]
pub(super) struct Served {
    keys: HashSet<u64, RandomState>,
    /// How many requests were gathered.
    gathered: usize,
    /// The requests that failed, by their number.
    failed: Vec<usize>,
}

impl Served {
    /// Whether `key` is among `requests`, the keys of all requests so far, and was served.
    pub fn contains(&mut self, key: u64, requests: &[u64]) -> bool {
        let Served {
            keys,
            gathered,
            failed,
        } = self;
        let new = requests.iter().enumerate().skip(*gathered);
        keys.extend(
            new.filter(|(at, _)| failed.binary_search(at).is_err())
                .map(|(_, key)| key),
        );
        *gathered = requests.len();
        keys.contains(&key)
    }

    /// The request of that number failed; they come in order.
    pub fn failed(&mut self, number: usize) {
        self.failed.push(number);
    }
}
