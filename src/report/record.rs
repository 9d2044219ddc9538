//! One more replay of a policy, with the observers that a page needs.

use super::Track;
use crate::experiment::{RecordError, Scene, stepwise};
use crate::observe::map::Limits;
use crate::observe::{Failures, FreeLists, MapObserver, Timeline};
use crate::policy::{Chosen, Registry};

/// Blocks that are kept one by one over all tracks of a page: about 4 MB of it.
const MOST_BLOCKS: usize = 800_000;
/// Blocks that are kept one by one in a track.
const MOST_IN_TRACK: usize = 250_000;
/// Columns and rows of the raster that holds the blocks beyond that.
const RASTER: (usize, usize) = (1024, 512);
/// Buckets of the timeline: a phone's page of a few kilobytes, and more than a screen is wide.
const BUCKETS: usize = 16_384;
/// Moments at which the free blocks are counted.
const MOMENTS: u64 = 1024;
/// Failures that are told.
const FAILURES: usize = 2000;

/// How many blocks each of so many tracks may keep one by one; the largest ones are.
#[must_use]
pub fn most_blocks(tracks: usize) -> usize {
    (MOST_BLOCKS / tracks.max(1)).min(MOST_IN_TRACK)
}

/// Replays a policy for a page. `run` is the place of the scene's trace among the page's runs.
///
/// # Errors
/// [`RecordError`]: the policy cannot be built, cannot start, or breaks a rule.
pub fn track(
    scene: &Scene,
    registry: &Registry,
    chosen: &Chosen,
    run: usize,
    most_blocks: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Track, RecordError> {
    let trace = &scene.trace;
    let limits = Limits {
        rectangles: most_blocks,
        columns: RASTER.0,
        rows: RASTER.1,
    };
    let failures = Failures::new(FAILURES, trace.truth.as_deref());
    let lists = FreeLists::new(trace.events.len() as u64, MOMENTS);
    let begin = |_: &_| {
        (
            (MapObserver::new(limits), Timeline::new(BUCKETS)),
            (failures, lists),
        )
    };
    let ((map, timeline), (failures, lists)) =
        stepwise(scene, registry, chosen, progress, begin, |seen, _| seen)?;
    Ok(Track {
        run,
        policy: chosen.label.clone(),
        capacity_bytes: scene.capacity.bytes,
        timeline: timeline.buckets().to_vec(),
        failed: failures.counts().map(|(_, count)| count).sum(),
        failures: failures.records().to_vec(),
        map: Some(map.finish()),
        free_lists: lists.lists().to_vec(),
    })
}
