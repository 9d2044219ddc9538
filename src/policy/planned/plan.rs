//! A plan: where each request of a run goes, and what can make one.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::trace::StreamId;

/// Where one request of the planned run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Bytes that the request asks for.
    pub bytes: u64,
    /// The stream that asks; `None` where the plan does not tell.
    pub stream: Option<StreamId>,
    /// Which region it goes to.
    pub region: u16,
    /// First byte within the region; `None` for a request that the plan leaves to the pool.
    pub offset: Option<u64>,
    /// Bytes set aside for it.
    pub block_bytes: u64,
}

/// The requests of a run in order, with their places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The places.
    pub places: Vec<Place>,
    /// Bytes of each region. Memory of a stream goes back to requests of that stream only,
    /// so each stream has a region.
    pub region_bytes: Vec<u64>,
}

/// What can look ahead of a replay: it makes a plan for the trace that is about to run.
/// The only thing in this room that knows a future, for policies that are built from one.
pub trait Foresight: Sync {
    /// A plan with sizes and offsets that are multiples of `alignment`.
    fn plan(&self, alignment: u64) -> Arc<Plan>;
}

#[derive(Deserialize)]
struct Row {
    size: u64,
    offset: u64,
}

impl Plan {
    /// Reads a `plan.csv` with at least the columns `size` and `offset`, one row a request
    /// in the order of the run.
    ///
    /// # Errors
    /// A file that cannot be read, or a row that does not fit, with its line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let told = |error: csv::Error| {
            let file = path.display();
            format!("plan '{file}': {error}; make one by `vramlab plan TRACE -o {file}`")
        };
        let mut plan = Plan::default();
        let mut height_bytes = 0;
        let mut reader = csv::Reader::from_path(path).map_err(told)?;
        for row in reader.deserialize() {
            let Row { size, offset } = row.map_err(told)?;
            let end = offset.checked_add(size).filter(|_| size > 0);
            height_bytes = height_bytes.max(end.ok_or_else(|| {
                format!(
                    "plan '{}': no block has {size} bytes at {offset}",
                    path.display()
                )
            })?);
            plan.places.push(Place {
                bytes: size,
                stream: None,
                region: 0,
                offset: Some(offset),
                block_bytes: size,
            });
        }
        plan.region_bytes.push(height_bytes);
        Ok(plan)
    }
}

/// How many requests ahead, or behind, a request is looked for.
const WINDOW: usize = 256;

/// Follows a plan while requests come in: where a run differs from the plan, it is found
/// again within a window.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    next: usize,
    /// Which places were handed out, by number.
    gone: Vec<bool>,
}

impl Cursor {
    /// The place of this request: the next one of its bytes and stream that was not handed
    /// out, of those not further than a window from the last; `None` where the plan has
    /// none. The search goes forwards first, then backwards.
    pub fn find(&mut self, plan: &Plan, bytes: u64, stream: StreamId) -> Option<Place> {
        self.gone.resize(plan.places.len(), false);
        let suits = |at: &usize| {
            let place = &plan.places[*at];
            let same_stream = place.stream.is_none_or(|wanted| wanted == stream);
            place.bytes == bytes && same_stream && !self.gone[*at]
        };
        let ahead = self.next..plan.places.len().min(self.next + WINDOW);
        let behind = self.next.saturating_sub(WINDOW)..self.next;
        let found = ahead.clone().find(suits);
        let found = found.or_else(|| behind.clone().rev().find(suits))?;
        self.gone[found] = true;
        self.next = self.next.max(found + 1);
        Some(plan.places[found])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_again_after_requests_that_it_does_not_know_or_that_did_not_come() {
        let place = |bytes| Place {
            bytes,
            stream: Some(0),
            region: 0,
            offset: Some(bytes * 10),
            block_bytes: bytes,
        };
        let plan = Plan {
            places: [1, 2, 3, 4, 5].map(place).to_vec(),
            region_bytes: vec![60],
        };
        let mut cursor = Cursor::default();
        let mut offset = |bytes, stream| cursor.find(&plan, bytes, stream)?.offset;
        assert_eq!(offset(1, 0), Some(10));
        assert_eq!(offset(9, 0), None, "a size that the plan does not know");
        assert_eq!(offset(2, 1), None, "another stream");
        assert_eq!(offset(3, 0), Some(30), "2 did not come");
        assert_eq!(offset(4, 0), Some(40));
        assert_eq!(offset(2, 0), Some(20), "2 came late");
        assert_eq!(offset(4, 0), None, "4 came before");
        assert_eq!(offset(5, 0), Some(50));
    }
}
