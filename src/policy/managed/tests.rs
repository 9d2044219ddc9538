//! Paging by hand, on cards of a few pages of 1 KiB.

use std::sync::Arc;

use crate::policy::{Policy, Registry};
use crate::replay::{Outcome, Replay};
use crate::space::{Device, SpaceConfig};
use crate::trace::Event;

const KIB: u64 = 1024;

fn policy(over: &str, host: &str) -> Box<dyn Policy> {
    let registry = Registry::default();
    let spec = format!("managed:over={over},host={host},page=1KiB");
    let chosen = registry.find(&spec).expect("a policy");
    registry.build(&chosen).expect("a policy")
}

fn replay(over: &str, card_bytes: u64) -> Replay {
    // A bare card on which a copy costs a nanosecond a byte.
    let mut device = Device::bare(card_bytes);
    device.copy = toml::from_str::<Curves>("copy = [[1024, 1024]]")
        .expect("a curve")
        .copy;
    let mut config = SpaceConfig::bare(card_bytes);
    config.device = Arc::new(device);
    config.record_steps = true;
    Replay::new(policy(over, "8KiB"), config).expect("it starts")
}

#[derive(serde::Deserialize)]
struct Curves {
    copy: crate::space::device::Curve,
}

fn alloc(slot: u32, bytes: u64) -> Event {
    Event::Alloc {
        slot,
        bytes,
        align_log2: 0,
        stream: 0,
        pool: 0,
        tag: 0,
    }
}

fn free(slot: u32) -> Event {
    Event::Free {
        slot,
        stream: 0,
        deferred: false,
    }
}

fn used(slot: u32) -> Event {
    Event::Use { slot, stream: 0 }
}

/// Kibibytes paged after each event.
fn paged(replay: &mut Replay, events: &[Event]) -> Vec<u64> {
    let each = events.iter().map(|event| {
        replay.feed(std::slice::from_ref(event), &[], &mut ());
        replay.space().counters().paged_bytes / KIB
    });
    each.collect()
}

#[test]
fn what_was_used_longest_ago_goes_and_comes_back_when_used() {
    // Four pages on the card: a and b have two each. c of one page sends a's first to
    // the host; the use of a brings it back for b's first.
    let mut replay = replay("first-fit", 4 * KIB);
    let events = [
        alloc(0, 2 * KIB),
        alloc(1, 2 * KIB),
        alloc(2, KIB),
        used(0),
        free(1),
        alloc(3, KIB),
        used(2),
    ];
    // b's page that is left on the card is dropped without a copy: d finds room.
    assert_eq!(paged(&mut replay, &events), [0, 0, 1, 3, 3, 3, 3]);
    let counters = replay.space().counters();
    assert_eq!((counters.cost_ns, counters.pause_ns), (3 * KIB, 3 * KIB));
    assert_eq!(replay.space().capacity_bytes(), 12 * KIB);
}

#[test]
fn a_pinned_block_stays_and_where_nothing_may_go_pages_are_read_across() {
    let mut replay = replay("first-fit", 2 * KIB);
    let events = [
        alloc(0, KIB),
        Event::Pin { slot: 0 },
        alloc(1, KIB),
        // In place of b, not of the older a.
        alloc(2, KIB),
        Event::Pin { slot: 2 },
        used(1),
        used(1),
    ];
    assert_eq!(paged(&mut replay, &events), [0, 0, 0, 1, 1, 2, 3]);
}

#[test]
fn a_block_larger_than_the_card_pages_itself_out() {
    // Of six pages four fit: the first two go while the last two are written. Reading all
    // of it again finds four, and brings two for which two have to go.
    let mut replay = replay("first-fit", 4 * KIB);
    let events = [alloc(0, 6 * KIB), used(0)];
    assert_eq!(paged(&mut replay, &events), [2, 6]);
}

#[test]
fn pages_shared_by_two_blocks_go_when_both_are_freed() {
    let mut replay = replay("first-fit", KIB);
    let events = [
        alloc(0, 512),
        alloc(1, 512),
        free(0),
        alloc(2, 768),
        used(1),
    ];
    // c is too large for the hole that a leaves, and lies behind b on a page of its own,
    // for which b's goes; then b's comes back for it.
    assert_eq!(paged(&mut replay, &events), [0, 0, 0, 1, 3]);
}

#[test]
fn moved_blocks_are_followed() {
    let mut replay = replay("\"compaction:over=first-fit,threshold=1\"", 4 * KIB);
    let events = [
        alloc(0, 2 * KIB),
        alloc(1, 2 * KIB),
        free(0),
        Event::Compact,
        alloc(2, 2 * KIB),
        used(1),
    ];
    // b slides to the first two pages, and c has the next two: all fits.
    assert_eq!(paged(&mut replay, &events), [0; 6]);
    assert_eq!(replay.space().counters().moves, 1);
}

#[test]
fn what_card_and_host_do_not_hold_fails() {
    let mut replay = replay("first-fit", 4 * KIB);
    struct Last(Option<Outcome>);
    impl crate::replay::Observer for Last {
        fn see(&mut self, moment: &crate::replay::Moment<'_>) {
            self.0 = Some(moment.outcome);
        }
    }
    let mut last = Last(None);
    replay.feed(&[alloc(0, 12 * KIB + 1)], &[], &mut last);
    assert!(matches!(last.0, Some(Outcome::Failed(_))));
    replay.feed(&[alloc(1, 12 * KIB)], &[], &mut last);
    assert!(matches!(last.0, Some(Outcome::Served(_))));
}
