//! What can be reported of a row, by name: the columns that hold numbers, and the ratios
//! that are derived from them. Each has a unit, a direction and one way to be printed.
//!
//! The formulas are in `docs/metrics.md`.

use super::Row;
use crate::units::{
    format_bytes, format_count, format_nanos, format_ppm, parse_bytes, parse_nanos, parse_percent,
    ppm,
};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// It describes the run, and is no merit.
    Neither,
}

/// What the number is, and so how it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// How many, or the number of an event.
    Count,
    /// Nanoseconds.
    Nanos,
    /// A share in parts per million, printed as a percentage.
    Share,
    /// A share of which what is not whole is never printed as 100.0 %.
    Rate,
    /// A factor in millionths, printed as `1.08 x`.
    Factor,
}

/// One thing that can be reported of a row.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name: the column's, or a derived ratio's.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// What a policy does in each unit of it (`fails`), where there is a verb.
    pub verb: Option<&'static str>,
    /// What the number is.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    read: fn(&Row) -> Option<u64>,
}

/// A name that is no metric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no metric '{name}'; known are: {known}")]
pub struct MetricError {
    /// The name as it was given.
    pub name: String,
    /// All names, separated by commas.
    pub known: String,
}

const fn metric(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    better: Better,
    read: fn(&Row) -> Option<u64>,
) -> Metric {
    Metric {
        name,
        label,
        verb: None,
        unit,
        better,
        read,
    }
}

/// A metric of which each unit is something that the policy does.
const fn deed(
    name: &'static str,
    label: &'static str,
    verb: &'static str,
    read: fn(&Row) -> Option<u64>,
) -> Metric {
    Metric {
        verb: Some(verb),
        ..metric(name, label, Unit::Count, Better::Lower, read)
    }
}

use Better::{Higher, Lower, Neither};
use Unit::{Bytes, Count, Factor, Nanos, Rate, Share};

/// All metrics: first the columns in the order of a row, then the derived ratios.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    metric("capacity_bytes", "capacity", Bytes, Neither, |row| Some(row.capacity_bytes)),
    metric("events", "events", Count, Neither, |row| Some(row.events)),
    metric("requests", "requests", Count, Neither, |row| Some(row.requests)),
    metric("served", "requests served", Count, Higher, |row| Some(row.served)),
    deed("failed", "failed requests", "fails", |row| Some(row.failed)),
    metric("first_failure_event", "event of the first failure", Count, Higher, |row| row.first_failure_event),
    metric("peak_requested_bytes", "peak requested", Bytes, Neither, |row| Some(row.peak_requested_bytes)),
    metric("peak_occupied_bytes", "peak occupied", Bytes, Lower, |row| Some(row.peak_occupied_bytes)),
    metric("peak_reserved_bytes", "peak reserved", Bytes, Lower, |row| Some(row.peak_reserved_bytes)),
    metric("high_water_bytes", "high-water mark", Bytes, Lower, |row| Some(row.high_water_bytes)),
    metric("peak_external_fragmentation_ppm", "peak external fragmentation", Share, Lower, |row| row.peak_external_fragmentation_ppm),
    metric("mean_external_fragmentation_ppm", "mean external fragmentation", Share, Lower, |row| row.mean_external_fragmentation_ppm),
    metric("peak_internal_fragmentation_ppm", "peak internal fragmentation", Share, Lower, |row| row.peak_internal_fragmentation_ppm),
    metric("moved_bytes", "bytes moved", Bytes, Lower, |row| Some(row.moved_bytes)),
    deed("moves", "moves", "moves a block", |row| Some(row.moves)),
    deed("compactions", "compactions", "compacts", |row| Some(row.compactions)),
    metric("pause_ns", "pause", Nanos, Lower, |row| Some(row.pause_ns)),
    deed("delayed_requests", "delayed requests", "delays a request", |row| Some(row.delayed_requests)),
    deed("stalls", "stalls", "stalls", |row| Some(row.stalls)),
    metric("hazards", "hazards", Count, Lower, |row| Some(row.hazards)),
    metric("double_frees", "double frees", Count, Neither, |row| Some(row.double_frees)),
    metric("unknown_frees", "unknown frees", Count, Neither, |row| Some(row.unknown_frees)),
    metric("zero_sizes", "requests of no bytes", Count, Neither, |row| Some(row.zero_sizes)),
    metric("overflows", "overflows", Count, Lower, |row| Some(row.overflows)),
    metric("peak_utilisation_ppm", "peak utilisation", Share, Neither, |row| Some(row.peak_utilisation_ppm)),
    metric("success_ppm", "success rate", Rate, Higher, |row| Some(row.success_ppm)),
    deed("driver_calls", "driver calls", "calls the driver", |row| Some(row.driver_calls)),
    metric("cost_ns", "simulated cost", Nanos, Lower, |row| Some(row.cost_ns)),
    metric("lower_bound_bytes", "lower bound", Bytes, Neither, |row| Some(row.lower_bound_bytes)),
    metric("compactions_held_back", "compactions held back", Count, Neither, |row| Some(row.compactions_held_back)),
    metric("counterfactual_requests", "counterfactual requests", Count, Neither, |row| Some(row.counterfactual_requests)),
    metric("footprint_bytes", "footprint", Bytes, Lower, |row| Some(row.footprint_bytes)),
    metric("memory_efficiency_ppm", "memory efficiency", Share, Higher, |row| row.memory_efficiency_ppm),
    metric("mean_overhead_ppm", "mean overhead", Share, Lower, |row| row.mean_overhead_ppm),
    metric("overhead_at_peak_requested_ppm", "overhead at peak requested", Share, Lower, |row| row.overhead_at_peak_requested_ppm),
    metric("overhead_at_peak_footprint_ppm", "overhead at peak footprint", Share, Lower, |row| row.overhead_at_peak_footprint_ppm),
    metric("peak_overhead_ppm", "peak overhead", Share, Lower, |row| row.peak_overhead_ppm),
    metric("first_counterfactual_event", "first counterfactual event", Count, Neither, |row| row.first_counterfactual_event),
    metric("fit_bytes", "smallest capacity that serves everything", Bytes, Lower, |row| row.fit_bytes),
    metric("rounded_peak_bytes", "peak of rounded requests", Bytes, Lower, |row| Some(row.rounded_peak_bytes)),
    metric("packed_bytes", "best packing found", Bytes, Neither, |row| row.packed_bytes),
    metric("paged_bytes", "bytes paged to the host and back", Bytes, Lower, |row| Some(row.paged_bytes)),
    metric("uses", "uses", Count, Neither, |row| Some(row.uses)),
    metric("trace_ns", "trace time", Nanos, Neither, |row| Some(row.trace_ns)),
    metric("longest_pause_ns", "longest pause", Nanos, Lower, |row| Some(row.longest_pause_ns)),
    metric("failure_ppm", "failure rate", Share, Lower, |row| ratio(row.failed, row.served + row.failed)),
    metric("footprint_to_bound_ppm", "footprint in lower bounds", Factor, Lower, |row| ratio(row.footprint_bytes, row.lower_bound_bytes)),
    metric("fit_to_bound_ppm", "smallest capacity in lower bounds", Factor, Lower, |row| ratio(row.fit_bytes?, row.lower_bound_bytes)),
    metric("rounded_to_bound_ppm", "rounded requests in lower bounds", Factor, Lower, |row| ratio(row.rounded_peak_bytes, row.lower_bound_bytes)),
    metric("cost_share_ppm", "share of time in allocation", Share, Lower, |row| ratio(row.cost_ns, row.trace_ns.saturating_add(row.cost_ns))),
];

/// `part / whole` in parts per million; undefined where `whole` is 0.
fn ratio(part: u64, whole: u64) -> Option<u64> {
    (whole > 0).then(|| ppm(part, whole))
}

impl Metric {
    /// The metric of a name; the unit at its end may be left out (`memory_efficiency`), and
    /// `failures` is `failed`.
    ///
    /// # Errors
    /// [`MetricError`], with the names that are known.
    pub fn find(name: &str) -> Result<&'static Metric, MetricError> {
        let name = if name == "failures" { "failed" } else { name };
        let short = |known: &str| {
            let ends = ["_ppm", "_bytes", "_ns"];
            ends.iter().any(|end| known.strip_suffix(end) == Some(name))
        };
        let found = METRICS.iter().find(|metric| metric.name == name);
        let found = found.or_else(|| METRICS.iter().find(|metric| short(metric.name)));
        found.ok_or_else(|| {
            let known: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            MetricError {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// The value in a row, in the metric's unit; `None` where it is undefined.
    #[must_use]
    pub fn of(&self, row: &Row) -> Option<u64> {
        (self.read)(row)
    }

    /// The value by which policies are compared. What a policy that served nothing took is
    /// no merit: its bytes, times and factors that are better when lower are left out.
    #[must_use]
    pub fn merit(&self, row: &Row) -> Option<u64> {
        let spent = matches!(self.unit, Unit::Bytes | Unit::Nanos | Unit::Factor);
        let idle = row.served == 0 && row.failed > 0;
        if idle && spent && self.better == Better::Lower {
            return None;
        }
        self.of(row)
    }

    /// The value in a row, printed for people; `-` where it is undefined.
    #[must_use]
    pub fn show(&self, row: &Row) -> String {
        self.of(row)
            .map_or_else(|| "-".into(), |value| self.print(value as f64))
    }

    /// Reads a value in the metric's unit: `3GiB`, `5ms`, `30%`, or the integer as a row
    /// has it.
    ///
    /// # Errors
    /// A text that is none, in words.
    pub fn parse(&self, text: &str) -> Result<u64, String> {
        let integer = text.parse::<u64>();
        if let Ok(value) = integer {
            return Ok(value);
        }
        let told = |error: crate::units::UnitError| error.to_string();
        match self.unit {
            Unit::Bytes => parse_bytes(text).map_err(told),
            Unit::Nanos => parse_nanos(text).map_err(told),
            Unit::Share | Unit::Rate | Unit::Factor => parse_percent(text).map_err(told),
            Unit::Count => Err(format!(
                "'{text}': expected a whole number of {}",
                self.label
            )),
        }
    }

    /// A value or a mean of values, printed for people.
    #[must_use]
    pub fn print(&self, value: f64) -> String {
        if value < 0.0 {
            return format!("-{}", self.print(-value));
        }
        let whole = value.round() as u64;
        match self.unit {
            Unit::Bytes => format_bytes(whole),
            Unit::Nanos => format_nanos(whole),
            Unit::Share => format_ppm(whole),
            Unit::Rate if value < 1e6 => format_ppm(whole.min(999_000)),
            Unit::Rate => format_ppm(whole),
            Unit::Factor => format!("{:.2} x", value / 1e6),
            Unit::Count if value >= 100.0 || value == value.trunc() => format_count(whole),
            Unit::Count if value >= 1.0 => format!("{value:.1}"),
            Unit::Count => format!("{value:.3}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::rows::columns;

    /// Columns that name a run instead of measuring it.
    const NAMES: [&str; 5] = ["trace", "policy", "seed", "packed_by", "packed_proven"];

    #[test]
    fn a_policy_that_served_nothing_has_no_footprint_but_its_failures() {
        let mut row = Row {
            failed: 3,
            ..Row::default()
        };
        let merit = |name, row: &Row| Metric::find(name).expect("a metric").merit(row);
        assert_eq!(
            (merit("footprint_bytes", &row), merit("failed", &row)),
            (None, Some(3))
        );
        row.served = 1;
        assert_eq!(merit("footprint_bytes", &row), Some(0));
    }

    #[test]
    fn every_column_of_numbers_is_a_metric_and_reads_its_own_column() {
        let blank = serde_json::to_value(Row::default()).expect("a row is plain values");
        let mut numbered = blank.clone();
        let columns: Vec<String> = columns();
        let measured = columns.iter().filter(|name| !NAMES.contains(&&***name));
        for (at, name) in measured.clone().enumerate() {
            numbered[name] = (at as u64 + 1).into();
        }
        let row: Row = serde_json::from_value(numbered).expect("all are integers");
        for (at, name) in measured.clone().enumerate() {
            let metric = Metric::find(name).expect("each column is a metric");
            assert_eq!(metric.of(&row), Some(at as u64 + 1), "{name}");
            assert_eq!(metric.name, METRICS[at].name, "the order is the row's");
        }
        assert_eq!(measured.count() + 5, METRICS.len(), "five are derived");
    }

    #[test]
    fn ratios_are_derived_and_undefined_where_there_is_nothing_below() {
        let mut row = Row {
            served: 3,
            failed: 1,
            footprint_bytes: 1500,
            lower_bound_bytes: 1000,
            ..Row::default()
        };
        let of = |name: &str, row: &Row| Metric::find(name).expect("it is known").of(row);
        assert_eq!(of("failure_ppm", &row), Some(250_000));
        assert_eq!(of("footprint_to_bound", &row), Some(1_500_000));
        assert_eq!(of("fit_to_bound_ppm", &row), None);
        row.fit_bytes = Some(1234);
        assert_eq!(of("fit_to_bound_ppm", &row), Some(1_234_000));
        assert_eq!(of("failure_ppm", &Row::default()), None);
        assert_eq!(of("footprint_to_bound_ppm", &Row::default()), None);
        assert_eq!(
            of(
                "failures",
                &Row {
                    failed: 3,
                    ..Row::default()
                }
            ),
            Some(3)
        );
        let error = Metric::find("speed").expect_err("no such metric");
        assert!(
            error
                .to_string()
                .contains("'speed'; known are: capacity_bytes")
        );
    }

    #[test]
    fn values_are_read_in_their_unit() {
        let read = |name: &str, text: &str| Metric::find(name).expect("known").parse(text);
        assert_eq!(read("footprint_bytes", "1.5KiB"), Ok(1536));
        assert_eq!(read("footprint_bytes", "1536"), Ok(1536));
        assert_eq!(read("cost_ns", "2us"), Ok(2000));
        assert_eq!(read("success_ppm", "99.5%"), Ok(995_000));
        assert_eq!(read("failed", "7"), Ok(7));
        assert!(
            read("failed", "7%")
                .expect_err("a share")
                .contains("whole number")
        );
        assert!(
            read("footprint_bytes", "1GB")
                .expect_err("decimal")
                .contains("GiB")
        );
    }

    #[test]
    fn values_and_means_are_printed_in_their_unit() {
        let print = |name: &str, value: f64| Metric::find(name).expect("known").print(value);
        assert_eq!(print("failed", 12.0), "12");
        assert_eq!(print("failed", 12.34), "12.3");
        assert_eq!(print("failed", 0.0156), "0.016");
        assert_eq!(print("failed", 12345.6), "12,346");
        assert_eq!(print("failed", -2.5), "-2.5");
        assert_eq!(print("footprint_bytes", 1536.0), "1.50 KiB");
        assert_eq!(print("success_ppm", 999_999.0), "99.9 %");
        assert_eq!(print("success_ppm", 1e6), "100.0 %");
        assert_eq!(print("fit_to_bound_ppm", 1_084_000.0), "1.08 x");
        assert_eq!(print("cost_ns", 1_250_000.0), "1.25 ms");
        let show = |name: &str| Metric::find(name).expect("known").show(&Row::default());
        assert_eq!((show("fit_bytes"), show("moves")), ("-".into(), "0".into()));
    }
}
