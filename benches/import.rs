//! Time of reading a trace, by format, in ns an event.

#![allow(missing_docs, reason = "the macros of criterion make public items")]

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vramlab::trace::builder::Ask;
use vramlab::trace::text::Source;
use vramlab::trace::{Trace, TraceBuilder, csv, rmm, vlt};

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

/// The same requests as RMM logs them.
fn rmm_log() -> String {
    let mut text = "Thread,Time,Action,Pointer,Size,Stream\n".to_owned();
    program(|request, is_alloc| {
        let action = if is_alloc { "allocate" } else { "free" };
        let (pointer, micros) = (0x7f00_0000_0000 + request * 512, request % 1_000_000);
        let bytes = bytes(request);
        writeln!(
            text,
            "1,10:00:00.{micros:06},{action},{pointer:#x},{bytes},0x0"
        )
        .expect("a String takes all");
    });
    text
}

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

    let log = rmm_log();
    group.bench_function("rmm log", |bencher| {
        bencher.iter(|| rmm::import(&mut black_box(log.as_bytes()), &source).expect("a good log"));
    });
    group.finish();
}

criterion_group!(benches, import);
criterion_main!(benches);
