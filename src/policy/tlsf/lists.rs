//! The lists of free blocks under two levels of bitmaps.

use std::cell::Cell;
use std::num::NonZeroU64;

use crate::policy::holes::Holes;
use crate::policy::index::Entry;
use crate::space::{BlockId, Space};

/// No block.
const NONE: u32 = u32::MAX;

/// Lists at most: a bit each in the words of the second level.
const LISTS: usize = 64 * 64;

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
    /// The first power of two that is divided, bytes.
    divided_from: NonZeroU64,
    /// How many holes there are.
    pub(super) holes: u32,
    /// One bit a word of the second level: one of its lists holds a block.
    first: u64,
    /// One bit a list: it holds a block.
    second: [u64; 64],
    /// The block freed last of each list.
    heads: Box<[u32; LISTS]>,
    links: Vec<Links>,
    /// Known unless the last hole of that size has gone since.
    top: Cell<Top>,
}

impl Lists {
    pub(super) fn new(sli: u32, linear_log2: u32) -> Self {
        let divided_from = NonZeroU64::new(1 << (linear_log2 + sli)).expect("a power of two");
        let rows = (u64::BITS - linear_log2 - sli + 1) as usize;
        assert!(rows << sli <= LISTS, "a bit for each list");
        Lists {
            sli,
            linear_log2,
            divided_from,
            holes: 0,
            first: 0,
            second: [0; 64],
            heads: Box::new([NONE; LISTS]),
            links: Vec::new(),
            top: Cell::default(),
        }
    }

    /// Width of the list that holds `bytes`, as a power of two.
    #[inline]
    fn width_log2(&self, bytes: u64) -> u32 {
        (self.divided_from | bytes).ilog2() - self.sli
    }

    /// The list of this width that begins at or below `bytes`.
    #[inline]
    fn list_at(&self, width_log2: u32, bytes: u64) -> usize {
        // A size of a divided power of two carries its leading one into the row.
        let row = (width_log2 - self.linear_log2) as usize;
        ((row << self.sli) + (bytes >> width_log2) as usize) % LISTS
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

    /// The smallest list from `list` on that holds a block.
    #[inline]
    pub(super) fn find(&self, list: usize) -> Option<usize> {
        let word = list / 64;
        let here = self.second[word % 64] >> (list % 64);
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
        Some(found % LISTS)
    }

    /// The block freed last of a list that holds one.
    #[inline]
    pub(super) fn head(&self, list: usize) -> u32 {
        self.heads[list % LISTS]
    }

    /// The block that heads a list goes, of so many bytes, and the rest that it leaves comes.
    ///
    /// # Panics
    /// If a block of these bytes does not belong there.
    pub(super) fn cut(&mut self, list: usize, old: (u64, u32), rest: Option<(u64, u32)>) {
        if self.list_of(old.0) != list {
            unlisted(old.1);
        }
        let Some((bytes, block)) = rest else {
            self.drop_head(list, old.0, old.1);
            return;
        };
        let to = self.list_of(bytes);
        if to == list && (block as usize) < self.links.len() {
            // The rest of a large hole stays in its list.
            self.replace_head(list, old, (bytes, block));
        } else {
            self.drop_head(list, old.0, old.1);
            self.link(to, bytes, block);
        }
    }

    #[inline(always)]
    fn drop_head(&mut self, list: usize, bytes: u64, block: u32) {
        self.holes -= 1;
        let next = self.links[block as usize].next;
        if let Some(second) = self.links.get_mut(next as usize) {
            second.prev = NONE;
        }
        self.behead(list, block, next);
        self.lower_top(bytes);
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
}

impl Holes for Lists {
    #[inline(always)]
    fn add(&mut self, hole: Entry) {
        self.link(self.list_of(hole.bytes), hole.bytes, hole.block);
    }

    #[inline(always)]
    fn remove(&mut self, hole: Entry) {
        self.unlink(self.list_of(hole.bytes), hole.bytes, hole.block);
    }

    #[inline(always)]
    fn change(&mut self, old: Entry, new: Entry) {
        self.relink((old.bytes, old.block), (new.bytes, new.block));
    }
}

impl Lists {
    /// One hole goes and another comes, as if unlinked and linked.
    fn relink(&mut self, old: (u64, u32), new: (u64, u32)) {
        let (from, to) = (self.list_of(old.0), self.list_of(new.0));
        // What is cut heads its list, and the rest of a large hole stays in it.
        let stays = from == to && self.heads[from] == old.1;
        if stays && (new.1 as usize) < self.links.len() {
            self.replace_head(from, old, new);
        } else {
            self.unlink(from, old.0, old.1);
            self.link(to, new.0, new.1);
        }
    }

    /// Another hole heads a list in the place of the one that did.
    fn replace_head(&mut self, list: usize, old: (u64, u32), new: (u64, u32)) {
        let next = self.links[old.1 as usize].next;
        self.heads[list] = new.1;
        self.links[new.1 as usize] = Links { next, prev: NONE };
        if let Some(second) = self.links.get_mut(next as usize) {
            second.prev = new.1;
        }
        let top = self.top.get();
        if next == NONE && top.count == 1 && old.0 == top.bytes {
            // It was the largest, so no list above holds any.
            self.top.set(Top {
                bytes: new.0,
                count: 1,
            });
            return;
        }
        self.lower_top(old.0);
        if new.0 >= top.bytes {
            self.raise_top(new.0);
        }
    }

    fn link(&mut self, list: usize, bytes: u64, block: u32) {
        let at = block as usize;
        if at >= self.links.len() {
            return self.link_new(list, bytes, block);
        }
        self.holes += 1;
        let next = std::mem::replace(&mut self.heads[list], block);
        let links = &mut self.links[at];
        links.next = next;
        links.prev = NONE;
        if let Some(second) = self.links.get_mut(next as usize) {
            second.prev = block;
        }
        self.second[list / 64] |= 1 << (list % 64);
        self.first |= 1 << (list / 64);
        if bytes >= self.top.get().bytes {
            self.raise_top(bytes);
        }
    }

    /// Links a block whose handle is the greatest so far.
    #[cold]
    #[inline(never)]
    fn link_new(&mut self, list: usize, bytes: u64, block: u32) {
        self.links.resize(block as usize + 1, Links::default());
        self.link(list, bytes, block);
    }

    /// There is one more hole of the largest size that is known, or one larger.
    fn raise_top(&mut self, bytes: u64) {
        let top = self.top.get();
        if top.count > 0 || self.holes == 1 {
            let more = u32::from(bytes == top.bytes) * top.count;
            let count = more + 1;
            self.top.set(Top { bytes, count });
        }
    }

    /// There is one hole of a size less.
    #[inline]
    fn lower_top(&mut self, bytes: u64) {
        let top = self.top.get();
        if top.bytes == bytes {
            // Not known any more where it was the last of its size.
            let count = top.count.saturating_sub(1);
            self.top.set(Top { count, ..top });
        }
    }

    fn unlink(&mut self, list: usize, bytes: u64, block: u32) {
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
            self.behead(list, block, next);
        }
        self.lower_top(bytes);
    }

    #[inline]
    fn behead(&mut self, list: usize, block: u32, next: u32) {
        let list = list % LISTS;
        if self.heads[list] != block {
            unlisted(block);
        }
        self.heads[list] = next;
        if next == NONE {
            let word = list / 64;
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
