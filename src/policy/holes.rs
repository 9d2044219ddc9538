//! Holes: free blocks that are cut at their low end and joined with their neighbours.
//!
//! The one mechanism below every policy that splits and coalesces, as in Knuth, "The Art
//! of Computer Programming", vol. 1, section 2.5: a block is cut out of a hole at the
//! lowest address that its alignment allows, the padding in front and the rest behind
//! stay holes, and a freed block is joined with free neighbours at once on both sides.

use super::index::{ByAddress, BySize, Entry};
use crate::space::{BlockId, Hole, Request, Space};
use crate::trace::StreamId;
use crate::units::round_up;

/// An index over holes that cutting and joining keep up to date.
pub trait Holes: Default + Send {
    /// A hole that is new.
    fn add(&mut self, hole: Entry);

    /// A hole that is gone.
    ///
    /// # Panics
    /// If the index does not hold it.
    fn remove(&mut self, hole: Entry);

    /// A hole whose low end moved or whose bytes changed.
    ///
    /// # Panics
    /// If the index does not hold the old one.
    fn change(&mut self, old: Entry, new: Entry);
}

/// An index that knows its largest hole by itself.
pub trait KnowsLargest: Holes {
    /// Bytes of the largest hole; 0 where there is none.
    fn largest_bytes(&self) -> u64;
}

/// Told where an index does not hold what the Space says is free.
const UNKNOWN: &str = "every hole is in the index";

impl Holes for ByAddress {
    #[inline]
    fn add(&mut self, hole: Entry) {
        self.insert(hole.address, hole.bytes, hole.block);
    }

    #[inline]
    fn remove(&mut self, hole: Entry) {
        ByAddress::remove(self, hole.address).expect(UNKNOWN);
    }

    #[inline]
    fn change(&mut self, old: Entry, new: Entry) {
        assert!(self.rekey(old.address, new), "{UNKNOWN}");
    }
}

impl KnowsLargest for ByAddress {
    #[inline]
    fn largest_bytes(&self) -> u64 {
        ByAddress::largest_bytes(self)
    }
}

impl Holes for BySize {
    #[inline]
    fn add(&mut self, hole: Entry) {
        self.insert(hole.bytes, hole.address, hole.block);
    }

    #[inline]
    fn remove(&mut self, hole: Entry) {
        assert!(BySize::remove(self, hole.bytes, hole.address), "{UNKNOWN}");
    }

    #[inline]
    fn change(&mut self, old: Entry, new: Entry) {
        assert!(BySize::change(self, old, new), "{UNKNOWN}");
    }
}

impl KnowsLargest for BySize {
    #[inline]
    fn largest_bytes(&self) -> u64 {
        BySize::largest_bytes(self)
    }
}

/// The block as an index knows it.
#[inline]
#[must_use]
pub fn entry(block: BlockId, space: &Space) -> Entry {
    Entry {
        address: space.base(block),
        bytes: space.bytes(block),
        block: block.0,
    }
}

/// Where `bytes` at a multiple of `align` begin in the range `address..end`; `None`
/// where they do not fit.
#[inline]
#[must_use]
pub fn start_in(address: u64, end: u64, bytes: u64, align: u64) -> Option<u64> {
    let start = round_up(address, align)?;
    (start.checked_add(bytes)? <= end).then_some(start)
}

/// Whether the hole holds `bytes` at a multiple of `align`.
#[inline]
#[must_use]
pub fn holds(hole: Entry, bytes: u64, align: u64) -> bool {
    start_in(hole.address, hole.address + hole.bytes, bytes, align).is_some()
}

/// The first hole by address, from `address` on, that holds `bytes` at a multiple of `align`.
#[inline(always)]
#[must_use]
pub fn first_from(holes: &ByAddress, address: u64, bytes: u64, align: u64) -> Option<Entry> {
    let mut hole = holes.first_fit_from(bytes, address)?;
    while !holds(hole, bytes, align) {
        hole = holes.first_fit_from(bytes, hole.address + 1)?;
    }
    Some(hole)
}

/// The smallest hole that holds `bytes` at a multiple of `align`; of equal ones the lowest.
#[inline(always)]
#[must_use]
pub fn smallest(holes: &BySize, bytes: u64, align: u64) -> Option<Entry> {
    let mut hole = holes.first_at_least(bytes)?;
    while !holds(hole, bytes, align) {
        hole = holes.next_after(hole.bytes, hole.address)?;
    }
    Some(hole)
}

/// Cuts `bytes` at the lowest multiple of `align` out of a hole that holds them. The
/// padding in front and the rest behind stay holes.
#[inline]
pub fn carve<H: Holes>(
    holes: &mut H,
    hole: Entry,
    bytes: u64,
    align: u64,
    space: &mut Space,
) -> BlockId {
    let mut block = BlockId(hole.block);
    let start = hole.address.next_multiple_of(align);
    if start > hole.address {
        block = space.split(block, start - hole.address);
    }
    let above = (space.bytes(block) > bytes).then(|| space.split(block, bytes));
    cut(holes, hole, start, above.map(|above| entry(above, space)));
    block
}

/// Cuts `bytes` out of a hole that holds them and hands them to `request`: [`carve`] and
/// [`Space::place`] in one.
///
/// # Panics
/// If the hole is not as told, or as [`Space::place`].
#[inline(always)]
pub fn serve<H: Holes>(
    holes: &mut H,
    hole: Entry,
    bytes: u64,
    request: &Request,
    space: &mut Space,
) -> BlockId {
    if hole.address & (request.align - 1) != 0 {
        let block = carve(holes, hole, bytes, request.align, space);
        space.place(block, request);
        return block;
    }
    let block = BlockId(hole.block);
    let (was, above) = space.place_low(block, bytes, request);
    if (was.base, was.bytes) != (hole.address, hole.bytes) {
        mistold(hole, space);
    }
    match above {
        None => holes.remove(hole),
        Some(above) => {
            let rest = Entry {
                address: hole.address + bytes,
                bytes: hole.bytes - bytes,
                block: above.0,
            };
            holes.change(hole, rest);
        }
    }
    block
}

/// The index and the Space do not agree on a hole.
#[cold]
#[inline(never)]
fn mistold(hole: Entry, space: &Space) -> ! {
    panic!(
        "event {}: placing in a hole that is not as it was told ({hole:?})",
        space.event()
    )
}

/// Takes a block back on `stream` and joins it with free neighbours: [`Space::release`] and
/// [`coalesce`] in one.
#[inline(always)]
pub fn take_back<H: Holes>(holes: &mut H, block: BlockId, stream: StreamId, space: &mut Space) {
    let entry = |hole: Hole| Entry {
        address: hole.base,
        bytes: hole.bytes,
        block: hole.block.0,
    };
    let joined = space.release_joined(block, stream);
    let whole = entry(joined.whole);
    match (joined.below, joined.above) {
        (None, None) => holes.add(whole),
        (None, Some(old)) | (Some(old), None) => holes.change(entry(old), whole),
        (Some(below), Some(above)) => {
            holes.remove(entry(above));
            holes.change(entry(below), whole);
        }
    }
}

/// Tells the index that a part of `hole` from `start` up to the hole `above` is taken.
#[inline]
pub fn cut<H: Holes>(holes: &mut H, hole: Entry, start: u64, above: Option<Entry>) {
    let below = (start > hole.address).then_some(Entry {
        bytes: start - hole.address,
        ..hole
    });
    match (below, above) {
        (None, None) => holes.remove(hole),
        (Some(rest), None) | (None, Some(rest)) => holes.change(hole, rest),
        (Some(below), Some(above)) => {
            holes.change(hole, below);
            holes.add(above);
        }
    }
}

/// Joins a Free block that the index does not hold yet with its free neighbours.
#[inline]
pub fn coalesce<H: Holes>(holes: &mut H, block: BlockId, space: &mut Space) {
    if let Some(above) = space.free_next(block) {
        let old = entry(above, space);
        space.merge(block, above);
        if let Some(below) = space.free_prev(block) {
            holes.remove(old);
            grow_into(holes, below, block, space);
        } else {
            holes.change(old, entry(block, space));
        }
    } else if let Some(below) = space.free_prev(block) {
        grow_into(holes, below, block, space);
    } else {
        holes.add(entry(block, space));
    }
}

/// The hole below takes the block above it in.
#[inline]
fn grow_into<H: Holes>(holes: &mut H, below: BlockId, block: BlockId, space: &mut Space) {
    let old = entry(below, space);
    space.merge(below, block);
    holes.change(old, entry(below, space));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    #[test]
    #[should_panic(expected = "is not as it was told")]
    fn a_hole_that_is_told_wrongly_breaks() {
        let mut space = Space::new(SpaceConfig::bare(4096));
        let all = space.map(4096).expect("there is room");
        let told = Entry {
            bytes: 2048,
            ..entry(all, &space)
        };
        let mut holes = ByAddress::default();
        Holes::add(&mut holes, told);
        let request = Request {
            bytes: 100,
            align: 1,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        serve(&mut holes, told, 100, &request, &mut space);
    }
}
