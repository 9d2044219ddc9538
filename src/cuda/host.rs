//! A card in the memory of the host: what the executor does is tested on it where there
//! is no GPU.
//!
//! It holds bytes, page by page as they are written. Lanes run at once, but for a lane
//! that lags: its work waits until somebody waits for it, so that a wait that was left
//! out shows as surely as a card can make it.

mod calls;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::card::{CardError, Span};
use super::pattern::byte;
use crate::trace::StreamId;
use crate::units::MIB;

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
        let pages = |bytes: &u64| bytes.next_multiple_of(PAGE_BYTES);
        let mapped: u64 = self.mapped.values().map(pages).sum();
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
