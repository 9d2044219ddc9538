//! Buckets: up to sixteen entries in no order, so that one comes and goes without shifting others.
//!
//! A bucket is one, two or four chunks that lie together. Searches look at all places of a chunk
//! without a branch on what lies there: it is what a predictor cannot guess.

use super::scale::Word;

/// Places in a chunk.
pub(super) const CHUNK: usize = 4;

/// Places in the largest bucket.
pub(super) const FULL: usize = 16;

/// Told where a block is added that is there already.
pub(super) const TWICE: &str = "an index was given the same block twice";

/// Marks a slot whose entries a node holds.
const NODE: u16 = u16::MAX;

/// A few entries in no order; unused places, at the end, hold [`Word::MAX`].
#[derive(Clone, Copy)]
pub(super) struct Chunk<W> {
    words: [W; CHUNK],
    blocks: [u32; CHUNK],
}

impl<W: Word> Chunk<W> {
    pub(super) const EMPTY: Self = Chunk {
        words: [W::MAX; CHUNK],
        blocks: [0; CHUNK],
    };

    #[inline]
    pub(super) fn get(&self, place: usize) -> (W, u32) {
        (self.words[place % CHUNK], self.blocks[place % CHUNK])
    }

    #[inline]
    pub(super) fn set(&mut self, place: usize, (word, block): (W, u32)) {
        self.words[place % CHUNK] = word;
        self.blocks[place % CHUNK] = block;
    }

    #[inline]
    pub(super) fn unset(&mut self, place: usize) {
        self.words[place % CHUNK] = W::MAX;
    }

    #[inline]
    pub(super) fn holds(&self, word: W) -> bool {
        // Never so, and therefore cheap to ask one after the other.
        let [a, b, c, d] = self.words;
        a == word || b == word || c == word || d == word
    }

    /// The place of a word if it is here, else any.
    #[inline]
    pub(super) fn place_of(&self, word: W) -> usize {
        let mut place = 0;
        for at in 1..CHUNK {
            place = if self.words[at] == word { at } else { place };
        }
        place
    }

    /// The place of least distance, with that distance.
    #[inline]
    pub(super) fn nearest(&self, distance: impl Fn(W) -> W) -> (W, usize) {
        let place = |at: usize| (distance(self.words[at]), at);
        nearer(nearer(place(0), place(1)), nearer(place(2), place(3)))
    }

    /// The place of the first entry not before `word`.
    #[inline]
    pub(super) fn at_least(&self, word: W) -> Option<usize> {
        let (distance, place) = self.nearest(|own| own.minus(word));
        is_from(distance, word).then_some(place)
    }

    /// The place of the last entry before `word`.
    #[inline]
    pub(super) fn below(&self, word: W) -> Option<usize> {
        let (distance, place) = self.nearest(|own| word.minus(own.next()));
        (distance < word).then_some(place)
    }
}

/// Whether a distance from `word` upwards is that of an entry: what is before `word` wraps round to
/// more than what an unused place gives.
#[inline]
fn is_from<W: Word>(distance: W, word: W) -> bool {
    distance < W::MAX.minus(word)
}

/// The better of two places, each with its distance.
#[inline]
fn nearer<W: Word>(one: (W, usize), other: (W, usize)) -> (W, usize) {
    let is_other = other.0 < one.0;
    (
        if is_other { other.0 } else { one.0 },
        if is_other { other.1 } else { one.1 },
    )
}

/// Where the entries of a full bin or of a digit lie: in a bucket, or below a node.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// First chunk of the bucket, or number of the node.
    pub(super) at: u32,
    len: u16,
    /// Places of the bucket; none before the first entry.
    room: u16,
}

impl Slot {
    /// No bucket.
    pub(super) const NONE: Slot = Slot {
        at: 0,
        len: 0,
        room: 0,
    };

    /// Whether a chunk would do for long.
    #[inline]
    pub(super) fn is_few(self) -> bool {
        self.len <= CHUNK as u16 / 2
    }

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

    /// Whether half of the places would do for long.
    #[inline]
    pub(super) fn is_sparse(self) -> bool {
        self.len * 4 <= self.room && self.room > CHUNK as u16
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

/// The pool of all buckets of an index.
pub(super) struct Buckets<W> {
    chunks: Vec<Chunk<W>>,
    /// First chunks of buckets that nobody uses, by the logarithm of their chunks.
    spare: [Vec<u32>; 3],
}

impl<W: Word> Buckets<W> {
    pub(super) fn new() -> Self {
        Buckets {
            chunks: Vec::new(),
            spare: Default::default(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.spare.iter_mut().for_each(Vec::clear);
    }

    /// A bucket without entries; `room` is a chunk times a power of two.
    pub(super) fn new_bucket(&mut self, room: usize) -> Slot {
        let chunks = room / CHUNK;
        let at = self.spare[chunks.ilog2() as usize].pop().unwrap_or_else(|| {
            let at = self.chunks.len();
            self.chunks.resize(at + chunks, Chunk::EMPTY);
            at as u32
        });
        let room = room as u16;
        Slot { at, len: 0, room }
    }

    /// Gives the bucket of a slot back.
    pub(super) fn free(&mut self, slot: Slot) {
        if slot.room > 0 {
            let (at, chunks) = (slot.at as usize, slot.room() / CHUNK);
            self.chunks[at..at + chunks].fill(Chunk::EMPTY);
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
            let entry = self.get(slot, place);
            self.push(&mut new, entry);
        }
        self.free(slot);
        new
    }

    /// The chunks of a bucket.
    #[inline]
    fn chunks(&self, slot: Slot) -> &[Chunk<W>] {
        &self.chunks[slot.at as usize..][..slot.room() / CHUNK]
    }

    /// The entry at a place.
    #[inline]
    pub(super) fn get(&self, slot: Slot, place: usize) -> (W, u32) {
        self.chunks[slot.at as usize + place / CHUNK].get(place)
    }

    /// Adds an entry to a bucket that has room. Panics if it is there already.
    #[inline]
    pub(super) fn push(&mut self, slot: &mut Slot, entry: (W, u32)) {
        let taken = self.chunks(*slot).iter().any(|chunk| chunk.holds(entry.0));
        assert!(!taken, "{TWICE}");
        let place = slot.len();
        self.chunks[slot.at as usize + place / CHUNK].set(place, entry);
        slot.len += 1;
    }

    /// Takes an entry out; false if it is not in the bucket.
    #[inline]
    pub(super) fn take(&mut self, slot: &mut Slot, word: W) -> bool {
        let mut place = 0;
        let Some(chunks) = self.chunks.get_mut(slot.at as usize..) else {
            return false;
        };
        let Some(chunks) = chunks.get_mut(..slot.room() / CHUNK) else {
            return false;
        };
        for (at, chunk) in chunks.iter().enumerate() {
            for lane in 0..CHUNK {
                let is_here = chunk.words[lane] == word;
                place = if is_here { at * CHUNK + lane } else { place };
            }
        }
        let Some(own) = chunks.get(place / CHUNK) else {
            return false;
        };
        if own.get(place).0 != word {
            return false;
        }
        slot.len -= 1;
        let last = slot.len();
        let entry = chunks[last / CHUNK].get(last);
        chunks[place / CHUNK].set(place, entry);
        chunks[last / CHUNK].unset(last);
        true
    }

    /// The entry of least distance, with that distance; of unused places it is that of [`Word::MAX`].
    #[inline]
    fn nearest(&self, slot: Slot, distance: impl Fn(W) -> W) -> (W, usize) {
        let mut best = (W::MAX, 0);
        for (at, chunk) in self.chunks(slot).iter().enumerate() {
            let (near, place) = chunk.nearest(&distance);
            best = nearer(best, (near, at * CHUNK + place));
        }
        best
    }

    /// The first entry in order that is not before `word`.
    #[inline]
    pub(super) fn at_least(&self, slot: Slot, word: W) -> Option<(W, u32)> {
        let (distance, place) = self.nearest(slot, |own| own.minus(word));
        is_from(distance, word).then(|| self.get(slot, place))
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
        let places = self.chunks(slot).iter().flat_map(|chunk| chunk.words);
        let mut words: Vec<W> = places.collect();
        assert!(words[slot.len()..].iter().all(|word| *word == W::MAX));
        words.truncate(slot.len());
        words
    }

    /// Chunks of buckets that are not spare; for tests.
    #[cfg(test)]
    pub(super) fn chunks_in_use(&self) -> usize {
        let spare = self.spare.iter().enumerate();
        self.chunks.len() - spare.map(|(log, at)| at.len() << log).sum::<usize>()
    }
}
