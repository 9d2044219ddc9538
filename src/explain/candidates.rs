//! Sets of live blocks whose absence might make room, the smallest first.
//!
//! Where a policy looks, a request can find room in three ways: neighbours of one segment
//! become free in one piece; whole segments become free and go back to the driver; enough
//! bytes become free anywhere, to be moved, mapped or stitched together. Each way has its
//! own sets. They are guesses: which one holds under the policy's rules of streams, pools,
//! classes and alignment, a replay decides.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::ledger::Taken;
use super::memory::{owner_of, room_bytes};
use crate::space::{BlockId, Request, SegmentId, State};
use crate::units::MIB;

/// A set of live allocations, by their places in [`Taken::live`], ascending.
pub(super) type Set = Vec<usize>;

/// Sets kept of each segment.
const OF_SEGMENT: usize = 24;
/// The most blocks of a set of whole segments.
const MOST: usize = 64;
/// Single blocks tried because they are large enough.
const SINGLES: usize = 3;
/// What PyTorch asks of the driver for a request of 1 to 10 MiB.
const PYTORCH_LARGE_BYTES: u64 = 20 * MIB;

/// A set, and what it is ranked by: how many blocks, whether the segment serves another
/// stream or pool than the request's, their bytes.
type Ranked = (usize, bool, u64, Set);

/// The candidates of a moment for a request.
pub(super) struct Candidates<'a> {
    taken: &'a Taken,
    request: Request,
    /// Bytes that the policy looked for.
    wanted_bytes: u64,
    by_block: BTreeMap<BlockId, usize>,
    found: BTreeSet<Ranked>,
}

impl<'a> Candidates<'a> {
    /// All candidates, the best first.
    pub fn of(taken: &'a Taken, request: Request, wanted_bytes: u64) -> Vec<Set> {
        let blocks = taken.live.iter().enumerate();
        let mut made = Candidates {
            taken,
            request,
            wanted_bytes: wanted_bytes.max(request.bytes),
            by_block: blocks.map(|(at, live)| (live.block, at)).collect(),
            found: BTreeSet::new(),
        };
        let segments: Vec<SegmentId> = taken.space.segments().collect();
        for segment in &segments {
            made.windows(*segment);
        }
        made.whole_segments(&segments);
        made.enough_bytes();
        let mut seen = BTreeSet::new();
        let sets = made.found.into_iter().map(|(_, _, _, set)| set);
        sets.filter(|set| seen.insert(set.clone())).collect()
    }

    fn bytes(&self, at: usize) -> u64 {
        self.taken.space.bytes(self.taken.live[at].block)
    }

    fn add(&mut self, mut set: Set, foreign: bool) {
        set.sort_unstable();
        set.dedup();
        if !set.is_empty() {
            let bytes = set.iter().map(|at| self.bytes(*at)).sum();
            self.found.insert((set.len(), foreign, bytes, set));
        }
    }

    /// Whether the segment was used by other streams or pools alone.
    fn is_foreign(&self, segment: SegmentId) -> bool {
        let owner = owner_of(self.taken, segment);
        let other = |user: Option<u16>, own: u16| user.is_some_and(|user| user != own);
        other(owner.streams.one(), self.request.stream)
            || other(owner.pools.one(), self.request.pool)
    }

    /// Runs of neighbours that are long enough: as the policy rounds the request, somewhat
    /// longer for policies that search by classes, and at multiples of a power of two.
    fn windows(&mut self, segment: SegmentId) {
        let foreign = self.is_foreign(segment);
        let wanted = self.wanted_bytes;
        let power = wanted.checked_next_power_of_two();
        let mut kept: BTreeSet<(usize, u64, usize, usize, usize)> = BTreeSet::new();
        let runs: Vec<Run> = self.runs(segment);
        for (number, run) in runs.iter().enumerate() {
            let mut keep = |range: Range<usize>| {
                let (count, bytes) = run.live(&range);
                if count > 0 {
                    kept.insert((count, bytes, number, range.start, range.end));
                }
                if kept.len() > OF_SEGMENT {
                    kept.pop_last();
                }
            };
            let needs = [Some(wanted), wanted.checked_add(wanted / 8), power];
            for need in needs.into_iter().flatten() {
                run.slide(need, &mut keep);
            }
            if let Some(power) = power {
                run.aligned(self.taken.space.segment_base(segment), power, &mut keep);
            }
        }
        for (count, bytes, number, from, to) in kept {
            let pieces = runs[number].pieces[from..to].iter();
            let mut set: Set = pieces.filter_map(|piece| piece.live).collect();
            set.sort_unstable();
            self.found.insert((count, foreign, bytes, set));
        }
    }

    /// The stretches of a segment that freeing could make one piece: what is pending,
    /// retired or lent parts them.
    fn runs(&self, segment: SegmentId) -> Vec<Run> {
        let space = &self.taken.space;
        let mut runs: Vec<Vec<Piece>> = vec![Vec::new()];
        for block in space.blocks(segment) {
            let at = self.by_block.get(&block).copied();
            let passable = match space.state(block) {
                State::Free | State::Unmapped => true,
                State::Used => at.is_some(),
                State::Pending | State::Retired | State::Lent | State::Gone => false,
            };
            if !passable {
                runs.push(Vec::new());
            } else if let Some(run) = runs.last_mut() {
                run.push(Piece {
                    base: space.base(block),
                    end: space.end(block),
                    live: at,
                });
            }
        }
        let runs = runs.into_iter().filter(|run| !run.is_empty());
        runs.map(Run::new).collect()
    }

    /// The fewest blocks that empty whole segments, so that the driver has room again.
    fn whole_segments(&mut self, segments: &[SegmentId]) {
        let space = &self.taken.space;
        let mut items: Vec<(Set, u64)> = Vec::new();
        for segment in segments {
            let mut set = Set::new();
            let mut bytes = 0;
            let emptied = space.blocks(*segment).all(|block| {
                let at = self.by_block.get(&block);
                set.extend(at);
                let state = space.state(block);
                if state != State::Unmapped {
                    bytes += space.bytes(block);
                }
                at.is_some() || matches!(state, State::Free | State::Unmapped)
            });
            if emptied && !set.is_empty() {
                items.push((set, bytes));
            }
        }
        // Equal counts: the segment that lies the tightest.
        items.sort_by_key(|(set, bytes)| (set.len(), *bytes));
        for need in self.needs_of_driver() {
            for set in fewest(&items, need) {
                self.add(set, false);
            }
        }
    }

    /// What the driver lacks, in the sizes that policies ask of it.
    fn needs_of_driver(&self) -> Vec<u64> {
        let wanted = self.wanted_bytes;
        let room = room_bytes(&self.taken.space);
        let mut needs: Vec<u64> = [
            Some(wanted),
            wanted.checked_next_multiple_of(2 * MIB),
            Some(wanted.max(PYTORCH_LARGE_BYTES)),
            wanted.checked_next_power_of_two(),
            wanted.checked_mul(2),
        ]
        .into_iter()
        .flatten()
        .map(|need| need.saturating_sub(room).max(1))
        .collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// The largest blocks, as many as free enough bytes, and twice as many, and so on; of
    /// single blocks also the smallest that are large enough.
    fn enough_bytes(&mut self) {
        let space = &self.taken.space;
        let mut largest: Vec<usize> = (0..self.taken.live.len()).collect();
        largest.sort_by_key(|at| (std::cmp::Reverse(self.bytes(*at)), *at));
        let room = room_bytes(space);
        let not_used = space.counters().free_bytes + room;
        let short = [
            self.wanted_bytes.saturating_sub(not_used).max(1),
            self.wanted_bytes.saturating_sub(room).max(1),
            self.wanted_bytes,
        ];
        for short in short {
            let singles = largest.iter().rev().filter(|at| self.bytes(**at) >= short);
            let singles: Vec<usize> = singles.take(SINGLES).copied().collect();
            for single in singles {
                self.add(vec![single], false);
            }
            let mut sum = 0;
            let enough = largest.iter().position(|at| {
                sum += self.bytes(*at);
                sum >= short
            });
            let Some(enough) = enough.map(|at| at + 1) else {
                continue;
            };
            let mut count = enough;
            while count < largest.len() {
                self.add(largest[..count].to_vec(), false);
                // Smaller blocks may do for the last one.
                let lacking = short
                    .saturating_sub(largest[..count - 1].iter().map(|at| self.bytes(*at)).sum());
                let last = largest.iter().rposition(|at| self.bytes(*at) >= lacking);
                if let Some(last) = last.filter(|last| *last >= count) {
                    let mut set = largest[..count - 1].to_vec();
                    set.push(largest[last]);
                    self.add(set, false);
                }
                count *= 2;
            }
            self.add(largest.clone(), false);
        }
    }
}

/// A block of a run: free, or live.
#[derive(Debug, Clone, Copy)]
struct Piece {
    base: u64,
    end: u64,
    live: Option<usize>,
}

/// Neighbours that freeing could make one piece.
struct Run {
    pieces: Vec<Piece>,
    /// Live blocks, and their bytes, before each piece.
    before: Vec<(usize, u64)>,
}

impl Run {
    fn new(pieces: Vec<Piece>) -> Self {
        let mut before = vec![(0, 0)];
        let (mut count, mut bytes) = (0, 0);
        for piece in &pieces {
            if piece.live.is_some() {
                count += 1;
                bytes += piece.end - piece.base;
            }
            before.push((count, bytes));
        }
        Run { pieces, before }
    }

    fn live(&self, range: &Range<usize>) -> (usize, u64) {
        let (from, to) = (self.before[range.start], self.before[range.end]);
        (to.0 - from.0, to.1 - from.1)
    }

    /// Every shortest window of at least `need` bytes.
    fn slide(&self, need: u64, keep: &mut impl FnMut(Range<usize>)) {
        let run = &self.pieces;
        let mut from = 0;
        for to in 0..run.len() {
            let end = run[to].end;
            while from < to && end - run[from + 1].base >= need {
                from += 1;
            }
            if end - run[from].base >= need {
                keep(from..to + 1);
            }
        }
    }

    /// Windows of `power` bytes at multiples of it from `base`: those that begin or end in
    /// a piece stand for all.
    fn aligned(&self, base: u64, power: u64, keep: &mut impl FnMut(Range<usize>)) {
        let run = &self.pieces;
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return;
        };
        for piece in run {
            for inside in [piece.base, piece.end - 1] {
                let at = base + (inside - base) / power * power;
                let Some(end) = at.checked_add(power) else {
                    continue;
                };
                if at >= first.base && end <= last.end {
                    let from = run.partition_point(|it| it.end <= at);
                    let to = run.partition_point(|it| it.base < end);
                    keep(from..to);
                }
            }
        }
    }
}

/// For each number of blocks, the items that gain the most; those that reach `need`, the
/// fewest blocks first: what is told is the first that does, and the next one.
fn fewest(items: &[(Set, u64)], need: u64) -> Vec<Set> {
    // best[c]: the most bytes of exactly c blocks, and the items that give them.
    let mut best: Vec<Option<(u64, Vec<usize>)>> = vec![None; MOST + 1];
    best[0] = Some((0, Vec::new()));
    for (at, (set, gain)) in items.iter().enumerate() {
        let count = set.len();
        for total in (count..=MOST).rev() {
            let Some((bytes, chosen)) = &best[total - count] else {
                continue;
            };
            let bytes = bytes + gain;
            if best[total].as_ref().is_none_or(|(known, _)| bytes > *known) {
                let mut chosen = chosen.clone();
                chosen.push(at);
                best[total] = Some((bytes, chosen));
            }
        }
    }
    let reach = best
        .into_iter()
        .flatten()
        .filter(|(bytes, _)| *bytes >= need);
    let sets = reach.map(|(_, chosen)| {
        let sets = chosen.iter().flat_map(|at| items[*at].0.iter().copied());
        sets.collect()
    });
    let mut sets: Vec<Set> = sets.take(2).collect();
    // Of single segments that do, the one with the least bytes.
    let single = items.iter().filter(|(_, gain)| *gain >= need);
    sets.extend(
        single
            .min_by_key(|(set, gain)| (set.len(), *gain))
            .map(|(set, _)| set.clone()),
    );
    sets
}
