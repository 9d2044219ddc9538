//! Managed memory: lets another policy oversubscribe the card, with the host behind it.
//!
//! Source: unified memory as the CUDA C++ Programming Guide describes it: one address
//! for both sides, pages that move to the side that uses them, and the pages used
//! longest ago leaving where the card is full.
//!
//! Parameters: `over`, the policy that is served from card and host together; `host`, what
//! the host adds to the capacity; `page`, what is moved at a time.
//!
//! How: the inner policy sees `host` bytes more. Pages that a block in use touches are on
//! the card or on the host; no more are on the card than its capacity holds. A block is
//! used when it is handed out and at each `use` event (the former is all there is where a
//! trace tells no uses): those of its pages that are on the card are used first, then the
//! others come in the order of their addresses, and where no place is left the page used
//! longest ago goes, of equals the lowest address. So a block larger than the card pages
//! itself out. Pages of pinned blocks stay; where nothing may go, a page is read across
//! the bus without coming. Pages that no block in use touches any more are dropped without
//! a copy: the wrapper knows what is free, which CUDA's driver does not. New pages come
//! without a copy too.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Compacted, Policy, Tallies};
use crate::space::{BlockId, OutOfMemory, Request, Space, State};
use crate::trace::{PoolId, PoolStep, StreamId};
use crate::units::{serde_align, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// The policy that is served from card and host, as the registry finds it.
    pub over: String,
    /// What the host adds to the capacity, in bytes.
    #[serde(with = "serde_bytes")]
    pub host: u64,
    /// What is moved at a time, in bytes.
    #[serde(with = "serde_align")]
    pub page: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            over: "pytorch".into(),
            host: 16 << 30,
            page: 2 << 20,
        }
    }
}

/// Where a page is that a block in use touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the card since its use of this number.
    Card(u64),
    Host,
}

/// The wrapper.
pub struct Managed {
    inner: Box<dyn Policy>,
    spec: Spec,
    /// Pages that the card has room for.
    frames: usize,
    /// Blocks in use by address, with their bytes.
    live: BTreeMap<u64, (BlockId, u64)>,
    /// Addresses of blocks whose free is outstanding.
    pending: Vec<u64>,
    /// Pages by number.
    pages: BTreeMap<u64, Place>,
    /// Pages on the card by their last use.
    by_use: BTreeSet<(u64, u64)>,
    uses: u64,
    moves: u64,
}

/// The pages that one use moves, by their addresses.
#[derive(Debug, Default)]
struct Transfers {
    out: Vec<u64>,
    back: Vec<u64>,
}

impl Managed {
    /// Managed memory over `inner`.
    #[must_use]
    pub fn new(spec: Spec, inner: Box<dyn Policy>) -> Self {
        Managed {
            inner,
            spec,
            frames: 0,
            live: BTreeMap::new(),
            pending: Vec::new(),
            pages: BTreeMap::new(),
            by_use: BTreeSet::new(),
            uses: 0,
            moves: 0,
        }
    }

    /// The numbers of the pages that a range touches.
    fn touched(&self, base: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
        base / self.spec.page..=(base + bytes - 1) / self.spec.page
    }

    /// The blocks in use that touch a page.
    fn on_page(&self, page: u64) -> impl Iterator<Item = BlockId> + '_ {
        let (start, end) = (page * self.spec.page, (page + 1) * self.spec.page);
        let below = self.live.range(..end).rev();
        below
            .take_while(move |(base, (_, bytes))| *base + bytes > start)
            .map(|(_, (block, _))| *block)
    }

    /// The page to go, if any may.
    fn victim(&self, space: &Space) -> Option<(u64, u64)> {
        let free_to_go =
            |entry: &&(u64, u64)| !self.on_page(entry.1).any(|block| space.pinned(block));
        self.by_use.iter().find(free_to_go).copied()
    }

    /// All pages of a range are used: they come to the card.
    fn use_range(&mut self, base: u64, bytes: u64, space: &mut Space) {
        self.uses += 1;
        let mut transfers = Transfers::default();
        let mut missing = Vec::new();
        for page in self.touched(base, bytes) {
            if let Some(Place::Card(used)) = self.pages.get(&page).copied() {
                self.by_use.remove(&(used, page));
                self.set_on_card(page);
            } else {
                missing.push(page);
            }
        }
        for page in missing {
            self.bring(page, &mut transfers, space);
        }
        space.page_out(&transfers.out, self.spec.page);
        space.page_in(&transfers.back, self.spec.page);
    }

    fn set_on_card(&mut self, page: u64) {
        self.pages.insert(page, Place::Card(self.uses));
        self.by_use.insert((self.uses, page));
    }

    /// A page that is not on the card comes, where there is or can be room.
    fn bring(&mut self, page: u64, transfers: &mut Transfers, space: &Space) {
        let is_known = self.pages.contains_key(&page);
        if is_known {
            transfers.back.push(page * self.spec.page);
        }
        if self.by_use.len() < self.frames || self.make_room(transfers, space) {
            self.set_on_card(page);
        } else if !is_known {
            self.pages.insert(page, Place::Host);
        }
    }

    fn make_room(&mut self, transfers: &mut Transfers, space: &Space) -> bool {
        let Some((used, page)) = self.victim(space) else {
            return false;
        };
        self.by_use.remove(&(used, page));
        self.pages.insert(page, Place::Host);
        transfers.out.push(page * self.spec.page);
        true
    }

    /// A block is in use from now on.
    fn enter(&mut self, block: BlockId, space: &mut Space) {
        let (base, bytes) = (space.base(block), space.bytes(block));
        self.live.insert(base, (block, bytes));
        self.use_range(base, bytes, space);
    }

    /// The block at `base` is no more in use: pages that only it touched are dropped.
    fn leave(&mut self, base: u64) {
        let (_, bytes) = self.live.remove(&base).expect("a block in use");
        let page_bytes = self.spec.page;
        // Blocks do not overlap, so that only the pages at both ends may hold another one.
        let is_within =
            |page: u64| page * page_bytes >= base && (page + 1) * page_bytes <= base + bytes;
        for page in self.touched(base, bytes) {
            if is_within(page) || self.on_page(page).next().is_none() {
                self.drop_page(page);
            }
        }
    }

    fn drop_page(&mut self, page: u64) {
        if let Some(Place::Card(used)) = self.pages.remove(&page) {
            self.by_use.remove(&(used, page));
        }
    }

    /// Follows what the inner policy did by itself: completed frees and moves.
    fn follow(&mut self, space: &mut Space) {
        for base in std::mem::take(&mut self.pending) {
            // Only blocks in use are moved, so a pending one is where it was.
            let (block, _) = self.live[&base];
            if space.state(block) == State::Pending && space.base(block) == base {
                self.pending.push(base);
            } else {
                self.leave(base);
            }
        }
        if self.moves != space.counters().moves {
            self.moves = space.counters().moves;
            self.follow_moves(space);
        }
    }

    /// Blocks were moved: their pages count as used, at the new places.
    fn follow_moves(&mut self, space: &mut Space) {
        let before = std::mem::take(&mut self.live);
        let moved: Vec<BlockId> = before
            .iter()
            .filter(|(base, (block, _))| space.base(*block) != **base)
            .map(|(_, (block, _))| *block)
            .collect();
        let places = before.into_values();
        self.live = places
            .map(|(block, bytes)| (space.base(block), (block, bytes)))
            .collect();
        let known: Vec<u64> = self.pages.keys().copied().collect();
        for page in known {
            if self.on_page(page).next().is_none() {
                self.drop_page(page);
            }
        }
        for block in moved {
            self.use_range(space.base(block), space.bytes(block), space);
        }
    }
}

impl Policy for Managed {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let card_bytes = space.capacity_bytes().min(space.device().total_bytes);
        self.frames = (card_bytes / self.spec.page) as usize;
        space.oversubscribe(self.spec.host);
        self.inner.start(space)
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let answer = self.inner.alloc(request, space);
        self.follow(space);
        if let Ok(block) = answer {
            self.enter(block, space);
        }
        answer
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        let base = space.base(block);
        self.inner.free(block, stream, pending, space);
        if pending {
            self.pending.push(base);
        } else {
            self.leave(base);
        }
        self.follow(space);
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        self.inner.servable(space, stream)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        self.inner.largest_free(space)
    }

    fn blind(&self) -> bool {
        self.inner.blind()
    }

    fn joins(&self) -> bool {
        self.inner.joins()
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        self.inner.complete(block, space);
        self.follow(space);
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, space: &mut Space) {
        self.inner.use_on(block, stream, space);
        self.use_range(space.base(block), space.bytes(block), space);
    }

    fn trim(&mut self, space: &mut Space) {
        self.inner.trim(space);
        self.follow(space);
    }

    fn mark(&mut self, label: u32, space: &mut Space) {
        self.inner.mark(label, space);
    }

    fn pool(&mut self, step: PoolStep, pool: PoolId, stream: StreamId, space: &mut Space) {
        self.inner.pool(step, pool, stream, space);
        self.follow(space);
    }

    fn ordered(&mut self, space: &mut Space) {
        self.inner.ordered(space);
        self.follow(space);
    }

    fn compact(&mut self, space: &mut Space) -> Option<Compacted> {
        let done = self.inner.compact(space);
        self.follow(space);
        done
    }

    fn maps_each(&self) -> bool {
        self.inner.maps_each()
    }

    fn statistics(&self) -> Vec<(String, i64)> {
        self.inner.statistics()
    }

    fn tallies(&self) -> Tallies {
        self.inner.tallies()
    }
}
