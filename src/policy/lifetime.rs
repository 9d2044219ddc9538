//! Segregation by lifetime: what is likely to die together lies together.
//!
//! Source: a research policy of this project, after Barrett and Zorn, "Using lifetime
//! predictors to improve memory allocation performance" (PLDI 1993), and the heaps apart
//! from each other of Berger et al., "Hoard" (ASPLOS 2000).
//!
//! The first steps are for learning: for each size and origin (the tag of a request, a
//! stack where the trace has one) the policy notes how many requests later an allocation
//! is freed. From then on a request goes to the band of its predicted lifetime, and each
//! band has segments of its own, so that a short-lived block never holds a segment of
//! long-lived ones open, nor the other way round. What was never seen has a band too.
//!
//! Inside a band: best fit, split wherever anything is left, joined at once. A band that
//! is short takes a segment of `chunk` bytes, or of just what is needed where that is
//! more; then segments that are all free go back to the driver, and the last resort is a
//! hole of another band.
//!
//! Parameters: `steps`, the marks after which learning ends; `requests`, the number of
//! requests after which it ends at the latest; `bands`, the lifetimes (in requests) that
//! part the bands; `chunk`; `alignment`, of which sizes are multiples.
//!
//! Tie-breaks: the smallest hole, of equal ones the lowest address; the last resort looks
//! through the bands from the shortest lifetime on.

use std::collections::HashMap;

use serde::Deserialize;

use super::holes::{Holes, carve, coalesce, entry, smallest};
use super::index::BySize;
use super::{Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, SegmentId, Space};
use crate::trace::StreamId;
use crate::units::{MIB, round_up, serde_align, serde_bytes};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Marks after which learning ends; a trace may have none.
    pub steps: u64,
    /// Requests after which learning ends at the latest.
    pub requests: u64,
    /// Lifetimes that part the bands, in requests, rising.
    pub bands: Vec<u64>,
    /// What a band takes from the driver at once, in bytes.
    #[serde(with = "serde_bytes")]
    pub chunk: u64,
    /// Sizes are multiples of this, in bytes.
    #[serde(with = "serde_align")]
    pub alignment: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            steps: 2,
            requests: 20_000,
            bands: vec![64, 4096],
            chunk: 20 * MIB,
            alignment: 512,
        }
    }
}

/// Size and origin of a request.
type Kind = (u64, u32);

/// What was learned of a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Learned {
    asked: u64,
    freed: u64,
    /// The sum of the lifetimes of what was freed, in requests.
    lived: u64,
}

/// What is noted of a block while the policy learns.
#[derive(Debug, Clone, Copy, Default)]
struct Born {
    kind: Kind,
    request: u64,
}

/// The policy.
pub struct Lifetime {
    spec: Spec,
    /// Holes of each band; the first is for what was never seen.
    holes: Vec<BySize>,
    /// The band of each segment.
    band_of: Vec<u8>,
    kinds: HashMap<Kind, Learned>,
    /// By the handle of the block; of no use once learning is over.
    born: Vec<Born>,
    requests: u64,
    steps: u64,
}

impl Lifetime {
    /// A policy by `spec`.
    ///
    /// # Errors
    /// Bands that do not rise, or more of them than a byte counts.
    pub fn new(spec: Spec) -> Result<Self, PolicyError> {
        let rising = spec.bands.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || spec.bands.len() > 64 {
            let what = format!("bands = {:?}: expected up to 64 rising numbers", spec.bands);
            return Err(PolicyError::new("lifetime", what));
        }
        Ok(Lifetime {
            // One for each band, one above the last bound, one for the unknown.
            holes: (0..spec.bands.len() + 2).map(|_| BySize::new()).collect(),
            band_of: Vec::new(),
            kinds: HashMap::new(),
            born: Vec::new(),
            requests: 0,
            steps: 0,
            spec,
        })
    }

    fn learning(&self) -> bool {
        self.steps < self.spec.steps && self.requests < self.spec.requests
    }

    /// The band that a kind belongs to by what was learned.
    fn predict(&self, kind: Kind) -> usize {
        let Some(learned) = self.kinds.get(&kind).filter(|_| !self.learning()) else {
            return 0;
        };
        let last = self.holes.len() - 1;
        // Most of them were still there when learning ended.
        if learned.freed * 2 < learned.asked {
            return last;
        }
        let mean = learned.lived / learned.freed;
        1 + self.spec.bands.partition_point(|bound| *bound <= mean)
    }

    /// Notes a request while learning.
    fn note(&mut self, block: BlockId, kind: Kind) {
        self.requests += 1;
        if !self.learning() {
            return;
        }
        let at = block.0 as usize;
        if at >= self.born.len() {
            self.born.resize(at + 1, Born::default());
        }
        let request = self.requests;
        self.born[at] = Born { kind, request };
        self.kinds.entry(kind).or_default().asked += 1;
    }

    fn forget_born(&mut self, block: BlockId) {
        if !self.learning() {
            return;
        }
        let Born { kind, request } = self.born[block.0 as usize];
        if let Some(learned) = self.kinds.get_mut(&kind) {
            learned.freed += 1;
            learned.lived += self.requests - request;
        }
    }

    fn band(&self, segment: SegmentId) -> usize {
        usize::from(self.band_of[segment.0 as usize])
    }

    /// A new segment of a band for `need_bytes`, larger where the driver gives more.
    fn map(&mut self, band: usize, need_bytes: u64, space: &mut Space) -> Option<()> {
        let need_bytes = round_up(need_bytes, space.device().page_bytes)?;
        let wanted = [self.spec.chunk.max(need_bytes), need_bytes];
        let mut mapped = wanted.iter().find_map(|bytes| space.map(*bytes).ok());
        if mapped.is_none() && self.give_back(space) {
            mapped = space.map(need_bytes).ok();
        }
        let block = mapped?;
        let segment = space.segment(block).0 as usize;
        if segment >= self.band_of.len() {
            self.band_of.resize(segment + 1, 0);
        }
        self.band_of[segment] = band as u8;
        self.holes[band].add(entry(block, space));
        Some(())
    }

    /// Segments that are all free go back; whether there were any.
    fn give_back(&mut self, space: &mut Space) -> bool {
        let idle: Vec<SegmentId> = idle(space).collect();
        for segment in &idle {
            let block = space.first(*segment);
            let band = self.band(*segment);
            Holes::remove(&mut self.holes[band], entry(block, space));
            space.unmap(block);
        }
        !idle.is_empty()
    }

    /// A hole of the band, of memory taken for it, or of any band.
    fn find(&mut self, band: usize, bytes: u64, align: u64, space: &mut Space) -> Option<BlockId> {
        let mut from = band;
        let mut hole = smallest(&self.holes[band], bytes, align);
        if hole.is_none() {
            let need_bytes = bytes.checked_add(align - 1)?;
            if self.map(band, need_bytes, space).is_some() {
                hole = smallest(&self.holes[band], bytes, align);
            } else {
                let found = |at: &usize| smallest(&self.holes[*at], bytes, align).is_some();
                from = (1..self.holes.len()).chain([0]).find(found)?;
                hole = smallest(&self.holes[from], bytes, align);
            }
        }
        Some(carve(&mut self.holes[from], hole?, bytes, align, space))
    }
}

/// Segments that are one free block.
fn idle(space: &Space) -> impl Iterator<Item = SegmentId> + '_ {
    space.segments().filter(|segment| {
        let first = space.first(*segment);
        space.state(first) == crate::space::State::Free
            && space.bytes(first) == space.segment_bytes(*segment)
    })
}

impl Policy for Lifetime {
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes = round_up(request.bytes, self.spec.alignment)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let kind = (bytes, request.tag);
        let band = self.predict(kind);
        let block = self.find(band, bytes, request.align, space);
        let block = block.ok_or(OutOfMemory::no_fit(bytes))?;
        space.place(block, request);
        self.note(block, kind);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        self.forget_born(block);
        let band = self.band(space.segment(block));
        space.release(block, stream);
        coalesce(&mut self.holes[band], block, space);
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let idle_bytes: u64 = idle(space)
            .map(|segment| space.segment_bytes(segment))
            .sum();
        let page_bytes = space.device().page_bytes;
        let mapped_bytes = (space.room_bytes() + idle_bytes) / page_bytes * page_bytes;
        let hole_bytes = self.holes.iter().map(BySize::largest_bytes).max();
        let largest_bytes = mapped_bytes.max(hole_bytes.unwrap_or(0));
        largest_bytes - largest_bytes % self.spec.alignment
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, self.spec.alignment)
    }

    fn largest_free(&self, _: &Space) -> Option<u64> {
        self.holes.iter().map(BySize::largest_bytes).max()
    }

    fn trim(&mut self, space: &mut Space) {
        self.give_back(space);
    }

    fn mark(&mut self, _: u32, _: &mut Space) {
        self.steps += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    /// One mark ends learning. 100 lived for two requests, 200 was never freed: from then on
    /// they go to segments of their own, of 1000 bytes each.
    #[test]
    fn what_was_learned_parts_short_from_long() {
        let spec = "lifetime:steps=1,chunk=1000,alignment=1,bands=[10]";
        let learn = "A a 100 ; A b 200 ; F a ; A c 100 ; A d 200 ; F c ; mark";
        let hand = play(
            spec,
            4000,
            &format!("{learn} ; A e 100 ; A f 200 ; A g 300"),
        );
        // a and c lie at 0, b and d behind: the unknown band is 0..1000. The short band
        // begins at 1000, the long one at 2000; 300 was never seen.
        let told = [
            "0", "100", "ok", "0", "300", "ok", "ok", "1000", "2000", "500",
        ];
        assert_eq!(hand.told, told);
    }

    /// The last resort is a hole of another band, before anything is refused.
    #[test]
    fn a_band_that_is_short_takes_from_another() {
        let spec = "lifetime:steps=1,chunk=1000,alignment=1,bands=[10]";
        let learn = "A a 100 ; F a ; A b 900 ; mark";
        let hand = play(spec, 1000, &format!("{learn} ; A c 100 ; A d 1"));
        assert_eq!(hand.told, ["0", "ok", "0", "ok", "900", "OOM"]);
    }
}
