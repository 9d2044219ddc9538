//! The calls that the executor makes, on a card of host memory.

use super::{Done, HostCard, PAGE_BYTES, POOL_STEP_BYTES, Pool, Work, unknown};
use crate::cuda::card::{Card, CardError, HostMemory, Identity, PoolSizes, Span};
use crate::trace::StreamId;
use crate::units::GIB;

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

    fn make_ready(&mut self, _bytes: u64, _kept_in: HostMemory) -> Done {
        Ok(())
    }

    fn pinning_bytes(&self) -> u64 {
        0
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
