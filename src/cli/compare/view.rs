//! The table of a comparison, and the sentences below it.

use super::Ranked;
use crate::cli::output::Output;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::experiment::{Ended, Scene};
use crate::observe::Row;
use crate::units::{format_bytes, format_count, format_nanos, format_ppm, ppm};

/// Utilisation above this is warned of.
const WARN_UTILISATION_PPM: u64 = 800_000;
/// Success below this is warned of.
const WARN_SUCCESS_PPM: u64 = 900_000;
/// External fragmentation above this is warned of.
const WARN_FRAGMENTATION_PPM: u64 = 300_000;

/// The columns; what is dropped first on a narrow terminal has the highest rank.
const COLUMNS: [Column; 13] = [
    Column::words("policy", 0),
    Column::number("failed", 0),
    Column::number("success", 1),
    Column::number("footprint", 0),
    Column::number("effi-\nciency", 2),
    Column::number("external\npeak", 3),
    Column::number("frag.\nmean", 4),
    Column::number("internal\npeak", 5),
    Column::number("utili-\nsation", 6),
    Column::number("moves", 9),
    Column::number("driver\ncalls", 8),
    Column::number("cost", 7),
    Column::words("", 0),
];

/// The table and what it comes to.
pub(super) fn lines(scene: &Scene, ranked: &[Ranked<'_>], output: &Output) -> Vec<String> {
    let mut table = Table::new(COLUMNS.to_vec());
    table.row(bound(scene));
    for (place, cell) in ranked.iter().enumerate() {
        table.row(match cell.ended {
            Ended::Replayed(seen) => row(&seen.row, place == 0),
            Ended::NotStarted(row, shortage) => {
                let wanted = format_bytes(shortage.wanted_bytes);
                told(
                    &cell.chosen.label,
                    &format!("cannot start: needs {wanted}"),
                    Some(row),
                )
            }
            Ended::Broke(_) => told(&cell.chosen.label, "broke a rule", None),
        });
    }
    let (mut lines, dropped) = table.lines(output.columns, output.colour);
    if !dropped.is_empty() {
        lines.push(format!(
            "left out on {} columns: {}; see rows.csv",
            output.columns,
            dropped.join(", ")
        ));
    }
    lines.extend(verdict(scene, ranked));
    lines
}

/// The first row: what no policy can beat.
fn bound(scene: &Scene) -> Vec<Cell> {
    let faint = |text: &str| Cell::new(text, Mark::Faint);
    vec![
        faint("bound"),
        faint(""),
        faint(""),
        faint(&format_bytes(scene.bound_bytes)),
        faint("100.0 %"),
    ]
}

/// A row of words for a policy without figures.
fn told(label: &str, what: &str, row: Option<&Row>) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); COLUMNS.len()];
    cells[0] = label.into();
    cells[1] = row
        .map_or_else(String::new, |row| format_count(row.failed))
        .into();
    cells[COLUMNS.len() - 1] = what.into();
    cells
}

fn row(row: &Row, best: bool) -> Vec<Cell> {
    let warn = |is: bool| if is { Mark::Warn } else { Mark::None };
    let share = |ppm: Option<u64>| ppm.map_or_else(|| "-".into(), format_ppm);
    let fragmented = |ppm: Option<u64>| {
        let much = ppm.is_some_and(|ppm| ppm > WARN_FRAGMENTATION_PPM);
        Cell::new(share(ppm), warn(much))
    };
    let utilised = row.peak_utilisation_ppm > WARN_UTILISATION_PPM;
    vec![
        Cell::new(&*row.policy, if best { Mark::Good } else { Mark::None }),
        format_count(row.failed).into(),
        Cell::new(
            format_ppm(row.success_ppm),
            warn(row.success_ppm < WARN_SUCCESS_PPM),
        ),
        format_bytes(row.footprint_bytes).into(),
        format_ppm(ppm(row.peak_requested_bytes, row.footprint_bytes)).into(),
        fragmented(row.peak_external_fragmentation_ppm),
        fragmented(row.mean_external_fragmentation_ppm),
        share(row.peak_internal_fragmentation_ppm).into(),
        Cell::new(format_ppm(row.peak_utilisation_ppm), warn(utilised)),
        format_count(row.moves).into(),
        format_count(row.driver_calls).into(),
        format_nanos(row.cost_ns).into(),
    ]
}

/// One or two sentences: who is best, and what the marks mean.
fn verdict(scene: &Scene, ranked: &[Ranked<'_>]) -> Vec<String> {
    let replayed = || {
        ranked.iter().filter_map(|cell| match cell.ended {
            Ended::Replayed(seen) => Some(&seen.row),
            _ => None,
        })
    };
    let Some(best) = replayed().next() else {
        return vec!["no policy could be replayed".into()];
    };
    let above = ppm(best.footprint_bytes, scene.bound_bytes) / 10_000;
    let served = if best.failed == 0 {
        "serves every request".into()
    } else {
        let requests = format_count(best.served + best.failed);
        format!("fails {} of {requests} requests", format_count(best.failed))
    };
    let mut lines = vec![format!(
        "Best is {}: it {served} in {}, {}.{:02} x the bound.",
        best.policy,
        format_bytes(best.footprint_bytes),
        above / 100,
        above % 100
    )];
    let marks = marks(replayed());
    if !marks.is_empty() {
        lines.push(format!("! marks {}.", marks.join("; ")));
    }
    lines
}

/// What the marks in the table mean, each only where it occurs.
fn marks<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Vec<&'static str> {
    let any = |is: fn(&Row) -> bool| rows.clone().any(is);
    let mut marks = Vec::new();
    if any(|row| row.success_ppm < WARN_SUCCESS_PPM) {
        marks.push("success below 90 % (too little memory for this policy)");
    }
    if any(|row| row.peak_external_fragmentation_ppm > Some(WARN_FRAGMENTATION_PPM)) {
        marks.push("external fragmentation above 30 % (free memory lies in pieces)");
    }
    if any(|row| row.peak_utilisation_ppm > WARN_UTILISATION_PPM) {
        marks.push("utilisation above 80 % (little room is left)");
    }
    marks
}

/// What is told of a policy that broke a rule.
pub(super) fn broke(cell: &Ranked<'_>) -> Option<String> {
    let what = cell.broke()?;
    Some(format!(
        "policy '{}' broke a rule: {what}",
        cell.chosen.label
    ))
}
