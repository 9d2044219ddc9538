//! Keys and values of requests in memory, in each of the layouts, under one budget.

use std::collections::{BTreeMap, HashMap};

use super::arrivals::Job;
use super::{Layout, Spec};
use crate::synth::pen::{Held, Pen};
use crate::synth::requests::HASH_TOKENS;

/// The keys and values of one request.
#[derive(Debug, Default)]
pub struct Kv {
    /// Tokens whose keys and values are there.
    pub tokens: u64,
    /// Tokens of the prompt that were there already.
    pub shared_tokens: u64,
    /// Tokens that there is room for without asking for more.
    pub room_tokens: u64,
    own: Vec<Held>,
    /// The shared blocks of the prompt, in its order.
    shared: Vec<u64>,
}

/// A block that prompts share.
struct Shared {
    held: Held,
    users: u64,
    /// When its last user left: its place among those that nobody uses.
    left: u64,
}

/// All keys and values.
pub struct Cache<'a> {
    spec: &'a Spec,
    tag: u32,
    used_bytes: u64,
    shared: HashMap<u64, Shared>,
    /// The blocks that nobody uses, the longest unused first.
    unused: BTreeMap<u64, u64>,
    clock: u64,
}

impl<'a> Cache<'a> {
    pub fn new(spec: &'a Spec, pen: &mut Pen<'_>) -> Self {
        Cache {
            spec,
            tag: pen.tag("keys and values"),
            used_bytes: 0,
            shared: HashMap::new(),
            unused: BTreeMap::new(),
            clock: 0,
        }
    }

    /// Room for a prompt; `None` where the budget does not hold it now.
    pub fn admit(&mut self, job: &Job, pen: &mut Pen<'_>) -> Option<Kv> {
        let tokens = job.prompt_tokens;
        let spare_bytes = self.spare_bytes();
        match self.spec.layout {
            Layout::Reserve | Layout::ReservePower | Layout::ReserveExact => {
                self.tensors(self.reserved_tokens(job), spare_bytes, pen)
            }
            Layout::Concat => self.tensors(tokens, spare_bytes, pen),
            Layout::Blocks => self.blocks(tokens, &[], spare_bytes, pen),
            Layout::Shared => {
                let keys = self.keys(job);
                self.blocks(tokens, &keys, spare_bytes, pen)
            }
        }
        .map(|kv| Kv { tokens, ..kv })
    }

    /// Room for one token more; false where the budget does not hold it now.
    pub fn grow(&mut self, kv: &mut Kv, pen: &mut Pen<'_>) -> bool {
        if kv.tokens == kv.room_tokens {
            let longer = match self.spec.layout {
                Layout::Blocks | Layout::Shared => self.one_block_more(kv, pen),
                _ => self.one_token_more(kv, pen),
            };
            if longer.is_none() {
                return false;
            }
        }
        kv.tokens += 1;
        true
    }

    fn one_block_more(&mut self, kv: &mut Kv, pen: &mut Pen<'_>) -> Option<()> {
        kv.own.extend(self.take_all(1, self.block_bytes(), 0, pen)?);
        kv.room_tokens += self.spec.block_tokens;
        Some(())
    }

    /// A copy into longer tensors; both are there for a moment.
    fn one_token_more(&mut self, kv: &mut Kv, pen: &mut Pen<'_>) -> Option<()> {
        if !self.make_room(self.spec.kv_token_bytes, pen) {
            return None;
        }
        let longer_bytes = (kv.tokens + 1) * self.spec.kv_token_bytes / self.spec.kv_tensors;
        for tensor in &mut kv.own {
            // Some may be longer already, where another was refused before.
            if tensor.bytes < longer_bytes {
                let longer = self.take(longer_bytes, pen)?;
                self.free(std::mem::replace(tensor, longer), pen);
            }
        }
        kv.room_tokens += 1;
        Some(())
    }

    /// Distinct tokens of running requests, and tokens of blocks that are kept for others.
    pub fn held_tokens<'k>(&self, running: impl Iterator<Item = &'k Kv>) -> (u64, u64) {
        let block_tokens = self.spec.block_tokens;
        let own = running.map(|kv| kv.tokens - kv.shared.len() as u64 * block_tokens);
        let kept = self.unused.len() as u64;
        let used = self.shared.len() as u64 - kept;
        (own.sum::<u64>() + used * block_tokens, kept * block_tokens)
    }

    /// Bytes that were asked for and not given back.
    pub fn asked_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// A request leaves; the last of its blocks goes first, so that the beginnings of
    /// prompts, which others may share, stay the longest.
    pub fn give_back(&mut self, kv: Kv, pen: &mut Pen<'_>) {
        for held in kv.own.into_iter().rev() {
            self.free(held, pen);
        }
        self.leave(&kv.shared);
    }

    /// One user less for shared blocks.
    fn leave(&mut self, keys: &[u64]) {
        for &key in keys.iter().rev() {
            let block = self.shared.get_mut(&key).expect("it has a user");
            block.users -= 1;
            if block.users == 0 {
                block.left = self.clock;
                self.unused.insert(self.clock, key);
                self.clock += 1;
            }
        }
    }

    /// The service ends: what is kept for others goes.
    pub fn end(&mut self, pen: &mut Pen<'_>) {
        while self.evict(pen) {}
    }

    fn block_bytes(&self) -> u64 {
        self.spec.block_tokens * self.spec.kv_token_bytes
    }

    /// For how many tokens room is reserved at the start.
    fn reserved_tokens(&self, job: &Job) -> u64 {
        let longest = self.spec.longest_tokens;
        match self.spec.layout {
            Layout::ReserveExact => job.prompt_tokens + job.output_tokens,
            Layout::ReservePower => {
                longest.min(job.prompt_tokens + job.output_tokens.next_power_of_two())
            }
            _ => longest,
        }
    }

    /// Takes one piece of memory; where it is refused, blocks that nobody uses go first.
    fn take(&mut self, bytes: u64, pen: &mut Pen<'_>) -> Option<Held> {
        loop {
            if let Some(held) = pen.try_alloc(bytes, 0, self.tag) {
                self.used_bytes += bytes;
                return Some(held);
            }
            if !self.evict(pen) {
                return None;
            }
        }
    }

    /// What an admission leaves free; a request that would be alone may take all.
    fn spare_bytes(&self) -> u64 {
        let budget_bytes = u128::from(self.spec.budget_bytes);
        match self.used_bytes - self.idle_bytes() {
            0 => 0,
            _ => (budget_bytes * u128::from(self.spec.spare_percent) / 100) as u64,
        }
    }

    /// Takes so many pieces, or none where the budget would not hold them and
    /// `spare_bytes` more.
    fn take_all(
        &mut self,
        count: u64,
        bytes: u64,
        spare_bytes: u64,
        pen: &mut Pen<'_>,
    ) -> Option<Vec<Held>> {
        if !self.holds(count * bytes + spare_bytes) || !self.make_room(count * bytes, pen) {
            return None;
        }
        let mut taken = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let Some(held) = self.take(bytes, pen) else {
                for held in taken.into_iter().rev() {
                    self.free(held, pen);
                }
                return None;
            };
            taken.push(held);
        }
        Some(taken)
    }

    fn free(&mut self, held: Held, pen: &mut Pen<'_>) {
        self.used_bytes -= held.bytes;
        pen.free(held);
    }

    /// A request's tensors with room for `tokens`.
    fn tensors(&mut self, tokens: u64, spare_bytes: u64, pen: &mut Pen<'_>) -> Option<Kv> {
        let tensors = self.spec.kv_tensors;
        let each_bytes = tokens * self.spec.kv_token_bytes / tensors;
        Some(Kv {
            own: self.take_all(tensors, each_bytes, spare_bytes, pen)?,
            room_tokens: tokens,
            ..Kv::default()
        })
    }

    /// The names of the whole blocks of a prompt.
    fn keys(&self, job: &Job) -> Vec<u64> {
        let a_hash = HASH_TOKENS / self.spec.block_tokens;
        let whole = job.prompt_tokens / self.spec.block_tokens;
        let named = whole.min(job.hashes.len() as u64 * a_hash);
        let key = |block: u64| job.hashes[(block / a_hash) as usize] * a_hash + block % a_hash;
        (0..named).map(key).collect()
    }

    /// A prompt in blocks, of which the first are shared under `keys`.
    fn blocks(
        &mut self,
        tokens: u64,
        keys: &[u64],
        spare_bytes: u64,
        pen: &mut Pen<'_>,
    ) -> Option<Kv> {
        let known = keys
            .iter()
            .take_while(|key| self.shared.contains_key(key))
            .count();
        let there = keys.iter().filter(|key| self.shared.contains_key(key));
        let there: Vec<u64> = there.copied().collect();
        // What is there is held first, so that making room does not take it away. One in
        // the middle may be there where its beginning has gone.
        for key in &there {
            self.hold(*key);
        }
        let blocks = tokens.div_ceil(self.spec.block_tokens);
        let missing = blocks - there.len() as u64;
        let Some(fresh) = self.take_all(missing, self.block_bytes(), spare_bytes, pen) else {
            self.leave(&there);
            return None;
        };
        let mut fresh = fresh.into_iter();
        for key in keys {
            self.shared.entry(*key).or_insert_with(|| Shared {
                held: fresh.next().expect("as many were taken as are missing"),
                users: 1,
                left: 0,
            });
        }
        Some(Kv {
            shared_tokens: known as u64 * self.spec.block_tokens,
            room_tokens: blocks * self.spec.block_tokens,
            own: fresh.collect(),
            shared: keys.to_vec(),
            ..Kv::default()
        })
    }

    /// One user more for a shared block.
    fn hold(&mut self, key: u64) {
        let block = self.shared.get_mut(&key).expect("it is there");
        if block.users == 0 {
            self.unused.remove(&block.left);
        }
        block.users += 1;
    }

    /// Bytes of the blocks that nobody uses.
    fn idle_bytes(&self) -> u64 {
        self.unused.len() as u64 * self.block_bytes()
    }

    /// Whether the budget holds `bytes` more, were there no blocks that nobody uses.
    fn holds(&self, bytes: u64) -> bool {
        self.used_bytes - self.idle_bytes() + bytes <= self.spec.budget_bytes
    }

    /// Whether the budget holds `bytes` more, after blocks that nobody uses have gone.
    fn make_room(&mut self, bytes: u64, pen: &mut Pen<'_>) -> bool {
        if !self.holds(bytes) {
            return false;
        }
        while self.used_bytes + bytes > self.spec.budget_bytes {
            self.evict(pen);
        }
        true
    }

    /// The longest unused block goes; false where there is none.
    fn evict(&mut self, pen: &mut Pen<'_>) -> bool {
        let Some((_, key)) = self.unused.pop_first() else {
            return false;
        };
        let block = self.shared.remove(&key).expect("it was kept");
        self.free(block.held, pen);
        true
    }
}
