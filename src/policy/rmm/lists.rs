//! One list of free blocks for each stream: the search that RMM's pool and its
//! resources of fixed blocks share.
//!
//! A list belongs to an event, and an event to a stream; the event stays when its list
//! is merged into another. The null stream has one event, made at the start where a
//! resource takes memory then.

use std::collections::{BTreeMap, VecDeque};

use super::{EventOrder, join};
use crate::policy::index::BySize;
use crate::space::{BlockId, Space};
use crate::trace::StreamId;

/// The free blocks of one stream.
pub(super) trait FreeList: Default {
    /// Takes a block in, on behalf of stream `by`.
    fn put(&mut self, block: BlockId, by: StreamId, space: &mut Space);
    /// Takes the block out that serves `bytes`.
    fn take(&mut self, bytes: u64) -> Option<BlockId>;
    /// Takes all blocks of another list in, on behalf of stream `by`.
    fn absorb(&mut self, other: Self, by: StreamId, space: &mut Space);
    /// Bytes of the largest block; 0 where there is none.
    fn largest_bytes(&self, space: &Space) -> u64;
}

/// Best fit, ties to the lowest address; neighbours inside one upstream block join.
#[derive(Default)]
pub(super) struct Coalescing(pub(super) BySize);

impl FreeList for Coalescing {
    fn put(&mut self, mut block: BlockId, by: StreamId, space: &mut Space) {
        if let Some(above) = space.free_next(block)
            && self.0.remove(space.bytes(above), space.base(above))
        {
            join(block, above, by, space);
        }
        if let Some(below) = space.free_prev(block)
            && self.0.remove(space.bytes(below), space.base(below))
        {
            join(below, block, by, space);
            block = below;
        }
        self.0
            .insert(space.bytes(block), space.base(block), block.0);
    }

    fn take(&mut self, bytes: u64) -> Option<BlockId> {
        let found = self.0.first_at_least(bytes)?;
        self.0.remove(found.bytes, found.address);
        Some(BlockId(found.block))
    }

    fn absorb(&mut self, other: Self, by: StreamId, space: &mut Space) {
        for entry in other.0.iter() {
            self.put(BlockId(entry.block), by, space);
        }
    }

    fn largest_bytes(&self, _: &Space) -> u64 {
        self.0.largest_bytes()
    }
}

/// Blocks of one size, first in, first out.
#[derive(Default)]
pub(super) struct Queue(VecDeque<BlockId>);

impl FreeList for Queue {
    fn put(&mut self, block: BlockId, _: StreamId, _: &mut Space) {
        self.0.push_back(block);
    }

    fn take(&mut self, _: u64) -> Option<BlockId> {
        self.0.pop_front()
    }

    fn absorb(&mut self, other: Self, _: StreamId, _: &mut Space) {
        self.0.extend(other.0);
    }

    fn largest_bytes(&self, space: &Space) -> u64 {
        self.0.front().map_or(0, |block| space.bytes(*block))
    }
}

/// Names a list, in the order in which lists are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

/// The list of what a resource took at its start: that of the null stream.
const AT_START: Key = Key(0);
/// Keys count from here where events go down.
const TOP: u64 = 1 << 32;

/// An event and the stream it belongs to.
struct Event {
    handle: u64,
    key: Key,
    /// As the trace numbers it; `None` until the stream does something.
    stream: Option<StreamId>,
}

/// The lists of all streams.
pub(super) struct Lists<L> {
    order: EventOrder,
    events: Vec<Event>,
    lists: BTreeMap<Key, L>,
    tally: Tally,
}

/// How often memory passed from stream to stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Blocks taken from another list.
    pub(super) steals: u64,
    /// Lists merged into another.
    pub(super) merges: u64,
}

impl<L: FreeList> Lists<L> {
    pub(super) fn new(order: EventOrder) -> Self {
        Lists {
            order,
            events: Vec::new(),
            lists: BTreeMap::new(),
            tally: Tally::default(),
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// What a resource takes at its start goes to the null stream.
    pub(super) fn put_at_start(&mut self, block: BlockId, space: &mut Space) {
        if self.events.is_empty() {
            self.events.push(Event {
                handle: 0,
                key: AT_START,
                stream: None,
            });
        }
        self.lists.entry(AT_START).or_default().put(block, 0, space);
    }

    /// The event of a stream, made on its first use.
    fn event(&mut self, stream: StreamId, space: &Space) -> Key {
        let handle = space.stream_handle(stream);
        if let Some(event) = self.events.iter_mut().find(|event| event.handle == handle) {
            event.stream = Some(stream);
            return event.key;
        }
        let number = self.events.len() as u64 + 1;
        let key = match self.order {
            EventOrder::Ascending => Key(number),
            EventOrder::Descending => Key(TOP - number),
        };
        self.events.push(Event {
            handle,
            key,
            stream: Some(stream),
        });
        key
    }

    /// `stream` waits for the event of the list. Nothing was ever freed on a stream that
    /// the trace does not name: the wait is made, and orders nothing.
    fn wait(&self, stream: StreamId, list: Key, space: &mut Space) {
        let event = self.events.iter().find(|event| event.key == list);
        let on = event.and_then(|event| event.stream).unwrap_or(stream);
        space.wait(stream, on);
    }

    /// A freed block goes to the list of the stream that freed it.
    pub(super) fn put(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        let own = self.event(stream, space);
        self.put_into(own, block, stream, space);
    }

    /// A rest goes to the list that its block came from.
    pub(super) fn put_into(&mut self, list: Key, block: BlockId, by: StreamId, space: &mut Space) {
        self.lists.entry(list).or_default().put(block, by, space);
    }

    /// The three searches: the own list; the first other list that has a fit; and all
    /// other lists merged into the own one, one by one, until it has a fit. What was
    /// merged stays merged. The block comes with the list that gets its rest.
    pub(super) fn search(
        &mut self,
        bytes: u64,
        stream: StreamId,
        space: &mut Space,
    ) -> Option<(BlockId, Key)> {
        let own = self.event(stream, space);
        if let Some(block) = self.lists.entry(own).or_default().take(bytes) {
            return Some((block, own));
        }
        let others: Vec<Key> = self
            .lists
            .keys()
            .copied()
            .filter(|key| *key != own)
            .collect();
        for other in &others {
            let taken = self.lists.get_mut(other).and_then(|list| list.take(bytes));
            if let Some(block) = taken {
                self.wait(stream, *other, space);
                self.tally.steals += 1;
                return Some((block, *other));
            }
        }
        for other in others {
            self.wait(stream, other, space);
            self.tally.merges += 1;
            let merged = self.lists.remove(&other).unwrap_or_default();
            let list = self.lists.entry(own).or_default();
            list.absorb(merged, stream, space);
            if let Some(block) = list.take(bytes) {
                return Some((block, own));
            }
        }
        None
    }

    /// The list of a stream, and its key.
    pub(super) fn own(&mut self, stream: StreamId, space: &Space) -> (&mut L, Key) {
        let own = self.event(stream, space);
        (self.lists.entry(own).or_default(), own)
    }

    pub(super) fn largest_bytes(&self, space: &Space) -> u64 {
        let bytes = self.lists.values().map(|list| list.largest_bytes(space));
        bytes.max().unwrap_or(0)
    }
}

impl Lists<Coalescing> {
    /// All free blocks, by address.
    pub(super) fn blocks(&self, space: &Space) -> Vec<BlockId> {
        let entries = self.lists.values().flat_map(|list| list.0.iter());
        let mut blocks: Vec<BlockId> = entries.map(|entry| BlockId(entry.block)).collect();
        blocks.sort_unstable_by_key(|block| space.base(*block));
        blocks
    }
}
