//! Observers: what is measured while a replay runs. Each is one file.

pub mod failures;
pub mod free_lists;
pub mod hazards;
pub mod histogram;
pub mod johnstone;
pub mod map;
pub mod metric;
pub mod placements;
pub mod rows;
pub mod snapshot;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
pub mod timeline;
pub mod warnings;

pub use failures::{Failure, Failures, LeftByOthers, Verdict};
pub use free_lists::{FreeList, FreeLists};
pub use hazards::{Hazard, Hazards};
pub use histogram::{Histogram, RequestSizes};
pub use map::{AddressMap, MapObserver};
pub use metric::Metric;
pub use placements::Placements;
pub use summary::{Labels, Row, Summary};
pub use timeline::Timeline;
pub use warnings::{Warning, warnings};
