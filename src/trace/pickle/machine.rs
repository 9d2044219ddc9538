//! The stack machine: one opcode after the other, no recursion.

use std::io::Read;
use std::ops::Range;

use super::opcode::*;
use super::{Document, Packed, PickleError, Problem, Sink, Store, Value, text};

mod container;
mod input;
mod quick;

use input::Window;
use quick::Quick;

/// Containers that may be open inside each other. A snapshot needs seven.
const MARK_LIMIT: usize = 4096;

/// A MARK: how high the stack was, and where in the file.
#[derive(Clone, Copy)]
struct Mark {
    height: usize,
    offset: u64,
}

pub(super) struct Machine<'s, R, S> {
    window: Window<R>,
    /// Where the opcode at work began.
    opcode_at: u64,
    stack: Vec<Packed>,
    marks: Vec<Mark>,
    memo: Vec<Packed>,
    quick: Quick,
    store: Store,
    sink: &'s mut S,
}

type Step = Result<(), PickleError>;

impl<'s, R: Read, S: Sink> Machine<'s, R, S> {
    pub(super) fn new(input: R, sink: &'s mut S) -> Self {
        Machine {
            window: Window::new(input),
            opcode_at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            quick: Quick::new(),
            store: Store::default(),
            sink,
        }
    }

    pub(super) fn run(mut self) -> Result<Document, PickleError> {
        loop {
            self.opcode_at = self.window.offset();
            self.window.ready().map_err(|error| self.broken(&error))?;
            let opcode = self.byte()?;
            if opcode == STOP {
                let root = self.pop()?;
                let rest = self.window.count_rest();
                return Ok(Document {
                    trailing_bytes: rest.map_err(|error| self.broken(&error))?,
                    root: self.store.value(root),
                    store: self.store,
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
        let place = self.line()?;
        let line = &self.window.bytes[place.clone()];
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
                self.push_text(place)
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
            offset: self.opcode_at,
            problem,
        }
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
        let place = self.take(len)?;
        let digits = &self.window.bytes[place];
        match *digits {
            // Six and seven bytes are nearly all addresses and times, so they are read without a loop.
            [a, b, c, d, e, f] => self.int(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), 16),
            [a, b, c, d, e, f, g] => self.int(u64::from_le_bytes([a, b, c, d, e, f, g, 0]), 8),
            _ => {
                let value = text::long(digits);
                self.push_value(value)
            }
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
        let place = self.take_beginning(len)?;
        self.push_text(place)
    }

    fn push_text(&mut self, place: Range<usize>) -> Step {
        let bytes = &self.window.bytes[place];
        let text = self.store.new_text(self.sink.word(bytes), bytes);
        self.push_new(text)
    }

    fn skip_bytes(&mut self, len: u64) -> Step {
        self.take_beginning(len)?;
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
        if index > self.opcode_at / 2 + 1 {
            return Err(self.error(Problem::MemoIndex { index }));
        }
        let index = index as usize;
        if index >= self.memo.len() {
            self.memo.resize(index + 1, Packed::UNSET);
        }
        self.memo[index] = value;
        self.quick.forget();
        Ok(())
    }
}
