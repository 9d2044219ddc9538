//! Where requests come from: a Poisson process, or a file of a public data set.

use serde::{Deserialize, Serialize};

use crate::synth::dice::Dice;
use crate::synth::requests::{HASH_TOKENS, Request, Requests, locate};
use crate::trace::TraceError;

/// A request that waits for its admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub arrival_ns: u64,
    pub prompt_tokens: u64,
    /// Tokens still to be generated.
    pub output_tokens: u64,
    /// As in [`Request::hashes`].
    pub hashes: Vec<u64>,
}

/// Where requests come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// A Poisson process with log-normal lengths.
    Poisson(Poisson),
    /// Azure's csv or Mooncake's JSON lines; the seed chooses with which request it begins.
    File(Recorded),
}

/// A Poisson process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// Requests a minute, in the mean.
    pub per_minute: u64,
    /// The median length of a prompt, without its prefix.
    pub prompt_tokens: u64,
    /// The spread of that length: the standard deviation of its logarithm to base 2, in
    /// millionths.
    pub prompt_spread_ppm: u64,
    /// The median length of an answer.
    pub output_tokens: u64,
    /// The spread of that length.
    pub output_spread_ppm: u64,
    /// How many prefixes (system prompts) there are; each request begins with one.
    #[serde(default)]
    pub prefixes: u64,
    /// How long they are: a multiple of 512.
    #[serde(default)]
    pub prefix_tokens: u64,
}

/// A file of requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Its path, or its path below `VRAMLAB_SHARED` (`../shared`).
    pub path: String,
    /// 100 as it was recorded; 200: in half the time.
    pub speed_percent: u64,
    /// Whether it begins anew after its end, for ever; else each request comes once.
    pub repeat: bool,
}

impl Arrivals {
    pub fn check(&self) -> Result<(), String> {
        match self {
            Arrivals::Poisson(poisson) => poisson.check(),
            Arrivals::File(file) if file.speed_percent == 0 => {
                Err("speed_percent = 0: nothing would ever arrive".into())
            }
            Arrivals::File(_) => Ok(()),
        }
    }

    /// Reads a file once through.
    pub fn ready(&self) -> Result<(), String> {
        match self {
            Arrivals::Poisson(_) => Ok(()),
            Arrivals::File(file) => match file.count() {
                Ok(0) => Err(format!("{}: no request in it", file.path)),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// The requests of a seed, of at most `longest` tokens each.
    pub fn jobs(&self, seed: u64, longest: u64) -> Box<dyn Iterator<Item = Job>> {
        let requests: Box<dyn Iterator<Item = Request>> = match self {
            Arrivals::Poisson(poisson) => Box::new(poisson.requests(seed, longest)),
            Arrivals::File(file) => Box::new(file.requests(seed)),
        };
        Box::new(requests.map(move |request| {
            let prompt_tokens = request.prompt_tokens.clamp(1, longest - 1);
            Job {
                arrival_ns: request.arrival_ns,
                prompt_tokens,
                output_tokens: request.output_tokens.clamp(1, longest - prompt_tokens),
                hashes: request.hashes,
            }
        }))
    }
}

impl Poisson {
    fn check(&self) -> Result<(), String> {
        if self.per_minute == 0 || self.prompt_tokens == 0 || self.output_tokens == 0 {
            return Err("per_minute, prompt_tokens and output_tokens are 1 or more".into());
        }
        if !self.prefix_tokens.is_multiple_of(HASH_TOKENS) {
            return Err(format!("prefix_tokens must be a multiple of {HASH_TOKENS}"));
        }
        Ok(())
    }

    fn requests(&self, seed: u64, longest: u64) -> impl Iterator<Item = Request> + use<> {
        let poisson = self.clone();
        let mut gaps = Dice::new("serving arrivals", seed);
        let mut lengths = Dice::new("serving lengths", seed);
        let mut prefixes = Dice::new("serving prefixes", seed);
        let mean_ns = 60_000_000_000 / self.per_minute;
        let prefix_hashes = self.prefix_tokens / HASH_TOKENS;
        let (mut arrival_ns, mut fresh) = (0_u64, self.prefixes * prefix_hashes);
        std::iter::from_fn(move || {
            arrival_ns = arrival_ns.saturating_add(gaps.exponential(mean_ns));
            let prompt = lengths.log_normal(poisson.prompt_tokens, poisson.prompt_spread_ppm);
            let prompt = prompt.min(longest);
            let output = lengths.log_normal(poisson.output_tokens, poisson.output_spread_ppm);
            let mut hashes = Vec::new();
            let mut prefix_tokens = 0;
            if poisson.prefixes > 0 {
                let first = prefixes.below(poisson.prefixes) * prefix_hashes;
                hashes.extend(first..first + prefix_hashes);
                prefix_tokens = poisson.prefix_tokens;
            }
            // What follows the prefix is like no other prompt.
            let own = prompt.div_ceil(HASH_TOKENS);
            hashes.extend(fresh..fresh + own);
            fresh += own;
            Some(Request {
                arrival_ns,
                prompt_tokens: prefix_tokens + prompt,
                output_tokens: output,
                hashes,
            })
        })
    }
}

impl Recorded {
    fn open(&self) -> Result<Requests, TraceError> {
        Requests::open(&locate(&self.path)?)
    }

    fn count(&self) -> Result<u64, TraceError> {
        self.open()?
            .try_fold(0, |count, request| request.map(|_| count + 1))
    }

    /// The requests from a random one on, around the end of the file.
    ///
    /// # Panics
    /// Where the file is no longer what `ready` saw.
    fn requests(&self, seed: u64) -> impl Iterator<Item = Request> + use<> {
        let (file, speed_percent) = (self.clone(), self.speed_percent);
        let sound = |error: TraceError| -> ! { panic!("requests have changed: {error}") };
        let count = file.count().unwrap_or_else(|error| sound(error));
        let skipped = Dice::new("serving start", seed).below(count);
        let mut left = if file.repeat { u64::MAX } else { count };
        let open = move || file.open().unwrap_or_else(|error| sound(error));
        let mut requests = open();
        // What comes before the first is passed over.
        requests.by_ref().take(skipped as usize).for_each(drop);
        let (mut clock_ns, mut file_ns) = (0_u64, None);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let next = requests.next().unwrap_or_else(|| {
                requests = open();
                file_ns = None;
                requests.next().expect("the file holds requests")
            });
            let mut request = next.unwrap_or_else(|error| sound(error));
            let gap_ns = request.arrival_ns - file_ns.unwrap_or(request.arrival_ns);
            file_ns = Some(request.arrival_ns);
            let scaled_ns = u128::from(gap_ns) * 100 / u128::from(speed_percent);
            clock_ns = clock_ns.saturating_add(scaled_ns as u64);
            request.arrival_ns = clock_ns;
            Some(request)
        })
    }
}
