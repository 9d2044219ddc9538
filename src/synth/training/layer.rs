//! The shape of a transformer layer: its weights, and what each operation leaves.

use super::{Attention, Spec};

/// How many tokens an operation sees.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Sequences.
    pub batch: u64,
    /// Tokens of each.
    pub tokens: u64,
}

/// How large the output of an operation is.
#[derive(Debug, Clone, Copy)]
enum Size {
    /// So many times (tokens x hidden).
    Hidden(u64),
    /// A score for every pair of tokens, for each head.
    Scores,
    /// The same in one byte each.
    Mask,
    /// A number of four bytes for every token and head.
    Rows,
}

/// One operation of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    size: Size,
    /// Whether the backward pass needs its output; else it goes after the next operation.
    pub kept: bool,
    /// The weights it uses, by their places in [`weights`].
    pub weights: &'static [usize],
}

const fn operation(size: Size, kept: bool, weights: &'static [usize]) -> Operation {
    Operation {
        size,
        kept,
        weights,
    }
}

/// Layer norm, then queries, keys and values in one.
const BEGIN: [Operation; 2] = [
    operation(Size::Hidden(1), true, &[0]),
    operation(Size::Hidden(3), true, &[1, 2]),
];
/// Scores, their softmax, the dropout's mask and its output.
const EAGER: [Operation; 4] = [
    operation(Size::Scores, false, &[]),
    operation(Size::Scores, true, &[]),
    operation(Size::Mask, true, &[]),
    operation(Size::Scores, true, &[]),
];
/// A sum for each row.
const TILED: [Operation; 1] = [operation(Size::Rows, true, &[])];
/// Values by scores; projection; first residual; layer norm; up, its activation, down;
/// second residual.
const END: [Operation; 8] = [
    operation(Size::Hidden(1), true, &[]),
    operation(Size::Hidden(1), false, &[3, 4]),
    operation(Size::Hidden(1), true, &[]),
    operation(Size::Hidden(1), true, &[5]),
    operation(Size::Hidden(4), true, &[6, 7]),
    operation(Size::Hidden(4), true, &[]),
    operation(Size::Hidden(1), false, &[8, 9]),
    operation(Size::Hidden(1), true, &[]),
];

/// The operations of a layer in the order of the forward pass. The last is its output.
pub fn operations(attention: Attention) -> Vec<Operation> {
    let middle: &[Operation] = match attention {
        Attention::Eager => &EAGER,
        Attention::Tiled => &TILED,
    };
    [&BEGIN, middle, &END].concat()
}

impl Operation {
    /// Bytes of its output.
    pub fn bytes(&self, spec: &Spec, shape: Shape) -> u64 {
        let Shape { batch, tokens } = shape;
        let rows = batch * spec.heads * tokens;
        match self.size {
            Size::Hidden(times) => times * batch * tokens * spec.hidden * spec.element_bytes,
            Size::Scores => rows * tokens * spec.element_bytes,
            Size::Mask => rows * tokens,
            Size::Rows => rows * 4,
        }
    }
}

/// Elements of each weight of a layer: norm, queries with keys and values, its bias,
/// projection, its bias, norm, up, its bias, down, its bias.
pub fn weights(spec: &Spec) -> [u64; 10] {
    let h = spec.hidden;
    [
        2 * h,
        3 * h * h,
        3 * h,
        h * h,
        h,
        2 * h,
        4 * h * h,
        4 * h,
        4 * h * h,
        h,
    ]
}

/// Elements of the two factors of each adapter: one pair for each matrix above.
pub fn adapters(spec: &Spec) -> [[u64; 2]; 4] {
    let (h, rank) = (spec.hidden, spec.adapter_rank);
    [[h, 3 * h], [h, h], [h, 4 * h], [4 * h, h]].map(|sides| sides.map(|side| side * rank))
}

/// The places of the matrices in [`weights`], in the order of [`adapters`].
pub const MATRICES: [usize; 4] = [1, 3, 6, 8];
