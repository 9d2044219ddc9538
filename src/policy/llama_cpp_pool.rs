//! llama.cpp's legacy pool: buffers that are kept whole, for cards without virtual memory.
//!
//! Source: ggml's CUDA backend (github.com/ggml-org/llama.cpp, `ggml_cuda_pool_leg`, as of
//! 2025), its issue 22107 and pull request 22155.
//!
//! The pool is an array of `buffers` free buffers. A request takes the one with the least
//! to spare, all of it; nothing is ever cut or joined, and what is 64 GiB larger than the
//! request is passed over. Where none is large enough the driver gives a new one, `ahead`
//! percent larger and rounded up to 256 bytes, so that the next request, a little larger,
//! may find it. A freed buffer goes into the first empty place of the array, or back to
//! the driver where there is none.
//!
//! A buffer that is too small for every later request stays for ever: where requests grow
//! by more than `ahead` percent from one to the next, each leaves one behind. With `flush` a
//! shortage gives all free buffers back and asks the driver once more.
//!
//! Tie-breaks: of equal buffers the lowest place in the array.
//!
//! The pool knows no alignment: where a buffer begins off the one that is asked for, the
//! part in front is left out of use as long as the request lives. It leaves the order of
//! streams to the program, as ggml gives each stream a pool of its own.

use serde::Deserialize;

use super::limit::room_after_bytes;
use super::{Policy, PolicyError};
use crate::space::{BlockId, OutOfMemory, Request, Space};
use crate::trace::StreamId;
use crate::units::round_up;

/// New buffers are multiples of this, in bytes.
const QUANTUM_BYTES: u64 = 256;
/// A buffer with so many bytes to spare is passed over.
const SPARE_LIMIT_BYTES: u64 = 1 << 36;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Free buffers that the array holds.
    pub buffers: usize,
    /// How much larger a new buffer is than its request, in percent.
    pub ahead: u64,
    /// Whether a shortage gives all free buffers back.
    pub flush: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            buffers: 256,
            ahead: 5,
            flush: true,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct LlamaCppPool {
    spec: Spec,
    /// Free buffers, each a segment of its own, by place.
    places: Vec<Option<BlockId>>,
}

impl LlamaCppPool {
    /// A pool by `spec`.
    ///
    /// # Errors
    /// An array without a place, or buffers more than twice as large as their requests.
    pub fn new(spec: Spec) -> Result<Self, PolicyError> {
        let fail = |what: String| Err(PolicyError::new("llama-cpp-pool", what));
        if spec.buffers == 0 {
            return fail("buffers = 0: expected at least 1, such as 256".into());
        }
        if spec.ahead > 100 {
            return fail(format!(
                "ahead = {}: expected percent from 0 to 100, such as 5",
                spec.ahead
            ));
        }
        Ok(LlamaCppPool {
            places: vec![None; spec.buffers],
            spec,
        })
    }

    fn free_buffers(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.places.iter().flatten().copied()
    }

    /// Takes the buffer with the least to spare out of the array.
    fn take(&mut self, request: &Request, space: &Space) -> Option<BlockId> {
        let spare_bytes = |place: usize| {
            let buffer = self.places[place]?;
            let start = round_up(space.base(buffer), request.align)?;
            let end = start.checked_add(request.bytes)?;
            let fits = end <= space.end(buffer);
            fits.then(|| space.bytes(buffer) - request.bytes)
                .filter(|spare| *spare < SPARE_LIMIT_BYTES)
        };
        let places = 0..self.places.len();
        let fitting = places.filter_map(|place| Some((spare_bytes(place)?, place)));
        let (_, place) = fitting.min()?;
        self.places[place].take()
    }

    /// What the driver is asked for; `None` where it passes the largest integer.
    fn new_bytes(&self, bytes: u64) -> Option<u64> {
        let percent = u128::from(100 + self.spec.ahead);
        let bytes = u64::try_from(u128::from(bytes) * percent / 100).ok()?;
        round_up(bytes, QUANTUM_BYTES)
    }

    /// The largest request whose new buffer takes no more than `room_bytes`.
    fn requested_bytes(&self, room_bytes: u64) -> u64 {
        let whole_bytes = u128::from(room_bytes / QUANTUM_BYTES * QUANTUM_BYTES);
        let percent = u128::from(100 + self.spec.ahead);
        // The largest `bytes` of which `bytes * percent / 100`, rounded down, is not more.
        let bytes = ((whole_bytes + 1) * 100).div_ceil(percent) - 1;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// A new buffer for the request, longer where the driver's address is not aligned.
    fn map(bytes: u64, align: u64, space: &mut Space) -> Option<BlockId> {
        let buffer = space.map(bytes).ok()?;
        if space.base(buffer).is_multiple_of(align) {
            return Some(buffer);
        }
        space.unmap(buffer);
        space.map(bytes.checked_add(align)?).ok()
    }

    /// Gives all free buffers back to the driver.
    fn flush(&mut self, space: &mut Space) {
        for buffer in self.places.iter_mut().filter_map(Option::take) {
            space.unmap(buffer);
        }
    }
}

impl Policy for LlamaCppPool {
    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let new_bytes = self
            .new_bytes(request.bytes)
            .ok_or(OutOfMemory::overflow(request.bytes))?;
        let mut found = self.take(request, space);
        if found.is_none() {
            found = Self::map(new_bytes, request.align, space);
        }
        if found.is_none() && self.spec.flush {
            self.flush(space);
            found = Self::map(new_bytes, request.align, space);
        }
        let buffer = found.ok_or(OutOfMemory::no_fit(new_bytes))?;
        let skip = space.base(buffer).next_multiple_of(request.align) - space.base(buffer);
        let block = if skip > 0 {
            let block = space.split(buffer, skip);
            space.forgo(buffer);
            block
        } else {
            buffer
        };
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        space.release(block, stream);
        let mut buffer = block;
        if let Some(padding) = space.prev(block) {
            space.reclaim(padding);
            space.merge(padding, block);
            buffer = padding;
        }
        match self.places.iter().position(Option::is_none) {
            Some(place) => self.places[place] = Some(buffer),
            None => space.unmap(buffer),
        }
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let kept_bytes = self.free_buffers().map(|buffer| space.bytes(buffer)).max();
        let room_bytes = if self.spec.flush {
            let gone: Vec<BlockId> = self.free_buffers().collect();
            room_after_bytes(&gone, space).max(space.room_bytes())
        } else {
            space.room_bytes()
        };
        self.requested_bytes(room_bytes)
            .max(kept_bytes.unwrap_or(0))
    }

    fn rounded_bytes(&self, request: &Request) -> Option<u64> {
        round_up(request.bytes, QUANTUM_BYTES)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        let largest = self.free_buffers().map(|buffer| space.bytes(buffer)).max();
        Some(largest.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::super::hand::play;

    /// 1000 asks the driver for 1050, rounded up to 1280; 1280 fits it exactly, 1281 needs
    /// 1345, so 1536. Of both, 1000 takes the smaller one.
    #[test]
    fn a_new_buffer_is_five_percent_larger_and_is_handed_out_whole() {
        let program = "A a 1000 ; F a ; A b 1280 ; F b ; A c 1281 ; F c ; A d 1000 ; A e 1000";
        let hand = play("llama-cpp-pool", 1 << 20, program);
        let told = ["0", "ok", "0", "ok", "1280", "ok", "0", "1280"];
        assert_eq!(hand.told, told);
        assert_eq!(hand.replay.space().counters().reserved_bytes, 1280 + 1536);
    }

    /// Two places: the third buffer that is freed goes back to the driver. Of the two
    /// equal ones that stay, the one in the first place is taken, which was freed first.
    #[test]
    fn a_full_array_gives_back_and_equal_buffers_go_by_place() {
        let program = "A a 1000 ; A b 1000 ; A c 1000 ; F b ; F a ; F c ; A d 900";
        let hand = play("llama-cpp-pool:buffers=2", 1 << 20, program);
        assert_eq!(hand.replay.space().counters().reserved_bytes, 2 * 1280);
        assert_eq!(hand.told.last().map(String::as_str), Some("1280"));
    }

    #[test]
    fn what_makes_no_pool_is_told() {
        for (spec, part) in [
            ("llama-cpp-pool:buffers=0", "buffers = 0"),
            ("llama-cpp-pool:ahead=101", "ahead = 101"),
        ] {
            let error = Registry::default().find(spec).err().expect("refused");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
