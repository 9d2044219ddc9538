//! Worst fit: the largest hole, so that what remains of it is large.
//!
//! Source: Shore, "On the external storage fragmentation produced by first-fit and
//! best-fit allocation strategies" (Communications of the ACM 18, 1975), where it is
//! the counterpart to best fit.
//!
//! Parameters: `alignment`, of which sizes are multiples.
//!
//! Tie-breaks: of equal holes the lowest. An aligned request takes the largest hole
//! that holds it at its alignment.

use super::fit::{Fit, Rule};
use super::holes::holds;
use super::index::{BySize, Entry};

pub use super::fit::Spec;

/// The policy.
pub type WorstFit = Fit<Largest>;

/// The largest hole.
#[derive(Debug, Default)]
pub struct Largest;

impl Rule for Largest {
    type Holes = BySize;

    fn choose(&self, holes: &BySize, bytes: u64, align: u64) -> Option<Entry> {
        let mut hole = holes.largest()?;
        while hole.bytes >= bytes {
            if holds(hole, bytes, align) {
                return Some(hole);
            }
            hole = following(holes, hole)?;
        }
        None
    }
}

/// The next hole by falling size, then by rising address.
fn following(holes: &BySize, hole: Entry) -> Option<Entry> {
    let equal = holes.next_after(hole.bytes, hole.address);
    equal.filter(|next| next.bytes == hole.bytes).or_else(|| {
        let smaller = holes.prev_before(hole.bytes, 0)?;
        holes.first_at_least(smaller.bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::super::hand::play;

    #[test]
    fn the_largest_hole_is_taken_of_equal_ones_the_lowest() {
        // Holes: 1280 at 0, 2560 at 1536; then 1280 at 0 and at 2816; then 1024 at 256
        // and 1280 at 2816; then 1024 at 256 and at 3072, of which only the upper holds
        // 1024 at a multiple of 1024.
        let hand = play(
            "worst-fit",
            4096,
            "A a 1280 ; A b 256 ; A c 1280 ; F a ; F c ; A d 1280 ; A e 256 ; A f 256 ; \
             A g 1024 align=1024 ; A h 1025",
        );
        assert_eq!(hand.told[5..], ["1536", "0", "2816", "3072", "OOM"]);
        let (policy, space) = (hand.replay.policy(), hand.replay.space());
        assert_eq!(policy.servable(space, 0), 1024);
    }
}
