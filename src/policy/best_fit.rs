//! Best fit: the smallest hole that is large enough.
//!
//! Source: Knuth, "The Art of Computer Programming", vol. 1 (1968), section 2.5; ordered
//! by size and address as Standish, "Data Structure Techniques" (1980), section 6.2.
//!
//! Parameters: `alignment`, of which sizes are multiples.
//!
//! Tie-breaks: of equal holes the lowest. An aligned request takes the smallest hole
//! that holds it at its alignment.

use super::fit::{Fit, Rule};
use super::holes::smallest;
use super::index::{BySize, Entry};

pub use super::fit::Spec;

/// The policy.
pub type BestFit = Fit<Smallest>;

/// The smallest hole.
#[derive(Debug, Default)]
pub struct Smallest;

impl Rule for Smallest {
    type Holes = BySize;

    #[inline(always)]
    fn choose(&self, holes: &BySize, bytes: u64, align: u64) -> Option<Entry> {
        smallest(holes, bytes, align)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn the_smallest_hole_is_taken_of_equal_ones_the_lowest() {
        // Holes: 768 at 0, 512 at 1024 and at 1792, 1536 at 2560. What is left of the
        // second 512 is 256 at 2048, where the aligned one fits.
        let hand = play(
            "best-fit",
            4096,
            "A a 768 ; A b 256 ; A c 512 ; A d 256 ; A e 512 ; A f 256 ; F a ; F c ; F e ; \
             A g 500 ; A h 256 ; A i 700 ; A j 1537 ; A k 256 align=1024 ; A l 256 align=1024",
        );
        assert_eq!(hand.told[9..], ["1024", "1792", "0", "OOM", "2048", "3072"]);
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        assert_eq!(policy.servable(space, 0), 768);
    }
}
