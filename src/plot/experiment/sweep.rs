//! Sweeps of two parameters, read from the labels of policies: `NAME:key=value,key=value`.

use super::values::{Groups, quartiles};
use crate::observe::metric::Metric;
use crate::plot::{Axis, Chart, HeatMap};

/// A policy's label in parts. PyTorch's options are written with a colon.
pub(super) struct Label<'a> {
    pub(super) whole: &'a str,
    pub(super) head: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Label<'a> {
    /// `None` for a label without options.
    fn of(whole: &'a str) -> Option<Self> {
        let (head, options) = whole.split_once(':')?;
        let option = |text: &'a str| text.split_once('=').or_else(|| text.split_once(':'));
        let options: Option<Vec<_>> = options.split(',').map(option).collect();
        options.map(|options| Label {
            whole,
            head,
            options,
        })
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        let mut options = self.options.iter();
        options
            .find(|option| option.0 == key)
            .map(|option| option.1)
    }

    fn keys(&self) -> Vec<&'a str> {
        let mut keys: Vec<&str> = self.options.iter().map(|option| option.0).collect();
        keys.sort_unstable();
        keys
    }
}

/// Policies of one head and the same keys, in their order.
pub(super) fn families<'a>(policies: &[&'a str]) -> Vec<Vec<Label<'a>>> {
    let mut families: Vec<Vec<Label<'a>>> = Vec::new();
    for label in policies.iter().filter_map(|policy| Label::of(policy)) {
        let same = |family: &&mut Vec<Label<'_>>| {
            (family[0].head, family[0].keys()) == (label.head, label.keys())
        };
        match families.iter_mut().find(same) {
            Some(family) => family.push(label),
            None => families.push(vec![label]),
        }
    }
    families
}

/// The keys of a family whose values are not all the same, in the order of its first label.
pub(super) fn varying<'a>(family: &[Label<'a>]) -> Vec<&'a str> {
    let first = &family[0];
    let keys = first.options.iter().map(|option| option.0);
    keys.filter(|key| family.iter().any(|it| it.value(key) != first.value(key)))
        .collect()
}

/// Policies of one head and the same keys, two of which vary.
struct Sweep<'a> {
    labels: Vec<Label<'a>>,
    /// The key from left to right, and that from top to bottom.
    keys: [&'a str; 2],
}

impl<'a> Sweep<'a> {
    /// All sweeps among the policies, in their order.
    fn among(policies: &[&'a str]) -> Vec<Self> {
        let families = families(policies).into_iter();
        families.filter_map(Sweep::of).collect()
    }

    fn of(labels: Vec<Label<'a>>) -> Option<Self> {
        let keys = <[&str; 2]>::try_from(varying(&labels)).ok()?;
        Some(Sweep { labels, keys })
    }

    /// The values of a key, in the order of the policies.
    fn values(&self, key: &str) -> Vec<&'a str> {
        let mut values: Vec<&str> = Vec::new();
        for value in self.labels.iter().filter_map(|label| label.value(key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    fn policy(&self, x: &str, y: &str) -> Option<&'a str> {
        let here = |label: &&Label<'_>| {
            (label.value(self.keys[0]), label.value(self.keys[1])) == (Some(x), Some(y))
        };
        self.labels.iter().find(here).map(|label| label.whole)
    }

    /// The head with the options that do not vary.
    fn name(&self) -> String {
        let fixed = self.labels[0].options.iter();
        let fixed = fixed.filter(|option| !self.keys.contains(&option.0));
        let fixed: Vec<String> = fixed.map(|(key, value)| format!("{key}={value}")).collect();
        if fixed.is_empty() {
            return self.labels[0].head.to_owned();
        }
        format!("{}:{}", self.labels[0].head, fixed.join(","))
    }
}

/// A heat map for each sweep and capacity: medians over seeds.
pub fn heat_maps(groups: &Groups<'_>, workload: &str, metric: &Metric) -> Vec<Chart> {
    let sweeps = Sweep::among(&groups.policies);
    let all = sweeps.iter().flat_map(|sweep| {
        let capacities = groups.capacities.iter();
        capacities.filter_map(move |capacity| heat_map(groups, workload, capacity, metric, sweep))
    });
    all.map(Chart::Heat).collect()
}

fn heat_map(
    groups: &Groups<'_>,
    workload: &str,
    capacity: &str,
    metric: &Metric,
    sweep: &Sweep<'_>,
) -> Option<HeatMap> {
    let (unit, factor) = super::unit(metric);
    let [x, y] = sweep.keys;
    let (columns, rows) = (sweep.values(x), sweep.values(y));
    let cell = |x: &str, y: &str| {
        let rows = groups.rows(workload, capacity, sweep.policy(x, y)?);
        let values = rows
            .iter()
            .filter_map(|row| Some(metric.merit(row)? as f64 / factor));
        quartiles(values.collect()).map(|parts| parts[1])
    };
    let cells: Vec<Vec<Option<f64>>> = rows
        .iter()
        .map(|y| columns.iter().map(|x| cell(x, y)).collect())
        .collect();
    cells.iter().flatten().flatten().next()?;
    let seeds = groups.seeds(workload);
    let owned = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect();
    Some(HeatMap {
        title: format!("{} of {}", super::capital(metric.label), sweep.name()),
        subtitle: format!("{workload}, capacity {capacity}{}", super::seeds(seeds)),
        x: x.to_owned(),
        columns: owned(columns),
        y: y.to_owned(),
        rows: owned(rows),
        value: Axis::new(metric.label, unit),
        cells,
        note: match seeds {
            0 | 1 => super::direction(metric).trim().to_owned(),
            _ => format!("Medians over seeds.{}", super::direction(metric)),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_options_that_vary_are_a_sweep_and_others_are_not() {
        let policies = [
            "best-fit",
            "compaction:over=tlsf,threshold=0.3,interval=5min",
            "compaction:over=tlsf,threshold=0.5,interval=5min",
            "compaction:over=tlsf,threshold=0.3,interval=1min",
            "pytorch:max_split_size_mb:128",
            "pytorch:max_split_size_mb:256",
            "bump:alignment=1KiB,a=1,b=1",
            "bump:alignment=2KiB,a=2,b=2",
        ];
        let sweeps = Sweep::among(&policies);
        assert_eq!(sweeps.len(), 1, "one key varies, or three");
        let sweep = &sweeps[0];
        assert_eq!(sweep.keys, ["threshold", "interval"]);
        assert_eq!(sweep.name(), "compaction:over=tlsf");
        assert_eq!(sweep.values("threshold"), ["0.3", "0.5"]);
        assert_eq!(sweep.policy("0.5", "5min"), Some(policies[2]));
        assert_eq!(sweep.policy("0.5", "1min"), None, "a missing cell");
    }
}
