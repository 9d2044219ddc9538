//! (b) A checkerboard: memory is filled, every other block is freed, and larger blocks are
//! asked for. The driver maps pages of scattered holes side by side, so that only what is
//! free counts, unless two blocks share a page; a pool has one range of addresses, and needs
//! a hole.

use serde::Serialize;

use crate::cuda::card::{Card, CardError};
use crate::units::MIB;

/// Sizes of the blocks.
const BLOCKS: [u64; 5] = [MIB, 2 * MIB, 8 * MIB, 64 * MIB, 512 * MIB];
/// More blocks than this would only take time.
const MOST_BLOCKS: u64 = 160_000;

/// One request after the checkerboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fragmenting {
    /// `cudaMalloc` or `pool`.
    pub way: &'static str,
    /// What was filled, in bytes.
    pub room_bytes: u64,
    /// Bytes of each block.
    pub block_bytes: u64,
    /// How many there were; every other one was freed.
    pub blocks: u64,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// How many times a block's size was asked for.
    pub times: u64,
    /// Bytes asked for.
    pub asked_bytes: u64,
    /// Whether it was served.
    pub served: bool,
}

/// Fills `room_bytes` and asks: for the driver's plain allocations and for a pool.
///
/// # Errors
/// What the card says, but for a shortage.
pub fn fragmenting(card: &mut dyn Card, room_bytes: u64) -> Result<Vec<Fragmenting>, CardError> {
    let mut rows = Vec::new();
    for block_bytes in BLOCKS {
        let blocks = room_bytes / block_bytes;
        if !(4..=MOST_BLOCKS).contains(&blocks) {
            continue;
        }
        for way in ["cudaMalloc", "pool"] {
            let ways = Way {
                card,
                pool: way == "pool",
            };
            rows.extend(ways.checkerboard(way, room_bytes, block_bytes)?);
            card.clear();
        }
    }
    Ok(rows)
}

struct Way<'c> {
    card: &'c mut dyn Card,
    pool: bool,
}

impl Way<'_> {
    fn take(&mut self, bytes: u64) -> Result<Option<u64>, CardError> {
        let taken = if self.pool {
            self.card.take(bytes, 0)
        } else {
            self.card.map(bytes)
        };
        match taken {
            Ok(address) => Ok(Some(address)),
            Err(CardError::OutOfMemory { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn give(&mut self, address: u64) -> Result<(), CardError> {
        if self.pool {
            self.card.give(address, 0)
        } else {
            self.card.unmap(address)
        }
    }

    fn checkerboard(
        mut self,
        way: &'static str,
        room_bytes: u64,
        block_bytes: u64,
    ) -> Result<Vec<Fragmenting>, CardError> {
        if self.pool {
            self.card.open_pool(room_bytes, u64::MAX)?;
        }
        let mut taken = Vec::new();
        while (taken.len() as u64) < room_bytes / block_bytes {
            match self.take(block_bytes)? {
                Some(address) => taken.push(address),
                None => break,
            }
        }
        let blocks = taken.len() as u64;
        for address in taken.iter().skip(1).step_by(2) {
            self.give(*address)?;
        }
        self.card.sync()?;
        let freed = blocks / 2;
        let mut rows = Vec::new();
        for times in [2, 8, freed / 2, freed].into_iter().filter(|it| *it > 1) {
            let asked_bytes = times * block_bytes;
            let served = self.take(asked_bytes)?;
            if let Some(address) = served {
                self.give(address)?;
                self.card.sync()?;
            }
            rows.push(Fragmenting {
                way,
                room_bytes,
                block_bytes,
                blocks,
                freed_bytes: freed * block_bytes,
                times,
                asked_bytes,
                served: served.is_some(),
            });
        }
        Ok(rows)
    }
}
