//! First fit: the lowest hole that is large enough.
//!
//! Source: Knuth, "The Art of Computer Programming", vol. 1 (1968), section 2.5,
//! algorithm A, over holes in address order.
//!
//! Parameters: `alignment`, of which sizes are multiples.
//!
//! Tie-breaks: none, addresses differ. An aligned request takes the lowest hole that
//! holds it at its alignment.

use super::fit::{Fit, Rule};
use super::holes::{first_from, holds};
use super::index::{ByAddress, Entry};

pub use super::fit::Spec;

/// The policy.
pub type FirstFit = Fit<Lowest>;

/// The lowest hole.
#[derive(Debug, Default)]
pub struct Lowest;

impl Rule for Lowest {
    type Holes = ByAddress;

    #[inline(always)]
    fn choose(&self, holes: &ByAddress, bytes: u64, align: u64) -> Option<Entry> {
        let lowest = holes.first_fit(bytes)?;
        if holds(lowest, bytes, align) {
            return Some(lowest);
        }
        first_from(holes, lowest.address + 1, bytes, align)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn the_lowest_hole_is_taken_and_padding_stays_a_hole() {
        // Blocks of 512, 512 and 256; then holes of 512 at 0 and of 2816 at 1280. The
        // aligned one goes to 2048, and 1280..2048 stays a hole.
        let hand = play(
            "first-fit",
            4096,
            "A a 300 ; A b 512 ; A c 1 ; F a ; A d 256 ; A e 256 align=1024 ; A f 256 ; \
             A g 700 ; A h 1793",
        );
        assert_eq!(
            hand.told,
            ["0", "512", "1024", "ok", "0", "2048", "256", "1280", "OOM"]
        );
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        assert_eq!(policy.servable(space, 0), 1792);
        assert_eq!(policy.largest_free(space), Some(1792));
    }
}
