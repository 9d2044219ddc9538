//! Numbers of any length, and the arguments that the text protocols (0 and 1) write as a line.

use super::opcode::{FLOAT, LONG};
use super::{Problem, Value};

/// A little-endian two's complement integer of any length.
pub(super) fn long(digits: &[u8]) -> Value {
    let negative = digits.last().is_some_and(|&top| top >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    let mut low = [fill; 8];
    let kept = digits.len().min(8);
    low[..kept].copy_from_slice(&digits[..kept]);
    // Whatever lies above 64 bits must only repeat the sign, or the number is wider.
    if digits.iter().skip(8).any(|&byte| byte != fill) {
        return Value::Wide;
    }
    let value = i64::from_le_bytes(low);
    match (negative, value < 0) {
        (false, true) => Value::Large(u64::from_le_bytes(low)),
        (true, false) => Value::Wide,
        _ => Value::Int(value),
    }
}

/// The argument of PUT and GET.
pub(super) fn memo_index(line: &[u8]) -> Result<u64, Problem> {
    parse(line).ok_or(Problem::BadLine {
        what: "a memo slot",
    })
}

/// The argument of INT, LONG or FLOAT.
pub(super) fn number(opcode: u8, line: &[u8]) -> Result<Value, Problem> {
    let value = match (opcode, line) {
        (FLOAT, _) => parse(line).map(Value::Float),
        // Before protocol 2 a bool is an integer of two digits.
        (_, b"01") => Some(Value::Bool(true)),
        (_, b"00") => Some(Value::Bool(false)),
        (LONG, _) => integer(line.strip_suffix(b"L").unwrap_or(line)),
        _ => integer(line),
    };
    value.ok_or(Problem::BadLine { what: "a number" })
}

fn integer(line: &[u8]) -> Option<Value> {
    if let Some(value) = parse(line) {
        return Some(Value::Int(value));
    }
    if let Some(value) = parse(line) {
        return Some(Value::Large(value));
    }
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then_some(Value::Wide)
}

fn parse<T: std::str::FromStr>(line: &[u8]) -> Option<T> {
    std::str::from_utf8(line).ok()?.trim_end().parse().ok()
}

/// A text written as a line is taken as it stands, so it may hold no escape.
pub(super) fn check_plain(line: &[u8]) -> Result<(), Problem> {
    if line.iter().any(|&byte| byte == b'\\' || byte >= 0x80) {
        return Err(Problem::BadLine {
            what: "a text with escapes",
        });
    }
    Ok(())
}
