//! The warnings of the field: levels beyond which those who run GPUs look closer.

use std::fmt;

use super::Row;
use crate::units::format_ppm;

/// More of the capacity in use than this is worth a warning.
pub const UTILISATION_PPM: u64 = 800_000;
/// Fewer requests served than this is worth a warning.
pub const SUCCESS_PPM: u64 = 900_000;
/// More external fragmentation than this is worth a warning.
pub const FRAGMENTATION_PPM: u64 = 300_000;

/// What of a row deserves a closer look; a value is in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Peak utilisation above 80 %.
    Utilisation(u64),
    /// Success rate below 90 %.
    Success(u64),
    /// Mean external fragmentation above 30 %. The peak is no measure here: nearly every
    /// replay passes 30 % at some event, if only while little is free.
    Fragmentation(u64),
    /// Pages went to the host, but the trace does not tell when a block is used.
    NoUses,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Warning::Utilisation(ppm) => write!(
                f,
                "utilisation reaches {}, above {}",
                format_ppm(ppm),
                format_ppm(UTILISATION_PPM)
            ),
            Warning::Success(ppm) => write!(
                f,
                "{} of the requests are served, below {}",
                format_ppm(ppm),
                format_ppm(SUCCESS_PPM)
            ),
            Warning::Fragmentation(ppm) => write!(
                f,
                "external fragmentation is {} on average, above {}",
                format_ppm(ppm),
                format_ppm(FRAGMENTATION_PPM)
            ),
            Warning::NoUses => f.write_str(
                "the trace tells no uses of blocks: an allocation counts as its only use, \
                 so transfers to the host are told too low",
            ),
        }
    }
}

/// The levels that a row passes, in a fixed order.
#[must_use]
pub fn warnings(row: &Row) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if row.peak_utilisation_ppm > UTILISATION_PPM {
        warnings.push(Warning::Utilisation(row.peak_utilisation_ppm));
    }
    if row.success_ppm < SUCCESS_PPM {
        warnings.push(Warning::Success(row.success_ppm));
    }
    if let Some(ppm) = row.mean_external_fragmentation_ppm
        && ppm > FRAGMENTATION_PPM
    {
        warnings.push(Warning::Fragmentation(ppm));
    }
    if row.paged_bytes > 0 && row.uses == 0 {
        warnings.push(Warning::NoUses);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_must_be_passed_not_met() {
        let mut row = Row {
            peak_utilisation_ppm: UTILISATION_PPM,
            success_ppm: SUCCESS_PPM,
            mean_external_fragmentation_ppm: Some(FRAGMENTATION_PPM),
            ..Row::default()
        };
        assert_eq!(warnings(&row), []);
        row.peak_utilisation_ppm += 1000;
        row.success_ppm -= 1000;
        row.mean_external_fragmentation_ppm = Some(456_000);
        let told: Vec<_> = warnings(&row).iter().map(Warning::to_string).collect();
        assert_eq!(
            told,
            [
                "utilisation reaches 80.1 %, above 80.0 %",
                "89.9 % of the requests are served, below 90.0 %",
                "external fragmentation is 45.6 % on average, above 30.0 %",
            ]
        );
        row.mean_external_fragmentation_ppm = None;
        assert_eq!(warnings(&row).len(), 2);
        row.paged_bytes = 1;
        assert_eq!(warnings(&row).last(), Some(&Warning::NoUses));
        row.uses = 1;
        assert_eq!(warnings(&row).len(), 2);
    }
}
