//! Names, numbers, and what rows come to over ranks.

use super::*;

#[test]
fn names_sort_as_people_count() {
    let mut names = [
        "rank10.csv",
        "rank2.csv",
        "rank02b.csv",
        "a.csv",
        "rank1.csv",
    ];
    names.sort_by_key(|name| natural(name));
    assert_eq!(
        names,
        [
            "a.csv",
            "rank1.csv",
            "rank2.csv",
            "rank02b.csv",
            "rank10.csv"
        ]
    );
}

#[test]
fn ranks_are_the_numbers_that_names_tell() {
    assert_eq!(numbers(&["mem_rank0_of8", "mem_rank7_of8"]), [0, 7]);
    assert_eq!(numbers(&["Rank-3", "RANK=12"]), [3, 12]);
    assert_eq!(numbers(&["snapshot_5", "snapshot_9"]), [5, 9]);
    assert_eq!(numbers(&["a_5", "b_5"]), [0, 1], "the same number twice");
    assert_eq!(numbers(&["x", "rank4"]), [0, 1], "a name without one");
    assert_eq!(numbers(&["7-ranked", "8-ranked"]), [7, 8]);
}

fn row(rank: u64, policy: &str, failed: u64, event: u64, ns: Option<u64>) -> RankRow {
    RankRow {
        rank,
        first_failure_ns: ns,
        row: Row {
            policy: policy.into(),
            failed,
            first_failure_event: (failed > 0).then_some(event),
            footprint_bytes: 100 * (rank + 1),
            memory_efficiency_ppm: Some(1000 - rank),
            ..Row::default()
        },
    }
}

/// By hand: footprints 100, 200, 300, 400: worst 400 of rank 3, median 250, spread 300.
#[test]
fn worst_median_and_spread_over_four_ranks() {
    let rows: Vec<RankRow> = (0..4).map(|rank| row(rank, "p", 0, 0, None)).collect();
    let all = over_ranks(&rows);
    let spread = all[0].spread("footprint_bytes").expect("all have one");
    let told = (
        spread.worst,
        spread.worst_rank,
        spread.median,
        spread.spread,
    );
    assert_eq!(told, (400, 3, 250, 300));
    let spread = all[0]
        .spread("memory_efficiency_ppm")
        .expect("all have one");
    assert_eq!((spread.worst, spread.worst_rank), (997, 3), "less is worse");
    let same = all[0].spread("failed").expect("all have one");
    assert_eq!(
        (same.worst, same.worst_rank),
        (0, 0),
        "the lowest of equals"
    );
    assert_eq!(all[0].first_failure, None);
    assert_eq!(all[0].spread("mean_external_fragmentation_ppm"), None);
}

#[test]
fn the_first_failure_is_by_time_where_all_have_times() {
    let timed = [row(0, "p", 2, 5, Some(90)), row(1, "p", 1, 8, Some(40))];
    let first = over_ranks(&timed)[0].first_failure.clone().expect("one");
    assert_eq!((first.rank, first.event, first.time_ns), (1, 8, Some(40)));
    let untimed = [row(0, "p", 2, 5, Some(90)), row(1, "p", 1, 8, None)];
    let first = over_ranks(&untimed)[0].first_failure.clone().expect("one");
    assert_eq!((first.rank, first.event), (0, 5));
    let all = over_ranks(&[timed[0].clone(), row(0, "a", 0, 0, None)]);
    assert_eq!((&*all[0].policy, &*all[1].policy), ("a", "p"), "best first");
    assert_eq!(
        (all[1].failed, all[1].ranks_failed, all[1].ranks),
        (2, 1, 1)
    );
}
