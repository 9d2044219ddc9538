//! The allocator's settings, as size rules and as words for the recorded truth.

use std::fmt::Write as _;

use crate::trace::snapshot::{Setting, Settings};

use super::sizes::{SizeRules, conf_value};

/// The size rules that `settings` give; the defaults where the file has none.
///
/// The cap and the card are in no snapshot: `per_process_memory_fraction` says only that
/// there is a cap.
#[must_use]
pub fn size_rules(settings: Option<&Settings>) -> SizeRules {
    let mut rules = SizeRules::default();
    let Some(settings) = settings else {
        return rules;
    };
    rules.max_split_bytes = settings.max_split_bytes;
    // A float saturates as it becomes an integer; a NaN becomes 0.
    rules.gc_threshold_ppm = (settings.gc_threshold * 1e6).round() as u64;
    for &(start_mib, divisions) in &settings.roundup_power2_divisions {
        if start_mib > 0 {
            rules.divisions[start_mib.ilog2().min(15) as usize] = divisions;
        }
    }
    rules.read_conf(&settings.alloc_conf);
    rules
}

/// Whether the settings set a memory fraction below 1, and so a cap.
pub(super) fn sets_cap(settings: Option<&Settings>) -> bool {
    settings
        .and_then(|settings| conf_value(&settings.alloc_conf, "per_process_memory_fraction"))
        .and_then(|value| value.parse::<f64>().ok())
        .is_some_and(|fraction| fraction < 1.0)
}

/// The settings by the names that the file gives them, written as Python writes them.
pub(super) fn words(settings: &Settings) -> Vec<(String, String)> {
    let flag = |value: bool| if value { "True" } else { "False" }.to_owned();
    let max_split = settings
        .max_split_bytes
        .map_or_else(|| "-1".to_owned(), |bytes| bytes.to_string());
    let mut divisions = String::new();
    for (start_mib, value) in &settings.roundup_power2_divisions {
        let comma = if divisions.is_empty() { "" } else { "," };
        // Writing into a String cannot fail.
        let _ = write!(divisions, "{comma}{start_mib}:{value}");
    }
    let mut words = vec![
        ("PYTORCH_CUDA_ALLOC_CONF", settings.alloc_conf.clone()),
        ("max_split_size", max_split),
        (
            "garbage_collection_threshold",
            settings.gc_threshold.to_string(),
        ),
        ("expandable_segments", flag(settings.expandable_segments)),
        ("roundup_power2_divisions", divisions),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect::<Vec<_>>();
    for (name, value) in &settings.others {
        let value = match value {
            Setting::Bool(value) => flag(*value),
            Setting::Int(value) => value.to_string(),
            Setting::Float(value) => value.to_string(),
            Setting::Text(value) => value.clone(),
        };
        words.push((name.clone(), value));
    }
    words
}
