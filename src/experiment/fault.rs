//! What is wrong with an experiment file, and where.

use std::ops::Range;
use std::sync::Arc;

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
    pub fn fault(self: &Arc<Self>, span: Range<usize>, what: impl Into<String>) -> FileError {
        FileError {
            text: Arc::clone(self),
            span: Some(span),
            what: what.into(),
            help: String::new(),
        }
    }

    /// An error of the file as a whole.
    pub fn whole(self: &Arc<Self>, what: impl Into<String>) -> FileError {
        FileError {
            text: Arc::clone(self),
            span: None,
            what: what.into(),
            help: String::new(),
        }
    }
}

/// Why an experiment file cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {what}", text.file, self.place())]
pub struct FileError {
    /// The file.
    pub text: Arc<Text>,
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

    /// `:LINE:COLUMN`, both counted from 1; nothing where the whole file is meant.
    fn place(&self) -> String {
        let Some(span) = &self.span else {
            return String::new();
        };
        let text = &self.text.text;
        let before = &text[..span.start.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n');
        format!(":{line}:{}", column.count() + 1)
    }
}
