//! A training run, operation by operation.

use super::Spec;
use crate::synth::pen::{Held, Pen};

/// Bytes of a number in half precision.
const HALF: u64 = 2;
/// Bytes of a number in full precision.
const FULL: u64 = 4;
/// A tensor takes a microsecond and a part for its bytes, about 1 TB/s.
const BYTES_A_MICROSECOND: u64 = 1_000_000;

/// One linear layer: inputs and outputs a token.
type Linear = (u64, u64);

/// The linear layers of a decoder layer, in the order of their use.
const QUERY: usize = 0;
const KEY: usize = 1;
const VALUE: usize = 2;
const OUT: usize = 3;
const UP: usize = 4;
const DOWN: usize = 5;

/// A training run that is being written.
pub(super) struct Run<'a, 'b> {
    spec: &'a Spec,
    pub(super) pen: &'a mut Pen<'b>,
    /// Tokens of the present step.
    pub(super) tokens: u64,
    /// What autograd keeps of the present layer, the latest last.
    saved: Vec<Held>,
    /// What it keeps of the layers before it.
    stack: Vec<Vec<Held>>,
    /// Whether it keeps anything at the moment.
    saving: bool,
    /// Weights that were gathered ahead.
    ahead: Option<Held>,
    /// What lives as long as the run.
    kept: Vec<Held>,
    /// Gradients of what is trained, a rank's share.
    gradients: Vec<Held>,
    /// The logits of the last step.
    logits: Option<Held>,
}

impl<'a, 'b> Run<'a, 'b> {
    pub(super) fn new(spec: &'a Spec, pen: &'a mut Pen<'b>) -> Self {
        Run {
            spec,
            pen,
            tokens: 0,
            saved: Vec::new(),
            stack: Vec::new(),
            saving: false,
            ahead: None,
            kept: Vec::new(),
            gradients: Vec::new(),
            logits: None,
        }
    }

    fn ask(&mut self, bytes: u64) -> Held {
        self.pen.wait_ns(1000 + bytes * 1000 / BYTES_A_MICROSECOND);
        self.pen.alloc(bytes.max(1), 0, 0)
    }

    /// A tensor of `width` halves a token.
    fn wide(&mut self, width: u64) -> Held {
        self.ask(self.tokens * width * HALF)
    }

    fn let_go(&mut self, held: Held) {
        self.pen.free(held);
    }

    /// What an operation has read: kept where autograd saves, else gone.
    fn read(&mut self, held: Held) {
        if self.saving {
            self.saved.push(held);
        } else {
            self.let_go(held);
        }
    }

    fn linears(&self) -> [Linear; 6] {
        let (hidden, inner) = (self.spec.hidden, self.spec.inner);
        let square = (hidden, hidden);
        [
            square,
            square,
            square,
            square,
            (hidden, inner),
            (inner, hidden),
        ]
    }

    /// What is there before the first step: weights or their shares, what is trained of
    /// them in full precision, and Adam's two moments.
    pub(super) fn load(&mut self) {
        let ranks = self.spec.ranks;
        let embedding = (self.spec.vocabulary, self.spec.hidden);
        let mut matrices = vec![embedding];
        for _ in 0..self.spec.layers {
            matrices.extend(self.linears());
        }
        let mut trained = 0;
        for (at, (ins, outs)) in matrices.into_iter().enumerate() {
            let share = self.ask((ins * outs).div_ceil(ranks) * HALF);
            self.kept.push(share);
            if at == 0 {
                // The embedding is trained with all weights only.
                trained += if self.spec.lora == 0 { ins * outs } else { 0 };
                continue;
            }
            for size in self.trained((ins, outs)) {
                trained += size;
                if self.spec.lora > 0 {
                    let thin = self.ask(size.div_ceil(ranks) * HALF);
                    self.kept.push(thin);
                }
            }
        }
        for _ in 0..3 {
            let state = self.ask(trained.div_ceil(ranks) * FULL);
            self.kept.push(state);
        }
    }

    pub(super) fn step(&mut self) {
        self.pen.mark(0);
        let mut hidden = self.wide(self.spec.hidden);
        let mut inputs = Vec::new();
        for _ in 0..self.spec.layers {
            self.saving = !self.spec.recompute;
            let next = self.layer();
            let saved = std::mem::take(&mut self.saved);
            self.stack.push(saved);
            inputs.push(std::mem::replace(&mut hidden, next));
        }
        self.pen.mark(1);
        let mut gradient = self.head(hidden);
        for input in inputs.into_iter().rev() {
            if self.spec.recompute {
                self.saving = true;
                let output = self.layer();
                self.let_go(output);
                self.stack.pop();
            } else {
                self.saved = self.stack.pop().expect("a layer before this one");
            }
            gradient = self.layer_backward(gradient);
            self.let_go(input);
        }
        self.let_go(gradient);
        self.pen.mark(2);
        self.optimise();
    }

    /// Weights gathered from all ranks: those that are used now, where they are not there
    /// yet, and ahead those that are used `next`.
    fn gather(&mut self, now: Linear, next: Option<Linear>) -> Option<Held> {
        if self.spec.ranks == 1 {
            return None;
        }
        let bytes = |(ins, outs): Linear| ins * outs * HALF;
        let weights = match self.ahead.take() {
            Some(ready) if ready.bytes == bytes(now) => ready,
            other => {
                if let Some(stale) = other {
                    self.let_go(stale);
                }
                self.ask(bytes(now))
            }
        };
        if let Some(next) = next {
            let ready = self.ask(bytes(next));
            self.ahead = Some(ready);
        }
        Some(weights)
    }

    fn scatter(&mut self, weights: Option<Held>) {
        if let Some(weights) = weights {
            self.let_go(weights);
        }
    }

    /// A linear layer with LoRA's matrices beside it.
    fn linear(&mut self, at: usize) -> Held {
        let shapes = self.linears();
        let (_, outs) = shapes[at];
        let weights = self.gather(shapes[at], Some(shapes[(at + 1) % shapes.len()]));
        let mut result = self.wide(outs);
        if self.spec.lora > 0 {
            let thin = self.wide(self.spec.lora);
            let beside = self.wide(outs);
            self.read(thin);
            let scaled = self.wide(outs);
            self.let_go(beside);
            let sum = self.wide(outs);
            self.let_go(scaled);
            self.let_go(std::mem::replace(&mut result, sum));
        }
        self.scatter(weights);
        result
    }

    /// Dropout and the sum with what goes around: a mask of a byte is kept.
    fn dropped_and_added(&mut self, value: Held) -> Held {
        let hidden = self.spec.hidden;
        let dropped = self.wide(hidden);
        let mask = self.ask(self.tokens * hidden);
        self.let_go(value);
        self.read(mask);
        let sum = self.wide(hidden);
        self.let_go(dropped);
        sum
    }

    /// One decoder layer; its input is the caller's.
    fn layer(&mut self) -> Held {
        let hidden = self.spec.hidden;
        let normed = self.wide(hidden);
        let mut heads = Vec::new();
        for at in [QUERY, KEY, VALUE] {
            let flat = self.linear(at);
            let by_head = self.wide(hidden);
            self.let_go(flat);
            heads.push(by_head);
        }
        self.read(normed);
        let mixed = self.attention(heads);
        let projected = self.linear(OUT);
        self.read(mixed);
        let middle = self.dropped_and_added(projected);
        let normed = self.wide(hidden);
        let widened = self.linear(UP);
        self.read(normed);
        let active = self.wide(self.spec.inner);
        self.let_go(widened);
        let narrowed = self.linear(DOWN);
        self.read(active);
        let result = self.dropped_and_added(narrowed);
        self.read(middle);
        result
    }

    fn attention(&mut self, heads: Vec<Held>) -> Held {
        let length = self.tokens / self.spec.batch;
        let scores = self.tokens * self.spec.heads * length * HALF;
        let raw = self.ask(scores);
        let masked = self.ask(scores);
        self.let_go(raw);
        let full = self.ask(scores / HALF * FULL);
        self.let_go(masked);
        let soft = self.ask(scores);
        self.read(full);
        let context = self.wide(self.spec.hidden);
        for held in heads {
            self.read(held);
        }
        self.read(soft);
        let joined = self.wide(self.spec.hidden);
        self.let_go(context);
        joined
    }

    /// Logits, loss and their gradients; the gradient of the last layer's output.
    fn head(&mut self, output: Held) -> Held {
        let words = self.spec.vocabulary;
        let embedding = (self.spec.hidden, words);
        let weights = self.gather(embedding, None);
        let logits = self.wide(words);
        self.scatter(weights);
        let shifted = self.wide(words);
        let logs = self.wide(words);
        if let Some(before) = self.logits.replace(logits) {
            self.let_go(before);
        }
        self.let_go(shifted);
        let of_shifted = self.wide(words);
        self.let_go(logs);
        let of_logits = self.wide(words);
        self.let_go(of_shifted);
        let weights = self.gather(embedding, None);
        let gradient = self.wide(self.spec.hidden);
        self.let_go(of_logits);
        self.scatter(weights);
        self.let_go(output);
        gradient
    }

    /// A gradient for each tensor that the layer saved, the latest first, and those of
    /// what is trained of its weights, of which a rank keeps its share.
    fn layer_backward(&mut self, mut gradient: Held) -> Held {
        for saved in std::mem::take(&mut self.saved).into_iter().rev() {
            let next = self.ask(saved.bytes);
            self.let_go(std::mem::replace(&mut gradient, next));
            self.let_go(saved);
        }
        let shapes = self.linears();
        let mut whole = Vec::new();
        for at in (0..shapes.len()).rev() {
            let before = shapes[(at + shapes.len() - 1) % shapes.len()];
            let weights = self.gather(shapes[at], Some(before));
            for size in self.trained(shapes[at]) {
                let held = self.ask(size * HALF);
                whole.push(held);
            }
            self.scatter(weights);
        }
        let input = self.wide(self.spec.hidden);
        self.let_go(std::mem::replace(&mut gradient, input));
        for held in whole {
            if self.spec.ranks == 1 {
                self.gradients.push(held);
                continue;
            }
            let share = self.ask(held.bytes.div_ceil(self.spec.ranks));
            self.let_go(held);
            self.gradients.push(share);
        }
        gradient
    }

    /// Numbers of the matrices that are trained at a linear layer.
    fn trained(&self, (ins, outs): Linear) -> Vec<u64> {
        match self.spec.lora {
            0 => vec![ins * outs],
            rank => vec![ins * rank, outs * rank],
        }
    }

    /// Adam's temporaries in full precision for each gradient, which then goes.
    fn optimise(&mut self) {
        for gradient in std::mem::take(&mut self.gradients) {
            let bytes = gradient.bytes / HALF * FULL;
            let (full, root) = (self.ask(bytes), self.ask(bytes));
            for held in [full, root, gradient] {
                self.let_go(held);
            }
        }
    }
}
