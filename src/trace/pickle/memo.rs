//! The memo: values that the pickle refers to again. A trace fills two slots an event, so a slot is 8 bytes.

use super::{Text, Value};

const UNSET: u64 = 0;
const TEXT: u64 = 1;
const DICT: u64 = 2;
const LIST: u64 = 3;
const ASIDE: u64 = 4;

const TAG_BITS: u32 = 3;
const WORD_BITS: u32 = 8;
const LEN_BITS: u32 = 13;
const START_BITS: u32 = 64 - TAG_BITS - WORD_BITS - LEN_BITS;

/// Memo slots by number. What does not fit a slot is kept aside.
#[derive(Debug, Default)]
pub(super) struct Memo {
    slots: Vec<u64>,
    aside: Vec<Value>,
}

impl Memo {
    /// The number that MEMOIZE gives next.
    pub(super) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline(always)]
    pub(super) fn get(&self, index: u64) -> Option<Value> {
        let slot = *self.slots.get(usize::try_from(index).ok()?)?;
        let rest = slot >> TAG_BITS;
        match slot & ((1 << TAG_BITS) - 1) {
            TEXT => Some(Value::Text(Text {
                word: (rest & ((1 << WORD_BITS) - 1)) as u16,
                len: (rest >> WORD_BITS & ((1 << LEN_BITS) - 1)) as u32,
                start: rest >> (WORD_BITS + LEN_BITS),
            })),
            DICT => Some(Value::Dict(rest as u32)),
            LIST => Some(Value::List(rest as u32)),
            ASIDE => Some(self.aside[rest as usize]),
            _ => None,
        }
    }

    /// Fills a slot; slots below it that are not filled yet stay unset.
    #[inline(always)]
    pub(super) fn put(&mut self, index: u64, value: Value) {
        let slot = match value {
            Value::Dict(id) => u64::from(id) << TAG_BITS | DICT,
            Value::List(id) => u64::from(id) << TAG_BITS | LIST,
            Value::Text(text) if fits(text) => {
                let rest = text.start << LEN_BITS | u64::from(text.len);
                (rest << WORD_BITS | u64::from(text.word)) << TAG_BITS | TEXT
            }
            other => {
                self.aside.push(other);
                (self.aside.len() as u64 - 1) << TAG_BITS | ASIDE
            }
        };
        let index = index as usize;
        if index == self.slots.len() {
            self.slots.push(slot);
            return;
        }
        if index > self.slots.len() {
            self.slots.resize(index + 1, UNSET);
        }
        self.slots[index] = slot;
    }
}

fn fits(text: Text) -> bool {
    u32::from(text.word) < 1 << WORD_BITS
        && text.len < 1 << LEN_BITS
        && text.start < 1 << START_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_give_back_what_was_put() {
        let mut memo = Memo::default();
        let text = |word, len, start| Value::Text(Text { word, len, start });
        let values = [
            text(255, 8191, (1 << 40) - 1),
            text(256, 1, 2),
            text(1, 8192, 2),
            text(1, 1, 1 << 40),
            Value::Dict(u32::MAX),
            Value::List(u32::MAX),
            Value::Tuple { len: 2, start: 7 },
            Value::None,
        ];
        for (index, &value) in values.iter().enumerate() {
            memo.put(index as u64 + 3, value);
        }
        assert_eq!(memo.get(2), None);
        assert_eq!(memo.get(u64::MAX), None);
        for (index, &value) in values.iter().enumerate() {
            assert_eq!(memo.get(index as u64 + 3), Some(value));
        }
    }
}
