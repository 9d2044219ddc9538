//! A policy with its parameters, as data: what a preset file says and what a replay builds.

use serde::Deserialize;
use toml::Value;

use super::bfc::{ort, xla};
use super::rmm::{arena, binning, fixed, pool};
use super::{Policy, PolicyError, bump, cupy, pytorch};

/// Builds the policy that a wrapper names, such as `best-fit:alignment=512B`.
pub type Inner<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Policy>, PolicyError>;

/// Every policy of the crate. In TOML the variant is a table of its parameters:
/// `[policy.best-fit]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spec {
    /// A moving offset.
    Bump(bump::Spec),
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
}

impl Spec {
    /// Builds the policy; `inner` builds those that a wrapper names.
    ///
    /// # Errors
    /// Parameters that do not go together.
    pub fn build(&self, inner: Inner<'_>) -> Result<Box<dyn Policy>, PolicyError> {
        let _ = inner;
        Ok(match self {
            Spec::Bump(spec) => Box::new(bump::Bump::new(spec.clone())),
            Spec::PyTorch(spec) => Box::new(pytorch::PyTorch::new(spec)?),
            Spec::XlaBfc(spec) => Box::new(xla::build(spec)?),
            Spec::OrtArena(spec) => Box::new(ort::build(spec)),
            Spec::RmmPool(spec) => Box::new(pool::Pool::new(spec.clone())?),
            Spec::RmmArena(spec) => Box::new(arena::Arena::new(spec.clone())),
            Spec::RmmBinning(spec) => Box::new(binning::Binning::new(spec)?),
            Spec::RmmFixed(spec) => Box::new(fixed::Fixed::new(spec)?),
            Spec::CupyPool(spec) => Box::new(cupy::CuPy::new(spec.clone())),
        })
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
