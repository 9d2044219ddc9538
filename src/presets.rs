//! What the binary carries as files of TOML, and how a text on the command line names one
//! of them and changes it: `NAME`, or `NAME:key=value,key=value`.
//!
//! Policies and workloads share this one parser and this one way to guess what was meant.

use toml::{Table, Value};

mod embedded {
    #![allow(missing_docs, reason = "the generated lists have docs of their own")]
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}
pub use embedded::{DEVICES, PRESETS, WORKLOADS};

/// Reads `key=value,key=value`; a value is a TOML number, truth value, string or array, or
/// a word.
///
/// # Errors
/// A part without `=`.
pub fn options(text: &str) -> Result<Vec<(String, Value)>, String> {
    let mut options = Vec::new();
    for pair in split_top(text) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("option '{pair}': expected key=value"));
        };
        let (key, value) = (key.trim(), value.trim());
        let plain = format!("v = {value}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("v"));
        options.push((
            key.to_owned(),
            plain.unwrap_or_else(|| Value::String(value.to_owned())),
        ));
    }
    Ok(options)
}

/// Sets a value under a dotted key, such as `arrivals.poisson.per_minute`; tables on the
/// way are made where they are not.
///
/// # Errors
/// A part of the key names something that is no table.
pub fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let Some((head, rest)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return Ok(());
    };
    let inner = table
        .entry(head)
        .or_insert_with(|| Value::Table(Table::new()));
    match inner {
        Value::Table(inner) => set(inner, rest, value),
        _ => Err(format!("option '{key}': '{head}' is no table")),
    }
}

/// The known name that differs from `name` in the fewest letters.
#[must_use]
pub fn nearest<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    known.min_by_key(|near| distance(near, name))
}

/// What to say of a name that is not known: the nearest one that is, and all of them.
#[must_use]
pub fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let near = nearest(known.iter().copied(), name);
    let hint = near.map_or(String::new(), |near| format!("did you mean '{near}'? "));
    let known = known.join(", ");
    format!("there is no such {kind}; {hint}known are: {known}")
}

/// Splits at commas that are inside no quotes and no brackets.
fn split_top(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quoted) = (Vec::new(), 0, 0i32, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// How many letters differ (Levenshtein 1966), for the nearest known name.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in two.iter().enumerate() {
            let cost = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_numbers_arrays_texts_and_words() {
        let found = options("a=3, b=[1,2],c=\"x,y\",d=512MiB").expect("well formed");
        let shown: Vec<String> = found.iter().map(|(k, v)| format!("{k} {v}")).collect();
        assert_eq!(shown, ["a 3", "b [1, 2]", "c \"x,y\"", "d \"512MiB\""]);
        assert!(options("a").unwrap_err().contains("expected key=value"));
    }

    #[test]
    fn dotted_keys_reach_into_tables() {
        let mut table: Table = "a = 1\n[b]\nc = 2".parse().expect("toml");
        set(&mut table, "b.c", Value::Integer(5)).expect("a table");
        set(&mut table, "d.e", Value::Integer(6)).expect("a new table");
        assert_eq!(table["b"]["c"].as_integer(), Some(5));
        assert_eq!(table["d"]["e"].as_integer(), Some(6));
        let error = set(&mut table, "a.c", Value::Integer(7)).unwrap_err();
        assert!(error.contains("'a' is no table"), "{error}");
    }

    #[test]
    fn the_nearest_name_is_told() {
        let text = unknown("workload", "chum", ["serving", "churn"].into_iter());
        assert!(
            text.contains("did you mean 'churn'? known are: serving, churn"),
            "{text}"
        );
    }
}
