//! A policy with its parameters, as data: what a preset file says and what a replay builds.

use serde::Deserialize;
use toml::Value;

use super::bfc::{ort, xla};
use super::rmm::{arena, binning, fixed, pool};
use super::{
    Policy, PolicyError, best_fit, buddy, bump, compaction, cuda_malloc, cuda_malloc_async, cupy,
    first_fit, growing, hybrid, lifetime, llama_cpp_pool, managed, next_fit, offset_allocator,
    paging, planned, pytorch, size_class, stitching, stitching_pages, stream_first_fit, tlsf,
    uniform, vma, worst_fit,
};

/// Builds the policy that a wrapper names, such as `best-fit:alignment=512B`.
pub type Inner<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Policy>, PolicyError>;

/// Every policy of the crate. In TOML the variant is a table of its parameters:
/// `[policy.best-fit]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spec {
    /// A moving offset.
    Bump(bump::Spec),
    /// The lowest hole.
    FirstFit(first_fit::Spec),
    /// The first hole from the last placement on.
    NextFit(next_fit::Spec),
    /// The smallest hole.
    BestFit(best_fit::Spec),
    /// The largest hole.
    WorstFit(worst_fit::Spec),
    /// Free blocks serve their own size class only.
    SizeClass(size_class::Spec),
    /// Sizes rounded to multiples of one size.
    Uniform(uniform::Spec),
    /// A pool that takes memory when it runs short.
    Growing(growing::Spec),
    /// Small and large requests apart.
    Hybrid(hybrid::Spec),
    /// First fit that orders streams.
    StreamFirstFit(stream_first_fit::Spec),
    /// Powers of two, halved and joined.
    Buddy(buddy::Spec),
    /// Two-level segregated fit.
    Tlsf(tlsf::Spec),
    /// Bands of predicted lifetime.
    Lifetime(lifetime::Spec),
    /// Bins that round up.
    OffsetAllocator(offset_allocator::Spec),
    /// Vulkan's allocator.
    Vma(vma::Spec),
    /// Moves the blocks of another policy together.
    Compaction(compaction::Spec),
    /// The driver itself.
    CudaMalloc(cuda_malloc::Spec),
    /// The driver's stream-ordered pool.
    CudaMallocAsync(cuda_malloc_async::Spec),
    /// PyTorch's caching allocator.
    #[serde(rename = "pytorch")]
    PyTorch(pytorch::Spec),
    /// TensorFlow's and JAX's best fit with coalescing.
    XlaBfc(xla::Spec),
    /// ONNX Runtime's arena.
    OrtArena(ort::Spec),
    /// RMM's pool.
    RmmPool(pool::Spec),
    /// RMM's arenas.
    RmmArena(arena::Spec),
    /// RMM's bins over a pool.
    RmmBinning(binning::Spec),
    /// RMM's blocks of one size.
    RmmFixed(fixed::Spec),
    /// CuPy's memory pool.
    CupyPool(cupy::Spec),
    /// llama.cpp's pool of whole buffers.
    LlamaCppPool(llama_cpp_pool::Spec),
    /// Where a plan made beforehand says.
    Planned(planned::Spec),
    /// Lets another policy oversubscribe the card.
    Managed(managed::Spec),
    /// Scattered pages behind one address.
    Stitching(stitching::Spec),
    /// Fresh addresses for every request.
    StitchingPages(stitching_pages::Spec),
    /// Equal blocks for keys and values.
    Paging(paging::Spec),
}

impl Spec {
    /// Builds the policy; `inner` builds those that a wrapper names, and `foresight` tells
    /// what lies ahead, where that is known.
    ///
    /// # Errors
    /// Parameters that do not go together.
    pub fn build(
        &self,
        inner: Inner<'_>,
        foresight: Option<&dyn planned::Foresight>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        Ok(match self {
            Spec::Bump(spec) => Box::new(bump::Bump::new(spec.clone())),
            Spec::FirstFit(spec) => Box::new(first_fit::FirstFit::new(spec.clone())),
            Spec::NextFit(spec) => Box::new(next_fit::NextFit::new(spec.clone())),
            Spec::BestFit(spec) => Box::new(best_fit::BestFit::new(spec.clone())),
            Spec::WorstFit(spec) => Box::new(worst_fit::WorstFit::new(spec.clone())),
            Spec::SizeClass(spec) => Box::new(size_class::SizeClass::new(spec.clone())?),
            Spec::Uniform(spec) => {
                Box::new(uniform::Uniform::new(spec.clone(), inner(&spec.over)?)?)
            }
            Spec::Growing(spec) => Box::new(growing::Growing::new(spec.clone())),
            Spec::Hybrid(spec) => Box::new(hybrid::Hybrid::new(
                spec.clone(),
                inner(&spec.small)?,
                inner(&spec.large)?,
            )?),
            Spec::StreamFirstFit(spec) => {
                Box::new(stream_first_fit::StreamFirstFit::new(spec.clone()))
            }
            Spec::Buddy(spec) => Box::new(buddy::Buddy::new(spec.clone())),
            Spec::Tlsf(spec) => Box::new(tlsf::Tlsf::new(spec.clone())?),
            Spec::Lifetime(spec) => Box::new(lifetime::Lifetime::new(spec.clone())?),
            Spec::OffsetAllocator(spec) => Box::new(offset_allocator::OffsetAllocator::new(spec)?),
            Spec::Vma(spec) => Box::new(vma::Vma::new(spec.clone())),
            Spec::Compaction(spec) => Box::new(compaction::Compaction::new(
                spec.clone(),
                inner(&spec.over)?,
            )?),
            Spec::CudaMalloc(spec) => Box::new(cuda_malloc::CudaMalloc::new(spec.clone())),
            Spec::CudaMallocAsync(spec) => {
                Box::new(cuda_malloc_async::CudaMallocAsync::new(spec.clone()))
            }
            Spec::PyTorch(spec) => Box::new(pytorch::PyTorch::new(spec)?),
            Spec::XlaBfc(spec) => Box::new(xla::build(spec)?),
            Spec::OrtArena(spec) => Box::new(ort::build(spec)),
            Spec::RmmPool(spec) => Box::new(pool::Pool::new(spec.clone())?),
            Spec::RmmArena(spec) => Box::new(arena::Arena::new(spec.clone())),
            Spec::RmmBinning(spec) => Box::new(binning::Binning::new(spec)?),
            Spec::RmmFixed(spec) => Box::new(fixed::Fixed::new(spec)?),
            Spec::CupyPool(spec) => Box::new(cupy::CuPy::new(spec.clone())),
            Spec::LlamaCppPool(spec) => Box::new(llama_cpp_pool::LlamaCppPool::new(spec.clone())?),
            Spec::Planned(spec) => {
                Box::new(planned::Planned::new(spec, inner(&spec.over)?, foresight)?)
            }
            Spec::Managed(spec) => {
                Box::new(managed::Managed::new(spec.clone(), inner(&spec.over)?))
            }
            Spec::Stitching(spec) => Box::new(stitching::Stitching::new(
                spec.clone(),
                inner(&spec.small)?,
            )?),
            Spec::StitchingPages(spec) => {
                Box::new(stitching_pages::StitchingPages::new(spec.clone()))
            }
            Spec::Paging(spec) => Box::new(paging::Paging::new(spec.clone(), inner(&spec.over)?)?),
        })
    }

    /// One option in the language of the algorithm: `key=value`, or as PyTorch writes its own.
    #[must_use]
    pub fn spelled(algorithm: &str, key: &str, value: &str) -> String {
        if algorithm != "pytorch" || matches!(key, "conf" | "version") {
            return format!("{key}={value}");
        }
        match value {
            "true" => format!("{key}:True"),
            "false" => format!("{key}:False"),
            other => format!("{key}:{other}"),
        }
    }

    /// Parameters from an option text in a language of the algorithm's own; `None` where
    /// the algorithm takes `key=value` like all others.
    #[must_use]
    pub fn own_options(
        algorithm: &str,
        text: &str,
    ) -> Option<Result<Vec<(String, Value)>, String>> {
        if algorithm != "pytorch" || !text.contains(':') {
            return None;
        }
        Some(Ok(vec![(
            "conf".to_owned(),
            Value::String(text.to_owned()),
        )]))
    }
}
