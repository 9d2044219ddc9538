use std::sync::Arc;

use super::*;
use crate::space::{Device, SpaceConfig, State};

const MIB: u64 = 1 << 20;

fn card() -> Space {
    let mut config = SpaceConfig::bare(256 * MIB);
    config.device = Arc::new(Device {
        page_bytes: 2 * MIB,
        ..Device::bare(256 * MIB)
    });
    (config.blind, config.streams) = (false, 2);
    Space::new(config)
}

fn ask(pool: &mut CudaMallocAsync, space: &mut Space, mib: u64) -> BlockId {
    let request = Request {
        bytes: mib * MIB,
        align: 1,
        stream: 0,
        pool: 0,
        tag: 0,
    };
    pool.alloc(&request, space).expect("room")
}

#[test]
fn chunks_that_nobody_uses_move_before_new_ones_are_taken() {
    let (mut space, mut pool) = (card(), CudaMallocAsync::new(Spec::default()));
    let low = ask(&mut pool, &mut space, 64);
    let high = ask(&mut pool, &mut space, 40);
    assert_eq!(space.counters().reserved_bytes, 128 * MIB);
    pool.free(low, 0, false, &mut space);
    // 80 MiB fit nowhere: 24 lie before the end, and two chunks move behind it.
    let long = ask(&mut pool, &mut space, 80);
    assert_eq!(space.base(long), space.end(high));
    assert_eq!(space.counters().reserved_bytes, 128 * MIB);
    assert_eq!(space.state(low), State::Unmapped);
    pool.free(long, 0, false, &mut space);
    pool.trim(&mut space);
    assert_eq!(space.counters().reserved_bytes, 64 * MIB);
}
