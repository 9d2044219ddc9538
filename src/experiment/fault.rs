//! What is wrong with an experiment file, and where.

use std::ops::Range;

/// The text of a file, kept for errors that are found later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The file as it was named.
    pub file: String,
    /// All of it.
    pub text: String,
}

impl Text {
    /// An error at a span of the text.
    pub fn fault(&self, span: Range<usize>, what: impl Into<String>) -> FileError {
        FileError {
            place: self.place(span.start),
            file: self.file.clone(),
            text: self.text.clone(),
            span: Some(span),
            what: what.into(),
            help: String::new(),
        }
    }

    /// An error of the file as a whole.
    pub fn whole(&self, what: impl Into<String>) -> FileError {
        FileError {
            place: String::new(),
            file: self.file.clone(),
            text: self.text.clone(),
            span: None,
            what: what.into(),
            help: String::new(),
        }
    }

    /// `:LINE:COLUMN`, both counted from 1.
    fn place(&self, at: usize) -> String {
        let before = &self.text[..at.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n');
        format!(":{line}:{}", column.count() + 1)
    }
}

/// Why an experiment file cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{place}: {what}")]
pub struct FileError {
    /// The file as it was named.
    pub file: String,
    /// Its text.
    pub text: String,
    /// `:LINE:COLUMN`, or nothing.
    place: String,
    /// The bytes that are meant.
    pub span: Option<Range<usize>>,
    /// What is wrong.
    pub what: String,
    /// The way out; empty where the first part says so already.
    pub help: String,
}

impl FileError {
    /// The same with the way out.
    #[must_use]
    pub fn or(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}
