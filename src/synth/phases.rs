//! A plan written by hand before the code: each phase, what it allocates, how much, and
//! until when. Drawing the memory of every phase first is a practitioners' rule; here the
//! drawing becomes a trace, and with it a map and a fit.

use serde::{Deserialize, Serialize};

use super::Family;
use super::dice::Dice;
use super::pen::{Held, Pen, Stage};
use crate::units::{serde_bytes, serde_nanos};

/// Parameters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Sizes differ from the plan by up to this, drawn for each request; 0: exactly.
    #[serde(default)]
    pub vary_percent: u64,
    /// The phases from this one on are repeated.
    #[serde(default)]
    pub repeat_from: Option<String>,
    /// How often they are gone through; 0: until the trace is long enough.
    #[serde(default = "once")]
    pub rounds: u64,
    /// The phases in their order.
    pub phase: Vec<Phase>,
}

fn once() -> u64 {
    1
}

/// A phase of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name: a mark of the trace.
    pub name: String,
    /// How long it takes.
    #[serde(with = "serde_nanos")]
    pub lasts: u64,
    /// What it allocates, in this order.
    #[serde(default)]
    pub allocate: Vec<Need>,
}

/// Something that a phase allocates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// What it is: a tag of the trace.
    pub what: String,
    /// Bytes of one piece.
    #[serde(with = "serde_bytes")]
    pub bytes: u64,
    /// How many pieces, one after the other.
    #[serde(default = "once")]
    pub pieces: u64,
    /// Until when: `piece` (the next piece replaces it), `phase` (this one's end), `plan`
    /// (its end), or the name of a phase: the next end of that one.
    #[serde(default = "phase")]
    pub until: String,
}

fn phase() -> String {
    "phase".to_owned()
}

/// Words of `until` that name no phase.
const WORDS: [&str; 3] = ["piece", "phase", "plan"];

/// When an allocation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Piece,
    /// The end of the phase of this number.
    Phase(usize),
    Plan,
}

impl Family for Spec {
    fn stage(&self) -> Stage {
        Stage {
            labels: self.phase.iter().map(|phase| phase.name.clone()).collect(),
            ..Stage::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.phase.is_empty() {
            return Err("a plan has a [[workload.phases.phase]]".into());
        }
        if self.vary_percent > 99 {
            return Err(format!(
                "vary_percent = {}: expected at most 99",
                self.vary_percent
            ));
        }
        for (at, phase) in self.phase.iter().enumerate() {
            let name = &phase.name;
            if WORDS.contains(&&**name) || name.is_empty() {
                return Err(format!("phase '{name}': the name has a meaning in `until`"));
            }
            if self.number(name) != Some(at) {
                return Err(format!(
                    "phase '{name}' comes twice; give each a name of its own"
                ));
            }
            for need in &phase.allocate {
                let what = format!("phase '{name}', '{}'", need.what);
                if need.bytes == 0 || need.bytes > 1 << 50 || need.pieces == 0 {
                    return Err(format!(
                        "{what}: expected 1 byte to 1PiB, in 1 or more pieces"
                    ));
                }
                self.until(at, &need.until)
                    .map_err(|error| format!("{what}: {error}"))?;
            }
        }
        if self.phase.iter().all(|phase| phase.lasts == 0) {
            return Err("every phase lasts 0ns".into());
        }
        self.first_repeated().map(drop)
    }

    fn play(&self, seed: u64, pen: &mut Pen<'_>) {
        let mut run = Run {
            spec: self,
            sizes: Dice::new("phases sizes", seed),
            live: Vec::new(),
        };
        let again = self.first_repeated().expect("it was checked");
        let (mut from, mut round) = (0, 0);
        while !pen.done() && (self.rounds == 0 || round < self.rounds) {
            for at in from..self.phase.len() {
                run.phase(at, pen);
            }
            (from, round) = (again, round + 1);
        }
        run.end(pen, |_| true);
    }
}

impl Spec {
    /// The number of a phase.
    fn number(&self, name: &str) -> Option<usize> {
        self.phase.iter().position(|phase| phase.name == name)
    }

    /// The phase from which rounds begin anew.
    fn first_repeated(&self) -> Result<usize, String> {
        let Some(name) = &self.repeat_from else {
            return Ok(0);
        };
        self.number(name)
            .ok_or_else(|| format!("repeat_from = '{name}': no phase has that name"))
    }

    /// The meaning of `until` in the phase of this number.
    fn until(&self, at: usize, word: &str) -> Result<Until, String> {
        match word {
            "piece" => Ok(Until::Piece),
            "phase" => Ok(Until::Phase(at)),
            "plan" => Ok(Until::Plan),
            name => self.number(name).map(Until::Phase).ok_or_else(|| {
                format!("until = '{name}': expected piece, phase, plan or the name of a phase")
            }),
        }
    }
}

/// A plan while it is followed.
struct Run<'a> {
    spec: &'a Spec,
    sizes: Dice,
    /// In the order of their requests.
    live: Vec<(Until, Held)>,
}

impl Run<'_> {
    /// One phase: its requests, spread over its time, then what goes at its end.
    fn phase(&mut self, at: usize, pen: &mut Pen<'_>) {
        let phase = &self.spec.phase[at];
        pen.mark(at as u32);
        let end_ns = pen.now_ns().saturating_add(phase.lasts);
        let pieces: u64 = phase.allocate.iter().map(|need| need.pieces).sum();
        let pause_ns = phase.lasts / (pieces + 1);
        for need in &phase.allocate {
            let until = self.spec.until(at, &need.until).expect("it was checked");
            let tag = pen.tag(&need.what);
            for _ in 0..need.pieces {
                if pen.done() {
                    return;
                }
                pen.wait_ns(pause_ns);
                self.end(pen, |until| until == Until::Piece);
                let bytes = self.varied(need.bytes);
                self.live.push((until, pen.alloc(bytes, 0, tag)));
            }
            if until == Until::Piece {
                pen.wait_ns(pause_ns / 2);
                self.end(pen, |until| until == Until::Piece);
            }
        }
        pen.at(end_ns);
        self.end(pen, |until| until == Until::Phase(at));
    }

    /// Gives back what `goes`, in the order of the requests.
    fn end(&mut self, pen: &mut Pen<'_>, goes: impl Fn(Until) -> bool) {
        for (_, held) in self.live.extract_if(.., |(until, _)| goes(*until)) {
            pen.free(held);
        }
    }

    /// A size of the plan, as it comes this time.
    fn varied(&mut self, bytes: u64) -> u64 {
        let most = bytes * self.spec.vary_percent / 100;
        if most == 0 {
            return bytes;
        }
        self.sizes.between(bytes - most, bytes + most)
    }
}

#[cfg(test)]
mod tests;
