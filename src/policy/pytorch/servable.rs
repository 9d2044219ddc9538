//! The largest request that would be served at the moment, without a wait for the device.

use super::options::{
    LARGE_BELOW_BYTES, MIN_BLOCK_BYTES, ROUND_LARGE_BYTES, SMALL_BYTES, SMALL_SEGMENT_BYTES,
    UNLIMITED,
};
use super::{Pair, Pool, PyTorch};
use crate::policy::index::BySize;
use crate::space::{BlockId, Space, State};
use crate::trace::StreamId;

impl PyTorch {
    /// The largest request on `stream` that would be served now, by the pool that requests
    /// go to, without giving anything back that needs a wait for the device.
    pub(super) fn largest_servable(&self, space: &Space, stream: StreamId) -> u64 {
        let routed = self.routes.last().and_then(|pool| self.pair_of.get(pool));
        let pair = &self.pairs[*routed.unwrap_or(&0) as usize];
        let largest = |pool: &Pool| {
            let set = pool.free.get(usize::from(stream));
            set.and_then(BySize::largest).map_or(0, |entry| entry.bytes)
        };
        // Small requests are served by the small pool only, large ones by the large one.
        let large = Some(largest(&pair.large)).filter(|bytes| *bytes > SMALL_BYTES);
        let cached = large.unwrap_or_else(|| largest(&pair.small).min(SMALL_BYTES));
        // Its own count: whoever asks may not have narrowed the Space to the policy's share.
        let total = self.statistics.reserved_bytes.all.current as u64;
        let room = self
            .cap_bytes
            .map_or(UNLIMITED, |cap| cap.saturating_sub(total));
        let grown = if self.options.expandable_segments {
            self.by_pages(pair, stream, room, space)
        } else {
            self.by_segment(room.min(space.room_bytes()), UNLIMITED)
        };
        let released = self.by_release(pair, stream, space);
        self.options
            .largest_rounding_to(cached.max(grown).max(released))
    }

    /// The largest request up to `reach_bytes` whose segment is no more than `room_bytes`.
    fn by_segment(&self, room_bytes: u64, reach_bytes: u64) -> u64 {
        let whole = room_bytes / ROUND_LARGE_BYTES * ROUND_LARGE_BYTES;
        let most = whole.min(reach_bytes);
        if most >= LARGE_BELOW_BYTES {
            return most;
        }
        if reach_bytes > SMALL_BYTES && room_bytes >= self.options.large_segment_bytes {
            return reach_bytes.min(LARGE_BELOW_BYTES - MIN_BLOCK_BYTES);
        }
        if room_bytes >= SMALL_SEGMENT_BYTES {
            reach_bytes.min(SMALL_BYTES)
        } else {
            0
        }
    }

    /// What growth by pages serves: the cap is compared with a segment's size, the card
    /// with the pages.
    fn by_pages(&self, pair: &Pair, stream: StreamId, room_bytes: u64, space: &Space) -> u64 {
        let large_page = self.options.large_segment_bytes;
        let large = Self::reach(&pair.large, stream, large_page, space);
        let large = self.by_segment(room_bytes, large);
        if large > SMALL_BYTES {
            return large;
        }
        let small = Self::reach(&pair.small, stream, SMALL_SEGMENT_BYTES, space);
        if room_bytes >= SMALL_SEGMENT_BYTES {
            small.min(SMALL_BYTES)
        } else {
            0
        }
    }

    /// The largest block that growth makes with the pages that the card has left. Growth
    /// begins at the lowest place whose neighbours reach the size, so a place counts only
    /// for sizes that no lower one reaches.
    fn reach(pool: &Pool, stream: StreamId, page_bytes: u64, space: &Space) -> u64 {
        let room = space.room_bytes() / page_bytes * page_bytes;
        let (mut most, mut reached) = (0, 0);
        let none = std::collections::BTreeMap::new();
        let unmapped = pool.unmapped.get(usize::from(stream)).unwrap_or(&none);
        for part in unmapped.values() {
            let below = space.free_prev(*part);
            let (mut left, mut made, mut span) = (room, 0, 0);
            let mut next = Some(below.unwrap_or(*part));
            while let Some(block) = next {
                let bytes = space.bytes(block);
                let mapped = match space.state(block) {
                    State::Free => bytes,
                    State::Unmapped => bytes.min(left),
                    _ => break,
                };
                // What lies behind a part that cannot be mapped whole is out of reach.
                if made == span {
                    made += mapped;
                }
                if space.state(block) == State::Unmapped {
                    left -= mapped;
                }
                span += bytes;
                next = space.next(block);
            }
            if span > reached {
                if made > reached {
                    most = most.max(made);
                }
                reached = span;
            }
        }
        // A new reservation serves what no place reaches.
        if room > reached { room } else { most }
    }

    /// What giving back unsplittable blocks of the stream makes room for.
    fn by_release(&self, pair: &Pair, stream: StreamId, space: &Space) -> u64 {
        let max_split = self.options.max_split_bytes;
        let Some(set) = pair.large.free.get(usize::from(stream)) else {
            return 0;
        };
        if max_split == UNLIMITED {
            return 0;
        }
        let whole =
            |block: BlockId| !Self::is_split(space, block) && !Self::is_expandable(space, block);
        let oversize = set.iter().filter(|entry| entry.bytes >= max_split);
        let whole = oversize.filter(|entry| whole(BlockId(entry.block)));
        whole.map(|entry| entry.bytes).sum()
    }
}
