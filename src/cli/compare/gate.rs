//! Limits on what a comparison finds, for continuous integration.

use std::path::PathBuf;

use clap::Args;

use super::Done;
use crate::cli::CliError;
use crate::cli::load::counted;
use crate::cli::output::Output;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::experiment::gate::{Baseline, Check, Limit, check, possible};
use crate::observe::{Metric, Row};
use crate::policy::Chosen;

/// Limits and what they are relative to.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// Exit with 20 where a value is above a limit: POLICY.METRIC=+5%, =+200MiB or =+0 more than
    /// in the baseline, or =12GiB as such; `*` is every policy; may be repeated
    #[arg(long = "fail-above", value_name = "POLICY.METRIC=LIMIT")]
    limits: Vec<Limit>,

    /// The baseline: the rows.csv of an earlier comparison, or its folder
    #[arg(long, value_name = "ROWS.CSV", requires = "limits")]
    against: Option<PathBuf>,
}

/// Limits that can be checked.
pub(super) struct Gate<'a> {
    limits: &'a [Limit],
    baseline: Option<Baseline>,
}

impl GateArgs {
    /// Reads the baseline, and sees to it that each limit can be checked: before the work.
    pub(super) fn open(&self, policies: &[Chosen]) -> Result<Gate<'_>, CliError> {
        let names = policies.iter().map(|chosen| &*chosen.label);
        possible(&self.limits, names, self.against.is_some())?;
        let baseline = self.against.as_deref().map(Baseline::read);
        Ok(Gate {
            limits: &self.limits,
            baseline: baseline.transpose()?,
        })
    }
}

/// Tells the results as JSON, where asked for, and what is above its limit or broke a rule.
pub(super) fn finish(
    gate: Gate<'_>,
    compared: Vec<Done>,
    output: &mut Output,
) -> Result<(), CliError> {
    let rows: Vec<Row> = compared.iter().flat_map(|done| done.rows.clone()).collect();
    let checked = match gate.limits {
        [] => None,
        limits => Some(check(limits, &rows, gate.baseline.as_ref())),
    };
    let (mut results, mut broken) = (Vec::new(), Vec::new());
    for done in compared {
        results.push(done.json);
        broken.extend(done.broken);
    }
    if let Some(Ok(checks)) = &checked {
        let checks = serde_json::to_value(checks).expect("checks are plain data");
        results.push(serde_json::json!({ "checks": checks }));
    }
    if output.json {
        output.result(&results)?;
    }
    if !broken.is_empty() {
        return Err(CliError::Broke(broken));
    }
    match checked.transpose()? {
        Some(checks) => judge(&checks, output),
        None => Ok(()),
    }
}

/// Tells what is above its limit.
fn judge(checks: &[Check], output: &mut Output) -> Result<(), CliError> {
    let regressed: Vec<&Check> = checks.iter().filter(|check| check.regressed).collect();
    if regressed.is_empty() {
        let values = counted(checks.len(), "value");
        return output.line(&format!("{values} checked, none above its limit"));
    }
    for line in table(&regressed).lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    Err(CliError::Regressed {
        regressed: regressed.len(),
        of: checks.len(),
    })
}

fn table(regressed: &[&Check]) -> Table {
    let mut table = Table::new(vec![
        Column::words("trace", 0),
        Column::words("policy", 0),
        Column::words("metric", 0),
        Column::number("baseline", 0),
        Column::number("at most", 1),
        Column::number("now", 0),
        Column::words("limit", 2),
    ]);
    for check in regressed {
        let metric = Metric::find(check.metric).expect("a check is of a metric");
        let show = |value: u64| metric.print(value as f64);
        table.row(vec![
            check.trace.as_str().into(),
            check.policy.as_str().into(),
            check.metric.into(),
            check.baseline.map_or_else(|| "-".into(), show).into(),
            show(check.most).into(),
            Cell::new(show(check.value), Mark::Warn),
            check.limit.as_str().into(),
        ]);
    }
    table
}
