//! Importers on real recordings and on broken files, through the one way in.

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use vramlab::files::write_atomically;
use vramlab::trace::text::Source;
use vramlab::trace::truth::TruthKind;
use vramlab::trace::{self, Event, OpenOptions, Trace, TraceError, open, unpack, vlt};

/// The folder of shared recordings, where it is present.
fn shared(inside: &str) -> Option<PathBuf> {
    let root = std::env::var_os("VRAMLAB_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let folder = root.join(inside);
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: {} is absent", folder.display());
    None
}

/// The files of a folder whose names end so, in order.
fn files(inside: &str, end: &str) -> Vec<PathBuf> {
    let Some(folder) = shared(inside) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    files.sort();
    files
}

/// Opens a file that holds one trace, and checks its rules and its round trip.
fn one(path: &Path) -> Trace {
    let mut traces = open(path, &OpenOptions::default()).unwrap();
    assert_eq!(traces.len(), 1);
    let trace = traces.remove(0);
    assert_eq!(trace::check::check(&trace), Ok(()), "{}", path.display());
    let mut bytes = Vec::new();
    vlt::write(&trace, &mut bytes).unwrap();
    assert_eq!(vlt::read(&bytes[..], "t").unwrap(), trace);
    trace
}

/// Reads bytes as `open` would.
fn read(bytes: &[u8], name: &str) -> Result<Vec<Trace>, TraceError> {
    let options = OpenOptions::default();
    let raw = Box::new(Cursor::new(bytes.to_vec()));
    let unpacked = unpack::unpack(raw, name, options.limit_bytes)?;
    open::read(unpacked, &Source::named(name), &options)
}

/// The rows of a compressed csv without its header.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(cells).collect()
}

#[test]
fn every_plain_recording_is_read_row_by_row() {
    for folder in ["bfc", "cupy", "rmm", "cuda"] {
        for path in files(&format!("recordings/{folder}"), ".csv.gz") {
            if path.to_string_lossy().contains("rmmlog") {
                continue;
            }
            let (rows, trace) = (rows(&path), one(&path));
            assert_eq!(trace.report.format, "plain csv");
            assert_eq!(trace.report.entries, rows.len() as u64);
            assert_eq!(trace.events.len(), rows.len());
            for (row, event) in rows.iter().zip(&trace.events) {
                let size = row[2].parse::<u64>().unwrap();
                match event {
                    Event::Alloc { bytes, .. } => assert_eq!((&*row[0], size), ("alloc", *bytes)),
                    Event::Attempt { bytes, .. } => assert_eq!((&*row[0], size), ("oom", *bytes)),
                    Event::Free { .. } => assert_eq!(row[0], "free"),
                    other => panic!("{}: {other:?}", path.display()),
                }
            }
            let truth = trace.truth.unwrap();
            let addresses = truth
                .entries
                .iter()
                .filter(|fact| fact.kind == TruthKind::Alloc);
            let allocs: Vec<_> = rows.iter().filter(|row| row[0] == "alloc").collect();
            assert_eq!(addresses.clone().count(), allocs.len());
            for (fact, row) in addresses.zip(allocs) {
                assert_eq!(fact.address.to_string(), row[4]);
            }
        }
    }
}

#[test]
fn every_rmm_log_tells_the_same_requests_as_the_script_beside_it() {
    for path in files("recordings/rmm", ".rmmlog.dev0.csv.gz") {
        let trace = one(&path);
        assert_eq!(trace.report.format, "RMM log");
        assert!(trace.has_times());
        assert_eq!(trace.initial_events, 0);
        let plain = path.to_string_lossy().replace(".rmmlog.dev0", "");
        let plain = one(Path::new(&plain));
        assert_eq!(trace.events.len(), plain.events.len());
        assert_eq!(trace.slots, plain.slots);
        for (log, script) in trace.events.iter().zip(&plain.events) {
            match (log, script) {
                (
                    Event::Alloc { slot, bytes, .. },
                    Event::Alloc {
                        slot: s, bytes: b, ..
                    },
                ) => {
                    assert_eq!((slot, bytes), (s, b));
                }
                (Event::Free { slot, .. }, Event::Free { slot: s, .. }) => assert_eq!(slot, s),
                (Event::Attempt { bytes, .. }, Event::Attempt { bytes: b, .. }) => {
                    assert_eq!(bytes, b);
                }
                other => panic!("{}: {other:?}", path.display()),
            }
        }
    }
}

#[test]
fn public_samples_are_read() {
    let minimalloc = files("public/minimalloc", ".csv");
    for path in minimalloc.iter().chain(&files("public/idealloc", ".csv")) {
        let trace = one(path);
        let lines = std::fs::read_to_string(path).unwrap();
        let buffers = lines
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .count();
        assert_eq!(trace.report.format, "MiniMalloc csv");
        assert_eq!(trace.report.entries, buffers as u64);
        let empty = trace
            .report
            .notes
            .iter()
            .find(|note| note.what.contains("no tick"));
        let empty = empty.map_or(0, |note| note.count as usize);
        assert_eq!(trace.events.len(), 2 * (buffers - empty));
    }
    for path in minimalloc {
        let expected = if path.ends_with("input.12.csv") {
            12
        } else {
            1_048_576
        };
        assert_eq!(one(&path).capacity_bytes, Some(expected));
    }
    for path in files("public/rmm", ".txt") {
        assert_eq!(one(&path).events.len(), 2);
    }
}

#[test]
fn pytorch_recordings_are_read_whole_and_stripped() {
    for path in files("recordings/torch", "churn_default_s1.pickle.gz") {
        let trace = one(&path);
        assert_eq!(trace.name, "churn_default_s1");
        assert!(trace.report.format.to_lowercase().contains("pytorch"));
        assert!(trace.requests() > 1_000);
    }
    for path in files("public/derived-pytorch", "medium_128_training.events.csv") {
        let trace = one(&path);
        assert!(trace.report.entries > 1_000);
        assert!(
            trace.initial_events > 0,
            "the final segments were read beside it"
        );
    }
    let cut = b"\x80\x04\x95\xff\xff\xff\xff\x00\x00\x00\x00}";
    let error = read(cut, "cut.pickle").unwrap_err();
    assert!(
        error.to_string().starts_with("cut.pickle, byte "),
        "{error}"
    );
}

/// A small file of each text format.
const SMALL: [(&str, &str); 7] = [
    (
        "native",
        "# capacity 1GiB\nevent,id,bytes,stream,time\nalloc,a,1KiB,0,1\nfree_deferred,a\ncomplete,a\nmark,\"x,y\"\n",
    ),
    (
        "rmm",
        "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.5,allocate,0x10,64,0\n1,10:00:00.6,free,0x10,64,0\n",
    ),
    (
        "plain",
        "op,id,size,stream,address,used,host_us\nalloc,1,64,0,256,64,1.5\nfree,1,64,0,256,0,2\n",
    ),
    (
        "mini.64",
        "id,lower,upper,size,alignment\n0,0,4,64,16\n1,2,5,7,\n",
    ),
    ("rep", "20000\n2\n3\n1\na 0 64\nr 0 128\nf 0\n"),
    ("wee", "Alloc(7),\nAlloc(8),\nFree(0),\n"),
    ("free-standing", "alloc,a,1\nalloc,b,2\nfree,a\nfree,a\n"),
];

#[test]
fn every_cut_of_a_small_file_is_an_error_or_a_trace() {
    for (name, text) in SMALL {
        assert_eq!(read(text.as_bytes(), name).unwrap().len(), 1, "{name}");
        let dos = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let (unix, dos) = (read(text.as_bytes(), name), read(dos.as_bytes(), name));
        assert_eq!(unix.unwrap(), dos.unwrap(), "{name}");
        for end in 0..text.len() {
            match read(&text.as_bytes()[..end], name) {
                Ok(traces) => assert_eq!(trace::check::check(&traces[0]), Ok(()), "{name} {end}"),
                Err(error) => assert!(error.to_string().starts_with(name), "{error}"),
            }
        }
    }
}

#[test]
fn files_of_no_known_format_are_refused_after_a_look() {
    let zeros = || Box::new(std::io::repeat(0));
    let options = OpenOptions::default();
    let unpacked = unpack::unpack(zeros(), "zeros", u64::MAX).unwrap();
    let error = open::read(unpacked, &Source::named("zeros"), &options).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("zeros, byte 0: no known format begins with '\\x00"),
        "{error}"
    );
    let message = read(b"", "none").unwrap_err().to_string();
    assert!(
        message.starts_with("none: the file is empty; expected one of"),
        "{message}"
    );
    let message = read(b"\xff\xfeo\0p\0", "utf16").unwrap_err().to_string();
    assert!(message.contains("'\\xff\\xfeo"), "{message}");
    let missing = open(Path::new("no/such/file.csv"), &options).unwrap_err();
    assert!(matches!(missing, TraceError::Io { .. }), "{missing}");
}

/// A megabyte of compressed zeros behind a good beginning.
fn bomb(head: &str) -> Vec<u8> {
    let mut out = zstd::Encoder::new(Vec::new(), 1).unwrap();
    out.write_all(head.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..256 {
        out.write_all(&zeros).unwrap();
    }
    out.finish().unwrap()
}

#[test]
fn bombs_are_told_by_their_first_line_that_is_no_row() {
    for (name, text) in SMALL {
        let error = read(&bomb(text), name).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
    }
    let error = read(&bomb(""), "zeros").unwrap_err().to_string();
    assert!(error.contains("no known format"), "{error}");
}

#[test]
fn a_device_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv.gz");
    write_atomically(&path, |out| out.write_all(b"# device 2\nalloc,a,1\n")).unwrap();
    let options = |device| OpenOptions {
        device: Some(device),
        ..OpenOptions::default()
    };
    assert_eq!(open(&path, &options(2)).unwrap()[0].name, "a");
    let message = open(&path, &options(0)).unwrap_err().to_string();
    assert!(
        message.contains("holds no device 0; it holds device 2"),
        "{message}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn flipped_bytes_never_panic(
        file in 0usize..SMALL.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (name, text) = SMALL[file];
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        match read(&bytes, name) {
            Ok(traces) => prop_assert_eq!(trace::check::check(&traces[0]), Ok(())),
            Err(error) => prop_assert!(error.to_string().starts_with(name)),
        }
    }
}

/// A row whose cells are alike is no header in which a name occurs twice.
#[test]
fn a_csv_without_a_header_may_begin_with_equal_cells() {
    for first in [
        "alloc,0,512,0",
        "alloc,64,64",
        "alloc,0,0",
        "alloc,a,1KiB,0,0",
    ] {
        let text = format!("{first}\nalloc,b,5\n");
        let traces = read(text.as_bytes(), "alike.csv").expect("a native csv");
        assert_eq!(traces[0].events.len(), 2, "{first}");
    }
}
