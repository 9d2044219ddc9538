//! RMM logs by hand: spellings, inference, broken rows.

use super::*;
use crate::trace::{Event, Ids};

const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

fn import_rows(rows: &str) -> Result<Trace, TraceError> {
    let text = format!("{HEADER}{rows}");
    import(&mut text.as_bytes(), &Source::named("log.dev2"))
}

fn kinds(trace: &Trace) -> String {
    let letter = |event: &Event| match event {
        Event::Alloc { .. } => 'a',
        Event::Attempt { .. } => 'x',
        Event::Free { .. } => 'f',
        Event::FreeAgain { .. } => '2',
        _ => '?',
    };
    trace.events.iter().map(letter).collect()
}

#[test]
fn every_spelling_of_pointer_and_stream_is_read() {
    let trace = import_rows(
        "7,23:59:59.900000,allocate,0x10,100,0\n\
         7,23:59:59:950000,allocate,20,100,0x7f00\n\
         8,00:00:00.000001,allocate failure,(nil),5,(nil)\n\
         8,00:00:00.000000,allocate,(nil),0,2\n\
         8,00:00:01,free,0x0,0,2\n\
         7,00:00:01,free,0x10,100,0x7f00\n",
    )
    .unwrap();
    assert_eq!(kinds(&trace), "aaxaff");
    assert_eq!(trace.streams, [0, 0x7f00, 2]);
    assert_eq!(trace.device, 2);
    assert_eq!(trace.ids, Ids::Numbers(vec![0x10, 0x20, 0, 0]));
    assert_eq!(
        trace.times_ns,
        [
            0,
            50_000_000,
            100_001_000,
            100_001_000,
            1_100_000_000,
            1_100_000_000
        ]
    );
    let notes = format!("{:?}", trace.report.notes);
    for word in ["midnight", "threads", "failed", "before the row above"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    let truth = trace.truth.unwrap();
    assert_eq!(truth.entries.len(), 2);
    assert_eq!(
        (truth.entries[1].event, truth.entries[1].address),
        (1, 0x20)
    );
}

#[test]
fn a_block_older_than_the_log_is_put_before_it() {
    let trace = import_rows(
        "1,10:00:00.5,allocate,0x10,1,0\n\
         1,10:00:01.0,free,0x30,64,0\n\
         1,10:00:01.0,free,0x30,64,0\n",
    )
    .unwrap();
    assert_eq!(kinds(&trace), "aaf2");
    assert_eq!(trace.initial_events, 1);
    assert!(matches!(trace.events[0], Event::Alloc { bytes: 64, .. }));
    assert_eq!(trace.times_ns, [0, 0, 500_000_000, 500_000_000]);
    assert_eq!(trace.report.notes[0].count, 1);
}

#[test]
fn a_pointer_that_comes_again_while_live_had_a_free_that_is_late_or_lost() {
    let trace = import_rows(
        "1,10:00:00,allocate,0x10,64,0\n\
         2,10:00:00,allocate,0x10,32,0\n\
         1,10:00:00,free,0x10,64,0\n\
         2,10:00:00,free,0x10,32,0\n",
    )
    .unwrap();
    assert_eq!(kinds(&trace), "afaf");
    assert_eq!(trace.report.notes[0].count, 1);
    assert_eq!(trace.report.notes[1].count, 1);
    let same_size = import_rows(
        "1,10:00:00,allocate,0x10,64,0\n\
         2,10:00:00,allocate,0x10,64,0\n\
         1,10:00:00,free,0x10,64,0\n\
         2,10:00:00,free,0x10,64,0\n",
    )
    .unwrap();
    assert_eq!(kinds(&same_size), "afaf");
}

#[test]
fn broken_rows_name_line_and_value() {
    for (row, value) in [
        ("1,10:00:00,realloc,0x10,64,0", "'realloc'"),
        ("1,25:00:00,free,0x10,64,0", "'25:00:00'"),
        ("1,10:00:00,free,0xzz,64,0", "'0xzz'"),
        ("1,10:00:00,free,0x10,-64,0", "'-64'"),
        ("1,10:00:00,free,0x10,64,-1", "'-1'"),
        ("1,10:00:00,free,0x10", "''"),
        ("x,10:00:00,free,0x10,64,0", "'x'"),
    ] {
        let message = import_rows(row).unwrap_err().to_string();
        assert!(message.starts_with("log.dev2, line 2: "), "{message}");
        assert!(message.contains(value), "{message}");
    }
}
