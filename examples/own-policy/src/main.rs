//! Plays one small program under first fit, best fit and last fit, and says where each
//! request went.

use vramlab::replay::{Moment, Observer, Outcome, Replay};
use vramlab::space::SpaceConfig;
use vramlab::trace::builder::Ask;
use vramlab::trace::{Event, Trace, TraceBuilder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = own_policy::registry();
    let trace = program();
    for name in ["first-fit", "best-fit", "last-fit"] {
        let policy = registry.build(&registry.find(name)?)?;
        let mut replay = Replay::new(policy, SpaceConfig::bare(3584))
            .map_err(|shortage| format!("{name} does not start: {shortage:?}"))?;
        println!("{name}");
        replay.feed(&trace.events, &trace.times_ns, &mut Print);
    }
    Ok(())
}

/// Three blocks, the middle one freed, then a small and a large request.
fn program() -> Trace {
    let mut trace = TraceBuilder::new("three blocks");
    for (key, bytes) in [(0, 1024), (1, 1024), (2, 1024)] {
        let ask = Ask {
            bytes,
            ..Ask::default()
        };
        trace.alloc(key, ask).expect("each key is new");
    }
    trace.free(1, Some(0), false);
    for (key, bytes) in [(3, 512), (4, 1024)] {
        let ask = Ask {
            bytes,
            ..Ask::default()
        };
        trace.alloc(key, ask).expect("each key is new");
    }
    trace.finish()
}

struct Print;

impl Observer for Print {
    fn see(&mut self, moment: &Moment<'_>) {
        if let Event::Alloc { slot, bytes, .. } = moment.event {
            match moment.outcome {
                Outcome::Served(block) => println!(
                    "  slot {slot}: {bytes} bytes at {}",
                    moment.space.base(block)
                ),
                other => println!("  slot {slot}: {bytes} bytes: {other:?}"),
            }
        }
    }
}
