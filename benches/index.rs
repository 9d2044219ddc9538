//! The indexes over free blocks under churn, beside the ordered set of the standard library.
//!
//! One iteration asks one question, removes a block and inserts another: about what a policy does for
//! a request and a free. Blocks go and come at addresses in scrambled order. In `spread` they have
//! sizes of all magnitudes, in `equal` all have one size.

#![expect(
    missing_docs,
    reason = "criterion_group writes a public function without docs"
)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use vramlab::policy::index::{ByAddress, BySize};

const ENTRIES: u64 = 1_000_000;

/// A free block of the bench.
#[derive(Clone, Copy)]
struct Block {
    address: u64,
    bytes: u64,
}

/// Whether sizes differ, and what the shape is called.
const SHAPES: [(&str, bool); 2] = [("spread", true), ("equal", false)];

/// Multiples of 512 bytes up to 16 MiB, each magnitude as often as the others; or 2 MiB always.
fn draw_bytes(rng: &mut ChaCha8Rng, spread: bool) -> u64 {
    let word = rng.next_u32();
    let magnitude = word >> 28;
    let pages = u64::from(word & ((1 << magnitude) - 1));
    if spread { 512 * (1 + pages) } else { 2 << 20 }
}

/// Blocks at distinct addresses, 32 MiB apart, in scrambled order.
fn blocks(entries: u64, spread: bool) -> Vec<Block> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let scrambled = (0..entries).map(|at| (at * 7_919 % entries) << 25);
    scrambled
        .map(|address| Block {
            address,
            bytes: draw_bytes(&mut rng, spread),
        })
        .collect()
}

/// Runs `step` (index, block to remove, block to insert) on an index filled by `insert`.
fn churn<I: Default>(
    criterion: &mut Criterion,
    name: &str,
    insert: impl Fn(&mut I, Block),
    step: impl Fn(&mut I, Block, Block),
) {
    let mut group = criterion.benchmark_group(name);
    for (shape, spread) in SHAPES {
        for entries in [ENTRIES / 1000, ENTRIES / 100, ENTRIES / 10, ENTRIES] {
            let mut blocks = blocks(entries, spread);
            let mut index = I::default();
            for block in &blocks {
                insert(&mut index, *block);
            }
            let mut at = 0;
            group.bench_function(BenchmarkId::new(shape, entries), |bencher| {
                bencher.iter(|| {
                    let next = if at + 1 < blocks.len() { at + 1 } else { 0 };
                    let gone = blocks[at];
                    // The bytes of the neighbour in the list are as good as freshly drawn ones.
                    let come = Block {
                        address: gone.address ^ 1 << 24,
                        bytes: blocks[next].bytes,
                    };
                    step(&mut index, gone, come);
                    blocks[at] = come;
                    at = next;
                });
            });
        }
    }
    group.finish();
}

fn by_size(criterion: &mut Criterion) {
    churn(
        criterion,
        "best-fit/by-size",
        |index: &mut BySize, block| index.insert(block.bytes, block.address, 0),
        |index, gone, come| {
            black_box(index.first_at_least(black_box(come.bytes)));
            assert!(index.remove(gone.bytes, gone.address));
            index.insert(come.bytes, come.address, 0);
        },
    );
    churn(
        criterion,
        "best-fit/ordered-set",
        |set: &mut BTreeSet<(u64, u64)>, block| assert!(set.insert((block.bytes, block.address))),
        |set, gone, come| {
            black_box(set.range((black_box(come.bytes), 0)..).next());
            assert!(set.remove(&(gone.bytes, gone.address)));
            assert!(set.insert((come.bytes, come.address)));
        },
    );
}

/// First fit has no fast counterpart in an ordered set, so the set is asked for a neighbour.
fn by_address(criterion: &mut Criterion) {
    let insert = |index: &mut ByAddress, block: Block| index.insert(block.address, block.bytes, 0);
    churn(
        criterion,
        "first-fit/by-address",
        insert,
        |index, gone, come| {
            black_box(index.first_fit(black_box(come.bytes)));
            assert!(index.remove(gone.address).is_some());
            index.insert(come.address, come.bytes, 0);
        },
    );
    churn(
        criterion,
        "neighbour/by-address",
        insert,
        |index, gone, come| {
            black_box(index.floor(black_box(gone.address)));
            assert!(index.remove(gone.address).is_some());
            index.insert(come.address, come.bytes, 0);
        },
    );
    churn(
        criterion,
        "neighbour/ordered-set",
        |set: &mut BTreeSet<(u64, u64)>, block| assert!(set.insert((block.address, block.bytes))),
        |set, gone, come| {
            let below = ..=(black_box(gone.address), u64::MAX);
            black_box(set.range(below).next_back());
            assert!(set.remove(&(gone.address, gone.bytes)));
            assert!(set.insert((come.address, come.bytes)));
        },
    );
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300));
    targets = by_size, by_address
}
criterion_main!(benches);
