//! `vramlab doctor`: what the program finds where it runs.

use std::env;
use std::io::{self, IsTerminal};
use std::num::NonZeroUsize;

use clap::Args;

use super::CliError;
use super::card;
use super::folder::Folder;
use super::output::Output;
use super::table::{Cell, Column, Mark, Table};
use crate::policy::Registry;
use crate::policy::registry::DEVICES;
use crate::space::Device;

/// Report what the program finds: version, policies, cards, terminal, permissions, threads
#[derive(Debug, Args)]
pub struct Doctor {}

/// One finding.
struct Finding {
    what: &'static str,
    value: String,
    good: bool,
}

impl Doctor {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let findings = findings(registry, output);
        if output.json {
            let entries = findings.iter().map(|finding| {
                let value = serde_json::json!({ "value": finding.value, "ok": finding.good });
                (finding.what.to_owned(), value)
            });
            return output.result(&entries.collect::<serde_json::Map<_, _>>());
        }
        let mut table = Table::new(vec![Column::words("what", 0), Column::words("found", 0)]);
        for Finding { what, value, good } in findings {
            let mark = if good { Mark::None } else { Mark::Warn };
            table.row(vec![what.into(), Cell::new(value, mark)]);
        }
        for line in table.lines(output.columns, output.colour).0 {
            output.line(&line)?;
        }
        Ok(())
    }
}

fn findings(registry: &Registry, output: &Output) -> Vec<Finding> {
    let good = |what, value: String| Finding {
        what,
        value,
        good: true,
    };
    let terminal = if io::stdout().is_terminal() {
        "a terminal"
    } else {
        "not a terminal"
    };
    let colour = if output.colour {
        "colours"
    } else {
        "no colours"
    };
    vec![
        good("version", env!("CARGO_PKG_VERSION").into()),
        policies(registry),
        cards(),
        good(
            "standard output",
            format!("{terminal}, {} columns, {colour}", output.columns),
        ),
        place(),
        threads(),
        card(),
    ]
}

/// Every policy with a name is looked up and built.
fn policies(registry: &Registry) -> Finding {
    let broken: Vec<String> = registry
        .names()
        .filter_map(|name| registry.find(name).err())
        .map(|error| error.to_string())
        .collect();
    let count = registry.names().count();
    Finding {
        what: "policies",
        value: if broken.is_empty() {
            format!("{count}, all of them build")
        } else {
            broken.join("; ")
        },
        good: broken.is_empty(),
    }
}

/// Every measured card is read.
fn cards() -> Finding {
    let read = DEVICES
        .iter()
        .map(|(name, body)| match Device::from_toml(body) {
            Ok(device) => Ok(format!("{name} ({})", device.about)),
            Err(error) => Err(error.to_string()),
        });
    let cards: Result<Vec<String>, String> = read.collect();
    Finding {
        what: "cards",
        good: cards.is_ok(),
        value: cards.map_or_else(|error| error, |cards| cards.join("; ")),
    }
}

/// Results go below the current folder unless told otherwise.
fn place() -> Finding {
    let tried = env::current_dir()
        .map_err(|error| error.to_string())
        .and_then(|here| Folder::new(&here).map_err(|error| error.to_string()));
    Finding {
        what: "current folder",
        good: tried.is_ok(),
        value: tried.map_or_else(|error| error, |_| "files can be written".into()),
    }
}

/// A card, where the program can use one; to have none is no fault.
fn card() -> Finding {
    let found = card::found().map(|card| card.about);
    Finding {
        what: "cuda",
        good: true,
        value: found.unwrap_or_else(|error| error.to_string()),
    }
}

fn threads() -> Finding {
    let threads = std::thread::available_parallelism();
    Finding {
        what: "threads",
        good: threads.is_ok(),
        value: threads
            .map(NonZeroUsize::get)
            .map_or_else(|error| error.to_string(), |count| count.to_string()),
    }
}
