//! Best fit in the order of time, in O(n log n): the packer for any number of buffers.
//!
//! What an allocator without foresight does that takes the smallest gap (Knuth, section
//! 2.5); it finds what [`greedy`](super::greedy) by start and best fit finds, without
//! looking at pairs. Tie-breaks: the lowest of equal gaps. On its way it finds the maximum
//! load, and counts the pairs that are alive together.

use super::packing::{Buffer, Packing};
use crate::policy::holes::smallest;
use crate::policy::index::BySize;

/// No tile.
const NONE: u32 = u32::MAX;

/// What is taken by a buffer, or a gap, with its neighbours by address.
#[derive(Debug, Clone, Copy)]
struct Tile {
    from: u64,
    end: u64,
    below: u32,
    above: u32,
    is_gap: bool,
}

/// Tiles from 0 to the top; the uppermost one is never a gap.
struct Tiles {
    tiles: Vec<Tile>,
    /// Tiles that are not in use.
    spare: Vec<u32>,
    gaps: BySize,
    /// Where nothing is taken any more, and the tile below.
    top: u64,
    last: u32,
}

impl Tiles {
    fn new() -> Self {
        Tiles {
            tiles: Vec::new(),
            spare: Vec::new(),
            gaps: BySize::new(),
            top: 0,
            last: NONE,
        }
    }

    fn get(&mut self, at: u32) -> &mut Tile {
        &mut self.tiles[at as usize]
    }

    /// A new tile between its neighbours.
    fn add(&mut self, tile: Tile) -> u32 {
        let at = self.spare.pop().unwrap_or(self.tiles.len() as u32);
        if at as usize == self.tiles.len() {
            self.tiles.push(tile);
        } else {
            *self.get(at) = tile;
        }
        if tile.below != NONE {
            self.get(tile.below).above = at;
        }
        if tile.above == NONE {
            (self.last, self.top) = (at, tile.end);
        } else {
            self.get(tile.above).below = at;
        }
        if tile.is_gap {
            self.gaps.insert(tile.end - tile.from, tile.from, at);
        }
        at
    }

    /// Takes a tile out; its neighbours become each other's.
    fn remove(&mut self, at: u32) -> Tile {
        let tile = self.tiles[at as usize];
        if tile.is_gap {
            let was_there = self.gaps.remove(tile.end - tile.from, tile.from);
            assert!(was_there, "every gap is in the index");
        }
        if tile.below != NONE {
            self.get(tile.below).above = tile.above;
        }
        if tile.above == NONE {
            (self.last, self.top) = (tile.below, tile.from);
        } else {
            self.get(tile.above).below = tile.below;
        }
        self.spare.push(at);
        tile
    }

    /// Takes bytes from the smallest gap that holds them, else from the top.
    fn take(&mut self, buffer: &Buffer) -> u32 {
        let start = |from: u64| from.next_multiple_of(buffer.align);
        let room = match smallest(&self.gaps, buffer.bytes, buffer.align) {
            Some(gap) => self.remove(gap.block),
            None => Tile {
                from: self.top,
                end: start(self.top) + buffer.bytes,
                below: self.last,
                above: NONE,
                is_gap: true,
            },
        };
        let (from, mut below) = (start(room.from), room.below);
        let end = from + buffer.bytes;
        if from > room.from {
            below = self.add(Tile { end: from, ..room });
        }
        let taken = self.add(Tile {
            from,
            end,
            below,
            above: room.above,
            is_gap: false,
        });
        if end < room.end {
            self.add(Tile {
                from: end,
                below: taken,
                ..room
            });
        }
        taken
    }

    /// Gives a tile back; it joins the gaps beside it, and one at the top goes.
    fn give(&mut self, at: u32) {
        let mut gap = Tile {
            is_gap: true,
            ..self.remove(at)
        };
        if gap.below != NONE && self.get(gap.below).is_gap {
            let below = self.remove(gap.below);
            (gap.from, gap.below) = (below.from, below.below);
        }
        if gap.above == NONE {
            return;
        }
        if self.get(gap.above).is_gap {
            let above = self.remove(gap.above);
            (gap.end, gap.above) = (above.end, above.above);
        }
        self.add(gap);
    }
}

/// What the sweep found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// The packing.
    pub packing: Packing,
    /// The maximum load, as [`max_load_bytes`](super::max_load_bytes) finds it.
    pub load_bytes: u64,
    /// Pairs of buffers that are alive together at some moment.
    pub pairs: u64,
}

/// Packs the buffers as they come and go.
///
/// # Panics
/// If there are 2^31 buffers or more.
#[must_use]
pub fn sweep(buffers: &[Buffer]) -> Swept {
    let (mut tiles, mut tile_of) = (Tiles::new(), vec![NONE; buffers.len()]);
    let (mut offsets, mut height_bytes) = (vec![0; buffers.len()], 0);
    let (mut load, mut most, mut alive, mut pairs) = (0u128, 0u128, 0u64, 0u64);
    for (begins, at) in changes(buffers) {
        let bytes = buffers[at].bytes;
        if begins {
            tile_of[at] = tiles.take(&buffers[at]);
            offsets[at] = tiles.get(tile_of[at]).from;
            height_bytes = height_bytes.max(offsets[at] + bytes);
            load += u128::from(bytes);
            most = most.max(load);
            pairs += alive;
            alive += 1;
        } else {
            tiles.give(tile_of[at]);
            load -= u128::from(bytes);
            alive -= 1;
        }
    }
    let load_bytes = u64::try_from(most).unwrap_or(u64::MAX);
    Swept {
        packing: Packing {
            offsets,
            height_bytes,
            by: "greedy by start, best fit",
            proven: height_bytes == load_bytes,
        },
        load_bytes,
        pairs,
    }
}

/// Beginnings and ends in the order of time, each with its buffer: ends first at one moment,
/// then by number.
fn changes(buffers: &[Buffer]) -> impl Iterator<Item = (bool, usize)> {
    assert!(buffers.len() < 1 << 31, "numbers of buffers have 31 bits");
    let mut keys: Vec<u64> = Vec::with_capacity(2 * buffers.len());
    for (at, buffer) in buffers.iter().enumerate() {
        keys.push(u64::from(buffer.lower) << 32 | 1 << 31 | at as u64);
        keys.push(u64::from(buffer.upper) << 32 | at as u64);
    }
    keys.sort_unstable();
    let change = |key: u64| (key & 1 << 31 != 0, (key & 0x7FFF_FFFF) as usize);
    keys.into_iter().map(change)
}
