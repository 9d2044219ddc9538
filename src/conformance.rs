//! Conformance: what every policy must keep to, whatever its rules are.
//!
//! The suite plays random programs (every kind of event, under pressure, near the
//! capacity) and checks after each event, with books of its own, that
//! - blocks tile their segments and all sums are those of a walk;
//! - the largest free block is the one of a walk;
//! - what is live is where the steps have put it, nothing was overwritten, and a
//!   request that failed left it alone;
//! - every served block is large enough and aligned;
//!
//! and, for the program as a whole, that
//! - a request of [`servable`](crate::policy::Policy::servable) bytes is served, and one
//!   byte more is not, unless blocks are moved or the device is waited for;
//! - two runs take the same steps;
//! - once all is freed, what is free is in no more pieces than at the start, or one a
//!   segment, unless the policy says that it does not join them.
//!
//! ```
//! use vramlab::conformance::Suite;
//! use vramlab::policy::Registry;
//!
//! let registry = Registry::default();
//! let buddy = registry.find("buddy").unwrap();
//! Suite::new(|| registry.build(&buddy).unwrap()).programs(4).run().unwrap();
//! ```

mod judge;
mod program;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use judge::Judge;
pub use judge::check_space;
pub use program::Program;

use crate::policy::Policy;
use crate::replay::{Outcome, Replay};
use crate::space::{AddressOrder, Device, SpaceConfig};
use crate::trace::{Event, StreamId};

/// A rule that was broken: where, and which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, event {event} ({shown}): {what}")]
pub struct Breach {
    /// The seed of the program: [`Program::new`] makes it again.
    pub seed: u64,
    /// Number of the event.
    pub event: u64,
    /// The event.
    pub shown: String,
    /// What is wrong, in words.
    pub what: String,
}

/// The suite for one policy.
pub struct Suite<F> {
    make: F,
    programs: u64,
    events: usize,
}

impl<F: Fn() -> Box<dyn Policy>> Suite<F> {
    /// A suite for the policy that `make` builds: 48 programs of 200 events.
    #[must_use]
    pub fn new(make: F) -> Self {
        Suite {
            make,
            programs: 48,
            events: 200,
        }
    }

    /// Plays another number of programs, seeds 0, 1, 2, ...
    #[must_use]
    pub fn programs(mut self, programs: u64) -> Self {
        self.programs = programs;
        self
    }

    /// Plays programs of about `events` events.
    #[must_use]
    pub fn events(mut self, events: usize) -> Self {
        self.events = events;
        self
    }

    /// Runs the suite.
    ///
    /// # Errors
    /// The first [`Breach`]; a panic of the policy or of the Space is one too.
    pub fn run(&self) -> Result<(), Breach> {
        (0..self.programs).try_for_each(|seed| {
            let program = Program::new(seed, self.events);
            self.check(&program)
        })
    }

    /// Checks one program.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn check(&self, program: &Program) -> Result<(), Breach> {
        let Some(steps) = self.play(program)? else {
            return Ok(());
        };
        let again = self.play(program)?;
        if again.as_ref() != Some(&steps) {
            let last = program.events.len() - 1;
            return Err(breach(program, last, "a second run took other steps"));
        }
        Ok(())
    }

    /// A replay of the policy for `program`; `None` where the card is too small for it.
    fn replay(&self, program: &Program) -> Option<Replay> {
        let mut device = Device::bare(program.capacity_bytes.next_multiple_of(program.page_bytes));
        device.page_bytes = program.page_bytes;
        let mut config = SpaceConfig::bare(program.capacity_bytes);
        config.addresses = AddressOrder::TopDown;
        config.device = Arc::new(device);
        config.streams = program.streams;
        config.record_steps = true;
        Replay::new((self.make)(), config).ok()
    }

    /// Plays a program under the judge; the steps taken, or `None` as
    /// [`replay`](Self::replay).
    fn play(&self, program: &Program) -> Result<Option<Vec<crate::space::Step>>, Breach> {
        let Some(mut replay) = self.replay(program) else {
            return Ok(None);
        };
        let pieces = replay.space().counters().free_blocks;
        let mut judge = Judge::default();
        for at in 0..program.events.len() {
            let one = at..at + 1;
            guarded(program, at, || {
                let (events, times_ns) = (&program.events[one.clone()], &program.times_ns[one]);
                replay.feed(events, times_ns, &mut judge);
            })?;
            if let Some(what) = judge.verdict.take() {
                return Err(breach(program, at, what));
            }
            if at % 37 == 36 {
                for stream in 0..program.streams {
                    self.probe(program, at, stream as StreamId, &replay)?;
                }
            }
        }
        let last = program.events.len() - 1;
        let counters = replay.space().counters();
        if counters.used_bytes + counters.pending_bytes > 0 {
            return Err(breach(program, last, "blocks are in use after their frees"));
        }
        let most = pieces.max(replay.space().segments().count() as u64);
        if replay.policy().joins() && counters.free_blocks > most {
            let what = format!(
                "all is freed, but lies in {} pieces instead of {most}",
                counters.free_blocks
            );
            return Err(breach(program, last, what));
        }
        Ok(Some(judge.steps))
    }

    /// Checks what the policy says it could serve after event `at`, on replays of their own.
    fn probe(
        &self,
        program: &Program,
        at: usize,
        stream: StreamId,
        replay: &Replay,
    ) -> Result<(), Breach> {
        let servable = guarded(program, at, || {
            replay.policy().servable(replay.space(), stream)
        })?;
        for bytes in [servable, servable.saturating_add(1)] {
            let (outcome, eased) = self.ask(program, at, stream, bytes)?;
            let served = matches!(outcome, Some(Outcome::Served(_)));
            if bytes > 0 && served != (bytes == servable) && !(served && eased) {
                let said = if served { "was served" } else { "was refused" };
                let what = format!(
                    "servable says {servable} bytes on stream {stream}, but a request of \
                     {bytes} {said}"
                );
                return Err(breach(program, at, what));
            }
        }
        Ok(())
    }

    /// Asks a fresh replay, fed up to event `at`, for `bytes`: what came of it, and
    /// whether there was a compaction or the device was waited for.
    fn ask(
        &self,
        program: &Program,
        at: usize,
        stream: StreamId,
        bytes: u64,
    ) -> Result<(Option<Outcome>, bool), Breach> {
        let mut replay = self.replay(program).expect("it has started before");
        let request = Event::Alloc {
            slot: program.events.len() as u32,
            bytes,
            align_log2: 0,
            stream,
            pool: 0,
            tag: 0,
        };
        let mut last = Last(None);
        guarded(program, at, || {
            replay.feed(&program.events[..=at], &program.times_ns[..=at], &mut ());
            let eases = |replay: &Replay| {
                let compactions = replay.policy().tallies().compactions;
                (compactions, replay.space().counters().stalls)
            };
            let before = eases(&replay);
            replay.feed(&[request], &program.times_ns[at..=at], &mut last);
            (last.0, before != eases(&replay))
        })
    }
}

/// Remembers what the last event came to.
struct Last(Option<Outcome>);

impl crate::replay::Observer for Last {
    fn see(&mut self, moment: &crate::replay::Moment<'_>) {
        self.0 = Some(moment.outcome);
    }
}

fn breach(program: &Program, at: usize, what: impl Into<String>) -> Breach {
    Breach {
        seed: program.seed,
        event: at as u64,
        shown: format!("{:?}", program.events[at]),
        what: what.into(),
    }
}

/// Runs `work`; a panic in it is a breach.
fn guarded<T>(program: &Program, at: usize, work: impl FnOnce() -> T) -> Result<T, Breach> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| breach(program, at, text_of(&*panic)))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without words".into())
}
