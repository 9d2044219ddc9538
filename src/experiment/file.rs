//! An experiment file: traces and workloads x policies x devices x capacities x seeds.
//!
//! ```toml
//! about = "What padding costs"
//! traces = ["../traces/churn-cap.vlt.zst"]             # or { file = "...", device = 0 }
//! workloads = ["churn", { name = "churn", events = [10000, 100000] }]
//! policies = ["first-fit", { name = "bump", alignment = ["256 B", "2 MiB"] }]
//! devices = ["h200"]                                   # names of cards, or sizes
//! capacities = ["1.1x", "8GiB", "card"]                # x: times the peak of live bytes
//! seeds = 64                                           # 0 to 63, or a list
//! metrics = ["failed", "footprint_bytes"]
//! baseline = "first-fit"
//! fit = true                                           # look for the smallest capacity
//! ```
//!
//! Lists in a table multiply. Paths are relative to the file. Whatever does not fit is a
//! [`FileError`] with its place.

mod entries;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::Wanted;
use super::fault::{FileError, Text};
use super::plan::{Asked, Experiment};
use super::source::{DEFAULT_CARD, Source, card_of};
use super::sweep::Entry;
use crate::observe::metric::{self, Metric};
use crate::policy::{Chosen, Registry};
use crate::presets::nearest;
use crate::space::Device;
use crate::units::{format_bytes, parse_bytes};

/// The metrics that are reported where none is named.
const METRICS: [&str; 4] = [
    "failed",
    "footprint_bytes",
    "mean_external_fragmentation_ppm",
    "cost_ns",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    about: String,
    traces: Option<List<Entry>>,
    workloads: Option<List<Entry>>,
    policies: List<Entry>,
    devices: Option<List<String>>,
    capacities: Option<List<String>>,
    seeds: Option<Spanned<Value>>,
    metrics: Option<List<String>>,
    baseline: Option<Spanned<String>>,
    #[serde(default)]
    fit: bool,
}

type List<T> = Spanned<Vec<Spanned<T>>>;

/// Reads an experiment file and finds everything that it names.
///
/// # Errors
/// A file that cannot be read, or the first thing in it that does not fit.
pub fn read(path: &Path, registry: &Registry) -> Result<Experiment, FileError> {
    let file = path.display().to_string();
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|error| {
        let nothing = Arc::new(Text {
            file: file.clone(),
            text: String::new(),
        });
        let help = "check the path; experiments/ of the project holds examples";
        nothing
            .whole(format!("cannot read the file: {error}"))
            .or(help)
    })?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Reader {
        text: Arc::new(Text { file, text }),
        folder,
        registry,
    }
    .experiment(&name)
}

struct Reader<'a> {
    text: Arc<Text>,
    folder: PathBuf,
    registry: &'a Registry,
}

impl Reader<'_> {
    fn fault(&self, span: Range<usize>, what: impl Into<String>) -> FileError {
        self.text.fault(span, what)
    }

    fn experiment(&self, name: &str) -> Result<Experiment, FileError> {
        let raw: Raw = toml::from_str(&self.text.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.fault(span, error.message().to_owned())
        })?;
        let mut sources = self.traces(raw.traces)?;
        sources.extend(self.workloads(raw.workloads)?);
        if sources.is_empty() {
            let error = self
                .text
                .whole("it names neither traces nor workloads: no cell");
            return Err(error.or("traces = [\"FILE\"], or workloads = [\"churn\"]"));
        }
        let policies = self.policies(raw.policies)?;
        let devices = self.devices(raw.devices)?;
        let seeds = self.seeds(raw.seeds, &sources)?;
        let baseline = self.baseline(raw.baseline, &policies)?;
        Ok(Experiment {
            name: name.to_owned(),
            about: raw.about,
            capacities: self.capacities(raw.capacities, &devices)?,
            metrics: self.metrics(raw.metrics, raw.fit)?,
            text: Arc::clone(&self.text),
            fit: raw.fit,
            sources,
            policies,
            devices,
            seeds,
            baseline,
        })
    }

    /// The entries of a list that must not be empty.
    fn filled<T>(&self, key: &str, list: List<T>) -> Result<Vec<Spanned<T>>, FileError> {
        let span = list.span();
        let entries = list.into_inner();
        if entries.is_empty() {
            let error = self.fault(span, format!("{key} is empty: no cell"));
            return Err(error.or(format!("name at least one, or leave {key} out")));
        }
        Ok(entries)
    }

    /// Refuses what is named a second time.
    fn once<'b>(
        &self,
        known: impl IntoIterator<Item = &'b str>,
        name: &str,
        span: &Range<usize>,
    ) -> Result<(), FileError> {
        if known.into_iter().any(|known| known == name) {
            let error = self.fault(span.clone(), format!("'{name}' is named twice"));
            return Err(error.or("every cell runs once: leave one out, or give it another value"));
        }
        Ok(())
    }

    fn devices(&self, list: Option<List<String>>) -> Result<Vec<Arc<Device>>, FileError> {
        let Some(list) = list else {
            let card = card_of(DEFAULT_CARD).map_err(|what| self.text.whole(what))?;
            return Ok(vec![card]);
        };
        let mut devices = Vec::<Arc<Device>>::new();
        for name in self.filled("devices", list)? {
            let device = card_of(name.get_ref()).map_err(|what| self.fault(name.span(), what))?;
            self.once(
                devices.iter().map(|it| &*it.name),
                &device.name,
                &name.span(),
            )?;
            devices.push(device);
        }
        Ok(devices)
    }

    fn capacities(
        &self,
        list: Option<List<String>>,
        devices: &[Arc<Device>],
    ) -> Result<Vec<Asked>, FileError> {
        let Some(list) = list else {
            return Ok(vec![Asked {
                text: "trace".into(),
                wanted: Wanted::ByTrace,
                span: 0..0,
            }]);
        };
        let mut capacities = Vec::<Asked>::new();
        for text in self.filled("capacities", list)? {
            let span = text.span();
            let wrong = |what: String| self.fault(span.clone(), what);
            let wanted = capacity(text.get_ref()).map_err(wrong)?;
            let small = devices.iter().find(|device| match wanted {
                Wanted::Bytes(bytes) => bytes > device.total_bytes,
                _ => false,
            });
            if let Some(device) = small {
                let has = format_bytes(device.total_bytes);
                let what = format!("more than the card '{}' has ({has})", device.name);
                return Err(
                    wrong(what).or("`card` is all of a card; a larger one: devices = [SIZE]")
                );
            }
            let text = text.into_inner();
            self.once(capacities.iter().map(|it| &*it.text), &text, &span)?;
            capacities.push(Asked { text, wanted, span });
        }
        Ok(capacities)
    }

    fn seeds(
        &self,
        seeds: Option<Spanned<Value>>,
        sources: &[Source],
    ) -> Result<Vec<u64>, FileError> {
        let Some(seeds) = seeds else {
            return Ok(vec![0]);
        };
        let wrong = |what: &str| {
            let help = "seeds = 64 stands for 0 to 63; seeds = [3, 5] for these two";
            self.fault(seeds.span(), what).or(help)
        };
        if !sources.iter().any(Source::is_made) {
            return Err(wrong("seeds change nothing: there is no workload"));
        }
        let parsed: Option<Vec<u64>> = match seeds.get_ref() {
            Value::Integer(count) => u64::try_from(*count).ok().map(|count| (0..count).collect()),
            Value::Array(list) => list
                .iter()
                .map(|seed| u64::try_from(seed.as_integer()?).ok())
                .collect(),
            _ => None,
        };
        let parsed =
            parsed.ok_or_else(|| wrong("expected a count, or a list of numbers from 0"))?;
        if parsed.is_empty() {
            return Err(wrong("no seed: no cell"));
        }
        let mut sorted = parsed.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(&format!("seed {} is named twice", twice[0])));
        }
        Ok(parsed)
    }

    fn metrics(&self, list: Option<List<String>>, fit: bool) -> Result<Vec<String>, FileError> {
        let Some(list) = list else {
            let fitted = fit.then_some("fit_to_bound_ppm");
            return Ok(METRICS
                .into_iter()
                .chain(fitted)
                .map(str::to_owned)
                .collect());
        };
        let mut chosen = Vec::<String>::new();
        for name in self.filled("metrics", list)? {
            let span = name.span();
            let Ok(metric) = Metric::find(name.get_ref()) else {
                let name = name.get_ref();
                let known = metric::METRICS.iter().map(|metric| metric.name);
                let near = nearest(known, name).unwrap_or_default();
                let what = format!("there is no metric '{name}'; did you mean '{near}'?");
                return Err(self.fault(span, what).or("docs/metrics.md names them all"));
            };
            if metric.name.starts_with("fit_") && !fit {
                let what = format!("'{}' is looked for only where it is asked for", metric.name);
                return Err(self.fault(span, what).or("add the line fit = true"));
            }
            self.once(chosen.iter().map(String::as_str), metric.name, &span)?;
            chosen.push(metric.name.to_owned());
        }
        Ok(chosen)
    }

    fn baseline(
        &self,
        baseline: Option<Spanned<String>>,
        policies: &[Chosen],
    ) -> Result<Option<String>, FileError> {
        let Some(baseline) = baseline else {
            return Ok(None);
        };
        let labels = || policies.iter().map(|chosen| &*chosen.label);
        if !labels().any(|label| label == baseline.get_ref()) {
            let what = format!("'{}' is none of the policies", baseline.get_ref());
            let labels = labels().collect::<Vec<_>>().join(", ");
            return Err(self
                .fault(baseline.span(), what)
                .or(format!("they are: {labels}")));
        }
        Ok(Some(baseline.into_inner()))
    }
}

/// `card`, `trace`, a size, or times the peak of live bytes.
fn capacity(text: &str) -> Result<Wanted, String> {
    let nothing = || format!("'{text}': nothing could be served; give a size such as 8GiB");
    match text.strip_suffix('x') {
        _ if text == "card" => Ok(Wanted::Card),
        _ if text == "trace" => Ok(Wanted::ByTrace),
        None => match parse_bytes(text).map_err(|error| error.to_string())? {
            0 => Err(nothing()),
            bytes => Ok(Wanted::Bytes(bytes)),
        },
        Some(times) => match millionths(times) {
            Some(0) => Err(nothing()),
            Some(ppm) => Ok(Wanted::Times(ppm)),
            None => Err(format!("'{text}': expected times the peak, such as 1.1x")),
        },
    }
}

/// A number with up to six decimals, in millionths.
fn millionths(text: &str) -> Option<u64> {
    let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 6 || !digits(whole) || !digits(decimals) {
        return None;
    }
    format!("{whole}{decimals:0<6}").parse().ok()
}
