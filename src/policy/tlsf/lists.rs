//! The lists of free blocks under two levels of bitmaps.

use std::cell::Cell;

use crate::policy::holes::Holes;
use crate::policy::index::Entry;
use crate::space::{BlockId, Space};

/// No block.
const NONE: u32 = u32::MAX;

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
pub(super) struct Lists {
    sli: u32,
    /// Width of the lists below the first power of two that is divided, as a power of two.
    linear_log2: u32,
    /// How many holes there are.
    pub(super) holes: u32,
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
    pub(super) fn new(sli: u32, linear_log2: u32) -> Self {
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
    pub(super) fn list_of(&self, bytes: u64) -> usize {
        self.list_at(self.width_log2(bytes), bytes)
    }

    /// The smallest size that `list` holds, in bytes.
    pub(super) fn floor_of(&self, list: usize) -> u64 {
        let (row, column) = (list >> self.sli, (list & ((1 << self.sli) - 1)) as u64);
        match row {
            0 => column << self.linear_log2,
            _ => ((1 << self.sli) + column) << (self.linear_log2 + row as u32 - 1),
        }
    }

    /// The first list of which every block holds `bytes`.
    #[inline]
    pub(super) fn list_above(&self, bytes: u64) -> Option<usize> {
        let width_log2 = self.width_log2(bytes);
        let up = bytes.checked_add((1 << width_log2) - 1)?;
        Some(self.list_at(width_log2, up))
    }

    /// The block freed last in the smallest list from `list` on that holds one.
    #[inline]
    pub(super) fn find(&self, list: usize) -> Option<u32> {
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
    pub(super) fn highest(&self) -> Option<usize> {
        let word = self.first.checked_ilog2()? as usize;
        Some(word * 64 + self.second[word].ilog2() as usize)
    }

    /// Bytes of the largest hole; 0 where there is none.
    #[inline]
    pub(super) fn largest_bytes(&self, space: &Space) -> u64 {
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

impl Holes for Lists {
    /// Puts the hole at the head of its list.
    #[inline(always)]
    fn add(&mut self, hole: Entry) {
        self.link(hole.bytes, hole.block);
    }

    #[inline(always)]
    fn remove(&mut self, hole: Entry) {
        self.unlink(hole.bytes, hole.block);
    }

    #[inline(always)]
    fn change(&mut self, old: Entry, new: Entry) {
        self.unlink(old.bytes, old.block);
        self.link(new.bytes, new.block);
    }
}

/// Numbers and no entries: those would be written to memory in parts and read back whole,
/// for which a core waits.
impl Lists {
    /// Puts a hole at the head of its list.
    fn link(&mut self, bytes: u64, block: u32) {
        self.holes += 1;
        let list = self.list_of(bytes);
        let at = block as usize;
        if at >= self.links.len() {
            self.grow(at);
        }
        let next = std::mem::replace(&mut self.heads[list], block);
        let links = &mut self.links[at];
        links.next = next;
        links.prev = NONE;
        if let Some(second) = self.links.get_mut(next as usize) {
            second.prev = block;
        }
        self.second[list / 64 % 64] |= 1 << (list % 64);
        self.first |= 1 << (list / 64);
        let Top {
            bytes: top_bytes,
            count,
        } = self.top.get();
        if bytes >= top_bytes && (count > 0 || self.holes == 1) {
            let more = u32::from(bytes == top_bytes) * count;
            self.top.set(Top {
                bytes,
                count: more + 1,
            });
        }
    }

    /// Takes a hole out of its list.
    fn unlink(&mut self, bytes: u64, block: u32) {
        self.holes -= 1;
        let links = &mut self.links[block as usize];
        let (next, prev) = (links.next, links.prev);
        // Removed once more it would have to head its list.
        links.prev = NONE;
        if let Some(above) = self.links.get_mut(next as usize) {
            above.prev = prev;
        }
        if let Some(below) = self.links.get_mut(prev as usize) {
            if below.next != block {
                unlisted(block);
            }
            below.next = next;
        } else {
            self.behead(bytes, block, next);
        }
        let top = self.top.get();
        if top.bytes == bytes {
            // Not known any more where it was the last of its size.
            let count = top.count.saturating_sub(1);
            self.top.set(Top { count, ..top });
        }
    }

    /// The first hole of a list goes: `next` is the first one now.
    #[inline]
    fn behead(&mut self, bytes: u64, block: u32, next: u32) {
        let list = self.list_of(bytes);
        if self.heads[list] != block {
            unlisted(block);
        }
        self.heads[list] = next;
        if next == NONE {
            let word = list / 64 % 64;
            self.second[word] &= !(1 << (list % 64));
            self.first &= !(u64::from(self.second[word] == 0) << word);
        }
    }
}

#[cold]
#[inline(never)]
fn unlisted(block: u32) -> ! {
    panic!("the hole {block} is not in the list of its size")
}
