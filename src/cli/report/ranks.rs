//! A folder of recordings, one a rank: every policy over all of them.

use std::path::Path;

use super::sections::{fold, table, verdict};
use super::traces::{cells, views};
use super::{Gathered, Report};
use crate::cli::CliError;
use crate::cli::compare::{self, ranks as view};
use crate::cli::load::{self, counted};
use crate::experiment::ranks::{self, OverRanks, RankRow, over_ranks};
use crate::experiment::{Ended, Scene};
use crate::policy::{Chosen, Registry};
use crate::report::Section;

/// Adds the ranks of a folder.
pub fn add(
    args: &Report,
    folder: &Path,
    registry: &Registry,
    gathered: &mut Gathered,
) -> Result<(), CliError> {
    let policies = compare::choose(registry, &args.policies, &args.specs)?;
    let mut traces = Vec::new();
    for file in ranks::files(folder)? {
        traces.extend(load::open(&file, &args.open)?);
    }
    let names: Vec<&str> = traces.iter().map(|trace| &*trace.name).collect();
    let numbers = ranks::numbers(&names);
    let scenes = ranks::scenes(traces, &args.card.card, args.card.wanted()?)?;
    let mut rows = Vec::new();
    for (scene, rank) in scenes.iter().zip(&numbers) {
        for (ended, chosen) in cells(args, scene, registry, &policies)?
            .iter()
            .zip(&policies)
        {
            if let Ended::Broke(what) = ended {
                let label = &chosen.label;
                let told = format!("policy '{label}' broke a rule on rank {rank}: {what}");
                gathered.broken.push(told);
            }
            let row = ended.row().cloned();
            rows.extend(row.map(|row| RankRow::new(*rank, &scene.trace, row)));
        }
    }
    let all = over_ranks(&rows);
    gathered
        .page
        .summary
        .push(said(folder, &scenes, &numbers, &all));
    let wanted = shown(args, &scenes, &numbers, &policies, &all);
    views(args, &wanted, registry, gathered)
}

/// The sentence, the table, and what each rank is.
fn said(folder: &Path, scenes: &[Scene], numbers: &[u64], all: &[OverRanks]) -> Section {
    let (lead, notes) = verdict(&view::verdict(all, scenes.len()));
    let over = view::table(all, scenes.len());
    let mut parts = vec![lead, table(&over, "Each policy over all ranks, best first")];
    parts.extend(notes);
    let each = numbers.iter().zip(scenes);
    let each = each.map(|(rank, scene)| view::heading(*rank, scene));
    parts.extend(fold("The ranks", each.collect()));
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    Section {
        title: format!(
            "{}: {}",
            name.to_string_lossy(),
            counted(scenes.len(), "rank")
        ),
        parts,
    }
}

/// What is shown over time: the worst rank under the best policies, and another rank under
/// the best of them.
fn shown<'a>(
    args: &Report,
    scenes: &'a [Scene],
    numbers: &[u64],
    policies: &[Chosen],
    all: &[OverRanks],
) -> Vec<(&'a Scene, Chosen)> {
    let find = |one: &OverRanks| policies.iter().find(|chosen| chosen.label == one.policy);
    let Some(best) = all.first() else {
        return Vec::new();
    };
    let first = all.iter().find_map(|one| one.first_failure.as_ref());
    let worst = best
        .spread("footprint_bytes")
        .map(|spread| spread.worst_rank);
    let worst = first.map(|failure| failure.rank).or(worst);
    let scene = |rank: u64| {
        numbers
            .iter()
            .position(|it| *it == rank)
            .map(|at| &scenes[at])
    };
    let mut wanted = Vec::new();
    let views = usize::from(args.views);
    if let Some(scene) = worst.and_then(scene) {
        let under = all
            .iter()
            .filter_map(find)
            .take(views.saturating_sub(1).max(1));
        wanted.extend(under.map(|chosen| (scene, chosen.clone())));
    }
    let other = numbers.iter().find(|rank| Some(**rank) != worst);
    let other = other.and_then(|rank| scene(*rank));
    if let (Some(scene), Some(chosen)) = (other, find(best))
        && wanted.len() < views
    {
        wanted.push((scene, chosen.clone()));
    }
    wanted
}
