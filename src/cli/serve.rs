//! `vramlab serve`: how many requests a fixed capacity serves, and what it holds.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rayon::prelude::*;
use serde::Deserialize;
use toml::Value;

use super::CliError;
use super::args::{JobsArgs, parse_size};
use super::output::Output;
use super::progress::Progress;
use super::table::{Column, Table};
use crate::experiment::serve::{Served, Service};
use crate::experiment::source::{DEFAULT_CARD, card_of};
use crate::policy::{Chosen, Registry};
use crate::space::Device;
use crate::synth::serving::{Layout, Spec};
use crate::synth::{self, Workload};
use crate::units::{
    format_bytes, format_bytes_exact, format_count, format_nanos, format_ppm, parse_nanos,
};

/// Serve requests of a language model at a fixed capacity
///
/// The workload and the policy run together, over keys and values alone: a request for
/// which there is no memory waits. Layouts and policies go together as they are used:
/// reservation over a buddy system (of the longest request, of the next power of two, and
/// of the exact length, as Orca's in the PagedAttention paper), growth by concatenation
/// over PyTorch's allocator, and blocks, also shared by prompts that begin alike, over
/// paging. See docs/paging.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    vramlab serve serving-opt-13b\n  \
    vramlab serve serving-mooncake:block_tokens=16 --capacity 60GiB --span 30min\n  \
    vramlab serve serving-azure --scheme concat=pytorch --scheme concat=best-fit")]
pub struct Serve {
    /// A workload of the family `serving`: NAME or a .toml file, either also with
    /// :key=value,key=value
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    /// What keys and values may take [default: the workload's budget]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,

    /// For how long requests are served, on the workload's clock
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = parse_span)]
    span: u64,

    /// What comes before is not counted, as memory fills up first
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = parse_span)]
    warm_up: u64,

    /// The seed of the requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// A layout and a policy below it; may be repeated; policy `paging` alone has blocks of
    /// the workload's size and all of the capacity [default: the six above]
    #[arg(long = "scheme", value_name = "LAYOUT=POLICY")]
    schemes: Vec<String>,

    /// The card: the name of a measured one, or a size (with the costs of the default)
    #[arg(long, value_name = "NAME|SIZE", default_value = DEFAULT_CARD, value_parser = card_of)]
    card: Arc<Device>,

    #[command(flatten)]
    jobs: JobsArgs,

    /// Write the rows as csv
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// As in the paper, with concatenation beside them.
const SCHEMES: [&str; 6] = [
    "reserve=buddy",
    "reserve-power=buddy",
    "reserve-exact=buddy",
    "concat=pytorch",
    "blocks=paging",
    "shared=paging",
];

/// The columns of the table.
const COLUMNS: [Column; 14] = [
    Column::words("layout", 0),
    Column::words("policy", 0),
    Column::number("requests\nanswered", 0),
    Column::number("put\nback", 2),
    Column::number("given\nup", 5),
    Column::number("running\nat once", 0),
    Column::number("tokens", 0),
    Column::number("kept", 1),
    Column::number("later", 1),
    Column::number("never\nfilled", 1),
    Column::number("not\nasked for", 1),
    Column::number("tokens of\nasked", 3),
    Column::number("prompt tokens\nshared", 4),
    Column::number("time with\nrequests waiting", 6),
];

fn parse_span(text: &str) -> Result<u64, String> {
    parse_nanos(text).map_err(|error| error.to_string())
}

impl Serve {
    /// Runs the command.
    pub fn run(self, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
        let workload = Workload::find(&self.workload)?;
        let synth::Spec::Serving(spec) = &workload.workload else {
            return Err(CliError::usage(
                format!(
                    "'{}' is of the family '{}'",
                    self.workload,
                    workload.workload.name()
                ),
                "name a workload of the family serving, such as serving-opt-13b",
            ));
        };
        let capacity_bytes = self.capacity.unwrap_or(spec.budget_bytes);
        let mut schemes = Vec::new();
        for scheme in self.schemes() {
            schemes.push(self.scheme(scheme, spec, capacity_bytes, registry)?);
        }
        let served = self.serve(&schemes, registry)?;
        if let Some(out) = &self.out {
            output.file(out, |file| {
                let mut csv = csv::Writer::from_writer(file);
                served.iter().try_for_each(|row| csv.serialize(row))?;
                csv.flush()
            })?;
        }
        if output.json {
            return output.result(&served);
        }
        output.line(&format!(
            "{}: {} for keys and values, {} from seed {}; shares are of reserved bytes x time",
            workload.name,
            format_bytes(capacity_bytes),
            format_nanos(self.span),
            self.seed
        ))?;
        for line in table(&served).lines(output.columns, output.colour).0 {
            output.line(&line)?;
        }
        Ok(())
    }

    fn schemes(&self) -> Vec<&str> {
        if self.schemes.is_empty() {
            return SCHEMES.to_vec();
        }
        self.schemes.iter().map(String::as_str).collect()
    }

    /// A layout and a policy, as a service and what is below it.
    fn scheme(
        &self,
        text: &str,
        spec: &Spec,
        capacity_bytes: u64,
        registry: &Registry,
    ) -> Result<(Service, Chosen), CliError> {
        let Some((layout, policy)) = text.split_once('=') else {
            return Err(CliError::usage(
                format!("--scheme {text}: expected LAYOUT=POLICY"),
                "such as concat=pytorch",
            ));
        };
        let layout = Layout::deserialize(Value::String(layout.to_owned()));
        let layout = layout.map_err(|error| {
            CliError::usage(format!("--scheme {text}: {}", error.message()), "")
        })?;
        let block_bytes = spec.block_tokens.saturating_mul(spec.kv_token_bytes);
        let chosen = if policy == "paging" {
            let block = format_bytes_exact(block_bytes);
            registry.find(&format!("paging:block={block},share=100"))
        } else {
            registry.find(policy)
        }?;
        let service = Service {
            spec: Spec {
                layout,
                ..spec.clone()
            },
            seed: self.seed,
            warm_up_ns: self.warm_up,
            span_ns: self.span,
            device: Arc::clone(&self.card),
        };
        Ok((service.within(capacity_bytes)?, chosen))
    }

    fn serve(
        &self,
        schemes: &[(Service, Chosen)],
        registry: &Registry,
    ) -> Result<Vec<Served>, CliError> {
        let progress = Progress::cells(schemes.len());
        let served: Vec<_> = self.jobs.within(|| {
            let served = schemes.par_iter().map(|(service, chosen)| {
                let served = service.run(registry, chosen);
                progress.add(1);
                served
            });
            served.collect()
        })?;
        progress.end();
        Ok(served.into_iter().collect::<Result<_, _>>()?)
    }
}

fn table(served: &[Served]) -> Table {
    let mut table = Table::new(COLUMNS.to_vec());
    for row in served {
        let running = row.mean_running_ppm / 10_000;
        let prompt_tokens = row.shared_tokens + row.computed_tokens;
        table.row(vec![
            row.layout.as_str().into(),
            row.policy.as_str().into(),
            format_count(row.answered).into(),
            format_count(row.preempted).into(),
            format_count(row.lost).into(),
            format!("{}.{:02}", running / 100, running % 100).into(),
            format_ppm(row.token_ppm).into(),
            format_ppm(row.kept_ppm).into(),
            format_ppm(row.later_ppm).into(),
            format_ppm(row.inside_ppm).into(),
            format_ppm(row.outside_ppm).into(),
            format_ppm(row.asked_token_ppm).into(),
            format_ppm(crate::units::ppm(row.shared_tokens, prompt_tokens)).into(),
            format_ppm(row.waiting_ppm).into(),
        ]);
    }
    table
}
