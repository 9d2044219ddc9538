use super::super::hand::play;
use super::*;
use crate::policy::Registry;
use crate::replay::Replay;
use crate::space::{Device, SpaceConfig};
use crate::trace::{Event, Slot};

/// Eight blocks of 1024, of which every second one is freed.
const COMB: &str = "A a 1024 ; A b 1024 ; A c 1024 ; A d 1024 ; A e 1024 ; A f 1024 ; A g 1024 ; \
                    A h 1024 ; F b ; F d ; F f ; F h";

/// The words told after the comb.
pub(super) fn after_comb(policy: &str, program: &str) -> Vec<String> {
    let mut told = play(policy, 8192, &format!("{COMB} ; {program}")).told;
    told.split_off(12)
}

#[test]
fn a_shortage_slides_blocks_down_and_then_serves() {
    let told = after_comb(
        "compaction:over=first-fit,threshold=1",
        "A x 2048 ; compact ; A y 2048 ; A z 2048",
    );
    assert_eq!(told, ["4096", "moved 0", "6144", "OOM"]);
}

#[test]
fn on_request_only_a_shortage_is_left_alone() {
    let told = after_comb(
        "compaction:over=first-fit,threshold=1,on_failure=false",
        "A x 2048 ; compact ; A y 2048 ; A z 2048",
    );
    assert_eq!(told, ["OOM", "moved 3", "4096", "6144"]);
}

#[test]
fn a_pinned_block_stays_and_later_ones_slide_behind_it() {
    let told = after_comb(
        "compaction:over=first-fit,threshold=1",
        "pin e ; compact ; A x 2048 ; A y 2048",
    );
    assert_eq!(told, ["ok", "moved 2", "2048", "6144"]);
}

#[test]
fn a_shortage_behind_a_pinned_block_says_so() {
    let registry = Registry::default();
    let chosen = registry
        .find("compaction:over=first-fit,threshold=1")
        .expect("a policy");
    let policy = registry.build(&chosen).expect("a policy");
    let mut replay = Replay::new(policy, SpaceConfig::bare(4096)).expect("it starts");
    let mut causes = Causes::default();
    let program = [
        alloc(0, 1024, 0),
        alloc(1, 1024, 0),
        Event::Free {
            slot: 0,
            stream: 0,
            deferred: false,
        },
        Event::Pin { slot: 1 },
        alloc(2, 3072, 0),
        Event::Unpin { slot: 1 },
        alloc(3, 3072, 0),
        alloc(4, 512, 0),
    ];
    replay.feed(&program, &[], &mut causes);
    assert_eq!(causes.0, [(4, Cause::Pinned), (7, Cause::NoFit)]);
}

#[derive(Default)]
struct Causes(Vec<(u64, Cause)>);

impl crate::replay::Observer for Causes {
    fn see(&mut self, moment: &crate::replay::Moment<'_>) {
        if let crate::replay::Outcome::Failed(shortage) = moment.outcome {
            self.0.push((moment.index, shortage.cause));
        }
    }
}

#[test]
fn alignment_is_kept_and_padding_stays_a_hole() {
    // a 256 and c 512 aligned to 1024 at 1024; b's hole closes, c cannot go below 1024.
    let told = play(
        "compaction:over=first-fit,threshold=1",
        4096,
        "A a 256 ; A b 768 ; A c 512 align=1024 ; A d 512 ; A e 512 align=1024 ; F b ; F d ; compact ; A f 768 ; A g 1024",
    )
    .told;
    assert_eq!(told[4], "2048");
    assert_eq!(told[7..], ["moved 0", "256", "2560"]);
}

#[test]
fn buddies_change_places_so_that_halves_join() {
    // g goes from 6144 to 1024 and e from 4096 to 3072: the upper half is one block.
    let told = after_comb(
        "compaction:over=buddy,threshold=1",
        "A x 4096 ; compact ; A y 1",
    );
    assert_eq!(told, ["4096", "moved 0", "OOM"]);
}

#[test]
fn a_bump_pool_gives_its_waste_back() {
    let told = after_comb("compaction:over=bump,threshold=1", "A x 2048 ; A y 2048");
    assert_eq!(told, ["4096", "6144"]);
}

#[test]
fn a_policy_whose_blocks_stay_cannot_be_compacted() {
    let error = Registry::default()
        .find("compaction:over=compaction")
        .err()
        .expect("blocks of a wrapper are its own to move");
    assert!(error.to_string().contains("must stay"), "{error}");
    let error = Registry::default()
        .find("compaction:threshold=30")
        .err()
        .expect("no ratio");
    assert!(error.to_string().contains("from 0 to 1"), "{error}");
}

#[test]
fn what_a_policy_does_not_let_a_mover_do_is_told() {
    for (spec, told) in [
        ("over=buddy,mover=two-finger", "all at once"),
        ("over=buddy,step_moves=10", "all at once"),
        ("over=best-fit,mover=evacuate", "such as growing or vma"),
        (
            "over=\"growing:growth=contiguous\",mover=evacuate",
            "gives no segment back",
        ),
    ] {
        let error = Registry::default().find(&format!("compaction:{spec}"));
        let error = error.err().expect("it cannot be done");
        assert!(error.to_string().contains(told), "{error}");
    }
}

fn alloc(slot: Slot, bytes: u64, align_log2: u8) -> Event {
    Event::Alloc {
        slot,
        bytes,
        align_log2,
        stream: 0,
        pool: 0,
        tag: 0,
    }
}

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// Half a year in which every week begins with three crossings of the threshold, a
/// minute apart: pairs of blocks of which the lower is freed, and all of them a day later.
fn half_a_year() -> (Vec<Event>, Vec<u64>) {
    let (mut events, mut times_ns) = (Vec::new(), Vec::new());
    let free = |slot| Event::Free {
        slot,
        stream: 0,
        deferred: false,
    };
    for week in 0..26 {
        for burst in 0..3 {
            let from = burst * 4;
            let now_ns = week * 7 * DAY_NS + u64::from(burst) * 60 * SECOND_NS;
            for slot in from..from + 4 {
                events.push(alloc(slot, 4096, 0));
            }
            events.extend([free(from), free(from + 2)]);
            times_ns.resize(events.len(), now_ns);
        }
        events.extend([1, 3, 5, 7, 9, 11].map(free));
        times_ns.resize(events.len(), week * 7 * DAY_NS + DAY_NS);
    }
    (events, times_ns)
}

#[test]
fn over_months_the_interval_holds_compactions_back() {
    let (events, times_ns) = half_a_year();
    let registry = Registry::default();
    let play = |interval: &str| {
        let spec = format!("compaction:over=first-fit,threshold=0.3,interval={interval}");
        let chosen = registry.find(&spec).expect("a policy");
        let policy = registry.build(&chosen).expect("a policy");
        // Room for what one week holds, so that every hole counts.
        let mut replay = Replay::new(policy, SpaceConfig::bare(40960)).expect("it starts");
        replay.feed(&events, &times_ns, &mut ());
        replay.policy().tallies()
    };
    let (five_minutes, none) = (play("5min"), play("0s"));
    assert!(five_minutes.held_back >= 10, "{five_minutes:?}");
    assert!(five_minutes.compactions >= 26, "{five_minutes:?}");
    assert_eq!(none.held_back, 0);
    assert!(none.compactions > five_minutes.compactions, "{none:?}");
}

/// A card on which a copy of 1024 bytes takes 700 ns.
fn copying() -> SpaceConfig {
    let mut device = Device::bare(8192);
    device.copy = toml::from_str::<std::collections::HashMap<String, _>>("copy = [[1024, 700]]")
        .expect("a curve")
        .remove("copy")
        .expect("a curve");
    let mut config = SpaceConfig::bare(8192);
    config.device = std::sync::Arc::new(device);
    config
}

#[test]
fn moves_are_charged_and_requests_of_the_pause_counted() {
    let registry = Registry::default();
    let chosen = registry
        .find("compaction:over=first-fit,threshold=1")
        .expect("a policy");
    let policy = registry.build(&chosen).expect("a policy");
    let mut replay = Replay::new(policy, copying()).expect("it starts");
    let free = Event::Free {
        slot: 0,
        stream: 0,
        deferred: false,
    };
    let program = [
        alloc(0, 512, 0),
        alloc(1, 1024, 0),
        free,
        Event::Compact,
        alloc(2, 256, 0),
        alloc(3, 256, 0),
    ];
    replay.feed(&program, &[0, 0, 0, 1000, 2399, 2400], &mut ());
    let counters = replay.space().counters();
    // 1024 bytes move by 512: two copies through a staging buffer.
    assert_eq!((counters.moves, counters.pause_ns), (1, 2 * 700));
    assert_eq!(replay.totals().delayed_requests, 1);
}

#[test]
fn a_budget_by_time_moves_what_its_copies_allow() {
    let registry = Registry::default();
    let spec = "compaction:over=first-fit,threshold=0,interval=1s,step_time=1500ns";
    let policy = registry.build(&registry.find(spec).expect("a policy"));
    let mut replay = Replay::new(policy.expect("a policy"), copying()).expect("it starts");
    let free = |slot| Event::Free {
        slot,
        stream: 0,
        deferred: false,
    };
    let mut moved = |program: &[Event], now_ns: u64| {
        replay.feed(program, &vec![now_ns; program.len()], &mut ());
        let tallies = replay.policy().tallies();
        (replay.space().counters().pause_ns, tallies.longest_pause_ns)
    };
    let comb: Vec<Event> = (0..8).map(|slot| alloc(slot, 1024, 0)).collect();
    moved(&comb, 0);
    // With one hole nothing is due; with the second c slides from 2048 to 1024 and e from
    // 4096 to 2048. f would be a third: the hole 3072..5120 is below it.
    assert_eq!(moved(&[free(1)], 0), (0, 0));
    assert_eq!(moved(&[free(3)], 0), (1400, 1400));
    // Within the second nothing moves, though h's hole is apart. Then g slides to 3072.
    assert_eq!(moved(&[free(7)], SECOND_NS - 1), (1400, 1400));
    assert_eq!(moved(&[free(5)], SECOND_NS), (2100, 1400));
    // One hole is left.
    assert_eq!(
        moved(&[Event::Mark { label: 0 }], 9 * SECOND_NS),
        (2100, 1400)
    );
}
