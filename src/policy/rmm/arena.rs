//! `rmm-arena`: RMM's arenas, one for each stream, over a global one.
//!
//! Source: librmm 26.10, `arena_memory_resource`: its documentation, public descriptions
//! of its superblocks, and its recordings, which the rules below meet at every address.
//!
//! One block is taken at the start. Requests above 1 MiB are served by the global arena,
//! smaller ones by the arena of their stream, which gets superblocks of 1 MiB from the
//! global one. An empty superblock is split where both parts keep 1 MiB.
//!
//! Tie-breaks: everywhere the lowest address (first fit among superblocks, then among
//! the blocks inside). Neighbours join inside a superblock; in the global arena empty
//! superblocks that touch join too. A superblock stays with its stream when it becomes
//! empty; before a request fails, the device is waited for and the empty ones go back.
//!
//! Streams: a free of a large block, or of one that another stream's arena holds, waits
//! for the freeing stream.

use serde::Deserialize;

use super::superblocks::{Superblock, Superblocks};
use super::{Deferred, QUANTUM_BYTES};
use crate::policy::Policy;
use crate::policy::cut::{cut_back, cut_front, padded_bytes};
use crate::policy::limit::Limit;
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::{MIB, round_up, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// What the global arena takes at the start. RMM's own default is half of what is
    /// free on the card.
    pub arena: Limit,
    /// The least superblock, in bytes; larger requests go to the global arena. Fixed in
    /// RMM: 1 MiB, 256 KiB before 2022; 0 serves all from the global arena.
    #[serde(with = "serde_bytes")]
    pub superblock: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            arena: Limit::Capacity,
            superblock: MIB,
        }
    }
}

/// The policy.
pub struct Arena {
    spec: Spec,
    global: Superblocks,
    /// By stream.
    arenas: Vec<Superblocks>,
    deferred: Deferred,
}

impl Arena {
    /// Arenas by `spec`.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        Arena {
            spec,
            global: Superblocks::default(),
            arenas: Vec::new(),
            deferred: Deferred::default(),
        }
    }

    fn is_large(&self, bytes: u64) -> bool {
        bytes > self.spec.superblock
    }

    fn own(&mut self, stream: StreamId) -> &mut Superblocks {
        let at = usize::from(stream);
        if at >= self.arenas.len() {
            self.arenas.resize_with(at + 1, Superblocks::default);
        }
        &mut self.arenas[at]
    }

    /// The lowest superblock of the global arena that holds `bytes`, out of it; an empty
    /// one is split.
    fn acquire(&mut self, bytes: u64, space: &mut Space) -> Option<Superblock> {
        let superblock = self.global.take_first_fit(bytes)?;
        let least = self.spec.superblock;
        let keep = bytes.max(least);
        if let Some(block) = superblock.empty()
            && space.bytes(block) >= keep.saturating_add(least.max(QUANTUM_BYTES))
        {
            let rest = space.split(block, keep);
            self.global.insert(Superblock::whole(rest, space));
            return Some(Superblock::whole(block, space));
        }
        Some(superblock)
    }

    fn take(&mut self, bytes: u64, stream: StreamId, space: &mut Space) -> Option<BlockId> {
        if self.is_large(bytes) {
            let superblock = self.acquire(bytes, space)?;
            let base = superblock.base();
            self.global.insert(superblock);
            return self.global.take_at(base, bytes, space);
        }
        if let Some(block) = self.own(stream).take(bytes, space) {
            return Some(block);
        }
        let superblock = self.acquire(bytes, space)?;
        let base = superblock.base();
        let own = self.own(stream);
        own.insert(superblock);
        own.take_at(base, bytes, space)
    }

    /// The device is waited for, and empty superblocks go back to the global arena.
    fn defragment(&mut self, space: &mut Space) {
        space.synchronise();
        for arena in &mut self.arenas {
            for superblock in arena.drain_empty() {
                let base = superblock.base();
                self.global.insert(superblock);
                self.global.coalesce(base, space);
            }
        }
    }

    fn put_global(&mut self, block: BlockId, space: &mut Space) {
        let base = self.global.put(block, space).unwrap_or_else(|| {
            panic!(
                "event {}: a freed block lies in no superblock",
                space.event()
            )
        });
        self.global.coalesce(base, space);
    }

    fn put(&mut self, block: BlockId, stream: StreamId, space: &mut Space) {
        let large = self.is_large(space.bytes(block));
        space.release(block, stream);
        if large {
            space.synchronise_stream(stream);
            if self.global.hold(block, space) {
                return self.put_global(block, space);
            }
        }
        if self.own(stream).put(block, space).is_some() {
            return;
        }
        space.synchronise_stream(stream);
        let holder = self
            .arenas
            .iter()
            .position(|arena| arena.hold(block, space));
        match holder {
            Some(other) => {
                self.arenas[other].put(block, space);
            }
            None => self.put_global(block, space),
        }
    }
}

impl Policy for Arena {
    fn joins(&self) -> bool {
        false
    }

    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        let bytes = self.spec.arena.bytes(space).unwrap_or(space.room_bytes());
        let block = space.map(bytes - bytes % QUANTUM_BYTES)?;
        self.global.insert(Superblock::whole(block, space));
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, QUANTUM_BYTES);
        let padded = bytes.and_then(|bytes| padded_bytes(bytes, request.align, QUANTUM_BYTES));
        let (Some(bytes), Some(padded)) = (bytes, padded) else {
            return Err(OutOfMemory::overflow(request.bytes));
        };
        let stream = request.stream;
        let mut found = self.take(padded, stream, space);
        if found.is_none() {
            self.defragment(space);
            found = self.take(padded, stream, space);
        }
        let block = found.ok_or(OutOfMemory::no_fit(bytes))?;
        let (padding, block) = cut_front(block, request.align, space);
        let rest = cut_back(block, bytes, space);
        space.place(block, request);
        for part in [padding, rest].into_iter().flatten() {
            if self.own(stream).put(part, space).is_none() {
                self.put_global(part, space);
            }
        }
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool, space: &mut Space) {
        if pending {
            return self.deferred.defer(block, stream, space);
        }
        self.put(block, stream, space);
    }

    fn complete(&mut self, block: BlockId, space: &mut Space) {
        let stream = self.deferred.complete(block, space);
        self.put(block, stream, space);
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, QUANTUM_BYTES)
    }

    fn servable(&self, _: &Space, stream: StreamId) -> u64 {
        let own = self
            .arenas
            .get(usize::from(stream))
            .map_or(0, Superblocks::largest_bytes);
        self.global
            .largest_bytes()
            .max(own.min(self.spec.superblock))
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        let arenas = self.arenas.iter().map(Superblocks::largest_bytes).max();
        Some(self.global.largest_bytes().max(arenas.unwrap_or(0)))
    }

    fn blind(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::SpaceConfig;

    /// By hand, in superblocks of 4 KiB: the first small request of each stream takes a
    /// superblock; a large one comes behind them; the emptied superblock stays with its
    /// stream until a request would fail.
    #[test]
    fn two_streams_and_a_large_block_by_hand() {
        let mut policy = Arena::new(Spec {
            superblock: 4096,
            ..Spec::default()
        });
        let config = SpaceConfig {
            blind: false,
            streams: 2,
            ..SpaceConfig::bare(20480)
        };
        let mut space = Space::new(config);
        policy.start(&mut space).expect("room");
        let ask = |bytes, stream| Request {
            bytes,
            align: 1,
            stream,
            pool: 0,
            tag: 0,
        };
        let one = policy.alloc(&ask(1000, 0), &mut space).expect("room");
        let two = policy.alloc(&ask(1000, 1), &mut space).expect("room");
        let large = policy.alloc(&ask(5000, 0), &mut space).expect("room");
        assert_eq!(
            [one, two, large].map(|block| (space.base(block), space.bytes(block))),
            [(0, 1024), (4096, 1024), (8192, 5120)]
        );
        policy.free(one, 0, false, &mut space);
        policy.free(two, 1, false, &mut space);
        let behind = policy.alloc(&ask(6000, 0), &mut space).expect("room");
        assert_eq!((space.base(behind), space.counters().stalls), (13312, 0));
        let joined = policy
            .alloc(&ask(8192, 1), &mut space)
            .expect("both superblocks");
        assert_eq!((space.base(joined), space.counters().stalls), (0, 1));
    }
}
