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
