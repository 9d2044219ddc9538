//! Entries of an experiment file that are a word or a table, and the products of lists.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use toml::{Spanned, Value};

use crate::units::parse_bytes;

/// `"best-fit"`, or `{ name = "best-fit", alignment = ["256 B", "2 MiB"] }`.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    /// The word, where it is one.
    pub word: Option<String>,
    /// The keys of the table, in the order of the file.
    pub keys: Vec<(Spanned<String>, Spanned<Value>)>,
}

impl Entry {
    /// Takes a key out of the table.
    pub fn take(&mut self, key: &str) -> Option<Spanned<Value>> {
        let at = self.keys.iter().position(|(name, _)| name.get_ref() == key);
        at.map(|at| self.keys.remove(at).1)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(WordOrTable)
    }
}

struct WordOrTable;

impl<'de> Visitor<'de> for WordOrTable {
    type Value = Entry;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a name, or a table with a name and parameters")
    }

    fn visit_str<E>(self, word: &str) -> Result<Entry, E> {
        Ok(Entry {
            word: Some(word.to_owned()),
            keys: Vec::new(),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut entry = Entry::default();
        while let Some(pair) = map.next_entry()? {
            entry.keys.push(pair);
        }
        entry.keys.sort_by_key(|(key, _)| key.span().start);
        Ok(entry)
    }
}

/// One choice of a value for each key.
pub(super) type Choice = Vec<(String, Value)>;

/// Every choice that the keys allow: a list stands for one of its values, and lists
/// multiply, the first one slowest. A list of lists has lists for values.
///
/// # Errors
/// The key whose list is empty.
pub(super) fn product(keys: &[(Spanned<String>, Spanned<Value>)]) -> Result<Vec<Choice>, usize> {
    let mut choices = vec![Choice::new()];
    for (at, (key, value)) in keys.iter().enumerate() {
        let values = match value.get_ref() {
            Value::Array(values) if values.is_empty() => return Err(at),
            Value::Array(values) => values.clone(),
            value => vec![value.clone()],
        };
        let longer = |choice: Choice| {
            let key = key.get_ref();
            values.iter().map(move |value| {
                let mut choice = choice.clone();
                choice.push((key.clone(), value.clone()));
                choice
            })
        };
        choices = choices.into_iter().flat_map(longer).collect();
    }
    Ok(choices)
}

/// A value as an option text has it: sizes without blanks, words without quotes where
/// nothing else could be meant.
pub(super) fn option_text(value: &Value) -> String {
    let Value::String(text) = value else {
        return value.to_string();
    };
    let is_other = format!("v = {text}").parse::<toml::Table>().is_ok();
    if is_other || text.contains([',', '"', '[', ']', '{', '}']) {
        return value.to_string();
    }
    if parse_bytes(text).is_ok() {
        return text.split_whitespace().collect();
    }
    text.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<(Spanned<String>, Spanned<Value>)> {
        toml::from_str::<Entry>(text).expect("a table").keys
    }

    #[test]
    fn lists_multiply_the_first_one_slowest() {
        let choices =
            product(&keys("a = [1, 2]\nb = \"x\"\nc = [[3], [4]]")).expect("no list is empty");
        let texts: Vec<String> = choices
            .iter()
            .map(|choice| {
                let pairs = choice
                    .iter()
                    .map(|(key, value)| format!("{key}={}", option_text(value)));
                pairs.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(
            texts,
            [
                "a=1 b=x c=[3]",
                "a=1 b=x c=[4]",
                "a=2 b=x c=[3]",
                "a=2 b=x c=[4]"
            ]
        );
        assert_eq!(product(&keys("a = 1\nb = []")), Err(1));
    }

    #[test]
    fn words_stay_words_and_what_could_be_more_is_quoted() {
        for (value, text) in [
            ("\"256 B\"", "256B"),
            ("\"best\"", "best"),
            ("\"true\"", "\"true\""),
            ("\"a,b\"", "\"a,b\""),
            ("0.3", "0.3"),
            ("true", "true"),
        ] {
            let keys = keys(&format!("v = {value}"));
            assert_eq!(option_text(keys[0].1.get_ref()), text);
        }
    }
}
