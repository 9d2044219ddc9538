//! Reads one uncompressed snapshot and prints what that cost: `snapshot-cost FILE [--rewrite OUT [REPEATS]]`.
//!
//! With `--rewrite` it writes the snapshot to OUT instead, each device's trace REPEATS times over, which
//! makes files of any size for measuring.

use std::error::Error;
use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use vramlab::trace::snapshot;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        return Err("usage: snapshot-cost FILE [--rewrite OUT [REPEATS]]".into());
    };
    let bytes = std::fs::read(path)?;
    let start = Instant::now();
    let mut snapshot = snapshot::read(&bytes)?;
    let seconds = start.elapsed().as_secs_f64();
    let events: usize = snapshot.device_traces.iter().map(Vec::len).sum();
    println!(
        "{events} entries, {} bytes: {:.1} ms, {:.1} ns an entry",
        bytes.len(),
        seconds * 1e3,
        seconds * 1e9 / events.max(1) as f64
    );
    if let Some(peak_bytes) = peak_memory_bytes() {
        let times = peak_bytes as f64 / bytes.len() as f64;
        println!("peak memory of the process: {peak_bytes} bytes, {times:.2} times the file");
    }
    if let [_, flag, out, repeats @ ..] = &arguments[..]
        && flag == "--rewrite"
    {
        let repeats = repeats.first().map_or(Ok(1), |text| text.parse())?;
        for trace in &mut snapshot.device_traces {
            *trace = trace.repeat(repeats);
        }
        let mut out = BufWriter::new(File::create(out)?);
        snapshot::write(&snapshot, &mut out)?;
    }
    Ok(())
}

/// The high-water mark of this process, where the system tells it.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
