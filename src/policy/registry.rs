//! Names become policies: presets, `NAME:key=value` texts, files, and policies that a
//! crate of its own brings along.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::{Table, Value};

use super::planned::Foresight;
use super::{Policy, Spec};
use crate::presets;
pub use crate::presets::{DEVICES, PRESETS};

/// How deep one policy may wrap another.
const DEEPEST: usize = 8;

/// A policy that could not be found or set up; the text names the place and the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy '{policy}': {what}")]
pub struct PolicyError {
    /// The policy as it was asked for.
    pub policy: String,
    /// What is wrong, and what would do.
    pub what: String,
}

impl PolicyError {
    /// An error about `policy`.
    #[must_use]
    pub fn new(policy: impl Into<String>, what: impl Into<String>) -> Self {
        PolicyError {
            policy: policy.into(),
            what: what.into(),
        }
    }
}

/// A preset: a policy with parameters, a source, and a line on what it is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// One line for people.
    pub about: String,
    /// The paper, the specification or the program that it follows.
    pub source: String,
    /// Whether a comparison takes it in where no policy is named.
    #[serde(default = "yes")]
    pub by_default: bool,
    /// One table: the algorithm's name with its parameters.
    pub policy: Table,
}

fn yes() -> bool {
    true
}

/// Builds a policy of another crate from its parameters.
type Make = Arc<dyn Fn(&Table) -> Result<Box<dyn Policy>, String> + Send + Sync>;

/// All policies by name: those of the crate, and those registered from outside.
#[derive(Clone, Default)]
pub struct Registry {
    makers: BTreeMap<String, Make>,
}

/// A policy that was found: it can be built as often as wanted.
#[derive(Clone)]
pub struct Chosen {
    /// The text as it was given; rows carry it.
    pub label: String,
    /// One line for people.
    pub about: String,
    /// Where the policy comes from.
    pub source: String,
    /// The algorithm's name.
    pub algorithm: String,
    /// Its parameters as given.
    pub parameters: Table,
    depth: usize,
}

impl Registry {
    /// Adds a policy of another crate: `make` builds it from its parameters.
    #[must_use]
    pub fn with<F>(mut self, name: &str, make: F) -> Self
    where
        F: Fn(&Table) -> Result<Box<dyn Policy>, String> + Send + Sync + 'static,
    {
        self.makers.insert(name.to_owned(), Arc::new(make));
        self
    }

    /// The names that can be asked for: presets, then registered ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        PRESETS
            .iter()
            .map(|(name, _)| *name)
            .chain(self.makers.keys().map(String::as_str))
    }

    /// The names that a comparison takes where none is asked for: the presets that say so,
    /// and registered policies.
    pub fn default_names(&self) -> impl Iterator<Item = &str> {
        let by_default = |body: &str| toml::from_str::<Preset>(body).is_ok_and(|it| it.by_default);
        let presets = PRESETS.iter().filter(move |(_, body)| by_default(body));
        let presets = presets.map(|(name, _)| *name);
        presets.chain(self.makers.keys().map(String::as_str))
    }

    /// Finds a policy: a preset's name, `NAME:key=value,key=value`, or a path to a TOML file.
    ///
    /// # Errors
    /// An unknown name (with the nearest known one), a file that cannot be read, or
    /// parameters that do not fit.
    pub fn find(&self, text: &str) -> Result<Chosen, PolicyError> {
        self.find_at(text, 0)
    }

    fn find_at(&self, text: &str, depth: usize) -> Result<Chosen, PolicyError> {
        let fail = |what: String| PolicyError::new(text, what);
        if depth > DEEPEST {
            return Err(fail(format!(
                "policies wrap each other more than {DEEPEST} deep"
            )));
        }
        let is_file = Path::new(text).extension().is_some_and(|end| end == "toml");
        if is_file && !text.split(':').next().is_some_and(|name| self.knows(name)) {
            let body = std::fs::read_to_string(text)
                .map_err(|error| fail(format!("cannot read the file: {error}")))?;
            return self.read_preset(text, &body, depth);
        }
        let (name, options) = match text.split_once(':') {
            Some((name, options)) => (name, Some(options)),
            None => (text, None),
        };
        let mut chosen = self.named(name, depth).map_err(&fail)?;
        text.clone_into(&mut chosen.label);
        if let Some(options) = options {
            for (key, value) in parse_options(&chosen.algorithm, options).map_err(&fail)? {
                let value = add_to(chosen.parameters.get(&key), value);
                chosen.parameters.insert(key, value);
            }
        }
        self.build(&chosen)?;
        Ok(chosen)
    }

    fn knows(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    fn named(&self, name: &str, depth: usize) -> Result<Chosen, String> {
        if let Some((_, body)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            return self
                .read_preset(name, body, depth)
                .map_err(|error| error.what);
        }
        if self.makers.contains_key(name) {
            return Ok(Chosen {
                label: name.to_owned(),
                about: "registered by the calling crate".into(),
                source: "the calling crate".into(),
                algorithm: name.to_owned(),
                parameters: Table::new(),
                depth,
            });
        }
        Err(presets::unknown("policy", name, self.names()))
    }

    fn read_preset(&self, label: &str, body: &str, depth: usize) -> Result<Chosen, PolicyError> {
        let fail = |what: String| PolicyError::new(label, what);
        let preset: Preset = toml::from_str(body).map_err(|error| fail(error.to_string()))?;
        let mut tables = preset.policy.into_iter();
        let (Some((algorithm, Value::Table(parameters))), None) = (tables.next(), tables.next())
        else {
            return Err(fail(
                "expected exactly one table such as [policy.best-fit]".into(),
            ));
        };
        let chosen = Chosen {
            label: label.to_owned(),
            about: preset.about,
            source: preset.source,
            algorithm,
            parameters,
            depth,
        };
        self.build(&chosen)?;
        Ok(chosen)
    }

    /// Builds a policy that was found, for a replay of what is not known beforehand.
    ///
    /// # Errors
    /// Parameters that do not fit the algorithm.
    pub fn build(&self, chosen: &Chosen) -> Result<Box<dyn Policy>, PolicyError> {
        self.build_with(chosen, None)
    }

    /// Builds a policy that was found, for a replay of the trace that `foresight` knows.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for(
        &self,
        chosen: &Chosen,
        foresight: &dyn Foresight,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        self.build_with(chosen, Some(foresight))
    }

    fn build_with(
        &self,
        chosen: &Chosen,
        foresight: Option<&dyn Foresight>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let fail = |what: String| PolicyError::new(&chosen.label, what);
        if let Some(make) = self.makers.get(&chosen.algorithm) {
            return make(&chosen.parameters).map_err(fail);
        }
        let mut table = Table::new();
        table.insert(
            chosen.algorithm.clone(),
            Value::Table(chosen.parameters.clone()),
        );
        let spec: Spec = table
            .try_into()
            .map_err(|error: toml::de::Error| fail(error.message().to_owned()))?;
        let inner = |inner: &str| {
            let inner = self.find_at(inner, chosen.depth + 1)?;
            self.build_with(&inner, foresight)
        };
        spec.build(&inner, foresight)
            .map_err(|error| fail(error.what))
    }
}

/// A new value of an option; an option string of PyTorch goes on where the preset's ends.
fn add_to(old: Option<&Value>, new: Value) -> Value {
    match (old, &new) {
        (Some(Value::String(old)), Value::String(text))
            if !old.is_empty() && old.contains(':') && text.contains(':') =>
        {
            Value::String(format!("{old},{text}"))
        }
        _ => new,
    }
}

/// Reads the options of an algorithm, in its own language where it has one.
fn parse_options(algorithm: &str, text: &str) -> Result<Vec<(String, Value)>, String> {
    Spec::own_options(algorithm, text).unwrap_or_else(|| presets::options(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_builds_and_says_where_it_comes_from() {
        let registry = Registry::default();
        for (name, _) in PRESETS {
            let chosen = registry
                .find(name)
                .unwrap_or_else(|error| panic!("{error}"));
            assert!(
                !chosen.about.is_empty() && !chosen.source.is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn options_of_pytorch_go_on_where_the_preset_ends() {
        let registry = Registry::default();
        let chosen = registry
            .find("pytorch-expandable:max_split_size_mb:128")
            .expect("fits");
        let conf = chosen.parameters["conf"].as_str();
        assert_eq!(conf, Some("expandable_segments:True,max_split_size_mb:128"));
    }

    #[test]
    fn options_change_a_preset_and_wrong_ones_are_told() {
        let registry = Registry::default();
        let chosen = registry.find("bump:alignment=512B").expect("fits");
        assert_eq!(chosen.label, "bump:alignment=512B");
        assert_eq!(chosen.parameters["alignment"].as_str(), Some("512B"));
        let error = registry
            .find("bump:alignement=512")
            .err()
            .expect("no such option");
        assert!(error.to_string().contains("alignement"), "{error}");
        let error = registry.find("bumpy").err().expect("no such policy");
        assert!(
            error.to_string().contains("did you mean 'bump'?"),
            "{error}"
        );
    }
}
