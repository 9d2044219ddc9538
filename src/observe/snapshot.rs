//! A simulated run as a PyTorch snapshot: it opens in PyTorch's own memory_viz.
//!
//! What the policy did becomes the entries that PyTorch would have recorded: segments got
//! from the driver and given back, pages mapped and unmapped, blocks handed out, frees
//! asked for and completed, requests that failed. A move is told as a free and a new
//! allocation of the same bytes, for PyTorch moves nothing. Tags that tell a call stack
//! (`forward@model.py:12 < main@train.py:40`) become one; any other is a single frame.
//! Marks become annotations that begin and do not end.

use crate::replay::{Moment, Observer, Outcome};
use crate::space::{BlockId, Space, State, Step, StepKind};
use crate::trace::snapshot::{
    Action, Annotation, Block, BlockState, Entry, Frame, PoolId, Segment, Snapshot, StackId,
};
use crate::trace::{Event, StreamId, Trace};

/// Segments up to this belong to PyTorch's pool of small blocks.
const SMALL_BYTES: u64 = 2 << 20;

/// Notes what happens during a replay whose Space records its steps.
#[derive(Debug)]
pub struct Recorder<'a> {
    trace: &'a Trace,
    snapshot: Snapshot,
    entries: Vec<Entry>,
    stacks: Vec<Option<StackId>>,
    /// What each block in use was asked for with, by its handle.
    asked: Vec<Option<Asked>>,
    time_us: i64,
}

/// What a block in use was asked for with.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    bytes: u64,
    stream: StreamId,
    pool: u16,
    tag: u32,
    /// The program gave it back, but it is not reusable yet.
    freed: bool,
}

impl<'a> Recorder<'a> {
    /// Begins before the first event; `space` is what the policy made of it at the start.
    #[must_use]
    pub fn new(trace: &'a Trace, space: &Space) -> Self {
        let mut recorder = Recorder {
            trace,
            snapshot: Snapshot::default(),
            entries: Vec::new(),
            stacks: vec![None; trace.tags.len()],
            asked: Vec::new(),
            time_us: 0,
        };
        for run in runs(space) {
            let action = match run.expandable {
                true => Action::SegmentMap,
                false => Action::SegmentAlloc,
            };
            recorder.enter(action, run.address, run.bytes, Asked::default());
        }
        recorder
    }

    /// Ends the run: segments and blocks as they are in `space` now.
    #[must_use]
    pub fn finish(mut self, space: &Space) -> Snapshot {
        let mut runs = runs(space);
        runs.sort_by_key(|run| run.address);
        for run in runs {
            let segment = self.segment(space, &run);
            self.snapshot.segments.push(segment);
        }
        let device = self.trace.device as usize;
        self.snapshot.device_traces = vec![Vec::new(); device];
        self.snapshot.device_traces.push(self.entries);
        self.snapshot
    }

    fn enter(&mut self, action: Action, address: u64, bytes: u64, asked: Asked) {
        let mut entry = Entry::new(action, address, bytes, self.stream(asked.stream));
        entry.stack = self.stack(asked.tag);
        entry.pool = Some(self.pool(asked.pool));
        entry.set_time_us(Some(self.time_us));
        self.entries.push(entry);
    }

    /// The raw handle of a stream.
    fn stream(&self, stream: StreamId) -> u64 {
        let raw = self.trace.streams.get(usize::from(stream));
        raw.copied().unwrap_or(u64::from(stream))
    }

    fn pool(&mut self, pool: u16) -> PoolId {
        let raw = self.trace.pools.get(usize::from(pool)).copied();
        self.snapshot.tables.add_pool(raw.unwrap_or((0, 0)))
    }

    /// The call stack that a tag tells.
    fn stack(&mut self, tag: u32) -> Option<StackId> {
        let at = tag as usize;
        if tag == 0 || at >= self.stacks.len() {
            return None;
        }
        if self.stacks[at].is_none() {
            let tables = &mut self.snapshot.tables;
            let mut frames = Vec::new();
            for text in self.trace.tags[at].split(" < ") {
                let (name, file, line) = frame(text);
                let frame = Frame {
                    name: tables.add_text(name),
                    filename: tables.add_text(file),
                    line,
                };
                frames.push(tables.add_frame(frame));
            }
            self.stacks[at] = Some(tables.add_stack(&frames));
        }
        self.stacks[at]
    }

    fn step(&mut self, step: &Step, request: Asked) {
        let (address, bytes) = (step.address, step.bytes);
        match step.kind {
            StepKind::Map(_) => self.enter(Action::SegmentAlloc, address, bytes, request),
            StepKind::Unmap(_) => self.enter(Action::SegmentFree, address, bytes, request),
            StepKind::Back(_) | StepKind::Alias(_) => {
                self.enter(Action::SegmentMap, address, bytes, request);
            }
            StepKind::Unback(_) | StepKind::Unalias(_) => {
                self.enter(Action::SegmentUnmap, address, bytes, request);
            }
            StepKind::Place(block) => {
                *self.of(block) = Some(request);
                self.enter(Action::Alloc, address, request.bytes, request);
            }
            StepKind::Defer(block) => {
                let asked = self.taken(block);
                self.enter(Action::FreeRequested, address, asked.bytes, asked);
                *self.of(block) = Some(Asked {
                    freed: true,
                    ..asked
                });
            }
            StepKind::Release(block) => {
                let asked = self.taken(block);
                self.freed(address, asked);
            }
            StepKind::Move { block } => {
                let asked = self.taken(block);
                self.freed(step.from, asked);
                self.enter(Action::Alloc, address, asked.bytes, asked);
                *self.of(block) = Some(asked);
            }
            StepKind::Refused
            | StepKind::Reserve(_)
            | StepKind::Unreserve(_)
            | StepKind::PageOut
            | StepKind::PageIn
            | StepKind::Wait { .. }
            | StepKind::Synchronise
            | StepKind::SynchroniseStream(_) => {}
        }
    }

    fn freed(&mut self, address: u64, asked: Asked) {
        if !asked.freed {
            self.enter(Action::FreeRequested, address, asked.bytes, asked);
        }
        self.enter(Action::FreeCompleted, address, asked.bytes, asked);
    }

    fn of(&mut self, block: BlockId) -> &mut Option<Asked> {
        let at = block.0 as usize;
        if at >= self.asked.len() {
            self.asked.resize(at + 1, None);
        }
        &mut self.asked[at]
    }

    fn taken(&mut self, block: BlockId) -> Asked {
        self.of(block).take().expect("a block in use was placed")
    }

    fn segment(&mut self, space: &Space, run: &Run) -> Segment {
        let mut segment = Segment {
            device: self.trace.device,
            address: run.address,
            total_bytes: run.bytes,
            allocated_bytes: 0,
            active_bytes: 0,
            requested_bytes: None,
            stream: self.stream(space.stream(run.blocks[0])),
            large: run.bytes > SMALL_BYTES,
            pool: None,
            expandable: run.expandable,
            stack: None,
            blocks: Vec::with_capacity(run.blocks.len()),
        };
        let (mut requested_bytes, mut pool) = (0, None);
        for block in &run.blocks {
            let asked = *self.of(*block);
            let bytes = space.bytes(*block);
            let state = match space.state(*block) {
                State::Used => BlockState::ActiveAllocated,
                State::Pending => BlockState::ActivePendingFree,
                _ => BlockState::Inactive,
            };
            if let Some(asked) = asked {
                segment.active_bytes += bytes;
                requested_bytes += asked.bytes;
                pool = pool.or(Some(asked.pool));
            }
            if state == BlockState::ActiveAllocated {
                segment.allocated_bytes += bytes;
            }
            segment.blocks.push(Block {
                address: space.base(*block),
                bytes,
                requested_bytes: Some(asked.map_or(0, |asked| asked.bytes)),
                state,
                stack: asked.and_then(|asked| self.stack(asked.tag)),
            });
        }
        segment.requested_bytes = Some(requested_bytes);
        segment.pool = Some(self.pool(pool.unwrap_or(0)));
        segment
    }
}

impl Observer for Recorder<'_> {
    fn see(&mut self, moment: &Moment<'_>) {
        self.time_us = i64::try_from(moment.time_ns / 1000).unwrap_or(i64::MAX);
        let request = match *moment.event {
            Event::Alloc {
                bytes,
                stream,
                pool,
                tag,
                ..
            }
            | Event::Attempt {
                bytes,
                stream,
                pool,
                tag,
                ..
            } => Asked {
                bytes,
                stream,
                pool,
                tag,
                freed: false,
            },
            _ => Asked::default(),
        };
        for step in moment.space.steps() {
            self.step(step, request);
        }
        if let Outcome::Failed(shortage) = moment.outcome {
            self.enter(Action::Oom, 0, shortage.wanted_bytes, request);
            if let Some(entry) = self.entries.last_mut() {
                entry.set_device_free_bytes(Some(moment.space.room_bytes()));
            }
        }
        if let Event::Mark { label } = *moment.event {
            self.snapshot.annotations.push(Annotation {
                name: self.trace.labels[label as usize].clone(),
                stage: "START".into(),
                device: self.trace.device,
                time_us: self.time_us,
            });
        }
    }
}

/// Name, file and line of `forward@model.py:12`; a text of another form is a name.
fn frame(text: &str) -> (&str, &str, u32) {
    let parts = text.rsplit_once(':').and_then(|(place, line)| {
        let (name, file) = place.split_once('@')?;
        Some((name, file, line.parse().ok()?))
    });
    parts.unwrap_or((text, "", 0))
}

/// A stretch of mapped memory: a whole segment, or neighbours with pages of a reservation.
struct Run {
    address: u64,
    bytes: u64,
    expandable: bool,
    blocks: Vec<BlockId>,
}

fn runs(space: &Space) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for segment in space.segments() {
        let expandable = space.segment_page(segment).is_some();
        let mut goes_on = false;
        for block in space.blocks(segment) {
            if matches!(space.state(block), State::Unmapped | State::Lent) {
                goes_on = false;
                continue;
            }
            match runs.last_mut().filter(|_| goes_on) {
                Some(run) => {
                    run.bytes += space.bytes(block);
                    run.blocks.push(block);
                }
                None => runs.push(Run {
                    address: space.base(block),
                    bytes: space.bytes(block),
                    expandable,
                    blocks: vec![block],
                }),
            }
            goes_on = true;
        }
    }
    runs
}

#[cfg(test)]
mod tests;
