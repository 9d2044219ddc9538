//! Observers: what is measured while a replay runs. Each is one file.

pub mod histogram;
pub mod summary;
pub mod timeline;

pub use histogram::{Histogram, RequestSizes};
pub use summary::{Row, Summary};
pub use timeline::Timeline;
