//! What all policies of one trace share: its requests, its times, its words.

use std::collections::BTreeSet;

use serde::Serialize;

use super::pack::{Column, Pack, deflated};
use super::{Run, Track, clock};
use crate::trace::{Event, Ids, Trace};

/// Frames of a stack that are told; what called them is left out.
const MOST_FRAMES: usize = 24;
/// Marks that are told.
const MOST_MARKS: usize = 4096;

/// One request of a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub from_event: u64,
    /// The event of its free, or the number of events.
    pub to_event: u64,
    pub bytes: u64,
    stream: u16,
    tag: u32,
}

/// A run, packed.
pub(super) struct Packed {
    /// All requests of the trace.
    pub requests: Vec<Request>,
    /// The numbers of those that a map shows, in order.
    pub shown: Vec<u64>,
    /// What the page's index says of it.
    pub told: Told,
    /// Columns and words, as base64.
    pub parts: [String; 2],
}

#[derive(Debug, Serialize)]
pub(super) struct Told {
    name: String,
    events: u64,
    timed: bool,
    streams: Vec<String>,
    columns: Vec<Column>,
}

/// The words of a run, unpacked when they are first shown.
#[derive(Serialize)]
struct Words<'a> {
    /// Frames of each stack, the innermost first.
    stacks: Vec<Vec<&'a str>>,
    /// What the file calls each shown request; empty where it has no words for them.
    names: Vec<&'a str>,
    /// The words of the marks.
    labels: Vec<&'a str>,
}

/// Packs a run and what its tracks show of it.
pub(super) fn pack(run: &Run, tracks: &[&Track]) -> Packed {
    let mut pack = Pack::default();
    let requests = run.trace.as_deref().map(requests).unwrap_or_default();
    let maps = tracks.iter().filter_map(|track| track.map.as_ref());
    let shown = maps.flat_map(|map| map.rectangles.iter().map(|block| block.ordinal));
    let shown: Vec<u64> = shown.collect::<BTreeSet<u64>>().into_iter().collect();
    let mut words = Words {
        stacks: Vec::new(),
        names: Vec::new(),
        labels: Vec::new(),
    };
    let mut events = 0;
    if let Some(trace) = run.trace.as_deref() {
        events = trace.events.len() as u64;
        clock::of_trace(trace, &mut pack);
        let kept: Vec<&Request> = shown.iter().map(|at| &requests[*at as usize]).collect();
        words.stacks = blocks(trace, &shown, &kept, &mut pack);
        if let Ids::Names(names) = &trace.ids {
            words.names = shown.iter().map(|at| &*names[*at as usize]).collect();
        }
        marks(trace, &mut pack);
        words.labels = trace.labels.iter().map(String::as_str).collect();
    } else if let Some(track) = tracks.iter().max_by_key(|track| track.timeline.len()) {
        events = track.timeline.last().map_or(0, |last| last.last_event + 1);
        clock::of_timeline(&track.timeline, &mut pack);
    }
    let streams = run.trace.as_deref().map_or(&[][..], |trace| &trace.streams);
    let (columns, data) = pack.finish();
    Packed {
        requests,
        shown,
        told: Told {
            name: run.name.clone(),
            events,
            timed: run.timed,
            streams: streams.iter().map(|raw| format!("0x{raw:x}")).collect(),
            columns,
        },
        parts: [
            data,
            deflated(&serde_json::to_vec(&words).expect("words are plain data")),
        ],
    }
}

/// The columns of the shown requests; answers the stacks that they name.
fn blocks<'a>(
    trace: &'a Trace,
    shown: &[u64],
    kept: &[&Request],
    pack: &mut Pack,
) -> Vec<Vec<&'a str>> {
    pack.delta("request.ordinal", shown.iter().copied());
    pack.delta("request.from", kept.iter().map(|it| it.from_event));
    pack.plain(
        "request.life",
        kept.iter().map(|it| it.to_event - it.from_event),
    );
    pack.plain("request.bytes", kept.iter().map(|it| it.bytes));
    pack.plain("request.stream", kept.iter().map(|it| u64::from(it.stream)));
    let tags: BTreeSet<u32> = kept
        .iter()
        .map(|it| it.tag)
        .filter(|tag| *tag > 0)
        .collect();
    let tags: Vec<u32> = tags.into_iter().collect();
    // 0 is none, so that the first stack is 1.
    let number = |tag: u32| tags.binary_search(&tag).map_or(0, |at| at as u64 + 1);
    pack.plain("request.stack", kept.iter().map(|it| number(it.tag)));
    let stack = |tag: &u32| -> Vec<&'a str> {
        let frames = trace.tags[*tag as usize].split(" < ");
        frames.take(MOST_FRAMES).collect()
    };
    tags.iter().map(stack).collect()
}

/// Where phases begin.
fn marks(trace: &Trace, pack: &mut Pack) {
    let marks = trace.events.iter().zip(0u64..);
    let marks = marks.filter_map(|(event, at)| match event {
        Event::Mark { label } => Some((at, u64::from(*label))),
        _ => None,
    });
    let marks: Vec<(u64, u64)> = marks.take(MOST_MARKS).collect();
    pack.delta("mark.event", marks.iter().map(|mark| mark.0));
    pack.plain("mark.label", marks.iter().map(|mark| mark.1));
}

/// All requests of a trace, in order, as a map numbers them.
fn requests(trace: &Trace) -> Vec<Request> {
    let end = trace.events.len() as u64;
    let mut holders = vec![usize::MAX; trace.slots as usize];
    let mut requests: Vec<Request> = Vec::new();
    for (event, at) in trace.events.iter().zip(0u64..) {
        match *event {
            Event::Alloc {
                slot,
                bytes,
                stream,
                tag,
                ..
            } => {
                holders[slot as usize] = requests.len();
                requests.push(Request {
                    from_event: at,
                    to_event: end,
                    bytes,
                    stream,
                    tag,
                });
            }
            Event::Attempt {
                bytes, stream, tag, ..
            } => requests.push(Request {
                from_event: at,
                to_event: at,
                bytes,
                stream,
                tag,
            }),
            Event::Free { slot, .. } => {
                if let Some(request) = requests.get_mut(holders[slot as usize]) {
                    request.to_event = request.to_event.min(at);
                }
            }
            _ => {}
        }
    }
    requests
}
