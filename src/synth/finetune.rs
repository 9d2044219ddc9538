//! Fine-tuning a language model: what a step of OPT asks for under PyTorch, with any of
//! LoRA, recomputation and ZeRO-3.
//!
//! Source: the model is "OPT" (Zhang and others, 2022) as its public implementation
//! computes it: attention with its scores kept, masked, and softened in 32 bits; a loss
//! over shifted logits. LoRA is Hu and others (2022): every linear layer of the decoder
//! has two thin matrices beside it. Recomputation keeps the input of each layer only
//! (Chen and others, 2016). ZeRO-3 is Rajbhandari and others (2020): each rank keeps its
//! share of the weights and gathers a layer's before it is used, the next one's with it.
//!
//! What a step holds is derived from shapes, two bytes a number unless said otherwise:
//! - forward: each operation asks for its result and lets its input go once that is read
//!   by none; with recomputation only the input of a layer is kept, else all that
//!   autograd saves;
//! - head: logits, their shifted copy, the logarithm of softmax; the logits of a step live
//!   until the next one has its own, since the loop's variable names them;
//! - backward: with recomputation a layer's forward again, then a gradient for each saved
//!   tensor, which goes with it;
//! - gradients of what is trained, and with each step Adam's temporaries in four bytes.
//!
//! Left out: kernels' workspaces, the communication library's buffers, evaluation.
//! `shortest` below `sequence` draws a length for each step, a multiple of 8, as batches
//! have that are padded to their longest text.

mod run;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::pen::{Pen, Stage};
use run::Run;

/// Parameters: the model, the batch of a rank, and how it is trained.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Decoder layers.
    pub layers: u64,
    /// Width.
    pub hidden: u64,
    /// Heads of the attention.
    pub heads: u64,
    /// Width of the feed-forward part.
    pub inner: u64,
    /// Words.
    pub vocabulary: u64,
    /// Texts a step.
    pub batch: u64,
    /// Tokens of the longest text.
    pub sequence: u64,
    /// Tokens of the shortest longest text of a batch.
    pub shortest: u64,
    /// Rank of LoRA's matrices; 0 trains all weights.
    pub lora: u64,
    /// Whether layers are computed again in the backward pass.
    pub recompute: bool,
    /// Cards that share weights, gradients and optimiser (ZeRO-3); 1 shares nothing.
    pub ranks: u64,
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            labels: ["forward", "backward", "step"].map(str::to_owned).into(),
            ..Stage::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        let sizes = [
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("heads", self.heads),
            ("inner", self.inner),
            ("vocabulary", self.vocabulary),
            ("batch", self.batch),
            ("shortest", self.shortest),
            ("ranks", self.ranks),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(format!("{name} = 0: expected at least 1"));
        }
        if self.shortest > self.sequence {
            return Err("shortest must be at most sequence".into());
        }
        Ok(())
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut lengths = Dice::new("finetune lengths", seed);
        let mut run = Run::new(self, pen);
        run.load();
        while !run.pen.done() {
            let drawn = lengths.between(self.shortest, self.sequence);
            run.tokens = drawn.next_multiple_of(8).min(self.sequence) * self.batch;
            run.step();
        }
    }
}
