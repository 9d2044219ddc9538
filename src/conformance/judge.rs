//! The judge: keeps books of its own, and compares them with the Space after each event.

use std::collections::BTreeMap;

use crate::replay::{Moment, Observer, Outcome};
use crate::space::{BlockId, Space, State, Step, StepKind};
use crate::trace::{Event, Slot};

/// Checks a Space by a walk: every segment is tiled without gap or overlap, the links
/// agree, the segments lie apart, and the sums are those of the blocks.
///
/// # Errors
/// The first thing that is wrong, in words.
pub fn check_space(space: &Space) -> Result<(), String> {
    let mut sums = [0u64; 6];
    let mut counts = [0u64; 6];
    let mut ranges = Vec::new();
    for segment in space.segments() {
        let mut end = space.segment_base(segment);
        let mut below = None;
        for block in space.blocks(segment) {
            if space.base(block) != end || space.bytes(block) == 0 {
                return Err(format!("{block:?} does not tile its segment at {end}"));
            }
            if space.prev(block) != below || space.segment(block) != segment {
                return Err(format!("the links of {block:?} do not agree"));
            }
            if space.state(block) == State::Gone {
                return Err(format!("{block:?} is gone, and its neighbours name it"));
            }
            sums[space.state(block) as usize] += space.bytes(block);
            counts[space.state(block) as usize] += 1;
            end = space.end(block);
            below = Some(block);
        }
        let (base, bytes) = (space.segment_base(segment), space.segment_bytes(segment));
        if end != base + bytes {
            return Err(format!("the blocks of {segment:?} end at {end}"));
        }
        ranges.push((base, end));
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("two segments overlap".into());
    }
    let of = |state: State| sums[state as usize];
    // Lent pages are counted where they are used.
    let mapped = sums.iter().sum::<u64>() - of(State::Unmapped) - of(State::Lent);
    let counters = space.counters();
    let pairs = [
        ("free_bytes", counters.free_bytes, of(State::Free)),
        ("used_bytes", counters.used_bytes, of(State::Used)),
        ("pending_bytes", counters.pending_bytes, of(State::Pending)),
        ("retired_bytes", counters.retired_bytes, of(State::Retired)),
        ("reserved_bytes", counters.reserved_bytes, mapped),
        (
            "free_blocks",
            counters.free_blocks,
            counts[State::Free as usize],
        ),
        (
            "used_blocks",
            counters.used_blocks,
            counts[State::Used as usize],
        ),
    ];
    match pairs.iter().find(|(_, kept, walked)| kept != walked) {
        Some((name, kept, walked)) => Err(format!("{name} is {kept}, by a walk {walked}")),
        None => Ok(()),
    }
}

/// What is stored where: the contents of a block, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Contents {
    bytes: u64,
    block: BlockId,
}

/// What a slot holds, by the judge's books.
#[derive(Debug, Clone, Copy)]
struct Live {
    block: BlockId,
    requested_bytes: u64,
    align: u64,
}

/// The judge.
#[derive(Debug, Default)]
pub(super) struct Judge {
    contents: BTreeMap<u64, Contents>,
    live: BTreeMap<Slot, Live>,
    /// Every step so far, to compare two runs.
    pub(super) steps: Vec<Step>,
    /// The first thing that was wrong, in words.
    pub(super) verdict: Option<String>,
}

impl Observer for Judge {
    fn see(&mut self, moment: &Moment<'_>) {
        self.steps.extend_from_slice(moment.space.steps());
        let outcome = self
            .follow(moment.space.steps())
            .and_then(|()| self.book(moment))
            .and_then(|()| self.compare(moment));
        if let Err(what) = outcome {
            self.verdict.get_or_insert(what);
        }
    }
}

impl Judge {
    /// Carries contents along with the steps of an event; none may be overwritten.
    fn follow(&mut self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            match step.kind {
                StepKind::Place(block) => self.store(step, block)?,
                StepKind::Release(_) => {
                    self.contents
                        .remove(&step.address)
                        .ok_or_else(|| format!("{} was released but not in use", step.address))?;
                }
                StepKind::Move { block } => {
                    let moved = self.contents.remove(&step.from);
                    if moved.is_none_or(|moved| moved.bytes != step.bytes) {
                        return Err(format!("a move of what is not stored at {}", step.from));
                    }
                    self.store(step, block)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn store(&mut self, step: &Step, block: BlockId) -> Result<(), String> {
        let (address, bytes) = (step.address, step.bytes);
        let below = self.contents.range(..address + bytes).next_back();
        if let Some((base, other)) = below
            && base + other.bytes > address
        {
            return Err(format!(
                "{bytes} bytes at {address} overwrite the contents at {base}"
            ));
        }
        self.contents.insert(address, Contents { bytes, block });
        Ok(())
    }

    /// Notes what the event did to its slot.
    fn book(&mut self, moment: &Moment<'_>) -> Result<(), String> {
        match (*moment.event, moment.outcome) {
            (
                Event::Alloc {
                    slot,
                    bytes,
                    align_log2,
                    ..
                },
                Outcome::Served(block),
            ) => {
                if self.live.values().any(|live| live.block == block) {
                    return Err(format!("{block:?} serves another request already"));
                }
                let live = Live {
                    block,
                    requested_bytes: bytes,
                    align: 1 << align_log2,
                };
                self.live.insert(slot, live);
            }
            (
                Event::Free { slot, .. },
                Outcome::Freed {
                    requested_bytes, ..
                },
            ) => {
                let live = self.live.remove(&slot);
                if live.is_none_or(|live| live.requested_bytes != requested_bytes) {
                    return Err(format!("a free of slot {slot} met another request's block"));
                }
            }
            (Event::FreeAt { .. }, Outcome::Freed { .. }) => {
                let space = moment.space;
                let freed = |live: &Live| {
                    !self
                        .contents
                        .values()
                        .any(|stored| stored.block == live.block)
                        || space.state(live.block) != State::Used
                };
                let slots: Vec<Slot> = self
                    .live
                    .iter()
                    .filter(|(_, live)| freed(live))
                    .map(|(slot, _)| *slot)
                    .collect();
                let [slot] = slots[..] else {
                    return Err(format!("a free by address ended the slots {slots:?}"));
                };
                self.live.remove(&slot);
            }
            _ => {}
        }
        Ok(())
    }

    fn compare(&self, moment: &Moment<'_>) -> Result<(), String> {
        let space = moment.space;
        check_space(space)?;
        let free = |block: &BlockId| space.state(*block) == State::Free;
        let largest = space.walk().filter(free).map(|block| space.bytes(block));
        let largest = largest.max().unwrap_or(0);
        if largest != moment.largest_free_bytes {
            return Err(format!(
                "the largest free block is said to have {} bytes, by a walk it has {largest}",
                moment.largest_free_bytes
            ));
        }
        let in_use = |block: &BlockId| matches!(space.state(*block), State::Used | State::Pending);
        let mut walked: Vec<(u64, Contents)> = space
            .walk()
            .filter(in_use)
            .map(|block| {
                let bytes = space.bytes(block);
                (space.base(block), Contents { bytes, block })
            })
            .collect();
        walked.sort_unstable_by_key(|(address, _)| *address);
        if !self
            .contents
            .iter()
            .map(|(address, stored)| (*address, *stored))
            .eq(walked)
        {
            return Err("the blocks in use are not where the steps have put them".into());
        }
        for (slot, live) in &self.live {
            let served = space.state(live.block) == State::Used
                && space.bytes(live.block) >= live.requested_bytes
                && space.base(live.block).is_multiple_of(live.align);
            if !served {
                return Err(format!("slot {slot} has lost its block"));
            }
        }
        let requested: u64 = self.live.values().map(|live| live.requested_bytes).sum();
        if requested != moment.totals.requested_bytes {
            return Err(format!(
                "{} bytes are said to be requested, by the books {requested}",
                moment.totals.requested_bytes
            ));
        }
        if self.live.len() as u64 != space.counters().used_blocks {
            return Err("a used block serves no request".into());
        }
        Ok(())
    }
}
