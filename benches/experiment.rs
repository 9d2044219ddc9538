//! An experiment of 1,000 cells of 100,000 events (10 policies x 100 seeds of `churn`)
//! against the bump loop: bump replayed over the same events with the summary observer, on
//! one thread, as in the bench `replay`.
//!
//! Every run is a process of its own (this bench, started again), so that its peak memory is
//! its own. Runs take turns, and the best of each counts. A run reads its file, makes every
//! trace, replays every cell, and writes the journal, the rows and the bands; the bump loop
//! is timed without making its traces, once for each seed, and counted once for each policy.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use vramlab::experiment::journal::{Journal, Lines};
use vramlab::experiment::manifest::Manifest;
use vramlab::experiment::{file, runner};
use vramlab::files::peak_memory_bytes;
use vramlab::observe::Summary;
use vramlab::policy::Registry;
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;

/// Asks for one measurement instead of the bench: `THREADS SEEDS EVENTS`, 0 threads for the
/// bump loop.
const MEASURE: &str = "VRAMLAB_BENCH_EXPERIMENT";

const POLICIES: [&str; 10] = [
    "bump",
    "first-fit",
    "next-fit",
    "best-fit",
    "worst-fit",
    "size-class",
    "buddy",
    "tlsf",
    "hybrid",
    "pytorch",
];

/// Turns of each measurement.
const TURNS: usize = 3;

/// The experiment of so many seeds of so many events.
fn written(folder: &Path, seeds: usize, events: usize) -> std::io::Result<std::path::PathBuf> {
    let path = folder.join("bench.toml");
    let text = format!(
        "workloads = [{{ name = \"churn\", events = {events} }}]\n\
         policies = {POLICIES:?}\ncapacities = [\"1.2x\"]\nseeds = {seeds}\n"
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Runs the experiment; how long it took.
fn experiment(threads: usize, seeds: usize, events: usize) -> Result<Duration, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = written(folder.path(), seeds, events)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    let start = Instant::now();
    let registry = Registry::default();
    let experiment = file::read(&path, &registry)?;
    let manifest = Manifest::of(&experiment, None);
    let journal = folder.path().join("journal.jsonl");
    let run = runner::Run {
        experiment: &experiment,
        registry: &registry,
        journal: &Journal::create(&journal, &manifest)?,
        stop: &AtomicBool::new(false),
        progress: &|| (),
    };
    let cells = experiment.cells(None);
    pool.install(|| run.cells(&cells))?;
    let lines = Lines::of(&[journal])?;
    lines.write_rows(File::create(folder.path().join("rows.csv"))?)?;
    lines.write_bands(File::create(folder.path().join("bands.csv"))?)?;
    let took = start.elapsed();
    assert_eq!(lines.len(), seeds * POLICIES.len(), "every cell has a line");
    Ok(took)
}

/// The bump loop over the events of as many cells.
fn bump(seeds: usize, events: usize) -> Result<Duration, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = written(folder.path(), seeds, events)?;
    let registry = Registry::default();
    let experiment = file::read(&path, &registry)?;
    let chosen = registry.find("bump")?;
    let mut took = Duration::ZERO;
    for seed in 0..seeds {
        let trace = experiment.sources[0].trace(Some(seed as u64))?;
        let mut summary = Summary::default();
        // Bump serves from fresh addresses as long as something lives.
        let replay = Replay::new(registry.build(&chosen)?, SpaceConfig::bare(1 << 60));
        let mut replay = replay.map_err(|error| format!("{error:?}"))?;
        let start = Instant::now();
        replay.feed(&trace.events, &trace.times_ns, &mut summary);
        took += start.elapsed();
        assert_eq!(replay.totals().failed, 0, "bump has room for all");
    }
    Ok(took * POLICIES.len() as u32)
}

/// One measurement in this process: prints seconds and bytes.
fn measure(what: &str) -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = what.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let took = match numbers[..] {
        [0, seeds, events] => bump(seeds, events)?,
        [threads, seeds, events] => experiment(threads, seeds, events)?,
        _ => return Err(format!("{MEASURE}={what}: expected three numbers").into()),
    };
    let peak_bytes = peak_memory_bytes().unwrap_or(0);
    println!("{} {peak_bytes}", took.as_secs_f64());
    Ok(())
}

/// Seconds and MiB of a measurement in a process of its own.
fn measured(threads: usize, seeds: usize, events: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let what = format!("{threads} {seeds} {events}");
    let output = Command::new(std::env::current_exe()?)
        .env(MEASURE, &what)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next_back().unwrap_or_default();
    let (seconds, bytes) = line.split_once(' ').ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("{what}: {}: {said}", output.status)
    })?;
    Ok((seconds.parse()?, bytes.parse::<f64>()? / f64::from(1 << 20)))
}

/// What the machine does beside this: the load average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(what) = std::env::var(MEASURE) {
        return measure(&what);
    }
    // `cargo test` runs benches too, without optimisation: a few small cells then.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (few, many, events, turns) = if is_bench {
        (10, 100, 100_000, TURNS)
    } else {
        (1, 2, 500, 1)
    };
    let mut best = [f64::MAX; 4];
    let mut peak_mib = [0.0_f64; 4];
    let kinds = [(0, many), (1, many), (2, many), (2, few)];
    for turn in 0..turns {
        println!("turn {}: load {}", turn + 1, load());
        for (at, (threads, seeds)) in kinds.into_iter().enumerate() {
            let (seconds, mib) = measured(threads, seeds, events)?;
            println!(
                "  {threads} threads, {} cells: {seconds:.2} s, {mib:.1} MiB",
                seeds * 10
            );
            best[at] = best[at].min(seconds);
            peak_mib[at] = peak_mib[at].max(mib);
        }
    }
    let [bump, one, two, _] = best;
    let cells = many * POLICIES.len();
    println!("{cells} cells of {events} events: bump loop {bump:.2} s on one thread");
    println!("1 thread   {one:.2} s   {:.2} x the bump loop", one / bump);
    println!(
        "2 threads  {two:.2} s   {:.2} x the bump loop   (at most 12)",
        two / bump
    );
    println!(
        "speed-up from 1 to 2 threads {:.2}   (at least 1.8)",
        one / two
    );
    println!(
        "peak memory on 2 threads: {} cells {:.1} MiB, {cells} cells {:.1} MiB",
        few * POLICIES.len(),
        peak_mib[3],
        peak_mib[2]
    );
    Ok(())
}
