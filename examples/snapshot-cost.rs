//! Imports one uncompressed snapshot and prints what that cost: `snapshot-cost FILE [--rewrite OUT [REPEATS]]`.
//!
//! With `--rewrite` it writes the snapshot to OUT instead, each device's trace REPEATS times over, which
//! makes files of any size for measuring.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use vramlab::files::peak_memory_bytes;
use vramlab::trace::pytorch::{self, Options};
use vramlab::trace::snapshot::{self, Snapshot};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [file] => println!("{}", Cost::of(file)?.told()),
        [file, flag, out, repeats @ ..] if flag == "--rewrite" => {
            let repeats = repeats.first().map_or(Ok(1), |text| text.parse())?;
            let snapshot = snapshot::read(&std::fs::read(file)?)?;
            rewrite(snapshot, repeats, Path::new(out))?;
        }
        _ => return Err("usage: snapshot-cost FILE [--rewrite OUT [REPEATS]]".into()),
    }
    Ok(())
}

/// What the import of a file took.
pub struct Cost {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Entries in the file.
    pub entries: usize,
    /// Events of the traces.
    pub events: usize,
    /// Time to read and decode the file.
    pub decode: Duration,
    /// Time to make traces of what was decoded.
    pub import: Duration,
