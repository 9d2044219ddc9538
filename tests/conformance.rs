//! Every file of `policies/` keeps to what every policy must keep to; and the suite
//! finds policies that do not.

use vramlab::conformance::{Program, Suite};
use vramlab::policy::registry::PRESETS;
use vramlab::policy::{Policy, Registry};
use vramlab::space::{BlockId, OutOfMemory, Request, Space, State};
use vramlab::trace::{Event, StreamId};

/// The breaches of the policies that `specs` name.
fn breaches<'a>(specs: impl Iterator<Item = &'a str>) -> String {
    let registry = Registry::default();
    let breach = |spec: &str| {
        let chosen = registry.find(spec).expect("a policy builds");
        let suite = Suite::new(|| registry.build(&chosen).expect("a policy builds")).programs(32);
        Some(format!("{spec}: {}\n", suite.run().err()?))
    };
    specs.filter_map(breach).collect()
}

#[test]
fn every_preset_conforms() {
    assert_eq!(breaches(PRESETS.iter().map(|(name, _)| *name)), "");
}

#[test]
fn compaction_at_every_event_conforms_over_every_kind_of_motion() {
    let specs = [
        "compaction:over=first-fit,threshold=0,interval=0s",
        "compaction:over=next-fit,threshold=0,interval=0s",
        "compaction:over=worst-fit,threshold=0,interval=0s",
        "compaction:over=tlsf,threshold=0,interval=0s",
        "compaction:over=bump,threshold=0,interval=0s",
        "compaction:over=buddy,threshold=0,interval=0s",
        "compaction:over=size-class,threshold=0,interval=0s",
        "compaction:over=growing,threshold=0,interval=0s",
        "compaction:over=uniform,threshold=0,interval=0s",
        "compaction:over=vma,threshold=0,interval=0s",
    ];
    assert_eq!(breaches(specs.into_iter()), "");
}

#[test]
fn every_mover_conforms_in_steps_and_at_once() {
    let specs = [
        "compaction:mover=slide,over=best-fit,requests=3,step_moves=1",
        "compaction:mover=slide,over=bump,threshold=0,interval=0s,step_bytes=2048",
        "compaction:mover=slide,over=vma,marks=true,requests=2,step_moves=2",
        "compaction:mover=two-finger,over=best-fit,requests=1",
        "compaction:mover=two-finger,over=tlsf,threshold=0,interval=0s,step_bytes=2048",
        "compaction:mover=two-finger,over=growing,requests=3,step_moves=1",
        "compaction:mover=two-finger,over=\"hybrid:small=first-fit\",marks=true,requests=2,step_time=1ns",
        "compaction:mover=evacuate,over=growing,requests=1",
        "compaction:mover=evacuate,over=vma,requests=1",
        "compaction:mover=evacuate,over=vma,requests=3,step_moves=1",
        "compaction:mover=evacuate,over=\"growing:growth=exact\",threshold=0,interval=0s,step_bytes=2048",
    ];
    assert_eq!(breaches(specs.into_iter()), "");
}

/// A policy beside a pool has a share of the capacity, which it must not take for all of it.
#[test]
fn paging_conforms_beside_other_kinds_of_growth() {
    let specs = ["paging:over=pytorch", "paging:over=llama-cpp-pool"];
    assert_eq!(breaches(specs.into_iter()), "");
}

#[test]
fn programs_hold_every_kind_of_event_and_are_a_function_of_their_seed() {
    let kinds: std::collections::HashSet<_> = (0..8)
        .flat_map(|seed| Program::new(seed, 200).events)
        .map(|event| std::mem::discriminant(&event))
        .collect();
    assert_eq!(kinds.len(), 17, "events have 17 kinds");
    assert_eq!(Program::new(3, 100), Program::new(3, 100));
    assert_ne!(Program::new(3, 100).events, Program::new(3 + 8, 100).events);
    let deferred = |event: &Event| matches!(event, Event::Free { deferred: true, .. });
    assert!(Program::new(0, 200).events.iter().any(deferred));
}

/// What is wrong with a policy that hands out its one segment whole.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    OverstatesServable,
    ForgetsToRelease,
    OverstatesLargest,
    LeavesPieces,
}

/// Serves one request at a time, with the low bytes of its segment.
struct OneAtATime {
    fault: Fault,
    free: Option<BlockId>,
}

impl Policy for OneAtATime {
    fn start(&mut self, space: &mut Space) -> Result<(), OutOfMemory> {
        self.free = Some(space.map(space.capacity_bytes())?);
        Ok(())
    }

    fn alloc(&mut self, request: &Request, space: &mut Space) -> Result<BlockId, OutOfMemory> {
        let refused = OutOfMemory::no_fit(request.bytes);
        let block = self.free.ok_or(refused)?;
        let aligned = space.base(block).is_multiple_of(request.align);
        if space.bytes(block) < request.bytes || !aligned {
            return Err(refused);
        }
        self.free = None;
        if space.bytes(block) > request.bytes {
            space.split(block, request.bytes);
        }
        space.place(block, request);
        Ok(block)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, _: bool, space: &mut Space) {
        if self.fault == Fault::ForgetsToRelease {
            return;
        }
        space.release(block, stream);
        if let Some(rest) = space.free_next(block)
            && self.fault != Fault::LeavesPieces
        {
            space.merge(block, rest);
        }
        self.free = Some(block);
    }

    fn servable(&self, space: &Space, _: StreamId) -> u64 {
        let bytes = self.free.map_or(0, |block| space.bytes(block));
        bytes + u64::from(self.fault == Fault::OverstatesServable)
    }

    fn largest_free(&self, space: &Space) -> Option<u64> {
        let free = space
            .walk()
            .filter(|block| space.state(*block) == State::Free);
        let bytes = free.map(|block| space.bytes(block)).max().unwrap_or(0);
        Some(bytes + u64::from(self.fault == Fault::OverstatesLargest))
    }
}

fn verdict(fault: Fault) -> Option<String> {
    let make = || -> Box<dyn Policy> { Box::new(OneAtATime { fault, free: None }) };
    let breach = Suite::new(make).programs(16).run().err();
    breach.map(|breach| breach.to_string())
}

#[test]
fn the_suite_finds_what_is_wrong_and_passes_what_is_right() {
    assert_eq!(verdict(Fault::None), None);
    for (fault, words) in [
        (Fault::OverstatesServable, "servable says"),
        (Fault::ForgetsToRelease, "a used block serves no request"),
        (Fault::OverstatesLargest, "the largest free block is said"),
        (Fault::LeavesPieces, "pieces"),
    ] {
        let told = verdict(fault).unwrap_or_else(|| panic!("{fault:?} is not found"));
        assert!(told.contains(words), "{told}");
        assert!(told.starts_with("seed "), "{told}");
    }
}
