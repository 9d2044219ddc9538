//! Values, and the store of the containers that they name.

use super::slot::{DictSlot, ListSlot, Pairs, Run};
use super::{Packed, PickleError, Problem};

/// A text, kept as its place in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    /// The number that the sink gave it, 0 if it is none of its words.
    pub word: u16,
    /// Length in bytes.
    pub len: u32,
    /// Place of its first byte in the store.
    pub start: u64,
}

/// One pickled value. Containers are handles into the [`Store`], so equal handles are the same object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Python's `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits 64 bits with a sign.
    Int(i64),
    /// An integer from 2^63 to 2^64 - 1.
    Large(u64),
    /// An integer that fits no 64 bits; its value is not kept.
    Wide,
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(Text),
    /// Bytes, which are skipped.
    Bytes,
    /// A tuple: `len` values of the store from `start`.
    Tuple {
        /// Number of values.
        len: u32,
        /// Place of the first one.
        start: u64,
    },
    /// A list.
    List(u32),
    /// A dict.
    Dict(u32),
    /// An item of a list that was a dict which the sink took.
    Record(Record),
}

impl Value {
    /// What it is, for a message.
    pub fn kind(self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) | Value::Large(_) => "an integer",
            Value::Wide => "an integer of more than 64 bits",
            Value::Float(_) => "a float",
            Value::Text(_) => "a text",
            Value::Bytes => "bytes",
            Value::Tuple { .. } => "a tuple",
            Value::List(_) => "a list",
            Value::Dict(_) | Value::Record(_) => "a dict",
        }
    }
}

/// What a sink made of a dict: a kind and a number, both its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Which of the sink's tables.
    pub kind: u8,
    /// Place in that table.
    pub index: u32,
}

/// All containers and texts of one pickle.
#[derive(Debug, Default)]
pub struct Store {
    texts: Vec<u8>,
    /// Where the texts are that the sink knows, by their number; each is kept once.
    words: Vec<Option<u64>>,
    /// Texts and bytes of which only the beginning was kept.
    cut: u64,
    dicts: Vec<DictSlot>,
    pairs: Vec<Pairs>,
    lists: Vec<ListSlot>,
    items: Vec<Vec<Packed>>,
    runs: Vec<Run>,
    tuples: Vec<Packed>,
    /// Values that do not fit 8 bytes.
    aside: Vec<Value>,
}

impl Store {
    /// Unpacks a value.
    #[inline(always)]
    pub fn value(&self, packed: Packed) -> Value {
        // Most values are integers, which lie nowhere else.
        match packed.integer() {
            Some(value) => Value::Int(value),
            None => packed.value(&self.aside),
        }
    }

    pub(super) fn pack(&mut self, value: Value) -> Packed {
        Packed::new(value, &mut self.aside)
    }

    /// The bytes of a text; UTF-8 as a rule, but a pickle does not promise it.
    ///
    /// # Panics
    /// If `text` is of another pickle.
    pub fn text(&self, text: Text) -> &[u8] {
        let start = usize::try_from(text.start).expect("a text lies in the store");
        &self.texts[start..start + text.len as usize]
    }

    /// The values of a tuple, `None` if `value` is none.
    pub fn tuple(&self, value: Value) -> Option<&[Packed]> {
        let Value::Tuple { len, start } = value else {
            return None;
        };
        let start = usize::try_from(start).expect("a tuple lies in the store");
        Some(&self.tuples[start..start + len as usize])
    }

    /// The pairs (key, value, key, value, ...) of a plain dict; empty for an empty one, `None` for one
    /// that the sink took.
    pub fn pairs(&self, dict: u32) -> Option<&[Packed]> {
        match self.dicts[dict as usize] {
            DictSlot::Empty => Some(&[]),
            DictSlot::Pairs(at) => Some(&self.pairs[at as usize].values),
            DictSlot::Record { .. } => None,
        }
    }

    /// The byte at which the pairs of a plain dict begin.
    pub fn dict_offset(&self, dict: u32) -> Option<u64> {
        match self.dicts[dict as usize] {
            DictSlot::Pairs(at) => Some(self.pairs[at as usize].offset),
            DictSlot::Empty | DictSlot::Record { .. } => None,
        }
    }

    /// The record that the sink made of a dict, `None` if `value` is anything else.
    pub fn record(&self, value: Value) -> Option<Record> {
        match value {
            Value::Record(record) => Some(record),
            Value::Dict(dict) => match self.dicts[dict as usize] {
                DictSlot::Record { kind, index } => Some(Record { kind, index }),
                DictSlot::Empty | DictSlot::Pairs(_) => None,
            },
            _ => None,
        }
    }

    /// How many items a list has; 0 once it is sealed.
    pub fn list_len(&self, list: u32) -> usize {
        match self.lists[list as usize] {
            ListSlot::Items(at) => self.items[at as usize].len(),
            ListSlot::Run(at) => self.runs[at as usize].len as usize,
            ListSlot::Empty | ListSlot::Sealed(_) => 0,
        }
    }

    /// The first item of a list.
    pub fn first(&self, list: u32) -> Option<Value> {
        let packed = match self.lists[list as usize] {
            ListSlot::Items(at) => self.items[at as usize].first().copied(),
            ListSlot::Run(at) => self.runs[at as usize].records().next(),
            ListSlot::Empty | ListSlot::Sealed(_) => None,
        };
        packed.map(|packed| self.value(packed))
    }

    /// The items of a list; none once it is sealed.
    pub fn items(&self, list: u32) -> Vec<Value> {
        let unpack = |packed| self.value(packed);
        match self.lists[list as usize] {
            ListSlot::Items(at) => self.items[at as usize]
                .iter()
                .copied()
                .map(unpack)
                .collect(),
            ListSlot::Run(at) => self.runs[at as usize].records().map(unpack).collect(),
            ListSlot::Empty | ListSlot::Sealed(_) => Vec::new(),
        }
    }

    /// The first record and the length of a list that holds nothing but records of one kind, numbered
    /// without a gap.
    pub fn run(&self, list: u32) -> Option<(Record, usize)> {
        match self.lists[list as usize] {
            ListSlot::Run(at) => {
                let Run { first, len } = self.runs[at as usize];
                Some((first, len as usize))
            }
            _ => None,
        }
    }

    /// The number that a list was sealed with.
    pub fn sealed(&self, list: u32) -> Option<u32> {
        match self.lists[list as usize] {
            ListSlot::Sealed(number) => Some(number),
            ListSlot::Empty | ListSlot::Items(_) | ListSlot::Run(_) => None,
        }
    }

    /// Replaces the items of a list by a number of the sink's own; it may not grow any more.
    pub fn seal(&mut self, list: u32, number: u32) {
        if let ListSlot::Items(at) = self.lists[list as usize] {
            self.items[at as usize] = Vec::new();
        }
        self.lists[list as usize] = ListSlot::Sealed(number);
    }

    /// Keeps a text to which the sink gave the number `word`.
    #[inline(always)]
    pub(super) fn new_text(&mut self, word: u16, bytes: &[u8]) -> Result<Packed, Problem> {
        let len = handle(bytes.len(), "bytes in a text")?;
        let known = self.words.get(usize::from(word)).copied().flatten();
        let start = match known {
            Some(start) => start,
            None => self.keep_text(word, bytes),
        };
        let text = Text { word, len, start };
        match Packed::text(text) {
            Some(packed) => Ok(packed),
            None => Ok(self.pack(Value::Text(text))),
        }
    }

    pub(super) fn count_cut(&mut self) {
        self.cut += 1;
    }

    /// How many texts, or stretches of bytes, were so long that only their first MiB was kept.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn keep_text(&mut self, word: u16, bytes: &[u8]) -> u64 {
        let start = self.texts.len() as u64;
        self.texts.extend_from_slice(bytes);
        if word > 0 {
            let word = usize::from(word);
            if word >= self.words.len() {
                self.words.resize(word + 1, None);
            }
            self.words[word] = Some(start);
        }
        start
    }

    pub(super) fn new_dict(&mut self) -> Result<Packed, Problem> {
        let id = handle(self.dicts.len(), "dicts")?;
        self.dicts.push(DictSlot::Empty);
        Ok(Packed::dict(id))
    }

    pub(super) fn new_list(&mut self) -> Result<Packed, Problem> {
        let id = handle(self.lists.len(), "lists")?;
        self.lists.push(ListSlot::Empty);
        Ok(Packed::list(id))
    }

    pub(super) fn new_tuple(&mut self, values: &[Packed]) -> Result<Packed, Problem> {
        let len = handle(values.len(), "values in a tuple")?;
        // Entry after entry has a tuple of its own that names the same pool.
        if !self.tuples.ends_with(values) {
            self.tuples.extend_from_slice(values);
        }
        let start = (self.tuples.len() - values.len()) as u64;
        Ok(self.pack(Value::Tuple { len, start }))
    }

    pub(super) fn is_empty_dict(&self, dict: u32) -> bool {
        matches!(self.dicts[dict as usize], DictSlot::Empty)
    }

    pub(super) fn set_record(&mut self, dict: u32, record: Record) {
        let Record { kind, index } = record;
        self.dicts[dict as usize] = DictSlot::Record { kind, index };
    }

    /// Adds pairs, which begin at byte `offset` of the input, to a plain dict.
    pub(super) fn add_pairs(
        &mut self,
        dict: u32,
        offset: u64,
        pairs: &[Packed],
    ) -> Result<(), PickleError> {
        let slot = &mut self.dicts[dict as usize];
        let result = match *slot {
            DictSlot::Record { .. } => Err(Problem::ChangedAfterUse),
            DictSlot::Pairs(at) => {
                self.pairs[at as usize].values.extend_from_slice(pairs);
                Ok(())
            }
            DictSlot::Empty if pairs.is_empty() => Ok(()),
            DictSlot::Empty => handle(self.pairs.len(), "dicts").map(|at| {
                *slot = DictSlot::Pairs(at);
                let values = pairs.to_vec();
                self.pairs.push(Pairs { offset, values });
            }),
        };
        result.map_err(|problem| PickleError { offset, problem })
    }

    /// Appends values to a list.
    pub(super) fn add_items(&mut self, list: u32, values: &[Packed]) -> Result<(), Problem> {
        let mut rest = values;
        match self.lists[list as usize] {
            ListSlot::Sealed(_) => return Err(Problem::ChangedAfterUse),
            ListSlot::Run(at) => rest = self.lengthen(at, rest),
            ListSlot::Empty => {
                if let Some(first) = rest.first().and_then(|&item| self.record(self.value(item))) {
                    let at = handle(self.runs.len(), "lists")?;
                    self.runs.push(Run { first, len: 0 });
                    self.lists[list as usize] = ListSlot::Run(at);
                    rest = self.lengthen(at, rest);
                }
            }
            ListSlot::Items(_) => {}
        }
        if rest.is_empty() {
            return Ok(());
        }
        let at = match self.lists[list as usize] {
            ListSlot::Items(at) => at,
            other => {
                let at = handle(self.items.len(), "lists")?;
                self.items.push(match other {
                    ListSlot::Run(run) => self.runs[run as usize].records().collect(),
                    _ => Vec::with_capacity(rest.len()),
                });
                self.lists[list as usize] = ListSlot::Items(at);
                at
            }
        };
        self.items[at as usize].extend_from_slice(rest);
        Ok(())
    }

    /// Takes as many of `values` into a run as continue it, and returns the others.
    fn lengthen<'v>(&mut self, at: u32, values: &'v [Packed]) -> &'v [Packed] {
        let mut run = self.runs[at as usize];
        let mut taken = 0;
        for &value in values {
            match self.record(self.value(value)) {
                Some(record) if run.continues_with(record) => run.len += 1,
                _ => break,
            }
            taken += 1;
        }
        self.runs[at as usize] = run;
        &values[taken..]
    }
}

/// A 32-bit handle for the next object of a table that holds `count`.
pub(super) fn handle(count: usize, what: &'static str) -> Result<u32, Problem> {
    u32::try_from(count).map_err(|_| Problem::TooMany { what })
}
