//! The five states by hand, on a card of 1000 chunks of 1 KiB.

use crate::policy::hand::{Hand, play};

const POLICY: &str = "stitching:small=\"growing:growth=exact,initial=0\",small_limit=0,\
     fragment_limit=1KiB,chunk=1KiB";

fn statistic(hand: &Hand, name: &str) -> i64 {
    let all = hand.replay.policy().statistics();
    let found = all.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no statistic {name}")).1
}

/// The policy with a pool for small requests that asks for none of the card.
fn stitch(options: &str, program: &str) -> Hand {
    play(&format!("{POLICY}{options}"), 1_024_000, program)
}

#[test]
fn an_exact_match_comes_first_and_a_cut_keeps_the_old_size() {
    // b is cut from a's 8 KiB, and the halves are stitched to 8 KiB again: when both are
    // free, c has that block; while one is used, c needs a new primitive.
    let hand = stitch("", "A a 8192 ; F a ; A b 3072 ; F b ; A c 8192");
    let space = hand.replay.space();
    let counts = ["exact", "single", "reused", "several"]
        .map(|name| statistic(&hand, &format!("stitching.{name}")));
    assert_eq!(counts, [0, 1, 1, 0]);
    assert_eq!(space.counters().reserved_bytes, 8192);
    assert_eq!(space.counters().used_bytes, 8192);

    let hand = stitch("", "A a 8192 ; F a ; A b 3072 ; A c 8192");
    assert_eq!(statistic(&hand, "stitching.reused"), 0);
    // S4: the 5 KiB that are left of a, and 3 KiB of a new primitive.
    assert_eq!(statistic(&hand, "stitching.insufficient"), 1);
    assert_eq!(hand.replay.space().counters().reserved_bytes, 8192 + 3072);
}

#[test]
fn several_blocks_are_stitched_the_largest_first_and_the_last_one_is_cut() {
    // 2, 3 and 4 KiB are free; 6 KiB are 4 and 2 of the 3.
    let hand = stitch(
        "",
        "A a 2048 ; A b 3072 ; A c 4096 ; F a ; F b ; F c ; A d 6144 ; A e 2048 ; A f 1024",
    );
    let counters = *hand.replay.space().counters();
    assert_eq!(statistic(&hand, "stitching.several"), 1);
    // e has what a had, f what was cut from b.
    assert_eq!(statistic(&hand, "stitching.exact"), 2);
    assert_eq!(counters.reserved_bytes, 9216);
    assert_eq!((counters.free_bytes, counters.used_bytes), (0, 9216));
}

#[test]
fn below_the_fragment_limit_nothing_is_cut_or_stitched() {
    let program = "A a 2048 ; A b 2048 ; F a ; F b ; A c 4096 ; A d 1024";
    let hand = play(
        "stitching:small=\"growing:growth=exact,initial=0\",small_limit=0,\
         fragment_limit=4KiB,chunk=1KiB",
        1_024_000,
        program,
    );
    let counters = *hand.replay.space().counters();
    assert_eq!(counters.reserved_bytes, 2048 + 2048 + 4096 + 1024);
    assert_eq!(statistic(&hand, "stitching.stitched_bytes"), 0);
}

#[test]
fn on_a_shortage_all_that_is_free_goes_back_once() {
    // Of 1000 KiB a and b leave 400 + 400 free, too small to be stitched, and 200 were
    // never taken: c of 900 KiB has a new primitive once a and b are given back.
    let hand = play(
        "stitching:small=\"growing:growth=exact,initial=0\",small_limit=0,\
         fragment_limit=512KiB,chunk=1KiB",
        1_024_000,
        "A a 409600 ; A b 409600 ; F a ; F b ; A c 921600 ; A d 204800",
    );
    let counters = *hand.replay.space().counters();
    assert_eq!(hand.told[5], "OOM");
    assert_eq!((counters.reserved_bytes, counters.stalls), (921_600, 2));
}

#[test]
fn the_stitched_blocks_used_longest_ago_go_first() {
    // c is a + b and f is d + e, 4 KiB each; h is d + b, 5 KiB: the limit of 9 KiB holds
    // it beside the younger of the two. So i has the block of f, and j stitches a + b
    // again, for which that of h goes.
    let hand = stitch(
        ",stitched_limit=9KiB,keep_split=false",
        "A a 2048 ; A b 2048 ; F a ; F b ; A c 4096 ; A d 3072 ; A e 1024 ; F d ; F e ; \
         A f 4096 ; F c ; F f ; A g 2048 ; A h 5120 ; F g ; F h ; A i 4096 ; A j 4096",
    );
    assert_eq!(statistic(&hand, "stitching.collected"), 2);
    assert_eq!(statistic(&hand, "stitching.reused"), 1);
    assert_eq!(statistic(&hand, "stitching.several"), 4);
    let counters = *hand.replay.space().counters();
    assert_eq!((counters.reserved_bytes, counters.used_bytes), (8192, 8192));
}
