//! One training run: loading, steps, and the memory that each of them takes and gives.

use super::Spec;
use super::layer::{MATRICES, Operation, Shape, adapters, operations, weights};
use crate::synth::dice::Dice;
use crate::synth::pen::{Held, Pen};

/// Places in [`super::LABELS`].
const LOAD: u32 = 0;
pub(super) const FORWARD: u32 = 1;
const BACKWARD: u32 = 2;
const OPTIMIZER: u32 = 3;

/// A tensor of weights.
struct Weight {
    held: Held,
    elements: u64,
    trained: bool,
    gradient: Option<Held>,
    /// Empty before the first step of the optimizer.
    state: Vec<Held>,
}

/// Numbers of the tags.
struct Tags {
    weights: u32,
    optimizer: u32,
    batch: u32,
    activations: u32,
    gradients: u32,
    workspace: u32,
}

/// What a layer left for its backward pass.
struct Pass {
    /// By operation; `None` where its output is not kept.
    kept: Vec<Option<Held>>,
}

/// A run.
pub struct Run<'a> {
    spec: &'a Spec,
    operations: Vec<Operation>,
    /// Embedding, positions; then those of each layer; then the last norm.
    weights: Vec<Weight>,
    /// Weights of one layer, adapters too.
    per_layer: usize,
    shapes: Dice,
    tags: Tags,
}

impl<'a> Run<'a> {
    /// Loads the weights.
    pub fn load(spec: &'a Spec, seed: u64, pen: &mut Pen<'_>) -> Self {
        let tags = Tags {
            weights: pen.tag("weights"),
            optimizer: pen.tag("optimizer"),
            batch: pen.tag("batch"),
            activations: pen.tag("activations"),
            gradients: pen.tag("gradients"),
            workspace: pen.tag("workspace"),
        };
        pen.mark(LOAD);
        let base_is_trained = spec.adapter_rank == 0;
        let mut layer: Vec<(u64, bool)> = Vec::new();
        layer.extend(weights(spec).map(|elements| (elements, base_is_trained)));
        if !base_is_trained {
            layer.extend(
                adapters(spec)
                    .as_flattened()
                    .iter()
                    .map(|elements| (*elements, true)),
            );
        }
        let ends =
            [spec.vocabulary, spec.longest(), 2].map(|rows| (rows * spec.hidden, base_is_trained));
        let mut sizes = ends[..2].to_vec();
        for _ in 0..spec.layers {
            sizes.extend(&layer);
        }
        sizes.push(ends[2]);
        let weights = sizes.into_iter().map(|(elements, trained)| Weight {
            held: pen.alloc(elements * spec.element_bytes, 0, tags.weights),
            elements,
            trained,
            gradient: None,
            state: Vec::new(),
        });
        Run {
            spec,
            operations: operations(spec.attention),
            weights: weights.collect(),
            per_layer: layer.len(),
            shapes: Dice::new("training shapes", seed),
            tags,
        }
    }

    /// One step: its micro-batches, then the optimizer.
    pub fn step(&mut self, pen: &mut Pen<'_>) {
        for _ in 0..self.spec.micro_batches {
            let [least, most] = self.spec.batch;
            let [shortest, longest] = self.spec.tokens;
            let batch = self.shapes.between(least, most);
            let tokens = self.shapes.between(shortest, longest);
            let tokens = tokens.next_multiple_of(self.spec.tokens_multiple);
            self.micro_batch(Shape { batch, tokens }, pen);
        }
        self.optimize(pen);
    }

    /// Forward and backward over one batch.
    fn micro_batch(&mut self, shape: Shape, pen: &mut Pen<'_>) {
        let tokens = shape.batch * shape.tokens;
        let hidden_bytes = tokens * self.spec.hidden * self.spec.element_bytes;
        pen.mark(FORWARD);
        // A word's number has 8 bytes.
        let words = pen.alloc(tokens * 8, 0, self.tags.batch);
        let embedded = self.compute(hidden_bytes, self.tags.activations, pen);
        let mut passes: Vec<Pass> = (0..self.spec.layers)
            .map(|_| self.forward(shape, pen))
            .collect();
        let normed = self.compute(hidden_bytes, self.tags.activations, pen);
        let mut gradient = self.loss(tokens, pen);
        let next = self.compute(hidden_bytes, self.tags.gradients, pen);
        pen.free(std::mem::replace(&mut gradient, next));
        self.weight_gradient(self.weights.len() - 1, pen);
        pen.free(normed);
        for layer in (0..self.spec.layers as usize).rev() {
            let pass = passes.pop().expect("one a layer");
            gradient = self.backward(layer, pass, gradient, shape, pen);
        }
        self.weight_gradient(1, pen);
        self.weight_gradient(0, pen);
        for held in [gradient, embedded, words] {
            pen.free(held);
        }
    }

    /// The logits, their loss in four bytes an element, and back: the logits' gradient.
    fn loss(&mut self, tokens: u64, pen: &mut Pen<'_>) -> Held {
        let elements = tokens * self.spec.vocabulary;
        let (narrow_bytes, wide_bytes) = (elements * self.spec.element_bytes, elements * 4);
        let logits = self.compute(narrow_bytes, self.tags.activations, pen);
        let wide = self.compute(wide_bytes, self.tags.activations, pen);
        let loss = self.compute(4, self.tags.activations, pen);
        pen.mark(BACKWARD);
        let gradient = self.compute(wide_bytes, self.tags.gradients, pen);
        pen.free(wide);
        pen.free(loss);
        let narrow = self.compute(narrow_bytes, self.tags.gradients, pen);
        pen.free(gradient);
        pen.free(logits);
        narrow
    }

    /// A layer's forward pass: what it leaves.
    fn forward(&self, shape: Shape, pen: &mut Pen<'_>) -> Pass {
        self.operate(self.operations.len(), !self.spec.recompute, shape, pen)
    }

    /// The first `end` operations of a layer. The layer's own output is always kept, those
    /// that the backward pass needs where `keep` says so; any other goes after the next.
    fn operate(&self, end: usize, keep: bool, shape: Shape, pen: &mut Pen<'_>) -> Pass {
        let mut kept = Vec::with_capacity(self.operations.len());
        let mut passing: Option<Held> = None;
        for (at, operation) in self.operations[..end].iter().enumerate() {
            let bytes = operation.bytes(self.spec, shape);
            let output = self.compute(bytes, self.tags.activations, pen);
            if let Some(input) = passing.take() {
                pen.free(input);
            }
            if at + 1 == self.operations.len() || keep && operation.kept {
                kept.push(Some(output));
            } else {
                kept.push(None);
                passing = Some(output);
            }
        }
        if let Some(input) = passing {
            pen.free(input);
        }
        Pass { kept }
    }

    /// A layer's backward pass: from the gradient of its output to that of its input.
    fn backward(
        &mut self,
        layer: usize,
        mut pass: Pass,
        mut gradient: Held,
        shape: Shape,
        pen: &mut Pen<'_>,
    ) -> Held {
        if self.spec.recompute {
            let output = pass.kept.pop().flatten();
            pass = self.operate(self.operations.len() - 1, true, shape, pen);
            pass.kept.push(output);
        }
        let first_weight = 2 + layer * self.per_layer;
        for at in (0..self.operations.len()).rev() {
            // An operation's input is the output before it; a layer's is as its output.
            let before = at.checked_sub(1).unwrap_or(self.operations.len() - 1);
            let bytes = self.operations[before].bytes(self.spec, shape);
            let next = self.compute(bytes, self.tags.gradients, pen);
            for place in self.operations[at].weights {
                self.weight_gradient(first_weight + place, pen);
                if let Some(pair) = MATRICES.iter().position(|matrix| matrix == place) {
                    self.adapter_gradients(first_weight + weights(self.spec).len() + 2 * pair, pen);
                }
            }
            pen.free(std::mem::replace(&mut gradient, next));
            if let Some(output) = pass.kept[at].take() {
                pen.free(output);
            }
        }
        gradient
    }

    /// The gradients of both factors of an adapter, where there are adapters.
    fn adapter_gradients(&mut self, first: usize, pen: &mut Pen<'_>) {
        if self.spec.adapter_rank > 0 {
            self.weight_gradient(first, pen);
            self.weight_gradient(first + 1, pen);
        }
    }

    /// A gradient of a weight: the first of a step stays, a later one is added to it.
    fn weight_gradient(&mut self, place: usize, pen: &mut Pen<'_>) {
        let weight = &self.weights[place];
        if !weight.trained {
            return;
        }
        let fresh = self.compute(weight.held.bytes, self.tags.gradients, pen);
        match self.weights[place].gradient {
            Some(_) => pen.free(fresh),
            ref mut empty => *empty = Some(fresh),
        }
    }

    /// The optimizer goes over all weights; then their gradients go.
    fn optimize(&mut self, pen: &mut Pen<'_>) {
        pen.mark(OPTIMIZER);
        let spec = self.spec;
        for weight in self.weights.iter_mut().filter(|weight| weight.trained) {
            let bytes = weight.elements * spec.optimizer_element_bytes;
            while (weight.state.len() as u64) < spec.optimizer_tensors {
                weight.state.push(pen.alloc(bytes, 0, self.tags.optimizer));
            }
            let workspace = pen.alloc(bytes, 0, self.tags.workspace);
            pen.wait_ns(spec.operation);
            pen.free(workspace);
        }
        for weight in &mut self.weights {
            if let Some(gradient) = weight.gradient.take() {
                pen.free(gradient);
            }
        }
    }

    /// An operation: its output, and its time.
    fn compute(&self, bytes: u64, tag: u32, pen: &mut Pen<'_>) -> Held {
        let output = pen.alloc(bytes, 0, tag);
        pen.wait_ns(self.spec.operation);
        output
    }
}
