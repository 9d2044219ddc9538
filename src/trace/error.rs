//! The one error type of reading and writing traces: which file, which place in it,
//! what was found there, and what would do instead.

use std::fmt;

/// Where in a file something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// A byte offset from the start of the (decompressed) file.
    Offset(u64),
    /// The file as a whole.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, ", line {line}"),
            Place::Offset(offset) => write!(f, ", byte {offset}"),
            Place::Whole => Ok(()),
        }
    }
}

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{file}: {source}")]
    Io {
        /// The file as the caller named it.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file holds what its format does not allow.
    #[error("{file}{place}: {what}{}", after(way_out))]
    Input {
        /// The file as the caller named it.
        file: String,
        /// Where in it.
        place: Place,
        /// What was found, with the offending value.
        what: String,
        /// What would do; empty where the first part says so already.
        way_out: String,
    },
}

/// The way out, set off from what was found.
fn after(way_out: &str) -> String {
    if way_out.is_empty() {
        String::new()
    } else {
        format!("; {way_out}")
    }
}

impl TraceError {
    /// An error at a line, counted from 1.
    pub fn at_line(file: impl Into<String>, line: u64, what: impl Into<String>) -> Self {
        Self::at(file, Place::Line(line), what)
    }

    /// An error at a byte offset of the decompressed file.
    pub fn at_offset(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Self::at(file, Place::Offset(offset), what)
    }

    /// An error of the file as a whole.
    pub fn whole(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self::at(file, Place::Whole, what)
    }

    /// An error at `place`.
    pub fn at(file: impl Into<String>, place: Place, what: impl Into<String>) -> Self {
        TraceError::Input {
            file: file.into(),
            place,
            what: what.into(),
            way_out: String::new(),
        }
    }

    /// An error of the operating system.
    pub fn io(file: impl Into<String>, source: std::io::Error) -> Self {
        TraceError::Io {
            file: file.into(),
            source,
        }
    }

    /// The same error, saying what would do instead.
    #[must_use]
    pub fn or(mut self, advice: impl Into<String>) -> Self {
        if let TraceError::Input { way_out, .. } = &mut self {
            *way_out = advice.into();
        }
        self
    }

    /// The place of an error in the file; [`Place::Whole`] for the system's.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            TraceError::Input { place, .. } => *place,
            TraceError::Io { .. } => Place::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_place_value_and_way_out() {
        let error = TraceError::at_line("a.csv", 7, "size '80GB'").or("write 80GiB");
        assert_eq!(error.to_string(), "a.csv, line 7: size '80GB'; write 80GiB");
        assert_eq!(error.place(), Place::Line(7));
        let error = TraceError::at_offset("a.vlt", 40, "checksum differs");
        assert_eq!(error.to_string(), "a.vlt, byte 40: checksum differs");
    }
}
