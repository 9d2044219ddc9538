//! The journal of a run: one line a finished cell, appended whole.
//!
//! The first line is the manifest. A run that was cut off may leave a torn last line; it is
//! dropped, and its cell runs again. Lines stand in the order in which cells ended, which
//! threads decide; whatever is written from them is sorted by the cells' numbers first.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::bands::{self, Points};
use super::manifest::Manifest;
use super::rows::{self, CellRow};
use crate::observe::Row;

/// The journal of a run that is going on, in its folder.
pub const JOURNAL: &str = "journal.jsonl";
/// The cells of a finished shard, in order.
pub const CELLS: &str = "cells.jsonl";

/// What is known of a finished cell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Line {
    /// The cell's place among all cells of the experiment.
    pub number: usize,
    /// Its stable id.
    pub cell: String,
    /// The capacity as a row names it.
    pub capacity_asked: String,
    /// The summary; none where the policy broke a rule.
    pub row: Option<Row>,
    /// The rule that the policy broke, with the event.
    pub broke: Option<String>,
    /// What the cell was like on the way.
    pub points: Points,
}

/// A journal that cannot be read, written or gone on with.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line that is no line of a journal.
    #[error("{}, line {line}: not a line of a journal ({what})", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What the reader says.
        what: String,
    },
    /// The journal is of another experiment, or of another state of it.
    #[error("{} was written with other {}", path.display(), differs.join(", "))]
    Changed {
        /// Which file.
        path: PathBuf,
        /// The keys of the manifest that differ.
        differs: Vec<String>,
    },
}

impl JournalError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| JournalError::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Begins a journal.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, manifest: &Manifest) -> Result<Self, JournalError> {
        let mut file = File::create(path).map_err(JournalError::io(path))?;
        append(&mut file, manifest).map_err(JournalError::io(path))?;
        Ok(Journal {
            path: path.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// Goes on with a journal; the numbers of the cells that are done come with it.
    ///
    /// # Errors
    /// A journal that is damaged, or was begun with other inputs.
    pub fn resume(path: &Path, manifest: &Manifest) -> Result<(Self, Vec<usize>), JournalError> {
        let scan = Scan::of(path)?;
        let Some(begun) = scan.manifest else {
            return Ok((Journal::create(path, manifest)?, Vec::new()));
        };
        let differs = manifest.differences(&begun);
        if !differs.is_empty() {
            let path = path.to_owned();
            return Err(JournalError::Changed { path, differs });
        }
        let open = || -> io::Result<File> {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.set_len(scan.whole_bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let journal = Journal {
            path: path.to_owned(),
            file: Mutex::new(open().map_err(JournalError::io(path))?),
        };
        Ok((journal, scan.lines.iter().map(|line| line.number).collect()))
    }

    /// Appends a line, whole.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// If another thread panicked while it wrote.
    pub fn append(&self, line: &Line) -> Result<(), JournalError> {
        let mut file = self.file.lock().expect("no writer panics");
        append(&mut file, line).map_err(JournalError::io(&self.path))
    }
}

/// Writes a value as one line, in one call.
fn append(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// Where a line is.
#[derive(Debug, Clone, Copy)]
struct Place {
    number: usize,
    file: usize,
    offset: u64,
    bytes: usize,
}

/// What a journal holds.
struct Scan {
    /// None where not even the first line is whole.
    manifest: Option<Manifest>,
    lines: Vec<Place>,
    /// Bytes up to the end of the last whole line.
    whole_bytes: u64,
}

impl Scan {
    fn of(path: &Path) -> Result<Self, JournalError> {
        let mut input = BufReader::new(File::open(path).map_err(JournalError::io(path))?);
        let mut scan = Scan {
            manifest: None,
            lines: Vec::new(),
            whole_bytes: 0,
        };
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let bytes = input
                .read_until(b'\n', &mut text)
                .map_err(JournalError::io(path))?;
            // A line without its end was torn.
            if text.last() != Some(&b'\n') {
                break;
            }
            let taken = scan.take(&text);
            taken.map_err(|error| JournalError::Damaged {
                path: path.to_owned(),
                line: number,
                what: error.to_string(),
            })?;
            scan.whole_bytes += bytes as u64;
        }
        Ok(scan)
    }

    fn take(&mut self, text: &[u8]) -> serde_json::Result<()> {
        if self.manifest.is_none() {
            self.manifest = Some(serde_json::from_slice(text)?);
            return Ok(());
        }
        let line: Line = serde_json::from_slice(text)?;
        self.lines.push(Place {
            number: line.number,
            file: 0,
            offset: self.whole_bytes,
            bytes: text.len(),
        });
        Ok(())
    }
}

/// The lines of one or several journals, in the order of the cells. Only their places are
/// held.
#[derive(Debug)]
pub struct Lines {
    paths: Vec<PathBuf>,
    files: Vec<File>,
    places: Vec<Place>,
    /// What the journals were begun with, one each.
    pub manifests: Vec<Manifest>,
}

impl Lines {
    /// Finds the lines of journals.
    ///
    /// # Errors
    /// A journal that cannot be read or is damaged.
    pub fn of(paths: &[PathBuf]) -> Result<Self, JournalError> {
        let mut lines = Lines {
            paths: paths.to_vec(),
            files: Vec::new(),
            places: Vec::new(),
            manifests: Vec::new(),
        };
        for (file, path) in paths.iter().enumerate() {
            let scan = Scan::of(path)?;
            let manifest = scan.manifest.ok_or_else(|| JournalError::Damaged {
                path: path.clone(),
                line: 1,
                what: "the file ends within it".into(),
            })?;
            lines.manifests.push(manifest);
            let places = scan.lines.into_iter().map(|place| Place { file, ..place });
            lines.places.extend(places);
            lines
                .files
                .push(File::open(path).map_err(JournalError::io(path))?);
        }
        lines.places.sort_by_key(|place| place.number);
        lines.places.dedup_by_key(|place| place.number);
        Ok(lines)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The numbers of the cells.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.places.iter().map(|place| place.number)
    }

    /// The line at a place, from 0.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn get(&self, at: usize) -> Result<Line, JournalError> {
        let place = self.places[at];
        let read = || -> io::Result<Line> {
            let mut file = &self.files[place.file];
            file.seek(SeekFrom::Start(place.offset))?;
            let mut text = vec![0; place.bytes];
            file.read_exact(&mut text)?;
            Ok(serde_json::from_slice(&text)?)
        };
        read().map_err(JournalError::io(&self.paths[place.file]))
    }

    /// All rows, in order.
    ///
    /// # Errors
    /// What the system says.
    pub fn rows(&self) -> Result<Vec<CellRow>, JournalError> {
        let mut rows = Vec::new();
        for at in 0..self.len() {
            rows.extend(self.get(at)?.into_row());
        }
        Ok(rows)
    }

    /// The policies that broke a rule: the cell and the rule.
    ///
    /// # Errors
    /// What the system says.
    pub fn broken(&self) -> Result<Vec<(String, String)>, JournalError> {
        let mut broken = Vec::new();
        for at in 0..self.len() {
            let line = self.get(at)?;
            broken.extend(line.broke.map(|what| (line.cell, what)));
        }
        Ok(broken)
    }

    /// Writes `rows.csv`.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_rows(&self, out: impl Write) -> io::Result<()> {
        let mut writer = rows::Writer::new(out)?;
        for at in 0..self.len() {
            if let Some(row) = self.get(at).map_err(io::Error::other)?.into_row() {
                writer.row(&row)?;
            }
        }
        writer.finish()
    }

    /// Writes `bands.csv`: groups in the order of their first cells. The points of one
    /// group are held at a time.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_bands(&self, out: impl Write) -> io::Result<()> {
        let mut groups: Vec<([String; 3], Vec<usize>)> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for at in 0..self.len() {
            let Some(row) = self.get(at).map_err(io::Error::other)?.into_row() else {
                continue;
            };
            let group = [row.row.trace, row.capacity_asked, row.row.policy];
            let place = *known.entry(group.clone()).or_insert(groups.len());
            if place == groups.len() {
                groups.push((group, Vec::new()));
            }
            groups[place].1.push(at);
        }
        let mut writer = bands::Writer::new(out)?;
        for (group, members) in &groups {
            let points = members.iter().map(|at| Ok(self.get(*at)?.points));
            let points: Result<Vec<Points>, JournalError> = points.collect();
            let points = points.map_err(io::Error::other)?;
            writer.group(group.each_ref().map(String::as_str), &points)?;
        }
        writer.finish()
    }

    /// Writes the journal anew, in the order of the cells.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_sorted(&self, manifest: &Manifest, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        serde_json::to_writer(&mut out, manifest)?;
        writeln!(out)?;
        for at in 0..self.len() {
            let line = self.get(at).map_err(io::Error::other)?;
            serde_json::to_writer(&mut out, &line)?;
            writeln!(out)?;
        }
        out.flush()
    }
}

impl Line {
    /// Its row.
    #[must_use]
    pub fn into_row(self) -> Option<CellRow> {
        Some(CellRow {
            cell: self.cell,
            capacity_asked: self.capacity_asked,
            row: self.row?,
        })
    }
}
