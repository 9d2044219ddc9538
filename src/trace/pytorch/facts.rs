//! Recorded facts, made of the entries beside the events: where there are many, by a
//! thread of their own.

use std::ops::ControlFlow;
use std::thread;

use crate::trace::StreamId;
use crate::trace::relay::{Giver, relay};
use crate::trace::snapshot::{Action, Entry};
use crate::trace::truth::{TruthEntry, TruthKind};

/// Up to so many entries a device is not worth a thread.
pub(super) const FEW: usize = 1 << 16;

/// What the pass over the entries knows of a fact, and the entry does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted {
    pub event: u32,
    pub stream: StreamId,
    pub pool: u16,
}

/// Runs `pass`, which gives what it notes of every entry that is a fact, in the order of
/// `entries`, and answers the facts.
pub(super) fn facts(
    entries: &[Entry],
    pass: impl FnOnce(Giver<Noted>) -> Giver<Noted>,
) -> Vec<TruthEntry> {
    let mut facts = Facts {
        entries: entries.iter(),
        made: Vec::with_capacity(entries.len()),
    };
    if entries.len() <= FEW {
        facts.make(&pass(Giver::default()).close());
        return facts.made;
    }
    let (notes, taker) = relay();
    thread::scope(|scope| {
        let making = scope.spawn(|| {
            taker.each(|noted| {
                facts.make(noted);
                ControlFlow::Continue(())
            });
            facts.made
        });
        pass(notes).close();
        making
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The facts so far, and the entries of the others.
struct Facts<'a> {
    entries: std::slice::Iter<'a, Entry>,
    made: Vec<TruthEntry>,
}

impl Facts<'_> {
    fn make(&mut self, noted: &[Noted]) {
        for &Noted {
            event,
            stream,
            pool,
        } in noted
        {
            let mut facts = self
                .entries
                .by_ref()
                .filter_map(|entry| Some((entry, kind(entry.action)?)));
            let (entry, kind) = facts.next().expect("each entry is noted once");
            let address = match kind {
                TruthKind::Oom => entry.device_free_bytes().unwrap_or(0),
                _ => entry.address(),
            };
            self.made.push(TruthEntry {
                event,
                kind,
                stream,
                pool,
                address,
                bytes: entry.bytes,
            });
        }
    }
}

/// Whether an entry of this kind is a fact.
#[inline]
pub(super) fn is_fact(action: Action) -> bool {
    kind(action).is_some()
}

/// The recorded fact that an entry is; `snapshot`, `annotate` and unknown ones are none.
fn kind(action: Action) -> Option<TruthKind> {
    Some(match action {
        Action::Alloc => TruthKind::Alloc,
        Action::FreeRequested => TruthKind::FreeRequested,
        Action::FreeCompleted => TruthKind::FreeCompleted,
        Action::SegmentAlloc => TruthKind::SegmentAlloc,
        Action::SegmentFree => TruthKind::SegmentFree,
        Action::SegmentMap => TruthKind::SegmentMap,
        Action::SegmentUnmap => TruthKind::SegmentUnmap,
        Action::Oom => TruthKind::Oom,
        Action::Snapshot | Action::Annotate | Action::Unknown(_) => return None,
    })
}
