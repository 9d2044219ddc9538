//! Large files are read by several threads: what comes out, events and errors, is the same
//! as on one.

use std::fmt::Write as _;
use std::io::{self, BufReader, Read};

use vramlab::trace::pytorch::{self, Options};
use vramlab::trace::snapshot::{self, Action, Entry, Frame, Snapshot};
use vramlab::trace::text::Source;
use vramlab::trace::{Event, Trace, TraceError, csv};

/// What `work` answers on 1 thread, and that it answers the same on 2 and on 5.
fn on_any<T: PartialEq + std::fmt::Debug + Send>(work: impl Fn() -> T + Sync) -> T {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(&work)
    };
    let alone = on(1);
    for threads in [2, 5] {
        assert!(on(threads) == alone, "other results on {threads} threads");
    }
    alone
}

/// Requests and frees by number; the rows in between are of all other kinds.
fn rows(count: u64, between: impl Fn(u64) -> Option<String>) -> String {
    let mut text = "event,id,bytes,stream,time,align,pool,tag\n".to_owned();
    for row in 0..count {
        let live = 300;
        writeln!(
            text,
            "alloc,{row},{},{},{}",
            row * 7919 % 100_003,
            row % 3,
            row * 750
        )
        .unwrap();
        if row >= live {
            writeln!(text, "free,{},,{}", row - live, row % 3).unwrap();
        }
        if let Some(line) = between(row) {
            text += &line;
            text.push('\n');
        }
    }
    text
}

fn import(text: &[u8]) -> Result<Trace, String> {
    let source = Source::named("f.csv");
    let told = |error: TraceError| error.to_string();
    let whole = csv::import(&mut &text[..], &source).map_err(told);
    let pieces = csv::import(&mut BufReader::with_capacity(1000, text), &source).map_err(told);
    assert!(whole == pieces, "large and small pieces differ");
    whole
}

#[test]
fn a_large_csv_is_the_same_on_any_number_of_threads() {
    let text = rows(100_000, |row| match row {
        30_000 => Some("mark,\"phase, two\"".to_owned()),
        50_000..50_010 => Some(format!("use,{row},,1")),
        60_000 => Some("# a comment\n\nalloc,word,1KiB,,,256".to_owned()),
        99_999 => Some("free,word".to_owned()),
        _ => None,
    });
    assert!(text.len() > 3 << 20, "more than one block");
    let trace = on_any(|| import(text.as_bytes())).expect("a good file");
    assert_eq!(trace.report.entries, trace.report.events);
    assert_eq!(trace.events.len(), 100_000 + 99_700 + 1 + 10 + 2);
    let marks = trace
        .events
        .iter()
        .filter(|it| matches!(it, Event::Mark { .. }));
    assert_eq!(marks.count(), 1);
}

#[test]
fn the_first_error_of_a_large_csv_wins_and_names_its_line() {
    let text = rows(40_000, |row| match row {
        30_000 => Some("alloc,29990,7".to_owned()),
        30_001 => Some("alloc,1,x".to_owned()),
        _ => None,
    });
    let error = on_any(|| import(text.as_bytes())).unwrap_err();
    let line = 1 + 30_001 + 29_701 + 1;
    assert!(
        error.starts_with(&format!("f.csv, line {line}: alloc of '29990'")),
        "{error}"
    );

    let mut bytes = text.replace("alloc,29990,7\n", "").into_bytes();
    let at = bytes.len() / 2;
    bytes[at] = 0xff;
    let error = on_any(|| import(&bytes)).unwrap_err();
    assert!(error.contains("byte 0xff"), "{error}");
}

/// A recording whose file has several MiB.
fn recording() -> Snapshot {
    let mut made = Snapshot::default();
    let name = made.tables.add_text("forward");
    let filename = made.tables.add_text("model.py");
    let stacks: Vec<_> = (0..50)
        .map(|line| {
            let frame = made.tables.add_frame(Frame {
                name,
                filename,
                line,
            });
            made.tables.add_stack(&[frame])
        })
        .collect();
    let trace = (0..150_000u64).map(|at| {
        let step = at / 3;
        let action = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted][at as usize % 3];
        let mut entry = Entry::new(
            action,
            0x7f00_0000_0000 + step % 100 * 512,
            step % 777,
            step % 2,
        );
        entry.set_time_us(Some(1_796_031_401_819_213 + at as i64));
        entry.stack = (step < 50 || step % 5 > 0).then(|| stacks[step as usize % stacks.len()]);
        entry
    });
    made.device_traces = vec![
        trace.collect(),
        Vec::new(),
        vec![Entry::new(Action::Alloc, 4096, 9, 0)],
    ];
    made
}

#[test]
fn a_large_snapshot_is_the_same_on_any_number_of_threads() {
    let made = recording();
    let mut bytes = Vec::new();
    snapshot::write(&made, &mut bytes).unwrap();
    assert!(
        bytes.len() > 2 << 20,
        "more than one thread is worth its start"
    );
    let read = on_any(|| snapshot::read(&bytes).expect("just written"));
    assert!(read.device_traces == made.device_traces, "written and read");
    let traces = on_any(|| pytorch::import(&read, "f", "f", Options::default()).unwrap());
    assert_eq!(traces.len(), 2);
    let truth = traces[0].truth.as_deref().expect("a recording");
    assert_eq!(truth.entries.len(), 150_000);
}

#[test]
fn a_large_snapshot_that_is_cut_or_cannot_be_read_on_is_the_same_error() {
    /// Gives so many bytes, and then fails.
    struct Failing<'a>(&'a [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("the disk is gone")),
                read => Ok(read),
            }
        }
    }
    let mut bytes = Vec::new();
    snapshot::write(&recording(), &mut bytes).unwrap();
    for left in [bytes.len() - 1, 2_222_222, 1 << 20, 1000] {
        let error = on_any(|| snapshot::read(&bytes[..left]).unwrap_err());
        assert!(error.to_string().contains("the file ends here"), "{error}");
        let error = on_any(|| snapshot::read_from(Failing(&bytes[..left])).unwrap_err());
        assert!(error.to_string().contains("the disk is gone"), "{error}");
    }
    bytes[2_000_000..2_000_050].fill(b'?');
    let error = on_any(|| snapshot::read_from(Failing(&bytes)).unwrap_err());
    assert!(error.to_string().contains("byte 2000"), "{error}");
}
