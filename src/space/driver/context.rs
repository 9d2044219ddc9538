//! What a recording tells of the memory of the program's context.
//!
//! The context keeps 480 MiB below its last chunk. When a kernel needs more local memory
//! the driver moves it, and what it leaves serves later allocations, the lowest part
//! first. No request tells when; the addresses of a recording do.

use super::chunks::{CHUNK_BYTES, CONTEXT_PAGES, LONE_PAGE_BELOW};

/// The page of a card whose recordings can be read.
const PAGE_BYTES: u64 = 2 << 20;

/// A recorded allocation of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The event of the trace during which it was made.
    pub event: u32,
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// The event before which the context's memory had been given back, where the recorded
/// allocations show it: one lies in it, near its low end.
#[must_use]
pub fn given_back(taken: &[Taken]) -> Option<u32> {
    let last = last_chunk(taken)?;
    let base = last.checked_sub(CONTEXT_PAGES * PAGE_BYTES)?;
    let lone = last - LONE_PAGE_BELOW * PAGE_BYTES;
    // Something right below the last chunk: this context kept nothing there.
    let inside = taken
        .iter()
        .find(|one| (base..last).contains(&one.address) && one.address != lone)?;
    (inside.address < base + 3 * CHUNK_BYTES).then_some(inside.event)
}

/// The context's last chunk: the first allocation that begins inside a chunk lies in it,
/// unless its chunk is known or it took the last page of one.
fn last_chunk(taken: &[Taken]) -> Option<u64> {
    let mut known: Vec<(u64, u64)> = Vec::new();
    for one in taken {
        let inside = one.address % CHUNK_BYTES;
        if inside == 0 {
            let end = one.address + one.bytes.next_multiple_of(CHUNK_BYTES);
            known.push((one.address, end));
            continue;
        }
        let of_known = known
            .iter()
            .any(|(base, end)| (*base..*end).contains(&one.address));
        if !of_known && inside < CHUNK_BYTES - PAGE_BYTES {
            return Some(one.address - inside);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pages: &[(u64, u64)]) -> Vec<Taken> {
        let one = |(event, (page, pages)): (usize, &(u64, u64))| Taken {
            event: event as u32,
            address: page * PAGE_BYTES,
            bytes: pages * PAGE_BYTES,
        };
        pages.iter().enumerate().map(one).collect()
    }

    #[test]
    fn an_allocation_at_the_low_end_of_the_context_tells_that_it_moved() {
        // The last chunk is 1600..1616, the lone page 1567, the context 1360..1600.
        let moved = taken(&[(1567, 1), (1604, 10), (1344, 10), (1328, 10), (1360, 49)]);
        assert_eq!(given_back(&moved), Some(4));
        let stayed = taken(&[(1567, 1), (1604, 10), (1344, 10), (1328, 10), (1338, 1)]);
        assert_eq!(given_back(&stayed), None);
        let none_kept = taken(&[(1604, 10), (1584, 10), (1360, 49)]);
        assert_eq!(given_back(&none_kept), None);
    }
}
