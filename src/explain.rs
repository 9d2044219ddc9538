//! Why a request was not served, what was in the way, and what would have helped.
//!
//! [`Explanation`] is plain data; every claim in it that can be proven by a replay was.

mod data;

pub use data::{
    Asked, At, Basis, Blocker, Blockers, Cached, Explanation, Fewest, Found, Growth, Holder,
    Holders, Leaks, MAP_LETTERS, Memory, Reason, Remedies, Remedy, SegmentSums, Share, SizeClass,
    Sums, Why,
};
