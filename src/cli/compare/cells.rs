//! The cells of a comparison: every policy replayed and drawn, and beside them what the
//! predictions need.

use std::sync::OnceLock;

use rayon::{ScopeFifo, scope_fifo};

use super::{Ran, other_orders};
use crate::cli::CliError;
use crate::cli::charts::{self, Caption};
use crate::cli::progress::Progress;
use crate::experiment::{Ended, Scene, Seen, Watch, run_cell};
use crate::plot::{self, Chart, Format, PlotError};
use crate::policy::{Chosen, PolicyError, Registry};

/// A chart in both formats.
pub(super) type Drawn = [(Format, Vec<u8>); 2];

/// What came of one policy.
pub(super) struct Cell {
    pub ended: Ended,
    /// Charts of its own by the stems of their files.
    pub charts: Vec<(&'static str, Drawn)>,
    /// For PyTorch's settings: the runs under other address orders.
    pub others: Option<Vec<Ran>>,
}

/// What a cell comes to, piece by piece, from several threads.
#[derive(Default)]
struct Pieces {
    ended: OnceLock<Result<Ended, PolicyError>>,
    memory: OnceLock<Result<Drawn, PlotError>>,
    map: OnceLock<Result<Drawn, PlotError>>,
    others: OnceLock<Option<Vec<Ran>>>,
}

impl Pieces {
    fn cell(self) -> Result<Cell, CliError> {
        let ended = self
            .ended
            .into_inner()
            .expect("every policy was replayed")?;
        let charts = [("memory", self.memory), ("map", self.map)];
        let drawn = charts
            .into_iter()
            .filter_map(|(name, chart)| Some(chart.into_inner()?.map(|chart| (name, chart))));
        Ok(Cell {
            ended,
            charts: drawn.collect::<Result<_, _>>()?,
            others: self.others.into_inner().flatten(),
        })
    }
}

/// What all cells have in common.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub scene: &'a Scene,
    pub registry: &'a Registry,
    pub progress: &'a Progress,
    /// Whether the address map is followed.
    pub maps: bool,
    /// Whether charts are drawn.
    pub plots: bool,
}

impl<'a> Work<'a> {
    /// Replays and draws every policy, in the threads of the present pool. What takes long
    /// begins first, and charts come after all replays, so that all threads have work to
    /// the end.
    pub fn all(self, policies: &'a [Chosen]) -> Result<Vec<Cell>, CliError> {
        let mut pieces = Vec::new();
        pieces.resize_with(policies.len(), Pieces::default);
        let each = || policies.iter().zip(&pieces);
        scope_fifo(|scope| {
            for (chosen, pieces) in each() {
                scope.spawn_fifo(move |_| {
                    let runs = other_orders(self.scene, self.registry, chosen);
                    pieces.others.get_or_init(|| runs);
                });
            }
            scope.spawn_fifo(move |_| {
                let _found = self.scene.packing();
            });
            for (chosen, pieces) in each() {
                scope.spawn_fifo(move |scope| self.one(chosen, pieces, scope));
            }
        });
        pieces.into_iter().map(Pieces::cell).collect()
    }

    /// Replays a policy, and hands its charts to whichever thread comes to them.
    fn one<'s>(self, chosen: &Chosen, pieces: &'s Pieces, scope: &ScopeFifo<'s>)
    where
        'a: 's,
    {
        let watch = Watch {
            map: self.maps,
            progress: &|events| self.progress.add(events),
            extra: (),
        };
        let ended = run_cell(self.scene, self.registry, chosen, watch);
        let ended = pieces.ended.get_or_init(|| ended);
        let Ok(Ended::Replayed(seen)) = ended else {
            return;
        };
        if !self.plots {
            return;
        }
        scope.spawn_fifo(move |_| {
            pieces
                .memory
                .get_or_init(|| plot::render_both(&self.memory(seen)));
        });
        if let Some(map) = &seen.map {
            scope.spawn_fifo(move |_| {
                let chart = charts::map(self.scene, &seen.row.policy, map);
                pieces.map.get_or_init(|| plot::render_both(&chart));
            });
        }
    }

    fn memory(self, seen: &Seen) -> Chart {
        let timed = (&*seen.row.policy, seen.timeline.buckets());
        charts::memory(&Caption::of(self.scene), timed)
    }
}
