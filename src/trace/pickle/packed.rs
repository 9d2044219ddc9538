//! Values packed into 8 bytes, the form in which the machine moves them.

use super::{Record, Text, Value};

/// A value in 8 bytes; [`super::Store::value`] unpacks it.
///
/// Three bits tell the kind, the rest holds the value itself or its place in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed(u64);

const TAG_BITS: u32 = 3;
const UNSET: u64 = 0;
const INT: u64 = 1;
const TEXT: u64 = 2;
const DICT: u64 = 3;
const LIST: u64 = 4;
const TUPLE: u64 = 5;
/// A value without content, or a record; which one, the next bits tell.
const ATOM: u64 = 6;
/// A place in the list of values that do not fit.
const ASIDE: u64 = 7;

const WORD_BITS: u32 = 8;
const TEXT_LEN_BITS: u32 = 13;
const TUPLE_LEN_BITS: u32 = 21;
/// What is left for an offset, of a text as of a tuple.
const START_BITS: u32 = 64 - TAG_BITS - WORD_BITS - TEXT_LEN_BITS;

const ATOM_BITS: u32 = 3;
const NONE: u64 = 0;
const FALSE: u64 = 1;
const TRUE: u64 = 2;
const BYTES: u64 = 3;
const WIDE: u64 = 4;
const RECORD: u64 = 5;

impl Packed {
    /// Fills memo slots that were skipped.
    pub(super) const UNSET: Packed = Packed(UNSET);
    /// Python's `None`.
    pub(super) const NONE: Packed = Packed(NONE << TAG_BITS | ATOM);

    #[inline(always)]
    fn tag(self) -> u64 {
        self.0 & mask(TAG_BITS)
    }

    #[inline(always)]
    pub(super) fn is_set(self) -> bool {
        self.tag() != UNSET
    }

    /// The number of the known text that this is, 0 if it is anything else.
    #[inline(always)]
    pub fn word(self) -> u16 {
        if self.tag() == TEXT {
            (self.0 >> TAG_BITS & mask(WORD_BITS)) as u16
        } else {
            0
        }
    }

    /// The integer that this is, unless it lies aside.
    #[inline(always)]
    pub fn integer(self) -> Option<i64> {
        (self.tag() == INT).then_some(self.0 as i64 >> TAG_BITS)
    }

    /// A number of at most 32 bits.
    #[inline(always)]
    pub(super) fn small(value: i32) -> Self {
        Packed((i64::from(value) << TAG_BITS) as u64 | INT)
    }

    #[inline(always)]
    pub(super) fn int(value: i64) -> Option<Self> {
        let shifted = value << TAG_BITS;
        (shifted >> TAG_BITS == value).then_some(Packed(shifted as u64 | INT))
    }

    #[inline(always)]
    pub(super) fn text(text: Text) -> Option<Self> {
        let fits = u64::from(text.word) <= mask(WORD_BITS)
            && u64::from(text.len) <= mask(TEXT_LEN_BITS)
            && text.start <= mask(START_BITS);
        let rest = text.start << TEXT_LEN_BITS | u64::from(text.len);
        let packed = (rest << WORD_BITS | u64::from(text.word)) << TAG_BITS | TEXT;
        fits.then_some(Packed(packed))
    }

    #[inline(always)]
    pub(super) fn dict(id: u32) -> Self {
        Packed(u64::from(id) << TAG_BITS | DICT)
    }

    #[inline(always)]
    pub(super) fn list(id: u32) -> Self {
        Packed(u64::from(id) << TAG_BITS | LIST)
    }

    #[inline(always)]
    pub(super) fn bool(flag: bool) -> Self {
        Packed::atom(if flag { TRUE } else { FALSE })
    }

    pub(super) fn record(Record { kind, index }: Record) -> Self {
        let rest = u64::from(index) << 8 | u64::from(kind);
        Packed((rest << ATOM_BITS | RECORD) << TAG_BITS | ATOM)
    }

    fn atom(which: u64) -> Self {
        Packed(which << TAG_BITS | ATOM)
    }

    /// Packs any value; what does not fit goes to the end of `aside`.
    pub(super) fn new(value: Value, aside: &mut Vec<Value>) -> Self {
        let packed = match value {
            Value::None => Some(Packed::NONE),
            Value::Bool(flag) => Some(Packed::bool(flag)),
            Value::Bytes => Some(Packed::atom(BYTES)),
            Value::Wide => Some(Packed::atom(WIDE)),
            Value::Record(record) => Some(Packed::record(record)),
            Value::Int(value) => Packed::int(value),
            Value::Text(text) => Packed::text(text),
            Value::Dict(id) => Some(Packed::dict(id)),
            Value::List(id) => Some(Packed::list(id)),
            Value::Tuple { len, start } => {
                let fits = u64::from(len) <= mask(TUPLE_LEN_BITS) && start <= mask(START_BITS);
                let rest = start << TUPLE_LEN_BITS | u64::from(len);
                fits.then_some(Packed(rest << TAG_BITS | TUPLE))
            }
            Value::Large(_) | Value::Float(_) => None,
        };
        packed.unwrap_or_else(|| {
            aside.push(value);
            Packed((aside.len() as u64 - 1) << TAG_BITS | ASIDE)
        })
    }

    /// Unpacks a value that was packed with the same `aside`.
    #[inline(always)]
    pub(super) fn value(self, aside: &[Value]) -> Value {
        let rest = self.0 >> TAG_BITS;
        match self.tag() {
            INT => Value::Int(self.0 as i64 >> TAG_BITS),
            TEXT => Value::Text(Text {
                word: (rest & mask(WORD_BITS)) as u16,
                len: (rest >> WORD_BITS & mask(TEXT_LEN_BITS)) as u32,
                start: rest >> (WORD_BITS + TEXT_LEN_BITS),
            }),
            DICT => Value::Dict(rest as u32),
            LIST => Value::List(rest as u32),
            TUPLE => Value::Tuple {
                len: (rest & mask(TUPLE_LEN_BITS)) as u32,
                start: rest >> TUPLE_LEN_BITS,
            },
            ASIDE => aside[rest as usize],
            _ => atom(rest),
        }
    }
}

fn atom(rest: u64) -> Value {
    match rest & mask(ATOM_BITS) {
        FALSE => Value::Bool(false),
        TRUE => Value::Bool(true),
        BYTES => Value::Bytes,
        WIDE => Value::Wide,
        RECORD => Value::Record(Record {
            kind: (rest >> ATOM_BITS & mask(8)) as u8,
            index: (rest >> (ATOM_BITS + 8)) as u32,
        }),
        _ => Value::None,
    }
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_and_what_does_not_fit_lies_aside() {
        let text = |word, len, start| Value::Text(Text { word, len, start });
        let (kind, index) = (u8::MAX, u32::MAX);
        let fitting = [
            Value::None,
            Value::Bool(true),
            Value::Bool(false),
            Value::Bytes,
            Value::Wide,
            Value::Record(Record { kind, index }),
            Value::Int((1 << 60) - 1),
            Value::Int(-(1 << 60)),
            text(255, 8191, (1 << 40) - 1),
            Value::Dict(u32::MAX),
            Value::List(u32::MAX),
            Value::Tuple {
                len: (1 << 21) - 1,
                start: (1 << 40) - 1,
            },
        ];
        let wide = [
            Value::Int(1 << 60),
            Value::Int(i64::MIN),
            Value::Large(u64::MAX),
            Value::Float(0.5),
            text(256, 1, 2),
            text(1, 8192, 2),
            text(1, 1, 1 << 40),
            Value::Tuple {
                len: 1 << 21,
                start: 0,
            },
            Value::Tuple {
                len: 1,
                start: 1 << 40,
            },
        ];
        let mut aside = Vec::new();
        for value in fitting.into_iter().chain(wide) {
            let packed = Packed::new(value, &mut aside);
            assert!(packed.is_set());
            assert_eq!(packed.value(&aside), value);
        }
        assert_eq!(aside, wide);
        assert_eq!(Packed::new(text(7, 1, 2), &mut aside).word(), 7);
        assert_eq!(Packed::small(7).word(), 0);
        assert!(!Packed::UNSET.is_set());
    }
}
