//! What a card does besides taking time: its pages, who shares them, and when a pool
//! hands memory out again.

use super::Fact;
use crate::cuda::card::{Card, CardError, Identity};
use crate::trace::StreamId;
use crate::units::{KIB, MIB, format_bytes, format_bytes_exact};

/// How long a stream is kept busy while its memory is asked for.
const BUSY_NS: u64 = 20_000_000;
/// The size that is freed and asked for again.
const BYTES: u64 = 4 * MIB;

pub(super) fn facts(card: &mut dyn Card, identity: &Identity) -> Result<Vec<Fact>, CardError> {
    let page = format_bytes(identity.page_bytes);
    let mut facts = vec![Fact::new("granularity of cuMemCreate", page)];
    for bytes in [1, 513, MIB, MIB + 1, 2 * MIB + 1, 3 * MIB] {
        facts.push(taken_by(card, bytes)?);
    }
    facts.push(tail(card)?);
    facts.extend(reuse(card)?);
    Ok(facts)
}

/// What of the device's free memory three requests of one size take, one after the other.
fn taken_by(card: &mut dyn Card, bytes: u64) -> Result<Fact, CardError> {
    let (mut bases, mut found) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let before = card.free_bytes()?;
        bases.push(card.map(bytes)?);
        let after = card.free_bytes()?;
        found.push(match (before, after) {
            (Some(before), Some(after)) => format_bytes_exact(before.saturating_sub(after)),
            _ => "unknown".into(),
        });
    }
    let step = bases[0].abs_diff(bases[1]);
    for base in bases {
        card.unmap(base)?;
    }
    let what = format!("three cuMemAlloc of {} take", format_bytes_exact(bytes));
    let step = format_bytes_exact(step);
    let words = format!(
        "{}; the second lies {step} from the first",
        found.join(", ")
    );
    Ok(Fact::new(what, words))
}

/// Whether the tail of a large allocation's last page is given to a small one.
fn tail(card: &mut dyn Card) -> Result<Fact, CardError> {
    let large = card.map(3 * MIB)?;
    let before = card.free_bytes()?;
    let small = card.map(256 * KIB)?;
    let after = card.free_bytes()?;
    card.unmap(small)?;
    card.unmap(large)?;
    let found = match (before, after) {
        (Some(before), Some(after)) if before == after => "yes: it takes no page",
        (Some(_), Some(_)) => "no: it takes a page of its own",
        _ => "unknown: others use the card",
    };
    let what = "256KiB behind 3MiB goes into the tail of its last page";
    Ok(Fact::new(what, found))
}

/// Whether a pool hands memory out again that a stream has freed.
fn reuse(card: &mut dyn Card) -> Result<Vec<Fact>, CardError> {
    type Order = fn(&mut dyn Card) -> Result<(), CardError>;
    let cases: [(&str, StreamId, Order); 4] = [
        ("same stream, work pending", 0, |_| Ok(())),
        ("another stream, work pending", 1, |_| Ok(())),
        ("another stream, behind an event", 1, |card| card.wait(1, 0)),
        ("another stream, the host waited", 1, |card| card.sync()),
    ];
    let mut facts = Vec::new();
    for (case, lane, order) in cases {
        card.open_pool(16 * BYTES, u64::MAX)?;
        let first = card.take(BYTES, 0)?;
        card.sync()?;
        card.lag(0, BUSY_NS)?;
        card.give(first, 0)?;
        order(card)?;
        let second = card.take(BYTES, lane)?;
        let found = if first == second {
            "the same memory"
        } else {
            "other memory"
        };
        facts.push(Fact::new(format!("a pool serves {case}"), found));
        card.clear();
    }
    Ok(facts)
}
