//! The same policies on a real GPU: the card carries out what a replay decided.
//!
//! An [`Executor`] looks on at a replay and repeats every step on a [`Card`]: it maps and
//! unmaps, orders streams, moves blocks. Each block is filled with a pattern made from its
//! allocation's number when it is placed, and checked when it moves and when it is freed,
//! by kernels, on the stream that uses it. What the simulator said and what the card did
//! stand side by side in a [`CardRow`]; where they differ, the run disagrees.
//!
//! The room has two cards. `Gpu` (feature `cuda`) is a real one behind the driver's API;
//! [`HostCard`] keeps bytes in the memory of the host, so that the executor, and that it
//! finds the faults planted into it, is tested where there is no GPU. `unsafe` is allowed
//! in `gpu` alone.

pub mod calibrate;
pub mod card;
pub mod claims;
mod executor;
pub mod exercise;
#[cfg(feature = "cuda")]
#[allow(
    unsafe_code,
    reason = "the driver's API is foreign code; each block says why it holds"
)]
pub mod gpu;
mod host;
mod moving;
mod pattern;
pub mod row;
mod tenants;
mod timing;
mod validate;

pub use card::{Card, CardError, HostMemory, Identity, PoolSizes, Span};
pub use executor::{Executor, Plan};
pub use host::HostCard;
pub use row::{CardRow, Verdict};
pub use validate::{Coverage, Fault, How, validate};
