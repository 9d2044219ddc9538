//! Training of a transformer, layer by layer, as PyTorch's eager mode does it.
//!
//! Sources: Korthikanti et al., Reducing Activation Recomputation in Large Transformer
//! Models, MLSys 2023 (what a layer keeps for its backward pass); Rajbhandari et al., ZeRO,
//! SC 2020 (weights, gradients and optimizer state); Chen et al., Training Deep Nets with
//! Sublinear Memory Cost, 2016 (recomputation); Hu et al., LoRA, ICLR 2022 (adapters).
//!
//! A step: micro-batches of random shape, each a forward pass, in which every layer leaves
//! what its backward pass needs, and a backward pass, in which that goes layer by layer
//! while gradients of weights come; then the optimizer, whose state is made in the first
//! step, and all gradients go. Between steps only weights and optimizer state live.

mod layer;
mod step;

use serde::{Deserialize, Serialize};

use super::Family;
use super::pen::{Pen, Stage};
use crate::units::serde_nanos;
use step::Run;

/// How attention is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attention {
    /// The scores of all pairs of tokens lie in memory.
    Eager,
    /// In tiles: a sum for each row is all that stays (Dao et al., FlashAttention, 2022).
    Tiled,
}

/// Parameters. Lengths of tensors follow from the model's shape.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Layers.
    pub layers: u64,
    /// Width of the model.
    pub hidden: u64,
    /// Heads of attention.
    pub heads: u64,
    /// Words of the vocabulary.
    pub vocabulary: u64,
    /// Bytes of an element of weights, activations and gradients: 4, or 2.
    pub element_bytes: u64,
    /// How attention is computed.
    pub attention: Attention,
    /// Whether a layer keeps its input alone and computes the rest again.
    pub recompute: bool,
    /// 0: all weights are trained; else adapters of this rank are, and the rest is frozen.
    pub adapter_rank: u64,
    /// The smallest and the largest batch.
    pub batch: [u64; 2],
    /// The shortest and the longest sequence, in tokens.
    pub tokens: [u64; 2],
    /// Sequences are padded to a multiple of this.
    pub tokens_multiple: u64,
    /// Micro-batches of a step: gradients add up over them.
    pub micro_batches: u64,
    /// Tensors of the optimizer for each weight: 2 for Adam, 3 with a copy of the weights.
    pub optimizer_tensors: u64,
    /// Bytes of an element of the optimizer's state.
    pub optimizer_element_bytes: u64,
    /// How long one operation takes.
    #[serde(with = "serde_nanos")]
    pub operation: u64,
}

/// The marks of a step.
const LABELS: [&str; 4] = ["load", "forward", "backward", "optimizer"];

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            labels: LABELS.map(str::to_owned).to_vec(),
            ..Stage::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        for (key, value) in [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("vocabulary", self.vocabulary),
            ("element_bytes", self.element_bytes),
            ("tokens_multiple", self.tokens_multiple),
            ("micro_batches", self.micro_batches),
            ("optimizer_element_bytes", self.optimizer_element_bytes),
            ("batch", self.batch[0]),
            ("tokens", self.tokens[0]),
        ] {
            if value == 0 {
                return Err(format!("{key} = 0: expected 1 or more"));
            }
        }
        for (key, [least, most]) in [("batch", self.batch), ("tokens", self.tokens)] {
            if least > most {
                return Err(format!(
                    "{key} = [{least}, {most}]: the first is the smaller one"
                ));
            }
        }
        self.sizes_fit()
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut run = Run::load(self, seed, pen);
        while !pen.done() {
            run.step(pen);
        }
    }
}

impl Spec {
    /// Whether the largest tensors stay far below what 64 bits hold.
    fn sizes_fit(&self) -> Result<(), String> {
        let tokens = u128::from(self.batch[1]) * u128::from(self.longest());
        let rows = tokens * u128::from(self.heads) * u128::from(self.longest());
        let wide = u128::from(self.hidden) * 4;
        let widest = wide.max(u128::from(self.vocabulary));
        let elements = rows.max(tokens * widest).max(widest * wide);
        let bytes = u128::from(self.element_bytes.max(self.optimizer_element_bytes).max(4));
        if elements * bytes > 1 << 50 {
            return Err("a tensor of this shape is above 2^50 bytes".into());
        }
        Ok(())
    }

    /// The longest sequence with its padding; `u64::MAX` where 64 bits do not hold it.
    fn longest(&self) -> u64 {
        let padded = self.tokens[1].checked_next_multiple_of(self.tokens_multiple);
        padded.unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
