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
        let token_bytes = self.spec.kv_token_bytes;
        match self.spec.layout {
            Layout::Reserve => self.tensors(self.spec.longest_tokens * token_bytes, pen),
            Layout::Concat => self.tensors(tokens * token_bytes, pen),
            Layout::Blocks => self.blocks(tokens, &[], pen),
            Layout::Shared => {
                let keys = self.keys(job);
                self.blocks(tokens, &keys, pen)
            }
        }
        .map(|kv| Kv { tokens, ..kv })
    }

    /// Room for one token more; false where the budget does not hold it now.
    pub fn grow(&mut self, kv: &mut Kv, pen: &mut Pen<'_>) -> bool {
        let (token_bytes, block_tokens) = (self.spec.kv_token_bytes, self.spec.block_tokens);
        match self.spec.layout {
            Layout::Reserve => {}
            Layout::Concat => {
                if !self.make_room(token_bytes, pen) {
                    return false;
                }
                for tensor in &mut kv.own {
                    let longer = tensor.bytes + token_bytes / self.spec.kv_tensors;
                    let longer = pen.alloc(longer, 0, self.tag);
                    pen.free(std::mem::replace(tensor, longer));
                }
                self.used_bytes += token_bytes;
            }
            Layout::Blocks | Layout::Shared => {
                if kv.tokens.is_multiple_of(block_tokens) {
                    if !self.make_room(self.block_bytes(), pen) {
                        return false;
                    }
                    let block = self.take(self.block_bytes(), pen);
                    kv.own.push(block);
                }
            }
        }
        kv.tokens += 1;
        true
    }

    /// A request leaves; the last of its blocks goes first, so that the beginnings of
    /// prompts, which others may share, stay the longest.
    pub fn give_back(&mut self, kv: Kv, pen: &mut Pen<'_>) {
        for held in kv.own.into_iter().rev() {
            self.used_bytes -= held.bytes;
            pen.free(held);
        }
        for key in kv.shared.into_iter().rev() {
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

    fn take(&mut self, bytes: u64, pen: &mut Pen<'_>) -> Held {
        self.used_bytes += bytes;
        pen.alloc(bytes, 0, self.tag)
    }

    /// A request's tensors, `bytes` together.
    fn tensors(&mut self, bytes: u64, pen: &mut Pen<'_>) -> Option<Kv> {
        let each = bytes / self.spec.kv_tensors;
        self.make_room(bytes, pen).then(|| Kv {
            own: (0..self.spec.kv_tensors)
                .map(|_| self.take(each, pen))
                .collect(),
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
    fn blocks(&mut self, tokens: u64, keys: &[u64], pen: &mut Pen<'_>) -> Option<Kv> {
        let known = keys
            .iter()
            .take_while(|key| self.shared.contains_key(key))
            .count();
        let mut kv = Kv::default();
        // What is there is held first, so that making room does not take it away.
        for key in &keys[..known] {
            self.hold(*key);
            kv.shared.push(*key);
        }
        let blocks = tokens.div_ceil(self.spec.block_tokens) - known as u64;
        if !self.make_room(blocks * self.block_bytes(), pen) {
            self.give_back(kv, pen);
            return None;
        }
        kv.shared_tokens = known as u64 * self.spec.block_tokens;
        for key in &keys[known..] {
            // One in the middle may be there where its beginning has gone.
            if self.shared.contains_key(key) {
                self.hold(*key);
            } else {
                let (held, users, left) = (self.take(self.block_bytes(), pen), 1, 0);
                self.shared.insert(*key, Shared { held, users, left });
            }
            kv.shared.push(*key);
        }
        for _ in keys.len() as u64..tokens.div_ceil(self.spec.block_tokens) {
            let block = self.take(self.block_bytes(), pen);
            kv.own.push(block);
        }
        Some(kv)
    }

    /// One user more for a shared block.
    fn hold(&mut self, key: u64) {
        let block = self.shared.get_mut(&key).expect("it is there");
        if block.users == 0 {
            self.unused.remove(&block.left);
        }
        block.users += 1;
    }

    /// Whether the budget holds `bytes` more, after blocks that nobody uses have gone.
    fn make_room(&mut self, bytes: u64, pen: &mut Pen<'_>) -> bool {
        let idle_bytes = self.unused.len() as u64 * self.block_bytes();
        if self.used_bytes - idle_bytes + bytes > self.spec.budget_bytes {
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
        self.used_bytes -= block.held.bytes;
        pen.free(block.held);
        true
    }
}
