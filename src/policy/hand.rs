//! Hand-sized programs for the tests of policies, in the notation of the scenarios:
//! `A a 1024 align=512 ; F a ; pin a ; unpin a ; compact ; mark`.

use std::collections::HashMap;

use super::Registry;
use crate::replay::{Outcome, Replay};
use crate::space::SpaceConfig;
use crate::trace::Event;

/// A finished program: what was told of each event, and the replay as it was left.
pub struct Hand {
    /// An address from the start of the first segment, `ok`, `OOM`, `overflow`,
    /// `moved N` or `unsupported`.
    pub told: Vec<String>,
    /// The replay.
    pub replay: Replay,
}

/// Plays `program` under the policy on a bare card.
pub fn play(policy: &str, capacity_bytes: u64, program: &str) -> Hand {
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    let policy = registry.build(&chosen).expect("a policy");
    let replay = Replay::new(policy, SpaceConfig::bare(capacity_bytes)).expect("it starts");
    let mut hand = Hand {
        told: Vec::new(),
        replay,
    };
    let mut slots = HashMap::new();
    for line in program.split(';') {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut slot = || {
            let next = slots.len() as u32;
            *slots.entry(words[1].to_owned()).or_insert(next)
        };
        let event = match words[0] {
            "A" => Event::Alloc {
                slot: slot(),
                bytes: words[2].parse().expect("bytes"),
                align_log2: words.get(3).map_or(0, |word| {
                    let align = word.strip_prefix("align=").expect("an alignment");
                    align.parse::<u64>().expect("bytes").trailing_zeros() as u8
                }),
                stream: 0,
                pool: 0,
                tag: 0,
            },
            "F" => Event::Free {
                slot: slot(),
                stream: 0,
                deferred: false,
            },
            "pin" => Event::Pin { slot: slot() },
            "unpin" => Event::Unpin { slot: slot() },
            "compact" => Event::Compact,
            "mark" => Event::Mark { label: 0 },
            other => panic!("no such event: {other}"),
        };
        hand.replay.feed(&[event], &[], &mut Tell(&mut hand.told));
    }
    hand
}

struct Tell<'a>(&'a mut Vec<String>);

impl crate::replay::Observer for Tell<'_> {
    fn see(&mut self, moment: &crate::replay::Moment<'_>) {
        let space = moment.space;
        self.0.push(match moment.outcome {
            Outcome::Served(block) => {
                let segment = space.segments().next().expect("a segment");
                (space.base(block) - space.segment_base(segment)).to_string()
            }
            Outcome::Failed(shortage) if shortage.cause == crate::space::Cause::Overflow => {
                "overflow".into()
            }
            Outcome::Failed(_) => "OOM".into(),
            Outcome::Compacted { moves, .. } => format!("moved {moves}"),
            Outcome::Unsupported => "unsupported".into(),
            _ => "ok".into(),
        });
    }
}
