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

use std::cell::Cell;

use serde::Deserialize;

use super::holes::{Holes, entry, serve, take_back};
use super::index::Entry;
use super::{Motion, Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{round_up, serde_align};

/// Width of TLSF's lists below the first power of two that is divided, as a power of two.
const LINEAR_LOG2: u32 = 8;
/// No block.
const NONE: u32 = u32::MAX;

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

/// A hole in its list.
#[derive(Debug, Clone, Copy, Default)]
struct Links {
    next: u32,
    prev: u32,
}

/// The size of the largest hole, and how many have it; no count where it is not known.
#[derive(Debug, Clone, Copy, Default)]
struct Top {
    bytes: u64,
    count: u32,
}

/// The lists of free blocks, linked through a table by handle.
#[derive(Debug)]
struct Lists {
    sli: u32,
    /// Width of the lists below the first power of two that is divided, as a power of two.
    linear_log2: u32,
    /// How many holes there are.
    holes: u32,
    /// One bit a word of the second level: one of its lists holds a block.
    first: u64,
    /// One bit a list: it holds a block.
    second: [u64; 64],
    heads: Vec<u32>,
    links: Vec<Links>,
    /// Known unless the last hole of that size has gone since.
    top: Cell<Top>,
}

impl Lists {
    fn new(sli: u32, linear_log2: u32) -> Self {
        let rows = (u64::BITS - linear_log2 - sli + 1) as usize;
        assert!(rows << sli <= 64 * 64, "a bit for each list");
        Lists {
            sli,
            linear_log2,
            holes: 0,
            first: 0,
            second: [0; 64],
            heads: vec![NONE; rows << sli],
            links: Vec::new(),
            top: Cell::default(),
        }
    }

    /// Width of the list that holds `bytes`, as a power of two.
    #[inline]
    fn width_log2(&self, bytes: u64) -> u32 {
        (bytes | 1 << (self.linear_log2 + self.sli)).ilog2() - self.sli
    }

    /// The list of this width that begins at or below `bytes`.
    #[inline]
    fn list_at(&self, width_log2: u32, bytes: u64) -> usize {
        // A size of a divided power of two carries its leading one into the row.
        let row = (width_log2 - self.linear_log2) as usize;
        (row << self.sli) + (bytes >> width_log2) as usize
    }

    /// The list that holds blocks of `bytes`.
    #[inline]
    fn list_of(&self, bytes: u64) -> usize {
        self.list_at(self.width_log2(bytes), bytes)
    }

    /// The smallest size that `list` holds, in bytes.
    fn floor_of(&self, list: usize) -> u64 {
        let (row, column) = (list >> self.sli, (list & ((1 << self.sli) - 1)) as u64);
        match row {
            0 => column << self.linear_log2,
            _ => ((1 << self.sli) + column) << (self.linear_log2 + row as u32 - 1),
        }
    }

    /// The first list of which every block holds `bytes`.
    #[inline]
    fn list_above(&self, bytes: u64) -> Option<usize> {
        let width_log2 = self.width_log2(bytes);
        let up = bytes.checked_add((1 << width_log2) - 1)?;
        Some(self.list_at(width_log2, up))
    }

    /// The block freed last in the smallest list from `list` on that holds one.
    #[inline]
    fn find(&self, list: usize) -> Option<u32> {
        let word = list / 64;
        let here = self.second.get(word)? >> (list % 64);
        let found = if here == 0 {
            // Two shifts: nothing lies above the last bit.
            let above = self.first >> word >> 1;
            if above == 0 {
                return None;
            }
            let word = word + 1 + above.trailing_zeros() as usize;
            word * 64 + self.second[word % 64].trailing_zeros() as usize
        } else {
            list + here.trailing_zeros() as usize
        };
        Some(self.heads[found])
    }

    /// The highest list that holds a block.
    fn highest(&self) -> Option<usize> {
        let word = self.first.checked_ilog2()? as usize;
        Some(word * 64 + self.second[word].ilog2() as usize)
    }

    /// Bytes of the largest hole; 0 where there is none.
    #[inline]
    fn largest_bytes(&self, space: &Space) -> u64 {
        if self.top.get().count == 0 {
            self.look_for_top(space);
        }
        self.top.get().bytes
    }

    /// Looks through the highest list where its largest hole has gone since.
    fn look_for_top(&self, space: &Space) {
        let mut top = Top::default();
        let mut at = self.highest().map_or(NONE, |list| self.heads[list]);
        while at != NONE {
            let bytes = space.bytes(BlockId(at));
            if bytes > top.bytes {
                top = Top { bytes, count: 0 };
            }
            top.count += u32::from(bytes == top.bytes);
            at = self.links[at as usize].next;
        }
        self.top.set(top);
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.links.resize(at + 1, Links::default());
    }
}

impl Default for Lists {
    fn default() -> Self {
        Lists::new(Spec::default().sli, LINEAR_LOG2)
    }
}

impl Holes for Lists {
    /// Puts the hole at the head of its list.
    #[inline]
    fn add(&mut self, hole: Entry) {
        self.holes += 1;
        let list = self.list_of(hole.bytes);
        let at = hole.block as usize;
        if at >= self.links.len() {
            self.grow(at);
        }
        let next = std::mem::replace(&mut self.heads[list], hole.block);
        self.links[at] = Links { next, prev: NONE };
        if let Some(second) = self.links.get_mut(next as usize) {
            second.prev = hole.block;
        }
        self.second[list / 64 % 64] |= 1 << (list % 64);
        self.first |= 1 << (list / 64);
        let top = self.top.get();
        if hole.bytes >= top.bytes && (top.count > 0 || self.holes == 1) {
            let more = u32::from(hole.bytes == top.bytes) * top.count;
            self.top.set(Top {
                bytes: hole.bytes,
                count: more + 1,
            });
        }
    }

    #[inline]
    fn remove(&mut self, hole: Entry) {
        self.holes -= 1;
        let Links { next, prev } = self.links[hole.block as usize];
        if let Some(above) = self.links.get_mut(next as usize) {
            above.prev = prev;
        }
        if let Some(below) = self.links.get_mut(prev as usize) {
            below.next = next;
        } else {
            self.behead(hole, next);
        }
        let top = self.top.get();
        if top.bytes == hole.bytes {
            // Not known any more where it was the last of its size.
            let count = top.count.saturating_sub(1);
            self.top.set(Top { count, ..top });
        }
    }

    #[inline]
    fn change(&mut self, old: Entry, new: Entry) {
        self.remove(old);
        self.add(new);
    }
}

impl Lists {
    /// The first hole of a list goes: `next` is the first one now.
    #[inline]
    fn behead(&mut self, hole: Entry, next: u32) {
        let list = self.list_of(hole.bytes);
        let head = std::mem::replace(&mut self.heads[list], next);
        assert_eq!(
            head, hole.block,
            "a hole without a predecessor heads its list"
        );
        if next == NONE {
            let word = list / 64 % 64;
            self.second[word] &= !(1 << (list % 64));
            self.first &= !(u64::from(self.second[word] == 0) << word);
        }
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

    #[inline]
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let padding = request.align.saturating_sub(self.grain);
        let found = bytes
            .checked_add(padding)
            .and_then(|bytes| self.lists.list_above(bytes))
            .and_then(|list| self.lists.find(list));
        let found = BlockId(found.ok_or(OutOfMemory::no_fit(bytes))?);
        let hole = entry(found, space);
        Ok(serve(&mut self.lists, hole, bytes, request, space))
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
