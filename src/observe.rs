//! Observers: what is measured while a replay runs. Each is one file.

pub mod failures;
pub mod histogram;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod timeline;

pub use failures::{Failure, Failures, Verdict};
pub use histogram::{Histogram, RequestSizes};
pub use summary::{Row, Summary};
pub use timeline::Timeline;
