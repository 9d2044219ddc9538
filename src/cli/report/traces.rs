//! Traces: replayed under every policy for the table, and once more for the views.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::sections::{self, fold, table, verdict};
use super::{Gathered, Report};
use crate::cli::CliError;
use crate::cli::compare::{self, Ranked, view};
use crate::cli::explain::view as explain_view;
use crate::cli::load::{self, Heading};
use crate::cli::progress::Progress;
use crate::experiment::{Ended, Scene, Watch, run_cell};
use crate::explain::{Given, Question, explain, set_up};
use crate::fidelity::recorded_policy;
use crate::policy::{Chosen, Registry};
use crate::report::{self, Part, Run, Section, Track};
use crate::trace::Event;

/// Adds traces and what policies made of them.
pub fn add(
    args: &Report,
    paths: &[&Path],
    registry: &Registry,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    if paths.is_empty() {
        return Ok(());
    }
    let policies = compare::choose(registry, &args.policies, &args.specs)?;
    let mut scenes = Vec::new();
    for path in paths {
        scenes.extend(load::scenes(path, &args.open, &args.card)?);
    }
    // Traces share the views: each has some.
    let each = usize::from(args.views).div_ceil(scenes.len());
    let mut wanted: Vec<(&Scene, Chosen)> = Vec::new();
    for scene in &scenes {
        let cells = cells(args, scene, registry, &policies)?;
        let ranked = compare::rank(&policies, &cells);
        let said = said(args, scene, registry, &policies, &ranked)?;
        gathered.page.summary.push(said);
        let why = why(args, scene, registry, &ranked)?;
        gathered.page.summary.extend(why);
        gathered
            .broken
            .extend(ranked.iter().filter_map(view::broke));
        let shown = shown(scene, &ranked, each);
        wanted.extend(shown.into_iter().map(|chosen| (scene, chosen.clone())));
    }
    views(args, &wanted, registry, gathered)
}

/// What became of each policy.
pub(super) fn cells(
    args: &Report,
    scene: &Scene,
    registry: &Registry,
    policies: &[Chosen],
) -> Result<Vec<Ended>, CliError> {
    let progress = Progress::new((scene.trace.events.len() * policies.len()) as u64);
    let cells = args.jobs.within(|| {
        let cell = |chosen: &Chosen| {
            let watch = Watch {
                map: false,
                progress: &|events| progress.add(events),
                extra: (),
            };
            run_cell(scene, registry, chosen, watch)
        };
        let cells = policies.par_iter().with_max_len(1);
        cells.map(cell).collect::<Result<Vec<_>, _>>()
    })??;
    progress.end();
    Ok(cells)
}

/// The sentence, the table, and what `compare` says besides.
fn said(
    args: &Report,
    scene: &Scene,
    registry: &Registry,
    policies: &[Chosen],
    ranked: &[Ranked<'_>],
) -> Result<Section, CliError> {
    let (lead, marks) = verdict(&view::verdict(ranked));
    let caption = format!("{} under each policy, best first", scene.trace.name);
    let mut parts = vec![lead, table(&view::table(scene, ranked), &caption)];
    parts.extend(marks);
    parts.extend(Heading::of(scene).lines(true).into_iter().map(Part::Text));
    parts.push(Part::Text(view::packing(scene)));
    let others = args.jobs.within(|| {
        let settings = policies.par_iter().with_max_len(1);
        let others = |chosen| compare::other_orders(scene, registry, chosen);
        settings.map(others).collect::<Vec<_>>()
    })?;
    let others = others.iter().map(Option::as_deref);
    let made = compare::predictions(scene, policies.iter().zip(others), ranked);
    let mut more = view::predictions(&made);
    more.extend(view::idle_settings(scene, policies));
    parts.extend(fold(
        "How sure the answers for PyTorch's settings are",
        more,
    ));
    Ok(Section {
        title: scene.trace.name.clone(),
        parts,
    })
}

/// The policies that are shown over time: the recording's own first, then the best.
fn shown<'a>(scene: &Scene, ranked: &[Ranked<'a>], most: usize) -> Vec<&'a Chosen> {
    let replayed = |cell: &&Ranked<'a>| matches!(cell.ended, Ended::Replayed(_));
    let mut found: Vec<&Chosen> = ranked.iter().filter(replayed).map(|it| it.chosen).collect();
    let own = recorded_policy(&scene.trace);
    found.sort_by_key(|chosen| own.as_ref() != Some(&chosen.label));
    found.truncate(most);
    found
}

/// Why a request failed: the recorded failure, else the first under the first shown policy
/// that has one. Nothing where all are served, or where it cannot be told.
fn why(
    args: &Report,
    scene: &Scene,
    registry: &Registry,
    ranked: &[Ranked<'_>],
) -> Result<Option<Section>, CliError> {
    let recorded = |event: &Event| matches!(event, Event::Attempt { .. });
    let recorded = scene.trace.events.iter().any(recorded);
    let failing = |chosen: &&&Chosen| {
        let own = ranked.iter().find(|cell| cell.chosen.label == chosen.label);
        let row = own.and_then(|cell| cell.ended.row());
        row.is_some_and(|row| row.failed > 0)
    };
    let shown = shown(scene, ranked, ranked.len());
    let failing = shown.iter().find(failing).map(|chosen| &*chosen.label);
    if !recorded && failing.is_none() {
        return Ok(None);
    }
    let given = Given {
        policy: failing.filter(|_| !recorded),
        wanted: args.card.wanted()?,
        device: Arc::clone(&args.card.card),
    };
    let explained = args.jobs.within(|| {
        let setup = set_up(Arc::clone(&scene.trace), registry, &given)?;
        explain(&setup, registry, &Question::default())
    })?;
    // What cannot be explained is still shown.
    let Ok(explained) = explained else {
        return Ok(None);
    };
    let title = format!("{}: why a request failed", scene.trace.name);
    let pieces = explain_view::pieces(&explained);
    let section = || sections::explained(title, &explained.advice, pieces);
    Ok(explained.reason.is_some().then(section))
}

/// Replays once more with everything that a page shows of a policy.
pub(super) fn views(
    args: &Report,
    wanted: &[(&Scene, Chosen)],
    registry: &Registry,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    let most_blocks = report::most_blocks(wanted.len() + gathered.page.tracks.len());
    let events = wanted.iter().map(|(scene, _)| scene.trace.events.len());
    let progress = Progress::new(events.sum::<usize>() as u64);
    let mut runs = Vec::new();
    for (scene, _) in wanted {
        let trace = &scene.trace;
        let known = |run: &Run| run.trace.as_ref().is_some_and(|it| Arc::ptr_eq(it, trace));
        let at = gathered.page.runs.iter().position(known);
        runs.push(at.unwrap_or(gathered.page.runs.len()));
        if at.is_none() {
            gathered.page.runs.push(Run {
                name: trace.name.clone(),
                trace: Some(Arc::clone(trace)),
                timed: trace.has_times(),
            });
        }
    }
    let tracks: Vec<Track> = args.jobs.within(|| {
        let track = |((scene, chosen), run): (&(&Scene, Chosen), &usize)| {
            let progress = |events| progress.add(events);
            report::track(scene, registry, chosen, *run, most_blocks, &progress)
        };
        let tracks = wanted.par_iter().zip(&runs).map(track);
        tracks.collect::<Result<Vec<_>, _>>()
    })??;
    progress.end();
    gathered.page.tracks.extend(tracks);
    Ok(())
}
