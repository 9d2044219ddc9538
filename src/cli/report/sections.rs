//! Tables and sentences of the command line, as a page takes them.

use crate::cli::explain::view::Piece;
use crate::cli::table::{Cell, Mark, Table};
use crate::report::{self, Align, Part, Section, Tone};

/// A table with a caption.
pub fn table(table: &Table, caption: &str) -> Part {
    let titles = table.titles();
    let columns = titles.map(|(title, words)| {
        let align = if words { Align::Left } else { Align::Right };
        (title.replace("-\n", "").replace('\n', " "), align)
    });
    let cell = |cell: &Cell| {
        let tone = match cell.mark() {
            Mark::None => Tone::Plain,
            Mark::Good => Tone::Good,
            Mark::Warn => Tone::Warn,
            Mark::Faint => Tone::Faint,
        };
        (cell.text().to_owned(), tone)
    };
    let rows = table.rows().iter();
    Part::Table(report::Table {
        caption: caption.to_owned(),
        columns: columns.collect(),
        rows: rows.map(|row| row.iter().map(cell).collect()).collect(),
    })
}

/// Sentences, the first of which says what it comes to.
pub fn verdict(lines: &[String]) -> (Part, Vec<Part>) {
    let (first, rest) = lines.split_first().expect("there is a verdict");
    let notes = rest.iter().map(|line| Part::Note(line.clone()));
    (Part::Lead(first.clone()), notes.collect())
}

/// Parts of an explanation that are opened on request: figures behind the answer.
const FOLDED: [&str; 3] = ["What lay where", "What held memory", "Leaked or cached"];

/// The pieces of an explanation, what to do about it first: what stands before the first
/// heading, and a section for what stands below each.
pub fn explained(title: String, advice: &str, pieces: Vec<Piece>) -> Section {
    let mut parts = vec![Part::Lead(advice.to_owned())];
    let mut inner: Option<Section> = None;
    for piece in pieces {
        let part = match piece {
            Piece::Part(title) => {
                let begun = Section {
                    title: title.to_owned(),
                    parts: Vec::new(),
                };
                parts.extend(inner.replace(begun).map(below));
                continue;
            }
            Piece::Line(line) if line.is_empty() => continue,
            Piece::Say(text) => Part::Text(text),
            Piece::Line(line) if inner.is_none() => Part::Note(line),
            Piece::Line(line) => Part::Code(line.trim_start().to_owned()),
            Piece::Table(inside) => table(&inside, ""),
        };
        match &mut inner {
            Some(section) => section.parts.push(part),
            None => parts.push(part),
        }
    }
    parts.extend(inner.filter(|last| last.title != ADVICE).map(below));
    Section { title, parts }
}

/// The last part of an explanation, which a page puts first.
const ADVICE: &str = "What to do";

fn below(section: Section) -> Part {
    if FOLDED.iter().any(|title| section.title.starts_with(title)) {
        Part::Fold(section)
    } else {
        Part::Under(section)
    }
}

/// Lines that are opened on request; nothing where there are none.
pub fn fold(title: &str, lines: Vec<String>) -> Option<Part> {
    (!lines.is_empty()).then(|| {
        Part::Fold(Section {
            title: title.to_owned(),
            parts: vec![Part::List(lines)],
        })
    })
}
