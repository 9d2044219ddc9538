//! What memory costs in time: the footprint of each policy against the cost of its driver calls.

use super::values::{Groups, quartiles};
use crate::observe::Row;
use crate::plot::{Axis, Chart, ParetoChart, ParetoPoint, Unit};

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

fn point(name: &str, rows: &[&Row]) -> Option<ParetoPoint> {
    let of = |value: fn(&Row) -> u64| quartiles(rows.iter().map(|row| value(row) as f64).collect());
    let (x, y) = (of(|row| row.cost_ns)?, of(|row| row.footprint_bytes)?);
    Some(ParetoPoint {
        name: name.to_owned(),
        x: x[1],
        y: y[1],
        x_range: Some((x[0], x[2])),
        y_range: Some((y[0], y[2])),
        complete: rows.iter().all(|row| row.failed == 0),
    })
}
