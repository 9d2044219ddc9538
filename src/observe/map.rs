//! The address map of a replay: which addresses were in use when, small enough to draw.
//!
//! A block in use is a rectangle: a range of addresses over a range of events, from the
//! request to its free; a block that is moved is two. The largest rectangles (bytes times
//! events) are kept as they are. The rest falls into a raster of cells that hold how much
//! of them was in use ([`raster`]): what a picture could not show one by one anyway.
//! Addresses are absolute, with the base of the segment beside them, so that segments can
//! be stacked with or without the gaps between them.
//!
//! With recorded steps ([`SpaceConfig::record_steps`](crate::space::SpaceConfig)) the map
//! also holds what was mapped when.

mod largest;
mod mapped;
pub mod raster;
mod rows;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::replay::{Moment, Observer, Outcome};
use crate::space::{BlockId, Space};
use crate::trace::{Event, StreamId};

use largest::{Area, Key, Largest};
use mapped::Mapped;
use raster::{Cell, Column, Raster};

/// How large a map may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rectangles kept as they are, of blocks and of mapped ranges each.
    pub rectangles: usize,
    /// Columns of the raster, at least 2.
    pub columns: usize,
    /// Rows of the raster, at least 2.
    pub rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            rectangles: 4000,
            columns: 1024,
            rows: 512,
        }
    }
}

/// A moment on both axes of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct When {
    /// Number of the event.
    pub event: u64,
    /// Trace time, ns.
    pub time_ns: u64,
}

/// A block in use at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rectangle {
    /// Absolute address.
    pub address: u64,
    /// Bytes of the block.
    pub bytes: u64,
    /// First address of its segment.
    pub segment_address: u64,
    /// When it was handed out, or moved here.
    pub from: When,
    /// When it was freed, or moved away; the end of the replay where neither.
    pub to: When,
    /// Stream of the request, as the trace numbers it.
    pub stream: StreamId,
    /// Number of the request: its name is [`Ids::name`](crate::trace::Ids::name) of it.
    pub ordinal: u64,
}

/// A range that was mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedRange {
    /// Absolute address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// When it was mapped; the first event where that was before it.
    pub from: When,
    /// When it was unmapped, in part or whole; the end of the replay where never.
    pub to: When,
}

/// A finished map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressMap {
    /// The end of the replay: one past the last event, and its time.
    pub end: When,
    /// The largest blocks, by the number of their request and their beginning.
    pub rectangles: Vec<Rectangle>,
    /// How many blocks are in the raster instead.
    pub in_raster: u64,
    /// Cells of the raster that hold something, by address and event.
    pub cells: Vec<Cell>,
    /// The columns of the raster: where they begin, and how many requests failed in each.
    pub columns: Vec<Column>,
    /// What was mapped, by beginning and address.
    pub mapped: Vec<MappedRange>,
    /// How many mapped ranges were left out because there were too many.
    pub mapped_left_out: u64,
}

/// Draws the map while a replay runs.
#[derive(Debug)]
pub struct MapObserver {
    live: Vec<Option<Live>>,
    blocks: Largest<Rectangle>,
    raster: Raster,
    mapped: Mapped,
    in_raster: u64,
    moves: u64,
    requests: u64,
    end: When,
}

/// A block in use and the rectangle that it will be.
#[derive(Debug, Clone, Copy)]
struct Live {
    block: BlockId,
    rectangle: Rectangle,
}

impl Area for Rectangle {
    fn area(&self) -> u128 {
        u128::from(self.bytes) * u128::from(self.to.event - self.from.event)
    }

    fn key(&self) -> Key {
        // A block that is moved within one event is there twice, at two addresses.
        [self.ordinal, self.from.event, self.address, self.to.event]
    }
}

impl Default for MapObserver {
    fn default() -> Self {
        MapObserver::new(Limits::default())
    }
}

impl MapObserver {
    /// An empty map.
    ///
    /// # Panics
    /// If the raster would have less than two columns or rows.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        MapObserver {
            live: Vec::new(),
            blocks: Largest::new(limits.rectangles),
            raster: Raster::new(limits.columns, limits.rows),
            mapped: Mapped::new(limits.rectangles),
            in_raster: 0,
            moves: 0,
            requests: 0,
            end: When::default(),
        }
    }

    /// Ends the map: what is still in use lasts to the end.
    #[must_use]
    pub fn finish(mut self) -> AddressMap {
        let end = self.end;
        for slot in 0..self.live.len() {
            self.close(slot, end);
        }
        let (mapped, mapped_left_out) = self.mapped.finish(end);
        let rectangles = self.blocks.finish(|small| {
            self.in_raster += 1;
            self.raster.add(small);
        });
        let (columns, cells) = self.raster.finish(end);
        AddressMap {
            end,
            rectangles,
            in_raster: self.in_raster,
            cells,
            columns,
            mapped,
            mapped_left_out,
        }
    }

    fn open(&mut self, slot: usize, live: Live) {
        if slot >= self.live.len() {
            self.live.resize(slot + 1, None);
        }
        self.live[slot] = Some(live);
    }

    fn close(&mut self, slot: usize, now: When) {
        let Some(live) = self.live.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let rectangle = Rectangle {
            to: now,
            ..live.rectangle
        };
        self.blocks.push(rectangle, |small| {
            self.in_raster += 1;
            self.raster.add(small);
        });
    }

    /// Blocks were moved: handles stay, addresses change.
    fn follow_moves(&mut self, space: &Space, now: When) {
        for slot in 0..self.live.len() {
            let Some(live) = self.live[slot] else {
                continue;
            };
            if space.base(live.block) != live.rectangle.address {
                self.close(slot, now);
                let rectangle = place(space, live.block, now, live.rectangle.ordinal);
                self.open(slot, Live { rectangle, ..live });
            }
        }
    }

    /// The slot whose block lay at an address.
    fn slot_at(&self, address: u64) -> Option<usize> {
        let here = |live: &Option<Live>| live.is_some_and(|live| live.rectangle.address == address);
        self.live.iter().position(here)
    }
}

/// The rectangle of a block, from now on.
fn place(space: &Space, block: BlockId, now: When, ordinal: u64) -> Rectangle {
    Rectangle {
        address: space.base(block),
        bytes: space.bytes(block),
        segment_address: space.segment_base(space.segment(block)),
        from: now,
        to: now,
        stream: space.stream(block),
        ordinal,
    }
}

impl Observer for MapObserver {
    fn see(&mut self, moment: &Moment<'_>) {
        let now = When {
            event: moment.index,
            time_ns: moment.time_ns,
        };
        self.end = When {
            event: moment.index + 1,
            time_ns: moment.time_ns,
        };
        let failed = matches!(moment.outcome, Outcome::Failed(_));
        self.raster.column(now, failed);
        self.mapped.see(moment.space, now);
        if let Outcome::Freed { address, .. } = moment.outcome {
            let slot = match *moment.event {
                Event::Free { slot, .. } => Some(slot as usize),
                _ => self.slot_at(address),
            };
            if let Some(slot) = slot {
                self.close(slot, now);
            }
        }
        let moves = moment.space.counters().moves;
        if self.moves != moves {
            self.moves = moves;
            self.follow_moves(moment.space, now);
        }
        match (*moment.event, moment.outcome) {
            (Event::Alloc { slot, .. }, Outcome::Served(block)) => {
                let rectangle = place(moment.space, block, now, self.requests);
                self.open(slot as usize, Live { block, rectangle });
                self.requests += 1;
            }
            (Event::Alloc { .. } | Event::Attempt { .. }, _) => self.requests += 1,
            _ => {}
        }
    }
}
