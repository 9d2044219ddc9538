//! What memory costs in time: the footprint of each policy against the cost of its driver calls.

use super::values::{Groups, quartiles};
use crate::observe::Row;
use crate::plot::{Axis, Chart, ParetoChart, ParetoPoint, Unit};

/// From so many workloads on, one chart shows the policies over all of them.
const MANY: usize = 3;

/// At the largest capacity of a workload, where the most is served; none for a single policy.
pub fn of(groups: &Groups<'_>, workload: &str) -> Option<Chart> {
    let capacity = groups.roomiest(workload)?;
    let policies = groups.policies.iter();
    let policies: Vec<(&str, Vec<&Row>)> = policies
        .map(|policy| (*policy, groups.rows(workload, capacity, policy).to_vec()))
        .collect();
    let seeds = super::seeds(groups.seeds(workload));
    pareto(
        &format!("{workload}, capacity {capacity}{seeds}"),
        &policies,
    )
}

/// The chart of policies with the rows of their seeds; none where fewer than two have any.
#[must_use]
pub fn pareto(subtitle: &str, policies: &[(&str, Vec<&Row>)]) -> Option<Chart> {
    let mut points: Vec<ParetoPoint> = policies
        .iter()
        .filter_map(|(name, rows)| point(name, rows))
        .collect();
    points.sort_by(|a, b| a.name.cmp(&b.name));
    let several = policies.iter().any(|(_, rows)| rows.len() > 1);
    let spread = if several {
        " Points are medians over seeds, lines the quartiles."
    } else {
        ""
    };
    (points.len() > 1).then(|| {
        Chart::Pareto(ParetoChart {
            title: "Footprint against the cost of allocation".into(),
            subtitle: subtitle.to_owned(),
            x: Axis::new("simulated cost", Unit::TimeNs),
            y: Axis::new("footprint", Unit::Bytes),
            points,
            note: format!(
                "Less is better both ways. Grey line: the policies on it serve everything, and no \
                 other that does beats them in both. Hollow: some requests failed.\
                 {spread}"
            ),
        })
    })
}

/// All policies over all workloads at once, footprint in lower bounds against the cost of a
/// request; none for few workloads. A policy that has no row of some workload is left out.
pub fn frontier(groups: &Groups<'_>) -> Option<Chart> {
    let workloads = &groups.workloads;
    if workloads.len() < MANY {
        return None;
    }
    let rows = |policy: &str| -> Option<Vec<&Row>> {
        let mut all = Vec::new();
        for workload in workloads {
            let capacity = groups.roomiest(workload)?;
            let rows = groups.rows(workload, capacity, policy);
            all.extend_from_slice(rows);
            if rows.is_empty() {
                return None;
            }
        }
        Some(all)
    };
    let policies = groups.policies.iter();
    let mut points: Vec<ParetoPoint> = policies
        .filter_map(|policy| relative(policy, &rows(policy)?))
        .collect();
    points.sort_by(|a, b| a.name.cmp(&b.name));
    (points.len() > 1).then(|| {
        Chart::Pareto(ParetoChart {
            title: "Footprint against the cost of allocation, over all workloads".into(),
            subtitle: format!(
                "{} workloads, each at its largest capacity",
                workloads.len()
            ),
            x: Axis::new("simulated cost of a request", Unit::TimeNs),
            y: Axis::new("footprint in lower bounds", Unit::Number),
            points,
            note:
                "Points are medians over workloads, lines the quartiles. Grey line: the policies \
                   on it serve everything, and no other that does beats them in both. Hollow: some \
                   requests failed."
                    .into(),
        })
    })
}

/// A policy by what it takes of each workload's bound, and what a request costs.
fn relative(name: &str, rows: &[&Row]) -> Option<ParetoPoint> {
    let shares = rows.iter().filter(|row| row.lower_bound_bytes > 0);
    let shares = shares.map(|row| row.footprint_bytes as f64 / row.lower_bound_bytes as f64);
    let costs = rows.iter().filter(|row| row.requests > 0);
    let costs = costs.map(|row| row.cost_ns as f64 / row.requests as f64);
    let (x, y) = (quartiles(costs.collect())?, quartiles(shares.collect())?);
    Some(between(name, x, y, rows))
}

fn point(name: &str, rows: &[&Row]) -> Option<ParetoPoint> {
    let of = |value: fn(&Row) -> u64| quartiles(rows.iter().map(|row| value(row) as f64).collect());
    let (x, y) = (of(|row| row.cost_ns)?, of(|row| row.footprint_bytes)?);
    Some(between(name, x, y, rows))
}

/// A point at two medians, with its quartiles.
fn between(name: &str, x: [f64; 3], y: [f64; 3], rows: &[&Row]) -> ParetoPoint {
    ParetoPoint {
        name: name.to_owned(),
        x: x[1],
        y: y[1],
        x_range: Some((x[0], x[2])),
        y_range: Some((y[0], y[2])),
        complete: rows.iter().all(|row| row.failed == 0),
    }
}
