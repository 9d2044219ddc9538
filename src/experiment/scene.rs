//! A trace on a card at a capacity, made ready for many cells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::bound::{
    Budget, Packing, Until, lifetimes, pack, peak_live_requested_bytes, plan as plan_of,
};
use crate::observe::{LeftByOthers, Row};
use crate::policy::planned::{Foresight, Plan};
use crate::replay::{Observer, Replay};
use crate::space::{AddressOrder, Device, SpaceConfig};
use crate::trace::Trace;
use crate::whatif::{context_moved_at, feed_knowing};

/// Where a capacity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was asked for.
    Asked,
    /// The trace tells it: the cap or the pool that it was recorded under.
    Trace,
    /// 1.1 times the peak of live requested bytes.
    Tight,
    /// The whole card.
    Card,
}

/// What may be reserved, and why so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes.
    pub bytes: u64,
    /// Where they come from.
    pub origin: Origin,
}

/// What is asked of the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// What the trace tells, else 1.1 times its peak, so that policies differ.
    #[default]
    ByTrace,
    /// So many bytes.
    Bytes(u64),
    /// So many millionths of the peak of live requested bytes.
    Times(u64),
    /// The whole card.
    Card,
}

impl Capacity {
    /// So many millionths of `bound_bytes`, rounded up.
    #[must_use]
    pub fn times(bound_bytes: u64, ppm: u64) -> u64 {
        let bytes = (u128::from(bound_bytes) * u128::from(ppm)).div_ceil(1_000_000);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The capacity for a trace whose live requests peak at `bound_bytes`; a card never
    /// gives more than it has.
    #[must_use]
    pub fn choose(wanted: Wanted, trace: &Trace, bound_bytes: u64, device: &Device) -> Self {
        let card_bytes = device.usable_bytes();
        let tight = Self::times(bound_bytes, 1_100_000);
        let (bytes, origin) = match (wanted, trace.capacity_bytes) {
            (Wanted::Bytes(bytes), _) => (bytes, Origin::Asked),
            (Wanted::Times(ppm), _) => (Self::times(bound_bytes, ppm), Origin::Asked),
            (Wanted::ByTrace, Some(bytes)) => (bytes, Origin::Trace),
            (Wanted::ByTrace, None) if tight > 0 => (tight, Origin::Tight),
            (Wanted::ByTrace | Wanted::Card, _) => (card_bytes, Origin::Card),
        };
        if bytes > card_bytes {
            return Capacity {
                bytes: card_bytes,
                origin: Origin::Card,
            };
        }
        Capacity { bytes, origin }
    }
}

/// A trace made ready for many cells: what all of them share is found once.
#[derive(Debug)]
pub struct Scene {
    /// The trace; cells of other capacities share it.
    pub trace: Arc<Trace>,
    /// The peak of its live requested bytes.
    pub bound_bytes: u64,
    /// What may be reserved.
    pub capacity: Capacity,
    /// The card.
    pub device: Arc<Device>,
    /// The seed of a synthetic trace.
    pub seed: Option<u64>,
    packing: OnceLock<Packing>,
    /// When the context of the program moved.
    context_moved_at: OnceLock<Option<usize>>,
    left_by_others: OnceLock<LeftByOthers>,
    /// Plans made so far, by their alignment.
    plans: Mutex<BTreeMap<u64, Arc<Plan>>>,
}

impl Foresight for Scene {
    fn plan(&self, alignment: u64) -> Arc<Plan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(plan_of(&self.trace, alignment, &Budget::CHEAP));
        Arc::clone(plans.entry(alignment).or_insert_with(made))
    }
}

impl Scene {
    /// A trace on a card.
    #[must_use]
    pub fn new(trace: impl Into<Arc<Trace>>, device: Arc<Device>, wanted: Wanted) -> Self {
        let trace = trace.into();
        let bound_bytes = peak_live_requested_bytes(&trace);
        Scene::bounded(trace, bound_bytes, device, wanted)
    }

    /// A trace whose peak of live requested bytes is known, on a card.
    #[must_use]
    pub fn bounded(
        trace: Arc<Trace>,
        bound_bytes: u64,
        device: Arc<Device>,
        wanted: Wanted,
    ) -> Self {
        let capacity = Capacity::choose(wanted, &trace, bound_bytes, &device);
        Scene {
            trace,
            bound_bytes,
            capacity,
            device,
            seed: None,
            packing: OnceLock::new(),
            context_moved_at: OnceLock::new(),
            left_by_others: OnceLock::new(),
            plans: Mutex::default(),
        }
    }

    /// The best offline packing of the trace's requests that little work finds: what an
    /// allocator could come down to that knew them all. Found once.
    #[must_use]
    pub fn packing(&self) -> &Packing {
        self.packing.get_or_init(|| {
            let lives = lifetimes(&self.trace, 1, Until::Freed);
            // What no card holds is in no packing.
            let most_bytes = self.device.total_bytes;
            let buffers = lives.iter().map(|life| life.buffer);
            let buffers: Vec<_> = buffers.filter(|it| it.bytes <= most_bytes).collect();
            pack(&buffers, None, &Budget::CHEAP)
        })
    }

    /// Feeds the whole trace as long as `go_on` says so after each batch and its number of
    /// events; tells the driver when the context of the program moved.
    pub fn feed<O: Observer>(
        &self,
        replay: &mut Replay,
        observer: &mut O,
        go_on: impl FnMut(&Replay, u64) -> bool,
    ) {
        let moved = self
            .context_moved_at
            .get_or_init(|| context_moved_at(&self.trace));
        feed_knowing(*moved, &self.trace, replay, observer, go_on);
    }

    /// What other processes left of the card, where the recording tells it.
    pub(super) fn left_by_others(&self) -> LeftByOthers {
        let found = || self.trace.truth.as_deref().map(LeftByOthers::of);
        let left = self
            .left_by_others
            .get_or_init(|| found().unwrap_or_default());
        left.clone()
    }

    /// What a row says of the best packing.
    pub(super) fn add_bounds(&self, row: &mut Row) {
        let packing = self.packing();
        row.packed_bytes = Some(packing.height_bytes);
        packing.by.clone_into(&mut row.packed_by);
        row.packed_proven = Some(packing.proven);
    }

    /// How a Space for the trace is set up; `record_steps` for observers that read steps.
    #[must_use]
    pub fn config(&self, record_steps: bool) -> SpaceConfig {
        SpaceConfig {
            device: Arc::clone(&self.device),
            capacity_bytes: self.capacity.bytes,
            blind: true,
            streams: self.trace.streams.len().max(1),
            addresses: AddressOrder::TopDown,
            record_steps,
        }
    }
}
