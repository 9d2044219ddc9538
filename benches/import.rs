//! Time of reading a trace, by format, in ns an event; then two comparisons: the native
//! csv against a loop over the csv crate's records of the same bytes, and a `.vlt` file of
//! 10 million events read as a stream, in a process of its own, whose peak memory is told.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufWriter};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use vramlab::files::peak_memory_bytes;
use vramlab::trace::builder::Ask;
use vramlab::trace::pytorch::{self, Options, stripped};
use vramlab::trace::text::Source;
use vramlab::trace::{
    Event, Trace, TraceBuilder, TraceError, csv, minimalloc, plain, rep, rmm, vlt, wee,
};

/// Requests of each trace; as many frees.
const REQUESTS: u64 = 200_000;
/// Blocks that are live at once.
const LIVE: u64 = 1_000;

/// The size of a request: varied, and the same on every machine.
fn bytes(request: u64) -> u64 {
    (1 + request.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 40
}

/// Calls `alloc` and `free` with the numbers of requests, in the order of the trace.
fn program(mut step: impl FnMut(u64, bool)) {
    for request in 0..REQUESTS + LIVE {
        if request < REQUESTS {
            step(request, true);
        }
        if request >= LIVE {
            step(request - LIVE, false);
        }
    }
}

fn trace() -> Trace {
    let mut builder = TraceBuilder::new("bench");
    let stream = builder.stream(0);
    let mut time_ns = 0;
    program(|request, is_alloc| {
        time_ns += 750;
        builder.at(time_ns);
        if is_alloc {
            let ask = Ask {
                bytes: bytes(request),
                stream,
                ..Ask::default()
            };
            builder.alloc(request, ask).expect("a fresh key");
        } else {
            builder.free(request, None, false);
        }
    });
    builder.finish()
}

/// A text of the same requests: `header`, then what `row` writes for each request and free.
fn text(header: &str, row: impl Fn(&mut String, u64, bool) -> std::fmt::Result) -> String {
    let mut text = header.to_owned();
    program(|request, is_alloc| row(&mut text, request, is_alloc).expect("a String takes all"));
    text
}

/// The address that a request has in formats with addresses.
fn pointer(request: u64) -> u64 {
    0x7f00_0000_0000 + request * 512
}

/// The same requests as RMM logs them.
fn rmm_log() -> String {
    text(
        "Thread,Time,Action,Pointer,Size,Stream\n",
        |text, request, is_alloc| {
            let action = if is_alloc { "allocate" } else { "free" };
            let (pointer, micros) = (pointer(request), request % 1_000_000);
            let bytes = bytes(request);
            writeln!(
                text,
                "1,10:00:00.{micros:06},{action},{pointer:#x},{bytes},0x0"
            )
        },
    )
}

fn plain_csv() -> String {
    text("op,id,size\n", |text, request, is_alloc| {
        let op = if is_alloc { "alloc" } else { "free" };
        writeln!(text, "{op},{request},{}", bytes(request))
    })
}

/// Lifetimes: one row a request, so half as many rows as events.
fn minimalloc_csv() -> String {
    text("id,lower,upper,size\n", |text, request, is_alloc| {
        if is_alloc {
            let (upper, bytes) = (request + LIVE, bytes(request));
            writeln!(text, "{request},{request},{upper},{bytes}")?;
        }
        Ok(())
    })
}

fn rep_file() -> String {
    let header = format!("0\n{REQUESTS}\n{}\n1\n", 2 * REQUESTS);
    text(&header, |text, request, is_alloc| {
        if is_alloc {
            writeln!(text, "a {request} {}", bytes(request))
        } else {
            writeln!(text, "f {request}")
        }
    })
}

fn wee_file() -> String {
    text("", |text, request, is_alloc| {
        if is_alloc {
            writeln!(text, "Alloc({}),", bytes(request))
        } else {
            writeln!(text, "Free({request}),")
        }
    })
}

/// A free is two entries, the request and its completion.
fn stripped_csv() -> String {
    text("op,addr,size,stream\n", |text, request, is_alloc| {
        let (pointer, bytes) = (pointer(request), bytes(request));
        if is_alloc {
            return writeln!(text, "A,{pointer},{bytes},0");
        }
        writeln!(text, "R,{pointer},{bytes},0\nF,{pointer},{bytes},0")
    })
}

/// The importer of a text format.
type Import = fn(&mut dyn BufRead, &Source) -> Result<Trace, TraceError>;

fn import(criterion: &mut Criterion) {
    let trace = trace();
    let source = Source::named("bench");
    let mut group = criterion.benchmark_group("import");
    group.throughput(Throughput::Elements(trace.events.len() as u64));
    group.sample_size(10);

    let mut binary = Vec::new();
    vlt::write(&trace, &mut binary).expect("a Vec takes all");
    println!("vlt: {} bytes, {} events", binary.len(), trace.events.len());
    group.bench_function("vlt", |bencher| {
        bencher.iter(|| vlt::read(black_box(&binary[..]), "bench").expect("just written"));
    });
    group.bench_function("vlt stream", |bencher| {
        let (mut events, mut times) = (Vec::new(), Vec::new());
        bencher.iter(|| {
            let mut reader = vlt::VltReader::new(black_box(&binary[..]), "bench").expect("written");
            while reader.next_block(&mut events, &mut times).expect("written") {
                black_box(&events);
            }
        });
    });

    let mut text = Vec::new();
    csv::write(&trace, &mut text).expect("a Vec takes all");
    group.bench_function("native csv", |bencher| {
        bencher.iter(|| csv::import(&mut black_box(&text[..]), &source).expect("just written"));
    });

    let texts: [(&str, String, Import); 5] = [
        ("rmm log", rmm_log(), rmm::import),
        ("plain csv", plain_csv(), plain::import),
        ("minimalloc csv", minimalloc_csv(), minimalloc::import),
        ("rep", rep_file(), rep::import),
        ("wee_alloc", wee_file(), wee::import),
    ];
    for (name, text, import) in texts {
        group.bench_function(name, |bencher| {
            bencher.iter(|| import(&mut black_box(text.as_bytes()), &source).expect("a good file"));
        });
    }

    let stripped = stripped_csv();
    group.bench_function("stripped csv", |bencher| {
        bencher.iter(|| {
            let snapshot = stripped::read(("bench", black_box(&stripped)), None);
            let snapshot = snapshot.expect("a good file");
            pytorch::import(&snapshot, "bench", "bench", Options::default()).expect("one device")
        });
    });
    group.finish();
}

/// Turns of each side of a comparison; the best one counts.
const TURNS: usize = 25;

/// The native csv against `ByteRecord`, which splits rows and makes nothing of them.
fn against_csv_crate() {
    let trace = trace();
    let source = Source::named("bench");
    let mut text = Vec::new();
    csv::write(&trace, &mut text).expect("a Vec takes all");
    let (mut ours, mut theirs) = (f64::MAX, f64::MAX);
    for _ in 0..TURNS {
        let start = Instant::now();
        let read = csv::import(&mut black_box(&text[..]), &source).expect("just written");
        ours = ours.min(start.elapsed().as_secs_f64());
        assert_eq!(read.events.len(), trace.events.len());
        let start = Instant::now();
        let mut builder = ::csv::ReaderBuilder::new();
        let mut reader = builder.flexible(true).from_reader(black_box(&text[..]));
        let mut record = ::csv::ByteRecord::new();
        while reader.read_byte_record(&mut record).expect("just written") {
            black_box(&record);
        }
        theirs = theirs.min(start.elapsed().as_secs_f64());
    }
    let each = |seconds: f64| seconds * 1e9 / trace.events.len() as f64;
    println!(
        "native csv {:.1} ns an event, the csv crate's ByteRecord loop {:.1}: {:.2} x faster   (at least 1.5)",
        each(ours),
        each(theirs),
        theirs / ours
    );
}

/// Asks for one reading of a file instead of the benches, and names the file.
const STREAM: &str = "VRAMLAB_BENCH_STREAM";
/// Events of the file that is streamed, in millions.
const MILLIONS: u64 = 10;

/// Writes a `.vlt` file of so many events without holding them.
fn write_long(path: &Path) -> Result<(), Box<dyn Error>> {
    let head = Trace {
        streams: vec![0],
        pools: vec![(0, 0)],
        tags: vec![String::new()],
        ..Trace::default()
    };
    let out = BufWriter::new(File::create(path)?);
    let mut writer = vlt::VltWriter::new(out, &head, true)?;
    for number in 0..MILLIONS * 500_000 + LIVE {
        let slot = (number % LIVE) as u32;
        let time_ns = number * 750;
        if number >= LIVE {
            let (stream, deferred) = (0, false);
            writer.push(
                &Event::Free {
                    slot,
                    stream,
                    deferred,
                },
                time_ns,
            )?;
        }
        if number < MILLIONS * 500_000 {
            let alloc = Event::Alloc {
                slot,
                bytes: bytes(number),
                align_log2: 0,
                stream: 0,
                pool: 0,
                tag: 0,
            };
            writer.push(&alloc, time_ns)?;
        }
    }
    let slots = writer.slots();
    writer.finish(&Trace { slots, ..head })?;
    Ok(())
}

/// Reads a file as a stream; prints seconds, events and the peak memory of this process.
fn stream(file: &str) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut reader = vlt::VltReader::new(File::open(file)?, file)?;
    let (mut events, mut times, mut count) = (Vec::new(), Vec::new(), 0);
    while reader.next_block(&mut events, &mut times)? {
        count += black_box(&events).len();
    }
    reader.finish()?;
    let (seconds, bytes) = (start.elapsed().as_secs_f64(), peak_memory_bytes());
    println!("{seconds} {count} {}", bytes.unwrap_or(0));
    Ok(())
}

fn streamed() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("long.vlt");
    write_long(&path)?;
    let (mut best, mut peak_bytes) = (0.0_f64, 0.0_f64);
    for _ in 0..5 {
        let output = Command::new(std::env::current_exe()?)
            .env(STREAM, &path)
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        let numbers: Vec<f64> = text
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [seconds, events, bytes] = numbers[..] else {
            return Err(format!("no three numbers in '{text}'").into());
        };
        best = best.max(events / seconds);
        peak_bytes = peak_bytes.max(bytes);
    }
    let mib = f64::from(1 << 20);
    println!(
        ".vlt of {MILLIONS} million events, {:.1} MiB, plain frames: {:.1} million events a second   (at least 30), peak memory {:.1} MiB",
        std::fs::metadata(&path)?.len() as f64 / mib,
        best / 1e6,
        peak_bytes / mib
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(file) = std::env::var_os(STREAM) {
        return stream(&file.to_string_lossy());
    }
    let mut criterion = Criterion::default().configure_from_args();
    import(&mut criterion);
    criterion.final_summary();
    // `cargo test` runs benches too, without optimisation.
    if std::env::args().any(|argument| argument == "--bench") {
        against_csv_crate();
        streamed()?;
    }
    Ok(())
}
