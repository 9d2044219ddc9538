//! What the integration tests share: where recordings and specifications lie.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::Read as _;
use std::path::PathBuf;

/// A file or folder of the shared material; `None`, and a sentence, where it is absent.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VRAMLAB_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let full = root.join(path);
    if full.exists() {
        return Some(full);
    }
    eprintln!("skipped: {} is not there", full.display());
    None
}

/// The text of a `.gz` file.
pub fn gunzip(path: &std::path::Path) -> String {
    let file = std::fs::File::open(path).expect("the file opens");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("the file inflates");
    text
}

/// The names of a folder's files that end in `suffix`, without it, in order.
pub fn names(folder: &std::path::Path, suffix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(suffix)?.to_owned()))
        .collect();
    names.sort();
    names
}

/// The scripts of a folder of the shared material with the lines that the official
/// library answered, by name: name, script, answer. None where the folder is absent.
pub fn scripts(folder: &str) -> Vec<(String, String, String)> {
    let Some(folder) = shared(folder) else {
        return Vec::new();
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
    names(&folder, ".txt")
        .into_iter()
        .map(|name| {
            let script = read(&format!("{name}.txt"));
            let answer = read(&format!("{name}.out"));
            (name, script, answer)
        })
        .collect()
}

/// A random program of a corpus, and what the official library answered.
#[derive(serde::Deserialize)]
pub struct Program {
    /// Whether the library's events had falling handles.
    pub events_descending: bool,
    /// One command a line.
    pub script: Vec<String>,
    /// One line an entry.
    pub expected: Vec<String>,
}

/// Compares line by line and counts; the first difference is told with its place.
pub fn same_lines(name: &str, expected: &str, got: &str) -> Result<usize, String> {
    let (want, have): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), got.lines().collect());
    let differs = want
        .iter()
        .zip(&have)
        .position(|(want, have)| want.trim_end() != have.trim_end());
    if let Some(at) = differs {
        let before = have[at.saturating_sub(12)..at].join("\n");
        let at_line = at + 1;
        return Err(format!(
            "{name}, line {at_line}:\n{before}\n- {}\n+ {}",
            want[at], have[at]
        ));
    }
    if want.len() != have.len() {
        return Err(format!(
            "{name}: {} lines expected, {} printed",
            want.len(),
            have.len()
        ));
    }
    Ok(want.len())
}
