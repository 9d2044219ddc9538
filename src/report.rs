//! The report: one HTML file that holds everything it shows, and asks for nothing else.
//!
//! A [`Report`] is plain data, gathered from replays or from a folder of results. [`write()`]
//! puts what must be readable anywhere (sentences, tables) into the page as it is, and the
//! rest (blocks, curves, pictures) as packed columns ([`mod@pack`]) that the page's own script
//! unpacks when they are looked at. The sources of the page are in `assets/report/`.
//!
//! Nothing of a trace is ever taken for markup: texts are escaped where the page is written
//! and, inside the page, set as text. A policy of its content (CSP) lets only the scripts and
//! styles run that were written with it, and lets it load nothing.

mod clock;
mod layout;
pub mod pack;
mod page;
mod record;
mod run;
mod track;
mod words;

use std::sync::Arc;

use crate::observe::timeline::Bucket;
use crate::observe::{AddressMap, Failure, FreeList};
use crate::trace::Trace;

pub use page::write;
pub use record::{most_blocks, track};
pub use words::{Align, Part, Section, Table, Tone};

/// All that a page shows.
#[derive(Debug, Default)]
pub struct Report {
    /// The title.
    pub title: String,
    /// What stands first: sentences and tables, readable without a script.
    pub summary: Vec<Section>,
    /// What was replayed, each on the axis of its own events and times.
    pub runs: Vec<Run>,
    /// What happened in a run under one policy.
    pub tracks: Vec<Track>,
    /// Pictures of an experiment.
    pub pictures: Vec<Picture>,
    /// What stands last.
    pub notes: Vec<Section>,
}

/// One trace, or what results tell of one.
#[derive(Debug)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// The trace itself, where there is one: without it no block is known.
    pub trace: Option<Arc<Trace>>,
    /// Whether it has times of its own; an event counts 1 us where it has none.
    pub timed: bool,
}

/// One policy over a run.
#[derive(Debug)]
pub struct Track {
    /// Which run, by its place in the report.
    pub run: usize,
    /// The policy.
    pub policy: String,
    /// What may be reserved, bytes.
    pub capacity_bytes: u64,
    /// Memory over time.
    pub timeline: Vec<Bucket>,
    /// The failures that were kept.
    pub failures: Vec<Failure>,
    /// How many failed in all.
    pub failed: u64,
    /// Which addresses were in use when; needs the run's trace.
    pub map: Option<AddressMap>,
    /// The free blocks at moments.
    pub free_lists: Vec<FreeList>,
}

/// A picture of an experiment.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The workload that it shows; empty where it shows all.
    pub workload: String,
    /// What it shows.
    pub title: String,
    /// The picture.
    pub svg: Vec<u8>,
}
