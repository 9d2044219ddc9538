//! The smallest capacity at which a policy serves everything.
//!
//! A search over replays: upwards from the lower bound in growing steps until nothing
//! fails, then by halves between the greatest capacity that fails and the least that does
//! not. A replay ends soon after its first failure, so that what fails is cheap.
//!
//! More room is no promise: another capacity may lay an arena out otherwise, and fail
//! (anomalies of the kind that Belady found for paging, 1969). So capacities near the
//! answer are tried too. Where one above it fails, the search goes on above that one: the
//! answer is the smallest capacity found above which no try failed. A try below it that
//! serves everything is told.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{RecordError, Scene, caught};
use crate::policy::{Chosen, Registry};
use crate::replay::Replay;
use crate::space::SpaceConfig;
use crate::units::ppm;

/// The answer is exact to one part in so many, or to a page of the card where that is more.
const PARTS: u64 = 1024;
/// Capacities tried on either side of the answer: 1, 2, 4, ... steps away.
const NEAR: u32 = 6;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// The policy as given.
    pub policy: String,
    /// The smallest capacity found that serves everything, as do all that were tried above
    /// it; `None` where the whole card does not.
    pub fit_bytes: Option<u64>,
    /// The same in lower bounds, ppm; `None` also where the bound is 0.
    pub fit_to_bound_ppm: Option<u64>,
    /// The peak of live requested bytes, which no policy can do without.
    pub lower_bound_bytes: u64,
    /// How exact the answer is: one step less fails.
    pub step_bytes: u64,
    /// Capacities tried that serve everything, although a greater one fails; ascending.
    pub lucky_bytes: Vec<u64>,
    /// Capacities tried.
    pub tries: usize,
}

impl Fit {
    /// Whether more room never harmed, as far as was tried.
    #[must_use]
    pub fn monotone(&self) -> bool {
        self.lucky_bytes.is_empty()
    }
}

/// Finds the smallest capacity at which a policy serves all requests of a trace, those
/// that failed when it was recorded included. What the scene may use is not looked at;
/// the whole card is.
///
/// # Errors
/// [`RecordError`]: the policy cannot be built, or breaks a rule.
pub fn fit(scene: &Scene, registry: &Registry, chosen: &Chosen) -> Result<Fit, RecordError> {
    let mut search = Search {
        scene,
        registry,
        chosen,
        step_bytes: step_bytes(scene),
        card_bytes: scene.device.usable_bytes(),
        tried: BTreeMap::new(),
    };
    let fit_bytes = search.settle()?;
    if let Some(bytes) = fit_bytes {
        search.try_below(bytes)?;
    }
    let passed = search.tried.iter().filter(|(_, served)| **served);
    let lucky = passed.filter(|(bytes, _)| fit_bytes.is_none_or(|fit| **bytes < fit));
    Ok(Fit {
        policy: chosen.label.clone(),
        fit_bytes,
        fit_to_bound_ppm: fit_bytes
            .filter(|_| scene.bound_bytes > 0)
            .map(|bytes| ppm(bytes, scene.bound_bytes)),
        lower_bound_bytes: scene.bound_bytes,
        step_bytes: search.step_bytes,
        lucky_bytes: lucky.map(|(bytes, _)| *bytes).collect(),
        tries: search.tried.len(),
    })
}

/// The largest power of two that is no more than a part of the bound or a page.
fn step_bytes(scene: &Scene) -> u64 {
    let part = scene.bound_bytes / PARTS;
    let most = part.min(scene.device.page_bytes).max(1);
    1 << most.ilog2()
}

/// What was tried so far.
struct Search<'a> {
    scene: &'a Scene,
    registry: &'a Registry,
    chosen: &'a Chosen,
    step_bytes: u64,
    card_bytes: u64,
    /// Whether a capacity serves everything.
    tried: BTreeMap<u64, bool>,
}

impl Search<'_> {
    /// The smallest capacity above all that fail, once nothing tried near above it fails.
    /// Each round tries one more capacity, and there are only so many steps to a card.
    fn settle(&mut self) -> Result<Option<u64>, RecordError> {
        // The bound itself; a trace that asks for nothing needs a byte to be a space.
        let bound = self.scene.bound_bytes.max(1);
        if bound > self.card_bytes {
            return Ok(None);
        }
        self.serves(bound)?;
        loop {
            let failing = self.tried.iter().rfind(|(_, served)| !**served);
            let failing = failing.map(|(bytes, _)| *bytes);
            let above = failing.map_or(0, |bytes| bytes + 1);
            let passing = self.tried.range(above..).next().map(|(bytes, _)| *bytes);
            let next = match (failing, passing) {
                (Some(failing), None) if failing >= self.card_bytes => return Ok(None),
                (Some(failing), None) => self.beyond(bound, failing),
                (None, Some(passing)) => self.untried_above(passing),
                (Some(failing), Some(passing)) => {
                    let middle = self.between(failing, passing);
                    middle.or_else(|| self.untried_above(passing))
                }
                (None, None) => unreachable!("the bound was tried"),
            };
            match next {
                Some(bytes) => self.serves(bytes)?,
                None => return Ok(passing),
            };
        }
    }

    /// Whether a policy serves everything at a capacity.
    fn serves(&mut self, capacity_bytes: u64) -> Result<bool, RecordError> {
        if let Some(served) = self.tried.get(&capacity_bytes) {
            return Ok(*served);
        }
        let policy = self.registry.build_for(self.chosen, self.scene)?;
        let trace = &self.scene.trace;
        let config = SpaceConfig {
            capacity_bytes,
            ..self.scene.config(false)
        };
        let replayed = caught(|| {
            let Ok(mut replay) = Replay::new(policy, config) else {
                return false;
            };
            replay.name_streams(&trace.streams);
            self.scene.feed(&mut replay, &mut (), |replay, _| {
                replay.totals().failed == 0
            });
            replay.totals().failed == 0
        });
        let served = replayed.map_err(|what| RecordError::Broke {
            policy: self.chosen.label.clone(),
            what: format!("{what} (at a capacity of {capacity_bytes} bytes)"),
        })?;
        self.tried.insert(capacity_bytes, served);
        Ok(served)
    }

    /// The next capacity upwards: each is twice as far from the bound as the one before.
    fn beyond(&self, bound: u64, failing: u64) -> Option<u64> {
        let least = (bound / 64).max(self.step_bytes);
        let apart = (failing - bound).saturating_mul(2).max(least);
        Some(self.whole(bound.saturating_add(apart)).min(self.card_bytes))
    }

    /// A capacity about halfway, a whole number of steps; `None` where none is between.
    fn between(&self, failing: u64, passing: u64) -> Option<u64> {
        let middle = self.whole(failing + (passing - failing) / 2);
        let middle = if middle < passing {
            middle
        } else {
            middle.saturating_sub(self.step_bytes)
        };
        (middle > failing && middle < passing).then_some(middle)
    }

    /// Rounded up to a whole number of steps, so that answers are round numbers.
    fn whole(&self, bytes: u64) -> u64 {
        bytes
            .checked_next_multiple_of(self.step_bytes)
            .unwrap_or(bytes)
    }

    /// A capacity near above that was not tried yet.
    fn untried_above(&self, bytes: u64) -> Option<u64> {
        let near = (0..NEAR).map(|power| bytes.saturating_add(self.step_bytes << power));
        let mut near = near.filter(|near| *near <= self.card_bytes);
        near.find(|near| !self.tried.contains_key(near))
    }

    /// Tries capacities near below, down to the bound.
    fn try_below(&mut self, bytes: u64) -> Result<(), RecordError> {
        for power in 0..NEAR {
            let below = bytes.saturating_sub(self.step_bytes << power);
            if below >= self.scene.bound_bytes.max(1) {
                self.serves(below)?;
            }
        }
        Ok(())
    }
}
