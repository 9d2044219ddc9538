//! Buckets: up to sixteen entries in no order, so that one comes and goes without shifting others.
//!
//! A bucket is one, two or four chunks of a pool that lie together. Searches look at all of
//! its places without a branch on what lies there: it is what a predictor cannot guess.

use super::scale::Word;

/// Places in a chunk.
const CHUNK: usize = 4;

/// Places in the largest bucket.
pub(super) const FULL: usize = 16;

/// Marks a slot whose entries a node holds.
const NODE: u16 = u16::MAX;

/// Where the entries of a bin or of a digit lie: in a bucket, or below a node.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// First chunk of the bucket, or number of the node.
    pub(super) at: u32,
    len: u16,
    /// Places of the bucket; none before the first entry.
    room: u16,
}

impl Slot {
    pub(super) fn of_node(at: u32) -> Self {
        let (len, room) = (NODE, NODE);
        Slot { at, len, room }
    }

    #[inline]
    pub(super) fn is_node(self) -> bool {
        self.room == NODE
    }

    /// Whether a bucket has a free place.
    #[inline]
    pub(super) fn has_room(self) -> bool {
        self.len < self.room
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Whether so few places are taken that half of them would do.
    #[inline]
    pub(super) fn is_sparse(self) -> bool {
        self.len * 4 < self.room && self.room > CHUNK as u16
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.len)
    }

    #[inline]
    pub(super) fn room(self) -> usize {
        usize::from(self.room)
    }
}

/// The better of two places, each with its distance.
#[inline]
fn nearer<W: Word>(one: (W, usize), other: (W, usize)) -> (W, usize) {
    if other.0 < one.0 { other } else { one }
}

/// The place of least distance in chunks that lie together.
#[inline]
fn nearest<W: Word, const N: usize>(
    chunks: &[[W; CHUNK]],
    distance: impl Fn(W) -> W,
) -> (W, usize) {
    let chunks: &[[W; CHUNK]; N] = chunks.first_chunk().expect("a whole bucket");
    let mut best = (W::MAX, 0);
    for (at, chunk) in chunks.iter().enumerate() {
        let place = |lane: usize| (distance(chunk[lane]), at * CHUNK + lane);
        let of_chunk = nearer(nearer(place(0), place(1)), nearer(place(2), place(3)));
        best = if at == 0 { of_chunk } else { nearer(best, of_chunk) };
    }
    best
}

/// One bit for each place that holds `word`.
#[inline]
fn places<W: Word, const N: usize>(chunks: &[[W; CHUNK]], word: W) -> u32 {
    let chunks: &[[W; CHUNK]; N] = chunks.first_chunk().expect("a whole bucket");
    let places = chunks.as_flattened().iter().enumerate();
    places.fold(0, |bits, (at, own)| bits | u32::from(*own == word) << at)
}

/// The pool of all buckets of an index.
pub(super) struct Buckets<W> {
    words: Vec<[W; CHUNK]>,
    blocks: Vec<[u32; CHUNK]>,
    /// First chunks of buckets that nobody uses, by the logarithm of their chunks.
    spare: [Vec<u32>; 3],
}

impl<W: Word> Buckets<W> {
    pub(super) fn new() -> Self {
        Buckets {
            words: Vec::new(),
            blocks: Vec::new(),
            spare: Default::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.blocks.clear();
        self.spare.iter_mut().for_each(Vec::clear);
    }

    /// A bucket without entries; `room` is a chunk times a power of two.
    pub(super) fn new_bucket(&mut self, room: usize) -> Slot {
        let chunks = room / CHUNK;
        let at = self.spare[chunks.ilog2() as usize].pop().unwrap_or_else(|| {
            let at = self.words.len();
            self.words.resize(at + chunks, [W::MAX; CHUNK]);
            self.blocks.resize(at + chunks, [0; CHUNK]);
            at as u32
        });
        let room = room as u16;
        Slot { at, len: 0, room }
    }

    /// Gives the bucket of a slot back.
    pub(super) fn free(&mut self, slot: Slot) {
        if slot.room > 0 {
            let (at, chunks) = (slot.at as usize, slot.room() / CHUNK);
            self.words[at..at + chunks].fill([W::MAX; CHUNK]);
            self.spare[chunks.ilog2() as usize].push(slot.at);
        }
    }

    /// Twice the places for the entries of a bucket, or the first.
    #[cold]
    pub(super) fn grow(&mut self, slot: Slot) -> Slot {
        self.resize(slot, (slot.room() * 2).max(CHUNK))
    }

    /// Half the places for the entries of a bucket.
    #[cold]
    pub(super) fn shrink(&mut self, slot: Slot) -> Slot {
        self.resize(slot, slot.room() / 2)
    }

    fn resize(&mut self, slot: Slot, room: usize) -> Slot {
        let mut new = self.new_bucket(room);
        for place in 0..slot.len() {
            let (word, block) = self.get(slot, place);
            self.push(&mut new, word, block);
        }
        self.free(slot);
        new
    }

    #[inline]
    fn chunks(&self, slot: Slot) -> &[[W; CHUNK]] {
        &self.words[slot.at as usize..]
    }

    /// Adds an entry to a bucket that has room. Panics if it is there already.
    #[inline]
    pub(super) fn push(&mut self, slot: &mut Slot, word: W, block: u32) {
        let taken = self.position(*slot, word).is_some();
        assert!(!taken, "an index was given the same block twice");
        self.set(*slot, slot.len(), word, block);
        slot.len += 1;
    }

    #[inline]
    fn set(&mut self, slot: Slot, place: usize, word: W, block: u32) {
        let at = slot.at as usize + place / CHUNK;
        self.words[at][place % CHUNK] = word;
        self.blocks[at][place % CHUNK] = block;
    }

    /// The entry at a place.
    #[inline]
    pub(super) fn get(&self, slot: Slot, place: usize) -> (W, u32) {
        let at = slot.at as usize + place / CHUNK;
        (self.words[at][place % CHUNK], self.blocks[at][place % CHUNK])
    }

    /// The place of a word; `None` where it is not in the bucket.
    #[inline]
    fn position(&self, slot: Slot, word: W) -> Option<usize> {
        let places = match slot.room() / CHUNK {
            0 => 0,
            1 => places::<W, 1>(self.chunks(slot), word),
            2 => places::<W, 2>(self.chunks(slot), word),
            _ => places::<W, 4>(self.chunks(slot), word),
        };
        (places != 0).then_some(places.trailing_zeros() as usize)
    }

    /// Takes an entry out; false if it is not in the bucket.
    #[inline]
    pub(super) fn take(&mut self, slot: &mut Slot, word: W) -> bool {
        let Some(place) = self.position(*slot, word) else {
            return false;
        };
        slot.len -= 1;
        let (word, block) = self.get(*slot, slot.len());
        self.set(*slot, place, word, block);
        self.words[slot.at as usize + slot.len() / CHUNK][slot.len() % CHUNK] = W::MAX;
        true
    }

    /// The entry of least distance, with that distance; of unused places it is that of [`Word::MAX`].
    #[inline]
    fn nearest(&self, slot: Slot, distance: impl Fn(W) -> W) -> (W, usize) {
        match slot.room() / CHUNK {
            0 => (W::MAX, 0),
            1 => nearest::<W, 1>(self.chunks(slot), distance),
            2 => nearest::<W, 2>(self.chunks(slot), distance),
            _ => nearest::<W, 4>(self.chunks(slot), distance),
        }
    }

    /// The first entry in order that is not before `word`.
    #[inline]
    pub(super) fn at_least(&self, slot: Slot, word: W) -> Option<(W, u32)> {
        // What is before `word` wraps round to more than what an unused place gives.
        let (distance, place) = self.nearest(slot, |own| own.minus(word));
        (distance < W::MAX.minus(word)).then(|| self.get(slot, place))
    }

    /// The last entry in order that is before `word`.
    #[inline]
    pub(super) fn below(&self, slot: Slot, word: W) -> Option<(W, u32)> {
        // What is not before `word` wraps round to `word` or more.
        let (distance, place) = self.nearest(slot, |own| word.minus(own.next()));
        (distance < word).then(|| self.get(slot, place))
    }

    /// Panics unless a bucket agrees with itself; returns its words. For tests.
    #[cfg(test)]
    pub(super) fn check(&self, slot: Slot) -> Vec<W> {
        assert!(slot.len <= slot.room && slot.room() <= FULL && !slot.is_sparse());
        let places = self.chunks(slot).as_flattened();
        let (words, unused) = places[..slot.room()].split_at(slot.len());
        assert!(unused.iter().all(|word| *word == W::MAX));
        words.to_vec()
    }

    /// Chunks of buckets that are not spare; for tests.
    #[cfg(test)]
    pub(super) fn chunks_in_use(&self) -> usize {
        let spare = self.spare.iter().enumerate();
        self.words.len() - spare.map(|(log, at)| at.len() << log).sum::<usize>()
    }
}
