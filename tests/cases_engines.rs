//! Complaints from public threads about the allocators of game engines, renderers and
//! llama.cpp, as small cases with the threads' numbers. Each test names its thread; S42 is
//! in `moving.rs`.

#[path = "common/run.rs"]
mod run;

use offset_allocator::Allocator;
use offset_allocator::ext::min_allocator_size;
use run::Run;
use vramlab::observe::{Failures, Verdict};
use vramlab::replay::Outcome;
use vramlab::trace::{Event, Slot};
use vramlab::units::{GIB, KIB, MIB};

/// S41: sebbbi/OffsetAllocator PR#11; pcwalton/offset-allocator#9: requests between two bins
/// miss a hole that would hold them, by design. The crate answers the same.
#[test]
fn s41_a_request_between_two_bins_misses_the_hole_that_would_hold_it() {
    // The size of the heap, the requests, and whether each is served.
    let cases: [(u32, &[(u32, bool)]); 3] = [
        (324, &[(255, true), (67, false)]),
        (513, &[(513, false)]),
        (576, &[(513, true)]),
    ];
    for (size, requests) in cases {
        let mut ours = Run::new("offset-allocator:unit=1", u64::from(size));
        let mut theirs = Allocator::<u32>::new(size);
        for (units, served) in requests {
            assert_eq!(!ours.fails(u64::from(*units)), *served, "{units} of {size}");
            assert_eq!(
                theirs.allocate(*units).is_some(),
                *served,
                "{units} of {size}"
            );
        }
        let left = size
            - requests
                .iter()
                .map(|it| if it.1 { it.0 } else { 0 })
                .sum::<u32>();
        assert_eq!(ours.replay.largest_free_bytes(), u64::from(left));
    }
    assert_eq!(min_allocator_size(513), 576);
}

/// What is reserved after `count` buffers of `bytes` each.
fn reserved(policy: &str, count: u64, bytes: u64) -> u64 {
    let mut run = Run::new(policy, 8 * GIB);
    for _ in 0..count {
        run.serve(bytes);
    }
    run.reserved()
}

/// S43: gfx-rs/wgpu#5869, gpu-allocator#156 and #235, VMA#517: a program that needs 12 MiB
/// holds a whole block of 256 MiB of the device; blocks that begin small do not. In blocks of a
/// fixed size everything goes to one band of `lifetime`, which learns nothing here.
#[test]
fn s43_a_small_program_holds_what_the_first_blocks_are() {
    let sweep = [
        ("growing:initial=0,growth=exact", 12),
        ("growing:initial=8MiB,growth=double", 24),
        ("vma:block=64MiB", 8 + 16),
        ("vma:block=256MiB", 32),
        ("lifetime:steps=0,chunk=64MiB", 64),
        ("lifetime:steps=0,chunk=256MiB", 256),
    ];
    for (policy, mib) in sweep {
        assert_eq!(reserved(policy, 12, MIB), mib * MIB, "{policy}");
    }
    // A program that needs much holds a third more at the most.
    for (policy, _) in sweep {
        let mib = reserved(policy, 3000, MIB) / MIB;
        assert!((3000..=4096).contains(&mib), "{policy}: {mib} MiB");
    }
}

/// The verdict on a request after others.
fn verdict(policy: &str, capacity: u64, before: &[u64], bytes: u64) -> Option<Verdict> {
    let mut run = Run::new(policy, capacity);
    for bytes in before {
        run.serve(*bytes);
    }
    let mut failures = Failures::default();
    let ask = Event::Alloc {
        slot: before.len() as Slot,
        bytes,
        align_log2: 0,
        stream: 0,
        pool: 0,
        tag: 0,
    };
    run.replay.feed(&[ask], &[], &mut failures);
    failures.records().first().map(|record| record.verdict)
}

/// S43: tracel-ai/cubecl#90, PR#1438: 262,144,000 bytes are more than the largest page of the
/// pool. That is another failure than a full card, and one that a card which never could
/// hold it gives another name again.
#[test]
fn s43_too_large_for_the_pool_is_not_out_of_memory() {
    let (asked, card) = (262_144_000, GIB);
    let paged = "rmm-fixed:block=128MiB,blocks_to_preallocate=1";
    assert_eq!(verdict(paged, card, &[], asked), Some(Verdict::Rounding));
    let exact = "growing:initial=0,growth=exact";
    for policy in [paged, "vma", exact, "offset-allocator"] {
        // More than the card: no policy could serve it.
        let never = verdict(policy, card, &[], card + 1);
        assert_eq!(never, Some(Verdict::Capacity), "{policy}");
    }
    for policy in ["vma", exact, "offset-allocator"] {
        assert_eq!(
            verdict(policy, card, &[], asked),
            None,
            "{policy} serves it"
        );
        // The card is full: out of memory.
        let full = [asked; 4];
        assert_eq!(
            verdict(policy, card, &full, asked),
            Some(Verdict::Capacity),
            "{policy}"
        );
    }
}

/// S43: tracel-ai/cubecl PR#1474, burn#4792: what the pool keeps for nobody is reclaimed and
/// the request tried again, before it fails.
#[test]
fn s43_what_is_kept_is_reclaimed_before_a_request_fails() {
    for (policy, fails) in [
        ("cupy-pool:limit=1GiB,flush_at_limit=false", true),
        ("cupy-pool:limit=1GiB", false),
        ("llama-cpp-pool:flush=false", true),
        ("llama-cpp-pool", false),
        ("lifetime:chunk=16MiB", false),
    ] {
        let mut run = Run::new(policy, GIB);
        let small: Vec<Slot> = (0..50).map(|_| run.serve(16 * MIB)).collect();
        small.iter().for_each(|slot| run.free(*slot));
        assert!(run.reserved() > 512 * MIB, "{policy} keeps them");
        assert_eq!(run.fails(800 * MIB), fails, "{policy}");
    }
}

/// A request that grows by 64 KiB a step, taken and given back as a kernel's scratch memory is:
/// what the pool holds after each step, in KiB, and whether a request failed.
fn growing_requests(policy: &str, capacity: u64, steps: u64) -> (Vec<u64>, bool) {
    let mut run = Run::new(policy, capacity);
    let mut held = Vec::new();
    for step in 1..=steps {
        let (slot, outcome) = run.outcome(64 * KIB * step, 0);
        if matches!(outcome, Outcome::Failed(_)) {
            return (held, true);
        }
        run.free(slot);
        held.push(run.reserved() / KIB);
    }
    (held, false)
}

/// S32: ggml-org/llama.cpp#22107: the legacy pool of 256 buffers asks for 5 % more than is
/// needed. A request that grows at every token soon finds no buffer that is large enough, and
/// each new one leaves the old one behind: those of a series that grows by 5 % come to some 20
/// times the last one, until the card is full. PR#22155: all of them go back on
/// a shortage, and the request is tried again.
#[test]
fn s32_buffers_that_became_too_small_fill_the_card() {
    let (steps, card) = (600, 512 * MIB);
    let (held, failed) = growing_requests("llama-cpp-pool:flush=false", card, steps);
    assert!(failed, "the card is full");
    assert!(held.is_sorted(), "what is kept only grows");
    let needed_kib = 64 * (held.len() as u64 + 1);
    println!(
        "{} steps, {} KiB held for {needed_kib}",
        held.len(),
        held[held.len() - 1]
    );
    assert!(held[held.len() - 1] > 10 * needed_kib, "{needed_kib}");
    let (held, failed) = growing_requests("llama-cpp-pool", card, steps);
    assert!(
        !failed && held.len() as u64 == steps,
        "all of them are served"
    );
    assert!(!held.is_sorted(), "a shortage gave buffers back");
    // Pools that cut and join what they have need no such help.
    let (held, failed) = growing_requests("growing", card, steps);
    assert!(!failed && held[held.len() - 1] < 4 * 64 * steps, "{held:?}");
}
