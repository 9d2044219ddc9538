//! The blockers of a request: the fewest live blocks whose absence makes room.
//!
//! A set of blocks is proven by a replay up to the event that frees them right before it,
//! on the request's stream and in the order of their addresses, and sees the request served.
//! Likely sets come first ([`candidates`](super::candidates)); the first that is proven is
//! thinned out, block by block; then every smaller set is tried, where there are few enough.

use std::collections::BTreeSet;

use rayon::prelude::*;

use super::ExplainError;
use super::candidates::{Candidates, Set};
use super::data::{Blocker, Blockers, Fewest, Found};
use super::ledger::Taken;
use super::stage::{Stage, without};
use crate::experiment::Scene;
use crate::replay::Outcome;
use crate::space::Request;
use crate::trace::{ANY_STREAM, Event, Trace};

/// How much may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Replays.
    pub tries: u64,
    /// Events of all of them together.
    pub events: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            tries: 400,
            events: 30_000_000,
        }
    }
}

/// Sets that are tried side by side.
const SIDE_BY_SIDE: usize = 8;

/// Finds the blockers of a failed request.
pub(super) fn blockers(
    stage: &Stage<'_>,
    event: usize,
    request: Request,
    taken: &Taken,
    effort: Effort,
) -> Result<Blockers, ExplainError> {
    let mut search = Search {
        stage,
        event,
        request,
        taken,
        left: effort
            .tries
            .min(effort.events / (event as u64 + 1))
            .max(MOST_NEEDED),
        tried: 0,
        failed: BTreeSet::new(),
    };
    if search.serves_after(&waiting(stage.trace(), event))? {
        return Ok(search.answer(Found::Waiting, &[], Fewest::Arithmetic));
    }
    let all: Set = (0..taken.live.len()).collect();
    if !search.serves(&all)? {
        return Ok(search.answer(Found::Never, &[], Fewest::Arithmetic));
    }
    let wanted_bytes = taken.shortage.map_or(0, |short| short.wanted_bytes);
    let mut candidates = Candidates::of(taken, request, wanted_bytes);
    let least = search.least_count();
    candidates.retain(|set| set.len() >= least);
    let found = match search.first(&candidates)? {
        Some(set) => set,
        None => search.halve(all)?,
    };
    let found = search.thin(found)?;
    let (found, fewest) = search.smaller(found)?;
    let mut answer = search.answer(Found::Blocks, &found, fewest);
    answer.absent_served = search.absent(&found)?;
    Ok(answer)
}

/// The program waits for the device, and so every deferred free ends.
fn waiting(trace: &Trace, event: usize) -> Vec<Event> {
    let mut deferred = BTreeSet::new();
    for one in &trace.events[..event] {
        match *one {
            Event::Free {
                slot,
                deferred: true,
                ..
            } => {
                deferred.insert(slot);
            }
            Event::Complete { slot } => {
                deferred.remove(&slot);
            }
            _ => {}
        }
    }
    let ends = deferred.into_iter().map(|slot| Event::Complete { slot });
    let wait = Event::Sync { stream: ANY_STREAM };
    [wait].into_iter().chain(ends).collect()
}

/// So many tries are always made.
const MOST_NEEDED: u64 = 24;

struct Search<'a> {
    stage: &'a Stage<'a>,
    event: usize,
    request: Request,
    taken: &'a Taken,
    /// Tries that are left.
    left: u64,
    tried: u64,
    /// Sets that did not do.
    failed: BTreeSet<Set>,
}

impl Search<'_> {
    /// The frees of a set, in the order of addresses.
    fn frees(&self, set: &[usize]) -> Vec<Event> {
        let space = &self.taken.space;
        let mut lives: Vec<_> = set.iter().map(|at| &self.taken.live[*at]).collect();
        lives.sort_by_key(|live| space.base(live.block));
        let free = |slot| Event::Free {
            slot,
            stream: self.request.stream,
            deferred: false,
        };
        lives.iter().map(|live| free(live.slot)).collect()
    }

    fn outcome(&self, before: &[Event]) -> Result<bool, ExplainError> {
        let outcome = self.stage.retry(self.event, before)?;
        Ok(matches!(
            outcome,
            Outcome::Served(_) | Outcome::ServedInstant { .. }
        ))
    }

    fn count(&mut self, tries: usize) {
        self.tried += tries as u64;
        self.left = self.left.saturating_sub(tries as u64);
    }

    fn serves_after(&mut self, before: &[Event]) -> Result<bool, ExplainError> {
        self.count(1);
        self.outcome(before)
    }

    fn serves(&mut self, set: &Set) -> Result<bool, ExplainError> {
        if self.failed.contains(set) {
            return Ok(false);
        }
        let served = self.serves_after(&self.frees(set))?;
        if !served {
            self.failed.insert(set.clone());
        }
        Ok(served)
    }

    /// The first of the sets that makes room, as long as there are tries.
    fn first(&mut self, sets: &[Set]) -> Result<Option<Set>, ExplainError> {
        // Half of the tries are kept for what comes after.
        let most = usize::try_from(self.left / 2).unwrap_or(usize::MAX);
        for sets in sets[..sets.len().min(most)].chunks(SIDE_BY_SIDE) {
            let served: Vec<bool> = sets
                .par_iter()
                .map(|set| self.outcome(&self.frees(set)))
                .collect::<Result<_, _>>()?;
            self.count(sets.len());
            for (set, served) in sets.iter().zip(served) {
                if served {
                    return Ok(Some(set.clone()));
                }
                self.failed.insert(set.clone());
            }
        }
        Ok(None)
    }

    /// From a set that makes room to a smaller one: halves, quarters and so on are left
    /// out as long as the rest still does.
    fn halve(&mut self, mut set: Set) -> Result<Set, ExplainError> {
        let mut parts = 2;
        while parts <= set.len() && self.left > MOST_NEEDED / 2 {
            let size = set.len().div_ceil(parts);
            let rests: Vec<Set> = (0..set.len())
                .step_by(size)
                .map(|from| {
                    let gone = from..set.len().min(from + size);
                    let kept = set.iter().enumerate().filter(|(at, _)| !gone.contains(at));
                    kept.map(|(_, one)| *one).collect()
                })
                .filter(|rest: &Set| !rest.is_empty())
                .collect();
            match self.first(&rests)? {
                Some(smaller) => {
                    set = smaller;
                    parts = (parts - 1).max(2);
                }
                None if size == 1 => break,
                None => parts *= 2,
            }
        }
        Ok(set)
    }

    /// Leaves out every block that can be spared, the largest first.
    fn thin(&mut self, mut set: Set) -> Result<Set, ExplainError> {
        let mut order = set.clone();
        let bytes = |at: &usize| self.taken.space.bytes(self.taken.live[*at].block);
        order.sort_by_key(|at| (std::cmp::Reverse(bytes(at)), *at));
        for one in order {
            if set.len() == 1 || self.left == 0 {
                break;
            }
            let rest: Set = set.iter().copied().filter(|at| *at != one).collect();
            if self.serves(&rest)? {
                set = rest;
            }
        }
        Ok(set)
    }

    /// A smaller set, where there is one and few enough are to be tried.
    fn smaller(&mut self, found: Set) -> Result<(Set, Fewest), ExplainError> {
        let least = self.least_count();
        for count in least..found.len() {
            let sets = subsets(self.taken.live.len(), count, self.left);
            let Some(sets) = sets else {
                return Ok((found, Fewest::Likely));
            };
            for set in sets {
                if self.serves(&set)? {
                    return Ok((set, Fewest::Exhaustive));
                }
            }
        }
        let fewest = if least >= found.len() {
            Fewest::Arithmetic
        } else {
            Fewest::Exhaustive
        };
        Ok((found, fewest))
    }

    /// No fewer blocks than this leave the live bytes and the request within the capacity,
    /// whatever the policy does; at least one, since the request failed without.
    fn least_count(&self) -> usize {
        let live_bytes = self.taken.requested_bytes;
        let needed = u128::from(live_bytes) + u128::from(self.request.bytes);
        let mut above = needed.saturating_sub(u128::from(self.taken.space.capacity_bytes()));
        let mut bytes: Vec<u64> = self.taken.live.iter().map(|live| live.bytes).collect();
        bytes.sort_unstable();
        let mut count = 0;
        while above > 0 && count < bytes.len() {
            above = above.saturating_sub(u128::from(bytes[bytes.len() - 1 - count]));
            count += 1;
        }
        count.max(1)
    }

    /// Whether the request is served where the blocks were never allocated.
    fn absent(&self, set: &[usize]) -> Result<Option<bool>, ExplainError> {
        let own = Stage {
            along: false,
            ..*self.stage
        };
        let failed = |outcome| matches!(outcome, Outcome::Failed(_));
        // A policy that only a recording can start is not replayed from an empty card.
        if !own.retry(self.event, &[]).is_ok_and(failed) {
            return Ok(None);
        }
        let lives = set.iter().map(|at| &self.taken.live[*at]);
        let gone: Vec<_> = lives.map(|live| (live.slot, live.event)).collect();
        let scene = self.stage.scene;
        let shorter = without(&scene.trace, &gone);
        let scene = Scene::bounded(
            shorter,
            scene.bound_bytes,
            scene.device.clone(),
            crate::experiment::Wanted::Bytes(scene.capacity.bytes),
        );
        let stage = Stage {
            scene: &scene,
            ..own
        };
        let served = stage.retry(self.event, &[])?;
        Ok(Some(matches!(
            served,
            Outcome::Served(_) | Outcome::ServedInstant { .. }
        )))
    }

    fn answer(&self, found: Found, set: &[usize], fewest: Fewest) -> Blockers {
        let mut blocks: Vec<Blocker> = set.iter().map(|at| self.blocker(*at)).collect();
        blocks.sort_by_key(|block| block.address);
        Blockers {
            found,
            bytes: blocks.iter().map(|block| block.bytes).sum(),
            blocks,
            fewest,
            absent_served: None,
            tried: self.tried,
        }
    }

    fn blocker(&self, at: usize) -> Blocker {
        let (space, trace) = (&self.taken.space, self.stage.trace());
        let live = &self.taken.live[at];
        let event = self.event as u64;
        let later = trace.events.iter().skip(self.event + 1);
        let frees = |event: &Event| matches!(event, Event::Free { slot, .. } if *slot == live.slot);
        let freed = later.into_iter().position(frees);
        Blocker {
            id: super::name(trace, live.ordinal),
            event: live.event,
            address: space.base(live.block),
            bytes: space.bytes(live.block),
            requested_bytes: live.bytes,
            age_events: event - live.event,
            age_ns: trace.time_ns(self.event).saturating_sub(live.time_ns),
            stream: live.stream,
            pool: live.pool,
            stack: super::stack(trace, live.tag),
            freed_event: freed.map(|after| event + 1 + after as u64),
        }
    }
}

/// All sets of `count` of `of` things in order; `None` where they are more than `most`.
fn subsets(of: usize, count: usize, most: u64) -> Option<Vec<Set>> {
    let mut number: u128 = 1;
    // As many as there are sets of the rest; the smaller of both never passes the answer.
    for at in 0..count.min(of - count) {
        number = number * (of - at) as u128 / (at as u128 + 1);
        if number > u128::from(most) {
            return None;
        }
    }
    let mut sets = Vec::new();
    let mut set: Set = (0..count).collect();
    loop {
        sets.push(set.clone());
        // The last that can go up does; those behind it follow at its heels.
        let Some(up) = (0..count).rev().find(|at| set[*at] < of - count + at) else {
            return Some(sets);
        };
        set[up] += 1;
        for at in up + 1..count {
            set[at] = set[at - 1] + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_come_in_order_and_too_many_are_refused() {
        let pairs = subsets(4, 2, 6).expect("six are not too many");
        let expected = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
        assert_eq!(pairs, expected.map(|pair| pair.to_vec()));
        assert_eq!(subsets(4, 2, 5), None);
        assert_eq!(subsets(3, 3, 1), Some(vec![vec![0, 1, 2]]));
        assert_eq!(subsets(1000, 500, u64::MAX), None);
    }
}
