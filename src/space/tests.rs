use super::*;

fn request(bytes: u64, stream: StreamId) -> Request {
    Request {
        bytes,
        align: 1,
        stream,
        pool: 0,
        tag: 0,
    }
}

fn space(capacity_bytes: u64) -> (Space, BlockId) {
    let mut space = Space::new(SpaceConfig::bare(capacity_bytes));
    let block = space
        .map(capacity_bytes)
        .expect("the capacity holds itself");
    (space, block)
}

/// Checks every sum against a walk over the tiling.
fn check(space: &Space) {
    let mut free = 0;
    let mut used = 0;
    for segment in space.segments() {
        let mut end = space.segment_base(segment);
        for block in space.blocks(segment) {
            assert_eq!(space.base(block), end, "blocks tile the segment");
            end = space.end(block);
            match space.state(block) {
                State::Free => free += space.bytes(block),
                State::Used => used += space.bytes(block),
                _ => {}
            }
        }
        assert_eq!(
            end,
            space.segment_base(segment) + space.segment_bytes(segment)
        );
    }
    assert_eq!(free, space.counters().free_bytes);
    assert_eq!(used, space.counters().used_bytes);
}

#[test]
fn a_block_is_cut_placed_released_and_joined() {
    let (mut space, low) = space(4096);
    space.track_largest();
    let high = space.split(low, 1024);
    space.place(low, &request(1000, 0));
    check(&space);
    assert_eq!(space.tracked_largest(), 3072);
    assert_eq!(space.counters().high_water_bytes, 1024);
    space.release(low, 0);
    space.merge(low, high);
    check(&space);
    assert_eq!((space.bytes(low), space.tracked_largest()), (4096, 4096));
    space.unmap(low);
    assert_eq!(space.counters().reserved_bytes, 0);
    assert_eq!(space.segments().count(), 0);
}

#[test]
#[should_panic(expected = "event 7: placing on a block that is not free")]
fn placing_twice_panics_with_the_event() {
    let (mut space, block) = space(1024);
    space.place(block, &request(1024, 0));
    space.begin_event(7, 0);
    space.place(block, &request(1024, 0));
}

#[test]
#[should_panic(expected = "a move of a pinned block")]
fn a_pinned_block_does_not_move() {
    let (mut space, free) = space(2048);
    let used = space.split(free, 1024);
    space.place(used, &request(1024, 0));
    space.set_pinned(used, true);
    space.slide(free, used);
}

#[test]
fn sliding_swaps_neighbours_and_exchange_swaps_places() {
    let (mut space, a) = space(4096);
    let b = space.split(a, 1024);
    let c = space.split(b, 1024);
    let d = space.split(c, 1024);
    space.place(b, &request(1024, 0));
    space.slide(a, b);
    assert_eq!((space.base(b), space.base(a)), (0, 1024));
    check(&space);
    space.place(d, &request(1024, 0));
    space.exchange(d, a);
    assert_eq!((space.base(d), space.base(a)), (1024, 3072));
    check(&space);
    space.exchange(d, c);
    assert_eq!((space.base(d), space.base(c)), (2048, 1024));
    check(&space);
    assert_eq!(
        (space.counters().moves, space.counters().moved_bytes),
        (3, 3072)
    );
}

#[test]
fn reservations_are_backed_page_by_page_within_the_capacity() {
    let mut space = Space::new(SpaceConfig::bare(4096));
    let block = space.reserve(8192, 1024);
    space.back(block, 2048).expect("room");
    assert_eq!(
        (space.bytes(block), space.state(block)),
        (2048, State::Free)
    );
    let rest = space.next(block).expect("the rest");
    assert_eq!(space.back(rest, 3072), Err(OutOfMemory::no_fit(3072)));
    space.unback(block);
    space.merge(block, rest);
    assert_eq!(space.counters().reserved_bytes, 0);
    space.unreserve(block);
    check(&space);
}

#[test]
fn pages_shared_by_tails_are_counted_once() {
    let mut config = SpaceConfig::bare(64 << 20);
    let mut device = Device::bare(64 << 20);
    device.page_bytes = 2 << 20;
    config.device = Arc::new(device);
    config.addresses = AddressOrder::TopDown;
    let mut space = Space::new(config);
    let one = space.map(1000).expect("room");
    let two = space.map(1000).expect("room");
    assert_eq!(space.counters().page_bytes, 2 << 20);
    assert_eq!(space.base(two) - space.base(one), 1024);
    space.unmap(one);
    assert_eq!(space.counters().page_bytes, 2 << 20);
    space.unmap(two);
    assert_eq!(space.counters().page_bytes, 0);
}

#[test]
fn another_stream_may_use_a_range_only_after_an_ordering_point() {
    let mut config = SpaceConfig::bare(2048);
    (config.blind, config.streams) = (false, 3);
    let mut space = Space::new(config);
    let block = space.map(2048).expect("room");
    space.place(block, &request(2048, 0));
    space.release(block, 0);
    assert!(space.usable(block, 0) && !space.usable(block, 1));
    space.record(0, 5);
    space.wait_event(1, 5);
    assert!(space.usable(block, 1) && !space.usable(block, 2));
    space.wait(2, 1);
    assert!(
        space.usable(block, 2),
        "what stream 1 has seen, stream 2 has seen through it"
    );
    space.place(block, &request(2048, 2));
    space.release(block, 2);
    assert!(!space.usable(block, 0));
    space.sync(crate::trace::ANY_STREAM);
    assert!(space.usable(block, 0));
}

#[test]
#[should_panic(expected = "merge of blocks of two streams without an ordering point")]
fn blocks_of_two_streams_do_not_merge_by_themselves() {
    let mut config = SpaceConfig::bare(2048);
    (config.blind, config.streams) = (false, 2);
    let mut space = Space::new(config);
    let low = space.map(2048).expect("room");
    let high = space.split(low, 1024);
    space.place(low, &request(1024, 0));
    space.place(high, &request(1024, 1));
    space.release(low, 0);
    space.release(high, 1);
    space.merge(low, high);
}

/// One step of a program over both Spaces.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Places a request in the hole at a place among the free blocks.
    Place(usize, u64),
    /// Takes the block at a place among those in use back.
    Release(usize),
    /// Sets the block at a place among those in use aside.
    Retire(usize),
}

fn works() -> impl proptest::strategy::Strategy<Value = Vec<Work>> {
    use proptest::prelude::*;
    let work = prop_oneof![
        4 => (any::<usize>(), 1..200u64).prop_map(|(at, bytes)| Work::Place(at, bytes)),
        3 => any::<usize>().prop_map(Work::Release),
        1 => any::<usize>().prop_map(Work::Retire),
    ];
    prop::collection::vec(work, 1..120)
}

/// What a step came to, for comparison.
fn carry_out(space: &mut Space, work: Work) -> Option<String> {
    let blocks_in = |space: &Space, state: State| {
        let blocks = space.walk().filter(|block| space.state(*block) == state);
        blocks.collect::<Vec<_>>()
    };
    let pick =
        |blocks: Vec<BlockId>, at: usize| (!blocks.is_empty()).then(|| blocks[at % blocks.len()]);
    match work {
        Work::Place(at, bytes) => {
            let hole = space.hole(pick(blocks_in(space, State::Free), at)?);
            let request = request(bytes, 0);
            let placed = |space: &mut Space| space.place_low(hole.block, bytes, &request);
            let (was, above) = (hole.bytes >= bytes).then(|| placed(space))?;
            assert_eq!(was, hole);
            Some(format!("{above:?}"))
        }
        Work::Release(at) => {
            let block = pick(blocks_in(space, State::Used), at)?;
            Some(format!("{:?}", space.release_joined(block, 0)))
        }
        Work::Retire(at) => {
            space.retire_joined(pick(blocks_in(space, State::Used), at)?);
            None
        }
    }
}

proptest::proptest! {
    #[test]
    fn the_short_ways_do_what_the_steps_do(works in works()) {
        let mut short = Space::new(SpaceConfig::bare(4096));
        short.map(4096).expect("there is room");
        let mut long = short.clone();
        long.is_plain = false;
        for work in works {
            let told = (carry_out(&mut short, work), carry_out(&mut long, work));
            proptest::prop_assert_eq!(told.0, told.1);
            proptest::prop_assert_eq!(short.counters(), long.counters());
            let places = |space: &Space| {
                let tell = |block| (space.hole(block), space.state(block));
                space.walk().map(tell).collect::<Vec<_>>()
            };
            proptest::prop_assert_eq!(places(&short), places(&long));
        }
    }
}

#[test]
fn what_is_no_longer_plain_takes_the_long_way() {
    let mut space = Space::new(SpaceConfig::bare(4096));
    let all = space.map(4096).expect("there is room");
    assert!(space.is_plain);
    space.set_pinned(all, true);
    assert!(!space.is_plain, "a pin is kept aside");
    let mut space = Space::new(SpaceConfig::bare(4096));
    space.map(1024).expect("there is room");
    assert!(space.is_plain);
    space.track_largest();
    assert!(!space.is_plain, "sizes are kept in order");
    let mut space = Space::new(SpaceConfig::bare(4096));
    space.map(1024).expect("there is room");
    space.map(1024).expect("there is room");
    assert!(!space.is_plain, "two segments are there");
}

#[test]
#[should_panic(expected = "too small")]
fn more_than_a_hole_has_is_not_placed_in_it() {
    let mut space = Space::new(SpaceConfig::bare(4096));
    let all = space.map(4096).expect("there is room");
    space.place_low(all, 4097, &request(4097, 0));
}

#[test]
#[should_panic(expected = "event 0: use of a block that is gone")]
fn a_handle_that_is_gone_breaks() {
    let mut space = Space::new(SpaceConfig::bare(4096));
    let all = space.map(4096).expect("there is room");
    let high = space.split(all, 1024);
    space.merge(all, high);
    space.release(high, 0);
}

#[test]
fn addresses_that_run_out_are_a_shortage() {
    let mut space = Space::new(SpaceConfig::bare(u64::MAX));
    assert!(space.map(1 << 62).is_err());
    let block = space.map(16).expect("nothing of it stays");
    assert_eq!(space.base(block), 0);
}
