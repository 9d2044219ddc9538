//! The allocator's settings as the snapshot tells them.

use super::decode::{self, Fault};
use super::record::Records;
use super::word::*;
use crate::trace::pickle::{Packed, Store, Value};

/// The allocator's settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// The settings string (`PYTORCH_CUDA_ALLOC_CONF`), "" if none was given.
    pub alloc_conf: String,
    /// Blocks above this are not split; `None` is no limit.
    pub max_split_bytes: Option<u64>,
    /// The share of the cap above which cached segments are collected; 0 is never.
    pub gc_threshold: f64,
    /// Whether segments are expandable.
    pub expandable_segments: bool,
    /// Requests in the interval that begins at this many MiB are rounded to so many parts of a power of two.
    pub roundup_power2_divisions: Vec<(u64, u64)>,
    /// All other settings, in the order of the file.
    pub others: Vec<(String, Setting)>,
}

/// The value of a setting that only travels along.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// A flag.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(String),
}

/// Decodes the dict of settings.
pub(super) fn decode(
    pairs: &[Packed],
    store: &Store,
    records: &mut Records,
) -> Result<Settings, Fault> {
    let mut settings = Settings::default();
    for pair in pairs.chunks_exact(2) {
        let (key, value) = (store.value(pair[0]), store.value(pair[1]));
        match pair[0].word() {
            ALLOC_CONF => {
                let text = decode::text("PYTORCH_CUDA_ALLOC_CONF", value)?;
                settings.alloc_conf = String::from_utf8_lossy(store.text(text)).into_owned();
            }
            MAX_SPLIT_SIZE => {
                // -1 and the largest number both stand for no limit.
                settings.max_split_bytes = match value {
                    Value::Int(i64::MAX) | Value::Int(-1) | Value::Large(u64::MAX) => None,
                    _ => Some(decode::bytes("max_split_size", value)?),
                };
            }
            GC_THRESHOLD => settings.gc_threshold = threshold(value)?,
            EXPANDABLE_SEGMENTS => {
                settings.expandable_segments = decode::flag("expandable_segments", value)?;
            }
            ROUNDUP_DIVISIONS => settings.roundup_power2_divisions = divisions(value, store)?,
            _ => match (key, setting(value, store)) {
                (Value::Text(name), Some(value)) => {
                    let name = String::from_utf8_lossy(store.text(name)).into_owned();
                    settings.others.push((name, value));
                }
                _ => records.ignore(pair[0], store),
            },
        }
    }
    Ok(settings)
}

fn threshold(value: Value) -> Result<f64, Fault> {
    match value {
        Value::Float(number) => Ok(number),
        Value::Int(number) => Ok(number as f64),
        _ => Err(Fault::value(
            "garbage_collection_threshold",
            "a number",
            value,
        )),
    }
}

fn setting(value: Value, store: &Store) -> Option<Setting> {
    Some(match value {
        Value::Bool(flag) => Setting::Bool(flag),
        Value::Int(number) => Setting::Int(number),
        Value::Float(number) => Setting::Float(number),
        Value::Text(text) => Setting::Text(String::from_utf8_lossy(store.text(text)).into_owned()),
        _ => return None,
    })
}

/// The dict of interval (a text of MiB) to divisions, sorted by interval.
fn divisions(value: Value, store: &Store) -> Result<Vec<(u64, u64)>, Fault> {
    const KEY: &str = "roundup_power2_divisions";
    let fault = || Fault::value(KEY, "a dict of MiB to divisions", value);
    let Value::Dict(dict) = value else {
        return Err(fault());
    };
    let mut divisions = Vec::new();
    for pair in store.pairs(dict).ok_or_else(fault)?.chunks_exact(2) {
        let text = decode::text(KEY, store.value(pair[0]))?;
        let start_mib = std::str::from_utf8(store.text(text))
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(fault)?;
        divisions.push((start_mib, decode::bytes(KEY, store.value(pair[1]))?));
    }
    divisions.sort_unstable();
    Ok(divisions)
}
