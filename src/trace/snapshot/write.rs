//! Writes a snapshot as PyTorch does: pickle protocol 4, the same keys, in the same order.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{
    Action, Annotation, Block, BlockState, Entry, Segment, Setting, Settings, Snapshot, StackId,
    Tables,
};

/// A frame of the pickle is closed once it holds this much, as Python does.
const FRAME_BYTES: usize = 64 * 1024;

/// Writes `snapshot` as a pickle that Python's `pickle.load` and PyTorch's memory_viz open.
///
/// Keys, texts, frames and call stacks are written once and referred to afterwards.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshot: &Snapshot, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0x80, 4])?;
    let mut pickler = Pickler {
        out,
        frame: Vec::with_capacity(FRAME_BYTES + 1024),
        tables: &snapshot.tables,
        memo_len: 0,
        texts: HashMap::new(),
        keys: HashMap::new(),
        stacks: HashMap::new(),
        frames: HashMap::new(),
    };
    pickler.snapshot(snapshot)?;
    pickler.code(b'.');
    pickler.close_frame()
}

struct Pickler<'a, W> {
    out: &'a mut W,
    frame: Vec<u8>,
    tables: &'a Tables,
    memo_len: u32,
    texts: HashMap<&'a str, u32>,
    /// Memo slots of literal texts, found by where the literal lies: each is in the program once a use.
    keys: HashMap<&'static str, u32>,
    stacks: HashMap<StackId, u32>,
    frames: HashMap<usize, u32>,
}

impl<'a, W: Write> Pickler<'a, W> {
    fn snapshot(&mut self, snapshot: &'a Snapshot) -> io::Result<()> {
        self.open_dict();
        self.key("segments");
        self.list(&snapshot.segments, Self::segment)?;
        self.key("device_traces");
        self.list(&snapshot.device_traces, |pickler, trace| {
            pickler.list(trace, |pickler, entry| {
                pickler.entry(entry);
                Ok(())
            })
        })?;
        if let Some(settings) = &snapshot.settings {
            self.key("allocator_settings");
            self.settings(settings);
        }
        self.key("external_annotations");
        self.list(&snapshot.annotations, |pickler, annotation| {
            pickler.annotation(annotation);
            Ok(())
        })?;
        self.close_dict();
        Ok(())
    }

    fn segment(&mut self, segment: &'a Segment) -> io::Result<()> {
        self.open_dict();
        self.number("device", segment.device.into());
        self.number("address", segment.address);
        self.number("total_size", segment.total_bytes);
        self.number("allocated_size", segment.allocated_bytes);
        self.number("active_size", segment.active_bytes);
        if let Some(requested_bytes) = segment.requested_bytes {
            self.number("requested_size", requested_bytes);
        }
        self.number("stream", segment.stream);
        self.key("segment_type");
        self.key(if segment.large { "large" } else { "small" });
        if let Some(pool) = segment.pool {
            self.pool("segment_pool_id", self.tables.pool(pool));
        }
        self.key("is_expandable");
        self.flag(segment.expandable);
        self.key("frames");
        self.stack(segment.stack);
        self.key("blocks");
        self.list(&segment.blocks, |pickler, block| {
            pickler.block(block);
            Ok(())
        })?;
        self.close_dict();
        Ok(())
    }

    fn block(&mut self, block: &Block) {
        self.open_dict();
        self.number("address", block.address);
        self.number("size", block.bytes);
        if let Some(requested_bytes) = block.requested_bytes {
            self.number("requested_size", requested_bytes);
        }
        self.key("state");
        self.key(match block.state {
            BlockState::ActiveAllocated => "active_allocated",
            BlockState::ActivePendingFree => "active_pending_free",
            BlockState::Inactive => "inactive",
        });
        self.key("frames");
        self.stack(block.stack);
        self.close_dict();
    }

    fn entry(&mut self, entry: &Entry) {
        let tables = self.tables;
        self.open_dict();
        self.key("action");
        match entry.action {
            Action::Alloc => self.key("alloc"),
            Action::FreeRequested => self.key("free_requested"),
            Action::FreeCompleted => self.key("free_completed"),
            Action::SegmentAlloc => self.key("segment_alloc"),
            Action::SegmentFree => self.key("segment_free"),
            Action::SegmentMap => self.key("segment_map"),
            Action::SegmentUnmap => self.key("segment_unmap"),
            Action::Snapshot => self.key("snapshot"),
            Action::Oom => self.key("oom"),
            Action::Annotate => self.key("annotate"),
            Action::Unknown(name) => self.text(tables.text(name)),
        }
        match (entry.action, entry.device_free_bytes()) {
            (Action::Oom, Some(free_bytes)) => self.number("device_free", free_bytes),
            (Action::Oom, None) => {}
            _ => self.number("addr", entry.address()),
        }
        self.number("size", entry.bytes);
        self.number("stream", entry.stream);
        if let Some(time_us) = entry.time_us() {
            self.key("time_us");
            self.int(time_us);
        }
        self.key("compile_context");
        self.text(entry.compile_context.map_or("N/A", |id| tables.text(id)));
        self.key("user_metadata");
        self.text(entry.user_metadata.map_or("", |id| tables.text(id)));
        if let Some(pool) = entry.pool {
            self.pool("pool_id", tables.pool(pool));
        }
        if entry.stack.is_some() {
            self.key("frames");
            self.stack(entry.stack);
        }
        self.close_dict();
    }

    fn settings(&mut self, settings: &'a Settings) {
        self.open_dict();
        self.key("PYTORCH_CUDA_ALLOC_CONF");
        self.text(&settings.alloc_conf);
        self.key("max_split_size");
        match settings.max_split_bytes {
            Some(bytes) => self.unsigned(bytes),
            None => self.int(-1),
        }
        self.key("garbage_collection_threshold");
        self.float(settings.gc_threshold);
        self.key("expandable_segments");
        self.flag(settings.expandable_segments);
        for (name, value) in &settings.others {
            self.text(name);
            match value {
                Setting::Bool(flag) => self.flag(*flag),
                Setting::Int(number) => self.int(*number),
                Setting::Float(number) => self.float(*number),
                Setting::Text(text) => self.text(text),
            }
        }
        self.key("roundup_power2_divisions");
        self.open_dict();
        for &(start_mib, divisions) in &settings.roundup_power2_divisions {
            self.string(&start_mib.to_string());
            self.unsigned(divisions);
        }
        self.close_dict();
        self.close_dict();
    }

    fn annotation(&mut self, annotation: &'a Annotation) {
        self.open_dict();
        self.key("stage");
        self.text(&annotation.stage);
        self.key("name");
        self.text(&annotation.name);
        self.number("device", annotation.device.into());
        self.key("time_us");
        self.int(annotation.time_us);
        self.close_dict();
    }

    fn stack(&mut self, stack: Option<StackId>) {
        let tables = self.tables;
        let Some(stack) = stack else {
            return self.code(b']');
        };
        if let Some(&slot) = self.stacks.get(&stack) {
            return self.recall(slot);
        }
        self.code(b']');
        let slot = self.memoize();
        self.stacks.insert(stack, slot);
        self.code(b'(');
        for &id in tables.stack(stack) {
            if let Some(&slot) = self.frames.get(&id.index()) {
                self.recall(slot);
                continue;
            }
            let frame = tables.frame(id);
            self.code(b'}');
            let slot = self.memoize();
            self.frames.insert(id.index(), slot);
            self.code(b'(');
            self.key("name");
            self.text(tables.text(frame.name));
            self.key("filename");
            self.text(tables.text(frame.filename));
            self.number("line", frame.line.into());
            self.close_dict();
        }
        self.code(b'e');
    }

    // --- the pickle's parts ---

    fn open_dict(&mut self) {
        self.frame.extend_from_slice(b"}(");
    }

    fn close_dict(&mut self) {
        self.code(b'u');
    }

    fn list<T>(
        &mut self,
        items: &'a [T],
        mut item: impl FnMut(&mut Self, &'a T) -> io::Result<()>,
    ) -> io::Result<()> {
        // Python appends in batches, so that a reader's stack stays small.
        const BATCH: usize = 1000;
        self.code(b']');
        for batch in items.chunks(BATCH) {
            self.code(b'(');
            for one in batch {
                item(self, one)?;
                if self.frame.len() >= FRAME_BYTES {
                    self.close_frame()?;
                }
            }
            self.code(b'e');
        }
        Ok(())
    }

    fn number(&mut self, key: &'static str, value: u64) {
        self.key(key);
        self.unsigned(value);
    }

    fn pool(&mut self, key: &'static str, (first, second): (u64, u64)) {
        self.key(key);
        self.unsigned(first);
        self.unsigned(second);
        self.code(0x86);
    }

    fn key(&mut self, key: &'static str) {
        if let Some(&slot) = self.keys.get(key) {
            return self.recall(slot);
        }
        self.string(key);
        let slot = self.memoize();
        self.keys.insert(key, slot);
    }

    fn text(&mut self, text: &'a str) {
        if let Some(&slot) = self.texts.get(text) {
            return self.recall(slot);
        }
        self.string(text);
        let slot = self.memoize();
        self.texts.insert(text, slot);
    }

    fn string(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(len) => self.frame.extend_from_slice(&[0x8c, len]),
            Err(_) => {
                self.code(b'X');
                let len = u32::try_from(text.len()).expect("a text is shorter than 4 GiB");
                self.frame.extend_from_slice(&len.to_le_bytes());
            }
        }
        self.frame.extend_from_slice(text.as_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.code(if flag { 0x88 } else { 0x89 });
    }

    fn float(&mut self, number: f64) {
        self.code(b'G');
        self.frame.extend_from_slice(&number.to_be_bytes());
    }

    fn unsigned(&mut self, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.int(value),
            // A ninth byte keeps the number positive.
            Err(_) => {
                self.frame.extend_from_slice(&[0x8a, 9]);
                self.frame.extend_from_slice(&value.to_le_bytes());
                self.code(0);
            }
        }
    }

    fn int(&mut self, value: i64) {
        let bytes = value.to_le_bytes();
        if let Ok(value) = u8::try_from(value) {
            self.frame.extend_from_slice(&[b'K', value]);
        } else if u16::try_from(value).is_ok() {
            self.frame.extend_from_slice(&[b'M', bytes[0], bytes[1]]);
        } else if i32::try_from(value).is_ok() {
            self.code(b'J');
            self.frame.extend_from_slice(&bytes[..4]);
        } else {
            let bits = 65 - value.unsigned_abs().leading_zeros() as usize;
            let len = bits.div_ceil(8).min(8);
            self.frame.extend_from_slice(&[0x8a, len as u8]);
            self.frame.extend_from_slice(&bytes[..len]);
        }
    }

    fn memoize(&mut self) -> u32 {
        self.code(0x94);
        self.memo_len += 1;
        self.memo_len - 1
    }

    fn recall(&mut self, slot: u32) {
        match u8::try_from(slot) {
            Ok(slot) => self.frame.extend_from_slice(&[b'h', slot]),
            Err(_) => {
                self.code(b'j');
                self.frame.extend_from_slice(&slot.to_le_bytes());
            }
        }
    }

    fn code(&mut self, code: u8) {
        self.frame.push(code);
    }

    fn close_frame(&mut self) -> io::Result<()> {
        self.out.write_all(&[0x95])?;
        self.out
            .write_all(&(self.frame.len() as u64).to_le_bytes())?;
        self.out.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }
}
