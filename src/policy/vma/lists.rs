//! TLSF as the Vulkan Memory Allocator has it, inside one block of device memory.
//!
//! Four lists of 64 bytes up to 256, then 32 lists a power of two. The hole at the end of
//! the block is in no list. A request looks into the list above its own size, then at the
//! hole at the end, then into its own list, then everywhere above.
//!
//! Tie-breaks: in a list the hole that was added last and fits. The low part is used;
//! neighbours are joined at once. Padding in front stays a hole and is listed first.

use super::super::holes::start_in;
use crate::space::{BlockId, SegmentId, Space};

/// Sizes up to here lie in the four small lists.
const SMALL_BYTES: u64 = 256;
/// Width of a small list.
const SMALL_STEP: u64 = 64;
/// Small lists.
const SMALL_LISTS: usize = 4;
/// Lists a power of two, as a power of two.
const SECOND_LOG2: u32 = 5;
/// The first power of two that is divided.
const FIRST_LOG2: u32 = 8;
/// No hole.
const NONE: u32 = u32::MAX;

/// The neighbours of holes in their lists, by handle; shared by all blocks.
#[derive(Debug, Default)]
pub struct Links(Vec<[u32; 2]>);

impl Links {
    fn next(&self, hole: u32) -> u32 {
        self.0[hole as usize][0]
    }

    fn at(&mut self, hole: u32) -> &mut [u32; 2] {
        let at = hole as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, [NONE; 2]);
        }
        &mut self.0[at]
    }
}

/// One block of device memory.
#[derive(Debug)]
pub struct MemoryBlock {
    segment: SegmentId,
    bytes: u64,
    free_bytes: u64,
    /// The hole at the end; gone where the block is used to its end.
    tail: Option<BlockId>,
    /// Which rows hold a hole, and in each row which lists.
    rows: u64,
    lists: Vec<u32>,
    heads: Vec<u32>,
}

/// The row of a size and its place there.
fn place_of(bytes: u64) -> (usize, usize) {
    if bytes <= SMALL_BYTES {
        return (0, ((bytes - 1) / SMALL_STEP) as usize);
    }
    let log2 = bytes.ilog2();
    let second = (bytes >> (log2 - SECOND_LOG2)) as usize ^ 1 << SECOND_LOG2;
    ((log2 - FIRST_LOG2 + 1) as usize, second)
}

/// The number of a list.
fn number(row: usize, second: usize) -> usize {
    match row {
        0 => second,
        _ => SMALL_LISTS + ((row - 1) << SECOND_LOG2) + second,
    }
}

/// A size that lies in the list above that of `bytes`.
fn above(bytes: u64) -> u64 {
    if bytes > SMALL_BYTES {
        bytes.saturating_add(1 << (bytes.ilog2() - SECOND_LOG2))
    } else if bytes > SMALL_BYTES - SMALL_STEP {
        SMALL_BYTES + 1
    } else {
        bytes + SMALL_STEP
    }
}

impl MemoryBlock {
    /// A block over a whole free segment.
    pub fn new(all: BlockId, space: &Space) -> Self {
        let bytes = space.bytes(all);
        let (row, second) = place_of(bytes);
        MemoryBlock {
            segment: space.segment(all),
            bytes,
            free_bytes: bytes,
            tail: Some(all),
            rows: 0,
            lists: vec![0; row + 2],
            heads: vec![NONE; number(row, second) + 1],
        }
    }

    /// The segment that it is.
    pub fn segment(&self) -> SegmentId {
        self.segment
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of all its holes.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Whether nothing is in use.
    pub fn is_empty(&self) -> bool {
        self.free_bytes == self.bytes
    }

    /// The largest hole: in the highest list, or at the end.
    pub fn largest_bytes(&self, links: &Links, space: &Space) -> u64 {
        let mut largest = self.tail.map_or(0, |tail| space.bytes(tail));
        let Some(row) = self.rows.checked_ilog2() else {
            return largest;
        };
        let second = self.lists[row as usize].ilog2();
        let mut hole = self.heads[number(row as usize, second as usize)];
        while hole != NONE {
            largest = largest.max(space.bytes(BlockId(hole)));
            hole = links.next(hole);
        }
        largest
    }

    /// Cuts a block for a request; it is not placed yet.
    pub fn alloc(
        &mut self,
        bytes: u64,
        align: u64,
        links: &mut Links,
        space: &mut Space,
    ) -> Option<BlockId> {
        if bytes > self.free_bytes {
            return None;
        }
        let fits = |hole: BlockId| {
            let (from, end) = (space.base(hole), space.end(hole));
            start_in(from, end, bytes, align).is_some()
        };
        let hole = self.search(bytes, links, fits)?;
        Some(self.cut(hole, bytes, align, links, space))
    }

    /// The hole that a request of `bytes` gets.
    fn search(&self, bytes: u64, links: &Links, fits: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        let in_list = |list: usize| {
            let mut hole = self.heads[list];
            while hole != NONE && !fits(BlockId(hole)) {
                hole = links.next(hole);
            }
            (hole != NONE).then_some(BlockId(hole))
        };
        let next = self.first_list(above(bytes));
        next.and_then(in_list)
            .or_else(|| self.tail.filter(|tail| fits(*tail)))
            .or_else(|| self.first_list(bytes).and_then(in_list))
            .or_else(|| (next? + 1..self.heads.len()).find_map(in_list))
    }

    /// The first list that holds a hole, from that of `bytes` on.
    fn first_list(&self, bytes: u64) -> Option<usize> {
        let (row, second) = place_of(bytes);
        let here = self.lists.get(row)? & (u32::MAX << second);
        if here != 0 {
            return Some(number(row, here.trailing_zeros() as usize));
        }
        let rows = self.rows & (u64::MAX << (row + 1));
        let row = (rows != 0).then(|| rows.trailing_zeros() as usize)?;
        Some(number(row, self.lists[row].trailing_zeros() as usize))
    }

    /// Takes a hole and cuts `bytes` out of it; what is over is listed, or is the new end.
    fn cut(
        &mut self,
        hole: BlockId,
        bytes: u64,
        align: u64,
        links: &mut Links,
        space: &mut Space,
    ) -> BlockId {
        let is_tail = self.tail == Some(hole);
        if is_tail {
            self.tail = None;
        } else {
            self.remove(hole, links, space);
        }
        let padding = space.base(hole).next_multiple_of(align) - space.base(hole);
        let mut block = hole;
        if padding > 0 {
            block = space.split(hole, padding);
            self.insert(hole, links, space);
        }
        let rest = (space.bytes(block) > bytes).then(|| space.split(block, bytes));
        match rest {
            Some(rest) if is_tail => self.tail = Some(rest),
            Some(rest) => self.insert(rest, links, space),
            None => {}
        }
        self.free_bytes -= bytes;
        block
    }

    /// A block was released: it is joined with its neighbours and listed.
    pub fn free(&mut self, block: BlockId, links: &mut Links, space: &mut Space) {
        self.free_bytes += space.bytes(block);
        let mut whole = block;
        if let Some(prev) = space.free_prev(block) {
            self.remove(prev, links, space);
            space.merge(prev, block);
            whole = prev;
        }
        match space.free_next(whole) {
            Some(next) if self.tail == Some(next) => {
                space.merge(whole, next);
                self.tail = Some(whole);
            }
            Some(next) => {
                self.remove(next, links, space);
                space.merge(whole, next);
                self.insert(whole, links, space);
            }
            // The block was used to its end: what ends there is the end again.
            None if space.next(whole).is_none() => self.tail = Some(whole),
            None => self.insert(whole, links, space),
        }
    }

    /// A wrapper is about to change a hole: it leaves the lists.
    pub fn forget(&mut self, hole: BlockId, links: &mut Links, space: &Space) {
        self.free_bytes -= space.bytes(hole);
        if self.tail == Some(hole) {
            self.tail = None;
        } else {
            self.remove(hole, links, space);
        }
    }

    /// A wrapper left a hole: it is listed, or is the end.
    pub fn learn(&mut self, hole: BlockId, links: &mut Links, space: &Space) {
        self.free_bytes += space.bytes(hole);
        if space.next(hole).is_none() {
            self.tail = Some(hole);
        } else {
            self.insert(hole, links, space);
        }
    }

    fn insert(&mut self, hole: BlockId, links: &mut Links, space: &Space) {
        let (row, second) = place_of(space.bytes(hole));
        let head = std::mem::replace(&mut self.heads[number(row, second)], hole.0);
        *links.at(hole.0) = [head, NONE];
        if head != NONE {
            links.at(head)[1] = hole.0;
        }
        self.lists[row] |= 1 << second;
        self.rows |= 1 << row;
    }

    fn remove(&mut self, hole: BlockId, links: &mut Links, space: &Space) {
        let (row, second) = place_of(space.bytes(hole));
        let [next, prev] = *links.at(hole.0);
        if next != NONE {
            links.at(next)[1] = prev;
        }
        if prev != NONE {
            links.at(prev)[0] = next;
            return;
        }
        let head = &mut self.heads[number(row, second)];
        assert_eq!(*head, hole.0, "a hole without a predecessor heads its list");
        *head = next;
        if next == NONE {
            self.lists[row] &= !(1 << second);
            if self.lists[row] == 0 {
                self.rows &= !(1 << row);
            }
        }
    }
}
