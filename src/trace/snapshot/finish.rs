//! The end of the file: the top level is known, so what was taken out gets its place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::decode::{self, Fault};
use super::record::{ENTRY, PLAIN_VALUES, Records};
use super::word::*;
use super::{Action, Annotation, Entry, Settings, Snapshot, SnapshotError, settings};
use crate::trace::pickle::{Packed, Record, Store, Value};

pub(super) struct Finish {
    store: Store,
    records: Records,
    /// All entries in the order of the file.
    entries: Vec<Entry>,
    /// Lists that were copied out: a second copy could multiply a small file without bound.
    used_lists: BTreeSet<u32>,
    notes: Vec<String>,
    /// The outermost dict, whose place in the file stands for what has none of its own.
    top: Option<u32>,
}

mod segment;

type Decoded<T> = Result<T, SnapshotError>;

impl Finish {
    pub(super) fn new(store: Store, records: Records, entries: Vec<Entry>) -> Self {
        Finish {
            store,
            records,
            entries,
            used_lists: BTreeSet::new(),
            notes: Vec::new(),
            top: None,
        }
    }

    pub(super) fn snapshot(mut self, root: Value, trailing_bytes: u64) -> Decoded<Snapshot> {
        let mut snapshot = match root {
            Value::Dict(dict) => self.top_level(dict)?,
            Value::List(list) => self.bare_segments(list)?,
            _ => return Err(self.not_a_snapshot(root.kind().to_owned())),
        };
        if trailing_bytes > 0 {
            self.notes.push(format!(
                "{trailing_bytes} bytes after the end of the pickle were not read"
            ));
        }
        if self.store.cut() > 0 {
            let cut = self.store.cut();
            self.notes
                .push(format!("{cut} texts of more than 1 MiB were cut there"));
        }
        if self.records.unknown_action_seen {
            snapshot.unknown_actions = count_unknown(&snapshot.device_traces, &self.records);
        }
        snapshot.ignored_keys = std::mem::take(&mut self.records.ignored)
            .into_iter()
            .map(|(name, count)| (String::from_utf8_lossy(&name).into_owned(), count))
            .collect();
        snapshot.tables = self.records.tables;
        snapshot.notes = self.notes;
        Ok(snapshot)
    }

    fn not_a_snapshot(&self, found: String) -> SnapshotError {
        SnapshotError::NotASnapshot { found }
    }

    fn top_level(&mut self, dict: u32) -> Decoded<Snapshot> {
        let Some(pairs) = self.store.pairs(dict).map(<[Packed]>::to_vec) else {
            return Err(self.not_a_snapshot("one entry, frame or block".to_owned()));
        };
        let has = |word| pairs.iter().step_by(2).any(|&key| key.word() == word);
        if !has(SEGMENTS) && !has(DEVICE_TRACES) {
            let found = pairs.first().map_or("an empty dict".to_owned(), |&key| {
                format!(
                    "a dict with the key {}",
                    decode::show(self.store.value(key), &self.store)
                )
            });
            return Err(self.not_a_snapshot(found));
        }
        if !has(DEVICE_TRACES) {
            self.notes
                .push("the file has no device_traces: it tells a state, not a history".to_owned());
        }
        self.top = Some(dict);
        let mut snapshot = Snapshot::default();
        for pair in pairs.chunks_exact(2) {
            let (key, value) = (pair[0], self.store.value(pair[1]));
            match key.word() {
                SEGMENTS => snapshot.segments = self.segments(dict, value)?,
                DEVICE_TRACES => snapshot.device_traces = self.device_traces(dict, value)?,
                ALLOCATOR_SETTINGS => snapshot.settings = self.settings(value)?,
                EXTERNAL_ANNOTATIONS => snapshot.annotations = self.annotations(dict, value)?,
                HOST_SEGMENTS => self.note_host("host_segments", value),
                HOST_TRACES => self.note_host("host_traces", value),
                _ => self.records.ignore(key, &self.store),
            }
        }
        Ok(snapshot)
    }

    /// Some tools pickle only the list of segments.
    fn bare_segments(&mut self, list: u32) -> Decoded<Snapshot> {
        self.notes.push(
            "the file is a bare list of segments: it tells a state, not a history".to_owned(),
        );
        let segments = self.store.items(list);
        let plain =
            |item: &&Value| matches!(item, Value::Dict(_)) && self.store.record(**item).is_none();
        if let Some(&first) = segments.iter().find(|item| !plain(item)) {
            return Err(self.not_a_snapshot(format!("a list with {}", first.kind())));
        }
        Ok(Snapshot {
            segments: self.segment_items(&segments)?,
            ..Snapshot::default()
        })
    }

    fn note_host(&mut self, key: &str, value: Value) {
        if let Value::List(list) = value
            && self.store.list_len(list) > 0
        {
            self.notes
                .push(format!("{key} (pinned host memory) were left out"));
        }
    }

    // --- errors and lists ---

    fn error(&self, place: String, dict: Option<u32>, fault: Fault) -> SnapshotError {
        let offset = dict.and_then(|dict| self.store.dict_offset(dict));
        let offset = offset.unwrap_or(0);
        let Fault {
            key,
            expected,
            found,
        } = fault;
        match found {
            Some(found) => SnapshotError::Value {
                place,
                offset,
                key,
                expected,
                found: decode::show(found, &self.store),
            },
            None => SnapshotError::Missing { place, offset, key },
        }
    }

    /// The items of the list that `dict` has under `key`, once: a list that serves twice is refused.
    fn take_list(
        &mut self,
        place: &str,
        dict: u32,
        key: &'static str,
        value: Value,
    ) -> Decoded<Vec<Value>> {
        let Value::List(list) = value else {
            let fault = Fault::value(key, "a list", value);
            return Err(self.error(place.to_owned(), Some(dict), fault));
        };
        let items = self.store.items(list);
        if !items.is_empty() && !self.used_lists.insert(list) {
            let place = format!("{place}, key `{key}`");
            return Err(SnapshotError::SharedList { place });
        }
        Ok(items)
    }

    /// The dict that an item of a list must be, and its pairs unless it was taken as a record.
    fn plain_dict(
        &self,
        place: &str,
        key: &'static str,
        item: Value,
    ) -> Decoded<(u32, Vec<Packed>)> {
        let Value::Dict(dict) = item else {
            let fault = Fault::value(key, "a list of dicts", item);
            return Err(self.error(place.to_owned(), self.top, fault));
        };
        let pairs = self.store.pairs(dict).unwrap_or_default();
        if pairs.len() > PLAIN_VALUES {
            let fault = Fault::value(key, "a list of dicts of at most 128 keys", item);
            return Err(self.error(place.to_owned(), Some(dict), fault));
        }
        Ok((dict, pairs.to_vec()))
    }

    // --- traces ---

    fn device_traces(&mut self, dict: u32, value: Value) -> Decoded<Vec<Vec<Entry>>> {
        let devices = self.take_list("the top level", dict, "device_traces", value)?;
        if let Some(ranges) = self.consecutive(&devices) {
            let mut traces: Vec<Vec<Entry>> = Vec::with_capacity(devices.len());
            for range in ranges.into_iter().rev() {
                self.entries.truncate(range.end);
                traces.push(if range.start == 0 {
                    std::mem::take(&mut self.entries)
                } else {
                    self.entries.split_off(range.start)
                });
            }
            traces.reverse();
            return Ok(traces);
        }
        let mut traces = Vec::with_capacity(devices.len());
        for (device, &list) in devices.iter().enumerate() {
            let items = self.take_list(&format!("device {device}"), dict, "device_traces", list)?;
            let mut trace = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                trace.push(self.entry(device, index, item)?);
            }
            traces.push(trace);
        }
        Ok(traces)
    }

    /// Where each device's entries lie among all, if each lies in one piece, in order: then they are
    /// moved, not copied.
    fn consecutive(&self, devices: &[Value]) -> Option<Vec<Range<usize>>> {
        let mut ranges = Vec::with_capacity(devices.len());
        let mut end = 0;
        for &device in devices {
            let Value::List(list) = device else {
                return None;
            };
            let (start, len) = match self.store.run(list) {
                Some((Record { kind: ENTRY, index }, len)) => (index as usize, len),
                None if self.store.list_len(list) == 0 => (end, 0),
                _ => return None,
            };
            if start < end {
                return None;
            }
            end = start + len;
            ranges.push(start..end);
        }
        Some(ranges)
    }

    fn entry(&mut self, device: usize, index: usize, item: Value) -> Decoded<Entry> {
        if let Some(Record { kind: ENTRY, index }) = self.store.record(item) {
            return Ok(self.entries[index as usize]);
        }
        let place = format!("device {device}, entry {index}");
        let (dict, pairs) = self.plain_dict(&place, "device_traces", item)?;
        let entry = self.records.entry(&pairs, &mut self.store);
        entry.map_err(|fault| self.error(place, Some(dict), fault))
    }

    // --- the rest of the top level ---

    fn settings(&mut self, value: Value) -> Decoded<Option<Settings>> {
        if value == Value::None {
            return Ok(None);
        }
        let Value::Dict(dict) = value else {
            let fault = Fault::value("allocator_settings", "a dict", value);
            return Err(self.error("the top level".to_owned(), self.top, fault));
        };
        let pairs = self.store.pairs(dict).unwrap_or_default().to_vec();
        settings::decode(&pairs, &self.store, &mut self.records)
            .map(Some)
            .map_err(|fault| self.error("allocator_settings".to_owned(), Some(dict), fault))
    }

    fn annotations(&mut self, top: u32, value: Value) -> Decoded<Vec<Annotation>> {
        let items = self.take_list("the top level", top, "external_annotations", value)?;
        let mut annotations = Vec::with_capacity(items.len());
        for (index, &item) in items.iter().enumerate() {
            let place = format!("annotation {index}");
            let (dict, pairs) = self.plain_dict(&place, "external_annotations", item)?;
            let annotation = self.annotation(&pairs);
            annotations.push(annotation.map_err(|fault| self.error(place, Some(dict), fault))?);
        }
        Ok(annotations)
    }

    fn annotation(&mut self, pairs: &[Packed]) -> Result<Annotation, Fault> {
        let mut annotation = Annotation {
            name: String::new(),
            stage: String::new(),
            device: 0,
            time_us: 0,
        };
        let text = |store: &Store, key, value| {
            decode::text(key, value)
                .map(|text| String::from_utf8_lossy(store.text(text)).into_owned())
        };
        for pair in pairs.chunks_exact(2) {
            let value = self.store.value(pair[1]);
            match pair[0].word() {
                NAME => annotation.name = text(&self.store, "name", value)?,
                STAGE => annotation.stage = text(&self.store, "stage", value)?,
                DEVICE => annotation.device = decode::small("device", value)?,
                TIME_US => annotation.time_us = decode::time("time_us", value)?,
                _ => self.records.ignore(pair[0], &self.store),
            }
        }
        Ok(annotation)
    }
}

/// How many entries have each action that is not known.
fn count_unknown(traces: &[Vec<Entry>], records: &Records) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::new();
    for entry in traces.iter().flatten() {
        if let Action::Unknown(name) = entry.action {
            *counts.entry(records.tables.text(name)).or_insert(0) += 1;
        }
    }
    let owned = counts.into_iter();
    owned
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
