//! From pickled values to the numbers and texts that a key asks for.

use crate::trace::pickle::{Store, Text, Value};

/// Why a dict could not be taken: the key, what it should hold, what it holds (`None`: it is missing).
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) key: &'static str,
    pub(super) expected: &'static str,
    pub(super) found: Option<Value>,
}

impl Fault {
    #[cold]
    pub(super) fn value(key: &'static str, expected: &'static str, found: Value) -> Self {
        Fault {
            key,
            expected,
            found: Some(found),
        }
    }

    #[cold]
    pub(super) fn missing(key: &'static str) -> Self {
        Fault {
            key,
            expected: "",
            found: None,
        }
    }
}

/// An address or a stream. TorchScript's pickler writes these with a sign, so a negative one is read as
/// the unsigned number of the same bits.
#[inline(always)]
pub(super) fn address(key: &'static str, value: Value) -> Result<u64, Fault> {
    match value {
        Value::Int(value) => Ok(value as u64),
        Value::Large(value) => Ok(value),
        _ => Err(Fault::value(key, "an integer of at most 64 bits", value)),
    }
}

/// A number of bytes.
#[inline(always)]
pub(super) fn bytes(key: &'static str, value: Value) -> Result<u64, Fault> {
    match value {
        Value::Int(number) if number >= 0 => Ok(number as u64),
        Value::Large(number) => Ok(number),
        _ => Err(Fault::value(key, "a number of bytes (0 or more)", value)),
    }
}

/// A time.
#[inline(always)]
pub(super) fn time(key: &'static str, value: Value) -> Result<i64, Fault> {
    match value {
        Value::Int(value) => Ok(value),
        _ => Err(Fault::value(key, "an integer of microseconds", value)),
    }
}

/// A small number, such as a device or a line.
pub(super) fn small(key: &'static str, value: Value) -> Result<u32, Fault> {
    match value {
        Value::Int(number) => u32::try_from(number).ok(),
        _ => None,
    }
    .ok_or(Fault::value(key, "an integer from 0 to 4294967295", value))
}

/// A flag, which some writers keep as 0 or 1.
pub(super) fn flag(key: &'static str, value: Value) -> Result<bool, Fault> {
    match value {
        Value::Bool(flag) => Ok(flag),
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        _ => Err(Fault::value(key, "True or False", value)),
    }
}

/// A text.
#[inline(always)]
pub(super) fn text(key: &'static str, value: Value) -> Result<Text, Fault> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err(Fault::value(key, "a text", value)),
    }
}

/// The pair of numbers that names a private pool.
#[inline(always)]
pub(super) fn pool(key: &'static str, value: Value, store: &Store) -> Result<(u64, u64), Fault> {
    match store.tuple(value) {
        Some(&[first, second]) => Ok((
            address(key, store.value(first))?,
            address(key, store.value(second))?,
        )),
        _ => Err(Fault::value(key, "a tuple of two integers", value)),
    }
}

/// The value as a person would want it in a message, cut to a readable length.
pub(super) fn show(value: Value, store: &Store) -> String {
    const SHOWN_CHARS: usize = 60;
    match value {
        Value::Int(number) => number.to_string(),
        Value::Large(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(flag) => if flag { "True" } else { "False" }.to_owned(),
        Value::Text(text) => {
            let text = store.text(text);
            let shown = String::from_utf8_lossy(&text[..text.len().min(4 * SHOWN_CHARS)]);
            format!("{:?}", shown.chars().take(SHOWN_CHARS).collect::<String>())
        }
        other => other.kind().to_owned(),
    }
}
