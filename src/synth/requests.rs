//! Requests to services of large language models, as two public data sets tell them.
//!
//! - Azure, 2023 (Patel et al., Splitwise, ISCA 2024): csv with the columns `TIMESTAMP`,
//!   `ContextTokens` and `GeneratedTokens`.
//! - Mooncake (Qin et al., Mooncake, FAST 2025): a JSON object a line with `timestamp` in
//!   ms, `input_length`, `output_length` and `hash_ids`: a number for each 512 tokens of
//!   the prompt, equal where all of the prompt up to there is equal.
//!
//! Both come in order of arrival; a file is read line by line.

use std::fs::File;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::trace::text::{Columns, Lines, Row, number};
use crate::trace::{OpenOptions, TraceError, unpack};

/// Tokens of the prompt behind each of [`Request::hashes`].
pub const HASH_TOKENS: u64 = 512;

/// One request to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When it came, in ns since the first of its file.
    pub arrival_ns: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens that were generated.
    pub output_tokens: u64,
    /// A number for each [`HASH_TOKENS`] of the prompt (the last may cover fewer), equal
    /// where the prompts are equal up to there; empty where the file tells none.
    pub hashes: Vec<u64>,
}

/// The requests of a file, one by one. After an error there is nothing more.
pub struct Requests {
    input: Box<dyn BufRead>,
    file: String,
    format: Format,
    line: u64,
    text: String,
    first_ns: Option<u64>,
    last_ns: u64,
    over: bool,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Azure {
        time: usize,
        prompt: usize,
        output: usize,
    },
    Mooncake,
}

/// A line of Mooncake's.
#[derive(Deserialize)]
struct Line {
    timestamp: u64,
    input_length: u64,
    output_length: u64,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

/// Where a file of requests lies: `path` itself, else below the folder of shared material
/// that `VRAMLAB_SHARED` names (`../shared` where it names none).
///
/// # Errors
/// It is in neither place.
pub fn locate(path: &str) -> Result<PathBuf, TraceError> {
    let here = PathBuf::from(path);
    if here.exists() {
        return Ok(here);
    }
    let shared = std::env::var_os("VRAMLAB_SHARED").unwrap_or_else(|| "../shared".into());
    let there = Path::new(&shared).join(path);
    if there.exists() {
        return Ok(there);
    }
    let what = format!("no such file, and no {}", there.display());
    Err(TraceError::whole(path, what)
        .or("give the path of the data set, or set VRAMLAB_SHARED to the folder it lies in"))
}

impl Requests {
    /// Opens a file, also as `.gz` or `.zst`; its format is found by its content.
    ///
    /// # Errors
    /// What the system says, or content of neither format.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = path.display().to_string();
        let raw = File::open(path).map_err(|error| TraceError::io(&*file, error))?;
        let limit_bytes = OpenOptions::default().limit_bytes;
        let unpacked = unpack::unpack(Box::new(raw), &file, limit_bytes)?;
        let mut requests = Requests {
            input: unpacked.input,
            file,
            format: Format::Mooncake,
            line: 0,
            text: String::new(),
            first_ns: None,
            last_ns: 0,
            over: false,
        };
        if !unpacked.head.trim_ascii_start().starts_with(b"{") {
            requests.format = requests.header()?;
        }
        Ok(requests)
    }

    /// The columns of Azure's csv.
    fn header(&mut self) -> Result<Format, TraceError> {
        self.row()?;
        let columns = |text: &str| -> Result<Format, String> {
            let mut columns = Columns::of(text)?;
            Ok(Format::Azure {
                time: columns.need(&["timestamp"])?,
                prompt: columns.need(&["contexttokens"])?,
                output: columns.need(&["generatedtokens"])?,
            })
        };
        columns(&self.text).map_err(|what| {
            self.error(what).or(
                "expected Azure's csv (TIMESTAMP,ContextTokens,GeneratedTokens) or \
                 Mooncake's JSON lines (timestamp, input_length, output_length, hash_ids)",
            )
        })
    }

    /// Reads the next row that is not blank; false after the last.
    fn row(&mut self) -> Result<bool, TraceError> {
        let mut lines = Lines::after(&mut *self.input, &self.file, self.line);
        let found = lines.next_row(&mut self.text, "");
        self.line = lines.line();
        found
    }

    fn error(&self, what: impl Into<String>) -> TraceError {
        TraceError::at_line(&*self.file, self.line, what)
    }

    fn read(&mut self) -> Result<Option<Request>, TraceError> {
        if !self.row()? {
            return Ok(None);
        }
        let parsed = match self.format {
            Format::Mooncake => mooncake(&self.text),
            Format::Azure {
                time,
                prompt,
                output,
            } => azure(&self.text, [time, prompt, output]),
        };
        let mut request = parsed.map_err(|what| self.error(what))?;
        let first_ns = *self.first_ns.get_or_insert(request.arrival_ns);
        if request.arrival_ns < first_ns + self.last_ns {
            return Err(self
                .error("the request came before the one above it")
                .or("sort the file by arrival"));
        }
        request.arrival_ns -= first_ns;
        self.last_ns = request.arrival_ns;
        Ok(Some(request))
    }
}

impl Iterator for Requests {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read().transpose();
        self.over = !matches!(read, Some(Ok(_)));
        read
    }
}

fn mooncake(text: &str) -> Result<Request, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let arrival_ns = line.timestamp.checked_mul(1_000_000);
    Ok(Request {
        arrival_ns: arrival_ns.ok_or("timestamp: expected milliseconds")?,
        prompt_tokens: line.input_length,
        output_tokens: line.output_length,
        hashes: line.hash_ids,
    })
}

fn azure(text: &str, [time, prompt, output]: [usize; 3]) -> Result<Request, String> {
    let row = Row::split(text)?;
    let time = row.get(Some(time));
    Ok(Request {
        arrival_ns: timestamp_ns(&time).ok_or_else(|| {
            format!("TIMESTAMP '{time}': expected a time such as 2023-11-16 18:17:03.9799600")
        })?,
        prompt_tokens: number(&row.get(Some(prompt)), "ContextTokens")?,
        output_tokens: number(&row.get(Some(output)), "GeneratedTokens")?,
        hashes: Vec::new(),
    })
}

/// `2023-11-16 18:17:03.9799600`, also with `+00:00` behind it, in ns since 1970.
fn timestamp_ns(text: &str) -> Option<u64> {
    let text = text.strip_suffix("+00:00").unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T'])?;
    let [year, month, day] = parts(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = parts(time, ':')?;
    let in_range = (1970..=2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61
        && fraction.len() <= 9
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !in_range {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000_000 + nanos)
}

/// Three numbers between two separators.
fn parts(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse().ok());
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    // A leap year's own day counts from March on.
    let full = if month > 2 { year } else { year - 1 };
    (year - 1970) * 365 + leaps(full) - leaps(1969) + BEFORE[month as usize - 1] + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn read(text: &str) -> Vec<Result<Request, String>> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        match Requests::open(file.path()) {
            Ok(requests) => requests
                .map(|it| it.map_err(|error| error.to_string()))
                .collect(),
            Err(error) => vec![Err(error.to_string())],
        }
    }

    fn request(arrival_ns: u64, prompt: u64, output: u64, hashes: &[u64]) -> Request {
        Request {
            arrival_ns,
            prompt_tokens: prompt,
            output_tokens: output,
            hashes: hashes.to_vec(),
        }
    }

    #[test]
    fn azures_rows_are_read_across_midnight_and_a_leap_day() {
        let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
                    2024-02-28 23:59:59.5,4808,10\r\n\
                    2024-02-29 00:00:00.0000001,3180,8\r\n\
                    2024-03-01 00:00:00+00:00,1,2";
        let expected = [
            request(0, 4808, 10, &[]),
            request(500_000_100, 3180, 8, &[]),
            request(86_400_500_000_000, 1, 2, &[]),
        ];
        assert_eq!(read(text), expected.map(Ok));
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1), 11_017);
    }

    #[test]
    fn mooncakes_lines_are_read_with_their_hashes() {
        let text = r#"{"timestamp": 27, "input_length": 600, "output_length": 5, "hash_ids": [0, 9]}

{"timestamp": 30, "input_length": 10, "output_length": 1, "hash_ids": [3]}"#;
        let expected = [request(0, 600, 5, &[0, 9]), request(3_000_000, 10, 1, &[3])];
        assert_eq!(read(text), expected.map(Ok));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,5,5\n";
        for (text, part) in [
            (
                format!("{azure}yesterday,1,1"),
                "line 3: TIMESTAMP 'yesterday'",
            ),
            (
                format!("{azure}2023-11-16 18:17:02,1,1"),
                "line 3: the request came before",
            ),
            (
                format!("{azure}2023-11-16 18:17:04,many,1"),
                "ContextTokens 'many'",
            ),
            (
                "a,b\n1,2".to_owned(),
                "line 1: the header 'a,b' lacks a column",
            ),
            (
                "{\"timestamp\": 1}".to_owned(),
                "missing field `input_length`",
            ),
        ] {
            let found = read(&text).pop().expect("an answer");
            let error = found.expect_err("it is wrong");
            assert!(error.contains(part), "{error}");
        }
    }
}
