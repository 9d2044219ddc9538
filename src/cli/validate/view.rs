//! The one table of a validation.

use crate::cli::CliError;
use crate::cli::output::Output;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::cuda::{CardRow, Verdict};
use crate::units::{format_bytes, format_count, format_nanos};

/// Prints the rows and what they come to.
pub(super) fn tell(rows: &[CardRow], output: &mut Output) -> Result<(), CliError> {
    if let Some(row) = rows.first() {
        let planted = match row.fault {
            "none" => String::new(),
            fault => format!("; planted fault: {fault}"),
        };
        output.line(&format!("{}, checks: {}{planted}", row.card, row.coverage))?;
    }
    let table = table(rows);
    for line in table.lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let checked: u64 = rows.iter().map(|row| row.checked_bytes).sum();
    let broken: u64 = rows.iter().map(|row| row.patterns_broken).sum();
    output.line(&format!(
        "{} agree, {} approximate, {} disagree, {} not run; {} checked, {} patterns broken",
        count(Verdict::Agrees),
        count(Verdict::Approximate),
        count(Verdict::Disagrees),
        count(Verdict::NotRun),
        format_bytes(checked),
        format_count(broken),
    ))
}

fn table(rows: &[CardRow]) -> Table {
    let mut table = Table::new(vec![
        Column::words("policy", 0),
        Column::words("trace", 1),
        Column::words("verdict", 0),
        Column::number("blocks", 3),
        Column::number("checked", 0),
        Column::number("moves", 4),
        Column::number("patterns\nbroken", 0),
        Column::number("failures\npredicted", 0),
        Column::number("met", 0),
        Column::number("by rule", 2),
        Column::number("free memory\nas predicted", 1),
        Column::number("driver\ntime", 2),
        Column::number("by the\nmodel", 2),
        Column::words("note", 1),
    ]);
    for row in rows {
        let mark = match row.verdict {
            Verdict::Disagrees => Mark::Warn,
            Verdict::NotRun => Mark::Faint,
            _ => Mark::None,
        };
        table.row(vec![
            row.policy.as_str().into(),
            row.trace.as_str().into(),
            Cell::new(row.verdict.name(), mark),
            format_count(row.allocations).into(),
            format_bytes(row.checked_bytes).into(),
            format_count(row.moves_checked).into(),
            format_count(row.patterns_broken).into(),
            format_count(row.failures_predicted).into(),
            format_count(row.failures_met).into(),
            format_count(row.failures_by_rule).into(),
            format!("{} of {}", row.looks_met, row.looks).into(),
            format_nanos(row.driver_ns).into(),
            format_nanos(row.driver_model_ns).into(),
            row.note.as_str().into(),
        ]);
    }
    table
}
