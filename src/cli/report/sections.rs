//! Tables and sentences of the command line, as a page takes them.

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

/// Lines that are opened on request; nothing where there are none.
pub fn fold(title: &str, lines: Vec<String>) -> Option<Part> {
    (!lines.is_empty()).then(|| {
        Part::Fold(Section {
            title: title.to_owned(),
            parts: vec![Part::List(lines)],
        })
    })
}
