//! Fits a [`fitted`](super::fitted) workload, or the laws of a churn, to a recorded trace.
//!
//! The clock is that of requests: the lifetime of an allocation is the number of requests
//! made from its own to its free, so that it does not hang on how fast the host was.
//! Phases begin at the recording's marks; where it has none, at change points of the mix
//! of sizes ([`changes`]). Each phase is cut into windows of equal length, because what
//! a step asks for at its beginning lives longer than what it asks for at its end.
//!
//! Kept: sizes (exactly, where four requests or more are of one size; else within an
//! eighth of an octave), lifetimes (within a quarter of an octave), streams, marks, and the
//! mean pace of a window. Not kept: pools, alignments, tags, uses on other streams, deferred
//! frees (a free counts where it was asked for), requests that failed.

pub mod changes;

use std::collections::BTreeMap;

use super::Workload;
use super::churn;
use super::fitted::{Kind, Spec, Window};
use super::law::{Lives, Sizes};
use crate::trace::{Event, StreamId, Trace};

/// Requests of a window where nothing else is asked for: a step of training has a
/// thousand or more, and its peak is as sharp as the windows around it are short.
pub const WINDOW_REQUESTS: u64 = 64;
/// From so many requests on, a size is kept exactly.
const OWN_CLASS: u64 = 4;
/// Steps of a table of quantiles.
const QUANTILES: usize = 64;

/// A trace that nothing can be fitted to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("trace '{trace}': {what}")]
pub struct FitError {
    /// The trace.
    pub trace: String,
    /// What is missing.
    pub what: String,
}

/// A request that was served, as the fit sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    bytes: u64,
    stream: StreamId,
    time_ns: u64,
    /// Requests made until its free; 0 where it is never freed.
    life: u64,
}

/// The requests of a trace, and where its phases begin.
#[derive(Debug, Default)]
struct Read {
    asked: Vec<Asked>,
    /// The number of a phase's first request, and its label.
    marks: Vec<(usize, String)>,
}

impl Read {
    fn of(trace: &Trace) -> Self {
        let mut read = Read::default();
        let mut live = vec![None; trace.slots as usize];
        for (at, event) in trace.events.iter().enumerate() {
            match *event {
                Event::Alloc {
                    slot,
                    bytes,
                    stream,
                    ..
                } => {
                    live[slot as usize] = Some(read.asked.len());
                    read.asked.push(Asked {
                        bytes,
                        stream,
                        time_ns: trace.time_ns(at),
                        life: 0,
                    });
                }
                Event::Free { slot, .. } => {
                    let now = read.asked.len();
                    if let Some(born) = live[slot as usize].take() {
                        read.asked[born].life = (now - born) as u64;
                    }
                }
                Event::Mark { label } => {
                    let text = trace.labels[label as usize].clone();
                    read.marks.push((read.asked.len(), text));
                }
                _ => {}
            }
        }
        read
    }
}

/// A workload that asks as the trace did, in windows of at most `window` requests (0 is
/// taken as 1).
///
/// # Errors
/// A trace without requests.
pub fn fitted(trace: &Trace, window: u64) -> Result<Workload, FitError> {
    let read = requests_of(trace)?;
    let asked = &read.asked;
    let phases = if read.marks.is_empty() {
        let sizes: Vec<u64> = asked.iter().map(|asked| asked.bytes).collect();
        let found = changes::find(&sizes);
        let named = found.into_iter().zip(1..);
        named.map(|(at, n)| (at, format!("phase {n}"))).collect()
    } else {
        read.marks
    };
    let longest = usize::try_from(window.max(1)).unwrap_or(usize::MAX);
    let classes = Classes::of(asked);
    let mut labels: Vec<String> = Vec::new();
    let mut made = Vec::new();
    let first = phases.first().map_or(asked.len(), |(at, _)| *at);
    cut(asked, 0..first, longest, &classes, None, &mut made);
    for (at, (from, label)) in phases.iter().enumerate() {
        let to = phases.get(at + 1).map_or(asked.len(), |(next, _)| *next);
        let known = labels.iter().position(|known| known == label);
        let mark = known.unwrap_or_else(|| {
            labels.push(label.clone());
            labels.len() - 1
        });
        cut(
            asked,
            *from..to,
            longest,
            &classes,
            Some(mark as u32),
            &mut made,
        );
    }
    let spec = Spec {
        streams: trace.streams.len().max(1) as u16,
        labels,
        windows: made,
    };
    let marks = spec.windows.iter().filter(|window| window.mark.is_some());
    let frees = asked.iter().filter(|asked| asked.life > 0).count();
    let events = asked.len() + frees + marks.count();
    Ok(workload(trace, events as u64, super::Spec::Fitted(spec)))
}

/// A churn with the sizes and lifetimes of the trace, each drawn by itself: what is left
/// of a program without its phases.
///
/// # Errors
/// A trace without requests.
pub fn churn(trace: &Trace) -> Result<Workload, FitError> {
    let asked = requests_of(trace)?.asked;
    let count = asked.len() as u64;
    let sizes = asked.iter().map(|asked| asked.bytes.max(1)).collect();
    let lives = asked.iter().map(|asked| match asked.life {
        0 => count,
        life => life,
    });
    let span_ns = asked[asked.len() - 1].time_ns - asked[0].time_ns;
    let spec = churn::Spec {
        sizes: Sizes::Quantiles(quantiles(sizes)),
        lives: Lives::Quantiles(quantiles(lives.collect())),
        streams: trace.streams.len().clamp(1, 1024) as u16,
        pause: span_ns / count,
        poisson: false,
    };
    Ok(workload(trace, 2 * count, super::Spec::Churn(spec)))
}

/// The requests of a trace that has any.
fn requests_of(trace: &Trace) -> Result<Read, FitError> {
    let read = Read::of(trace);
    if read.asked.is_empty() {
        return Err(FitError {
            trace: trace.name.clone(),
            what: "it holds no served request; nothing can be fitted to it".into(),
        });
    }
    Ok(read)
}

fn workload(trace: &Trace, events: u64, spec: super::Spec) -> Workload {
    Workload {
        name: trace.name.clone(),
        about: format!("Fitted to the trace {}", trace.name),
        source: format!(
            "the trace {} ({}); sizes and lifetimes drawn together by phase as Zorn and \
             Grunwald (1994) advise",
            trace.name, trace.report.format
        ),
        events,
        workload: spec,
    }
}

/// Values at equal steps of a distribution, from the smallest to the largest.
fn quantiles(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    let last = values.len() - 1;
    (0..=QUANTILES)
        .map(|step| values[last * step / QUANTILES])
        .collect()
}

/// Cuts a phase into windows of equal length.
fn cut(
    asked: &[Asked],
    phase: std::ops::Range<usize>,
    longest: usize,
    classes: &Classes,
    mark: Option<u32>,
    made: &mut Vec<Window>,
) {
    let count = phase.len().div_ceil(longest);
    if count == 0 && mark.is_some() {
        made.push(Window {
            mark,
            pause_ns: 0,
            kinds: Vec::new(),
        });
    }
    for at in 0..count {
        let from = phase.start + phase.len() * at / count;
        let to = phase.start + phase.len() * (at + 1) / count;
        let until_ns = asked.get(to).unwrap_or(&asked[asked.len() - 1]).time_ns;
        let span_ns = until_ns.saturating_sub(asked[from].time_ns);
        made.push(Window {
            mark: mark.filter(|_| at == 0),
            pause_ns: span_ns / (to - from) as u64,
            kinds: kinds(&asked[from..to], classes),
        });
    }
}

/// The kinds of a window's requests: what is of one stream, one class of sizes and one
/// class of lifetimes, with the ranges that occur.
fn kinds(asked: &[Asked], classes: &Classes) -> Vec<Kind> {
    let mut kinds: BTreeMap<(StreamId, u64, u64), Kind> = BTreeMap::new();
    for (place, asked) in (0..).zip(asked) {
        let class = (
            asked.stream,
            classes.of_size(asked.bytes),
            octave_part(asked.life, LIFE_BITS),
        );
        let kind = kinds.entry(class).or_insert(Kind {
            count: 0,
            stream: u64::from(asked.stream),
            smallest_bytes: asked.bytes,
            largest_bytes: asked.bytes,
            shortest: asked.life,
            longest: asked.life,
            first: place,
            last: place,
        });
        kind.count += 1;
        kind.smallest_bytes = kind.smallest_bytes.min(asked.bytes);
        kind.largest_bytes = kind.largest_bytes.max(asked.bytes);
        kind.shortest = kind.shortest.min(asked.life);
        kind.longest = kind.longest.max(asked.life);
        kind.last = place;
    }
    kinds.into_values().collect()
}

/// Parts of an octave, as bits: sizes in eighths, lifetimes in quarters.
const SIZE_BITS: u32 = 3;
const LIFE_BITS: u32 = 2;

/// The lowest value of the part of an octave that `value` lies in.
fn octave_part(value: u64, bits: u32) -> u64 {
    let dropped = value.checked_ilog2().unwrap_or(0).saturating_sub(bits);
    value >> dropped << dropped
}

/// Which sizes are classes of their own.
struct Classes {
    frequent: BTreeMap<u64, u64>,
}

impl Classes {
    fn of(asked: &[Asked]) -> Self {
        let mut frequent = BTreeMap::new();
        for asked in asked {
            *frequent.entry(asked.bytes).or_insert(0) += 1;
        }
        frequent.retain(|_, count| *count >= OWN_CLASS);
        Classes { frequent }
    }

    /// The class of a size. The lowest size of a part of an octave may be frequent too, so
    /// the classes of parts are told apart by their highest bit.
    fn of_size(&self, bytes: u64) -> u64 {
        if self.frequent.contains_key(&bytes) || bytes == 0 {
            return bytes;
        }
        octave_part(bytes, SIZE_BITS) | 1 << 63
    }
}
