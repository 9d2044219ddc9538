//! The keys behind the ids of a text file, which may be numbers or words.

use std::collections::HashMap;

use super::text::is_decimal;
use super::{Ids, Trace};

/// The first key of a word: numbers from here on are taken for words, so that a
/// number and a word of one file never share a key.
const WORDS: u64 = u64::MAX - u32::MAX as u64;

/// The key of an id that is a number and written as one; none where it is so large that
/// it is taken for a word.
#[must_use]
pub fn plain_key(number: u64) -> Option<u64> {
    (number < WORDS).then_some(number)
}

/// Gives keys to ids: a decimal number is its own key, a word gets one of its own.
#[derive(Debug, Default)]
pub struct Keys {
    known: HashMap<String, u64>,
    words: Vec<String>,
}

impl Keys {
    /// The key of an id.
    ///
    /// # Errors
    /// An empty id.
    pub fn key(&mut self, id: &str) -> Result<u64, String> {
        if id.is_empty() {
            return Err("the row lacks an id".to_owned());
        }
        if is_decimal(id)
            && (id.len() == 1 || !id.starts_with('0'))
            && let Some(key) = id.parse().ok().and_then(plain_key)
        {
            return Ok(key);
        }
        if let Some(key) = self.known.get(id) {
            return Ok(*key);
        }
        let key = WORDS + self.words.len() as u64;
        self.words.push(id.to_owned());
        self.known.insert(id.to_owned(), key);
        Ok(key)
    }

    /// The number that stands for a key in events of wrong frees: the id itself, or,
    /// of a word, how many words the file had named before it.
    #[must_use]
    pub fn stray(&self, key: u64) -> u64 {
        key.checked_sub(WORDS).unwrap_or(key)
    }

    /// Turns the keys of a finished trace into the file's ids.
    pub fn rename(self, trace: &mut Trace) {
        let Ids::Numbers(keys) = &trace.ids else {
            return;
        };
        if keys.iter().all(|key| *key < WORDS) {
            return;
        }
        let name = |key: &u64| match key.checked_sub(WORDS) {
            Some(word) => self.words[word as usize].clone(),
            None => key.to_string(),
        };
        trace.ids = Ids::Names(keys.iter().map(name).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_get_keys_of_their_own() {
        let mut keys = Keys::default();
        assert_eq!(keys.key("7"), Ok(7));
        let word = keys.key("a").unwrap();
        assert_eq!(keys.key("a"), Ok(word));
        assert_ne!(keys.key("07").unwrap(), 7);
        assert_eq!(keys.stray(word), 0);
        assert!(keys.key("").is_err());
    }
}
