//! What moving saves: the footprint against the bytes moved, a curve for each policy of which one
//! parameter varies, such as the blocks that a step of compaction may move.

use super::sweep::{Label, families, varying};
use super::values::{Groups, quartiles};
use crate::observe::Row;
use crate::plot::{Axis, Chart, Guide, LineChart, Point, Series, Shape, Unit};

/// At the largest capacity of a workload; none where no such policy moves anything.
pub fn of(groups: &Groups<'_>, workload: &str) -> Option<Chart> {
    let capacity = groups.roomiest(workload)?;
    let rows = |policy: &str| groups.rows(workload, capacity, policy);
    let curves: Vec<Series> = families(&groups.policies)
        .into_iter()
        .filter_map(|family| curve(&family, rows))
        .filter(|curve| curve.points.iter().any(|point| point.x > 0.0))
        .collect();
    let bounds = groups.policies.iter().flat_map(|policy| rows(policy));
    let bound = quartiles(bounds.map(|row| row.lower_bound_bytes as f64).collect())?[1];
    let seeds = super::seeds(groups.seeds(workload));
    let spread = if seeds.is_empty() {
        ""
    } else {
        "; medians and quartiles"
    };
    (!curves.is_empty()).then(|| {
        Chart::Lines(LineChart {
            title: "Footprint against what is moved for it".into(),
            subtitle: format!("{workload}, capacity {capacity}{seeds}{spread}"),
            x: Axis::in_powers("bytes moved", Unit::Bytes),
            y: Axis::new("footprint", Unit::Bytes),
            series: curves,
            guides: vec![Guide {
                value: bound,
                label: "peak of live bytes".into(),
            }],
            apart: false,
        })
    })
}

/// The medians of a family over its seeds, from what moves least to what moves most; none where not
/// just one parameter varies.
fn curve<'a>(family: &[Label<'_>], rows: impl Fn(&str) -> &'a [&'a Row]) -> Option<Series> {
    let [key] = *varying(family) else {
        return None;
    };
    let point = |label: &Label<'_>| {
        let of = |value: fn(&Row) -> u64| {
            let values = rows(label.whole).iter().map(|row| value(row) as f64);
            quartiles(values.collect())
        };
        let [low, middle, high] = of(|row| row.footprint_bytes)?;
        let x = of(|row| row.moved_bytes)?[1];
        Some(Point::band(x, low, middle, high))
    };
    let mut points: Vec<Point> = family.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Some(Series {
        name: format!("{}, by {key}", family[0].head),
        shape: Shape::Line,
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::experiment::Cell;

    fn row(policy: &str, moved_bytes: u64, footprint_bytes: u64) -> Row {
        Row {
            trace: "t".into(),
            policy: policy.into(),
            moved_bytes,
            footprint_bytes,
            lower_bound_bytes: 50,
            ..Row::default()
        }
    }

    #[test]
    fn a_curve_is_a_policy_of_which_one_parameter_varies() {
        let rows = [
            row("best-fit", 0, 100),
            row("steps:every=9,moves=10", 70, 60),
            row("steps:every=9,moves=0", 0, 100),
            row("two:moves=1,bytes=1", 1, 90),
            row("two:moves=2,bytes=2", 2, 80),
            row("idle:moves=1", 0, 100),
            row("idle:moves=2", 0, 100),
        ];
        let cell = |row| Cell {
            capacity: "card",
            row,
        };
        let cells: Vec<Cell<'_>> = rows.iter().map(cell).collect();
        let Some(Chart::Lines(chart)) = of(&Groups::of(&cells), "t") else {
            panic!("a policy moves something");
        };
        let [curve] = &*chart.series else {
            panic!("two parameters vary, or nothing moves: {:?}", chart.series);
        };
        assert_eq!(curve.name, "steps, by moves");
        let xs: Vec<f64> = curve.points.iter().map(|point| point.x).collect();
        assert_eq!((xs, chart.guides[0].value), (vec![0.0, 70.0], 50.0));
        assert!(of(&Groups::of(&cells[..1]), "t").is_none());
    }
}
