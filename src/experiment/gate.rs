//! Limits on rows, for continuous integration: against a baseline of earlier rows, or as they
//! stand. Nothing passes unseen: what cannot be compared is an error.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use crate::observe::metric::Better;
use crate::observe::{Metric, Row, rows};
use crate::units::{format_bytes, format_count, parse_percent};

/// What a value may be at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Most {
    /// So much.
    Value(u64),
    /// So much more than the baseline's.
    More(u64),
    /// So many parts per million more than the baseline's.
    Share(u64),
}

/// `POLICY.METRIC=LIMIT`.
#[derive(Debug, Clone)]
pub struct Limit {
    text: String,
    /// `None` for every policy.
    policy: Option<String>,
    metric: &'static Metric,
    most: Most,
}

impl FromStr for Limit {
    type Err = String;

    /// Reads `POLICY.METRIC=+5%`, `=+200MiB`, `=+0` (against a baseline) or `=12GiB`; `*` is
    /// every policy.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "expected POLICY.METRIC=LIMIT, such as pytorch.peak_reserved_bytes=+5%";
        let (head, limit) = text.rsplit_once('=').ok_or(form)?;
        let (policy, metric) = head.rsplit_once('.').ok_or(form)?;
        if policy.is_empty() || limit.is_empty() {
            return Err(form.into());
        }
        let metric = Metric::find(metric).map_err(|error| error.to_string())?;
        if metric.better == Better::Higher {
            return Err(format!(
                "more of {} is better, so it has no upper limit; limit its counterpart, such as \
                 failed, failure_ppm or footprint_bytes",
                metric.name
            ));
        }
        let most = match limit.strip_prefix('+') {
            None => Most::Value(metric.parse(limit)?),
            Some(share) if share.trim_end().ends_with('%') => {
                Most::Share(parse_percent(share).map_err(|error| error.to_string())?)
            }
            Some(more) => Most::More(metric.parse(more)?),
        };
        Ok(Limit {
            text: text.to_owned(),
            policy: (policy != "*").then(|| policy.to_owned()),
            metric,
            most,
        })
    }
}

impl Limit {
    /// Whether it is relative to a baseline.
    #[must_use]
    pub fn needs_baseline(&self) -> bool {
        !matches!(self.most, Most::Value(_))
    }

    /// Whether it is about a policy.
    fn is_of(&self, policy: &str) -> bool {
        self.policy.as_deref().is_none_or(|own| own == policy)
    }
}

/// Why a limit cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A limit names a policy that is not compared.
    #[error("limit '{limit}': policy '{policy}' is not compared; compared are: {known}")]
    Policy {
        /// The limit.
        limit: String,
        /// The policy.
        policy: String,
        /// Those compared.
        known: String,
    },
    /// A limit is relative, and there is nothing to compare with.
    #[error("limit '{0}' is relative, and there is no baseline")]
    NoBaseline(String),
    /// A baseline cannot be read.
    #[error("baseline {file}: {what}")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The baseline and the rows do not belong together.
    #[error("limit '{limit}': {what}")]
    Mismatch {
        /// The limit.
        limit: String,
        /// What does not fit.
        what: String,
    },
}

/// Rows of an earlier comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// As it was named.
    file: String,
    columns: Vec<String>,
    rows: Vec<Row>,
}

impl Baseline {
    /// Reads a `rows.csv`, or those in a folder of results.
    ///
    /// # Errors
    /// A file or folder that cannot be read or holds no rows.
    pub fn read(path: &Path) -> Result<Self, GateError> {
        let name = path.display().to_string();
        let unreadable = |file: &Path, what: String| GateError::Unreadable {
            file: file.display().to_string(),
            what,
        };
        let files = if path.is_dir() {
            folder(path).map_err(|error| unreadable(path, error.to_string()))?
        } else {
            vec![path.to_owned()]
        };
        let (mut all, mut columns) = (Vec::new(), None);
        for file in &files {
            let wrong = |what: String| unreadable(file, what);
            let open = || File::open(file).map_err(|error| wrong(error.to_string()));
            let header = csv::Reader::from_reader(open()?).headers().cloned();
            let header = header.map_err(|error| wrong(error.to_string()))?;
            let header: Vec<String> = header.iter().map(str::to_owned).collect();
            let known = columns.get_or_insert_with(|| header.clone());
            known.retain(|column| header.contains(column));
            let read = rows::read_csv(&file.display().to_string(), open()?);
            all.extend(read.map_err(|error| wrong(error.to_string()))?);
        }
        if all.is_empty() {
            return Err(unreadable(path, "there are no rows".into()));
        }
        Ok(Baseline {
            file: name,
            columns: columns.unwrap_or_default(),
            rows: all,
        })
    }

    /// The row that a row is to be compared with.
    fn row_for(&self, row: &Row, limit: &Limit) -> Result<&Row, GateError> {
        let mismatch = |what: String| GateError::Mismatch {
            limit: limit.text.clone(),
            what,
        };
        let same_trace = |other: &&Row| other.trace == row.trace && other.seed == row.seed;
        let of_trace: Vec<&Row> = self.rows.iter().filter(same_trace).collect();
        if of_trace.is_empty() {
            let traces = listed(self.rows.iter().map(|row| &*row.trace));
            let (file, trace) = (&self.file, &row.trace);
            return Err(mismatch(format!(
                "baseline {file} has no trace '{trace}'; it has: {traces}"
            )));
        }
        let own = of_trace.iter().filter(|other| other.policy == row.policy);
        let (file, policy, trace) = (&self.file, &row.policy, &row.trace);
        let base = match own.collect::<Vec<_>>()[..] {
            [base] => *base,
            [] => {
                let policies = listed(of_trace.iter().map(|row| &*row.policy));
                return Err(mismatch(format!(
                    "baseline {file} has no policy '{policy}' of trace '{trace}'; it has: {policies}"
                )));
            }
            _ => {
                return Err(mismatch(format!(
                    "baseline {file} has several rows of '{policy}' on '{trace}'"
                )));
            }
        };
        if base.capacity_bytes != row.capacity_bytes {
            let (before, now) = (base.capacity_bytes, row.capacity_bytes);
            return Err(mismatch(format!(
                "'{trace}' had a capacity of {} ({} bytes) in baseline {file}, and has {} ({} \
                 bytes) now",
                format_bytes(before),
                format_count(before),
                format_bytes(now),
                format_count(now)
            )));
        }
        let is_column = rows::columns()
            .iter()
            .any(|known| known == limit.metric.name);
        if is_column && !self.columns.iter().any(|known| known == limit.metric.name) {
            let column = limit.metric.name;
            return Err(mismatch(format!(
                "baseline {file} has no column '{column}'"
            )));
        }
        Ok(base)
    }

    /// For a limit of every policy: what the baseline has must have been compared too.
    fn covered(&self, limit: &Limit, rows: &[Row]) -> Result<(), GateError> {
        let gone = self.rows.iter().find(|base| {
            let same = |row: &Row| row.trace == base.trace && row.policy == base.policy;
            limit.is_of(&base.policy) && !rows.iter().any(same)
        });
        gone.map_or(Ok(()), |gone| {
            Err(GateError::Mismatch {
                limit: limit.text.clone(),
                what: format!(
                    "baseline {} has '{}' on trace '{}', which is not compared",
                    self.file, gone.policy, gone.trace
                ),
            })
        })
    }
}

/// The `rows.csv` of a folder, or of the folders in it.
fn folder(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let own = path.join("rows.csv");
    if own.is_file() {
        return Ok(vec![own]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let below = entry?.path().join("rows.csv");
        if below.is_file() {
            files.push(below);
        }
    }
    files.sort();
    Ok(files)
}

/// Names, each once, separated by commas.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// One value against one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The limit as it was given.
    pub limit: String,
    /// The trace.
    pub trace: String,
    /// The policy.
    pub policy: String,
    /// The metric.
    pub metric: &'static str,
    /// The baseline's value, in the metric's unit; nothing for a limit that needs none.
    pub baseline: Option<u64>,
    /// What the value may be at most.
    pub most: u64,
    /// The value.
    pub value: u64,
    /// Whether it is above the limit, or the policy serves nothing any more: then its bytes
    /// mean nothing.
    pub regressed: bool,
}

/// Sees to it that each limit can be checked at all: before any work.
///
/// # Errors
/// A policy that is not compared, or a relative limit without a baseline.
pub fn possible<'a>(
    limits: &[Limit],
    policies: impl Iterator<Item = &'a str>,
    has_baseline: bool,
) -> Result<(), GateError> {
    let policies: Vec<&str> = policies.collect();
    for limit in limits {
        if limit.needs_baseline() && !has_baseline {
            return Err(GateError::NoBaseline(limit.text.clone()));
        }
        let named = limit.policy.as_deref();
        if let Some(policy) = named.filter(|own| !policies.contains(own)) {
            return Err(GateError::Policy {
                limit: limit.text.clone(),
                policy: policy.to_owned(),
                known: policies.join(", "),
            });
        }
    }
    Ok(())
}

/// Holds every row against every limit that is about it.
///
/// # Errors
/// Anything that cannot be compared: a trace, a policy, a column or a value that is missing
/// on one side, or another capacity.
pub fn check(
    limits: &[Limit],
    rows: &[Row],
    baseline: Option<&Baseline>,
) -> Result<Vec<Check>, GateError> {
    let mut checks = Vec::new();
    for limit in limits {
        if let Some(baseline) = baseline.filter(|_| limit.needs_baseline()) {
            baseline.covered(limit, rows)?;
        }
        let own = rows.iter().filter(|row| limit.is_of(&row.policy));
        let mut compared = 0;
        for row in own {
            if let Some(check) = one(limit, row, baseline)? {
                checks.push(check);
                compared += 1;
            }
        }
        if compared == 0 {
            return Err(GateError::Mismatch {
                limit: limit.text.clone(),
                what: format!("no row has a value of '{}'", limit.metric.name),
            });
        }
    }
    Ok(checks)
}

/// A row against a limit; `None` where the value is undefined now as it was before.
fn one(limit: &Limit, row: &Row, baseline: Option<&Baseline>) -> Result<Option<Check>, GateError> {
    let base = match baseline.filter(|_| limit.needs_baseline()) {
        Some(baseline) => Some(baseline.row_for(row, limit)?),
        None if limit.needs_baseline() => return Err(GateError::NoBaseline(limit.text.clone())),
        None => None,
    };
    let before = base.map(|base| limit.metric.of(base));
    let undefined = |when: &str| GateError::Mismatch {
        limit: limit.text.clone(),
        what: format!(
            "'{}' of '{}' on trace '{}' is undefined {when}",
            limit.metric.name, row.policy, row.trace
        ),
    };
    let (baseline, value) = match (before, limit.metric.of(row)) {
        (Some(None), None) => return Ok(None),
        (_, None) => return Err(undefined("now")),
        (Some(None), Some(_)) => return Err(undefined("in the baseline")),
        (before, Some(value)) => (before.flatten(), value),
    };
    let from = baseline.unwrap_or(0);
    let most = match limit.most {
        Most::Value(most) => most,
        Most::More(more) => from.saturating_add(more),
        Most::Share(ppm) => {
            let more = u128::from(from) * u128::from(ppm) / 1_000_000;
            from.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
        }
    };
    let serves = |row: &Row| row.served > 0 || row.failed == 0;
    let died = !serves(row) && base.is_none_or(serves);
    Ok(Some(Check {
        limit: limit.text.clone(),
        trace: row.trace.clone(),
        policy: row.policy.clone(),
        metric: limit.metric.name,
        baseline,
        most,
        value,
        regressed: value > most || died,
    }))
}
