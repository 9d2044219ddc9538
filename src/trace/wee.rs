//! The traces of wee_alloc: `Alloc(n),` asks for `n` bytes, `Free(i),` gives back the
//! `i`-th allocation of the file, counted from 0.

use std::io::BufRead;

use super::builder::Ask;
use super::text::{self, Lines, Source};
use super::{Trace, TraceBuilder, TraceError};

/// Reads a wee_alloc trace.
///
/// # Errors
/// A line that the format does not allow: the error names the line and the value.
pub fn import(input: &mut dyn BufRead, source: &Source) -> Result<Trace, TraceError> {
    let mut lines = Lines::new(input, &source.file);
    let mut builder = TraceBuilder::new(&*source.name);
    let mut text = String::new();
    let (mut requests, mut rows) = (0, 0);
    while lines.next_row(&mut text, "//")? {
        let line = text.trim().trim_end_matches(',').trim_end();
        if matches!(line, "[" | "]" | "vec![") {
            continue;
        }
        rows += 1;
        let (word, value) = lines.place(operation(line))?;
        if word == "Free" {
            builder.free(value, None, false);
            continue;
        }
        let ask = Ask {
            bytes: value,
            stream: builder.stream(0),
            ..Ask::default()
        };
        builder
            .alloc(requests, ask)
            .expect("allocations are counted");
        requests += 1;
    }
    let mut trace = builder.finish();
    trace.report.format = "wee_alloc trace".to_owned();
    trace.report.entries = rows;
    Ok(trace)
}

/// The word of a line and the number in its brackets.
fn operation(line: &str) -> Result<(&str, u64), String> {
    let parts = line
        .split_once('(')
        .and_then(|(word, rest)| Some((word.trim(), rest.strip_suffix(')')?)));
    match parts {
        Some((word @ ("Alloc" | "Free"), value)) => Ok((word, text::number(value.trim(), word)?)),
        _ => Err(format!(
            "'{}': expected Alloc(bytes), or Free(index),",
            text::shown(line)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Event;

    #[test]
    fn frees_name_allocations_by_their_number() {
        let text = "Alloc(7),\nAlloc(9),\nFree(1),\nFree(1),\nFree(5),\nFree(0),\n";
        let trace = import(&mut text.as_bytes(), &Source::named("w")).unwrap();
        assert_eq!(trace.slots, 2);
        assert_eq!(trace.events[3], Event::FreeAgain { id: 1 });
        assert_eq!(trace.events[4], Event::FreeUnknown { id: 5 });
        assert!(matches!(trace.events[5], Event::Free { slot: 0, .. }));
    }

    #[test]
    fn broken_lines_name_line_and_value() {
        for bad in ["Alloc(-1),", "Alloc 7", "Realloc(1),", "Free(),"] {
            let text = format!("Alloc(7),\n{bad}\n");
            let error = import(&mut text.as_bytes(), &Source::named("w")).unwrap_err();
            assert!(error.to_string().starts_with("w, line 2: "), "{error}");
        }
    }
}
