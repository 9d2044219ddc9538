//! Which card the commands of the `cuda` room work on.

use clap::Args;

use super::CliError;
use crate::cuda::{Card, HostCard, Identity};
use crate::units::GIB;

/// Memory of the card that is rehearsed on.
const REHEARSED_BYTES: u64 = 64 * GIB;

/// The card.
#[derive(Debug, Args)]
pub struct GpuArgs {
    /// Which CUDA device
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: u32,

    /// On a card of host memory instead, to try the command where there is no GPU; slow
    #[arg(long, hide = true)]
    pub rehearse: bool,
}

impl GpuArgs {
    /// Opens the card.
    ///
    /// # Errors
    /// There is none, or the program was built without `cuda`; both exit with 30.
    pub fn open(&self) -> Result<Box<dyn Card>, CliError> {
        if self.rehearse {
            return Ok(Box::new(HostCard::new(REHEARSED_BYTES)));
        }
        open(self.gpu)
    }
}

/// The first card of this machine.
///
/// # Errors
/// As [`GpuArgs::open`].
pub fn found() -> Result<Identity, CliError> {
    Ok(open(0)?.identity())
}

#[cfg(feature = "cuda")]
fn open(gpu: u32) -> Result<Box<dyn Card>, CliError> {
    Ok(Box::new(crate::cuda::gpu::Gpu::open(gpu)?))
}

#[cfg(not(feature = "cuda"))]
fn open(_gpu: u32) -> Result<Box<dyn Card>, CliError> {
    let told = "this vramlab was built without the feature `cuda`; build it with \
                `cargo build --release --features cuda`";
    Err(crate::cuda::CardError::NoCard(told.into()).into())
}
