//! What lay where: in total, by pool, by stream, by segment.

use std::collections::BTreeMap;

use super::data::{MAP_LETTERS, Memory, SegmentSums, Share, SizeClass, Sums};
use super::ledger::{Live, Owner, Taken};
use crate::space::{BlockId, SegmentId, Space, State};
use crate::trace::Trace;
use crate::units::ppm;

/// Segments that are told one by one.
const SEGMENTS: usize = 10;

/// The memory of a moment.
pub(super) fn memory(taken: &Taken, trace: &Trace) -> Memory {
    let space = &taken.space;
    let live = taken.live.iter().map(|live| (live.block, live));
    let mut parts = Parts {
        taken,
        live: live.collect(),
        total: Sums::default(),
        by_stream: BTreeMap::new(),
        by_pool: BTreeMap::new(),
        holes: BTreeMap::new(),
    };
    let sums = |segment| (segment, parts.segment(segment));
    let mut segments: Vec<(SegmentId, Sums)> = space.segments().map(sums).collect();
    segments.sort_by_key(|(segment, sums)| {
        let most = (sums.free_bytes, space.segment_bytes(*segment));
        (std::cmp::Reverse(most), space.segment_base(*segment))
    });
    let mut others = Sums::default();
    let rest = segments.get(SEGMENTS..).unwrap_or(&[]);
    rest.iter().for_each(|(_, sums)| add(&mut others, sums));
    let (streams, pools) = (&trace.streams, &trace.pools);
    let total = parts.total;
    let told = segments.iter().take(SEGMENTS);
    Memory {
        total,
        room_bytes: room_bytes(space),
        external_fragmentation_ppm: (total.free_bytes > 0).then(|| {
            ppm(
                total.free_bytes - total.largest_free_bytes,
                total.free_bytes,
            )
        }),
        internal_fragmentation_ppm: (total.occupied_bytes > 0).then(|| {
            let waste_bytes = total.occupied_bytes.saturating_sub(total.requested_bytes);
            ppm(waste_bytes, total.occupied_bytes)
        }),
        utilisation_ppm: ppm(total.occupied_bytes, space.capacity_bytes()),
        by_pool: shares(parts.by_pool, |at| pools.get(at).map(|pool| pool.1)),
        by_stream: shares(parts.by_stream, |at| streams.get(at).copied()),
        other_segments: rest.len() as u64,
        others,
        segments: told
            .map(|(segment, sums)| segment_sums(taken, *segment, *sums))
            .collect(),
        holes: parts.holes.into_values().collect(),
    }
}

/// What the driver would still give. Whoever checks the capacity, it is no more than what
/// is left of it.
pub(super) fn room_bytes(space: &Space) -> u64 {
    let left = space.capacity_bytes();
    let left = left.saturating_sub(space.counters().reserved_bytes);
    space.room_bytes().min(left)
}

/// Sums of the parts met so far.
struct Parts<'a> {
    taken: &'a Taken,
    live: BTreeMap<BlockId, &'a Live>,
    total: Sums,
    by_stream: BTreeMap<Option<u16>, Sums>,
    by_pool: BTreeMap<Option<u16>, Sums>,
    holes: BTreeMap<u32, SizeClass>,
}

impl Parts<'_> {
    /// Adds a segment; its sums.
    fn segment(&mut self, segment: SegmentId) -> Sums {
        let space = &self.taken.space;
        let owner = owner_of(self.taken, segment);
        let mut sums = Sums::default();
        for block in space.blocks(segment) {
            let mut one = of_block(space, block);
            let (mut stream, mut pool) = (owner.streams.one(), owner.pools.one());
            if let Some(live) = self.live.get(&block) {
                (one.live, one.requested_bytes) = (1, live.bytes);
                (stream, pool) = (Some(live.stream), Some(live.pool));
            }
            add(&mut sums, &one);
            add(self.by_stream.entry(stream).or_default(), &one);
            add(self.by_pool.entry(pool).or_default(), &one);
            if one.free_bytes > 0 {
                count(&mut self.holes, one.free_bytes);
            }
        }
        add(&mut self.total, &sums);
        sums
    }
}

/// Who used a segment.
pub(super) fn owner_of(taken: &Taken, segment: SegmentId) -> Owner {
    let known = taken.owners.get(segment.0 as usize);
    known.copied().unwrap_or_default()
}

fn of_block(space: &Space, block: BlockId) -> Sums {
    let bytes = space.bytes(block);
    let mut sums = Sums::default();
    match space.state(block) {
        State::Used => sums.occupied_bytes = bytes,
        State::Free => {
            sums.free_bytes = bytes;
            sums.free_blocks = 1;
            sums.largest_free_bytes = bytes;
        }
        State::Pending => sums.pending_bytes = bytes,
        State::Retired => sums.retired_bytes = bytes,
        // Lent pages are counted where they are used.
        State::Unmapped | State::Lent | State::Gone => return sums,
    }
    sums.reserved_bytes = bytes;
    sums
}

fn add(sums: &mut Sums, more: &Sums) {
    sums.live += more.live;
    sums.requested_bytes += more.requested_bytes;
    sums.occupied_bytes += more.occupied_bytes;
    sums.reserved_bytes += more.reserved_bytes;
    sums.free_bytes += more.free_bytes;
    sums.free_blocks += more.free_blocks;
    sums.largest_free_bytes = sums.largest_free_bytes.max(more.largest_free_bytes);
    sums.pending_bytes += more.pending_bytes;
    sums.retired_bytes += more.retired_bytes;
}

fn count(holes: &mut BTreeMap<u32, SizeClass>, bytes: u64) {
    let class = bytes.ilog2();
    let empty = SizeClass {
        from_bytes: 1 << class,
        count: 0,
        bytes: 0,
    };
    let hole = holes.entry(class).or_insert(empty);
    hole.count += 1;
    hole.bytes += bytes;
}

/// The parts that hold something, the nameless one last.
fn shares(parts: BTreeMap<Option<u16>, Sums>, handle: impl Fn(usize) -> Option<u64>) -> Vec<Share> {
    let mut shares: Vec<Share> = parts
        .into_iter()
        .filter(|(_, sums)| sums.reserved_bytes > 0)
        .map(|(number, sums)| Share {
            number,
            handle: number.and_then(|number| handle(usize::from(number))),
            sums,
        })
        .collect();
    shares.sort_by_key(|share| (share.number.is_none(), share.number));
    shares
}

fn segment_sums(taken: &Taken, segment: SegmentId, sums: Sums) -> SegmentSums {
    let space = &taken.space;
    let owner = owner_of(taken, segment);
    SegmentSums {
        address: space.segment_base(segment),
        bytes: space.segment_bytes(segment),
        expandable: space.segment_page(segment).is_some(),
        stream: owner.streams.one(),
        pool: owner.pools.one(),
        sums,
        map: map(space, segment),
    }
}

/// The letters of a segment.
fn map(space: &Space, segment: SegmentId) -> String {
    let (base, bytes) = (space.segment_base(segment), space.segment_bytes(segment));
    let edge = |letter: usize| {
        let at = u128::from(bytes) * letter as u128 / MAP_LETTERS as u128;
        base + at as u64
    };
    let mut cells = [[0_u64; 4]; MAP_LETTERS];
    let mut letter = 0;
    for block in space.blocks(segment) {
        let kind = match space.state(block) {
            State::Used | State::Lent => 0,
            State::Free => 1,
            State::Pending | State::Retired => 2,
            State::Unmapped | State::Gone => 3,
        };
        let mut from = space.base(block);
        while from < space.end(block) {
            while letter + 1 < MAP_LETTERS && edge(letter + 1) <= from {
                letter += 1;
            }
            let end = if letter + 1 < MAP_LETTERS {
                edge(letter + 1).min(space.end(block))
            } else {
                space.end(block)
            };
            cells[letter][kind] += end - from;
            from = end;
        }
    }
    let mut last = '_';
    let letters = cells.iter().map(|cell| {
        last = letter_of(cell).unwrap_or(last);
        last
    });
    letters.collect()
}

/// The letter of so many bytes in use, free, held back and not mapped; none of no bytes,
/// as in a segment of fewer bytes than a map has letters.
fn letter_of(cell: &[u64; 4]) -> Option<char> {
    let [used, free, held, unmapped] = *cell;
    let all = used + free + held + unmapped;
    Some(match () {
        () if all == 0 => return None,
        () if used == all => '#',
        () if used > 0 && used >= all - used => '+',
        () if used > 0 => '-',
        () if held > 0 => 'p',
        () if free >= unmapped => '.',
        () => '_',
    })
}
