//! TLSF: two levels of size lists under bitmaps; a good fit in constant time.
//!
//! Source: Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator for
//! real-time systems" (ECRTS 2004).
//!
//! Each power of two has 2^`sli` lists. Below 256 * 2^`sli` bytes (4096) lists are 256
//! bytes wide. A search rounds the request up to a list boundary, so that every block
//! of the list found is large enough; it may miss a block of the request's own list.
//!
//! Tie-breaks: the smallest list from the boundary on that is not empty, of that the
//! block freed last. The low part is used. Neighbours are joined at once. An alignment
//! is searched for with the padding that it may need at worst; padding in front stays a
//! hole and enters its list before the rest behind.
//!
//! The largest hole is exact: the holes of the top list are looked through when its
//! largest one has gone, which takes time in the length of that one list.

mod lists;

use serde::Deserialize;

use super::holes::{Holes, entry, serve, take_back};
use super::{Motion, Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{align_up, round_up, serde_align};
use lists::Lists;

/// Width of TLSF's lists below the first power of two that is divided, as a power of two.
const LINEAR_LOG2: u32 = 8;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
    /// Lists a power of two, as a power of two; 1 to 6.
    pub sli: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            alignment: 256,
            sli: 4,
        }
    }
}

impl Default for Lists {
    fn default() -> Self {
        Lists::new(Spec::default().sli, LINEAR_LOG2)
    }
}

/// The policy.
#[derive(Debug)]
pub struct Tlsf {
    spec: Spec,
    lists: Lists,
    /// Every hole starts at a multiple of this power of two.
    grain: u64,
}

impl Tlsf {
    /// A two-level segregated fit by `spec`.
    ///
    /// # Errors
    /// `sli` outside 1 to 6.
    pub fn new(spec: Spec) -> Result<Self, PolicyError> {
        if !(1..=6).contains(&spec.sli) {
            let what = format!("sli = {}: expected 1 to 6", spec.sli);
            return Err(PolicyError::new("tlsf", what));
        }
        Ok(Self::with_lists(spec, LINEAR_LOG2))
    }

    /// As [`new`](Self::new), where the lists of small sizes are 2^`linear_log2` bytes wide.
    pub(super) fn with_lists(spec: Spec, linear_log2: u32) -> Self {
        Tlsf {
            lists: Lists::new(spec.sli, linear_log2),
            grain: 1,
            spec,
        }
    }

    /// How many holes there are.
    pub(super) fn holes(&self) -> u32 {
        self.lists.holes
    }
}

impl Policy for Tlsf {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let block = space.map(space.capacity_bytes())?;
        let both = space.base(block) | self.spec.alignment;
        self.grain = 1 << both.trailing_zeros();
        self.lists.add(entry(block, space));
        Ok(())
    }

    #[inline(always)]
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = align_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let padding = request.align.saturating_sub(self.grain);
        let found = bytes
            .checked_add(padding)
            .and_then(|bytes| self.lists.list_above(bytes))
            .and_then(|list| self.lists.find(list));
        let list = found.ok_or(OutOfMemory::no_fit(bytes))?;
        let block = BlockId(self.lists.head(list));
        if request.align > self.grain {
            let hole = entry(block, space);
            return Ok(serve(&mut self.lists, hole, bytes, request, space));
        }
        let (hole, above) = space.place_low(block, bytes, request);
        let rest = above.map(|above| (hole.bytes - bytes, above.0));
        self.lists.cut(list, (hole.bytes, block.0), rest);
        Ok(block)
    }

    #[inline]
    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        take_back(&mut self.lists, block, stream, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    fn servable(&self, _: &Space, _: StreamId) -> u64 {
        let floor = self
            .lists
            .highest()
            .map_or(0, |list| self.lists.floor_of(list));
        floor - floor % self.spec.alignment
    }

    #[inline]
    fn largest_free(&self, space: &Space) -> Option<u64> {
        Some(self.lists.largest_bytes(space))
    }

    fn motion(&self) -> Motion {
        Motion::Slide
    }

    fn forget(&mut self, free: BlockId, space: &Space) {
        self.lists.remove(entry(free, space));
    }

    fn learn(&mut self, free: BlockId, space: &Space) {
        self.lists.add(entry(free, space));
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;
    use super::*;

    #[test]
    fn lists_are_linear_below_4096_and_16_a_power_of_two_above() {
        let lists = Lists::default();
        for (bytes, list, floor) in [
            (255, 0, 0),
            (256, 1, 256),
            (4095, 15, 3840),
            (4096, 16, 4096),
            (4352, 17, 4352),
            (8191, 31, 7936),
            (8192, 32, 8192),
            (u64::MAX, 847, 31 << 59),
        ] {
            assert_eq!(lists.list_of(bytes), list, "{bytes}");
            assert_eq!(lists.floor_of(list), floor, "{bytes}");
        }
        assert_eq!(lists.list_above(8193), Some(lists.list_of(8704)));
        assert_eq!(lists.list_above(8191), Some(lists.list_of(8192)));
        assert_eq!(lists.list_above(u64::MAX), None);
    }

    #[test]
    fn a_search_skips_its_own_list_and_takes_what_was_freed_last() {
        // b and d leave holes of 8448 bytes, which lie in the list from 8192 on. A
        // request of 8448 is searched for from 8704 on and misses both; one of 8192
        // takes the hole freed last, d's.
        let hand = play(
            "tlsf",
            65536,
            "A a 256 ; A b 8448 ; A c 256 ; A d 8448 ; A e 256 ; F b ; F d ; A f 8448 ; A g 8192 ; A h 8192",
        );
        let told = [
            "0", "256", "8704", "8960", "17408", "ok", "ok", "17664", "8960", "256",
        ];
        assert_eq!(hand.told, told);
    }

    #[test]
    fn the_largest_hole_is_exact_while_servable_is_a_list_boundary() {
        let hand = play("tlsf", 8448, "A a 256 ; A b 4096 ; F a ; F b");
        assert_eq!(hand.replay.largest_free_bytes(), 8448);
        let policy = hand.replay.policy();
        assert_eq!(policy.servable(hand.replay.space(), 0), 8192);
    }
}
