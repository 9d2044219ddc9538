//! The stack machine: one opcode after the other, no recursion.

use super::memo::Memo;
use super::opcode::*;
use super::value::handle;
use super::{Document, PickleError, Problem, Sink, Store, Text, Value, text};

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
    stack: Vec<Value>,
    marks: Vec<Mark>,
    memo: Memo,
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
            memo: Memo::default(),
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
            MEMOIZE => self.put(self.memo.len()),
            LONG1 => {
                let len = self.byte()?;
                self.long(len.into())
            }
            BININT1 => {
                let value = self.byte()?;
                self.push(Value::Int(value.into()))
            }
            BININT2 => {
                let value = u16::from_le_bytes(self.fixed()?);
                self.push(Value::Int(value.into()))
            }
            BININT => {
                let value = i32::from_le_bytes(self.fixed()?);
                self.push(Value::Int(value.into()))
            }
            MARK => self.mark(),
            EMPTY_DICT => {
                let dict = self.store.new_dict();
                self.push_new(dict)
            }
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
            NONE => self.push(Value::None),
            NEWTRUE => self.push(Value::Bool(true)),
            NEWFALSE => self.push(Value::Bool(false)),
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
                self.push(Value::Float(value))
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
                self.push(value)
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

    // --- reading the input ---

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, PickleError> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            None => Err(self.truncated(1)),
        }
    }

    #[inline(always)]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(&chunk) => {
                self.at += N;
                Ok(chunk)
            }
            None => Err(self.truncated(N as u64)),
        }
    }

    /// The next `len` bytes, which are there or it is an error: a length is a claim until then.
    #[inline(always)]
    fn take(&mut self, len: u64) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        if len > rest.len() as u64 {
            return Err(self.truncated(len));
        }
        let len = len as usize;
        self.at += len;
        Ok(&rest[..len])
    }

    /// The bytes up to the next line break, which is read too.
    fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        let Some(len) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(self.truncated(rest.len() as u64 + 1));
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn protocol(&mut self) -> Step {
        match self.byte()? {
            0..=5 => Ok(()),
            version => Err(self.error(Problem::Protocol { version })),
        }
    }

    /// A frame only announces how much follows, so it is a chance to see early that a file is cut.
    fn frame(&mut self) -> Step {
        let len = u64::from_le_bytes(self.fixed()?);
        if len > (self.bytes.len() - self.at) as u64 {
            return Err(self.truncated(len));
        }
        Ok(())
    }

    // --- values ---

    #[inline(always)]
    fn push(&mut self, value: Value) -> Step {
        self.stack.push(value);
        Ok(())
    }

    #[inline(always)]
    fn push_new(&mut self, value: Result<Value, Problem>) -> Step {
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

    fn pop(&mut self) -> Result<Value, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.error(Problem::StackUnderflow));
        }
        Ok(self.stack.pop().expect("the stack stands above its floor"))
    }

    /// A little-endian two's complement integer of `len` bytes.
    #[inline(always)]
    fn long(&mut self, len: u64) -> Step {
        let digits = self.take(len)?;
        let value = match *digits {
            // Six and seven bytes are nearly all addresses and times, so they are read without a loop.
            [a, b, c, d, e, f] => int(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), 16),
            [a, b, c, d, e, f, g] => int(u64::from_le_bytes([a, b, c, d, e, f, g, 0]), 8),
            _ => text::long(digits),
        };
        self.push(value)
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
        match handle(len, "bytes in a text") {
            Ok(len) => self.push(Value::Text(Text { word, len, start })),
            Err(problem) => Err(self.error(problem)),
        }
    }

    fn skip_bytes(&mut self, len: u64) -> Step {
        self.take(len)?;
        self.push(Value::Bytes)
    }

    // --- the memo ---

    #[inline(always)]
    fn get(&mut self, index: u64) -> Step {
        match self.memo.get(index) {
            Some(value) => self.push(value),
            None => Err(self.error(Problem::MemoUnset { index })),
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
        if index > self.memo.len() && index > self.opcode_at as u64 / 2 + 1 {
            return Err(self.error(Problem::MemoIndex { index }));
        }
        self.memo.put(index, value);
        Ok(())
    }

    // --- containers ---

    #[inline(always)]
    fn mark(&mut self) -> Step {
        if self.marks.len() == MARK_LIMIT {
            return Err(self.error(Problem::TooDeep { limit: MARK_LIMIT }));
        }
        self.marks.push(Mark {
            height: self.stack.len(),
            offset: self.opcode_at,
        });
        Ok(())
    }

    #[inline(always)]
    fn pop_mark(&mut self) -> Result<Mark, PickleError> {
        match self.marks.pop() {
            Some(mark) => Ok(mark),
            None => Err(self.error(Problem::StackUnderflow)),
        }
    }

    /// The container that lies below the values from `height` on.
    #[inline(always)]
    fn below(&self, height: usize) -> Result<Value, PickleError> {
        if height <= self.floor() {
            return Err(self.error(Problem::StackUnderflow));
        }
        Ok(self.stack[height - 1])
    }

    #[inline(always)]
    fn set_items(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let target = self.below(mark.height)?;
        self.fill_dict(target, mark)
    }

    /// Moves the pairs above a mark into a dict, offering them to the sink first.
    #[inline(always)]
    fn fill_dict(&mut self, target: Value, mark: Mark) -> Step {
        let Value::Dict(dict) = target else {
            return Err(self.error(Problem::WrongContainer { wanted: "dict" }));
        };
        let pairs = &self.stack[mark.height..];
        if !pairs.len().is_multiple_of(2) {
            return Err(self.error(Problem::OddPairs));
        }
        let record = if self.store.is_empty_dict(dict) {
            self.sink.dict(pairs, &mut self.store)
        } else {
            None
        };
        match record {
            Some(record) => self.store.set_record(dict, record),
            None => self.store.add_pairs(dict, mark.offset, pairs)?,
        }
        self.stack.truncate(mark.height);
        Ok(())
    }

    /// One pair at a time: the dict may get more, so the sink is not asked.
    fn set_item(&mut self) -> Step {
        let height = self.stack.len().saturating_sub(2);
        let Value::Dict(dict) = self.below(height)? else {
            return Err(self.error(Problem::WrongContainer { wanted: "dict" }));
        };
        self.store
            .add_pairs(dict, self.opcode_at, &self.stack[height..])?;
        self.stack.truncate(height);
        Ok(())
    }

    fn appends(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let target = self.below(mark.height)?;
        self.fill_list(target, mark.height)
    }

    fn append(&mut self) -> Step {
        let height = self.stack.len().saturating_sub(1);
        let target = self.below(height)?;
        self.fill_list(target, height)
    }

    /// Moves the values from `height` on into a list.
    fn fill_list(&mut self, target: Value, height: usize) -> Step {
        let Value::List(list) = target else {
            return Err(self.error(Problem::WrongContainer { wanted: "list" }));
        };
        if let Err(problem) = self.store.add_items(list, &self.stack[height..]) {
            return Err(self.error(problem));
        }
        self.stack.truncate(height);
        Ok(())
    }

    #[inline(always)]
    fn tuple(&mut self, len: usize) -> Step {
        if self.stack.len() - self.floor() < len {
            return Err(self.error(Problem::StackUnderflow));
        }
        self.tuple_from(self.stack.len() - len)
    }

    fn tuple_from(&mut self, height: usize) -> Step {
        let tuple = self.store.new_tuple(&self.stack[height..]);
        self.stack.truncate(height);
        self.push_new(tuple)
    }

    fn marked_tuple(&mut self) -> Step {
        let mark = self.pop_mark()?;
        self.tuple_from(mark.height)
    }

    fn marked_list(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let list = self
            .store
            .new_list()
            .map_err(|problem| self.error(problem))?;
        self.fill_list(list, mark.height)?;
        self.push(list)
    }

    fn marked_dict(&mut self) -> Step {
        let mark = self.pop_mark()?;
        let dict = self
            .store
            .new_dict()
            .map_err(|problem| self.error(problem))?;
        self.fill_dict(dict, mark)?;
        self.push(dict)
    }
}

/// Extends the sign of an integer whose digits leave `unused` bits at the top.
#[inline(always)]
fn int(digits: u64, unused: u32) -> Value {
    Value::Int((digits << unused) as i64 >> unused)
}
