//! A PyTorch memory snapshot as traces: one for each device that it records.
//!
//! Source: the project's behavioural specification of PyTorch's caching allocator,
//! sections 8 (the file) and 9 (how to replay it).
//!
//! The events are what the program asked: `alloc` with its requested bytes, a free at its
//! `free_requested` (deferred where the completion does not follow at once, and then
//! completed at its `free_completed`), a failed request at its `oom`. Segment entries are
//! the allocator's doing and no events, save that emptied caches are inferred from them.
//! What was live before the first entry is rebuilt and leads the trace.
//!
//! Every recorded entry, the segments before the first and after the last entry, and the
//! settings are kept as [`Truth`]. An entry's fact names the event during which it
//! happened: all entries of one `malloc` name its `Alloc` or `Attempt`, those of an
//! emptied cache its `Trim`.

mod boundary;
mod caches;
mod clock;
mod facts;
mod forward;
mod hidden;
mod notes;
mod rewind;
mod settings;
pub mod sizes;
mod state;
pub mod stripped;
mod survey;
mod tags;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::trace::snapshot::{Entry, Snapshot};
use crate::trace::truth::TruthSegment;
use crate::trace::{ANY_STREAM, PoolId, Trace, TraceError, Truth};

use caches::Limits;
use forward::{Forward, Source};
use hidden::Hidden;
use survey::Survey;

pub use settings::size_rules;

/// What the reader of a snapshot knows and the file does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The cap under which the recording was made, in bytes. It decides which segments
    /// went back by a retry, and becomes the capacity of the traces.
    pub capacity_bytes: Option<u64>,
}

/// The traces of `snapshot`, in order of their devices. A trace is named `name`; where
/// there are several, `name-cuda0`, `name-cuda1`, and so on. `file` is named in errors.
///
/// # Errors
/// [`TraceError`] where no device has a trace or a segment, or where one has more streams
/// or pools than a trace can name.
pub fn import(
    snapshot: &Snapshot,
    file: &str,
    name: &str,
    options: Options,
) -> Result<Vec<Trace>, TraceError> {
    let devices = devices(snapshot);
    if devices.is_empty() {
        return Err(TraceError::whole(
            file,
            "the snapshot holds no trace entry and no segment",
        )
        .or(
            "call torch.cuda.memory._record_memory_history() before the work to be recorded, and take the snapshot after it",
        ));
    }
    let several = devices.len() > 1;
    let mut traces = Vec::with_capacity(devices.len());
    for device in devices {
        let name = if several {
            format!("{name}-cuda{device}")
        } else {
            name.to_owned()
        };
        traces.push(import_device(snapshot, device, file, &name, options)?);
    }
    Ok(traces)
}

/// The devices that have entries or segments.
fn devices(snapshot: &Snapshot) -> BTreeSet<u32> {
    let traced = snapshot
        .device_traces
        .iter()
        .zip(0u32..)
        .filter(|(entries, _)| !entries.is_empty())
        .map(|(_, device)| device);
    let held = snapshot.segments.iter().map(|segment| segment.device);
    traced.chain(held).collect()
}

fn entries_of(snapshot: &Snapshot, device: u32) -> &[Entry] {
    snapshot
        .device_traces
        .get(device as usize)
        .map_or(&[], Vec::as_slice)
}

/// Refuses a device with more streams or pools than a trace can name.
fn check_numbers(
    snapshot: &Snapshot,
    device: u32,
    survey: &Survey,
    file: &str,
) -> Result<(), TraceError> {
    let (mut streams, mut pools) = (survey.streams.clone(), survey.pools.clone());
    for segment in snapshot.segments.iter().filter(|s| s.device == device) {
        streams.insert(segment.stream);
        pools.extend(segment.pool);
    }
    for (what, count, limit) in [
        ("streams", streams.len(), usize::from(ANY_STREAM)),
        ("pools", pools.len(), usize::from(PoolId::MAX) - 1),
    ] {
        if count >= limit {
            let found =
                format!("device {device} has {count} {what}; a trace names fewer than {limit}");
            return Err(TraceError::whole(file, found)
                .or("no program has so many: record the snapshot again"));
        }
    }
    Ok(())
}

fn import_device(
    snapshot: &Snapshot,
    device: u32,
    file: &str,
    name: &str,
    options: Options,
) -> Result<Trace, TraceError> {
    let entries = entries_of(snapshot, device);
    let rules = size_rules(snapshot.settings.as_ref());
    let hidden = Hidden::of(snapshot, device, entries);
    let survey = || Survey::of(entries);
    let rewind = || rewind::rewind(snapshot, device, entries, &rules, hidden);
    let (survey, mut start) = if entries.len() > facts::FEW {
        rayon::join(survey, rewind)
    } else {
        (survey(), rewind())
    };
    check_numbers(snapshot, device, &survey, file)?;
    let inference = boundary::infer_sizes(&mut start, entries, &rules);
    let Survey { clock, failed, .. } = survey;
    let source = Source {
        snapshot,
        entries,
        start: &start,
        limits: Limits {
            rules: &rules,
            capacity_bytes: options.capacity_bytes,
            capped: failed || settings::sets_cap(snapshot.settings.as_ref()),
            peak_reserved_bytes: start.peak_reserved_bytes,
        },
        hidden,
        clock,
        marks: clock.map_or_else(Vec::new, |clock| clock::marks(snapshot, device, &clock)),
    };
    let mut pass = Forward::new(name, source);
    let initial = state::initial(&start, snapshot, &mut pass.builder);
    let facts = facts::facts(entries, |notes| pass.run(notes));
    let last = state::last(snapshot, device, &mut pass.builder);
    pass.free_unseen(|address| last.is_empty() || is_active(&last, address));
    let Forward {
        mut builder,
        counts,
        ..
    } = pass;
    let report = &mut builder.trace_mut().report;
    report.format = "pytorch snapshot".to_owned();
    report.entries = entries.len() as u64;
    if entries.is_empty() {
        report.note(
            1,
            "the file holds a state and no trace: its live blocks are the trace",
        );
    }
    counts.tell(report);
    notes::tell_start(&start, inference, report);
    notes::tell_times(snapshot, device, clock, report);
    notes::tell_file(snapshot, device, report);
    let trace = builder.trace_mut();
    trace.device = device;
    trace.capacity_bytes = options.capacity_bytes;
    trace.truth = Some(Box::new(Truth {
        source: "pytorch".to_owned(),
        entries: facts,
        initial,
        last,
        settings: snapshot
            .settings
            .as_ref()
            .map_or_else(Vec::new, settings::words),
    }));
    Ok(builder.finish())
}

/// Whether a block at `address` is in use in `segments`, which are in address order.
fn is_active(segments: &[TruthSegment], address: u64) -> bool {
    let after = segments.partition_point(|segment| segment.address <= address);
    segments[..after].last().is_some_and(|segment| {
        segment
            .blocks
            .iter()
            .any(|block| block.address == address && block.slot.is_some())
    })
}
