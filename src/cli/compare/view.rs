//! The table of a comparison, and the sentences below it.

use super::Ranked;
use crate::cli::output::Output;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::experiment::{Ended, Origin, Scene};
use crate::observe::{Metric, Row, Warning, warnings};
use crate::policy::Chosen;
use crate::units::{format_bytes, format_count, format_nanos, ppm};
use crate::whatif::{Prediction, advice};

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
    let (mut lines, dropped) = table(scene, ranked).lines(output.columns, output.colour);
    if !dropped.is_empty() {
        lines.push(format!(
            "left out on {} columns: {}; see rows.csv",
            output.columns,
            dropped.join(", ")
        ));
    }
    lines.extend(verdict(ranked));
    lines
}

/// What no policy can beat, then the policies, best first.
pub(in crate::cli) fn table(scene: &Scene, ranked: &[Ranked<'_>]) -> Table {
    let mut table = Table::new(COLUMNS.to_vec());
    table.row(bound(scene.bound_bytes));
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
    table
}

/// The same of rows alone, best first.
pub(in crate::cli) fn table_of_rows(bound_bytes: u64, rows: &[&Row]) -> Table {
    let mut table = Table::new(COLUMNS.to_vec());
    table.row(bound(bound_bytes));
    for (place, one) in rows.iter().enumerate() {
        table.row(row(one, place == 0));
    }
    table
}

/// The first row: what no policy can beat.
fn bound(bytes: u64) -> Vec<Cell> {
    let faint = |text: &str| Cell::new(text, Mark::Faint);
    vec![
        faint("bound"),
        faint(""),
        faint(""),
        faint(&format_bytes(bytes)),
        faint("100.0 %"),
    ]
}

/// What of the bound can be had by an allocator that knows all requests beforehand.
pub(in crate::cli) fn packing(scene: &Scene) -> String {
    let packing = scene.packing();
    let (height, proven) = (packing.height_bytes, packing.proven);
    packing_words(scene.bound_bytes, height, proven, packing.by)
}

/// The same of a row, which knows it too.
pub(in crate::cli) fn packing_of_row(row: &Row) -> Option<String> {
    let (bound, by) = (row.lower_bound_bytes, &row.packed_by);
    Some(packing_words(
        bound,
        row.packed_bytes?,
        row.packed_proven?,
        by,
    ))
}

fn packing_words(bound_bytes: u64, height_bytes: u64, proven: bool, by: &str) -> String {
    if height_bytes < bound_bytes {
        // The bound counts what no card holds, and a packing does not.
        return format!(
            "bound {} ({} bytes); best offline packing {} without requests larger than the card",
            format_bytes(bound_bytes),
            format_count(bound_bytes),
            format_bytes(height_bytes),
        );
    }
    let above = ppm(height_bytes, bound_bytes) / 100;
    format!(
        "bound {} ({} bytes); best offline packing {}, {}.{:04} x the bound, {}: {by}",
        format_bytes(bound_bytes),
        format_count(bound_bytes),
        format_bytes(height_bytes),
        above / 10_000,
        above % 10_000,
        if proven {
            "proven optimal"
        } else {
            "not proven optimal"
        },
    )
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
    let levels = warnings(row);
    let warn = |of: IsLevel| {
        if levels.iter().any(of) {
            Mark::Warn
        } else {
            Mark::None
        }
    };
    let show = |name: &str| metric(name).show(row);
    vec![
        Cell::new(&*row.policy, if best { Mark::Good } else { Mark::None }),
        show("failed").into(),
        Cell::new(show("success_ppm"), warn(is_success)),
        show("footprint_bytes").into(),
        show("memory_efficiency_ppm").into(),
        show("peak_external_fragmentation_ppm").into(),
        Cell::new(
            show("mean_external_fragmentation_ppm"),
            warn(is_fragmentation),
        ),
        show("peak_internal_fragmentation_ppm").into(),
        Cell::new(show("peak_utilisation_ppm"), warn(is_utilisation)),
        show("moves").into(),
        show("driver_calls").into(),
        show("cost_ns").into(),
    ]
}

/// A metric that the table shows.
fn metric(name: &str) -> &'static Metric {
    Metric::find(name).expect("the table's columns are metrics")
}

fn is_success(warning: &Warning) -> bool {
    matches!(warning, Warning::Success(_))
}

fn is_fragmentation(warning: &Warning) -> bool {
    matches!(warning, Warning::Fragmentation(_))
}

fn is_no_uses(warning: &Warning) -> bool {
    matches!(warning, Warning::NoUses)
}

fn is_utilisation(warning: &Warning) -> bool {
    matches!(warning, Warning::Utilisation(_))
}

/// Who is best, and what the marks mean.
pub(in crate::cli) fn verdict(ranked: &[Ranked<'_>]) -> Vec<String> {
    let replayed = ranked.iter().filter_map(|cell| match cell.ended {
        Ended::Replayed(seen) => Some(&seen.row),
        _ => None,
    });
    verdict_of_rows(&replayed.collect::<Vec<&Row>>())
}

/// The same of rows alone, best first.
pub(in crate::cli) fn verdict_of_rows(rows: &[&Row]) -> Vec<String> {
    let Some(best) = rows.first() else {
        return vec!["No policy could be replayed.".into()];
    };
    let same =
        |row: &&&Row| (row.failed, row.footprint_bytes) == (best.failed, best.footprint_bytes);
    let above = metric("footprint_to_bound_ppm").show(best);
    let served = if best.failed == 0 {
        "every request is served".into()
    } else {
        let requests = format_count(best.served + best.failed);
        format!("{} of {requests} requests fail", format_count(best.failed))
    };
    let who = match rows.iter().filter(same).count() {
        1 => best.policy.clone(),
        equals => format!("{} ({} more are as good)", best.policy, equals - 1),
    };
    let mut lines = vec![format!(
        "Best is {who}: {served} in {}, {above} the bound, with {} of driver calls and moves.",
        format_bytes(best.footprint_bytes),
        format_nanos(best.cost_ns)
    )];
    lines.extend(
        marks(rows.iter().copied())
            .iter()
            .map(|mark| format!("! {mark}")),
    );
    lines
}

/// Settings of PyTorch that do nothing as things are: garbage collection counts from a
/// cap, and without one it never runs (pytorch/pytorch#106660).
pub(in crate::cli) fn idle_settings(scene: &Scene, policies: &[Chosen]) -> Vec<String> {
    let idle = |chosen: &&Chosen| {
        let conf = chosen.parameters.get("conf").and_then(toml::Value::as_str);
        let collects = conf.is_some_and(|conf| conf.contains("garbage_collection_threshold"));
        let capped = conf.is_some_and(|conf| conf.contains("per_process_memory_fraction"));
        scene.capacity.origin == Origin::Card && collects && !capped
    };
    let told = |chosen: &Chosen| {
        format!(
            "{}: garbage_collection_threshold does nothing without a cap; give one by --capacity",
            chosen.label
        )
    };
    policies.iter().filter(idle).map(told).collect()
}

/// What is to be said of PyTorch's settings: how sure each answer is, and which is best.
pub(in crate::cli) fn predictions(made: &[Prediction]) -> Vec<String> {
    let mut lines: Vec<String> = made
        .iter()
        .map(|one| {
            let peak = one.peak_reserved_bytes;
            let (low, high) = (one.low_peak_reserved_bytes, one.high_peak_reserved_bytes);
            let sure = if one.exact {
                "the same under every address order of the driver".to_owned()
            } else {
                format!(
                    "hangs on addresses of the driver: {} to {} bytes",
                    format_count(low),
                    format_count(high)
                )
            };
            format!(
                "{}: peak reserved {} ({} bytes), {sure}",
                one.policy,
                format_bytes(peak),
                format_count(peak)
            )
        })
        .collect();
    for one in made.iter().filter(|one| one.served_instead > 0) {
        lines.push(format!(
            "{}: {} requests that failed when recorded were served here; what follows the first \
             is counterfactual",
            one.policy,
            format_count(one.served_instead)
        ));
    }
    if made.len() > 1 {
        lines.push(advice(made));
    }
    lines
}

/// Whether a warning is of one kind.
type IsLevel = fn(&Warning) -> bool;

/// What the marks in the table mean, each only where it occurs.
fn marks<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'static str> {
    let levels: Vec<Warning> = rows.flat_map(warnings).collect();
    let meanings: [(IsLevel, &str); 4] = [
        (
            is_success,
            "success below 90 %: too little memory for this policy",
        ),
        (
            is_fragmentation,
            "mean external fragmentation above 30 %: what is free lies in pieces",
        ),
        (
            is_utilisation,
            "utilisation above 80 %: little room is left",
        ),
        (
            is_no_uses,
            "paged to the host, but the trace tells no uses: an allocation counts as its only use",
        ),
    ];
    let met = meanings.iter().filter(|(is, _)| levels.iter().any(is));
    met.map(|(_, meaning)| *meaning).collect()
}

/// What is told of a policy that broke a rule.
pub(in crate::cli) fn broke(cell: &Ranked<'_>) -> Option<String> {
    let what = cell.broke()?;
    Some(format!(
        "policy '{}' broke a rule: {what}",
        cell.chosen.label
    ))
}
