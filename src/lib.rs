//! vramlab: a deterministic, device-free simulator of GPU memory allocators and a
//! policy research tool.
//!
//! The flow is one straight line, and a room imports only what stands before it:
//!
//! source -> [`trace`] -> [`replay`] ([`policy`] <-> [`space`]) -> steps -> [`observe`] ->
//! rows -> [`plot`] and [`report`]; beside them [`fidelity`] and [`whatif`], models against
//! recordings, [`explain`], why a request failed, and [`cuda`], where a real card carries out
//! the steps.

pub mod bound;
pub mod cli;
pub mod conformance;
pub mod cuda;
pub mod experiment;
pub mod explain;
pub mod fidelity;
pub mod files;
pub mod observe;
pub mod plot;
pub mod policy;
pub mod presets;
pub mod replay;
pub mod report;
pub mod shrink;
pub mod space;
pub mod stats;
pub mod synth;
pub mod trace;
pub mod units;
pub mod whatif;

/// The code of the page is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/write-a-policy.md")]
mod write_a_policy {}
