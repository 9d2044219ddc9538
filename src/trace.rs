//! Traces: what a program asked of its allocator, and the formats they are kept in.

pub mod pickle;
pub mod snapshot;
