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
    /// The high-water mark of this process, where the system tells it.
    pub peak_bytes: Option<u64>,
}

impl Cost {
    /// Imports `file` as the program does: decoded while it is read.
    pub fn of(file: &str) -> Result<Self, Box<dyn Error>> {
        let start = Instant::now();
        let input = File::open(file)?;
        let file_bytes = input.metadata()?.len();
        let snapshot = snapshot::read_from(input)?;
        let decode = start.elapsed();
        let traces = pytorch::import(&snapshot, file, "cost", Options::default())?;
        Ok(Cost {
            file_bytes,
            entries: snapshot.device_traces.iter().map(Vec::len).sum(),
            events: traces.iter().map(|trace| trace.events.len()).sum(),
            import: start.elapsed() - decode,
            decode,
            peak_bytes: peak_memory_bytes(),
        })
    }

    /// One line for people.
    pub fn told(&self) -> String {
        let (decode_s, import_s) = (self.decode.as_secs_f64(), self.import.as_secs_f64());
        let peak = self.peak_bytes.map_or_else(String::new, |peak_bytes| {
            let times = peak_bytes as f64 / self.file_bytes as f64;
            format!("; peak memory {peak_bytes} bytes, {times:.2} times the file")
        });
        format!(
            "{} bytes, {} entries, {} events: decode {:.1} ms, import {:.1} ms, {:.1} ns an entry{peak}",
            self.file_bytes,
            self.entries,
            self.events,
            decode_s * 1e3,
            import_s * 1e3,
            (decode_s + import_s) * 1e9 / self.entries.max(1) as f64
        )
    }
}

/// Writes a snapshot with each device's trace `repeats` times over.
pub fn rewrite(mut snapshot: Snapshot, repeats: usize, out: &Path) -> Result<(), Box<dyn Error>> {
    for trace in &mut snapshot.device_traces {
        *trace = trace.repeat(repeats);
    }
    let mut out = BufWriter::new(File::create(out)?);
    snapshot::write(&snapshot, &mut out)?;
    Ok(())
}
