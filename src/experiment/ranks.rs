//! Many ranks of one run: a folder with one recording a rank, and what each policy comes to
//! over all of them: the worst, the median and the spread, and which rank fails first.
//!
//! Ranks run on cards of one kind, so a capacity that no trace tells is one for all: 1.1 x
//! the peak of the fullest rank. Times count from the beginning of each rank's recording.

#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Origin, Scene, Wanted};
use crate::observe::metric::Better;
use crate::observe::{Metric, Row, rows};
use crate::space::Device;
use crate::trace::Trace;

/// What is told over ranks of each policy.
pub const METRICS: [&str; 7] = [
    "failed",
    "footprint_bytes",
    "peak_reserved_bytes",
    "mean_external_fragmentation_ppm",
    "memory_efficiency_ppm",
    "driver_calls",
    "cost_ns",
];

/// Why a folder is no folder of ranks.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// The folder cannot be read.
    #[error("{}: {source}", folder.display())]
    Io {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no file in it.
    #[error("{}: there is no trace in this folder", .0.display())]
    Empty(PathBuf),
    /// Two files are of different formats.
    #[error(
        "{first} is a {first_format}, {other} is a {other_format}: ranks of one run have one format"
    )]
    Mixed {
        /// The first rank's trace.
        first: String,
        /// Its format.
        first_format: String,
        /// The trace of another format.
        other: String,
        /// Its format.
        other_format: String,
    },
    /// Two files have the name of one trace.
    #[error("two ranks are named '{0}'")]
    Twice(String),
}

/// The files of a folder in natural order (`rank2` before `rank10`). Folders, hidden files,
/// and the `final.csv` that goes with an `events.csv` are passed over.
///
/// # Errors
/// A folder that cannot be read, or holds no file.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, RanksError> {
    let failed = |source| RanksError::Io {
        folder: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = name_of(&path);
        let goes_with = path.with_file_name(name.replace("final.csv", "events.csv"));
        let second = goes_with != path && goes_with.exists();
        if path.is_file() && !name.starts_with('.') && !second {
            found.push(path);
        }
    }
    found.sort_by_key(|path| (natural(&name_of(path)), path.clone()));
    if found.is_empty() {
        return Err(RanksError::Empty(folder.to_owned()));
    }
    Ok(found)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A run of digits (how many without zeros in front, and which), or of anything else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Run {
    Number(usize, String),
    Text(String),
}

/// A name as people sort it: numbers by their value.
fn natural(name: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits);
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        let plain = run.trim_start_matches('0');
        runs.push(if digits {
            Run::Number(plain.len(), plain.to_owned())
        } else {
            Run::Text(run.to_owned())
        });
        rest = after;
    }
    runs
}

/// The rank of each trace: the number behind `rank` in its name, else the last number in it;
/// where a name has none or two have the same, all are counted from 0 in the order given.
#[must_use]
pub fn numbers(names: &[&str]) -> Vec<u64> {
    let counted = || (0..names.len() as u64).collect();
    let told: Option<Vec<u64>> = names.iter().map(|name| told_rank(name)).collect();
    let Some(told) = told else {
        return counted();
    };
    let mut apart = told.clone();
    apart.sort_unstable();
    apart.dedup();
    if apart.len() < told.len() {
        return counted();
    }
    told
}

fn told_rank(name: &str) -> Option<u64> {
    let lower = name.to_ascii_lowercase();
    let behind = lower.rsplit_once("rank").and_then(|(_, behind)| {
        let behind = behind.trim_start_matches(['-', '_', '.', '=']);
        let end = behind.find(|c: char| !c.is_ascii_digit());
        behind[..end.unwrap_or(behind.len())].parse().ok()
    });
    let parts = lower.split(|c: char| !c.is_ascii_digit());
    behind.or_else(|| parts.filter_map(|part| part.parse().ok()).next_back())
}

/// Puts ranks on cards of one kind. A capacity that no trace tells is one for all.
///
/// # Errors
/// Traces of different formats, or two of the same name.
pub fn scenes(
    traces: Vec<Trace>,
    device: &Arc<Device>,
    wanted: Wanted,
) -> Result<Vec<Scene>, RanksError> {
    for (at, trace) in traces.iter().enumerate() {
        let first = &traces[0];
        if trace.report.format != first.report.format {
            return Err(RanksError::Mixed {
                first: first.name.clone(),
                first_format: first.report.format.clone(),
                other: trace.name.clone(),
                other_format: trace.report.format.clone(),
            });
        }
        if traces[..at].iter().any(|other| other.name == trace.name) {
            return Err(RanksError::Twice(trace.name.clone()));
        }
    }
    let made = traces.into_iter();
    let made = made.map(|trace| Scene::new(trace, Arc::clone(device), wanted));
    let mut scenes: Vec<Scene> = made.collect();
    let tight = |scene: &&mut Scene| scene.capacity.origin == Origin::Tight;
    let fullest = scenes.iter_mut().filter(tight);
    if let Some(most) = fullest.map(|scene| scene.capacity.bytes).max() {
        let alone = scenes.iter_mut().filter(tight);
        alone.for_each(|scene| scene.capacity.bytes = most);
    }
    Ok(scenes)
}

/// The row of one policy on one rank. In csv the first two columns stand before those of
/// [`Row`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankRow {
    /// The rank.
    pub rank: u64,
    /// When its first request failed, ns since the start of its trace; nothing where none
    /// failed or the trace has no times.
    pub first_failure_ns: Option<u64>,
    /// The summary.
    pub row: Row,
}

impl RankRow {
    /// A row of a replay of `trace`.
    #[must_use]
    pub fn new(rank: u64, trace: &Trace, row: Row) -> Self {
        let failed = row.first_failure_event.filter(|_| trace.has_times());
        RankRow {
            rank,
            first_failure_ns: failed.map(|event| trace.time_ns(event as usize)),
            row,
        }
    }
}

/// Writes one row a policy and rank as csv. What [`rows::read_csv`] reads is there too.
///
/// # Errors
/// What `out` says.
pub fn write_csv(rows: &[RankRow], out: impl Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    let mut header = vec!["rank".to_owned(), "first_failure_ns".to_owned()];
    header.extend(rows::columns());
    csv.write_record(header)?;
    for row in rows {
        csv.serialize((row.rank, row.first_failure_ns, &row.row))?;
    }
    csv.flush()
}

/// A metric over ranks, in its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The metric's name.
    pub metric: &'static str,
    /// The worst value: the highest, or the lowest where more is better.
    pub worst: u64,
    /// The rank that has it; of several the lowest.
    pub worst_rank: u64,
    /// The value in the middle; of an even number the mean of the two, rounded down.
    pub median: u64,
    /// The highest value less the lowest.
    pub spread: u64,
}

impl Spread {
    /// Over ranks and their values; `None` where no rank has one.
    #[must_use]
    pub fn of(metric: &'static Metric, rows: &[&RankRow]) -> Option<Self> {
        let value = |row: &&RankRow| Some((metric.merit(&row.row)?, row.rank));
        let mut values: Vec<(u64, u64)> = rows.iter().filter_map(value).collect();
        values.sort_unstable();
        let (least, most) = (*values.first()?, *values.last()?);
        let highest = values.iter().find(|(value, _)| *value == most.0);
        let (worst, worst_rank) = match metric.better {
            Better::Higher => least,
            Better::Lower | Better::Neither => *highest?,
        };
        let upper = values[values.len() / 2].0;
        let lower = values[(values.len() - 1) / 2].0;
        Some(Spread {
            metric: metric.name,
            worst,
            worst_rank,
            median: lower + (upper - lower) / 2,
            spread: most.0 - least.0,
        })
    }
}

/// The failure that came first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstFailure {
    /// The rank.
    pub rank: u64,
    /// Its trace.
    pub trace: String,
    /// Number of the event.
    pub event: u64,
    /// Time since the start of the rank's trace, ns; nothing where it has no times.
    pub time_ns: Option<u64>,
}

/// What a policy comes to over all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OverRanks {
    /// The policy.
    pub policy: String,
    /// Ranks that have a row of it.
    pub ranks: u64,
    /// Ranks on which a request failed.
    pub ranks_failed: u64,
    /// Requests that failed, on all ranks.
    pub failed: u64,
    /// The rank that fails first: by time where all that fail have times, else by event; of
    /// several at once the lowest.
    pub first_failure: Option<FirstFailure>,
    /// Each of [`METRICS`] that some rank has a value of.
    pub spreads: Vec<Spread>,
}

impl OverRanks {
    fn of(policy: &str, rows: &[&RankRow]) -> Self {
        let metric = |name: &&str| Metric::find(name).expect("it is a metric");
        let spreads = METRICS.iter().map(metric);
        OverRanks {
            policy: policy.to_owned(),
            ranks: rows.len() as u64,
            ranks_failed: rows.iter().filter(|row| row.row.failed > 0).count() as u64,
            failed: rows.iter().map(|row| row.row.failed).sum(),
            first_failure: first_failure(rows),
            spreads: spreads.filter_map(|it| Spread::of(it, rows)).collect(),
        }
    }

    /// The spread of one of [`METRICS`].
    #[must_use]
    pub fn spread(&self, metric: &str) -> Option<&Spread> {
        self.spreads.iter().find(|spread| spread.metric == metric)
    }
}

fn first_failure(rows: &[&RankRow]) -> Option<FirstFailure> {
    let failing = rows
        .iter()
        .filter(|row| row.row.first_failure_event.is_some());
    let failing: Vec<&RankRow> = failing.copied().collect();
    let timed = failing.iter().all(|row| row.first_failure_ns.is_some());
    let when = |row: &&&RankRow| {
        let by_time = row.first_failure_ns.filter(|_| timed);
        (by_time.or(row.row.first_failure_event), row.rank)
    };
    let first = failing.iter().min_by_key(when)?;
    Some(FirstFailure {
        rank: first.rank,
        trace: first.row.trace.clone(),
        event: first.row.first_failure_event?,
        time_ns: first.first_failure_ns,
    })
}

/// Every policy over all ranks; best first: by failures, then by the footprint of the worst
/// rank, then by name.
#[must_use]
pub fn over_ranks(rows: &[RankRow]) -> Vec<OverRanks> {
    let mut policies: Vec<&str> = rows.iter().map(|row| row.row.policy.as_str()).collect();
    policies.sort_unstable();
    policies.dedup();
    let of_policy = |policy: &&str| {
        let own = rows.iter().filter(|row| row.row.policy == *policy);
        OverRanks::of(policy, &own.collect::<Vec<_>>())
    };
    let mut all: Vec<OverRanks> = policies.iter().map(of_policy).collect();
    all.sort_by_key(|one| {
        let footprint = one.spread("footprint_bytes").map(|spread| spread.worst);
        (one.failed, footprint, one.policy.clone())
    });
    all
}
