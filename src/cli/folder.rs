//! A folder of results: every file is whole or absent, and the manifest names them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;

use super::CliError;
use crate::files::write_without_waiting;
use crate::plot::{self, Chart, Format};

/// Where results go.
pub struct Folder {
    path: PathBuf,
    files: Mutex<Vec<String>>,
}

impl Folder {
    /// Makes the folder, and sees to it that files can be written there: better now than
    /// after the work.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn new(path: &Path) -> Result<Self, CliError> {
        let probe = path.join(format!(".probe.{}", std::process::id()));
        let usable = fs::create_dir_all(path)
            .and_then(|()| fs::write(&probe, b""))
            .and_then(|()| fs::remove_file(&probe));
        usable.map_err(|error| CliError::write(path, error))?;
        Ok(Folder {
            path: path.to_owned(),
            files: Mutex::new(Vec::new()),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files written so far, by name.
    pub fn files(&self) -> Vec<String> {
        let mut files = self.files.lock().expect("no writer panics").clone();
        files.sort();
        files
    }

    /// Writes a file by `fill`; its name may lead into a folder below.
    ///
    /// # Errors
    /// What the system or `fill` says.
    pub fn file(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CliError> {
        let path = self.path.join(name);
        let above = path.parent().unwrap_or(&self.path);
        fs::create_dir_all(above)
            .and_then(|()| write_without_waiting(&path, fill))
            .map_err(|error| CliError::write(&path, error))?;
        let mut files = self.files.lock().expect("no writer panics");
        files.push(name.to_owned());
        Ok(())
    }

    /// Writes JSON.
    ///
    /// # Errors
    /// What the system says.
    pub fn json(&self, name: &str, value: &impl Serialize) -> Result<(), CliError> {
        self.file(name, |out| {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)
        })
    }

    /// Draws a chart in both formats.
    ///
    /// # Errors
    /// What drawing or the system says.
    pub fn chart(&self, name: &str, chart: &Chart) -> Result<(), CliError> {
        self.drawn(name, &plot::render_both(chart)?)
    }

    /// Writes a chart that is drawn.
    ///
    /// # Errors
    /// What the system says.
    pub fn drawn(&self, name: &str, drawn: &[(Format, Vec<u8>)]) -> Result<(), CliError> {
        for (format, bytes) in drawn {
            let name = format!("{name}.{}", format.extension());
            self.file(&name, |out| out.write_all(bytes))?;
        }
        Ok(())
    }
}

/// Names for folders and files, one a label, none twice: what a file system may not take
/// becomes a dash.
pub fn file_names<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = Vec::<String>::new();
    for label in labels {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=');
        let name: String = label
            .chars()
            .map(|c| if plain(c) { c } else { '-' })
            .take(100)
            .collect();
        let name = name.trim_start_matches(['.', '-']);
        let name = if name.is_empty() { "unnamed" } else { name };
        let mut free = name.to_owned();
        let mut number = 2;
        while taken.iter().any(|other| other.eq_ignore_ascii_case(&free)) {
            free = format!("{name}-{number}");
            number += 1;
        }
        taken.push(free);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_names_of_files_and_none_twice() {
        let labels = ["buddy", "a:b=1,c=2", "a/b=1,c=2", "../x", "BUDDY", "", "é"];
        assert_eq!(
            file_names(labels.into_iter()),
            [
                "buddy",
                "a-b=1-c=2",
                "a-b=1-c=2-2",
                "x",
                "BUDDY-2",
                "unnamed",
                "unnamed-2"
            ]
        );
    }
}
