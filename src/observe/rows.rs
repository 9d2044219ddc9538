//! Rows as csv and as JSON: the same names in the same order, integers only.
//! What is undefined is an empty cell in csv and null in JSON.

use std::io::{self, Write};

use super::Row;

/// Rows that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// A csv file whose header or a row does not fit.
    #[error("{file}: {source}; the columns are those of docs/metrics.md")]
    Csv {
        /// The file.
        file: String,
        /// What is wrong, with its line.
        source: csv::Error,
    },
    /// A JSON file that does not fit.
    #[error("{file}: {source}; the keys are those of docs/metrics.md")]
    Json {
        /// The file.
        file: String,
        /// What is wrong, with its line.
        source: serde_json::Error,
    },
}

/// The names of the columns, in order.
///
/// # Panics
/// Never: a row is an object of plain values.
#[must_use]
pub fn columns() -> Vec<String> {
    let row = serde_json::to_value(Row::default()).expect("a row is plain values");
    let object = row.as_object().expect("a row is an object");
    object.keys().cloned().collect()
}

/// Writes rows as csv, the header first, even where there is no row.
///
/// # Errors
/// What `out` says.
pub fn write_csv(rows: &[Row], out: impl Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    csv.write_record(columns())?;
    for row in rows {
        csv.serialize(row)?;
    }
    csv.flush()
}

/// Writes rows as a JSON list of objects.
///
/// # Errors
/// What `out` says.
pub fn write_json(rows: &[Row], mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, rows)?;
    out.write_all(b"\n")
}

/// Reads what [`write_csv`] wrote; columns that it does not know are left out, so that
/// files with more of them can be read too.
///
/// # Errors
/// [`RowsError`], naming `file` and the line.
pub fn read_csv(file: &str, input: impl io::Read) -> Result<Vec<Row>, RowsError> {
    let rows = csv::Reader::from_reader(input).into_deserialize();
    rows.collect::<Result<_, _>>()
        .map_err(|source| RowsError::Csv {
            file: file.to_owned(),
            source,
        })
}

/// Reads what [`write_json`] wrote.
///
/// # Errors
/// [`RowsError`], naming `file` and the line.
pub fn read_json(file: &str, input: impl io::Read) -> Result<Vec<Row>, RowsError> {
    serde_json::from_reader(input).map_err(|source| RowsError::Json {
        file: file.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let full = Row {
            trace: "a, \"b\"".into(),
            policy: "pytorch:max_split_size_mb:128,expandable_segments:True".into(),
            first_failure_event: Some(3),
            mean_external_fragmentation_ppm: Some(0),
            capacity_bytes: u64::MAX,
            seed: Some(42),
            ..Row::default()
        };
        vec![Row::default(), full]
    }

    #[test]
    fn rows_are_read_back_as_they_were_written() {
        let (mut csv, mut json) = (Vec::new(), Vec::new());
        write_csv(&rows(), &mut csv).expect("memory is writable");
        write_json(&rows(), &mut json).expect("memory is writable");
        assert_eq!(read_csv("rows.csv", &csv[..]).expect("csv"), rows());
        assert_eq!(read_json("rows.json", &json[..]).expect("json"), rows());
        let header = String::from_utf8_lossy(&csv);
        assert_eq!(header.lines().next(), Some(columns().join(",").as_str()));
        let mut empty = Vec::new();
        write_csv(&[], &mut empty).expect("memory is writable");
        assert_eq!(
            String::from_utf8_lossy(&empty).trim_end(),
            columns().join(",")
        );
    }

    #[test]
    fn a_bad_cell_is_told_with_its_file_and_line() {
        let mut csv = Vec::new();
        write_csv(&rows(), &mut csv).expect("memory is writable");
        let text = String::from_utf8(csv)
            .expect("it is text")
            .replace("18446744073709551615", "many");
        let error = read_csv("runs/rows.csv", text.as_bytes()).expect_err("a word for a number");
        let message = error.to_string();
        assert!(message.starts_with("runs/rows.csv: "), "{message}");
        assert!(message.contains("line: 3"), "{message}");
        let error = read_json("rows.json", &b"[{}]"[..]).expect_err("no keys");
        assert!(
            error.to_string().contains("missing field `trace`"),
            "{error}"
        );
    }
}
