//! Statistics of a trace, and what is odd in it.

use serde::Serialize;

use crate::bound::peak_live_requested_bytes;
use crate::cli::charts::request_sizes;
use crate::cli::load;
use crate::cli::table::{Column, Table};
use crate::trace::{Event, ImportReport, Trace};
use crate::units::{format_bytes, format_bytes_exact, format_count};

/// What `trace info` tells.
#[derive(Debug, Serialize)]
pub(super) struct Stats<'a> {
    pub name: &'a str,
    pub device: u32,
    pub report: &'a ImportReport,
    pub events: u64,
    pub initial_events: u64,
    pub has_times: bool,
    pub span_ns: u64,
    pub streams: usize,
    pub pools: usize,
    pub tags: usize,
    pub capacity_bytes: Option<u64>,
    pub requests: u64,
    pub requested_bytes: u64,
    pub peak_live_bytes: u64,
    pub recorded_failures: u64,
    pub never_freed: u64,
    pub never_freed_bytes: u64,
    pub double_frees: u64,
    pub unknown_frees: u64,
    pub zero_sizes: u64,
    /// Requests by powers of two: bin n counts sizes from 2^n.
    pub sizes: Vec<SizeRow>,
    #[serde(skip)]
    first: Firsts,
}

/// One row of the histogram of sizes.
#[derive(Debug, Serialize)]
pub(super) struct SizeRow {
    from_bytes: u64,
    count: u64,
    bytes: u64,
}

/// Where each oddity happened first.
#[derive(Debug, Default)]
struct Firsts {
    double_free: Option<usize>,
    unknown_free: Option<usize>,
    zero_size: Option<usize>,
}

/// Something odd.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    count: u64,
    what: &'static str,
    pub first_event: usize,
    /// The program did something wrong; else it is only worth knowing.
    pub is_fault: bool,
}

impl Finding {
    /// For people.
    pub fn sentence(&self) -> String {
        let count = format_count(self.count);
        let first = format_count(self.first_event as u64);
        format!("{count} x {}, first at event {first}", self.what)
    }
}

impl<'a> Stats<'a> {
    /// Walks over a trace.
    pub fn of(trace: &'a Trace) -> Self {
        let sizes = request_sizes(trace).0;
        let requested = sizes
            .bins
            .iter()
            .fold(0u64, |sum, bin| sum.saturating_add(bin.bytes));
        let bins = (0u32..).zip(sizes.bins).filter(|(_, bin)| bin.count > 0);
        let mut stats = Stats {
            name: &trace.name,
            device: trace.device,
            report: &trace.report,
            events: trace.events.len() as u64,
            initial_events: trace.initial_events as u64,
            has_times: trace.has_times(),
            span_ns: load::span_ns(trace),
            streams: trace.streams.len(),
            pools: trace.pools.len(),
            tags: trace.tags.len().saturating_sub(1),
            capacity_bytes: trace.capacity_bytes,
            requests: trace.requests(),
            requested_bytes: requested,
            peak_live_bytes: peak_live_requested_bytes(trace),
            recorded_failures: 0,
            never_freed: 0,
            never_freed_bytes: 0,
            double_frees: 0,
            unknown_frees: 0,
            zero_sizes: sizes.zeros,
            sizes: bins
                .map(|(log2, bin)| SizeRow {
                    from_bytes: 1 << log2,
                    count: bin.count,
                    bytes: bin.bytes,
                })
                .collect(),
            first: Firsts::default(),
        };
        stats.walk(trace);
        stats
    }

    fn walk(&mut self, trace: &Trace) {
        let mut live = vec![None; trace.slots as usize];
        for (at, event) in trace.events.iter().enumerate() {
            match *event {
                Event::Alloc { slot, bytes, .. } => live[slot as usize] = Some(bytes),
                Event::Free { slot, .. } => live[slot as usize] = None,
                Event::Attempt { .. } => self.recorded_failures += 1,
                Event::FreeAgain { .. } => {
                    self.double_frees += 1;
                    self.first.double_free.get_or_insert(at);
                }
                Event::FreeUnknown { .. } => {
                    self.unknown_frees += 1;
                    self.first.unknown_free.get_or_insert(at);
                }
                _ => {}
            }
            if let Event::Alloc { bytes: 0, .. } | Event::Attempt { bytes: 0, .. } = event {
                self.first.zero_size.get_or_insert(at);
            }
        }
        for bytes in live.into_iter().flatten() {
            self.never_freed += 1;
            self.never_freed_bytes = self.never_freed_bytes.saturating_add(bytes);
        }
    }

    /// What is odd, faults first.
    pub fn findings(&self) -> Vec<Finding> {
        let end = self.events.saturating_sub(1) as usize;
        let findings = [
            (
                self.double_frees,
                "a double free",
                self.first.double_free,
                true,
            ),
            (
                self.unknown_frees,
                "a free of nothing allocated",
                self.first.unknown_free,
                true,
            ),
            (
                self.zero_sizes,
                "a request of no bytes",
                self.first.zero_size,
                true,
            ),
        ];
        let mut findings: Vec<Finding> = findings
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, what, first, is_fault)| Finding {
                count,
                what,
                first_event: first.unwrap_or(end),
                is_fault,
            })
            .collect();
        if self.never_freed > 0 {
            findings.push(Finding {
                count: self.never_freed,
                what: "an allocation that is never freed (it lives to the end)",
                first_event: end,
                is_fault: false,
            });
        }
        findings
    }

    /// The histogram of sizes as a table with bars.
    pub fn histogram(&self) -> Table {
        const BAR: u64 = 40;
        let most = self.sizes.iter().map(|row| row.count).max().unwrap_or(1);
        let mut table = Table::new(vec![
            Column::words("size from", 0),
            Column::number("requests", 0),
            Column::number("bytes", 1),
            Column::words("", 2),
        ]);
        for row in &self.sizes {
            let length = (row.count * BAR).div_ceil(most) as usize;
            table.row(vec![
                format_bytes_exact(row.from_bytes).into(),
                format_count(row.count).into(),
                format_bytes(row.bytes).into(),
                "#".repeat(length).into(),
            ]);
        }
        table
    }
}
