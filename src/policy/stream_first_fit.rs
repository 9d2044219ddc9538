//! Stream-ordered first fit: a range freed on one stream serves another one only behind an
//! ordering point.
//!
//! Source: the stream-ordered allocators of CUDA (`cudaMallocAsync`, reuse by event
//! dependency) and RMM, over first fit; the order of streams is a vector clock (Mattern,
//! "Virtual time and global states of distributed systems", 1989).
//!
//! Parameters: `alignment`, of which sizes are multiples; `stall`, what a shortage does:
//! `none` fails; `retry` waits for the device, which ends all outstanding frees, and
//! searches once more; `no-second-search` waits for the device and fails all the same.
//!
//! Tie-breaks: the lowest address at which the request fits into what its stream may
//! use. Neighbours are joined at once where no stream could tell them apart; others are
//! joined when a request of a stream that may use them all takes them together, and only
//! as much of them as it takes, so that the rest keeps its order.
//!
//! A free that is outstanding waits for its completion. A block that another stream read
//! (`use`) is ordered behind that stream at its free, by a wait of the freeing stream.

#[cfg(test)]
mod tests;

use serde::Deserialize;

use super::Policy;
use super::holes::{cut, entry, first_from, start_in};
use super::index::{ByAddress, Entry};
use crate::space::{BlockId, Cause, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{round_up, serde_align};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
    /// What a shortage does.
    pub stall: Stall,
}

/// What a shortage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stall {
    /// The request fails.
    None,
    /// The policy waits for the device and searches once more.
    Retry,
    /// The policy waits for the device; this request fails, the next ones profit.
    NoSecondSearch,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            alignment: 256,
            stall: Stall::None,
        }
    }
}

/// The policy.
pub struct StreamFirstFit {
    spec: Spec,
    /// Ranges of free neighbours, whoever may use them, with their lowest block.
    runs: ByAddress,
    /// Frees that are outstanding, with their streams, oldest first but for gaps filled.
    pending: Vec<(BlockId, StreamId)>,
    /// Other streams that read live blocks; `None` where it is not known which.
    readers: Vec<(BlockId, Option<StreamId>)>,
}

/// Where a request fits: the run, and the address in it.
#[derive(Clone, Copy)]
struct Spot {
    run: Entry,
    /// The block that holds `start`, or one below it that the stream may use as well.
    first: BlockId,
    start: u64,
}

impl StreamFirstFit {
    /// Stream-ordered first fit by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        StreamFirstFit {
            spec,
            runs: ByAddress::new(),
            pending: Vec::new(),
            readers: Vec::new(),
        }
    }

    /// The lowest address at which the stream may use `bytes`.
    fn find(&self, bytes: u64, request: &Request, space: &Space) -> Option<Spot> {
        let mut run = self.runs.first_fit(bytes)?;
        loop {
            let found = find_in(run, bytes, request.align, request.stream, space);
            if found.is_some() {
                return found;
            }
            run = self.runs.first_fit_from(bytes, run.address + 1)?;
        }
    }

    /// Cuts `bytes` out at the spot: blocks are joined as far as they are needed.
    fn take(&mut self, spot: Spot, bytes: u64, stream: StreamId, space: &mut Space) -> BlockId {
        let mut block = spot.first;
        while space.end(block) <= spot.start {
            block = space.next(block).expect("the spot lies in the run");
        }
        if space.base(block) < spot.start {
            block = space.split(block, spot.start - space.base(block));
        }
        while space.bytes(block) < bytes {
            let next = space.next(block).expect("the run is long enough");
            let missing_bytes = bytes - space.bytes(block);
            if space.bytes(next) > missing_bytes {
                space.split(next, missing_bytes);
            }
            space.join(block, next, stream);
        }
        if space.bytes(block) > bytes {
            space.split(block, bytes);
        }
        let (end, run_end) = (spot.start + bytes, spot.run.address + spot.run.bytes);
        let above = (end < run_end).then(|| {
            let above = space.next(block).expect("the run goes on");
            Entry {
                address: end,
                bytes: run_end - end,
                block: above.0,
            }
        });
        cut(&mut self.runs, spot.run, spot.start, above);
        block
    }

    /// The block is free from here on, behind the present position of the stream.
    fn give(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        space.release(block, stream);
        let mut run = entry(block, space);
        let above = self.runs.remove(run.address + run.bytes);
        run.bytes += above.map_or(0, |above| above.bytes);
        if let Some(next) = space
            .free_next(block)
            .filter(|next| space.alike(block, *next))
        {
            space.merge(block, next);
        }
        let below = self.runs.floor(run.address);
        let below = below.filter(|below| below.address + below.bytes == run.address);
        if let Some(prev) = space
            .free_prev(block)
            .filter(|prev| space.alike(*prev, block))
        {
            space.merge(prev, block);
        }
        match below {
            Some(below) => {
                let known = self.runs.set_bytes(below.address, below.bytes + run.bytes);
                assert!(known, "a run that was found is there");
            }
            None => self.runs.insert(run.address, run.bytes, run.block),
        }
    }

    /// Waits for the device: outstanding frees end, and every stream may use what is free.
    fn stall(&mut self, space: &mut Space) {
        for at in 0..self.pending.len() {
            let (block, stream) = self.pending[at];
            self.give(block, stream, space);
        }
        self.pending.clear();
        space.synchronise();
    }

    /// Orders the freeing stream behind the readers of a block.
    fn wait_for_readers(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        let mut at = 0;
        while let Some(&(read, by)) = self.readers.get(at) {
            if read != block {
                at += 1;
                continue;
            }
            self.readers.swap_remove(at);
            let all = 0..space.ordered_streams();
            let by = by.map_or(all, |by| by..by + 1);
            for on in by.filter(|on| *on != stream) {
                space.wait(stream, on);
            }
        }
    }

    /// The shortage, and whether a fit is there that another stream may still use.
    fn shortage(&self, bytes: u64, align: u64, space: &Space) -> OutOfMemory {
        let held = first_from(&self.runs, 0, bytes, align).is_some();
        let outstanding = || {
            let fits =
                |block| start_in(space.base(block), space.end(block), bytes, align).is_some();
            self.pending.iter().any(|(block, _)| fits(*block))
        };
        OutOfMemory {
            wanted_bytes: bytes,
            cause: if held || outstanding() {
                Cause::Stream
            } else {
                Cause::NoFit
            },
        }
    }
}

/// The free neighbours of a run, upwards.
fn blocks_of(run: Entry, space: &Space) -> impl Iterator<Item = BlockId> + '_ {
    let end = run.address + run.bytes;
    let above = move |block: &BlockId| space.next(*block).filter(|next| space.base(*next) < end);
    std::iter::successors(Some(BlockId(run.block)), above)
}

/// The lowest address in a run at which the stream may use `bytes`.
fn find_in(run: Entry, bytes: u64, align: u64, stream: StreamId, space: &Space) -> Option<Spot> {
    let mut first = None;
    for block in blocks_of(run, space) {
        if space.usable(block, stream) {
            let first = *first.get_or_insert(block);
            if let Some(start) = start_in(space.base(first), space.end(block), bytes, align) {
                return Some(Spot { run, first, start });
            }
        } else {
            first = None;
        }
    }
    None
}

impl Policy for StreamFirstFit {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let all = entry(space.map(space.capacity_bytes())?, space);
        self.runs.insert(all.address, all.bytes, all.block);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let mut spot = self.find(bytes, request, space);
        if spot.is_none() {
            let shortage = self.shortage(bytes, request.align, space);
            if self.spec.stall != Stall::None {
                self.stall(space);
            }
            if self.spec.stall != Stall::Retry {
                return Err(shortage);
            }
            spot = self.find(bytes, request, space);
        }
        let spot = spot.ok_or(OutOfMemory::no_fit(bytes))?;
        let block = self.take(spot, bytes, request.stream, space);
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            self.readers.retain(|(read, _)| *read != block);
            space.defer(block);
            self.pending.push((block, stream));
        } else {
            self.wait_for_readers(block, stream, space);
            self.give(block, stream, space);
        }
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    fn servable(&self, space: &Space, stream: StreamId) -> u64 {
        let mut largest_bytes = 0;
        for run in self.runs.iter() {
            let mut here_bytes = 0;
            for block in blocks_of(run, space) {
                let usable = space.usable(block, stream);
                here_bytes = if usable {
                    here_bytes + space.bytes(block)
                } else {
                    0
                };
                largest_bytes = largest_bytes.max(here_bytes);
            }
        }
        largest_bytes - largest_bytes % self.spec.alignment
    }

    fn blind(&self) -> bool {
        false
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let at = self.pending.iter().position(|(held, _)| *held == block);
        let (block, stream) = self.pending.swap_remove(at.expect("an outstanding free"));
        self.give(block, stream, space);
    }

    fn use_on(&mut self, block: BlockId, stream: Option<StreamId>, _: &mut Space) {
        if !self.readers.contains(&(block, stream)) {
            self.readers.push((block, stream));
        }
    }
}
