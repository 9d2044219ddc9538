//! Reads a timeline back.

use std::io;

use super::{Bucket, Range, SERIES};
use crate::observe::rows::RowsError;

/// Columns before the series, and the one after them.
const BEFORE: usize = 4;
const AFTER: usize = 1;

/// Reads the buckets that [`super::Timeline::write_csv`] wrote.
///
/// # Errors
/// [`RowsError`], naming `file` and the line: other columns, or a cell that is no number.
pub fn read_csv(file: &str, input: impl io::Read) -> Result<Vec<Bucket>, RowsError> {
    let fail = |source| RowsError::Csv {
        file: file.to_owned(),
        source,
    };
    let mut csv = csv::Reader::from_reader(input);
    let width = csv.headers().map_err(fail)?.len();
    let expected = BEFORE + 3 * SERIES.len() + AFTER;
    if width != expected {
        let what = format!("{width} columns, where a timeline has {expected}");
        return Err(fail(csv::Error::from(io::Error::other(what))));
    }
    let records = csv.into_deserialize::<Vec<Option<u64>>>();
    records
        .map(|cells| Ok(bucket(&cells.map_err(fail)?)))
        .collect()
}

/// A bucket of its cells; only what may be undefined is ever empty.
fn bucket(cells: &[Option<u64>]) -> Bucket {
    let whole = |at: usize| cells[at].unwrap_or(0);
    let range = |series: usize| {
        let at = BEFORE + 3 * series;
        Some(Range {
            last: cells[at]?,
            min: cells[at + 1]?,
            max: cells[at + 2]?,
        })
    };
    let known = |series: usize| {
        range(series).unwrap_or(Range {
            min: 0,
            max: 0,
            last: 0,
        })
    };
    Bucket {
        first_event: whole(0),
        last_event: whole(1),
        first_ns: whole(2),
        last_ns: whole(3),
        requested_bytes: known(0),
        occupied_bytes: known(1),
        reserved_bytes: known(2),
        free_bytes: known(3),
        largest_free_bytes: known(4),
        external_fragmentation_ppm: range(5),
        failed: whole(cells.len() - AFTER),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sample, Timeline};
    use super::*;

    #[test]
    fn buckets_are_read_back_as_they_were_written() {
        let mut timeline = Timeline::new(4);
        for event in 0..11u64 {
            let sample = Sample {
                requested_bytes: event * 3,
                free_bytes: event % 4 * 100,
                largest_free_bytes: event % 4 * 70,
                failed: event / 5,
                ..Sample::default()
            };
            timeline.add(event, event * 1000, &sample);
        }
        let mut text = Vec::new();
        timeline.write_csv(&mut text).expect("memory is writable");
        let read = read_csv("timeline.csv", &text[..]).expect("it was just written");
        assert_eq!(read, timeline.buckets());
    }

    #[test]
    fn what_is_no_timeline_is_told_with_its_file() {
        let error = read_csv("a/timeline.csv", &b"a,b\n1,2\n"[..]).expect_err("two columns");
        let words = "a/timeline.csv: 2 columns, where a timeline has 23";
        assert!(error.to_string().starts_with(words), "{error}");
        let mut text = Vec::new();
        let mut timeline = Timeline::default();
        timeline.add(0, 5, &Sample::default());
        timeline.write_csv(&mut text).expect("memory is writable");
        let text = String::from_utf8(text)
            .expect("text")
            .replace("0,0,5,5", "0,x,5,5");
        let error = read_csv("t.csv", text.as_bytes()).expect_err("a word for a number");
        assert!(error.to_string().contains("line: 2"), "{error}");
    }
}
