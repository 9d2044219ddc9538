//! A folder with one recording a rank: what each policy comes to over all of them.

use std::path::Path;

use serde_json::json;

use super::{Compare, Done, results};
use crate::cli::CliError;
use crate::cli::folder::{Folder, file_names};
use crate::cli::load::{self, counted};
use crate::cli::output::Output;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::experiment::Origin;
use crate::experiment::ranks::{self, FirstFailure, OverRanks, RankRow};
use crate::observe::Metric;
use crate::policy::{Chosen, Registry};
use crate::units::{format_bytes, format_count, format_nanos};

impl Compare {
    /// Compares the policies on every rank, each in a folder of its own below, and over all.
    pub(super) fn ranks(
        &self,
        path: &Path,
        registry: &Registry,
        policies: &[Chosen],
        output: &mut Output,
    ) -> Result<Done, CliError> {
        let (mut traces, mut sources) = (Vec::new(), Vec::new());
        for file in ranks::files(path)? {
            let hash = load::hash(&file)?;
            for trace in load::open(&file, &self.open)? {
                traces.push(trace);
                sources.push((file.clone(), hash.clone()));
            }
        }
        let scenes = ranks::scenes(traces, &self.card.card, self.card.wanted()?)?;
        let names: Vec<&str> = scenes.iter().map(|scene| &*scene.trace.name).collect();
        let numbers = ranks::numbers(&names);
        let whole = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = Folder::new(&self.place(&whole, self.traces.len() > 1))?;
        output.line(&format!(
            "{}: {}",
            path.display(),
            counted(names.len(), "rank")
        ))?;
        let below = file_names(names.iter().copied());
        let (mut rows, mut broken, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for (at, scene) in scenes.iter().enumerate() {
            let rank = numbers[at];
            output.line(&heading(rank, scene))?;
            let source = results::Source {
                file: &sources[at].0,
                blake3: sources[at].1.clone(),
            };
            let own = Folder::new(&folder.path().join(&below[at]))?;
            // A table a rank would bury the one that is asked for; rows.csv has it.
            output.hushed = true;
            let done = self.one(scene, registry, policies, &own, &source, output);
            output.hushed = false;
            let done = done?;
            let told = |what: &String| format!("rank {rank}: {what}");
            broken.extend(done.broken.iter().map(told));
            let own = done.rows.into_iter();
            rows.extend(own.map(|row| RankRow::new(rank, &scene.trace, row)));
            results.push(json!({ "rank": rank, "result": done.json }));
        }
        let over = ranks::over_ranks(&rows);
        folder.file("ranks.csv", |out| ranks::write_csv(&rows, out))?;
        folder.file("ranks.json", |out| {
            serde_json::to_writer_pretty(&mut *out, &json!({ "over_ranks": over, "rows": rows }))?;
            writeln!(out)
        })?;
        for line in lines(&over, numbers.len(), output) {
            output.line(&line)?;
        }
        output.line(&format!("results are in {}", folder.path().display()))?;
        Ok(Done {
            json: json!({ "folder": whole, "ranks": results, "over_ranks": over }),
            broken,
            rows: rows.into_iter().map(|row| row.row).collect(),
        })
    }
}

/// One line a rank.
fn heading(rank: u64, scene: &crate::experiment::Scene) -> String {
    let trace = &scene.trace;
    let capacity = &scene.capacity;
    let from = match capacity.origin {
        Origin::Asked => "as asked",
        Origin::Trace => "as its trace tells",
        Origin::Tight => "1.1 x the peak of the fullest rank",
        Origin::Card => "the whole card",
    };
    format!(
        "rank {rank}: {}, {} events, {} live at the peak; capacity {}, {from}",
        trace.name,
        format_count(trace.events.len() as u64),
        format_bytes(scene.bound_bytes),
        format_bytes(capacity.bytes)
    )
}

/// The table over ranks, and what it comes to.
fn lines(over: &[OverRanks], ranks: usize, output: &Output) -> Vec<String> {
    let mut table = Table::new(vec![
        Column::words("policy", 0),
        Column::number("failed", 0),
        Column::number("on\nranks", 2),
        Column::number("worst\nfootprint", 0),
        Column::number("of\nrank", 1),
        Column::number("median\nfootprint", 3),
        Column::number("spread", 4),
        Column::number("worst mean\nfrag.", 6),
        Column::number("median\nfrag.", 7),
        Column::words("first failure", 5),
    ]);
    for (place, one) in over.iter().enumerate() {
        table.row(row(one, place == 0, ranks));
    }
    let (mut lines, dropped) = table.lines(output.columns, output.colour);
    if !dropped.is_empty() {
        let (columns, dropped) = (output.columns, dropped.join(", "));
        lines.push(format!(
            "left out on {columns} columns: {dropped}; see ranks.csv"
        ));
    }
    lines.extend(over.first().map(best));
    for one in over.iter().filter(|one| one.ranks < ranks as u64) {
        let (policy, has) = (&one.policy, one.ranks);
        lines.push(format!("{policy} has rows of {has} of {ranks} ranks only"));
    }
    lines
}

fn row(one: &OverRanks, best: bool, ranks: usize) -> Vec<Cell> {
    let show = |name: &str, value: Option<u64>| {
        let metric = Metric::find(name).expect("it is a metric");
        value.map_or_else(|| "-".into(), |value| metric.print(value as f64))
    };
    let footprint = one.spread("footprint_bytes");
    let bytes = |value: Option<u64>| show("footprint_bytes", value).into();
    let fragmentation = one.spread("mean_external_fragmentation_ppm");
    let share = |value: Option<u64>| show("mean_external_fragmentation_ppm", value).into();
    let first = one.first_failure.as_ref().map(first_failure);
    vec![
        Cell::new(&*one.policy, if best { Mark::Good } else { Mark::None }),
        format_count(one.failed).into(),
        format!("{}/{ranks}", one.ranks_failed).into(),
        bytes(footprint.map(|it| it.worst)),
        footprint
            .map_or_else(String::new, |it| it.worst_rank.to_string())
            .into(),
        bytes(footprint.map(|it| it.median)),
        bytes(footprint.map(|it| it.spread)),
        share(fragmentation.map(|it| it.worst)),
        share(fragmentation.map(|it| it.median)),
        first.unwrap_or_default().into(),
    ]
}

fn first_failure(first: &FirstFailure) -> String {
    let at = first.time_ns.map(|ns| format!(" at {}", format_nanos(ns)));
    let (rank, event) = (first.rank, format_count(first.event));
    format!("rank {rank}, event {event}{}", at.unwrap_or_default())
}

/// The best policy in a sentence.
fn best(one: &OverRanks) -> String {
    let footprint = one.spread("footprint_bytes");
    let in_bytes = footprint.map_or_else(String::new, |it| {
        format!(
            ", in {} on the worst rank ({}) and {} on the median one",
            format_bytes(it.worst),
            it.worst_rank,
            format_bytes(it.median)
        )
    });
    match &one.first_failure {
        None => format!(
            "Best is {}: every request on every rank is served{in_bytes}.",
            one.policy
        ),
        Some(first) => format!(
            "Best is {}: {} on {}, first on {}{in_bytes}.",
            one.policy,
            counted(one.failed as usize, "failed request"),
            counted(one.ranks_failed as usize, "rank"),
            first_failure(first)
        ),
    }
}
