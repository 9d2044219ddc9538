//! An obvious model of what recorded facts mean, simpler than what it judges: a table of
//! segments and one of blocks, with every block's size found by looking at all of them.

use std::collections::BTreeMap;

use vramlab::trace::pytorch::size_rules;
use vramlab::trace::pytorch::sizes::{LARGE_SLACK_BYTES, SizeRules};
use vramlab::trace::snapshot::Snapshot;
use vramlab::trace::truth::{TruthEntry, TruthKind, TruthSegment, TruthState};

#[derive(Clone, Copy)]
struct Region {
    bytes: u64,
    stream: u16,
    expandable: bool,
}

#[derive(Clone, Copy)]
struct Block {
    bytes: u64,
    requested_bytes: u64,
    pending: bool,
}

/// Segments and blocks at one moment of a recording that began empty.
pub struct State {
    rules: SizeRules,
    expandable: bool,
    regions: BTreeMap<u64, Region>,
    blocks: BTreeMap<u64, Block>,
}

impl State {
    /// The state after `facts`.
    pub fn replay(facts: &[TruthEntry], snapshot: &Snapshot) -> Self {
        let settings = snapshot.settings.as_ref();
        let mut state = State {
            rules: size_rules(settings),
            expandable: settings.is_some_and(|settings| settings.expandable_segments),
            regions: BTreeMap::new(),
            blocks: BTreeMap::new(),
        };
        for fact in facts {
            state.apply(fact);
        }
        state
    }

    fn apply(&mut self, fact: &TruthEntry) {
        match fact.kind {
            TruthKind::Alloc => {
                let block = Block {
                    bytes: self.block_bytes(fact),
                    requested_bytes: fact.bytes,
                    pending: false,
                };
                assert!(self.blocks.insert(fact.address, block).is_none());
            }
            TruthKind::FreeRequested => {
                let block = self.blocks.get_mut(&fact.address).expect("is live");
                assert_eq!(block.requested_bytes, fact.bytes);
                block.pending = true;
            }
            TruthKind::FreeCompleted => {
                assert!(
                    self.blocks
                        .remove(&fact.address)
                        .is_some_and(|block| block.pending)
                );
            }
            TruthKind::SegmentAlloc | TruthKind::SegmentMap => self.regions.extend([(
                fact.address,
                Region {
                    bytes: fact.bytes,
                    stream: fact.stream,
                    expandable: fact.kind == TruthKind::SegmentMap,
                },
            )]),
            TruthKind::SegmentFree => {
                let gone = self.regions.remove(&fact.address).expect("is there");
                assert_eq!(gone.bytes, fact.bytes);
            }
            TruthKind::SegmentUnmap => self.unmap(fact.address, fact.address + fact.bytes),
            _ => {}
        }
    }

    fn unmap(&mut self, from: u64, to: u64) {
        for (address, region) in self.regions.clone() {
            let end = address + region.bytes;
            if end <= from || address >= to {
                continue;
            }
            self.regions.remove(&address);
            for (left, right) in [(address, from.max(address)), (to.min(end), end)] {
                if left < right {
                    let bytes = right - left;
                    self.regions.insert(left, Region { bytes, ..region });
                }
            }
        }
    }

    /// The size that the allocator's rule of splitting gives the block at an address.
    fn block_bytes(&self, fact: &TruthEntry) -> u64 {
        let rounded = self.rules.rounded(fact.bytes);
        let (at, region) = self
            .regions
            .range(..=fact.address)
            .next_back()
            .expect("a segment");
        if self.expandable || region.expandable || region.bytes == 2 << 20 {
            return rounded;
        }
        let next = self
            .blocks
            .range(fact.address..)
            .next()
            .map_or(u64::MAX, |(next, _)| *next);
        let gap = next.min(at + region.bytes) - fact.address;
        let splits = self
            .rules
            .max_split_bytes
            .is_none_or(|limit| rounded < limit);
        if splits && gap - rounded > LARGE_SLACK_BYTES {
            rounded
        } else {
            gap
        }
    }

    /// Segments as (address, bytes); mapped runs of a stream that touch are one.
    pub fn regions(&self) -> Vec<(u64, u64)> {
        let regions = self.regions.iter();
        fused(regions.map(|(at, region)| (*at, region.bytes, region.expandable, region.stream)))
    }

    /// The same of recorded segments.
    pub fn regions_of(segments: &[TruthSegment]) -> Vec<(u64, u64)> {
        let segments = segments.iter();
        fused(segments.map(|s| (s.address, s.bytes, s.expandable, s.stream)))
    }

    /// Blocks in use as (address, requested bytes, whether pending).
    pub fn requests(&self) -> Vec<(u64, u64, bool)> {
        let blocks = self.blocks.iter();
        blocks
            .map(|(at, block)| (*at, block.requested_bytes, block.pending))
            .collect()
    }

    /// The same of recorded segments.
    pub fn requests_of(segments: &[TruthSegment]) -> Vec<(u64, u64, bool)> {
        segments
            .iter()
            .flat_map(|segment| &segment.blocks)
            .filter(|block| block.state != TruthState::Inactive)
            .map(|block| {
                let pending = block.state == TruthState::Pending;
                (block.address, block.requested_bytes, pending)
            })
            .collect()
    }

    /// Blocks in use as (address, bytes of the block).
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        self.blocks
            .iter()
            .map(|(at, block)| (*at, block.bytes))
            .collect()
    }

    /// The same of recorded segments.
    pub fn sizes_of(segments: &[TruthSegment]) -> Vec<(u64, u64)> {
        segments
            .iter()
            .flat_map(|segment| &segment.blocks)
            .filter(|block| block.state != TruthState::Inactive)
            .map(|block| (block.address, block.bytes))
            .collect()
    }
}

fn fused(regions: impl Iterator<Item = (u64, u64, bool, u16)>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64, bool, u16)> = Vec::new();
    for (address, bytes, expandable, stream) in regions {
        match runs.last_mut() {
            Some(last)
                if expandable && last.2 && last.3 == stream && last.0 + last.1 == address =>
            {
                last.1 += bytes;
            }
            _ => runs.push((address, bytes, expandable, stream)),
        }
    }
    runs.into_iter()
        .map(|(address, bytes, ..)| (address, bytes))
        .collect()
}
