//! Takes entries, frames and blocks out of the pickle as soon as each dict is complete.
//!
//! A dict that is not as it should be is left to the store: the end of the file decodes it again, when
//! its place in the trace is known, and reports it from there.

use std::collections::BTreeMap;

use super::decode::{self, Fault};
use super::plan::Plan;
use super::table::{Frame, FrameId, PoolId, StackId, Tables, TextId};
use super::word::*;
use super::{Action, Block, BlockState, Entry};
use crate::trace::pickle::{Packed, Record, Sink, Store, Text, Value};
use crate::trace::relay::Giver;

/// [`Record::kind`] of an [`Entry`].
pub(super) const ENTRY: u8 = 0;
/// [`Record::kind`] of a [`Frame`].
pub(super) const FRAME: u8 = 1;
/// [`Record::kind`] of a [`Block`].
pub(super) const BLOCK: u8 = 2;

/// Seals a list that was used as a call stack and is none.
const NOT_A_STACK: u32 = u32::MAX;

/// The most keys and values that a plain dict may have where a frame or an entry should be. Many more
/// could make a small file, which refers to one dict again and again, slow to read.
pub(super) const PLAIN_VALUES: usize = 256;

/// Everything that was taken out of the pickle so far.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) entries: Giver<Entry>,
    pub(super) blocks: Vec<Block>,
    pub(super) tables: Tables,
    pub(super) ignored: BTreeMap<Vec<u8>, u64>,
    pub(super) unknown_action_seen: bool,
    last_pool: Option<((u64, u64), PoolId)>,
    last_metadata: Option<(u64, TextId)>,
    /// How to decode an entry by the one before, if that was a usual one.
    pub(super) plan: Option<Plan>,
}

impl Sink for Records {
    #[inline(always)]
    fn word(&self, text: &[u8]) -> u16 {
        number(text)
    }

    #[inline]
    fn dict(&mut self, pairs: &[Packed], store: &mut Store) -> Option<Record> {
        let keys = key_set(pairs);
        let has = |word: u16| keys & (1 << word) != 0;
        self.plan = None;
        if has(ACTION) {
            let entry = self.entry(pairs, store).ok()?;
            self.plan = Plan::of(pairs, entry);
            self.entries.push(entry);
            record(ENTRY, self.entries.count())
        } else if has(FILENAME) && has(NAME) {
            let frame = self.frame(pairs, store).ok()?;
            record(FRAME, self.tables.add_frame(frame).index() + 1)
        } else if has(STATE) && has(ADDRESS) {
            let block = self.block(pairs, store).ok()?;
            self.blocks.push(block);
            record(BLOCK, self.blocks.len())
        } else {
            None
        }
    }

    #[inline(always)]
    fn like_before(&mut self, pairs: &[Packed], changed: u32, store: &mut Store) -> Option<Record> {
        let Some(entry) = self.planned(pairs, changed, store) else {
            return self.dict(pairs, store);
        };
        self.entries.push(entry);
        record(ENTRY, self.entries.count())
    }
}

/// The record of the last of `count` things.
#[inline(always)]
fn record(kind: u8, count: usize) -> Option<Record> {
    let index = u32::try_from(count - 1).ok()?;
    Some(Record { kind, index })
}

/// The known keys of a dict, as bits.
#[inline(always)]
fn key_set(pairs: &[Packed]) -> u64 {
    let mut keys = 0;
    for pair in pairs.chunks_exact(2) {
        keys |= 1_u64.checked_shl(pair[0].word().into()).unwrap_or(0);
    }
    keys
}

impl Records {
    /// Nothing yet; entries are to go to `entries`.
    pub(super) fn with(entries: Giver<Entry>) -> Self {
        Records {
            entries,
            ..Records::default()
        }
    }

    /// Decodes an entry of a trace.
    pub(super) fn entry(&mut self, pairs: &[Packed], store: &mut Store) -> Result<Entry, Fault> {
        let (mut action, mut addr, mut size, mut device_free) = (None, None, None, None);
        let mut entry = Entry::new(Action::Snapshot, 0, 0, 0);
        for pair in pairs.chunks_exact(2) {
            let value = store.value(pair[1]);
            match pair[0].word() {
                ACTION => action = Some(self.action(value, store)?),
                ADDR => addr = Some(decode::address("addr", value)?),
                SIZE => size = Some(decode::bytes("size", value)?),
                STREAM => entry.stream = decode::address("stream", value)?,
                DEVICE_FREE => {
                    device_free = Some(decode::bytes("device_free", value)?);
                }
                TIME_US => entry.set_time_us(Some(decode::time("time_us", value)?)),
                FRAMES => entry.stack = self.stack(value, store)?,
                POOL_ID => entry.pool = self.pool("pool_id", value, store)?,
                USER_METADATA => {
                    entry.user_metadata = self.optional_text("user_metadata", value, store)?;
                }
                COMPILE_CONTEXT => {
                    entry.compile_context = self.optional_text("compile_context", value, store)?;
                }
                _ => self.ignore(pair[0], store),
            }
        }
        entry.action = action.ok_or(Fault::missing("action"))?;
        // An action that is not known may have any keys.
        let lenient = matches!(entry.action, Action::Unknown(_));
        match (entry.action, addr) {
            (Action::Oom, _) => entry.set_device_free_bytes(device_free),
            (_, Some(addr)) => entry.place = addr,
            (Action::Snapshot | Action::Unknown(_), None) => {}
            (_, None) => return Err(Fault::missing("addr")),
        }
        match size {
            Some(size) => entry.bytes = size,
            None if lenient || entry.action == Action::Annotate => {}
            None => return Err(Fault::missing("size")),
        }
        Ok(entry)
    }

    #[inline(always)]
    fn action(&mut self, value: Value, store: &Store) -> Result<Action, Fault> {
        let text = decode::text("action", value)?;
        Ok(known_action(text.word).unwrap_or_else(|| {
            self.unknown_action_seen = true;
            Action::Unknown(self.text(text, store))
        }))
    }

    /// Decodes a frame of a call stack.
    fn frame(&mut self, pairs: &[Packed], store: &Store) -> Result<Frame, Fault> {
        let (mut name, mut filename, mut line) = (None, None, 0);
        for pair in pairs.chunks_exact(2) {
            let value = store.value(pair[1]);
            match pair[0].word() {
                NAME => name = Some(decode::text("name", value)?),
                FILENAME => filename = Some(decode::text("filename", value)?),
                LINE => line = decode::small("line", value)?,
                _ => self.ignore(pair[0], store),
            }
        }
        let name = name.ok_or(Fault::missing("name"))?;
        let filename = filename.ok_or(Fault::missing("filename"))?;
        Ok(Frame {
            name: self.text(name, store),
            filename: self.text(filename, store),
            line,
        })
    }

    /// Decodes a block of a segment.
    pub(super) fn block(&mut self, pairs: &[Packed], store: &mut Store) -> Result<Block, Fault> {
        let (mut address, mut bytes, mut state) = (None, None, None);
        let (mut requested_bytes, mut stack) = (None, None);
        for pair in pairs.chunks_exact(2) {
            let value = store.value(pair[1]);
            match pair[0].word() {
                ADDRESS => address = Some(decode::address("address", value)?),
                SIZE => bytes = Some(decode::bytes("size", value)?),
                REQUESTED_SIZE => requested_bytes = Some(decode::bytes("requested_size", value)?),
                STATE => state = Some(block_state(value)?),
                FRAMES => stack = self.stack(value, store)?,
                HISTORY => self.history(value, store, &mut requested_bytes, &mut stack)?,
                _ => self.ignore(pair[0], store),
            }
        }
        Ok(Block {
            address: address.ok_or(Fault::missing("address"))?,
            bytes: bytes.ok_or(Fault::missing("size"))?,
            requested_bytes,
            state: state.ok_or(Fault::missing("state"))?,
            stack,
        })
    }

    /// The oldest files keep a list of what a block held, the latest first, instead of a requested size
    /// and a call stack.
    fn history(
        &mut self,
        value: Value,
        store: &mut Store,
        requested_bytes: &mut Option<u64>,
        stack: &mut Option<StackId>,
    ) -> Result<(), Fault> {
        let fault = Fault::value("history", "a list of dicts with `real_size`", value);
        let Value::List(list) = value else {
            return Err(fault);
        };
        let Some(latest) = store.first(list) else {
            return Ok(());
        };
        let Value::Dict(latest) = latest else {
            return Err(fault);
        };
        let pairs = store
            .pairs(latest)
            .filter(|pairs| pairs.len() <= PLAIN_VALUES);
        let pairs = pairs.ok_or(fault)?.to_vec();
        for pair in pairs.chunks_exact(2) {
            let value = store.value(pair[1]);
            match pair[0].word() {
                REAL_SIZE => *requested_bytes = Some(decode::bytes("real_size", value)?),
                FRAMES => *stack = self.stack(value, store)?,
                ADDR => {}
                _ => self.ignore(pair[0], store),
            }
        }
        Ok(())
    }

    /// The call stack that a list of frames is; the list is replaced by it, because many entries share it.
    pub(super) fn stack(
        &mut self,
        value: Value,
        store: &mut Store,
    ) -> Result<Option<StackId>, Fault> {
        let fault = || Fault::value("frames", "a list of frames (name, filename, line)", value);
        let list = match value {
            Value::List(list) => list,
            Value::None => return Ok(None),
            _ => return Err(fault()),
        };
        match store.sealed(list) {
            Some(NOT_A_STACK) => return Err(fault()),
            Some(index) => return Ok(Some(Tables::stack_id(index))),
            None if store.list_len(list) == 0 => return Ok(None),
            None => {}
        }
        let Some(frames) = self.frames(list, store) else {
            // Remembered, so that a list which many entries share is not searched again for each.
            store.seal(list, NOT_A_STACK);
            return Err(fault());
        };
        let id = self.tables.add_stack(&frames);
        store.seal(list, id.index() as u32);
        Ok(Some(id))
    }

    /// The frames of a list, unless it holds anything else.
    fn frames(&mut self, list: u32, store: &Store) -> Option<Vec<FrameId>> {
        let mut frames = Vec::with_capacity(store.list_len(list));
        for item in store.items(list) {
            frames.push(match (store.record(item), item) {
                (Some(Record { kind: FRAME, index }), _) => Tables::frame_id(index),
                // Protocol 0 sets one pair at a time, so its dicts stay plain.
                (None, Value::Dict(dict)) => {
                    let pairs = store
                        .pairs(dict)
                        .filter(|pairs| pairs.len() <= PLAIN_VALUES)?;
                    let frame = self.frame(pairs, store).ok()?;
                    self.tables.add_frame(frame)
                }
                _ => return None,
            });
        }
        Some(frames)
    }

    /// The private pool that a tuple names. Most entries name the same one as the entry before.
    #[inline(always)]
    pub(super) fn pool(
        &mut self,
        key: &'static str,
        value: Value,
        store: &Store,
    ) -> Result<Option<PoolId>, Fault> {
        if value == Value::None {
            return Ok(None);
        }
        let pool = decode::pool(key, value, store)?;
        if let Some((last, id)) = self.last_pool
            && last == pool
        {
            return Ok(Some(id));
        }
        let id = self.tables.add_pool(pool);
        self.last_pool = Some((pool, id));
        Ok(Some(id))
    }

    /// A text where "", "N/A" and `None` mean that there is none.
    #[inline(always)]
    pub(super) fn optional_text(
        &mut self,
        key: &'static str,
        value: Value,
        store: &Store,
    ) -> Result<Option<TextId>, Fault> {
        if value == Value::None {
            return Ok(None);
        }
        let text = decode::text(key, value)?;
        if text.len == 0 || text.word == NOT_AVAILABLE {
            return Ok(None);
        }
        // Neighbours as a rule share one text through the memo.
        if let Some((start, id)) = self.last_metadata
            && start == text.start
        {
            return Ok(Some(id));
        }
        let id = self.text(text, store);
        self.last_metadata = Some((text.start, id));
        Ok(Some(id))
    }

    /// Names a text; bytes that are not UTF-8 become replacement characters.
    fn text(&mut self, text: Text, store: &Store) -> TextId {
        self.tables
            .add_text(&String::from_utf8_lossy(store.text(text)))
    }

    /// Counts a key that this reader does not know.
    #[cold]
    pub(super) fn ignore(&mut self, key: Packed, store: &Store) {
        let name: &[u8] = match store.value(key) {
            Value::Text(text) => store.text(text),
            _ => b"(not a text)",
        };
        match self.ignored.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.ignored.insert(name.to_vec(), 1);
            }
        }
    }
}

/// The action that a word names.
#[inline(always)]
pub(super) fn known_action(word: u16) -> Option<Action> {
    Some(match word {
        ALLOC => Action::Alloc,
        FREE_REQUESTED => Action::FreeRequested,
        FREE_COMPLETED => Action::FreeCompleted,
        SEGMENT_ALLOC => Action::SegmentAlloc,
        SEGMENT_FREE => Action::SegmentFree,
        SEGMENT_MAP => Action::SegmentMap,
        SEGMENT_UNMAP => Action::SegmentUnmap,
        SNAPSHOT => Action::Snapshot,
        OOM => Action::Oom,
        ANNOTATE => Action::Annotate,
        _ => return None,
    })
}

/// The word that a key is.
#[inline(always)]
pub(super) fn word_of(key: Value) -> u16 {
    match key {
        Value::Text(text) => text.word,
        _ => UNKNOWN,
    }
}

fn block_state(value: Value) -> Result<BlockState, Fault> {
    match word_of(value) {
        ACTIVE_ALLOCATED => Ok(BlockState::ActiveAllocated),
        ACTIVE_PENDING_FREE | ACTIVE_AWAITING_FREE => Ok(BlockState::ActivePendingFree),
        INACTIVE => Ok(BlockState::Inactive),
        _ => Err(Fault::value(
            "state",
            "\"active_allocated\", \"active_pending_free\" or \"inactive\"",
            value,
        )),
    }
}
