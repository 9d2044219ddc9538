//! Dicts that a pickler writes in one go, which a trace has one an entry of: their few
//! opcodes are run in a loop of their own, on a small stack of their own.
//!
//! Whatever is not of that kind, and whatever may be wrong, is left to the loop of all
//! opcodes: the small stack moves onto the machine's, and nothing has been lost.

use super::super::opcode::*;
use super::super::{Packed, Sink, Text, Value};
use super::{MARK_LIMIT, Machine, Mark, Step};

/// Keys and values of a dict; an entry of a trace has at most 20.
pub(super) const QUICK_VALUES: usize = 32;
/// The longest opcode with its number: LONG1, a length, 8 digits.
const WINDOW: usize = 10;

impl<S: Sink> Machine<'_, '_, S> {
    /// A new dict, with its memo slot and its pairs where these come at once.
    #[inline(always)]
    pub(super) fn new_dict(&mut self) -> Step {
        let dict = match self.store.new_dict() {
            Ok(dict) => dict,
            Err(problem) => return Err(self.error(problem)),
        };
        self.stack.push(dict);
        if self.bytes.get(self.at) == Some(&MEMOIZE) {
            self.memo.push(dict);
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&MARK) && self.marks.len() < MARK_LIMIT {
            self.quick_pairs(dict)
        } else {
            Ok(())
        }
    }

    /// Fills `dict` with the pairs behind the MARK that comes next.
    #[inline(always)]
    fn quick_pairs(&mut self, dict: Packed) -> Step {
        let offset = self.at;
        self.at += 1;
        let mut count = 0;
        while count < QUICK_VALUES {
            if self.bytes.get(self.at) == Some(&SETITEMS) && count % 2 == 0 {
                self.at += 1;
                return self.quick_fill(dict, offset, count);
            }
            let Some(value) = self.quick_value(&mut count) else {
                break;
            };
            self.pairs[count] = value;
            count += 1;
        }
        let height = self.stack.len();
        self.marks.push(Mark { height, offset });
        self.stack.extend_from_slice(&self.pairs[..count]);
        Ok(())
    }

    #[inline(always)]
    fn quick_fill(&mut self, dict: Packed, offset: usize, count: usize) -> Step {
        let Value::Dict(id) = self.store.value(dict) else {
            unreachable!("it was made as a dict");
        };
        let pairs = &self.pairs[..count];
        match self.sink.dict(pairs, &mut self.store) {
            Some(record) => self.store.set_record(id, record),
            None => self.store.add_pairs(id, offset, pairs)?,
        }
        Ok(())
    }

    /// Runs the next opcode if it makes one value; a tuple takes its two values back from
    /// `count`. Otherwise nothing is read.
    #[inline(always)]
    fn quick_value(&mut self, count: &mut usize) -> Option<Packed> {
        let window = self.bytes.get(self.at..)?.first_chunk::<WINDOW>()?;
        let [opcode, first, second, third, fourth, ..] = *window;
        let (value, bytes) = match opcode {
            BINGET => (self.quick_get(first.into())?, 2),
            LONG_BINGET => {
                let index = u32::from_le_bytes([first, second, third, fourth]);
                (self.quick_get(index as usize)?, 5)
            }
            LONG1 => {
                let [_, _, digits @ ..] = *window;
                let unused = 64_u32.checked_sub(8 * u32::from(first)).filter(|it| *it < 64)?;
                let value = (u64::from_le_bytes(digits) << unused) as i64 >> unused;
                (Packed::int(value)?, 2 + usize::from(first))
            }
            BININT1 => (Packed::small(first.into()), 2),
            BININT2 => (Packed::small(u16::from_le_bytes([first, second]).into()), 3),
            BININT => {
                let value = i32::from_le_bytes([first, second, third, fourth]);
                (Packed::small(value), 5)
            }
            SHORT_BINUNICODE => (self.quick_text(first)?, usize::from(first) + 3),
            NONE => (Packed::NONE, 1),
            NEWTRUE => (Packed::bool(true), 1),
            NEWFALSE => (Packed::bool(false), 1),
            EMPTY_LIST if first == MEMOIZE => {
                let list = self.store.new_list().ok()?;
                self.memo.push(list);
                (list, 2)
            }
            TUPLE2 if *count >= 2 => {
                let tuple = self.store.new_tuple(&self.pairs[*count - 2..*count]).ok()?;
                *count -= 2;
                (tuple, 1)
            }
            MEMOIZE if *count > 0 => {
                *count -= 1;
                let value = self.pairs[*count];
                self.memo.push(value);
                (value, 1)
            }
            _ => return None,
        };
        self.at += bytes;
        Some(value)
    }

    #[inline(always)]
    fn quick_get(&self, index: usize) -> Option<Packed> {
        self.memo
            .get(index)
            .copied()
            .filter(|value| value.is_set())
    }

    /// A text with its memo slot.
    #[inline(always)]
    fn quick_text(&mut self, len: u8) -> Option<Packed> {
        let start = self.at + 2;
        let end = start + usize::from(len);
        if *self.bytes.get(end)? != MEMOIZE {
            return None;
        }
        let word = self.sink.word(&self.bytes[start..end]);
        let (len, start) = (len.into(), start as u64);
        let text = Packed::text(Text { word, len, start })?;
        self.memo.push(text);
        Some(text)
    }
}
