//! A service that runs for months: models come and go, sessions have a day and a night,
//! a cache grows, and what watches over it all lives for weeks.
//!
//! It imitates what operators tell of inference servers: after two months 3 of 8 GiB are
//! used, and 100 MiB are refused. Nothing in it is made to fragment. Sessions take memory
//! by day and have given all of it back by night; the cache and the monitor take a little
//! at any time and keep it, also in the hours in which the only holes left are between
//! the buffers of a busy day. When the day is over, what they keep stands among holes.
//!
//! The rate of sessions rises from 6 to 14 hours and falls until 22, a triangle; a session
//! holds its buffers for an exponential time, and is turned away where sessions hold
//! `sessions_bytes` already. It leaves an entry in the cache with a small chance; a full
//! cache evicts a random entry. A model is a row of equal layers and one large table; at
//! exponential intervals one goes and another is loaded. At 3 in the night a job asks for
//! `night_bytes`, for ten minutes.

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::dues::Dues;
use super::law::Range;
use super::pen::{Held, Pen, Stage};
use crate::units::{serde_bytes, serde_nanos};

const HOUR_NS: u64 = 3_600_000_000_000;
const DAY_NS: u64 = 24 * HOUR_NS;
/// When sessions are most frequent, and how long before and after they begin and end.
const NOON_NS: u64 = 14 * HOUR_NS;
const HALF_DAY_NS: u64 = 8 * HOUR_NS;
const NIGHT_NS: u64 = 3 * HOUR_NS;
const NIGHT_JOB_NS: u64 = HOUR_NS / 6;

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// How many models are resident.
    pub models: u64,
    /// A model has at least so many layers.
    pub least_layers: u64,
    /// A model has at most so many layers.
    pub most_layers: u64,
    /// Bytes of a layer: one draw a model.
    pub layer: Range,
    /// Bytes of a model's table (its embeddings).
    pub table: Range,
    /// The mean time until one model is replaced by another.
    #[serde(with = "serde_nanos")]
    pub replace_after: u64,
    /// Sessions that arrive on an average day.
    pub sessions_a_day: u64,
    /// Buffers of a session.
    pub buffers: u64,
    /// Bytes of a buffer.
    pub buffer: Range,
    /// The mean time that a session lasts.
    #[serde(with = "serde_nanos")]
    pub session_time: u64,
    /// Sessions hold no more than this together: others are turned away.
    #[serde(with = "serde_bytes")]
    pub sessions_bytes: u64,
    /// In how many of a million cases a session leaves an entry in the cache.
    pub cached_ppm: u64,
    /// Bytes of a cache entry.
    pub entry: Range,
    /// The cache holds no more than this.
    #[serde(with = "serde_bytes")]
    pub cache_bytes: u64,
    /// In how many of a million cases a session leaves a record with the monitor.
    pub record_ppm: u64,
    /// Bytes of a record.
    #[serde(with = "serde_bytes")]
    pub record_bytes: u64,
    /// The mean time for which a record is kept.
    #[serde(with = "serde_nanos")]
    pub record_time: u64,
    /// Bytes that the nightly job asks for.
    #[serde(with = "serde_bytes")]
    pub night_bytes: u64,
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage::default()
    }

    fn check(&self) -> Result<(), String> {
        for (name, range) in [
            ("layer", &self.layer),
            ("table", &self.table),
            ("buffer", &self.buffer),
            ("entry", &self.entry),
        ] {
            range.check().map_err(|what| format!("{name}: {what}"))?;
        }
        let session_bytes = self.buffers.saturating_mul(self.buffer.largest_bytes);
        if session_bytes > self.sessions_bytes {
            return Err(
                "sessions_bytes must hold at least one session: buffers x the largest \
                        buffer"
                    .into(),
            );
        }
        if self.entry.largest_bytes > self.cache_bytes {
            return Err("cache_bytes must hold at least the largest entry".into());
        }
        if self.least_layers == 0 || self.least_layers > self.most_layers {
            return Err("least_layers must be above 0 and at most most_layers".into());
        }
        if self.models == 0 || !(1..=1_000_000).contains(&self.sessions_a_day) {
            return Err("models must be above 0, sessions_a_day from 1 to 1000000".into());
        }
        if self.replace_after < HOUR_NS {
            return Err("replace_after must be at least an hour".into());
        }
        Ok(())
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut service = Service::new(self, seed, pen);
        for _ in 0..self.models {
            service.load_model();
        }
        service.plan_session();
        service.plan_replacement();
        service.dues.add(NIGHT_NS, Action::Night);
        while !service.pen.done() {
            let (moment, action) = service.dues.pop().expect("a service never ends");
            service.pen.at(moment);
            service.act(action);
        }
    }
}

/// What happens at its time.
enum Action {
    Arrive,
    Leave(Vec<Held>),
    Replace,
    Night,
    NightOver(Held),
    Forget(Held),
}

/// The tags of what it holds.
struct Tags {
    weights: u32,
    table: u32,
    buffer: u32,
    cache: u32,
    monitor: u32,
    night: u32,
}

struct Service<'p, 's> {
    spec: &'p Spec,
    pen: &'p mut Pen<'s>,
    tags: Tags,
    arrivals: Dice,
    sessions: Dice,
    models: Dice,
    dues: Dues<Action>,
    loaded: Vec<Vec<Held>>,
    cache: Vec<Held>,
    cache_bytes: u64,
    sessions_bytes: u64,
}

impl<'p, 's> Service<'p, 's> {
    fn new(spec: &'p Spec, seed: u64, pen: &'p mut Pen<'s>) -> Self {
        Service {
            spec,
            tags: Tags {
                weights: pen.tag("weights"),
                table: pen.tag("table"),
                buffer: pen.tag("buffer"),
                cache: pen.tag("cache"),
                monitor: pen.tag("monitor"),
                night: pen.tag("night job"),
            },
            pen,
            arrivals: Dice::new("service arrivals", seed),
            sessions: Dice::new("service sessions", seed),
            models: Dice::new("service models", seed),
            dues: Dues::default(),
            loaded: Vec::new(),
            cache: Vec::new(),
            cache_bytes: 0,
            sessions_bytes: 0,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Arrive => {
                if self.is_accepted() {
                    self.begin_session();
                }
                self.plan_session();
            }
            Action::Leave(buffers) => {
                for held in buffers {
                    self.sessions_bytes -= held.bytes;
                    self.pen.free(held);
                }
            }
            Action::Replace => {
                let chosen = self.models.below(self.spec.models) as usize;
                for held in self.loaded.swap_remove(chosen) {
                    self.pen.free(held);
                }
                self.load_model();
                self.plan_replacement();
            }
            Action::Night => {
                let held = self.pen.alloc(self.spec.night_bytes, 0, self.tags.night);
                let now = self.pen.now_ns();
                self.dues.add(now + NIGHT_JOB_NS, Action::NightOver(held));
                self.dues.add(now + DAY_NS, Action::Night);
            }
            Action::NightOver(held) | Action::Forget(held) => self.pen.free(held),
        }
    }

    fn load_model(&mut self) {
        let spec = self.spec;
        let layers = self.models.between(spec.least_layers, spec.most_layers);
        let layer_bytes = spec.layer.draw(&mut self.models);
        let table_bytes = spec.table.draw(&mut self.models);
        let mut model = vec![self.pen.alloc(table_bytes, 0, self.tags.table)];
        for _ in 0..layers {
            model.push(self.pen.alloc(layer_bytes, 0, self.tags.weights));
        }
        self.loaded.push(model);
    }

    fn plan_replacement(&mut self) {
        let wait_ns = self.models.exponential(self.spec.replace_after);
        let moment = self.pen.now_ns() + wait_ns;
        self.dues.add(moment, Action::Replace);
    }

    /// The next arrival at the rate of noon; [`is_accepted`](Self::is_accepted) thins
    /// them out to the rate of the hour. The triangle covers a third of the day.
    fn plan_session(&mut self) {
        let mean_ns = DAY_NS / (3 * self.spec.sessions_a_day);
        let moment = self.pen.now_ns() + self.arrivals.exponential(mean_ns);
        self.dues.add(moment, Action::Arrive);
    }

    fn is_accepted(&mut self) -> bool {
        let from_noon_ns = (self.pen.now_ns() % DAY_NS).abs_diff(NOON_NS);
        let rate_ns = HALF_DAY_NS.saturating_sub(from_noon_ns);
        self.arrivals.below(HALF_DAY_NS) < rate_ns
    }

    fn begin_session(&mut self) {
        let spec = self.spec;
        let sizes = (0..spec.buffers).map(|_| spec.buffer.draw(&mut self.sessions));
        let sizes: Vec<u64> = sizes.collect();
        let lasts_ns = self.sessions.exponential(spec.session_time);
        let session_bytes: u64 = sizes.iter().sum();
        if self.sessions_bytes + session_bytes > spec.sessions_bytes {
            return;
        }
        self.sessions_bytes += session_bytes;
        let tag = self.tags.buffer;
        let buffers = sizes.into_iter().map(|bytes| self.pen.alloc(bytes, 0, tag));
        let buffers = buffers.collect();
        if self.sessions.chance(spec.cached_ppm) {
            self.cache_entry();
        }
        let now = self.pen.now_ns();
        if self.sessions.chance(spec.record_ppm) {
            let record = self.pen.alloc(spec.record_bytes, 0, self.tags.monitor);
            let kept_ns = self.sessions.exponential(spec.record_time);
            self.dues.add(now + kept_ns, Action::Forget(record));
        }
        self.dues.add(now + lasts_ns, Action::Leave(buffers));
    }

    fn cache_entry(&mut self) {
        let bytes = self.spec.entry.draw(&mut self.sessions);
        while self.cache_bytes + bytes > self.spec.cache_bytes {
            let chosen = self.sessions.below(self.cache.len() as u64) as usize;
            let evicted = self.cache.swap_remove(chosen);
            self.cache_bytes -= evicted.bytes;
            self.pen.free(evicted);
        }
        self.cache_bytes += bytes;
        self.cache.push(self.pen.alloc(bytes, 0, self.tags.cache));
    }
}
