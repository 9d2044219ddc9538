//! Hand-sized cases: a run that keeps to its plan, and one that does not.

use std::fs;

use super::super::Registry;
use super::super::hand::{Hand, play};

/// Four requests in 100 bytes: `a` and `b`, then `c` where both were, then `d` above it.
const PLAN: &str = "id,lower,upper,size,offset\n\
                    a,0,2,40,0\nb,1,3,30,40\nc,4,7,70,0\nd,5,6,30,70\n";

/// Plays a program over that plan, with PyTorch's allocator behind it.
fn run(program: &str) -> Hand {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.csv");
    fs::write(&plan, PLAN).expect("a file");
    play(
        &format!("planned:plan={}", plan.display()),
        1 << 24,
        program,
    )
}

#[test]
fn a_run_as_planned_goes_where_the_plan_says() {
    let hand = run("A a 40 ; A b 30 ; F a ; F b ; A c 70 ; A d 30 ; F d ; F c");
    assert_eq!(hand.told, ["0", "40", "ok", "ok", "0", "70", "ok", "ok"]);
    let counters = hand.replay.space().counters();
    assert_eq!((counters.reserved_bytes, counters.free_blocks), (100, 1));
}

#[test]
fn what_differs_from_the_plan_goes_to_the_pool() {
    // `x` is not planned, and `b` lives on where `c` should go. PyTorch serves both from one
    // segment of 2 MiB; `d` is where the plan has it.
    let hand = run("A a 40 ; A b 30 ; A x 77 ; F a ; A c 70 ; A d 30");
    let space = hand.replay.space();
    let places: Vec<bool> = (0..5)
        .map(|slot| {
            let block = hand.replay.block_of(slot).map(|block| space.bytes(block));
            block.is_some_and(|bytes| bytes < 512)
        })
        .collect();
    assert_eq!(places, [false, true, false, false, true], "a is free again");
    assert_eq!(space.counters().reserved_bytes, 100 + (2 << 20));
}

#[test]
fn a_plan_that_cannot_be_read_and_a_blind_pool_are_told() {
    let told = |spec: &str| match Registry::default().find(spec) {
        Ok(_) => panic!("{spec} is found"),
        Err(error) => error.to_string(),
    };
    assert!(told("planned:plan=no-such.csv").contains("vramlab plan TRACE"));
    assert!(told("planned:over=best-fit").contains("order of streams"));
}
