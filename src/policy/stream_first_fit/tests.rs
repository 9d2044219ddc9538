use super::*;
use crate::space::SpaceConfig;

struct Bench {
    policy: StreamFirstFit,
    space: Space,
}

fn bench(stall: Stall, streams: usize) -> Bench {
    let mut config = SpaceConfig::bare(4096);
    (config.blind, config.streams) = (false, streams);
    let mut space = Space::new(config);
    let spec = Spec {
        stall,
        ..Spec::default()
    };
    let mut policy = StreamFirstFit::new(spec);
    policy.start(&mut space).expect("room");
    Bench { policy, space }
}

impl Bench {
    fn ask(&mut self, bytes: u64, stream: StreamId) -> Result<BlockId, OutOfMemory> {
        let request = Request {
            bytes,
            align: 1,
            stream,
            pool: 0,
            tag: 0,
        };
        self.policy.alloc(&request, &mut self.space)
    }

    fn free(&mut self, block: BlockId, stream: StreamId, pending: bool) {
        self.policy.free(block, stream, pending, &mut self.space);
    }
}

#[test]
fn holes_of_two_streams_are_joined_for_one_that_may_use_both() {
    let mut b = bench(Stall::None, 3);
    let low = b.ask(1024, 0).expect("room");
    let high = b.ask(1024, 1).expect("room");
    let last = b.ask(2048, 0).expect("room");
    b.free(low, 0, false);
    b.free(high, 1, false);
    // Neither stream may use the other's hole.
    let shortage = b.ask(2048, 0).expect_err("too small");
    assert_eq!(shortage.cause, Cause::Stream);
    assert_eq!(b.policy.servable(&b.space, 0), 1024);
    b.space.record(1, 7);
    b.space.wait_event(0, 7);
    assert_eq!(b.policy.servable(&b.space, 0), 2048);
    // 256 of the upper hole are left, and stay with stream 1.
    let joined = b.ask(1792, 0).expect("both holes");
    assert_eq!(b.space.base(joined), 0);
    assert_eq!(b.policy.servable(&b.space, 1), 256);
    assert_eq!(b.policy.servable(&b.space, 2), 0);
    b.free(joined, 0, false);
    b.free(last, 0, false);
    // The small rest between is stream 1's, but stream 0 has seen its end.
    assert_eq!(b.policy.servable(&b.space, 0), 4096);
    assert_eq!(b.space.counters().free_blocks, 3);
}

#[test]
fn an_event_between_two_frees_frees_the_first_alone() {
    let mut b = bench(Stall::None, 2);
    let low = b.ask(2048, 0).expect("room");
    let high = b.ask(2048, 0).expect("room");
    b.free(low, 0, false);
    b.space.record(0, 1);
    b.free(high, 0, false);
    b.space.wait_event(1, 1);
    assert_eq!(b.policy.servable(&b.space, 1), 2048);
    assert_eq!(b.policy.servable(&b.space, 0), 4096);
}

#[test]
fn an_outstanding_free_waits_for_its_end_or_for_a_stall() {
    let mut b = bench(Stall::None, 2);
    let all = b.ask(4096, 0).expect("room");
    b.free(all, 0, true);
    assert_eq!(b.ask(256, 0).expect_err("pending").cause, Cause::Stream);
    b.policy.complete(all, &mut b.space);
    assert!(b.ask(256, 0).is_ok());
    let mut b = bench(Stall::Retry, 2);
    let all = b.ask(4096, 0).expect("room");
    b.free(all, 0, true);
    assert!(b.ask(4096, 1).is_ok());
    assert_eq!(b.space.counters().stalls, 1);
}

#[test]
fn a_block_read_elsewhere_is_freed_behind_its_reader() {
    let mut b = bench(Stall::None, 2);
    let all = b.ask(4096, 0).expect("room");
    b.policy.use_on(all, Some(1), &mut b.space);
    b.free(all, 0, false);
    assert_eq!(b.space.counters().waits, 1);
    assert!(b.ask(4096, 1).is_err());
}
