//! The stack machine: one opcode after the other, no recursion.

use super::opcode::*;
use super::value::handle;
use super::{Document, Packed, PickleError, Problem, Sink, Store, Text, Value, text};

mod container;
mod input;
mod quick;

/// Containers that may be open inside each other. A snapshot needs seven.
const MARK_LIMIT: usize = 4096;

/// A MARK: how high the stack was, and where in the file.
#[derive(Clone, Copy)]
struct Mark {
    height: usize,
    offset: usize,
}

pub(super) struct Machine<'a, 's, S> {
    bytes: &'a [u8],
    /// The next byte to read.
    at: usize,
    /// Where the opcode at work began.
    opcode_at: usize,
    stack: Vec<Packed>,
    marks: Vec<Mark>,
    memo: Vec<Packed>,
    /// The stack of a dict that is filled in one go.
    pairs: [Packed; quick::QUICK_VALUES],
    store: Store<'a>,
    sink: &'s mut S,
}

type Step = Result<(), PickleError>;

impl<'a, 's, S: Sink> Machine<'a, 's, S> {
    pub(super) fn new(bytes: &'a [u8], sink: &'s mut S) -> Self {
        Machine {
            bytes,
            at: 0,
            opcode_at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            pairs: [Packed::UNSET; quick::QUICK_VALUES],
            store: Store::new(bytes),
            sink,
        }
    }

    pub(super) fn run(mut self) -> Result<Document<'a>, PickleError> {
        loop {
            self.opcode_at = self.at;
            let opcode = self.byte()?;
            if opcode == STOP {
                let root = self.pop()?;
                let root = self.store.value(root);
                return Ok(Document {
                    trailing_bytes: (self.bytes.len() - self.at) as u64,
                    store: self.store,
                    root,
                });
            }
            self.step(opcode)?;
        }
    }

    #[inline(always)]
    fn step(&mut self, opcode: u8) -> Step {
        match opcode {
            LONG_BINGET => {
                let index = u32::from_le_bytes(self.fixed()?);
                self.get(index.into())
            }
            BINGET => {
                let index = self.byte()?;
                self.get(index.into())
            }
            MEMOIZE => self.put(self.memo.len() as u64),
            LONG1 => {
                let len = self.byte()?;
                self.long(len.into())
            }
            BININT1 => {
                let value = self.byte()?;
                self.push(Packed::small(value.into()))
            }
            BININT2 => {
                let value = u16::from_le_bytes(self.fixed()?);
                self.push(Packed::small(value.into()))
            }
            BININT => {
                let value = i32::from_le_bytes(self.fixed()?);
                self.push(Packed::small(value))
            }
            MARK => self.mark(),
            EMPTY_DICT => self.new_dict(),
            SETITEMS => self.set_items(),
            SHORT_BINUNICODE => {
                let len = self.byte()?;
                self.text(len.into())
            }
            EMPTY_LIST => {
                let list = self.store.new_list();
                self.push_new(list)
            }
            APPENDS => self.appends(),
            APPEND => self.append(),
            TUPLE2 => self.tuple(2),
            NONE => self.push_value(Value::None),
            NEWTRUE => self.push(Packed::bool(true)),
            NEWFALSE => self.push(Packed::bool(false)),
            _ => self.rare_step(opcode),
        }
    }

    /// The opcodes that are few in any snapshot, kept out of the hot loop.
    #[inline(never)]
    fn rare_step(&mut self, opcode: u8) -> Step {
        match opcode {
            PROTO => self.protocol(),
            FRAME => self.frame(),
            BINFLOAT => {
                let value = f64::from_be_bytes(self.fixed()?);
                self.push_value(Value::Float(value))
            }
            LONG4 => {
                let len = u32::from_le_bytes(self.fixed()?);
                self.long(len.into())
            }
            BINUNICODE | BINSTRING => {
                let len = u32::from_le_bytes(self.fixed()?);
                self.text(len.into())
            }
            SHORT_BINSTRING => {
                let len = self.byte()?;
                self.text(len.into())
            }
            BINUNICODE8 => {
                let len = u64::from_le_bytes(self.fixed()?);
                self.text(len)
            }
            SHORT_BINBYTES => {
                let len = self.byte()?;
                self.skip_bytes(len.into())
            }
            BINBYTES => {
                let len = u32::from_le_bytes(self.fixed()?);
                self.skip_bytes(len.into())
            }
            BINBYTES8 => {
                let len = u64::from_le_bytes(self.fixed()?);
                self.skip_bytes(len)
            }
            EMPTY_TUPLE => self.tuple(0),
            TUPLE1 => self.tuple(1),
            TUPLE3 => self.tuple(3),
            TUPLE => self.marked_tuple(),
            LIST => self.marked_list(),
            DICT => self.marked_dict(),
            SETITEM => self.set_item(),
            BINPUT => {
                let index = self.byte()?;
                self.put(index.into())
            }
            LONG_BINPUT => {
                let index = u32::from_le_bytes(self.fixed()?);
                self.put(index.into())
            }
            INT | LONG | FLOAT | UNICODE | PUT | GET => self.text_step(opcode),
            _ => self.reject(opcode),
        }
    }

    /// An opcode of the text protocols: its argument is a line.
    fn text_step(&mut self, opcode: u8) -> Step {
        let start = self.at;
        let line = self.line()?;
        match opcode {
            PUT | GET => {
                let index = text::memo_index(line).map_err(|problem| self.error(problem))?;
                if opcode == PUT {
                    self.put(index)
                } else {
                    self.get(index)
                }
            }
            UNICODE => {
                text::check_plain(line).map_err(|problem| self.error(problem))?;
                self.push_text(start, line.len())
            }
            _ => {
                let value = text::number(opcode, line).map_err(|problem| self.error(problem))?;
                self.push_value(value)
            }
        }
    }

    #[cold]
    fn reject(&self, byte: u8) -> Step {
        Err(self.error(match refused(byte) {
            Some(opcode) => Problem::Refused { opcode },
            None => Problem::Unsupported { byte },
        }))
    }

    #[cold]
    fn error(&self, problem: Problem) -> PickleError {
        PickleError {
            offset: self.opcode_at as u64,
            problem,
        }
    }

    #[cold]
    fn truncated(&self, needed: u64) -> PickleError {
        self.error(Problem::Truncated {
            needed,
            left: (self.bytes.len() - self.at) as u64,
        })
    }

    // --- values ---

    #[inline(always)]
    fn push(&mut self, value: Packed) -> Step {
        self.stack.push(value);
        Ok(())
    }

    fn push_value(&mut self, value: Value) -> Step {
        let packed = self.store.pack(value);
        self.push(packed)
    }

    #[inline(always)]
    fn push_new(&mut self, value: Result<Packed, Problem>) -> Step {
        match value {
            Ok(value) => self.push(value),
            Err(problem) => Err(self.error(problem)),
        }
    }

    /// The lowest stack place that opcodes may touch: the last mark.
    #[inline(always)]
    fn floor(&self) -> usize {
        self.marks.last().map_or(0, |mark| mark.height)
    }

    fn pop(&mut self) -> Result<Packed, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.error(Problem::StackUnderflow));
        }
        Ok(self.stack.pop().expect("the stack stands above its floor"))
    }

    /// A little-endian two's complement integer of `len` bytes.
    #[inline(always)]
    fn long(&mut self, len: u64) -> Step {
        let digits = self.take(len)?;
        match *digits {
            // Six and seven bytes are nearly all addresses and times, so they are read without a loop.
            [a, b, c, d, e, f] => self.int(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), 16),
            [a, b, c, d, e, f, g] => self.int(u64::from_le_bytes([a, b, c, d, e, f, g, 0]), 8),
            _ => self.push_value(text::long(digits)),
        }
    }

    /// Extends the sign of an integer whose digits leave `unused` bits at the top.
    #[inline(always)]
    fn int(&mut self, digits: u64, unused: u32) -> Step {
        let value = (digits << unused) as i64 >> unused;
        match Packed::int(value) {
            Some(packed) => self.push(packed),
            None => self.push_value(Value::Int(value)),
        }
    }

    #[inline(always)]
    fn text(&mut self, len: u64) -> Step {
        let start = self.at;
        let len = self.take(len)?.len();
        self.push_text(start, len)
    }

    #[inline(always)]
    fn push_text(&mut self, start: usize, len: usize) -> Step {
        let word = self.sink.word(&self.bytes[start..start + len]);
        let start = start as u64;
        let len = match handle(len, "bytes in a text") {
            Ok(len) => len,
            Err(problem) => return Err(self.error(problem)),
        };
        let text = Text { word, len, start };
        match Packed::text(text) {
            Some(packed) => self.push(packed),
            None => self.push_value(Value::Text(text)),
        }
    }

    fn skip_bytes(&mut self, len: u64) -> Step {
        self.take(len)?;
        self.push_value(Value::Bytes)
    }

    // --- the memo ---

    #[inline(always)]
    fn get(&mut self, index: u64) -> Step {
        match self.memo.get(index as usize) {
            Some(&value) if value.is_set() => self.push(value),
            _ => Err(self.error(Problem::MemoUnset { index })),
        }
    }

    /// Picklers number their slots one by one, and each takes two bytes at least: a higher number
    /// would only make the memo large.
    #[inline(always)]
    fn put(&mut self, index: u64) -> Step {
        if self.stack.len() <= self.floor() {
            return Err(self.error(Problem::StackUnderflow));
        }
        let value = self.stack[self.stack.len() - 1];
        if index == self.memo.len() as u64 {
            self.memo.push(value);
            return Ok(());
        }
        if index > self.opcode_at as u64 / 2 + 1 {
            return Err(self.error(Problem::MemoIndex { index }));
        }
        let index = index as usize;
        if index >= self.memo.len() {
            self.memo.resize(index + 1, Packed::UNSET);
        }
        self.memo[index] = value;
        Ok(())
    }
}
