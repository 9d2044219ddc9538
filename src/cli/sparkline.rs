//! Small curves in a line of text: external fragmentation over time.

use super::output::Output;
use super::table::{Column, Table};
use crate::observe::timeline::Bucket;
use crate::observe::{Metric, Row};

/// More columns than this show nothing more.
const MOST_COLUMNS: usize = 60;
/// Fewer show nothing at all.
const LEAST_COLUMNS: usize = 8;
/// What the figures beside the curve take, with the gaps: both of them, and the peak alone.
const BESIDE_COLUMNS: usize = 21;
const PEAK_COLUMNS: usize = 12;
/// On fewer columns the mean gives way to the curve.
const NARROW_COLUMNS: usize = 60;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LETTERS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// External fragmentation over time of each policy, on one scale from 0 to 100 %.
pub fn lines(curves: &[(&Row, &[Bucket])], output: &Output) -> Vec<String> {
    let longest = curves.iter().map(|(row, _)| row.policy.chars().count());
    let name = longest.max().unwrap_or(0).clamp(6, 28);
    let narrow = output.columns < NARROW_COLUMNS;
    let beside = if narrow { PEAK_COLUMNS } else { BESIDE_COLUMNS };
    let room = output.columns.saturating_sub(name + beside);
    let columns = room.clamp(LEAST_COLUMNS, MOST_COLUMNS);
    let metric = |name| Metric::find(name).expect("it is a metric");
    let peak = metric("peak_external_fragmentation_ppm");
    let mean = metric("mean_external_fragmentation_ppm");
    let mut table = Table::new(vec![
        Column::words("policy", 0),
        Column::words("over time", 0),
        Column::number("peak", 0),
        Column::number("mean", 1),
    ]);
    for (row, buckets) in curves {
        table.row(vec![
            row.policy.as_str().into(),
            curve(buckets, columns, output.unicode).into(),
            peak.show(row).into(),
            mean.show(row).into(),
        ]);
    }
    let letters = letters(output.unicode);
    let mut lines = vec![format!(
        "external fragmentation, {} 0 % to {} 100 %",
        letters[0], letters[7]
    )];
    lines.extend(table.lines(output.columns, output.colour).0);
    lines
}

fn letters(unicode: bool) -> [char; 8] {
    if unicode { BLOCKS } else { LETTERS }
}

/// One curve: the peak in each column.
fn curve(buckets: &[Bucket], most_columns: usize, unicode: bool) -> String {
    let letters = letters(unicode);
    let events = buckets.last().map_or(0, |bucket| bucket.last_event + 1);
    let columns = events.min(most_columns as u64);
    let mut peaks: Vec<Option<u64>> = vec![None; columns as usize];
    for bucket in buckets {
        let Some(range) = bucket.external_fragmentation_ppm else {
            continue;
        };
        // A bucket may reach over several columns, and several may fall into one.
        let column =
            |event: u64| (u128::from(event) * u128::from(columns) / u128::from(events)) as usize;
        for peak in &mut peaks[column(bucket.first_event)..=column(bucket.last_event)] {
            *peak = (*peak).max(Some(range.max));
        }
    }
    let letter =
        |peak: Option<u64>| peak.map_or(' ', |ppm| letters[(ppm * 8 / 1_000_001) as usize]);
    peaks.into_iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Timeline;
    use crate::observe::timeline::Sample;

    fn timeline(largest: &[u64]) -> Timeline {
        let mut timeline = Timeline::default();
        for (event, largest) in largest.iter().enumerate() {
            let sample = Sample {
                free_bytes: if *largest == 0 { 0 } else { 1000 },
                largest_free_bytes: *largest,
                ..Sample::default()
            };
            timeline.add(event as u64, event as u64, &sample);
        }
        timeline
    }

    #[test]
    fn each_column_shows_the_peak_of_its_events() {
        // Fragmentation 0, undefined, 50 %, 99.9 %.
        let timeline = timeline(&[1000, 0, 500, 1]);
        assert_eq!(curve(timeline.buckets(), 60, true), "▁ ▄█");
        assert_eq!(curve(timeline.buckets(), 60, false), "_ -#");
        assert_eq!(curve(timeline.buckets(), 2, true), "▁█");
        assert_eq!(curve(&[], 60, true), "");
    }

    #[test]
    fn a_spike_in_a_long_run_is_seen() {
        let mut largest = vec![1000; 10_000];
        largest[6_000] = 1;
        let curve = curve(timeline(&largest).buckets(), 10, true);
        assert_eq!(curve, "▁▁▁▁▁▁█▁▁▁");
    }
}
