//! Names become workloads: presets, files, and either with some keys changed.

use std::path::Path;

use toml::{Table, Value};

use super::{SynthError, Workload};
use crate::presets::{self, WORKLOADS};

impl Workload {
    /// Finds a workload and what it reads: a preset's name or a path to a TOML file, each
    /// also with `:key=value,key=value`. Keys are those of the family, dotted where they
    /// lie in tables; `events` is the length.
    ///
    /// # Errors
    /// An unknown name (with the nearest known one), a file that cannot be read, keys that
    /// do not fit, or requests that are not there or broken.
    pub fn find(text: &str) -> Result<Self, SynthError> {
        let fail = |what: String| SynthError {
            workload: text.to_owned(),
            what,
        };
        let (place, options) = split(text);
        let (name, body) = if place.ends_with(".toml") {
            let body = std::fs::read_to_string(place)
                .map_err(|error| fail(format!("cannot read the file: {error}")))?;
            let stem = Path::new(place).file_stem().unwrap_or_default();
            (stem.to_string_lossy().into_owned(), body)
        } else {
            let preset = WORKLOADS.iter().find(|(name, _)| *name == place);
            let (name, body) = preset.ok_or_else(|| {
                let known = WORKLOADS.iter().map(|(name, _)| *name);
                fail(presets::unknown("workload", place, known))
            })?;
            ((*name).to_owned(), (*body).to_owned())
        };
        let mut workload = Workload::from_toml(&name, &body)?;
        if let Some(options) = options {
            workload = changed(&body, options)
                .and_then(|it| it.workload.family().check().map(|()| it))
                .map_err(fail)?;
            workload.name = name;
        }
        workload.workload.family().ready().map_err(fail)?;
        Ok(workload)
    }

    /// Every preset by name. What they read need not be there.
    ///
    /// # Errors
    /// A preset that does not fit: a bug of the file.
    pub fn presets() -> Result<Vec<Self>, SynthError> {
        let presets = WORKLOADS.iter();
        presets
            .map(|(name, body)| Workload::from_toml(name, body))
            .collect()
    }
}

/// The place of a workload and the options behind it.
fn split(text: &str) -> (&str, Option<&str>) {
    // A path may hold a colon of its own; one of a file's options comes after its ending.
    let end = match text.find(".toml:") {
        Some(at) => Some(at + ".toml".len()),
        None if text.ends_with(".toml") => None,
        None => text.find(':'),
    };
    end.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
}

/// A file's workload with some keys changed.
fn changed(body: &str, options: &str) -> Result<Workload, String> {
    let mut file: Table = body.parse().expect("it was read before");
    for (key, value) in presets::options(options)? {
        let table = if key == "events" {
            &mut file
        } else {
            let family = file.get_mut("workload").and_then(Value::as_table_mut);
            let family = family.and_then(|tables| tables.iter_mut().next());
            let family = family.and_then(|(_, parameters)| parameters.as_table_mut());
            family.expect("a workload holds the table of its family")
        };
        presets::set(table, &key, value)?;
    }
    file.try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_a_preset_and_wrong_ones_are_told() {
        let text =
            "churn:lives.random-victim.live=7,sizes.log-uniform.largest_bytes=1MiB,events=50";
        let found = Workload::find(text).expect("fits");
        assert_eq!(found.events, 50);
        let spec = serde_json::to_value(&found.workload).expect("plain data");
        assert_eq!(spec["churn"]["lives"]["random-victim"]["live"], 7);
        assert_eq!(
            spec["churn"]["sizes"]["log-uniform"]["largest_bytes"],
            "1MiB"
        );
        for (text, part) in [
            ("churn:alive=7", "alive"),
            ("churn:lives.random-victim.live=0", "live = 0"),
            ("churn:lives", "expected key=value"),
            ("chum", "did you mean 'churn'?"),
            ("nowhere.toml", "cannot read the file"),
        ] {
            let error = Workload::find(text).expect_err(text).to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_file_is_found_by_its_ending_and_takes_keys_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mine:own.toml");
        let body = include_str!("../../traces/synthetic/churn.toml");
        std::fs::write(&path, body).expect("written");
        let path = path.display().to_string();
        let plain = Workload::find(&path).expect("a file");
        assert_eq!(plain.name, "mine:own");
        let short = Workload::find(&format!("{path}:events=3")).expect("a file with a key");
        assert_eq!((plain.events, short.events), (100_000, 3));
    }
}
