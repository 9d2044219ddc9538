//! Allocation policies, and the indexes over free blocks that they share.

pub mod index;
