//! Next fit: the first hole from where the last block was placed, round and round.
//!
//! Source: Knuth, "The Art of Computer Programming", vol. 1 (1968), section 2.5,
//! exercise 6 (the roving pointer).
//!
//! Parameters: `alignment`, of which sizes are multiples.
//!
//! Tie-breaks: the search begins at the first hole whose *end* is past the end of the
//! last placement, so that a hole which grew around that place is tried from its low
//! end, and wraps to the lowest hole. The place is an address: blocks that move
//! meanwhile leave it valid.

use super::fit::{Fit, Rule};
use super::holes::first_from;
use super::index::{ByAddress, Entry};

pub use super::fit::Spec;

/// The policy.
pub type NextFit = Fit<Roving>;

/// The first hole from the last placement on.
#[derive(Debug, Default)]
pub struct Roving {
    /// End of the last placement.
    from: u64,
}

impl Rule for Roving {
    type Holes = ByAddress;

    #[inline(always)]
    fn choose(&self, holes: &ByAddress, bytes: u64, align: u64) -> Option<Entry> {
        let onward = holes
            .containing_or_after(self.from)
            .and_then(|hole| first_from(holes, hole.address, bytes, align));
        onward.or_else(|| first_from(holes, 0, bytes, align))
    }

    #[inline(always)]
    fn placed(&mut self, end: u64) {
        self.from = end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn the_search_goes_on_from_the_last_placement_and_wraps() {
        // The hole at 0 ends before the last placement, so c goes on at 2048. Behind d
        // there is no room for 1024: round to 0. The hole that b and c leave is passed
        // by until the search comes round, and then taken from its low end.
        let hand = play(
            "next-fit",
            4096,
            "A a 1024 ; A b 1024 ; F a ; A c 1024 ; A d 512 ; A e 1024 ; A f 512 ; F b ; F c ; \
             A g 256 ; A h 256 ; A i 2048",
        );
        assert_eq!(
            hand.told,
            [
                "0", "1024", "ok", "2048", "3072", "0", "3584", "ok", "ok", "1024", "1280", "OOM"
            ]
        );
    }

    #[test]
    fn a_hole_that_grew_around_the_place_is_tried_from_its_low_end() {
        let hand = play(
            "next-fit",
            4096,
            "A a 1024 ; A b 1024 ; F a ; F b ; A c 256",
        );
        assert_eq!(hand.told[4], "0");
    }
}
