//! Texts, frames, call stacks and pools that many entries share, each kept once and named by a number.

use std::collections::HashMap;
use std::num::NonZeroU32;

macro_rules! id {
    ($(#[$doc:meta] $name:ident)*) => {$(
        #[$doc]
        ///
        /// Four bytes, also as an `Option`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            fn new(index: usize) -> Self {
                let number = u32::try_from(index + 1).expect("fewer than 2^32 of anything");
                $name(NonZeroU32::new(number).expect("one was added"))
            }

            /// The place in its table, from 0.
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

id! {
    /// Names a text.
    TextId
    /// Names a frame.
    FrameId
    /// Names a call stack.
    StackId
    /// Names a private pool.
    PoolId
}

/// A line of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function's name.
    pub name: TextId,
    /// The source file.
    pub filename: TextId,
    /// The line, 0 if unknown.
    pub line: u32,
}

/// What is shared, each thing once, in the order of its first appearance.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    texts: Vec<Box<str>>,
    frames: Vec<Frame>,
    stacks: Vec<Box<[FrameId]>>,
    pools: Vec<(u64, u64)>,
    text_ids: HashMap<Box<str>, TextId>,
    frame_ids: HashMap<Frame, FrameId>,
    stack_ids: HashMap<Box<[FrameId]>, StackId>,
    pool_ids: HashMap<(u64, u64), PoolId>,
}

impl PartialEq for Tables {
    fn eq(&self, other: &Self) -> bool {
        (&self.texts, &self.frames, &self.stacks, &self.pools)
            == (&other.texts, &other.frames, &other.stacks, &other.pools)
    }
}

impl Tables {
    /// The text of that name.
    ///
    /// # Panics
    /// All four look-ups panic on a name of another table.
    pub fn text(&self, id: TextId) -> &str {
        &self.texts[id.index()]
    }

    /// The frame of that name.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.index()]
    }

    /// The call stack of that name, innermost frame first.
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        &self.stacks[id.index()]
    }

    /// The pool of that name, as PyTorch's pair of numbers.
    pub fn pool(&self, id: PoolId) -> (u64, u64) {
        self.pools[id.index()]
    }

    /// How many call stacks there are.
    pub fn stack_count(&self) -> usize {
        self.stacks.len()
    }

    /// How many frames there are.
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Names a text, a new one if it is not there yet.
    pub fn add_text(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.text_ids.get(text) {
            return id;
        }
        let id = TextId::new(self.texts.len());
        self.texts.push(text.into());
        self.text_ids.insert(text.into(), id);
        id
    }

    /// Names a frame, a new one if it is not there yet.
    pub fn add_frame(&mut self, frame: Frame) -> FrameId {
        *self.frame_ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            FrameId::new(self.frames.len() - 1)
        })
    }

    /// Names a call stack, a new one if it is not there yet.
    pub fn add_stack(&mut self, frames: &[FrameId]) -> StackId {
        if let Some(&id) = self.stack_ids.get(frames) {
            return id;
        }
        let id = StackId::new(self.stacks.len());
        self.stacks.push(frames.into());
        self.stack_ids.insert(frames.into(), id);
        id
    }

    /// Names a pool, a new one if it is not there yet.
    pub fn add_pool(&mut self, pool: (u64, u64)) -> PoolId {
        *self.pool_ids.entry(pool).or_insert_with(|| {
            self.pools.push(pool);
            PoolId::new(self.pools.len() - 1)
        })
    }

    /// The id that [`StackId::index`] gave, back again.
    pub(super) fn stack_id(index: u32) -> StackId {
        StackId::new(index as usize)
    }

    /// The frame id of that place.
    pub(super) fn frame_id(index: u32) -> FrameId {
        FrameId::new(index as usize)
    }
}
