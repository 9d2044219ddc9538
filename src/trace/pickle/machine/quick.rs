//! Dicts that a pickler writes in one go, which a trace has one an entry of: their few
//! opcodes are run in a loop of their own, without a stack.
//!
//! The keys of such a dict are as a rule those of the dict before, byte by byte, so they
//! are compared and not looked up. Whatever is not of that kind, and whatever may be wrong,
//! is left to the loop of all opcodes: what was read so far moves onto the stack, and
//! nothing has been lost.

use std::io::Read;

use super::super::opcode::*;
use super::super::{Packed, Sink, Store, Value};
use super::{MARK_LIMIT, Machine, Mark, Step};

/// Pairs of a dict; an entry of a trace has at most 11.
const MOST_PAIRS: usize = 16;
/// The longest opcode with its number: LONG1, a length, 8 digits.
const WINDOW: usize = 10;

/// The pairs of one dict after the other.
pub(super) struct Quick {
    /// Key, value, key, value, ...
    pairs: [Packed; 2 * MOST_PAIRS],
    /// The opcode that each key came from.
    keys: [Key; MOST_PAIRS],
    /// Pairs of the dict that the sink got last, if it came from here.
    last: usize,
}

/// An opcode that gets a key from the memo: its bytes, low ones first, under a mask.
#[derive(Clone, Copy)]
struct Key {
    bytes: u64,
    mask: u64,
    len: usize,
}

impl Quick {
    pub(super) fn new() -> Self {
        // Nothing masked is 1, so this is equal to no opcode.
        let none = Key {
            bytes: 1,
            mask: 0,
            len: 0,
        };
        Quick {
            pairs: [Packed::UNSET; 2 * MOST_PAIRS],
            keys: [none; MOST_PAIRS],
            last: 0,
        }
    }

    /// The memo changed where it had a value, so the known keys may be others.
    pub(super) fn forget(&mut self) {
        *self = Quick::new();
    }

    /// The sink got a dict from elsewhere.
    pub(super) fn interrupted(&mut self) {
        self.last = 0;
    }
}

/// A dict that is being filled: nothing refers to it but its memo slot.
struct Filling {
    /// Where its MARK is.
    offset: u64,
    memo_slot: Option<usize>,
}

impl<R: Read, S: Sink> Machine<'_, R, S> {
    /// A new dict, with its memo slot and its pairs where these come at once.
    #[inline(always)]
    pub(super) fn new_dict(&mut self) -> Step {
        let has_room = self.marks.len() < MARK_LIMIT;
        let memo_slot = match self.window.bytes[self.window.at..] {
            [MEMOIZE, MARK, ..] if has_room => {
                self.memo.push(Packed::UNSET);
                self.window.at += 1;
                Some(self.memo.len() - 1)
            }
            [MARK, ..] if has_room => None,
            _ => {
                let dict = self.store.new_dict();
                return self.push_new(dict);
            }
        };
        let filling = Filling {
            offset: self.window.offset(),
            memo_slot,
        };
        self.window.at += 1;
        let mut reader = Reader {
            rest: &self.window.bytes[self.window.at..],
            memo: &mut self.memo,
            store: &mut self.store,
            sink: self.sink,
        };
        let (count, same) = reader.pairs(&mut self.quick);
        let complete = reader.rest.first() == Some(&SETITEMS) && count.is_multiple_of(2);
        self.window.at = self.window.bytes.len() - reader.rest.len();
        if complete {
            self.window.at += 1;
            self.quick_fill(&filling, count, same)
        } else {
            self.spill(&filling, count)
        }
    }

    /// Goes on with the stack, on which the first `count` keys and values lie then.
    #[inline(never)]
    fn spill(&mut self, filling: &Filling, count: usize) -> Step {
        self.quick.interrupted();
        let dict = self.store.new_dict();
        let dict = dict.map_err(|problem| self.error(problem))?;
        self.finished(dict, filling);
        self.marks.push(Mark {
            height: self.stack.len(),
            offset: filling.offset,
        });
        self.stack.extend_from_slice(&self.quick.pairs[..count]);
        Ok(())
    }

    /// The dict is complete. One that the sink takes is its record from the start.
    #[inline(always)]
    fn quick_fill(&mut self, filling: &Filling, count: usize, same: bool) -> Step {
        let pairs = &self.quick.pairs[..count];
        let record = if same && count == self.quick.last {
            self.sink.like_before(pairs, &mut self.store)
        } else {
            self.sink.dict(pairs, &mut self.store)
        };
        self.quick.last = count;
        let dict = match record {
            Some(record) => Packed::record(record),
            None => {
                let dict = self.store.new_dict();
                let dict = dict.map_err(|problem| self.error(problem))?;
                if let Value::Dict(id) = self.store.value(dict) {
                    self.store.add_pairs(id, filling.offset, pairs)?;
                }
                dict
            }
        };
        self.finished(dict, filling);
        Ok(())
    }

    /// Puts a dict where it belongs: onto the stack, and into its memo slot if it has one.
    #[inline(always)]
    fn finished(&mut self, dict: Packed, filling: &Filling) {
        if let Some(slot) = filling.memo_slot {
            self.memo[slot] = dict;
        }
        self.stack.push(dict);
    }
}

/// What reading the pairs of a dict needs of the machine.
struct Reader<'m, S> {
    rest: &'m [u8],
    memo: &'m mut Vec<Packed>,
    store: &'m mut Store,
    sink: &'m mut S,
}

impl<S: Sink> Reader<'_, S> {
    /// Reads keys and values as long as they are of the usual kinds. Tells how many there
    /// are, and whether all keys are those of the dict before.
    #[inline(always)]
    fn pairs(&mut self, quick: &mut Quick) -> (usize, bool) {
        let (mut count, mut same) = (0, true);
        for pair in 0..MOST_PAIRS {
            if !self.key(quick, pair, &mut same) {
                break;
            }
            let Some(value) = self.value() else {
                return (count + 1, same);
            };
            quick.pairs[2 * pair + 1] = value;
            count += 2;
        }
        (count, same)
    }

    /// The next opcode with the numbers behind it: its first 8 bytes, and those from the third on.
    #[inline(always)]
    fn ahead(&self) -> Option<(u64, u64)> {
        let ahead = self.rest.first_chunk::<WINDOW>()?;
        let low = u64::from_le_bytes(*ahead.first_chunk()?);
        Some((low, u64::from_le_bytes(*ahead.last_chunk()?)))
    }

    /// Reads the key of a pair; nothing is read where it is none from the memo.
    #[inline(always)]
    fn key(&mut self, quick: &mut Quick, pair: usize, same: &mut bool) -> bool {
        let Some((opcode, _)) = self.ahead() else {
            return false;
        };
        let Key { bytes, mask, len } = quick.keys[pair];
        if opcode & mask == bytes {
            self.rest = &self.rest[len..];
            return true;
        }
        let (index, len) = match opcode as u8 {
            BINGET => (u32::from((opcode >> 8) as u8), 2),
            LONG_BINGET => ((opcode >> 8) as u32, 5),
            _ => return false,
        };
        let Some(key) = self.get(index) else {
            return false;
        };
        *same = false;
        let mask = u64::MAX >> (64 - 8 * len);
        quick.keys[pair] = Key {
            bytes: opcode & mask,
            mask,
            len,
        };
        quick.pairs[2 * pair] = key;
        self.rest = &self.rest[len..];
        true
    }

    /// Reads a value, with its memo slot where it gets one; nothing is read where it is of
    /// another kind.
    #[inline(always)]
    fn value(&mut self) -> Option<Packed> {
        let (opcode, _) = self.ahead()?;
        let (value, len) = match opcode as u8 {
            BINGET => (self.get(u32::from((opcode >> 8) as u8))?, 2),
            LONG_BINGET => (self.get((opcode >> 8) as u32)?, 5),
            SHORT_BINUNICODE => return self.text(usize::from((opcode >> 8) as u8)),
            EMPTY_LIST if (opcode >> 8) as u8 == MEMOIZE => {
                let list = self.store.new_list().ok()?;
                self.memo.push(list);
                (list, 2)
            }
            NONE => (Packed::NONE, 1),
            NEWTRUE => (Packed::bool(true), 1),
            NEWFALSE => (Packed::bool(false), 1),
            _ => {
                let (value, len) = self.integer()?;
                let next = self.rest.get(len);
                if matches!(next, Some(&(BININT1 | BININT2 | BININT | LONG1))) {
                    return self.pool(value, len);
                }
                (value, len)
            }
        };
        self.rest = &self.rest[len..];
        Some(value)
    }

    /// The integer of at most 8 bytes that comes next, and how long it is.
    #[inline(always)]
    fn integer(&self) -> Option<(Packed, usize)> {
        let (opcode, digits) = self.ahead()?;
        Some(match opcode as u8 {
            LONG1 => {
                let len = (opcode >> 8) as u8;
                let bits = 8 * u32::from(len);
                if !(8..=64).contains(&bits) {
                    return None;
                }
                let value = (digits << (64 - bits)) as i64 >> (64 - bits);
                (Packed::int(value)?, 2 + usize::from(len))
            }
            BININT1 => (Packed::small(i32::from((opcode >> 8) as u8)), 2),
            BININT2 => (Packed::small(i32::from((opcode >> 8) as u16)), 3),
            BININT => (Packed::small((opcode >> 8) as i32), 5),
            _ => return None,
        })
    }

    /// Reads a pair of integers with its memo slot, the name of a pool; its first is `first`
    /// and `len` bytes long.
    #[inline(never)]
    fn pool(&mut self, first: Packed, len: usize) -> Option<Packed> {
        let before = self.rest;
        self.rest = &before[len..];
        let second = self.integer();
        let behind = second.map(|(value, len)| (value, &self.rest[len..]));
        self.rest = before;
        let (second, behind) = behind?;
        let behind = behind.strip_prefix(&[TUPLE2, MEMOIZE])?;
        let tuple = self.store.new_tuple(&[first, second]).ok()?;
        self.memo.push(tuple);
        self.rest = behind;
        Some(tuple)
    }

    /// Reads a text with its memo slot.
    #[inline(always)]
    fn text(&mut self, len: usize) -> Option<Packed> {
        let (text, behind) = self.rest[2..].split_at_checked(len)?;
        let behind = behind.strip_prefix(&[MEMOIZE])?;
        let text = self.store.new_text(self.sink.word(text), text).ok()?;
        self.memo.push(text);
        self.rest = behind;
        Some(text)
    }

    #[inline(always)]
    fn get(&self, index: u32) -> Option<Packed> {
        let value = self.memo.get(index as usize).copied();
        value.filter(|value| value.is_set())
    }
}
