use super::*;
use crate::observe::testing::{Script, Walk, replay};
use crate::trace::Trace;

fn map(trace: &Trace, policy: Walk, capacity_bytes: u64, limits: Limits) -> AddressMap {
    let mut map = MapObserver::new(limits);
    replay(trace, policy, capacity_bytes, &mut map);
    map.finish()
}

/// Address, bytes, first and last event, ordinal.
fn shown(map: &AddressMap) -> Vec<(u64, u64, u64, u64, u64)> {
    let shown = |r: &Rectangle| (r.address, r.bytes, r.from.event, r.to.event, r.ordinal);
    map.rectangles.iter().map(shown).collect()
}

#[test]
fn blocks_are_rectangles_from_request_to_free() {
    let mut script = Script::new();
    script
        .alloc(0, 1000)
        .alloc(1, 0)
        .alloc_on(2, 512, 7)
        .free(0);
    let trace = script.alloc(3, 9999).alloc(4, 100).finish();
    let map = map(&trace, Walk::default(), 4096, Limits::default());
    assert_eq!(
        shown(&map),
        [(0, 1024, 0, 3, 0), (1024, 512, 2, 6, 2), (0, 256, 5, 6, 4)]
    );
    assert_eq!(map.rectangles[1].stream, 1);
    assert_eq!(
        map.end,
        When {
            event: 6,
            time_ns: 5000
        }
    );
    let failed: Vec<_> = map.columns.iter().map(|column| column.failed).collect();
    assert_eq!(failed, [0, 0, 0, 0, 1, 0]);
    assert_eq!((map.in_raster, map.cells.len()), (0, 0));
    assert_eq!((map.mapped.len(), map.mapped[0].bytes), (1, 4096));
}

#[test]
fn a_moved_block_is_two_rectangles() {
    let mut script = Script::new();
    script.alloc(0, 1024).alloc(1, 512).free(0);
    script.0.push(Event::Compact);
    script.0.push(Event::FreeAt { address: 0 });
    let map = map(&script.finish(), Walk::default(), 4096, Limits::default());
    assert_eq!(
        shown(&map),
        [(0, 1024, 0, 2, 0), (1024, 512, 1, 3, 1), (0, 512, 3, 4, 1)]
    );
}

#[test]
fn mapped_ranges_end_where_they_are_given_back() {
    let mut script = Script::new();
    script.alloc(0, 1024).alloc(1, 512).free(0);
    script.0.push(Event::Trim);
    let trace = script.alloc(2, 256).finish();
    let grows = Walk {
        grows: true,
        ..Walk::default()
    };
    let map = map(&trace, grows, 4096, Limits::default());
    let mapped: Vec<_> = map
        .mapped
        .iter()
        .map(|range| (range.address, range.bytes, range.from.event, range.to.event))
        .collect();
    assert_eq!(
        mapped,
        [(0, 1024, 0, 3), (1024, 512, 1, 5), (1536, 256, 4, 5)]
    );
    assert_eq!(map.rectangles[2].segment_address, 1536);
}

#[test]
fn pages_that_go_back_cut_a_mapped_range() {
    let when = |event| When {
        event,
        time_ns: event,
    };
    let mut mapped = Mapped::new(10);
    let space = crate::space::Space::new(crate::space::SpaceConfig::bare(64));
    mapped.see(&space, when(0));
    mapped.map(0, 100, when(1));
    mapped.unmap(40, 20, when(3));
    let (ranges, left_out) = mapped.finish(when(9));
    let ranges: Vec<_> = ranges
        .iter()
        .map(|r| (r.address, r.bytes, r.from.event, r.to.event))
        .collect();
    assert_eq!(ranges, [(0, 100, 1, 3), (0, 40, 3, 9), (60, 40, 3, 9)]);
    assert_eq!(left_out, 0);
}

/// Whatever is not kept as a rectangle is in the raster: no byte-event gets lost.
#[test]
fn rectangles_and_raster_hold_everything_together() {
    let mut script = Script::new();
    let mut live = Vec::new();
    let mut state = 3u64;
    for key in 0..3000u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        script.alloc(key, 1 + (state >> 33) % 20_000);
        live.push(key);
        if live.len() > 30 {
            script.free(live.swap_remove((state >> 40) as usize % 30));
        }
    }
    let trace = script.finish();
    let all = Limits {
        rectangles: usize::MAX,
        ..Limits::default()
    };
    let small = Limits {
        rectangles: 50,
        columns: 64,
        rows: 32,
    };
    let whole = map(&trace, Walk::default(), 1 << 20, all);
    let map = map(&trace, Walk::default(), 1 << 20, small);
    assert_eq!(map.rectangles.len(), 50);
    assert_eq!(map.in_raster as usize + 50, whole.rectangles.len());
    assert!(map.columns.len() <= 64);
    let mut rows: Vec<_> = map.cells.iter().map(|cell| cell.address).collect();
    rows.dedup();
    assert!(rows.len() <= 32, "{}", rows.len());
    let least_kept = map.rectangles.iter().map(Area::area).min();
    let larger = whole
        .rectangles
        .iter()
        .filter(|r| Some(r.area()) > least_kept)
        .count();
    assert!(larger < 50, "the largest are kept");
    let areas = |map: &AddressMap| map.rectangles.iter().map(Area::area).sum::<u128>();
    let in_cells: f64 = map
        .cells
        .iter()
        .map(|cell| {
            let from = map.columns[cell.column as usize].from.event;
            let next = map
                .columns
                .get(cell.column as usize + 1)
                .map_or(map.end, |c| c.from);
            cell.bytes as f64 * (next.event - from) as f64 * cell.occupancy_ppm as f64 / 1e6
        })
        .sum();
    let missing = (areas(&whole) - areas(&map)) as f64;
    assert!(
        (in_cells / missing - 1.0).abs() < 1e-3,
        "{in_cells} of {missing}"
    );
}

/// Against plain sums: cells grow with what is added and hold the same as if they had
/// been that large from the beginning.
#[test]
fn a_raster_holds_what_one_of_its_final_size_would() {
    let when = |event| When {
        event,
        time_ns: event,
    };
    let mut state = 5u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut raster = Raster::new(16, 8);
    let mut blocks = Vec::new();
    for event in 0..300 {
        raster.column(when(event), event % 7 == 0);
        let block = Rectangle {
            address: next(1 << (4 + event / 30)),
            bytes: 1 + next(20),
            segment_address: 0,
            from: when(event - next(event.min(40) + 1)),
            to: when(event + 1),
            stream: 0,
            ordinal: event,
        };
        raster.add(&block);
        blocks.push(block);
    }
    let (columns, cells) = raster.finish(when(300));
    assert_eq!(columns.len(), 10, "300 events in columns of 32");
    assert_eq!(columns.iter().map(|it| it.failed).sum::<u64>(), 43);
    let bytes = cells[0].bytes;
    assert!(bytes > 1, "rows were joined");
    let overlap = |a: (u64, u64), b: (u64, u64)| a.1.min(b.1).saturating_sub(a.0.max(b.0));
    let mut expected = Vec::new();
    for row in 0..1 << 14 {
        for column in 0..10 {
            let (rows, span) = (
                (row * bytes, (row + 1) * bytes),
                (column * 32, column * 32 + 32),
            );
            let areas = blocks.iter().map(|it| {
                let high = overlap(rows, (it.address, it.address + it.bytes));
                high * overlap(span, (it.from.event, it.to.event))
            });
            let area: u64 = areas.sum();
            if area > 0 {
                let full = bytes * (span.1.min(300) - span.0);
                expected.push((rows.0, column as u32, area * 1_000_000 / full));
            }
        }
    }
    let shown = |cell: &raster::Cell| (cell.address, cell.column, cell.occupancy_ppm);
    assert_eq!(cells.iter().map(shown).collect::<Vec<_>>(), expected);
}

#[test]
fn the_largest_are_kept_however_they_come() {
    let range = |bytes: u64, address| MappedRange {
        address,
        bytes,
        from: When::default(),
        to: When {
            event: 1,
            time_ns: 1,
        },
    };
    // Many are equal: of those the lower addresses stay.
    let all: Vec<_> = (0..500u64)
        .map(|at| range(1 + at * 7919 % 40, at))
        .collect();
    for most in [0, 1, 7, 499, 500, 1000] {
        let mut largest = largest::Largest::new(most);
        let mut left_out = Vec::new();
        for one in &all {
            largest.push(*one, |small| left_out.push(*small));
        }
        let kept = largest.finish(|small| left_out.push(*small));
        let mut sorted = all.clone();
        sorted.sort_by_key(|it| (std::cmp::Reverse(it.bytes), it.address));
        let mut expected = sorted[..most.min(500)].to_vec();
        expected.sort_by_key(Area::key);
        assert_eq!(kept, expected, "{most}");
        assert_eq!(left_out.len(), 500 - expected.len());
    }
}
