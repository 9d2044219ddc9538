//! What happened under one policy: its blocks, its curves, its failures, its free blocks.

use serde::Serialize;

use super::Track;
use super::layout::{Band, bands, place};
use super::pack::{Column, Pack};
use super::run::Packed;
use crate::observe::map::Rectangle;
use crate::observe::map::raster::Column as RasterColumn;
use crate::observe::timeline::{Bucket, Range};
use crate::observe::{AddressMap, Failure, FreeList, Verdict};
use crate::plot;

/// What the page's index says of a track.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    run: usize,
    policy: String,
    capacity_bytes: u64,
    failed: u64,
    colour: String,
    dashes: Vec<f64>,
    mapped: bool,
    /// Blocks that the raster holds instead, and mapped ranges that were too many.
    in_raster: u64,
    mapped_left_out: u64,
    /// The binary logarithms of the free blocks' sizes: the first, and one past the last.
    free_from: usize,
    free_to: usize,
    columns: Vec<Column>,
}

/// Packs a track; the look is its colour and dashes.
pub(super) fn pack(track: &Track, run: &Packed, look: &plot::Look) -> (Told, String) {
    let mut pack = Pack::default();
    timeline(&track.timeline, &mut pack);
    failures(&track.failures, &mut pack);
    let (free_from, free_to) = free_lists(&track.free_lists, &mut pack);
    if let Some(map) = &track.map {
        let bands = bands(map);
        layout(&bands, &mut pack);
        blocks(&map.rectangles, &bands, run, &mut pack);
        ground(map, &bands, &mut pack);
    }
    let (columns, data) = pack.finish();
    let told = Told {
        run: track.run,
        policy: track.policy.clone(),
        capacity_bytes: track.capacity_bytes,
        failed: track.failed,
        colour: look.colour.clone(),
        dashes: look.dashes.clone(),
        mapped: track.map.is_some(),
        in_raster: track.map.as_ref().map_or(0, |map| map.in_raster),
        mapped_left_out: track.map.as_ref().map_or(0, |map| map.mapped_left_out),
        free_from,
        free_to,
        columns,
    };
    (told, data)
}

/// A series as what it was last, how far below that it went, and how far above.
fn series(
    names: [&'static str; 3],
    buckets: &[Bucket],
    value: fn(&Bucket) -> Range,
    pack: &mut Pack,
) {
    let values: Vec<Range> = buckets.iter().map(value).collect();
    pack.delta(names[0], values.iter().map(|it| it.last));
    pack.plain(names[1], values.iter().map(|it| it.last - it.min));
    pack.plain(names[2], values.iter().map(|it| it.max - it.last));
}

fn timeline(buckets: &[Bucket], pack: &mut Pack) {
    pack.delta("time.first", buckets.iter().map(|it| it.first_event));
    pack.delta("time.last", buckets.iter().map(|it| it.last_event));
    pack.delta("time.failed", buckets.iter().map(|it| it.failed));
    series(
        ["requested", "requested.below", "requested.above"],
        buckets,
        |it| it.requested_bytes,
        pack,
    );
    series(
        ["occupied", "occupied.below", "occupied.above"],
        buckets,
        |it| it.occupied_bytes,
        pack,
    );
    series(
        ["reserved", "reserved.below", "reserved.above"],
        buckets,
        |it| it.reserved_bytes,
        pack,
    );
    series(
        ["free", "free.below", "free.above"],
        buckets,
        |it| it.free_bytes,
        pack,
    );
    series(
        ["largest", "largest.below", "largest.above"],
        buckets,
        |it| it.largest_free_bytes,
        pack,
    );
    let share = |part: fn(Range) -> u64| {
        let value = move |it: &Bucket| it.external_fragmentation_ppm.map(part);
        buckets.iter().map(value)
    };
    pack.optional("external.last", share(|it| it.last));
    pack.optional("external.min", share(|it| it.min));
    pack.optional("external.max", share(|it| it.max));
}

fn failures(failures: &[Failure], pack: &mut Pack) {
    let mut column = |name, value: fn(&Failure) -> u64| {
        pack.plain(name, failures.iter().map(value));
    };
    column("failure.event", |it| it.event);
    column("failure.bytes", |it| it.bytes);
    column("failure.wanted", |it| it.wanted_bytes);
    column("failure.stream", |it| u64::from(it.stream));
    column("failure.requested", |it| it.requested_bytes);
    column("failure.occupied", |it| it.occupied_bytes);
    column("failure.reserved", |it| it.reserved_bytes);
    column("failure.free", |it| it.free_bytes);
    column("failure.largest", |it| it.largest_free_bytes);
    column("failure.verdict", |it| it.verdict as u64);
}

/// The verdicts' names and meanings, as the numbers of `failure.verdict` have them.
pub(super) fn verdicts() -> Vec<[&'static str; 2]> {
    let told = |verdict: Verdict| [verdict.name(), verdict.meaning()];
    Verdict::ALL.into_iter().map(told).collect()
}

/// Counts and bytes, size by size; answers which sizes there are.
fn free_lists(lists: &[FreeList], pack: &mut Pack) -> (usize, usize) {
    let some = |size: &usize| lists.iter().any(|list| list.sizes.bins[*size].count > 0);
    let from = (0..64).find(some).unwrap_or(0);
    let to = (0..64).rev().find(some).map_or(0, |last| last + 1);
    pack.delta("list.event", lists.iter().map(|list| list.event));
    let bins = || {
        let sizes = from..to;
        sizes.flat_map(|size| lists.iter().map(move |list| list.sizes.bins[size]))
    };
    pack.delta("list.count", bins().map(|bin| bin.count));
    pack.delta("list.bytes", bins().map(|bin| bin.bytes));
    (from, to)
}

fn layout(bands: &[Band], pack: &mut Pack) {
    pack.delta("band.address", bands.iter().map(|it| it.address));
    pack.plain("band.bytes", bands.iter().map(|it| it.bytes));
    pack.delta("band.place", bands.iter().map(|it| it.place));
}

/// The blocks that are kept one by one. What the request tells of them is not said again.
fn blocks(blocks: &[Rectangle], bands: &[Band], run: &Packed, pack: &mut Pack) {
    let request = |block: &Rectangle| &run.requests[block.ordinal as usize];
    let number = |block: &Rectangle| {
        let found = run.shown.binary_search(&block.ordinal);
        found.expect("every shown block has a request") as u64
    };
    let rows = || blocks.iter();
    pack.delta("block.request", rows().map(number));
    pack.plain(
        "block.later",
        rows().map(|it| it.from.event - request(it).from_event),
    );
    pack.plain(
        "block.earlier",
        rows().map(|it| request(it).to_event - it.to.event),
    );
    pack.delta("block.place", rows().map(|it| place(bands, it.address)));
    pack.plain("block.waste", rows().map(|it| it.bytes - request(it).bytes));
}

/// What was mapped, and the raster of the blocks that are not kept.
fn ground(map: &AddressMap, bands: &[Band], pack: &mut Pack) {
    let mapped = || map.mapped.iter();
    pack.delta("mapped.from", mapped().map(|it| it.from.event));
    pack.plain("mapped.to", mapped().map(|it| it.to.event));
    pack.plain("mapped.place", mapped().map(|it| place(bands, it.address)));
    pack.plain("mapped.bytes", mapped().map(|it| it.bytes));
    let cells = || map.cells.iter();
    let start = |column: u32| map.columns[column as usize].from.event;
    let next = |column: u32| {
        let next: Option<&RasterColumn> = map.columns.get(column as usize + 1);
        next.map_or(map.end, |it| it.from).event
    };
    pack.delta("cell.from", cells().map(|it| start(it.column)));
    pack.plain(
        "cell.events",
        cells().map(|it| next(it.column) - start(it.column)),
    );
    pack.delta("cell.place", cells().map(|it| place(bands, it.address)));
    pack.plain("cell.bytes", cells().map(|it| it.bytes));
    pack.plain("cell.share", cells().map(|it| it.occupancy_ppm));
}
