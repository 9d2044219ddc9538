//! What the field says of allocation on a GPU, measured on a card.
//!
//! (a) allocating in a loop costs, reuse and pools do not ([`allocating()`]); (b) memory
//! of which every other block was freed serves larger requests, or not ([`fragmenting()`]);
//! (c) a stream-ordered free returns at once, a plain one waits ([`freeing()`]);
//! (d) compaction costs time by the bytes that it moves ([`moving()`]).

mod allocating;
mod fragmenting;
mod freeing;
mod moving;

pub use allocating::{Allocating, allocating};
pub use fragmenting::{Fragmenting, fragmenting};
pub use freeing::{Freeing, freeing};
pub use moving::{Moving, moving};
