//! Traces, workloads and policies: the entries of an experiment file that are words or tables.

use std::ops::Range;
use std::path::Path;

use toml::{Spanned, Table, Value};

use super::super::fault::FileError;
use super::super::source::{Kind, Source};
use super::super::sweep::{Choice, Entry, option_text, product};
use super::{List, Reader};
use crate::files::blake3_of;
use crate::policy::{Chosen, Spec};
use crate::presets::{self, WORKLOADS, nearest};
use crate::synth::Workload;
use crate::trace::OpenOptions;
use crate::trace::open::trace_name;
use crate::units::parse_bytes;

impl Reader<'_> {
    /// A text that stands at a key.
    fn word(&self, key: &str, value: &Spanned<Value>) -> Result<String, FileError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.fault(value.span(), format!("{key}: expected a text")))
    }

    /// The name of an entry, and the span that names it.
    fn name_of(
        &self,
        key: &str,
        span: Range<usize>,
        entry: &mut Entry,
    ) -> Result<(String, Range<usize>), FileError> {
        if let Some(word) = &entry.word {
            return Ok((word.clone(), span));
        }
        let Some(value) = entry.take(key) else {
            let error = self.fault(span, format!("the table has no key `{key}`"));
            return Err(error.or(format!("say which one with {key} = \"...\"")));
        };
        Ok((self.word(key, &value)?, value.span()))
    }

    /// The choices of a table's lists.
    fn choices(&self, entry: &Entry) -> Result<Vec<Choice>, FileError> {
        product(&entry.keys).map_err(|at| {
            let (key, value) = &entry.keys[at];
            let what = format!("the list of `{}` is empty: no cell", key.get_ref());
            self.fault(value.span(), what)
                .or("give it at least one value")
        })
    }

    pub(super) fn traces(&self, list: Option<List<Entry>>) -> Result<Vec<Source>, FileError> {
        let mut sources = Vec::<Source>::new();
        let Some(list) = list else {
            return Ok(sources);
        };
        for entry in self.filled("traces", list)? {
            let whole = entry.span();
            let mut entry = entry.into_inner();
            let (file, span) = self.name_of("file", whole, &mut entry)?;
            let mut options = OpenOptions::default();
            let mut name = trace_name(Path::new(&file));
            for (key, value) in &entry.keys {
                let wrong = |what: String| self.fault(value.span(), what);
                match (key.get_ref().as_str(), value.get_ref()) {
                    ("device", Value::Integer(device)) => {
                        let parsed = u32::try_from(*device);
                        options.device =
                            Some(parsed.map_err(|error| wrong(format!("device: {error}")))?);
                        name = format!("{name}-device-{device}");
                    }
                    ("recorded_cap", Value::String(size)) => {
                        let bytes = parse_bytes(size).map_err(|error| wrong(error.to_string()))?;
                        options.capacity_bytes = Some(bytes);
                    }
                    (other, _) => {
                        let what = format!("`{other}` with such a value is no key of a trace");
                        let known = "file = \"PATH\", device = N, recorded_cap = \"SIZE\"";
                        return Err(self
                            .fault(key.span(), what)
                            .or(format!("known are {known}")));
                    }
                }
            }
            self.once(sources.iter().map(|it| &*it.name), &name, &span)?;
            let path = self.folder.join(&file);
            let blake3 = blake3_of(&path).map_err(|error| {
                let what = format!("{}: {error}", path.display());
                self.fault(span, what)
                    .or("paths are relative to the experiment file")
            })?;
            let kind = Kind::Recorded {
                path,
                file,
                options,
                blake3,
            };
            sources.push(Source { name, kind });
        }
        Ok(sources)
    }

    pub(super) fn workloads(&self, list: Option<List<Entry>>) -> Result<Vec<Source>, FileError> {
        let mut sources = Vec::<Source>::new();
        let Some(list) = list else {
            return Ok(sources);
        };
        for entry in self.filled("workloads", list)? {
            let whole = entry.span();
            let mut entry = entry.into_inner();
            let (name, span) = self.name_of("name", whole, &mut entry)?;
            let base = self.preset(&name, &span)?;
            for choice in self.choices(&entry)? {
                let made = self.workload(&name, &base, &choice);
                let workload = made.map_err(|what| self.blame(&entry, &span, what))?;
                self.once(sources.iter().map(|it| &*it.name), &workload.name, &span)?;
                sources.push(Source {
                    name: workload.name.clone(),
                    kind: Kind::Made(Box::new(workload)),
                });
            }
        }
        Ok(sources)
    }

    /// The table of a workload's preset or file.
    fn preset(&self, name: &str, span: &Range<usize>) -> Result<Table, FileError> {
        let known = WORKLOADS.iter().find(|(known, _)| *known == name);
        let is_file = Path::new(name).extension().is_some_and(|end| end == "toml");
        let text = match known {
            Some((_, text)) => (*text).to_owned(),
            None if is_file => {
                let path = self.folder.join(name);
                std::fs::read_to_string(&path).map_err(|error| {
                    self.fault(span.clone(), format!("{}: {error}", path.display()))
                        .or("paths are relative to the experiment file")
                })?
            }
            None => {
                let names = || WORKLOADS.iter().map(|(known, _)| *known);
                let near = nearest(names(), name).unwrap_or_default();
                let known = names().collect::<Vec<_>>().join(", ");
                let what = format!("there is no workload '{name}'; did you mean '{near}'?");
                let help = format!("known are: {known}; or a path to a .toml file");
                return Err(self.fault(span.clone(), what).or(help));
            }
        };
        toml::from_str(&text).map_err(|error| {
            let what = format!("workload '{name}': {}", error.message());
            self.fault(span.clone(), what)
        })
    }

    /// A preset with some of its values chosen: `events` of the trace, the others of the family.
    fn workload(&self, name: &str, base: &Table, choice: &Choice) -> Result<Workload, String> {
        let mut table = base.clone();
        let mut label = trace_name(Path::new(name.trim_end_matches(".toml")));
        for (at, (key, value)) in choice.iter().enumerate() {
            let before = if at == 0 { ':' } else { ',' };
            label = format!("{label}{before}{key}={}", option_text(value));
            if key == "events" {
                table.insert(key.clone(), value.clone());
                continue;
            }
            let families = table.get_mut("workload").and_then(Value::as_table_mut);
            let family = families.and_then(|it| it.iter_mut().next()?.1.as_table_mut());
            let family = family.ok_or_else(|| format!("'{name}' has no family"))?;
            presets::set(family, key, value.clone())?;
        }
        // A table tells what does not fit without lines of a text that nobody wrote.
        let fits: Result<Workload, toml::de::Error> = table.clone().try_into();
        fits.map_err(|error| format!("workload '{label}': {}", error.message()))?;
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        let workload = Workload::from_toml(&label, &text).map_err(|error| error.to_string())?;
        workload.workload.family().ready()?;
        Ok(workload)
    }

    /// An error of the key that its text names, else of the whole entry.
    fn blame(&self, entry: &Entry, span: &Range<usize>, what: String) -> FileError {
        // The text names the last part of a dotted key.
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let named = |key: &&Spanned<String>| what.contains(&format!("`{}`", last(key.get_ref())));
        let key = entry.keys.iter().map(|(key, _)| key).find(named);
        self.fault(key.map_or(span.clone(), Spanned::span), what)
    }

    pub(super) fn policies(&self, list: List<Entry>) -> Result<Vec<Chosen>, FileError> {
        let mut policies = Vec::<Chosen>::new();
        for entry in self.filled("policies", list)? {
            let whole = entry.span();
            let mut entry = entry.into_inner();
            let (name, span) = self.name_of("name", whole, &mut entry)?;
            let find = |label: &str| {
                let found = self.registry.find(label);
                found.map_err(|error| self.blame(&entry, &span, error.to_string()))
            };
            let algorithm = find(&name)?.algorithm;
            for choice in self.choices(&entry)? {
                let options = choice
                    .iter()
                    .map(|(key, value)| Spec::spelled(&algorithm, key, &option_text(value)));
                let options = options.collect::<Vec<_>>().join(",");
                let label = match (options.is_empty(), name.contains(':')) {
                    (true, _) => name.clone(),
                    (false, true) => format!("{name},{options}"),
                    (false, false) => format!("{name}:{options}"),
                };
                self.once(policies.iter().map(|it| &*it.label), &label, &span)?;
                policies.push(find(&label)?);
            }
        }
        Ok(policies)
    }
}
