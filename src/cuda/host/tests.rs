//! A card of host memory does what a card does.

use super::*;
use crate::cuda::card::{Card, HostMemory};

fn span(base: u64) -> Span {
    Span {
        base,
        from: 0,
        to: 5000,
        seed: 9,
    }
}

#[test]
fn what_is_written_through_an_alias_is_read_where_the_pages_are() {
    let mut card = HostCard::new(64 * MIB);
    let (first, second) = (card.reserve(2 * MIB), card.reserve(2 * MIB));
    let (first, second) = (first.expect("addresses"), second.expect("addresses"));
    assert_eq!(card.back(first, 2 * MIB, 2 * MIB), Ok(()));
    assert!(card.open(second, 2 * MIB).is_err(), "nothing is there");
    assert_eq!(card.alias(second, first, 2 * MIB), Ok(()));
    assert_eq!(card.open(second, 2 * MIB), Ok(()));
    assert_eq!(card.free_bytes(), Ok(Some(62 * MIB)), "counted once");
    card.fill(0, span(second)).expect("it is mapped");
    assert_eq!(card.unback(second, 2 * MIB), Ok(()));
    card.check(0, span(first)).expect("it is mapped");
    assert_eq!(card.verdicts(), Ok(vec![0]));
    assert!(card.check(0, span(second)).is_err());
}

#[test]
fn a_copy_comes_back_as_it_went_and_memory_taken_anew_holds_nothing() {
    let mut card = HostCard::new(64 * MIB);
    let base = card.map(2 * MIB).expect("room");
    card.fill(0, span(base)).expect("it is mapped");
    let kept = card.save(base, 2 * MIB, HostMemory::Pinned);
    let ticket = kept.expect("it is mapped");
    card.unmap(base).expect("it was mapped");
    let again = card.map(2 * MIB).expect("room");
    card.check(0, span(again)).expect("it is mapped");
    card.load(ticket, again).expect("it is kept");
    card.check(0, span(again)).expect("it is mapped");
    let verdicts = card.verdicts().expect("two checks");
    assert!(verdicts[0] > 4900 && verdicts[1] == 0, "{verdicts:?}");
    assert_eq!(card.forget(ticket), Ok(()));
    assert!(card.load(ticket, again).is_err());
}
