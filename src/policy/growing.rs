//! A growing pool: it takes memory from the driver when it runs short, region by region.
//!
//! Source: the growth of RMM's `pool_memory_resource` (half of what is left, with its
//! retries at half the size), beside the simpler rules that it is compared with.
//!
//! Parameters: `growth`; `initial`, taken at the start (no more than `maximum`);
//! `maximum`, at most the capacity; `alignment`, of which sizes are multiples.
//! `exact` takes what the request needs; `double` twice the last region; `half` half of
//! what is left of the maximum, rounded up to the alignment; all at least what the
//! request needs. A request above what is left fails. Where the driver refuses, the
//! pool asks for half of it, down to what the request needs. `contiguous` reserves
//! addresses for the maximum and backs what a request lacks behind the last hole, in
//! whole pages of the device, so that regions are one.
//!
//! Tie-breaks: best fit over all regions, of equal holes the lowest address. Holes are
//! joined within a region. Regions do not go back to the driver by themselves; where
//! compaction evacuates them they do, but not where growth is contiguous; the next region
//! that doubles is then no larger than the one that went.

use serde::Deserialize;

use super::holes::{Holes, carve, coalesce, entry, smallest};
use super::index::BySize;
use super::{Motion, Policy};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{round_up, serde_align, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// How much a shortage takes.
    pub growth: Growth,
    /// Taken at the start, in bytes.
    #[serde(with = "serde_bytes")]
    pub initial: u64,
    /// The most that the pool takes, in bytes; at most the capacity.
    #[serde(with = "serde_bytes")]
    pub maximum: u64,
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
}

/// How much a shortage takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// What the request needs.
    Exact,
    /// Twice the last region.
    Double,
    /// Half of what is left.
    Half,
    /// What the request lacks behind the last hole of one range of addresses.
    Contiguous,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            growth: Growth::Double,
            initial: 32 << 20,
            maximum: u64::MAX,
            alignment: 256,
        }
    }
}

/// The policy.
pub struct Growing {
    spec: Spec,
    holes: BySize,
    maximum_bytes: u64,
    reserved_bytes: u64,
    last_region_bytes: u64,
    /// The addresses not backed yet, where growth is contiguous.
    unbacked: Option<BlockId>,
}

impl Growing {
    /// A growing pool by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Growing {
            spec,
            holes: BySize::new(),
            maximum_bytes: 0,
            reserved_bytes: 0,
            last_region_bytes: 0,
            unbacked: None,
        }
    }

    /// The largest need that the growth rule lets through, in bytes.
    fn left_bytes(&self) -> u64 {
        let left_bytes = self.maximum_bytes.saturating_sub(self.reserved_bytes);
        match self.spec.growth {
            Growth::Half => round_up(left_bytes, self.spec.alignment).unwrap_or(left_bytes),
            _ => left_bytes,
        }
    }

    /// A new region for `bytes` at a multiple of `align`.
    fn map_region(&mut self, bytes: u64, align: u64, space: &mut Space) -> Option<()> {
        // The driver's address is not known before: an aligned block may need padding.
        let need_bytes = round_up(bytes.checked_add(align - 1)?, self.spec.alignment)?;
        let left_bytes = self.left_bytes();
        if need_bytes > left_bytes {
            return None;
        }
        let want_bytes = match self.spec.growth {
            Growth::Double => self.last_region_bytes.saturating_mul(2).min(left_bytes),
            Growth::Half => left_bytes / 2,
            Growth::Exact | Growth::Contiguous => need_bytes,
        };
        let mut want_bytes = want_bytes.max(need_bytes);
        let region = loop {
            match space.map(want_bytes) {
                Ok(region) => break region,
                Err(_) if want_bytes == need_bytes => return None,
                Err(_) => want_bytes = need_bytes.max(want_bytes / 2),
            }
        };
        self.reserved_bytes += want_bytes;
        self.last_region_bytes = want_bytes;
        self.holes.add(entry(region, space));
        Some(())
    }

    /// Backs what `bytes` at a multiple of `align` lack behind the last hole.
    fn extend(&mut self, bytes: u64, align: u64, space: &mut Space) -> Option<()> {
        let unbacked = self.unbacked?;
        let base = space.base(unbacked);
        let from = space
            .free_prev(unbacked)
            .map_or(base, |hole| space.base(hole));
        let end = round_up(from, align)?.checked_add(bytes)?;
        let more_bytes = round_up(end - base, space.device().page_bytes)?;
        if more_bytes > self.left_bytes() {
            return None;
        }
        self.back(unbacked, more_bytes, space).ok()
    }

    fn back(
        &mut self,
        unbacked: BlockId,
        bytes: u64,
        space: &mut Space,
    ) -> Result<(), OutOfMemory> {
        let all = bytes == space.bytes(unbacked);
        space.back(unbacked, bytes)?;
        self.reserved_bytes += bytes;
        self.unbacked = space.next(unbacked).filter(|_| !all);
        coalesce(&mut self.holes, unbacked, space);
        Ok(())
    }
}

impl Policy for Growing {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.maximum_bytes = self.spec.maximum.min(space.capacity_bytes());
        let initial_bytes = self.spec.initial.min(self.maximum_bytes);
        if self.spec.growth != Growth::Contiguous {
            if initial_bytes > 0 {
                let region = space.map(initial_bytes)?;
                self.holes.add(entry(region, space));
                self.reserved_bytes = initial_bytes;
                self.last_region_bytes = initial_bytes;
            }
            return Ok(());
        }
        let page_bytes = space.device().page_bytes;
        self.maximum_bytes -= self.maximum_bytes % page_bytes;
        if self.maximum_bytes == 0 {
            return Err(OutOfMemory::no_fit(page_bytes));
        }
        let all = space.reserve(self.maximum_bytes, page_bytes);
        self.unbacked = Some(all);
        let initial_bytes = initial_bytes.next_multiple_of(page_bytes);
        if initial_bytes > 0 {
            self.back(all, initial_bytes.min(self.maximum_bytes), space)?;
        }
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let align = request.align;
        let mut hole = smallest(&self.holes, bytes, align);
        if hole.is_none() {
            let grown = match self.spec.growth {
                Growth::Contiguous => self.extend(bytes, align, space),
                _ => self.map_region(bytes, align, space),
            };
            grown.ok_or(OutOfMemory::no_fit(bytes))?;
            hole = smallest(&self.holes, bytes, align);
        }
        let hole = hole.expect("growth made room");
        let block = carve(&mut self.holes, hole, bytes, align, space);
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        coalesce(&mut self.holes, block, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let mut grown_bytes = self.left_bytes().min(space.room_bytes());
        if let Some(unbacked) = self.unbacked {
            grown_bytes -= grown_bytes % space.device().page_bytes;
            let last_hole = space.free_prev(unbacked);
            grown_bytes += last_hole.map_or(0, |hole| space.bytes(hole));
        }
        let largest_bytes = self.holes.largest_bytes().max(grown_bytes);
        largest_bytes - largest_bytes % self.spec.alignment
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        Some(self.holes.largest_bytes())
    }

    fn motion(&self) -> Motion {
        Motion::Slide
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        Holes::remove(&mut self.holes, entry(free, space));
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.holes.add(entry(free, space));
    }

    fn evacuates(&self) -> bool {
        self.spec.growth != Growth::Contiguous
    }

    fn release_segment(&mut self, all: BlockId, space: &mut Space) {
        self.forget(all, space);
        let bytes = space.bytes(all);
        self.reserved_bytes -= bytes;
        // Else every region that comes back would be twice the one that went.
        self.last_region_bytes = self.last_region_bytes.min(bytes / 2);
        space.unmap(all);
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    /// Reserved bytes and servable bytes after the program, and what was told of it.
    fn after(policy: &str, program: &str) -> (Vec<String>, u64, u64) {
        let hand = play(policy, 8192, program);
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        let servable_bytes = policy.servable(space, 0);
        (hand.told, space.counters().reserved_bytes, servable_bytes)
    }

    #[test]
    fn exact_growth_takes_what_is_needed() {
        let program = "A a 512 ; A b 1000 ; F a ; A c 4096 ; A d 1025";
        let (told, reserved, servable) = after("growing:growth=exact,initial=1024", program);
        // Regions 0..1024, 1024..2048, 2048..6144; 1280 more.
        assert_eq!(told, ["0", "1024", "ok", "2048", "6144"]);
        assert_eq!((reserved, servable), (7424, 1024));
    }

    #[test]
    fn half_of_what_is_left_strands_memory() {
        let program = "A a 1024 ; A b 1024 ; A c 4096 ; A d 2560 ; A e 3584";
        let (told, reserved, servable) = after("growing:growth=half,initial=1024", program);
        // 7168 are left: a region of 3584 for b; 3584 are left, too few for 4096; d is
        // served behind b; e takes all that is left.
        assert_eq!(told, ["0", "1024", "OOM", "2048", "4608"]);
        assert_eq!((reserved, servable), (8192, 0));
    }

    #[test]
    fn contiguous_growth_uses_the_last_hole() {
        let program = "A a 512 ; A b 1024 ; F b ; A c 2048 ; A d 256 align=4096 ; A e 1024";
        let (told, reserved, servable) = after("growing:growth=contiguous,initial=1024", program);
        // c lies at 512..2560; d needs 2560..4096 backed as padding, where e goes.
        assert_eq!(told, ["0", "512", "ok", "512", "4096", "2560"]);
        assert_eq!((reserved, servable), (4352, 3840));
    }
}
