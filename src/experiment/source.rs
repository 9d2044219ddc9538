//! What goes into an experiment: traces from files, workloads made from a seed, and cards.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::runner::RunError;
use crate::policy::registry::DEVICES;
use crate::space::Device;
use crate::synth::Workload;
use crate::trace::{self, OpenOptions, Trace, TraceError};
use crate::units::{format_bytes, parse_bytes};

/// The card where none is named.
pub const DEFAULT_CARD: &str = "h200";

/// A measured card by name or from a file of `calibrate`, or the default one with
/// another size.
///
/// # Errors
/// Neither a known name nor a size; the text says which are known. A file that is no
/// device.
pub fn card_of(text: &str) -> Result<Arc<Device>, String> {
    let measured = |name: &str| {
        let found = DEVICES.iter().find(|(known, _)| *known == name);
        found.map(|(_, body)| Device::from_toml(body).map_err(|error| error.to_string()))
    };
    if let Some(device) = measured(text) {
        return device.map(Arc::new);
    }
    if text.ends_with(".toml") {
        let body = fs::read_to_string(text).map_err(|error| format!("{text}: {error}"))?;
        let device = Device::from_toml(&body).map_err(|error| format!("{text}: {error}"))?;
        return Ok(Arc::new(device));
    }
    let known: Vec<&str> = DEVICES.iter().map(|(name, _)| *name).collect();
    let known = known.join(", ");
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!(
            "there is no card '{text}'; known are: {known}; or give a file that ends in .toml, or a size such as 80GiB"
        ));
    }
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    let Some(device) = measured(DEFAULT_CARD) else {
        return Err(format!("the card '{DEFAULT_CARD}' is not in the binary"));
    };
    let mut device = device?.sized(bytes).map_err(|error| error.to_string())?;
    if device.usable_bytes() == 0 {
        return Err(format!(
            "a card of {} holds no page of {}; give a size such as 80GiB",
            format_bytes(bytes),
            format_bytes(device.page_bytes)
        ));
    }
    device.name = format!("{} of {DEFAULT_CARD}", format_bytes(bytes));
    Ok(Arc::new(device))
}

/// Where the events of a source come from.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A file.
    Recorded {
        /// Where it is.
        path: PathBuf,
        /// As the experiment names it.
        file: String,
        /// How it is opened.
        options: OpenOptions,
        /// The hash of its bytes.
        blake3: String,
    },
    /// A workload, one trace a seed.
    Made(Box<Workload>),
}

/// A trace or a workload of an experiment.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name; no two of an experiment have the same.
    pub name: String,
    /// Where its events come from.
    pub kind: Kind,
}

impl Source {
    /// Whether it is made from a seed.
    #[must_use]
    pub fn is_made(&self) -> bool {
        matches!(self.kind, Kind::Made(_))
    }

    /// Reads the trace, or makes that of a seed (0 where there is none), and checks the
    /// rules that a replay relies on.
    ///
    /// # Errors
    /// A file that cannot be read, that holds several devices, or breaks a rule.
    pub fn trace(&self, seed: Option<u64>) -> Result<Trace, RunError> {
        let (path, file, options) = match &self.kind {
            Kind::Made(workload) => return Ok(workload.trace(seed.unwrap_or(0))),
            Kind::Recorded {
                path,
                file,
                options,
                ..
            } => (path, file, options),
        };
        let mut traces = trace::open(path, options)?;
        if traces.len() > 1 {
            let devices: Vec<String> = traces.iter().map(|it| it.device.to_string()).collect();
            let devices = devices.join(", ");
            let error = TraceError::whole(file, format!("holds the devices {devices}"));
            let example = format!("{{ file = \"{file}\", device = {} }}", traces[0].device);
            return Err(error
                .or(format!("name one in the experiment: {example}"))
                .into());
        }
        let mut trace = traces.remove(0);
        trace::check::check(&trace).map_err(|(event, fault)| RunError::Rule {
            file: file.clone(),
            event,
            what: fault.to_string(),
        })?;
        trace.name.clone_from(&self.name);
        Ok(trace)
    }
}
