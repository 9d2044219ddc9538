//! Inference serving of a large language model: requests arrive, wait for admission, and
//! each keeps keys and values of its tokens until it has been answered.
//!
//! Sources: Yu et al., Orca, OSDI 2022 (a batch is put together anew for every iteration);
//! Kwon et al., PagedAttention, SOSP 2023 (keys and values in blocks, preemption of the
//! last admitted, whole reservations as what they replace); Qin et al., Mooncake, FAST 2025
//! (prompts that begin alike share blocks); Patel et al., Splitwise, ISCA 2024 (arrivals).
//!
//! An iteration: waiting requests are admitted in their order while the budget holds; the
//! prompts of the new ones and one token of each of the others are computed, in workspace
//! that goes at the end; every request grows by one token; those that are answered give
//! their memory back. Where growth passes the budget, the last admitted is put back to wait
//! and later computes its tokens again.

mod arrivals;
mod cache;

use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::Family;
use super::pen::{Held, Pen, Stage};
use crate::units::{serde_bytes, serde_nanos};
use arrivals::{Arrivals, Job};
use cache::{Cache, Kv};

/// How the keys and values of a request lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Room for `longest_tokens` from the start.
    Reserve,
    /// Room for the prompt and the next power of two of the answer's tokens.
    ReservePower,
    /// Room for the prompt and the answer, as if its length were known.
    ReserveExact,
    /// Exactly what there is: each token is appended by a copy into a larger tensor.
    Concat,
    /// Blocks of `block_tokens`.
    Blocks,
    /// Blocks, and whole blocks of prompts that begin alike are held once; those that
    /// nobody uses stay until room is needed, the longest unused goes first.
    Shared,
}

impl fmt::Display for Layout {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(to)
    }
}

/// What the keys and values were in one iteration, while its time passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Iteration {
    /// When it began.
    pub begins_ns: u64,
    /// How long it took.
    pub lasts_ns: u64,
    /// Requests in it; each of them got one token.
    pub running: u64,
    /// Whether one more had come and waited.
    pub waiting: bool,
    /// Prompt tokens that it computed.
    pub computed_tokens: u64,
    /// Prompt tokens that were there already.
    pub shared_tokens: u64,
    /// Requests put back to wait, as growth found no room.
    pub preempted: u64,
    /// Requests given up, as there was no room for them though they were alone.
    pub lost: u64,
    /// Requests that were answered at its end.
    pub answered: u64,
    /// Bytes of the distinct tokens of its requests.
    pub held_bytes: u64,
    /// Bytes that are reserved for tokens which the same request will have.
    pub later_bytes: u64,
    /// Bytes of blocks that no request uses, kept for one that begins alike.
    pub kept_bytes: u64,
    /// Bytes asked for and not given back: all of these, and what no token will ever fill.
    pub asked_bytes: u64,
}

/// Hears of every iteration before its time passes, and may end the service.
pub type Watch<'a> = &'a mut dyn FnMut(&Iteration) -> ControlFlow<()>;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// All weights together.
    #[serde(with = "serde_bytes")]
    pub weights_bytes: u64,
    /// In how many equal requests the weights are loaded.
    pub weight_tensors: u64,
    /// Keys and values of one token, over all layers.
    #[serde(with = "serde_bytes")]
    pub kv_token_bytes: u64,
    /// How they lie in memory.
    pub layout: Layout,
    /// Tokens of a block.
    pub block_tokens: u64,
    /// In how many tensors a reservation or a concatenation lies: 1, or 2 a layer.
    pub kv_tensors: u64,
    /// Prompt and answer are cut to this many tokens together.
    pub longest_tokens: u64,
    /// What all keys and values may take; who does not fit waits.
    #[serde(with = "serde_bytes")]
    pub budget_bytes: u64,
    /// What an admission leaves of the budget while others run, for them to grow, in percent.
    #[serde(default)]
    pub spare_percent: u64,
    /// How many requests are answered at once.
    pub running_most: u64,
    /// Prompt tokens of one iteration; a longer prompt has one to itself.
    pub batch_tokens: u64,
    /// Workspace of an iteration, for each token that it computes.
    #[serde(with = "serde_bytes")]
    pub workspace_token_bytes: u64,
    /// The logits of a request: one row of the vocabulary.
    #[serde(with = "serde_bytes")]
    pub logits_bytes: u64,
    /// How long an iteration takes.
    #[serde(with = "serde_nanos")]
    pub iteration: u64,
    /// How much longer for each prompt token.
    #[serde(with = "serde_nanos")]
    pub prompt_token: u64,
    /// Where the requests come from.
    pub arrivals: Arrivals,
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage::default()
    }

    fn check(&self) -> Result<(), String> {
        for (key, value) in [
            ("weight_tensors", self.weight_tensors),
            ("kv_token_bytes", self.kv_token_bytes),
            ("block_tokens", self.block_tokens),
            ("kv_tensors", self.kv_tensors),
            ("running_most", self.running_most),
            ("iteration", self.iteration),
        ] {
            if value == 0 {
                return Err(format!("{key} = 0: expected 1 or more"));
            }
        }
        if self.longest_tokens < 2 || self.longest_tokens > 1 << 30 {
            return Err(
                "longest_tokens: a prompt and an answer have 2 tokens or more, and at most 2^30"
                    .into(),
            );
        }
        if self.spare_percent > 99 {
            return Err("spare_percent: expected 99 at most".into());
        }
        if !self.weights_bytes.is_multiple_of(self.weight_tensors) {
            return Err("weights_bytes is no multiple of weight_tensors".into());
        }
        if !self.kv_token_bytes.is_multiple_of(self.kv_tensors) {
            return Err("kv_token_bytes is no multiple of kv_tensors".into());
        }
        if self.layout == Layout::Shared
            && !super::requests::HASH_TOKENS.is_multiple_of(self.block_tokens)
        {
            return Err("block_tokens must divide 512, the tokens of a hash, to share".into());
        }
        let tokens = self.longest_tokens.next_multiple_of(self.block_tokens);
        if tokens
            .checked_mul(self.kv_token_bytes)
            .is_none_or(|bytes| bytes > self.budget_bytes)
        {
            return Err(format!(
                "budget_bytes holds less than one request of {} tokens: it would wait for ever",
                self.longest_tokens
            ));
        }
        self.arrivals.check()
    }

    fn ready(&self) -> Result<(), String> {
        self.arrivals.ready()
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let tag = pen.tag("weights");
        let bytes = self.weights_bytes / self.weight_tensors;
        let weights = (0..self.weight_tensors).map(|_| pen.alloc(bytes, 0, tag));
        let weights: Vec<_> = weights.collect();
        self.serve(seed, pen, true, &mut |_| ControlFlow::Continue(()));
        for tensor in weights {
            pen.free(tensor);
        }
    }
}

impl Spec {
    /// Serves keys and values alone: no weights, no workspace. Where the memory behind the
    /// pen refuses a request, it waits, or the last admitted is put back.
    pub fn play_cache(&self, seed: u64, pen: &mut Pen<'_>, watch: Watch<'_>) {
        self.serve(seed, pen, false, watch);
    }

    fn serve(&self, seed: u64, pen: &mut Pen<'_>, computes: bool, watch: Watch<'_>) {
        let mut engine = Engine {
            spec: self,
            cache: Cache::new(self, pen),
            tags: computes.then(|| [pen.tag("workspace"), pen.tag("logits")]),
            seen: Iteration::default(),
            running: Vec::new(),
            preempted: VecDeque::new(),
            arrivals: self.arrivals.jobs(seed, self.longest_tokens),
            next: None,
        };
        engine.run(pen, watch);
        engine.cache.end(pen);
    }
}

/// A request that is being answered.
struct Running {
    job: Job,
    kv: Kv,
    left: u64,
}

/// The scheduler.
struct Engine<'a> {
    spec: &'a Spec,
    cache: Cache<'a>,
    /// Workspace and logits, where it has them.
    tags: Option<[u32; 2]>,
    /// What is known of the present iteration.
    seen: Iteration,
    /// In the order of their admission.
    running: Vec<Running>,
    preempted: VecDeque<Job>,
    arrivals: Box<dyn Iterator<Item = Job>>,
    /// The first that waits, or that is to come: they are admitted in order, so that the
    /// others need not be read yet.
    next: Option<Job>,
}

impl Engine<'_> {
    fn run(&mut self, pen: &mut Pen<'_>, watch: Watch<'_>) {
        while !pen.done() {
            let before = self.running.len() as u64;
            self.admit(pen);
            if self.running.is_empty() {
                match &self.next {
                    Some(job) => pen.at(job.arrival_ns),
                    None => {
                        // What was given up since the last iteration is told, too.
                        let _ = watch(&self.seen);
                        return;
                    }
                }
                continue;
            }
            let beside = self.compute(before + self.seen.computed_tokens, pen);
            self.grow(pen);
            let prompt_tokens = self.seen.computed_tokens;
            let lasts_ns = prompt_tokens.saturating_mul(self.spec.prompt_token);
            self.seen.lasts_ns = self.spec.iteration.saturating_add(lasts_ns);
            self.look(pen.now_ns());
            let seen = std::mem::take(&mut self.seen);
            if watch(&seen).is_break() {
                return;
            }
            pen.wait_ns(seen.lasts_ns);
            for tensor in beside.into_iter().flatten() {
                pen.free(tensor);
            }
            self.retire(pen);
        }
    }

    /// Workspace and logits of an iteration.
    fn compute(&mut self, tokens: u64, pen: &mut Pen<'_>) -> Option<[Held; 2]> {
        let [workspace, logits] = self.tags?;
        let workspace_bytes = tokens.max(1) * self.spec.workspace_token_bytes.max(1);
        let rows = self.running.len() as u64;
        Some([
            pen.alloc(workspace_bytes, 0, workspace),
            pen.alloc(rows * self.spec.logits_bytes.max(1), 0, logits),
        ])
    }

    /// Notes what is held while the iteration's time passes.
    fn look(&mut self, now_ns: u64) {
        let kvs = self.running.iter().map(|running| &running.kv);
        let (held_tokens, kept_tokens) = self.cache.held_tokens(kvs);
        let later = self.running.iter().map(|running| {
            let empty = running.kv.room_tokens - running.kv.tokens;
            empty.min(running.left)
        });
        let token_bytes = self.spec.kv_token_bytes;
        self.seen.begins_ns = now_ns;
        self.seen.later_bytes = later.sum::<u64>() * token_bytes;
        self.seen.held_bytes = held_tokens * token_bytes;
        self.seen.kept_bytes = kept_tokens * token_bytes;
        self.seen.asked_bytes = self.cache.asked_bytes();
        self.seen.running = self.running.len() as u64;
        let done = self.running.iter().filter(|running| running.left == 0);
        self.seen.answered = done.count() as u64;
        self.seen.waiting = !self.preempted.is_empty() || self.has_come(now_ns);
    }

    /// Admits what waits, in its order, and notes how many prompt tokens that computes.
    fn admit(&mut self, pen: &mut Pen<'_>) {
        let mut computed = 0;
        while (self.running.len() as u64) < self.spec.running_most {
            let Some(job) = self.waiting(pen.now_ns()) else {
                break;
            };
            let fits = computed == 0 || computed + job.prompt_tokens <= self.spec.batch_tokens;
            let kv = if fits {
                self.cache.admit(&job, pen)
            } else {
                None
            };
            let Some(kv) = kv else {
                if self.running.is_empty() {
                    // Nothing that could end would make room for it.
                    self.seen.lost += 1;
                    continue;
                }
                self.preempted.push_front(job);
                break;
            };
            computed += job.prompt_tokens - kv.shared_tokens;
            self.seen.shared_tokens += kv.shared_tokens;
            let left = job.output_tokens;
            self.running.push(Running { job, kv, left });
        }
        self.seen.computed_tokens = computed;
    }

    /// The first that waits.
    fn waiting(&mut self, now_ns: u64) -> Option<Job> {
        if let Some(job) = self.preempted.pop_front() {
            return Some(job);
        }
        self.has_come(now_ns).then(|| self.next.take()).flatten()
    }

    /// Whether a request that was never admitted has come.
    fn has_come(&mut self, now_ns: u64) -> bool {
        if self.next.is_none() {
            self.next = self.arrivals.next();
        }
        let next = self.next.as_ref();
        next.is_some_and(|job| job.arrival_ns <= now_ns)
    }

    /// One token more for everyone, the first admitted first.
    fn grow(&mut self, pen: &mut Pen<'_>) {
        let mut at = 0;
        while at < self.running.len() {
            if self.cache.grow(&mut self.running[at].kv, pen) {
                self.running[at].left -= 1;
                at += 1;
                continue;
            }
            let victim = self.running.pop().expect("it holds the one that grows");
            let mut job = victim.job;
            job.prompt_tokens = victim.kv.tokens;
            job.output_tokens = victim.left;
            self.cache.give_back(victim.kv, pen);
            if self.running.is_empty() {
                // Alone it would meet the same end again.
                self.seen.lost += 1;
            } else {
                self.seen.preempted += 1;
                self.preempted.push_front(job);
            }
        }
    }

    /// Those that are answered leave.
    fn retire(&mut self, pen: &mut Pen<'_>) {
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].left > 0 {
                at += 1;
                continue;
            }
            let done = self.running.remove(at);
            self.cache.give_back(done.kv, pen);
        }
    }
}

#[cfg(test)]
mod tests;
