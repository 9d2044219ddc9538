//! `.rep`, the traces of the CS:APP malloc exercise: four header numbers (heap size,
//! ids, operations, weight), then `a id size`, `r id size` and `f id`.
//!
//! A device has no realloc: `r` becomes a request of the new size, then a free of the
//! old block, as a copy between the two needs.

use std::collections::HashMap;
use std::io::BufRead;

use super::builder::Ask;
use super::text::{self, Lines, Source};
use super::{Event, Ids, Trace, TraceBuilder, TraceError};

/// The names of the header's numbers.
const HEADER: [&str; 4] = [
    "heap size",
    "number of ids",
    "number of operations",
    "weight",
];

/// Reads a `.rep` trace.
///
/// # Errors
/// A line that the format does not allow, or fewer operations than the header says.
pub fn import(input: &mut dyn BufRead, source: &Source) -> Result<Trace, TraceError> {
    let mut lines = Lines::new(input, &source.file);
    let mut text = String::new();
    let mut header = [0; 4];
    for (value, what) in header.iter_mut().zip(HEADER) {
        if !lines.next_row(&mut text, "")? {
            return Err(lines.error(format!("the header ends before its {what}")));
        }
        *value = lines.place(text::number(text.trim(), what))?;
    }
    let [_, ids, operations, _] = header;
    let mut reader = Reader {
        builder: TraceBuilder::new(&*source.name),
        ids: Vec::new(),
        held: HashMap::new(),
        freed: HashMap::new(),
        known: ids,
        rows: 0,
        reallocs: 0,
    };
    while lines.next_row(&mut text, "")? {
        lines.place(reader.line(&text))?;
    }
    if reader.rows < operations {
        let rows = reader.rows;
        return Err(lines
            .error(format!(
                "the file ends after {rows} operations, its header says {operations}"
            ))
            .or("it is cut short; copy it again"));
    }
    Ok(reader.finish(operations))
}

struct Reader {
    builder: TraceBuilder,
    ids: Vec<u64>,
    /// The allocation that an id names now. Each gets a key of its own, because a
    /// realloc holds two of one id for a moment.
    held: HashMap<u64, u64>,
    freed: HashMap<u64, u64>,
    known: u64,
    rows: u64,
    reallocs: u64,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        self.rows += 1;
        let mut words = line.split_ascii_whitespace();
        let word = words.next().unwrap_or("");
        let mut next = |what| text::number(words.next().unwrap_or(""), what);
        let id = match word {
            "a" | "r" | "f" => next("id")?,
            _ => {
                let word = text::shown(word);
                return Err(format!("operation '{word}': expected a, r or f"));
            }
        };
        if id >= self.known {
            let known = self.known;
            return Err(format!(
                "id '{id}': the header says that there are {known} ids"
            ));
        }
        match word {
            "f" => self.free(id),
            "r" => {
                let bytes = next("size")?;
                self.reallocs += 1;
                let old = self.held.remove(&id);
                if bytes > 0 || old.is_none() {
                    self.request(id, bytes);
                }
                if let Some(old) = old {
                    self.builder.free(old, None, false);
                }
            }
            _ if self.held.contains_key(&id) => {
                return Err(format!("a of id '{id}', which is live already"));
            }
            _ => {
                let bytes = next("size")?;
                self.request(id, bytes);
            }
        }
        match words.next() {
            None => Ok(()),
            Some(extra) => Err(format!("'{}' follows the operation", text::shown(extra))),
        }
    }

    fn request(&mut self, id: u64, bytes: u64) {
        let key = self.ids.len() as u64;
        let ask = Ask {
            bytes,
            stream: self.builder.stream(0),
            ..Ask::default()
        };
        self.builder
            .alloc(key, ask)
            .expect("every allocation has a key of its own");
        self.ids.push(id);
        self.held.insert(id, key);
    }

    fn free(&mut self, id: u64) {
        match self.held.remove(&id) {
            Some(key) => {
                self.builder.free(key, None, false);
                self.freed.insert(id, key);
            }
            None if self.freed.contains_key(&id) => self.builder.push(Event::FreeAgain { id }),
            None => self.builder.push(Event::FreeUnknown { id }),
        }
    }

    fn finish(self, operations: u64) -> Trace {
        let mut trace = self.builder.finish();
        if self.ids.iter().enumerate().any(|(at, id)| at as u64 != *id) {
            trace.ids = Ids::Numbers(self.ids);
        }
        trace.report.format = "CS:APP rep".to_owned();
        trace.report.entries = self.rows;
        trace.report.note(
            self.reallocs,
            "reallocs are taken as a request of the new size, then a free of the old block",
        );
        trace.report.note(
            self.rows - operations,
            "operations stand after as many as the header says, and are read",
        );
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import_text(text: &str) -> Result<Trace, TraceError> {
        import(&mut text.as_bytes(), &Source::named("x.rep"))
    }

    #[test]
    fn a_realloc_holds_both_blocks_for_a_moment() {
        let trace = import_text("20000\n2\n5\n1\na 0 512\na 1 128\nr 0 640\nf 0\nf 1\n").unwrap();
        let slot = |event: &Event| match event {
            Event::Alloc { slot, bytes, .. } => ('a', *slot, *bytes),
            Event::Free { slot, .. } => ('f', *slot, 0),
            _ => ('?', 0, 0),
        };
        let events: Vec<_> = trace.events.iter().map(slot).collect();
        assert_eq!(
            events,
            [
                ('a', 0, 512),
                ('a', 1, 128),
                ('a', 2, 640),
                ('f', 0, 0),
                ('f', 2, 0),
                ('f', 1, 0)
            ]
        );
        assert_eq!(trace.ids, Ids::Numbers(vec![0, 1, 0]));
        assert_eq!(trace.report.notes[0].count, 1);
    }

    #[test]
    fn broken_lines_name_line_and_value() {
        for (text, value) in [
            (
                "20000\n2\n",
                "line 2: the header ends before its number of operations",
            ),
            ("20000\nx\n", "line 2: number of ids 'x'"),
            ("1\n2\n1\n1\nz 0 1\n", "line 5: operation 'z'"),
            ("1\n2\n1\n1\na 2 1\n", "line 5: id '2'"),
            ("1\n2\n1\n1\na 0\n", "line 5: size ''"),
            ("1\n2\n2\n1\na 0 1\na 0 1\n", "line 6: a of id '0'"),
            (
                "1\n2\n2\n1\na 0 1\n",
                "ends after 1 operations, its header says 2",
            ),
            ("1\n2\n1\n1\nf 0 1\n", "line 5: '1' follows"),
        ] {
            let message = import_text(text).unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
        }
    }
}
