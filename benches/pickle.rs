//! Import and export of a PyTorch snapshot of 200,000 entries, with and without call stacks.

use std::hint::black_box;
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

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion);
    criterion.final_summary();
}
