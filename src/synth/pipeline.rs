//! A pipeline over several streams: copy in, compute, compute, copy out, each stage on a
//! stream of its own, with events between them.
//!
//! Sources: the CUDA Programming Guide on streams and events; PyTorch's notes on CUDA
//! semantics (`record_stream`); RMM's stream-ordered memory (a block is freed on the stream
//! that used it last).
//!
//! In each tick every stage works on another item, the last stage first. A stage waits for
//! the event of the stage before it, reads that one's output, which belongs to another
//! stream, writes its own, and records its event. Then the input goes, in one of three ways:
//! - `owner`: its own stream waits for the reader's event, then frees it;
//! - `consumer`: it is freed on the stream that read it;
//! - `deferred`: its own stream frees it at once, and it becomes reusable some ticks later.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::pen::{Deferred, Held, Pen, Stage};
use crate::trace::{Event, StreamId};
use crate::units::{serde_bytes, serde_nanos};

/// Who frees what a stage has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Frees {
    /// Its own stream, after it waited for the reader.
    Owner,
    /// The stream that read it.
    Consumer,
    /// Its own stream at once; reusable later.
    Deferred,
}

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The smallest item, such as a picture.
    #[serde(with = "serde_bytes")]
    pub smallest_bytes: u64,
    /// The largest item; sizes between are log-uniform.
    #[serde(with = "serde_bytes")]
    pub largest_bytes: u64,
    /// One stage each: how large its output is, in percent of the item.
    pub stages_percent: Vec<u64>,
    /// Workspace of a stage while it runs, in percent of its output.
    pub workspace_percent: u64,
    /// The ways inputs go; each input draws one.
    pub frees: Vec<Frees>,
    /// Ticks until a deferred free becomes reusable.
    pub deferred_ticks: u64,
    /// How long a stage takes.
    #[serde(with = "serde_nanos")]
    pub stage: u64,
}

/// The output of a stage on its way to the next.
struct Passing {
    held: Held,
    item_bytes: u64,
}

/// What a tick works with.
struct Run<'a> {
    spec: &'a Spec,
    sizes: Dice,
    ways: Dice,
    /// By the stage that made it.
    between: Vec<Option<Passing>>,
    /// With the tick in which it becomes reusable.
    deferred: VecDeque<(u64, Deferred)>,
    tags: [u32; 2],
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            streams: self.stages_percent.len() as u16,
            labels: vec!["tick".to_owned()],
        }
    }

    fn check(&self) -> Result<(), String> {
        if !(2..=1024).contains(&self.stages_percent.len()) {
            return Err("stages_percent: expected one number for each of 2 to 1024 stages".into());
        }
        if self
            .stages_percent
            .iter()
            .any(|percent| !(1..=100_000).contains(percent))
        {
            return Err("stages_percent: expected numbers from 1 to 100000".into());
        }
        if self.workspace_percent > 100_000 {
            return Err("workspace_percent: expected at most 100000".into());
        }
        if self.smallest_bytes == 0 || self.smallest_bytes > self.largest_bytes {
            return Err("smallest_bytes must be above 0 and at most largest_bytes".into());
        }
        if self.largest_bytes > 1 << 40 {
            return Err("largest_bytes: expected at most 1TiB".into());
        }
        if self.frees.is_empty() {
            return Err("frees: expected one or more of owner, consumer, deferred".into());
        }
        Ok(())
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut run = Run {
            spec: self,
            sizes: Dice::new("pipeline sizes", seed),
            ways: Dice::new("pipeline frees", seed),
            between: self.stages_percent.iter().map(|_| None).collect(),
            deferred: VecDeque::new(),
            tags: [pen.tag("output"), pen.tag("workspace")],
        };
        let mut tick = 0;
        while !pen.done() {
            pen.mark(0);
            run.complete(tick, pen);
            for stage in (0..self.stages_percent.len()).rev() {
                run.work(stage, tick, pen);
            }
            pen.wait_ns(self.stage);
            tick += 1;
        }
    }
}

impl Run<'_> {
    /// Deferred frees whose time has come become reusable.
    fn complete(&mut self, tick: u64, pen: &mut Pen<'_>) {
        while self.deferred.front().is_some_and(|(due, _)| *due <= tick) {
            let (_, deferred) = self.deferred.pop_front().expect("it was looked at");
            pen.complete(deferred);
        }
    }

    /// A stage works on its item, where one has come that far.
    fn work(&mut self, stage: usize, tick: u64, pen: &mut Pen<'_>) {
        let stream = stage as StreamId;
        let input = match stage.checked_sub(1) {
            Some(before) => match self.between[before].take() {
                Some(input) => Some(input),
                None => return,
            },
            None => None,
        };
        if let Some(Passing { held, .. }) = &input {
            pen.write(Event::Wait {
                stream,
                event: u32::from(held.stream),
            });
            pen.use_on(held, stream);
        }
        let item_bytes = match &input {
            Some(input) => input.item_bytes,
            None => {
                let spec = self.spec;
                self.sizes
                    .log_uniform(spec.smallest_bytes, spec.largest_bytes)
            }
        };
        let percent = |bytes: u64, percent: u64| (bytes * percent / 100).max(1);
        let bytes = percent(item_bytes, self.spec.stages_percent[stage]);
        let workspace_bytes = percent(bytes, self.spec.workspace_percent);
        let workspace = pen.alloc(workspace_bytes, stream, self.tags[1]);
        let held = pen.alloc(bytes, stream, self.tags[0]);
        pen.free(workspace);
        pen.write(Event::Record {
            stream,
            event: stage as u32,
        });
        if let Some(input) = input {
            self.give_back(input.held, stream, tick, pen);
        }
        if stage + 1 == self.spec.stages_percent.len() {
            pen.free(held);
        } else {
            self.between[stage] = Some(Passing { held, item_bytes });
        }
    }

    /// The input of a stage goes, in a way that is drawn.
    fn give_back(&mut self, held: Held, reader: StreamId, tick: u64, pen: &mut Pen<'_>) {
        match self.ways.pick(&self.spec.frees) {
            Frees::Owner => {
                pen.write(Event::Wait {
                    stream: held.stream,
                    event: u32::from(reader),
                });
                pen.free(held);
            }
            Frees::Consumer => pen.free_on(held, reader),
            Frees::Deferred => {
                let due = tick + self.spec.deferred_ticks;
                self.deferred.push_back((due, pen.defer(held)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
