//! vramlab: a deterministic, device-free simulator of GPU memory allocators.

pub mod trace;
