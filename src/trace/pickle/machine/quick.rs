//! Dicts that a pickler writes in one go, which a trace has one an entry of: their few
//! opcodes are run in a loop of their own, without a stack.
//!
//! The keys of such a dict, and many of its values, are as a rule those of the dict before,
//! byte by byte, so they are compared and not looked up. Whatever is not of that kind, and whatever may be wrong,
//! is left to the loop of all opcodes: what was read so far moves onto the stack, and
//! nothing has been lost.

use std::io::Read;

use super::super::opcode::*;
use super::super::{Packed, Sink, Store, Value};
use super::{MARK_LIMIT, Machine, Mark, Step};

/// Pairs of a dict; an entry of a trace has at most 11.
const MOST_PAIRS: usize = 16;

/// The pairs of one dict after the other.
pub(super) struct Quick {
    /// Key, value, key, value, ...
    pairs: [Packed; 2 * MOST_PAIRS],
    /// What each pair was read from.
    seen: [Seen; MOST_PAIRS],
    /// Pairs of the dict that the sink got last, if it came from here.
    last: usize,
}

/// The opcodes of a pair of the dict before.
#[derive(Clone, Copy)]
struct Seen {
    /// Gets the key from the memo.
    key: Bytes,
    /// The same with the value behind it, where that is short and no new object.
    pair: Bytes,
}

/// At most eight bytes, low ones first, under a mask.
#[derive(Clone, Copy)]
struct Bytes {
    bytes: u64,
    mask: u64,
    len: usize,
}

impl Bytes {
    /// Equal to no bytes: nothing masked is 1.
    const NONE: Bytes = Bytes {
        bytes: 1,
        mask: 0,
        len: 0,
    };

    /// The first `len` bytes of `ahead`, of which there is at least one.
    #[inline(always)]
    fn first(ahead: u64, len: usize) -> Self {
        let mask = u64::MAX >> (64 - 8 * len);
        Bytes {
            bytes: ahead & mask,
            mask,
            len,
        }
    }

    #[inline(always)]
    fn begin(self, ahead: u64) -> bool {
        ahead & self.mask == self.bytes
    }
}

/// What was read of the pairs of a dict.
struct Count {
    /// Keys and values.
    values: usize,
    /// Whether the keys are, one by one, those of the dict before.
    same: bool,
    /// The pairs whose opcodes are not those of the dict before, as bits.
    changed: u32,
}

impl Quick {
    pub(super) fn new() -> Self {
        let seen = Seen {
            key: Bytes::NONE,
            pair: Bytes::NONE,
        };
        Quick {
            pairs: [Packed::UNSET; 2 * MOST_PAIRS],
            seen: [seen; MOST_PAIRS],
            last: 0,
        }
    }

    /// The memo changed where it had a value, so what was seen may mean something else.
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
        let count = reader.pairs(&mut self.quick);
        let complete = reader.rest.first() == Some(&SETITEMS) && count.values.is_multiple_of(2);
        self.window.at = self.window.bytes.len() - reader.rest.len();
        if complete {
            self.window.at += 1;
            self.quick_fill(&filling, &count)
        } else {
            self.spill(&filling, count.values)
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
    fn quick_fill(&mut self, filling: &Filling, count: &Count) -> Step {
        let pairs = &self.quick.pairs[..count.values];
        let record = if count.same && count.values == self.quick.last {
            self.sink.like_before(pairs, count.changed, &mut self.store)
        } else {
            self.sink.dict(pairs, &mut self.store)
        };
        self.quick.last = count.values;
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
    /// Reads keys and values as long as they are of the usual kinds. Where a pair's opcodes
    /// are those of the dict before, its key and value are too.
    #[inline(always)]
    fn pairs(&mut self, quick: &mut Quick) -> Count {
        let (mut at, mut count) = (
            0,
            Count {
                values: 0,
                same: true,
                changed: 0,
            },
        );
        for pair in 0..MOST_PAIRS {
            let Some(ahead) = self.ahead(at) else {
                break;
            };
            let seen = &mut quick.seen[pair];
            if seen.pair.begin(ahead) {
                at += seen.pair.len;
                count.values += 2;
                continue;
            }
            if ahead as u8 == SETITEMS {
                break;
            }
            if !seen.key.begin(ahead) {
                let Some((key, len)) = self.key(ahead) else {
                    break;
                };
                count.same = false;
                seen.key = Bytes::first(ahead, len);
                quick.pairs[2 * pair] = key;
            }
            count.changed |= 1 << pair;
            let key_len = seen.key.len;
            seen.pair = Bytes::NONE;
            let objects = self.memo.len();
            let Some((value, len)) = self.value(at + key_len) else {
                at += key_len;
                count.values += 1;
                break;
            };
            let len = key_len + len;
            if len <= 8 && self.memo.len() == objects {
                seen.pair = Bytes::first(ahead, len);
            }
            at += len;
            quick.pairs[2 * pair + 1] = value;
            count.values += 2;
        }
        self.rest = &self.rest[at..];
        count
    }

    /// Eight bytes from `at` on: an opcode with the numbers behind it.
    #[inline(always)]
    fn ahead(&self, at: usize) -> Option<u64> {
        let ahead = self.rest.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*ahead))
    }

    /// The key that an opcode gets from the memo, and the opcode's length; none where it is
    /// another one.
    #[inline(never)]
    fn key(&self, ahead: u64) -> Option<(Packed, usize)> {
        match ahead as u8 {
            BINGET => Some((self.get(u32::from((ahead >> 8) as u8))?, 2)),
            LONG_BINGET => Some((self.get((ahead >> 8) as u32)?, 5)),
            _ => None,
        }
    }

    /// The value at `at`, with its memo slot where it gets one, and how many bytes it takes;
    /// nothing is read where it is of another kind.
    #[inline(always)]
    fn value(&mut self, at: usize) -> Option<(Packed, usize)> {
        let ahead = self.ahead(at)?;
        Some(match ahead as u8 {
            BINGET => (self.get(u32::from((ahead >> 8) as u8))?, 2),
            LONG_BINGET => (self.get((ahead >> 8) as u32)?, 5),
            SHORT_BINUNICODE => return self.text(at + 2, usize::from((ahead >> 8) as u8)),
            EMPTY_LIST if (ahead >> 8) as u8 == MEMOIZE => {
                let list = self.store.new_list().ok()?;
                self.memo.push(list);
                (list, 2)
            }
            NONE => (Packed::NONE, 1),
            NEWTRUE => (Packed::bool(true), 1),
            NEWFALSE => (Packed::bool(false), 1),
            _ => {
                let (value, len) = self.integer(at)?;
                let next = self.rest.get(at + len);
                if matches!(next, Some(&(BININT1 | BININT2 | BININT | LONG1))) {
                    return self.pool(at, value, len);
                }
                (value, len)
            }
        })
    }

    /// The integer of at most 8 bytes at `at`, and how long it is.
    #[inline(always)]
    fn integer(&self, at: usize) -> Option<(Packed, usize)> {
        let ahead = self.ahead(at)?;
        Some(match ahead as u8 {
            LONG1 => {
                let len = (ahead >> 8) as u8;
                let bits = 8 * u32::from(len);
                if !(8..=64).contains(&bits) {
                    return None;
                }
                let digits = self.ahead(at + 2)?;
                let value = (digits << (64 - bits)) as i64 >> (64 - bits);
                (Packed::int(value)?, 2 + usize::from(len))
            }
            BININT1 => (Packed::small(i32::from((ahead >> 8) as u8)), 2),
            BININT2 => (Packed::small(i32::from((ahead >> 8) as u16)), 3),
            BININT => (Packed::small((ahead >> 8) as i32), 5),
            _ => return None,
        })
    }

    /// Reads a pair of integers with its memo slot, the name of a pool; its first is `first`
    /// and `len` bytes long.
    #[inline(never)]
    fn pool(&mut self, at: usize, first: Packed, len: usize) -> Option<(Packed, usize)> {
        let (second, second_len) = self.integer(at + len)?;
        let len = len + second_len;
        if !self.rest[at + len..].starts_with(&[TUPLE2, MEMOIZE]) {
            return None;
        }
        let tuple = self.store.new_tuple(&[first, second]).ok()?;
        self.memo.push(tuple);
        Some((tuple, len + 2))
    }

    /// Reads a text of `len` bytes from `at` on, with its memo slot.
    #[inline(always)]
    fn text(&mut self, at: usize, len: usize) -> Option<(Packed, usize)> {
        let (text, behind) = self.rest[at..].split_at_checked(len)?;
        if behind.first() != Some(&MEMOIZE) {
            return None;
        }
        let text = self.store.new_text(self.sink.word(text), text).ok()?;
        self.memo.push(text);
        Some((text, 2 + len + 1))
    }

    #[inline(always)]
    fn get(&self, index: u32) -> Option<Packed> {
        let value = self.memo.get(index as usize).copied();
        value.filter(|value| value.is_set())
    }
}
