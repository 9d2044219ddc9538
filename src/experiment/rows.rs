//! The rows of an experiment: the cell, what capacity it was asked for, and its summary.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::observe::{Row, rows};

pub use crate::observe::rows::RowsError;

/// One cell's row. In csv the first two columns stand before those of [`Row`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CellRow {
    /// The cell's stable id.
    pub cell: String,
    /// The capacity as the experiment asks for it: `8GiB`, `1.1x`, `card` or `trace`, with
    /// `@CARD` behind it where there are several cards.
    pub capacity_asked: String,
    /// The summary.
    pub row: Row,
}

/// Writes rows as csv, one by one, the header first.
pub struct Writer<W: Write>(csv::Writer<W>);

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W) -> io::Result<Self> {
        let mut csv = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(out);
        let mut header = vec!["cell".to_owned(), "capacity_asked".to_owned()];
        header.extend(rows::columns());
        csv.write_record(header)?;
        Ok(Writer(csv))
    }

    /// Writes a row.
    ///
    /// # Errors
    /// What `out` says.
    pub fn row(&mut self, row: &CellRow) -> io::Result<()> {
        let cells = (&row.cell, &row.capacity_asked, &row.row);
        self.0.serialize(cells).map_err(io::Error::other)
    }

    /// Hands everything on.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes all rows as csv.
///
/// # Errors
/// What `out` says.
pub fn write<'a>(rows: impl IntoIterator<Item = &'a CellRow>, out: impl Write) -> io::Result<()> {
    let mut writer = Writer::new(out)?;
    for row in rows {
        writer.row(row)?;
    }
    writer.finish()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// [`RowsError`], naming `file` and the line.
pub fn read_csv(file: &str, input: impl io::Read) -> Result<Vec<CellRow>, RowsError> {
    let fail = |source| RowsError::Csv {
        file: file.to_owned(),
        source,
    };
    let mut csv = csv::Reader::from_reader(input);
    let header = csv.headers().map_err(fail)?.clone();
    let place = |name| header.iter().position(|column| column == name);
    let (cell, asked) = (place("cell"), place("capacity_asked"));
    let mut rows = Vec::new();
    for record in csv.records() {
        let record = record.map_err(fail)?;
        let text = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or("").to_owned();
        rows.push(CellRow {
            cell: text(cell),
            capacity_asked: text(asked),
            row: record.deserialize(Some(&header)).map_err(fail)?,
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_as_they_were_written() {
        let one = CellRow {
            cell: "churn:streams=3,events=5/seed-1/h200/1.1x/best-fit".into(),
            capacity_asked: "1.1x".into(),
            row: Row {
                trace: "churn:streams=3,events=5".into(),
                policy: "best-fit".into(),
                seed: Some(1),
                failed: 7,
                ..Row::default()
            },
        };
        let mut csv = Vec::new();
        write([&one, &CellRow::default()], &mut csv).expect("memory is writable");
        let read = read_csv("rows.csv", &csv[..]).expect("it was just written");
        assert_eq!(read, [one.clone(), CellRow::default()]);
        let header = String::from_utf8_lossy(&csv);
        assert!(header.starts_with("cell,capacity_asked,trace,policy,"));
    }

    #[test]
    fn a_bad_cell_is_told_with_its_line() {
        let mut csv = Vec::new();
        write([&CellRow::default()], &mut csv).expect("memory is writable");
        let text = String::from_utf8(csv).expect("text").replace(",0,", ",no,");
        let error = read_csv("x/rows.csv", text.as_bytes()).expect_err("a word for a number");
        assert!(error.to_string().starts_with("x/rows.csv: "), "{error}");
        assert!(error.to_string().contains("line: 2"), "{error}");
    }
}
