//! Import and export of a PyTorch snapshot of 200,000 entries, with and without call stacks;
//! then the import of recordings, repeated to more than a million events, against Python's
//! `pickle.load` of the same file.
//!
//! Each import runs in a process of its own (this bench, started again), so that its peak
//! memory is its own. The two sides take turns, and the best time of each counts. Both
//! times begin before the file is read.

#[path = "../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the example's own main is not called here")]
#[path = "../examples/snapshot-cost.rs"]
mod snapshot_cost;

use std::error::Error;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use vramlab::trace::snapshot::{self, Action, Entry, Frame, Snapshot};

const ENTRIES: u64 = 200_000;

fn made(stacks: bool) -> Snapshot {
    let mut made = Snapshot::default();
    let name = made.tables.add_text("forward");
    let filename = made.tables.add_text("model.py");
    let ids: Vec<_> = (0..100)
        .map(|line| {
            let frames: Vec<_> = (line..line + 20)
                .map(|line| {
                    made.tables.add_frame(Frame {
                        name,
                        filename,
                        line,
                    })
                })
                .collect();
            made.tables.add_stack(&frames)
        })
        .collect();
    let trace = (0..ENTRIES).map(|index| {
        let action =
            [Action::Alloc, Action::FreeRequested, Action::FreeCompleted][index as usize % 3];
        let address = 0x7f00_0000_0000 + index % 4096 * 512;
        let mut entry = Entry::new(action, address, index % 100_000, 0);
        entry.set_time_us(Some(1_796_031_401_819_213 + index as i64));
        entry.stack = stacks.then(|| ids[index as usize % ids.len()]);
        entry
    });
    made.device_traces = vec![trace.collect()];
    made
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("snapshot");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements(ENTRIES));
    for (name, stacks) in [("plain", false), ("stacks", true)] {
        let made = made(stacks);
        let mut bytes = Vec::new();
        snapshot::write(&made, &mut bytes).expect("a Vec takes all bytes");
        group.bench_function(format!("read/{name}"), |bencher| {
            bencher.iter(|| snapshot::read(black_box(&bytes)).expect("it was just written"));
        });
        group.bench_function(format!("write/{name}"), |bencher| {
            bencher.iter(|| snapshot::write(black_box(&made), &mut std::io::sink()));
        });
    }
    group.finish();
}

/// Asks for the import of a file instead of the benches, and names the file.
const IMPORT: &str = "VRAMLAB_BENCH_IMPORT";

/// Events and entries that a file holds at least.
const AT_LEAST: usize = 1_000_000;
/// Turns of each side.
const TURNS: usize = 3;

/// Times `pickle.load` and tells the seconds and the peak memory in KiB (0 where the system
/// does not tell it).
const PYTHON: &str = "\
import os, pickle, sys, time
start = time.perf_counter()
with open(sys.argv[1], 'rb') as file:
    held = pickle.load(file)
seconds = time.perf_counter() - start
status = open('/proc/self/status').read() if os.path.exists('/proc/self/status') else 'VmHWM: 0'
print(seconds, status.split('VmHWM:')[1].split()[0])
";

/// The numbers that a process prints on its last line.
fn numbers(command: &mut Command) -> Result<Vec<f64>, Box<dyn Error>> {
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    let last = text.lines().next_back().unwrap_or_default();
    let words = last.split_whitespace().map(str::parse);
    Ok(words.collect::<Result<_, _>>()?)
}

/// The import as its own process: seconds to decode, seconds to import, peak bytes.
fn import_alone(file: &str) -> Result<(), Box<dyn Error>> {
    let cost = snapshot_cost::Cost::of(file)?;
    let peak_bytes = cost.peak_bytes.unwrap_or(0);
    let (decode_s, import_s) = (cost.decode.as_secs_f64(), cost.import.as_secs_f64());
    println!("{decode_s} {import_s} {peak_bytes}");
    Ok(())
}

/// Makes a large file of a recording; returns how many entries it has.
fn make(recording: &Path, out: &Path) -> Result<usize, Box<dyn Error>> {
    let bytes = inflated(recording)?;
    let snapshot = snapshot::read(&bytes)?;
    let entries: usize = snapshot.device_traces.iter().map(Vec::len).sum();
    // Three entries, alloc and the two of a free, are two events.
    let repeats = (AT_LEAST * 3).div_ceil(entries * 2);
    snapshot_cost::rewrite(snapshot, repeats, out)?;
    Ok(entries * repeats)
}

fn inflated(path: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Times both sides on a file made of one recording, and prints a row.
fn compare(name: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let Some(recording) = common::shared(&format!("recordings/torch/{name}.pickle.gz")) else {
        return Ok(());
    };
    let file = folder.join(format!("{name}.pickle"));
    let entries = make(&recording, &file)?;
    let file_bytes = std::fs::metadata(&file)?.len() as f64;
    let (mut decode_s, mut total_s, mut peak_bytes) = (f64::MAX, f64::MAX, 0.0_f64);
    let (mut python_s, mut python_bytes) = (f64::MAX, 0.0_f64);
    for _ in 0..TURNS {
        let ours = numbers(Command::new(std::env::current_exe()?).env(IMPORT, &file))?;
        decode_s = decode_s.min(ours[0]);
        total_s = total_s.min(ours[0] + ours[1]);
        peak_bytes = peak_bytes.max(ours[2]);
        let python = numbers(Command::new("python3").args(["-c", PYTHON]).arg(&file))?;
        python_s = python_s.min(python[0]);
        python_bytes = python_bytes.max(python[1] * 1024.0);
    }
    println!(
        "{name:<22} {entries:>9} {:>6.1} {decode_s:>8.3} {total_s:>8.3} {python_s:>8.3} {:>6.2} {:>6.2} {:>7.2}",
        file_bytes / f64::from(1 << 20),
        total_s / python_s,
        peak_bytes / file_bytes,
        python_bytes / file_bytes,
    );
    std::fs::remove_file(file)?;
    Ok(())
}

fn against_python() -> Result<(), Box<dyn Error>> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: there is no python3 to compare pickle.load with");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    println!("\nimport against pickle.load: seconds; memory in times of the file");
    println!(
        "recording                entries    MiB   decode   import   python  ratio memory  python"
    );
    for name in ["llama_generate", "resnet50_train_frames"] {
        compare(name, folder.path())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(file) = std::env::var_os(IMPORT) {
        return import_alone(&file.to_string_lossy());
    }
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
    // `cargo test` runs benches too, without optimisation.
    if std::env::args().any(|argument| argument == "--bench") {
        against_python()?;
    }
    Ok(())
}
