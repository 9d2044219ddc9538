//! Settings and policies that are tried on the same trace and capacity, each by a replay
//! of its own from an empty card, and what each costs.

use rayon::prelude::*;

use super::ExplainError;
use super::findings::{Remedies, Remedy};
use crate::experiment::{Scene, caught};
use crate::observe::{Hazards, Verdict};
use crate::policy::{Chosen, Registry};
use crate::replay::{Moment, Observer, Outcome, Replay};
use crate::space::{AddressOrder, SpaceConfig};
use crate::units::ppm;
use crate::whatif::{ORDERS, PYTORCH_SETTINGS, feed};

/// Policies that are tried besides PyTorch's settings, one of a kind.
const BESIDE_PYTORCH: [&str; 6] = [
    "cuda-malloc-async",
    "rmm-pool",
    "xla-bfc",
    "best-fit",
    "stitching",
    "compaction",
];
/// Policies that are tried where the one explained is not PyTorch's.
const OTHERS: [&str; 12] = [
    "first-fit",
    "best-fit",
    "tlsf",
    "buddy",
    "growing",
    "pytorch",
    "pytorch-expandable",
    "rmm-pool",
    "xla-bfc",
    "cuda-malloc-async",
    "stitching",
    "compaction",
];
/// Tried where the capacity itself does not do: it pages to the host.
const BEYOND_CAPACITY: &str = "managed";

/// The policies that are tried where none are asked for.
///
/// # Errors
/// A preset that does not build, which would be a fault of the program.
pub(super) fn short_list(
    registry: &Registry,
    chosen: &Chosen,
    verdict: Option<Verdict>,
) -> Result<Vec<Chosen>, ExplainError> {
    let mut names: Vec<&str> = if chosen.algorithm == "pytorch" {
        PYTORCH_SETTINGS
            .iter()
            .chain(&BESIDE_PYTORCH)
            .copied()
            .collect()
    } else {
        OTHERS.to_vec()
    };
    if verdict == Some(Verdict::Capacity) {
        names.push(BEYOND_CAPACITY);
    }
    let found = names.iter().map(|name| registry.find(name));
    Ok(found
        .collect::<Result<_, _>>()
        .map_err(crate::experiment::RecordError::from)?)
}

/// Tries the policies on the scene; `event` is the moment's.
pub(super) fn remedies(
    scene: &Scene,
    registry: &Registry,
    own: &Chosen,
    others: &[Chosen],
    event: u64,
) -> Remedies {
    let alike = |other: &&Chosen| {
        (&other.algorithm, &other.parameters) != (&own.algorithm, &own.parameters)
    };
    let tried: Vec<&Chosen> = [own]
        .into_iter()
        .chain(others.iter().filter(alike))
        .collect();
    let mut made: Vec<Remedy> = tried
        .par_iter()
        .map(|chosen| remedy(scene, registry, chosen, event))
        .collect();
    let rest = made.split_off(1);
    let (mut serve, mut fail): (Vec<Remedy>, Vec<Remedy>) =
        rest.into_iter().partition(|remedy| remedy.serves);
    let rank = |it: &Remedy| {
        (
            it.hazards > 0,
            it.failed,
            it.cost_ns,
            it.peak_footprint_bytes,
            it.policy.clone(),
        )
    };
    serve.sort_by_key(rank);
    fail.sort_by_key(|it| (it.trouble.is_some(), rank(it)));
    Remedies {
        own: made.pop(),
        serve,
        fail,
    }
}

/// One policy under every address order that could matter to it.
fn remedy(scene: &Scene, registry: &Registry, chosen: &Chosen, event: u64) -> Remedy {
    // Only PyTorch's ties fall to the driver's addresses often enough to be looked at.
    let orders = if chosen.algorithm == "pytorch" {
        &ORDERS[..]
    } else {
        &ORDERS[..1]
    };
    let runs: Vec<Result<Run, String>> = orders
        .par_iter()
        .map(|order| run(scene, registry, chosen, event, order.clone()))
        .collect();
    let setting = (chosen.algorithm == "pytorch").then(|| {
        let conf = chosen.parameters.get("conf").and_then(|conf| conf.as_str());
        format!("PYTORCH_CUDA_ALLOC_CONF={}", conf.unwrap_or(""))
    });
    let trouble = runs.iter().find_map(|run| run.as_ref().err().cloned());
    let runs: Vec<Run> = runs.into_iter().flatten().collect();
    let first = runs.first().cloned().unwrap_or_default();
    Remedy {
        policy: chosen.label.clone(),
        setting,
        about: chosen.about.clone(),
        serves: trouble.is_none() && runs.iter().all(|run| run.serves),
        external_fragmentation_ppm: first.external_ppm,
        failed: runs.iter().map(|run| run.failed).max().unwrap_or(0),
        first_failure_event: first.first_failure,
        orders: orders.len() as u64,
        exact: runs
            .iter()
            .all(|run| (run.failed, run.footprint_bytes) == (first.failed, first.footprint_bytes)),
        peak_footprint_bytes: first.footprint_bytes,
        driver_calls: first.driver_calls,
        moves: first.moves,
        moved_bytes: first.moved_bytes,
        paged_bytes: first.paged_bytes,
        hazards: first.hazards,
        cost_ns: first.cost_ns,
        trouble,
    }
}

/// What one replay came to.
#[derive(Debug, Clone, Default)]
struct Run {
    serves: bool,
    external_ppm: Option<u64>,
    failed: u64,
    first_failure: Option<u64>,
    footprint_bytes: u64,
    driver_calls: u64,
    moves: u64,
    moved_bytes: u64,
    paged_bytes: u64,
    hazards: u64,
    cost_ns: u64,
}

fn run(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    event: u64,
    addresses: AddressOrder,
) -> Result<Run, String> {
    let policy = registry.build_for(chosen, scene);
    let policy = policy.map_err(|error| error.to_string())?;
    let config = SpaceConfig {
        addresses,
        ..scene.config(false)
    };
    let done = caught(|| {
        let mut replay = Replay::new(policy, config)?;
        replay.name_streams(&scene.trace.streams);
        let watch = Watch {
            event,
            run: Run::default(),
            asks: false,
        };
        let hazards = Hazards::new(scene.trace.streams.len(), replay.policy().blind());
        let mut seen = (watch, hazards);
        feed(&scene.trace, &mut replay, &mut seen, &|_| ());
        let (mut watch, hazards) = seen;
        watch.run.hazards = hazards.map_or(0, |hazards| hazards.count());
        Ok(watch.finish(&replay))
    });
    let done = done.map_err(|what| format!("broke a rule: {what}"))?;
    done.map_err(|short: crate::space::OutOfMemory| {
        let wanted = crate::units::format_bytes(short.wanted_bytes);
        format!("cannot start: needs {wanted}")
    })
}

/// Looks on at one event, and for failures.
struct Watch {
    event: u64,
    run: Run,
    /// Whether the event asks for memory.
    asks: bool,
}

impl Watch {
    fn finish(self, replay: &Replay) -> Run {
        let counters = replay.space().counters();
        let failed = replay.totals().failed;
        Run {
            serves: if self.asks {
                self.run.serves
            } else {
                failed == 0
            },
            failed,
            footprint_bytes: if replay.takes_all() {
                counters.high_water_bytes
            } else {
                counters.peak_reserved_bytes
            },
            driver_calls: counters.driver_calls,
            moves: counters.moves,
            moved_bytes: counters.moved_bytes,
            paged_bytes: counters.paged_bytes,
            cost_ns: counters.cost_ns,
            ..self.run
        }
    }
}

impl Observer for Watch {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Outcome::Failed(_) = moment.outcome {
            self.run.first_failure.get_or_insert(moment.index);
        }
        if moment.index != self.event {
            return;
        }
        self.run.serves = matches!(
            moment.outcome,
            Outcome::Served(_) | Outcome::ServedInstant { .. }
        );
        self.asks = self.run.serves || matches!(moment.outcome, Outcome::Failed(_));
        let free_bytes = moment.space.counters().free_bytes;
        self.run.external_ppm =
            (free_bytes > 0).then(|| ppm(free_bytes - moment.largest_free_bytes, free_bytes));
    }
}
