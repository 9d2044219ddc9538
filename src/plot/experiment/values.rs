//! The rows of an experiment by workload, capacity and policy.

use std::collections::BTreeMap;

use super::Cell;
use crate::observe::Row;
use crate::observe::metric::Metric;
use crate::plot::{Spread, Summary};
use crate::stats::quantile::quantile;

/// Rows in groups; names in the order in which the rows first tell them.
pub struct Groups<'a> {
    pub workloads: Vec<&'a str>,
    pub capacities: Vec<&'a str>,
    pub policies: Vec<&'a str>,
    /// By the places of workload, capacity and policy among their names.
    rows: BTreeMap<[usize; 3], Vec<&'a Row>>,
}

fn place(names: &[&str], name: &str) -> Option<usize> {
    names.iter().position(|other| *other == name)
}

impl<'a> Groups<'a> {
    pub fn of(cells: &[Cell<'a>]) -> Self {
        let mut groups = Groups {
            workloads: Vec::new(),
            capacities: Vec::new(),
            policies: Vec::new(),
            rows: BTreeMap::new(),
        };
        for Cell { capacity, row } in cells.iter().copied() {
            let lists = [
                (&mut groups.workloads, row.trace.as_str()),
                (&mut groups.capacities, capacity),
                (&mut groups.policies, row.policy.as_str()),
            ];
            let key = lists.map(|(names, name)| {
                place(names, name).unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                })
            });
            groups.rows.entry(key).or_default().push(row);
        }
        groups
    }

    /// The rows of one group, a seed each.
    pub fn rows(&self, workload: &str, capacity: &str, policy: &str) -> &[&'a Row] {
        let rows = || {
            let workload = place(&self.workloads, workload)?;
            let capacity = place(&self.capacities, capacity)?;
            let policy = place(&self.policies, policy)?;
            self.rows.get(&[workload, capacity, policy])
        };
        rows().map_or(&[], Vec::as_slice)
    }

    /// The largest of the capacities, as it was asked for.
    pub fn roomiest(&self, workload: &str) -> Option<&'a str> {
        let bytes = |capacity: &str| {
            let all = self.policies.iter();
            let rows = all.flat_map(|policy| self.rows(workload, capacity, policy));
            rows.map(|row| row.capacity_bytes).max()
        };
        let capacities = self.capacities.iter().copied();
        capacities.max_by_key(|capacity| bytes(capacity))
    }

    /// The most seeds that a group of the workload has.
    pub fn seeds(&self, workload: &str) -> usize {
        let workload = place(&self.workloads, workload);
        let own = self.rows.iter().filter(|(key, _)| Some(key[0]) == workload);
        own.map(|(_, rows)| rows.len()).max().unwrap_or(0)
    }

    /// A metric's values, seed by seed, in the metric's own unit.
    pub fn samples(
        &self,
        workload: &str,
        capacity: &str,
        policy: &str,
        metric: &Metric,
    ) -> Vec<(u64, Option<f64>)> {
        let rows = self.rows(workload, capacity, policy);
        rows.iter()
            .map(|row| (row.seed.unwrap_or(0), metric.merit(row).map(|it| it as f64)))
            .collect()
    }
}

/// Lower quartile, median and upper quartile; `None` of nothing.
pub fn quartiles(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let some = !values.is_empty();
    some.then(|| [0.25, 0.5, 0.75].map(|share| quantile(&values, share)))
}

/// Values with their quartiles.
pub fn boxed(points: Vec<f64>) -> Option<Spread> {
    let [q1, median, q3] = quartiles(points.clone())?;
    let summary = Summary::Quartiles { q1, median, q3 };
    Some(Spread { points, summary })
}
