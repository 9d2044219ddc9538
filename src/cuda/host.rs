//! A card in the memory of the host: what the executor does is tested on it where there
//! is no GPU.
//!
//! It holds bytes, page by page as they are written. Lanes run at once, but for a lane
//! that lags: its work waits until somebody waits for it, so that a wait that was left
//! out shows as surely as a card can make it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::card::{Card, CardError, HostMemory, Identity, PoolSizes, Span};
use super::pattern::byte;
use crate::trace::StreamId;
use crate::units::{GIB, MIB};

/// Bytes are kept in pieces of this.
const PIECE_BYTES: u64 = 4096;
/// Physical memory is counted in this.
const PAGE_BYTES: u64 = 2 * MIB;
/// Sizes in the pool are multiples of this.
const POOL_STEP_BYTES: u64 = 512;
/// Where addresses begin.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;

type Done<T = ()> = Result<T, CardError>;

#[derive(Debug, Clone, Copy)]
enum Work {
    Fill(Span),
    /// With the number of the verdict.
    Check(Span, usize),
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
}

#[derive(Debug, Default)]
struct Lane {
    lags: bool,
    waiting: VecDeque<Work>,
}

#[derive(Debug, Default)]
struct Pool {
    base: u64,
    most_bytes: u64,
    /// First address and bytes of what is handed out.
    taken: BTreeMap<u64, u64>,
    high_bytes: u64,
}

/// A card of host memory.
#[derive(Debug)]
pub struct HostCard {
    total_bytes: u64,
    next: u64,
    pieces: HashMap<u64, Box<[u8]>>,
    /// What is mapped or backed: first address and bytes.
    mapped: BTreeMap<u64, u64>,
    reserved: BTreeMap<u64, u64>,
    /// Pages that are mapped a second time: first address to bytes and where they are.
    aliases: BTreeMap<u64, (u64, u64)>,
    /// Physical memory that is mapped nowhere, by its handle.
    loose: BTreeMap<u64, u64>,
    /// What the host keeps, by its ticket.
    copies: BTreeMap<u64, Vec<u8>>,
    tickets: u64,
    pool: Option<Pool>,
    lanes: HashMap<StreamId, Lane>,
    /// The lane whose position each event notes.
    events: HashMap<u32, StreamId>,
    verdicts: Vec<u64>,
    /// Memory smaller than a page was mapped: how pages are shared is not rehearsed here,
    /// so that free memory says nothing.
    shares: bool,
}

impl HostCard {
    /// A card that would give `total_bytes`.
    #[must_use]
    pub fn new(total_bytes: u64) -> Self {
        HostCard {
            total_bytes,
            next: FIRST_ADDRESS,
            pieces: HashMap::new(),
            mapped: BTreeMap::new(),
            reserved: BTreeMap::new(),
            aliases: BTreeMap::new(),
            loose: BTreeMap::new(),
            copies: BTreeMap::new(),
            tickets: 0,
            pool: None,
            lanes: HashMap::new(),
            events: HashMap::new(),
            verdicts: Vec::new(),
            shares: false,
        }
    }

    fn addresses(&mut self, bytes: u64) -> u64 {
        let base = self.next;
        self.next += bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        base
    }

    fn held_bytes(&self) -> u64 {
        let mapped = self.mapped.values().chain(self.loose.values());
        let mapped: u64 = mapped.map(|bytes| bytes.next_multiple_of(PAGE_BYTES)).sum();
        mapped + self.pool.as_ref().map_or(0, |pool| pool.high_bytes)
    }

    /// Enters a range, where there is room for it.
    fn enter(&mut self, base: u64, bytes: u64) -> Done {
        let after = self.held_bytes() + bytes.next_multiple_of(PAGE_BYTES);
        if after > self.total_bytes {
            return Err(CardError::OutOfMemory { bytes });
        }
        self.mapped.insert(base, bytes);
        Ok(())
    }

    fn leave(&mut self, base: u64, call: &'static str) -> Done {
        let gone = self.mapped.remove(&base);
        let bytes = gone.ok_or_else(|| unknown(call, base))?;
        // Whoever is given the memory next finds nothing in it.
        for number in base / PIECE_BYTES..(base + bytes).div_ceil(PIECE_BYTES) {
            self.pieces.remove(&number);
        }
        Ok(())
    }

    /// Where the bytes behind an address are: elsewhere, in an alias.
    fn origin(&self, address: u64) -> u64 {
        match self.aliases.range(..=address).next_back() {
            Some((base, (bytes, from))) if address - base < *bytes => from + (address - base),
            _ => address,
        }
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    fn send(&mut self, lane: StreamId, work: Work) -> Done {
        self.mapped_at(work)?;
        let queue = self.lanes.entry(lane).or_default();
        if queue.lags {
            queue.waiting.push_back(work);
        } else {
            self.run(work);
        }
        Ok(())
    }

    /// Lets a lane do what waits on it.
    fn drain(&mut self, lane: StreamId) {
        let queue = self.lanes.entry(lane).or_default();
        queue.lags = false;
        for work in std::mem::take(&mut queue.waiting) {
            self.run(work);
        }
    }

    fn run(&mut self, work: Work) {
        match work {
            Work::Fill(span) => self.each(span.base + span.from, span.bytes(), |at, held| {
                *held = byte(span.seed, span.from + at);
            }),
            Work::Check(span, number) => {
                let mut wrong = 0;
                self.each(span.base + span.from, span.bytes(), |at, held| {
                    wrong += u64::from(*held != byte(span.seed, span.from + at));
                });
                self.verdicts[number] = wrong;
            }
            Work::Copy { to, from, bytes } => {
                let mut copied = Vec::new();
                self.each(from, bytes, |_, held| copied.push(*held));
                self.each(to, bytes, |at, held| *held = copied[at as usize]);
            }
        }
    }

    /// Does `work` with each byte of a range and its number.
    fn each(&mut self, address: u64, bytes: u64, mut work: impl FnMut(u64, &mut u8)) {
        let mut at = 0;
        while at < bytes {
            let place = self.origin(address + at);
            let (number, skip) = (place / PIECE_BYTES, place % PIECE_BYTES);
            let fresh = || vec![0; PIECE_BYTES as usize].into_boxed_slice();
            let piece = self.pieces.entry(number).or_insert_with(fresh);
            let part = (PIECE_BYTES - skip).min(bytes - at);
            for held in &mut piece[skip as usize..(skip + part) as usize] {
                work(at, held);
                at += 1;
            }
        }
    }

    /// Memory that is not mapped may not be touched.
    fn mapped_at(&self, work: Work) -> Done {
        let ranges = match work {
            Work::Fill(span) | Work::Check(span, _) => {
                [(span.base + span.from, span.base + span.to); 2]
            }
            Work::Copy { to, from, bytes } => [(to, to + bytes), (from, from + bytes)],
        };
        match ranges.iter().find(|(from, to)| !self.covers(*from, *to)) {
            Some((from, _)) => Err(unknown("a kernel", *from)),
            None => Ok(()),
        }
    }

    fn covers(&self, from: u64, to: u64) -> bool {
        if let Some(pool) = &self.pool
            && (pool.base..pool.base + pool.most_bytes).contains(&from)
        {
            return true;
        }
        let mut at = from;
        while at < to {
            let mapped = self.mapped.range(..=at).next_back();
            let alias = self.aliases.range(..=at).next_back();
            let ends = mapped.map(|(base, bytes)| base + bytes);
            let ends = ends.max(alias.map(|(base, (bytes, _))| base + bytes));
            match ends {
                Some(end) if end > at => at = end,
                _ => return false,
            }
        }
        true
    }
}

fn unknown(call: &'static str, address: u64) -> CardError {
    CardError::Driver {
        call,
        what: format!("nothing is mapped at {address:#x}"),
    }
}

impl Card for HostCard {
    fn identity(&self) -> Identity {
        Identity {
            name: "host".into(),
            about: "memory of the host".into(),
            total_bytes: self.total_bytes,
            page_bytes: PAGE_BYTES,
        }
    }

    fn free_bytes(&mut self) -> Done<Option<u64>> {
        Ok((!self.shares).then(|| self.total_bytes - self.held_bytes()))
    }

    fn map(&mut self, bytes: u64) -> Done<u64> {
        let base = self.addresses(bytes);
        self.shares |= !bytes.is_multiple_of(PAGE_BYTES);
        self.enter(base, bytes).map(|()| base)
    }

    fn unmap(&mut self, base: u64) -> Done {
        self.leave(base, "unmap")
    }

    fn reserve(&mut self, bytes: u64) -> Done<u64> {
        self.next = self.next.next_multiple_of(GIB);
        let base = self.addresses(bytes);
        self.reserved.insert(base, bytes);
        Ok(base)
    }

    fn unreserve(&mut self, base: u64) -> Done {
        let gone = self.reserved.remove(&base);
        gone.map(|_| ()).ok_or_else(|| unknown("unreserve", base))
    }

    fn back(&mut self, at: u64, bytes: u64, page_bytes: u64) -> Done {
        for page in (at..at + bytes).step_by(page_bytes as usize) {
            if let Err(error) = self.enter(page, page_bytes) {
                self.unback(at, page - at)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn unback(&mut self, at: u64, bytes: u64) -> Done {
        self.aliases
            .retain(|base, _| !(at..at + bytes).contains(base));
        let pages: Vec<u64> = self.mapped.range(at..at + bytes).map(|it| *it.0).collect();
        pages
            .into_iter()
            .try_for_each(|page| self.leave(page, "unback"))
    }

    fn alias(&mut self, at: u64, from: u64, bytes: u64) -> Done {
        let pages: Vec<_> = self.mapped.range(from..from + bytes).collect();
        if pages.iter().map(|(_, bytes)| **bytes).sum::<u64>() != bytes {
            return Err(unknown("alias", from));
        }
        for (page, bytes) in pages {
            self.aliases.insert(at + (page - from), (*bytes, *page));
        }
        Ok(())
    }

    fn open(&mut self, at: u64, bytes: u64) -> Done {
        let mapped = self.covers(at, at + bytes);
        mapped.then_some(()).ok_or_else(|| unknown("open", at))
    }

    fn create(&mut self, bytes: u64) -> Done<u64> {
        if self.held_bytes() + bytes > self.total_bytes {
            return Err(CardError::OutOfMemory { bytes });
        }
        let handle = self.ticket();
        self.loose.insert(handle, bytes);
        Ok(handle)
    }

    fn release(&mut self, handle: u64) -> Done {
        let gone = self.loose.remove(&handle);
        gone.map(|_| ()).ok_or_else(|| unknown("release", handle))
    }

    fn save(&mut self, at: u64, bytes: u64, _kept_in: HostMemory) -> Done<u64> {
        if !self.covers(at, at + bytes) {
            return Err(unknown("save", at));
        }
        let mut copy = Vec::with_capacity(bytes as usize);
        self.each(at, bytes, |_, held| copy.push(*held));
        let ticket = self.ticket();
        self.copies.insert(ticket, copy);
        Ok(ticket)
    }

    fn load(&mut self, ticket: u64, at: u64) -> Done {
        let copy = self.copies.get(&ticket).cloned();
        let copy = copy.ok_or_else(|| unknown("load", at))?;
        let bytes = copy.len() as u64;
        if !self.covers(at, at + bytes) {
            return Err(unknown("load", at));
        }
        self.each(at, bytes, |offset, held| *held = copy[offset as usize]);
        Ok(())
    }

    fn forget(&mut self, ticket: u64) -> Done {
        let gone = self.copies.remove(&ticket);
        gone.map(|_| ()).ok_or_else(|| unknown("forget", ticket))
    }

    fn open_pool(&mut self, most_bytes: u64, _keep_bytes: u64) -> Done {
        self.pool = Some(Pool {
            base: self.addresses(most_bytes),
            most_bytes,
            ..Pool::default()
        });
        Ok(())
    }

    fn take(&mut self, bytes: u64, _lane: StreamId) -> Done<u64> {
        let no_room = CardError::OutOfMemory { bytes };
        let pool = self.pool.as_mut().ok_or_else(|| no_room.clone())?;
        let step = bytes.next_multiple_of(POOL_STEP_BYTES);
        let mut at = pool.base;
        for (base, taken) in &pool.taken {
            if base - at >= step {
                break;
            }
            at = base + taken;
        }
        if at + step > pool.base + pool.most_bytes {
            return Err(no_room);
        }
        pool.taken.insert(at, step);
        let high = (at + step - pool.base).next_multiple_of(PAGE_BYTES);
        pool.high_bytes = pool.high_bytes.max(high);
        Ok(at)
    }

    /// The pool waits for the lane, so that whoever is served next comes after it.
    fn give(&mut self, address: u64, lane: StreamId) -> Done {
        self.drain(lane);
        let pool = self.pool.as_mut();
        let gone = pool.and_then(|pool| pool.taken.remove(&address));
        gone.map(|_| ()).ok_or_else(|| unknown("give", address))
    }

    fn trim_pool(&mut self) -> Done {
        if let Some(pool) = &mut self.pool {
            let ends = pool.taken.iter().map(|(base, bytes)| base + bytes);
            let end = ends.max().unwrap_or(pool.base);
            pool.high_bytes = (end - pool.base).next_multiple_of(PAGE_BYTES);
        }
        Ok(())
    }

    fn pool_sizes(&mut self) -> Done<PoolSizes> {
        let sizes = self.pool.as_ref().map(|pool| PoolSizes {
            reserved_bytes: pool.high_bytes,
            used_bytes: pool.taken.values().sum(),
        });
        Ok(sizes.unwrap_or_default())
    }

    fn record(&mut self, lane: StreamId, event: u32) -> Done {
        self.events.insert(event, lane);
        Ok(())
    }

    fn wait_event(&mut self, _lane: StreamId, event: u32) -> Done {
        if let Some(on) = self.events.get(&event) {
            self.drain(*on);
        }
        Ok(())
    }

    fn wait(&mut self, _lane: StreamId, on: StreamId) -> Done {
        self.drain(on);
        Ok(())
    }

    fn sync_lane(&mut self, lane: StreamId) -> Done {
        self.drain(lane);
        Ok(())
    }

    fn sync(&mut self) -> Done {
        let mut lanes: Vec<StreamId> = self.lanes.keys().copied().collect();
        lanes.sort_unstable();
        lanes.into_iter().for_each(|lane| self.drain(lane));
        Ok(())
    }

    fn copy(&mut self, lane: StreamId, to: u64, from: u64, bytes: u64) -> Done {
        self.send(lane, Work::Copy { to, from, bytes })
    }

    fn fill(&mut self, lane: StreamId, span: Span) -> Done {
        self.send(lane, Work::Fill(span))
    }

    fn check(&mut self, lane: StreamId, span: Span) -> Done {
        self.verdicts.push(0);
        self.send(lane, Work::Check(span, self.verdicts.len() - 1))
    }

    fn lag(&mut self, lane: StreamId, _for_ns: u64) -> Done {
        self.lanes.entry(lane).or_default().lags = true;
        Ok(())
    }

    fn verdicts(&mut self) -> Done<Vec<u64>> {
        self.sync()?;
        Ok(std::mem::take(&mut self.verdicts))
    }

    fn clear(&mut self) {
        *self = HostCard::new(self.total_bytes);
    }
}
