//! `vramlab policy`: what there is, what it does, and whether a file holds one.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::CliError;
use super::output::Output;
use super::table::{Column, Table};
use crate::conformance::Suite;
use crate::experiment::caught;
use crate::policy::registry::PRESETS;
use crate::policy::{Chosen, Registry};

/// Look at policies and check them
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// All policies by name
    List,
    /// One policy: what it is, where it comes from, its parameters
    Show(Show),
    Check(Check),
}

/// One policy.
#[derive(Debug, Args)]
pub struct Show {
    /// NAME, NAME:key=value,key=value, or a .toml file
    #[arg(value_name = "POLICY")]
    policy: String,
}

/// Read a policy, build it, and run the conformance suite over it
#[derive(Debug, Args)]
pub struct Check {
    /// A .toml file, a name, or a spec
    #[arg(value_name = "POLICY")]
    policy: String,

    /// Random programs that are played
    #[arg(long, value_name = "N", default_value_t = 48)]
    programs: u64,
}

/// What is told of a policy.
#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    about: &'a str,
    source: &'a str,
    algorithm: &'a str,
    parameters: &'a toml::Table,
}

impl<'a> Told<'a> {
    fn of(chosen: &'a Chosen) -> Self {
        Told {
            name: &chosen.label,
            about: &chosen.about,
            source: &chosen.source,
            algorithm: &chosen.algorithm,
            parameters: &chosen.parameters,
        }
    }
}

impl Policy {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        match self {
            Policy::List => list(registry, output),
            Policy::Show(show) => show.run(registry, output),
            Policy::Check(check) => check.run(registry, output),
        }
    }
}

fn list(registry: &Registry, output: &mut Output) -> Result<(), CliError> {
    let found: Result<Vec<Chosen>, _> = registry.names().map(|name| registry.find(name)).collect();
    let found = found?;
    if output.json {
        return output.result(&found.iter().map(Told::of).collect::<Vec<_>>());
    }
    let mut table = Table::new(vec![
        Column::words("policy", 0),
        Column::words("what it is", 0),
    ]);
    for chosen in &found {
        table.row(vec![(&*chosen.label).into(), (&*chosen.about).into()]);
    }
    for line in table.lines(output.columns, output.colour).0 {
        output.line(&line)?;
    }
    Ok(())
}

impl Show {
    fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let chosen = registry.find(&self.policy)?;
        if output.json {
            return output.result(&Told::of(&chosen));
        }
        output.line(&format!("{}: {}", chosen.label, chosen.about))?;
        output.line(&format!("source: {}", chosen.source))?;
        output.line("")?;
        // As a file would say it, so that it can be copied and changed.
        output.line(&format!("[policy.{}]", chosen.algorithm))?;
        for (key, value) in &chosen.parameters {
            output.line(&format!("{key} = {value}"))?;
        }
        if PRESETS.iter().any(|(name, _)| *name == chosen.label) {
            output.line("")?;
            output.line(&format!(
                "Change a parameter as {}:key=value, or copy the text above to a .toml file.",
                chosen.label
            ))?;
        }
        Ok(())
    }
}

impl Check {
    fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let chosen = registry.find(&self.policy)?;
        registry.build(&chosen)?;
        let make = || registry.build(&chosen).expect("it was built before");
        let run = caught(|| Suite::new(make).programs(self.programs).run());
        let breach = match run {
            Ok(Ok(())) => None,
            Ok(Err(breach)) => Some(breach.to_string()),
            Err(panic) => Some(panic),
        };
        if let Some(what) = breach {
            let policy = chosen.label;
            return Err(CliError::Nonconforming { policy, what });
        }
        if output.json {
            return output.result(&serde_json::json!({
                "policy": Told::of(&chosen),
                "programs": self.programs,
                "conforms": true,
            }));
        }
        output.line(&format!(
            "{}: it builds, and keeps every rule in {} random programs",
            chosen.label, self.programs
        ))
    }
}
