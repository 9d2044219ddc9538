//! Fragmentation over time, as the median and the quartiles over seeds.

use std::io;

use serde::Deserialize;

use super::values::Groups;
use crate::observe::rows::RowsError;
use crate::plot::{Axis, Chart, LineChart, Point, Series, Shape, Unit};

/// What the seeds of a (trace, capacity, policy) were like at one moment, as a row of `bands.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Band {
    /// The trace or workload.
    pub trace: String,
    /// The capacity as it was asked for.
    pub capacity_asked: String,
    /// The policy.
    pub policy: String,
    /// The number of the moment; moments divide the events evenly.
    pub point: u64,
    /// External fragmentation: the median; `None` where nothing was free under any seed.
    pub median_external_fragmentation_ppm: Option<u64>,
    /// Its first quartile.
    pub q1_external_fragmentation_ppm: Option<u64>,
    /// Its third quartile.
    pub q3_external_fragmentation_ppm: Option<u64>,
}

/// Reads `bands.csv`; columns that it does not know are left out.
///
/// # Errors
/// [`RowsError`], naming `file` and the line.
pub fn read_csv(file: &str, input: impl io::Read) -> Result<Vec<Band>, RowsError> {
    let bands = csv::Reader::from_reader(input).into_deserialize();
    bands
        .collect::<Result<_, _>>()
        .map_err(|source| RowsError::Csv {
            file: file.to_owned(),
            source,
        })
}

/// A chart for each capacity, a panel a policy.
pub fn charts(bands: &[Band], workload: &str, groups: &Groups<'_>) -> Vec<Chart> {
    let chart = |capacity: &&str| {
        let here = |band: &&Band| band.trace == workload && band.capacity_asked == **capacity;
        let here: Vec<&Band> = bands.iter().filter(here).collect();
        let last = here.iter().map(|band| band.point).max()?;
        let mut names = groups.policies.clone();
        names.sort_unstable();
        let series = names.iter().map(|name| {
            let own = here.iter().filter(|band| band.policy == *name);
            Series {
                name: (*name).to_owned(),
                shape: Shape::Line,
                points: own.map(|band| point(band, last)).collect(),
            }
        });
        let seeds = groups.seeds(workload);
        let what = match seeds {
            0 | 1 => String::new(),
            _ => ": median and quartiles".to_owned(),
        };
        Some(Chart::Lines(LineChart {
            title: format!("External fragmentation over time{what}"),
            subtitle: format!("{workload}, capacity {capacity}{}", super::seeds(seeds)),
            x: Axis::new("share of the trace replayed", Unit::Percent),
            y: Axis::new("1 - largest free / free", Unit::Percent),
            series: series.filter(|curve| !curve.points.is_empty()).collect(),
            guides: Vec::new(),
            apart: true,
        }))
    };
    groups.capacities.iter().filter_map(chart).collect()
}

/// A moment; a gap where fragmentation is undefined.
fn point(band: &Band, last: u64) -> Point {
    let percent = |ppm: Option<u64>| ppm.map_or(f64::NAN, |ppm| ppm as f64 / 1e4);
    let x = 100.0 * (band.point + 1) as f64 / (last + 1) as f64;
    Point::band(
        x,
        percent(band.q1_external_fragmentation_ppm),
        percent(band.median_external_fragmentation_ppm),
        percent(band.q3_external_fragmentation_ppm),
    )
}
