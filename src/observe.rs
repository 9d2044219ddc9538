//! Observers: what is measured while a replay runs. Each is one file.

pub mod summary;

pub use summary::{Row, Summary};
