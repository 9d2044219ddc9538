//! The share of requests served against the capacity, a curve a policy.

use super::values::Groups;
use crate::observe::metric::Metric;
use crate::observe::warnings::SUCCESS_PPM;
use crate::plot::{Axis, Chart, Guide, LineChart, Point, Series, Shape, Unit};
use crate::stats::{Line, compare};
use crate::units::parse_bytes;

/// What a capacity is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bytes,
    /// Times the peak of live requested bytes.
    Peaks,
}

/// A capacity as it was asked for, as a place on an axis: (kind, card, value). `card` and `trace`
/// have none.
fn placed(asked: &str) -> Option<(Kind, &str, f64)> {
    let (size, card) = asked.split_once('@').unwrap_or((asked, ""));
    if let Some(factor) = size.strip_suffix('x') {
        return Some((Kind::Peaks, card, factor.parse().ok()?));
    }
    let bytes = parse_bytes(size).ok()?;
    Some((Kind::Bytes, card, bytes as f64))
}

/// A chart for each card and way of asking that has two capacities or more.
pub fn curves(groups: &Groups<'_>, workload: &str) -> Vec<Chart> {
    let metric = Metric::find("success_ppm").expect("it is a column");
    let mut axes: Vec<(Kind, &str)> = Vec::new();
    let places: Vec<(&str, (Kind, &str, f64))> = groups
        .capacities
        .iter()
        .filter_map(|asked| Some((*asked, placed(asked)?)))
        .collect();
    for (_, (kind, card, _)) in &places {
        if !axes.contains(&(*kind, card)) {
            axes.push((*kind, card));
        }
    }
    let enough = |axis: &(Kind, &str)| {
        let here = places
            .iter()
            .filter(|(_, place)| (place.0, place.1) == *axis);
        here.count() > 1
    };
    axes.retain(enough);
    if axes.is_empty() {
        return Vec::new();
    }
    let lines = compare(&groups.groups(workload, metric), metric, None);
    let chart = |(kind, card): (Kind, &str)| {
        let mut here: Vec<(&str, f64)> = places
            .iter()
            .filter(|(_, place)| (place.0, place.1) == (kind, card))
            .map(|(asked, place)| (*asked, place.2))
            .collect();
        here.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut names = groups.policies.clone();
        names.sort_unstable();
        let series = names.iter().map(|name| curve(&lines, name, &here));
        let mut subtitle = format!("{workload}{}", super::seeds(groups.seeds(workload)));
        if !card.is_empty() {
            subtitle += &format!(", card {card}");
        }
        if groups.seeds(workload) > 1 {
            subtitle += "; mean with its 95 % confidence (bootstrap)";
        }
        Chart::Lines(LineChart {
            title: "Success rate against capacity".into(),
            subtitle,
            x: match kind {
                Kind::Bytes => Axis::new("capacity", Unit::Bytes),
                Kind::Peaks => Axis::new("capacity / peak of live requested bytes", Unit::Number),
            },
            y: Axis::new("requests served", Unit::Percent),
            series: series.filter(|curve| !curve.points.is_empty()).collect(),
            guides: vec![Guide {
                value: SUCCESS_PPM as f64 / 1e4,
                label: format!("warning below {} %", SUCCESS_PPM / 10_000),
            }],
            apart: false,
        })
    };
    axes.into_iter().map(chart).collect()
}

/// A policy's mean at each capacity.
fn curve(lines: &[Line], policy: &str, capacities: &[(&str, f64)]) -> Series {
    let point = |(asked, x): &(&str, f64)| {
        let mut own = lines.iter().filter(|line| line.policy == policy);
        let values = own.find(|line| line.capacity == *asked)?.values.as_ref()?;
        let mean = values.mean;
        let (low, high) = mean.interval.unwrap_or((mean.value, mean.value));
        let [low, middle, high] = [low, mean.value, high].map(|ppm| ppm / 1e4);
        Some(Point::band(*x, low.max(0.0), middle, high.min(100.0)))
    };
    Series {
        name: policy.to_owned(),
        shape: Shape::Line,
        points: capacities.iter().filter_map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_sizes_or_peaks_on_a_card() {
        assert_eq!(placed("1.25x"), Some((Kind::Peaks, "", 1.25)));
        assert_eq!(placed("2KiB@h200"), Some((Kind::Bytes, "h200", 2048.0)));
        assert_eq!(placed("card"), None);
        assert_eq!(placed("trace@a100"), None);
    }
}
