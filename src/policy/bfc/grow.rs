//! Growing by regions, and giving free ones back.

use super::{Bfc, Growth, QUANTUM_BYTES};
use crate::policy::limit::room_after_bytes;
use crate::space::{BlockId, Space, State};
use crate::units::round_up;

/// What an extension that the driver refused is multiplied by, in single precision as
/// in the original.
const BACK_OFF: f32 = 0.9;

impl Bfc {
    /// What the limit leaves, in whole quanta.
    pub(super) fn available_bytes(&self) -> u64 {
        let left = self.limit_bytes.saturating_sub(self.pool_bytes());
        left - left % QUANTUM_BYTES
    }

    /// A new region that holds `bytes`; false where the limit or the driver refuses.
    pub(super) fn extend(&mut self, bytes: u64, space: &mut Space) -> bool {
        let available = self.available_bytes();
        if bytes > available {
            return false;
        }
        let (wanted, doubled) = self.next_region(bytes);
        let Some(block) = self.obtain(wanted.min(available), bytes, space) else {
            return false;
        };
        if let Growth::Doubling {
            most_bytes: None, ..
        } = self.rules.growth
            && !doubled
        {
            self.region_bytes = self.region_bytes.saturating_mul(2);
        }
        self.first_region.get_or_insert(space.segment(block));
        self.statistics.pool_bytes += space.bytes(block) as i64;
        self.statistics.peak_pool_bytes = self
            .statistics
            .peak_pool_bytes
            .max(self.statistics.pool_bytes);
        self.slots.take(block);
        self.settle(block, space);
        true
    }

    /// Bytes of the next region, and whether it had to be doubled to hold the request.
    fn next_region(&mut self, bytes: u64) -> (u64, bool) {
        let Growth::Doubling { most_bytes, .. } = self.rules.growth else {
            return (bytes, false);
        };
        let doubled = bytes > self.region_bytes;
        while bytes > self.region_bytes {
            self.region_bytes = self.region_bytes.max(1).saturating_mul(2);
        }
        let next = self.region_bytes;
        if let Some(most_bytes) = most_bytes
            && !doubled
        {
            self.region_bytes = most_bytes.min(next.saturating_mul(2));
        }
        (next, doubled)
    }

    /// Asks the driver for `wanted` bytes, then for less and less, down to `least`.
    fn obtain(&mut self, mut wanted: u64, least: u64, space: &mut Space) -> Option<BlockId> {
        loop {
            let answer = if self.rules.continues {
                self.continue_region(wanted, space)
            } else {
                space.map(wanted).ok()
            };
            if answer.is_some() {
                return answer;
            }
            let less = round_up((wanted as f32 * BACK_OFF) as u64, QUANTUM_BYTES)?;
            if less < least || less < self.rules.retry_down_to_bytes {
                return None;
            }
            if less >= wanted {
                // Up to 2,304 bytes rounding undoes the step, and TensorFlow 2.21 asks
                // for ever; here it is a failure, counted.
                self.statistics.endless_extensions += 1;
                return None;
            }
            wanted = less;
        }
    }

    /// Maps memory right behind the last region, where its reservation goes on.
    fn continue_region(&mut self, bytes: u64, space: &mut Space) -> Option<BlockId> {
        let tail = match self.tail.filter(|tail| space.bytes(*tail) > bytes) {
            Some(tail) => tail,
            None => {
                let total = space
                    .device()
                    .total_bytes
                    .max(bytes)
                    .next_multiple_of(QUANTUM_BYTES);
                space.reserve(2 * total, QUANTUM_BYTES)
            }
        };
        self.tail = Some(tail);
        space.back(tail, bytes).ok()?;
        self.tail = space.next(tail);
        Some(tail)
    }

    /// Whether the free chunk is a whole region.
    fn is_region(block: BlockId, space: &Space) -> bool {
        let mapped =
            |near: Option<BlockId>| near.is_some_and(|near| space.state(near) != State::Unmapped);
        !mapped(space.prev(block)) && !mapped(space.next(block))
    }

    /// The regions without a used chunk, by address.
    fn idle(&self, space: &Space) -> Vec<BlockId> {
        let chunks = self.free.iter().map(|found| BlockId(found.block));
        let mut idle: Vec<BlockId> = chunks
            .filter(|block| Self::is_region(*block, space))
            .collect();
        idle.sort_unstable_by_key(|block| space.base(*block));
        idle
    }

    /// The largest request that an extension would serve, where the limit leaves
    /// `available` bytes and the driver `room`.
    pub(super) fn extension_bytes(&self, available: u64, room: u64) -> u64 {
        let Growth::Doubling { .. } = self.rules.growth else {
            let most = available.min(room);
            return most - most % QUANTUM_BYTES;
        };
        let (mut region, mut below, mut most) = (self.region_bytes, 0, 0);
        loop {
            // Requests above `below` and up to `region` ask for such a region.
            let granted = self.granted_bytes(region.min(available), room);
            let served = granted.min(region);
            if served > below {
                most = served;
            }
            if region >= available {
                return most;
            }
            below = region;
            region = region.max(1).saturating_mul(2);
        }
    }

    /// What the driver gives in the end of `wanted` bytes.
    fn granted_bytes(&self, mut wanted: u64, room: u64) -> u64 {
        while wanted > room {
            let less = round_up((wanted as f32 * BACK_OFF) as u64, QUANTUM_BYTES).unwrap_or(0);
            if less >= wanted || less < self.rules.retry_down_to_bytes {
                return 0;
            }
            wanted = less;
        }
        wanted
    }

    /// The largest request that would be served after free regions were given back.
    pub(super) fn collected_bytes(&self, space: &Space) -> u64 {
        let idle = self.idle(space);
        if idle.is_empty() {
            return 0;
        }
        let idle_bytes: u64 = idle.iter().map(|block| space.bytes(*block)).sum();
        let pool_bytes = self.pool_bytes() - idle_bytes;
        let available = self.limit_bytes.saturating_sub(pool_bytes);
        let available = available - available % QUANTUM_BYTES;
        self.extension_bytes(available, room_after_bytes(&idle, space))
    }

    /// Gives all regions without a used chunk back, if `bytes` then fit below the limit.
    pub(super) fn collect(&mut self, bytes: u64, space: &mut Space) -> bool {
        let idle = self.idle(space);
        let idle_bytes: u64 = idle.iter().map(|block| space.bytes(*block)).sum();
        let left_bytes = self.limit_bytes.saturating_sub(self.pool_bytes());
        if idle.is_empty() || idle_bytes.saturating_add(left_bytes) < bytes {
            return false;
        }
        for block in idle {
            self.give_back(block, space);
        }
        true
    }

    /// A trim: regions without a used chunk go back. Where they grow by doubling, the
    /// first one stays, as the one that the user chose.
    pub(super) fn shrink(&mut self, next_bytes: u64, space: &mut Space) {
        let doubling = matches!(self.rules.growth, Growth::Doubling { .. });
        for block in self.idle(space) {
            if !doubling || self.first_region != Some(space.segment(block)) {
                self.give_back(block, space);
            }
        }
        if doubling {
            self.region_bytes = next_bytes;
        }
    }

    fn give_back(&mut self, block: BlockId, space: &mut Space) {
        self.leave(block, space);
        self.slots.drop(block);
        self.statistics.pool_bytes -= space.bytes(block) as i64;
        if space.segment_page(space.segment(block)).is_some() {
            space.unback(block);
        } else {
            space.unmap(block);
        }
    }
}
