//! Last fit: a policy that lives outside vramlab, in a crate of its own.
//!
//! Source: the mirror image of first fit (Knuth, The Art of Computer Programming,
//! volume 1, section 2.5).
//!
//! Tie-breaks: the highest hole that holds the request, of that the high end; what lies
//! above an aligned block stays a hole. Freed blocks are joined with free neighbours at
//! once. The policy keeps no index: it looks at every block, which is slow and short.

use vramlab::policy::{Policy, Registry};
use vramlab::space::{BlockId, OutOfMemory, Request, Space, State};
use vramlab::trace::StreamId;
use vramlab::units::{parse_bytes, round_up};

/// All policies of vramlab, and `last-fit`.
#[must_use]
pub fn registry() -> Registry {
    Registry::default().with("last-fit", |parameters| {
        let mut policy = LastFit { alignment: 256 };
        for (key, value) in parameters {
            if key != "alignment" {
                return Err(format!("unknown option '{key}', expected alignment"));
            }
            let text = value.to_string();
            policy.alignment =
                parse_bytes(text.trim_matches('"')).map_err(|error| error.to_string())?;
            if policy.alignment == 0 {
                return Err("alignment = 0: expected at least 1 byte".into());
            }
        }
        Ok(Box::new(policy))
    })
}

/// The policy.
#[derive(Debug)]
pub struct LastFit {
    /// Sizes are multiples of this, in bytes.
    alignment: u64,
}

/// Where a request of `bytes` goes in a hole: as high as its alignment allows.
fn start_in(hole: BlockId, bytes: u64, align: u64, space: &Space) -> Option<u64> {
    let highest = space.end(hole).checked_sub(bytes)?;
    let start = highest - highest % align;
    (start >= space.base(hole)).then_some(start)
}

impl Policy for LastFit {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        space.map(space.capacity_bytes())?;
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let bytes =
            round_up(request.bytes, self.alignment).ok_or(OutOfMemory::overflow(request.bytes))?;
        let holes = space
            .walk()
            .filter(|block| space.state(*block) == State::Free);
        let fits =
            holes.filter_map(|hole| Some((hole, start_in(hole, bytes, request.align, space)?)));
        let (mut block, start) = fits.last().ok_or(OutOfMemory::no_fit(bytes))?;
        if start > space.base(block) {
            block = space.split(block, start - space.base(block));
        }
        if space.bytes(block) > bytes {
            space.split(block, bytes);
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        if let Some(above) = space.free_next(block) {
            space.merge(block, above);
        }
        if let Some(below) = space.free_prev(block) {
            space.merge(below, block);
        }
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let holes = space
            .walk()
            .filter(|block| space.state(*block) == State::Free);
        let largest_bytes = holes.map(|hole| space.bytes(hole)).max().unwrap_or(0);
        largest_bytes - largest_bytes % self.alignment
    }
}
