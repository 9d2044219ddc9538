//! The native text format: by hand, round trips, and broken files.

use proptest::prelude::*;

use super::super::check;
use super::super::random::random_trace;
use super::super::{Ids, ImportReport, Trace};
use super::*;

fn import_text(text: &str) -> Result<Trace, TraceError> {
    import(&mut text.as_bytes(), &Source::named("t.csv"))
}

/// A trace without what the format leaves behind.
fn kept(mut trace: Trace) -> Trace {
    trace.name = String::new();
    trace.truth = None;
    trace.report = ImportReport::default();
    trace
}

#[test]
fn a_trace_is_written_by_hand_without_a_header() {
    let trace =
        import_text("# capacity 8GiB\nalloc,a,1024\nalloc,b,1.5KiB\nfree,a\nfree,a\nfree,z\n")
            .unwrap();
    assert_eq!(trace.capacity_bytes, Some(8 << 30));
    assert_eq!(trace.ids, Ids::Names(vec!["a".into(), "b".into()]));
    assert_eq!(trace.streams, [0]);
    assert!(!trace.has_times());
    let on = |slot, bytes| Event::Alloc {
        slot,
        bytes,
        align_log2: 0,
        stream: 0,
        pool: 0,
        tag: 0,
    };
    assert_eq!(
        trace.events,
        [
            on(0, 1024),
            on(1, 1536),
            Event::Free {
                slot: 0,
                stream: 0,
                deferred: false
            },
            Event::FreeAgain { id: 0 },
            Event::FreeUnknown { id: 2 },
        ]
    );
}

#[test]
fn columns_stand_in_any_order_and_every_word_is_read() {
    let trace = import_text(
        "time,event,stream,id,bytes,align,pool,tag,colour\n\
         0,alloc,0x10,a,1GiB,256,1:7,attention,red\n\
         5us,use,*,a\n,use,3,a\n,record,3,1\n,wait,,1\n,pin,,a\n,unpin,,a\n\
         6ms,free_deferred,,a\n,complete,,a\n,sync\n,sync,3\n,compact\n,trim\n\
         ,pool_begin,3,,,,7\n,pool_end,3,,,,7\n,pool_release,3,,,,7\n\
         ,mark,,\"step 1, warm\"\n,attempt,,big,8TiB\n,free_at,,0x400\n\
         ,free_again,,7\n,free_unknown,,8\n",
    )
    .unwrap();
    assert_eq!(trace.events.len(), 21);
    assert_eq!(trace.times_ns[..3], [0, 5_000, 5_000]);
    assert_eq!(trace.times_ns[20], 6_000_000);
    assert_eq!(trace.streams, [16, 3, 0]);
    assert_eq!(trace.pools, [(0, 0), (1, 7), (0, 7)]);
    assert_eq!(trace.labels, ["step 1, warm"]);
    assert_eq!(trace.tags, ["", "attention"]);
    assert_eq!(trace.report.entries, 21);
    assert!(trace.report.notes[0].what.contains("'colour'"));
    check::check(&trace).unwrap();
}

/// Rows of the usual order are read in one pass over their bytes, others cell by cell.
#[test]
fn the_order_of_the_columns_changes_nothing() {
    let rows = [
        ["alloc", "0", "4096", "", "10"],
        ["alloc", "12345678901", "1", "7", "123456789"],
        ["free", "0", "", "7", "123456790"],
        ["free", "0", "", "", "123456791"],
        ["alloc", "0", "18446744073709551615", "", ""],
        ["free", "00", "", "", ""],
        ["attempt", "3", "1GiB", "", ""],
        ["free", "3", "", "", "9999999999999999"],
        ["free_deferred", "0", "", "", ""],
        ["complete", "0", "", "", ""],
        ["alloc", "0", "007", "0", "10000000000000000"],
        ["free", "12345678901", "5", "", ""],
    ];
    let text = |order: [usize; 5]| {
        let names = ["event", "id", "bytes", "stream", "time"];
        let line = |cells: [&str; 5]| order.map(|at| cells[at]).join(",") + "\n";
        line(names) + &rows.map(line).concat()
    };
    let usual = import_text(&text([0, 1, 2, 3, 4])).unwrap();
    let turned = import_text(&text([4, 3, 2, 1, 0])).unwrap();
    assert_eq!(usual, turned);
    assert_eq!(usual.report.entries, rows.len() as u64);
    assert_eq!(usual.events[3], Event::FreeAgain { id: 0 });
}

#[test]
fn plain_rows_that_are_wrong_name_their_line() {
    let rows: String = (0..100).map(|id| format!("alloc,{id},1,,{id}\n")).collect();
    for (last, what) in [
        ("alloc,7,1\n", "alloc of '7', which is live already"),
        (
            "free_deferred,7\nalloc,7,1\n",
            "whose deferred free is not complete",
        ),
        ("alloc,100,x\n", "bytes 'x'"),
    ] {
        let text = format!("event,id,bytes,stream,time\n{rows}{last}");
        let error = import_text(&text).unwrap_err().to_string();
        let line = 101 + last.lines().count();
        assert!(
            error.starts_with(&format!("t.csv, line {line}: ")),
            "{error}"
        );
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn broken_rows_name_line_and_value() {
    for (text, value) in [
        (
            "alloc,a,1\nalloc,a,2\n",
            "line 2: alloc of 'a', which is live already",
        ),
        (
            "alloc,a,1\nfree_deferred,a\nalloc,a,2\n",
            "line 3: alloc of 'a', whose deferred",
        ),
        ("alloc,a,80GB\n", "line 1: bytes '80GB'"),
        ("alloc,a,-1\n", "line 1: bytes '-1'"),
        ("alloc,a\n", "line 1: bytes ''"),
        ("alloc,,5\n", "line 1: the row lacks an id"),
        ("event,id\nmalloc,a\n", "line 2: event 'malloc'"),
        ("event,id\nfree,a,3\n", "line 2: 3 cells in a table of 2"),
        ("event,id,id\n", "line 1: column 'id' comes twice"),
        ("complete,a\n", "line 1: complete of 'a'"),
        ("use,a\n", "line 1: use of 'a'"),
        ("alloc,a,1,,,3\n", "line 1: align '3'"),
        ("alloc,a,1,x\n", "line 1: stream 'x'"),
        ("alloc,a,1,,5 weeks\n", "line 1: time: duration '5 weeks'"),
        ("record,4294967296\n", "line 1: event number '4294967296'"),
        ("# capacity 8GB\n", "line 1: capacity '8GB'"),
        ("alloc,\"a,1\n", "line 1: a double quote"),
    ] {
        let message = import_text(text).unwrap_err().to_string();
        assert!(message.contains(value), "{message}");
    }
}

#[test]
fn a_file_with_more_streams_than_a_trace_can_name_is_an_error() {
    let rows: String = (0..70_000).map(|n| format!("sync,,,{n}\n")).collect();
    let message = import_text(&rows).unwrap_err().to_string();
    assert!(message.contains("65,534 streams"), "{message}");
}

#[test]
fn ids_that_are_held_twice_are_written_as_numbers() {
    let mut trace = import_text("alloc,a,1\nalloc,b,1\nfree,b\nfree,a\n").unwrap();
    trace.ids = Ids::Names(vec!["x".into(), "x".into()]);
    let mut out = Vec::new();
    write(&trace, &mut out).unwrap();
    let again = import(&mut &out[..], &Source::named("t")).unwrap();
    assert_eq!(again.events, trace.events);
    assert_eq!(again.ids, Ids::Ordinal);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_the_same(seed in any::<u64>(), events in 0usize..300) {
        let trace = random_trace(seed, events);
        prop_assert_eq!(check::check(&trace), Ok(()));
        let mut out = Vec::new();
        write(&trace, &mut out).unwrap();
        let again = import(&mut &out[..], &Source::named("t")).unwrap();
        prop_assert_eq!(kept(again), kept(trace));
    }

    #[test]
    fn broken_bytes_are_an_error_or_another_trace(seed in 0u64..100, at in any::<prop::sample::Index>(), byte: u8) {
        let mut out = Vec::new();
        write(&random_trace(seed, 40), &mut out).unwrap();
        let at = at.index(out.len());
        out[at] = byte;
        if let Ok(trace) = import(&mut &out[..], &Source::named("t")) {
            prop_assert_eq!(check::check(&trace), Ok(()));
        }
    }
}
