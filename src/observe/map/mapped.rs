//! What was mapped when: the grey ground of a map.

use std::collections::BTreeMap;

use super::largest::{Area, Key, Largest};
use super::{MappedRange, When};
use crate::space::{Space, State, StepKind};

/// Mapped ranges, by their first address while they last.
#[derive(Debug)]
pub(super) struct Mapped {
    open: BTreeMap<u64, (u64, When)>,
    done: Largest<MappedRange>,
    left_out: u64,
    started: bool,
}

impl Area for MappedRange {
    fn area(&self) -> u128 {
        u128::from(self.bytes) * u128::from(self.to.event - self.from.event)
    }

    fn key(&self) -> Key {
        [self.from.event, self.address, self.to.event, self.bytes]
    }
}

impl Mapped {
    pub fn new(most: usize) -> Self {
        Mapped {
            open: BTreeMap::new(),
            done: Largest::new(most),
            left_out: 0,
            started: false,
        }
    }

    /// Follows the steps of an event. What a policy mapped before the first event left no
    /// step that an observer sees; it is read off the segments after the first event.
    pub fn see(&mut self, space: &Space, now: When) {
        if !std::mem::replace(&mut self.started, true) {
            for block in space.walk() {
                if space.state(block) != State::Unmapped {
                    self.map(space.base(block), space.bytes(block), now);
                }
            }
            return;
        }
        for step in space.steps() {
            match step.kind {
                StepKind::Map(_) | StepKind::Back(_) | StepKind::Alias(_) => {
                    self.map(step.address, step.bytes, now);
                }
                StepKind::Unmap(_) | StepKind::Unback(_) | StepKind::Unalias(_) => {
                    self.unmap(step.address, step.bytes, now);
                }
                _ => {}
            }
        }
    }

    /// Neighbours that were mapped by the same event are one range.
    pub fn map(&mut self, address: u64, bytes: u64, now: When) {
        if let Some((below, (size, from))) = self.open.range_mut(..address).next_back()
            && *below + *size == address
            && *from == now
        {
            *size += bytes;
            return;
        }
        self.open.insert(address, (bytes, now));
    }

    /// The ranges that are touched end; what is left of them begins anew.
    pub fn unmap(&mut self, address: u64, bytes: u64, now: When) {
        let end = address + bytes;
        while let Some((&base, &(size, from))) = self.open.range(..end).next_back()
            && base + size > address
        {
            self.open.remove(&base);
            self.close(base, size, from, now);
            if base + size > end {
                self.open.insert(end, (base + size - end, now));
            }
            if base < address {
                self.open.insert(base, (address - base, now));
            }
        }
    }

    fn close(&mut self, address: u64, bytes: u64, from: When, to: When) {
        let range = MappedRange {
            address,
            bytes,
            from,
            to,
        };
        self.done.push(range, |_| self.left_out += 1);
    }

    /// All ranges by their beginning, and how many were too many.
    pub fn finish(mut self, end: When) -> (Vec<MappedRange>, u64) {
        for (address, (bytes, from)) in std::mem::take(&mut self.open) {
            self.close(address, bytes, from, end);
        }
        let done = self.done.finish(|_| self.left_out += 1);
        (done, self.left_out)
    }
}
