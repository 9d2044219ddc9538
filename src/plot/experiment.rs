//! Which charts the rows of an experiment deserve: several seeds boxes, a baseline paired
//! differences, several capacities a curve of success, a sweep of two parameters a heat map, one of
//! what a policy may move a frontier, many policies a Pareto chart. The same rows give the same charts, wherever they are read from.

mod bands;
mod frontier;
mod pareto;
mod success;
mod sweep;
mod values;

use std::collections::BTreeMap;

use super::{Axis, Chart, Guide, Spread, SpreadChart, SpreadPanel, Summary, Unit};
use crate::observe::Row;
use crate::observe::metric::{self, Better, Metric};
use crate::stats::{Group, compare};

pub use bands::{Band, read_csv};
pub use pareto::pareto;
use values::{Groups, boxed};

/// Conditions side by side on one sheet.
const MOST_PANELS: usize = 4;

/// The metrics that are drawn where none is named.
pub const METRICS: [&str; 4] = [
    "failed",
    "footprint_bytes",
    "mean_external_fragmentation_ppm",
    "cost_ns",
];

/// One cell: the capacity as the experiment asks for it (`8GiB`, `1.1x`, `card`), and what came out.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The capacity as it was asked for.
    pub capacity: &'a str,
    /// The summary; rows without a seed count as one seed.
    pub row: &'a Row,
}

/// What an experiment left behind.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    /// All cells, in the order of the experiment.
    pub cells: Vec<Cell<'a>>,
    /// Fragmentation over time; may be empty.
    pub bands: &'a [Band],
    /// The metrics to be drawn.
    pub metrics: Vec<&'static Metric>,
    /// The policy that the others are compared with.
    pub baseline: Option<&'a str>,
}

/// A chart with its place.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The workload or trace that it shows; empty where it shows all of them.
    pub workload: String,
    /// What it shows, as the stem of a file's name; none twice for one workload.
    pub stem: String,
    /// The chart.
    pub chart: Chart,
}

/// The charts of an experiment, workload by workload.
///
/// # Panics
/// If a (workload, capacity, policy) has a seed twice.
#[must_use]
pub fn charts(data: &Data<'_>) -> Vec<Picture> {
    let groups = Groups::of(&data.cells);
    let mut pictures = Vec::new();
    for workload in &groups.workloads {
        let mut add = |stem: &str, charts: Vec<Chart>| {
            for (at, chart) in charts.into_iter().enumerate() {
                let number = if at > 0 {
                    format!("-{}", at + 1)
                } else {
                    String::new()
                };
                pictures.push(Picture {
                    workload: (*workload).to_owned(),
                    stem: format!("{stem}{number}"),
                    chart,
                });
            }
        };
        for metric in &data.metrics {
            add(
                &format!("spread-{}", metric.name),
                spreads(&groups, workload, metric),
            );
            if let Some(baseline) = data.baseline {
                let charts = differences(&groups, workload, metric, baseline);
                add(&format!("difference-{}", metric.name), charts);
            }
            let charts = sweep::heat_maps(&groups, workload, metric);
            add(&format!("sweep-{}", metric.name), charts);
        }
        add("success", success::curves(&groups, workload));
        add(
            "fragmentation",
            bands::charts(data.bands, workload, &groups),
        );
        add(
            "frontier",
            frontier::of(&groups, workload).into_iter().collect(),
        );
        add(
            "pareto",
            pareto::of(&groups, workload).into_iter().collect(),
        );
    }
    let over_all = pareto::frontier(&groups).map(|chart| Picture {
        workload: String::new(),
        stem: "frontier".to_owned(),
        chart,
    });
    pictures.extend(over_all);
    pictures
}

/// What a metric is on a plot: its unit, and what one of that unit is in the row's.
fn unit(metric: &Metric) -> (Unit, f64) {
    match metric.unit {
        metric::Unit::Bytes => (Unit::Bytes, 1.0),
        metric::Unit::Count => (Unit::Events, 1.0),
        metric::Unit::Nanos => (Unit::TimeNs, 1.0),
        metric::Unit::Share | metric::Unit::Rate => (Unit::Percent, 1e4),
        metric::Unit::Factor => (Unit::Number, 1e6),
    }
}

/// Which way is better, in words.
fn direction(metric: &Metric) -> &'static str {
    match metric.better {
        Better::Lower => " Less is better.",
        Better::Higher => " More is better.",
        Better::Neither => "",
    }
}

/// `64 seeds`, where there are several.
fn seeds(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        _ => format!(", {count} seeds"),
    }
}

/// The policies, best first by the middle of their first known cell, then by name.
fn best_first<'a>(
    names: &[&'a str],
    better: Better,
    middle: impl Fn(&str) -> Option<f64>,
) -> Vec<&'a str> {
    let sign = if better == Better::Higher { -1.0 } else { 1.0 };
    let mut order: Vec<(Option<f64>, &str)> = names
        .iter()
        .map(|name| (middle(name).map(|value| value * sign), *name))
        .collect();
    order.sort_by(|(a, x), (b, y)| {
        let values = match (a, b) {
            (Some(a), Some(b)) => a.total_cmp(b),
            // What is not known comes last.
            _ => b.is_some().cmp(&a.is_some()),
        };
        values.then_with(|| x.cmp(y))
    });
    order.into_iter().map(|(_, name)| name).collect()
}

/// One chart for every four capacities, a panel each, of what `cell` says of (capacity, policy).
fn rows_and_panels(
    groups: &Groups<'_>,
    names: &[&str],
    frame: &SpreadChart,
    cell: impl Fn(&str, &str) -> Option<Spread>,
) -> Vec<Chart> {
    let several = groups.capacities.len() > 1;
    let panel = |capacity: &&str| SpreadPanel {
        label: if several {
            format!("capacity {capacity}")
        } else {
            String::new()
        },
        cells: names.iter().map(|name| cell(capacity, name)).collect(),
    };
    let chart = |capacities: &[&str]| {
        let panels = capacities.iter().map(panel).collect();
        Chart::Spread(SpreadChart {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            panels,
            ..frame.clone()
        })
    };
    groups.capacities.chunks(MOST_PANELS).map(chart).collect()
}

/// What every chart of a workload says below its title.
fn subtitle(groups: &Groups<'_>, workload: &str) -> String {
    let capacity = match &*groups.capacities {
        [one] => format!(", capacity {one}"),
        _ => String::new(),
    };
    format!("{workload}{capacity}{}", seeds(groups.seeds(workload)))
}

/// Boxes of a metric; none where all values are undefined.
fn spreads(groups: &Groups<'_>, workload: &str, metric: &Metric) -> Vec<Chart> {
    let (unit, factor) = unit(metric);
    let values = |capacity: &str, policy: &str| -> Vec<f64> {
        let rows = groups.rows(workload, capacity, policy);
        let values = rows.iter().filter_map(|row| metric.merit(row));
        values.map(|value| value as f64 / factor).collect()
    };
    let middle = |policy: &str| {
        let mut all = groups.capacities.iter();
        all.find_map(|capacity| boxed(values(capacity, policy)))
            .map(|spread| match spread.summary {
                Summary::Quartiles { median, .. } => median,
                Summary::Estimate { value, .. } => value,
            })
    };
    let names = best_first(&groups.policies, metric.better, middle);
    if names.iter().all(|name| middle(name).is_none()) {
        return Vec::new();
    }
    let note = if groups.seeds(workload) > 1 {
        "Box: from the first to the third quartile, the median in it; whiskers: the furthest seeds \
         within 1.5 times the box; dots: one a seed."
    } else {
        "One run each."
    };
    let frame = SpreadChart {
        title: capital(metric.label),
        subtitle: subtitle(groups, workload),
        x: Axis::new(metric.label, unit),
        names: Vec::new(),
        panels: Vec::new(),
        guide: None,
        note: format!("{note}{}", direction(metric)),
    };
    rows_and_panels(groups, &names, &frame, |capacity, policy| {
        boxed(values(capacity, policy))
    })
}

/// Paired differences of a metric from the baseline, over the seeds that both have; none where the
/// baseline is not among the policies.
fn differences(groups: &Groups<'_>, workload: &str, metric: &Metric, baseline: &str) -> Vec<Chart> {
    let (unit, factor) = unit(metric);
    let pairs = |capacity: &str, policy: &str| -> Vec<f64> {
        let by_seed = |policy: &str| -> BTreeMap<u64, f64> {
            let samples = groups.samples(workload, capacity, policy, metric);
            let known = samples.into_iter().filter_map(|it| Some((it.0, it.1?)));
            known.collect()
        };
        let base = by_seed(baseline);
        let own = by_seed(policy).into_iter();
        own.filter_map(|(seed, value)| Some((value - base.get(&seed)?) / factor))
            .collect()
    };
    let lines = compare(&groups.groups(workload, metric), metric, Some(baseline));
    let estimate = |capacity: &str, policy: &str| -> Option<Spread> {
        let line = lines
            .iter()
            .find(|line| line.capacity == capacity && line.policy == policy)?;
        let estimate = line.versus.as_ref()?.median_difference;
        let (low, high) = estimate
            .interval
            .unwrap_or((estimate.value, estimate.value));
        let [value, low, high] = [estimate.value, low, high].map(|value| value / factor);
        Some(Spread {
            points: pairs(capacity, policy),
            summary: Summary::Estimate { value, low, high },
        })
    };
    let middle = |policy: &str| {
        let mut all = groups.capacities.iter();
        all.find_map(|capacity| estimate(capacity, policy))
            .map(|spread| match spread.summary {
                Summary::Quartiles { median, .. } => median,
                Summary::Estimate { value, .. } => value,
            })
    };
    let others: Vec<&str> = groups
        .policies
        .iter()
        .copied()
        .filter(|it| *it != baseline)
        .collect();
    let names = best_first(&others, metric.better, middle);
    if names.iter().all(|name| middle(name).is_none()) {
        return Vec::new();
    }
    let what = format!("difference in {}", metric.label);
    // A difference of shares in percent could be taken for a relative one.
    let x = match unit {
        Unit::Percent => Axis::new(&format!("{what}, percentage points"), Unit::Number),
        _ => Axis::new(&what, unit),
    };
    let frame = SpreadChart {
        title: format!(
            "{}: difference from {baseline}, seed by seed",
            capital(metric.label)
        ),
        subtitle: subtitle(groups, workload),
        x,
        names: Vec::new(),
        panels: Vec::new(),
        guide: Some(Guide {
            value: 0.0,
            label: baseline.to_owned(),
        }),
        note: format!(
            "Diamond and bar: the median of the differences with its 95 % confidence (bootstrap); \
             dots: one a seed.{}",
            direction(metric)
        ),
    };
    rows_and_panels(groups, &names, &frame, estimate)
}

/// With a capital first letter.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

impl Groups<'_> {
    /// A workload's groups as statistics take them.
    fn groups(&self, workload: &str, metric: &Metric) -> Vec<Group> {
        let keys = self
            .capacities
            .iter()
            .flat_map(|capacity| self.policies.iter().map(move |policy| (*capacity, *policy)));
        let group = |(capacity, policy): (&str, &str)| Group {
            workload: workload.to_owned(),
            capacity: capacity.to_owned(),
            policy: policy.to_owned(),
            samples: self.samples(workload, capacity, policy, metric),
        };
        let groups = keys.map(group);
        groups.filter(|group| !group.samples.is_empty()).collect()
    }
}
