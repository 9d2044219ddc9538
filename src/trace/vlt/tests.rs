//! The binary format: round trips, streams, and broken files.

use proptest::prelude::*;

use super::super::random::{random_trace, random_truth};
use super::super::{Ids, error::Place};
use super::*;

fn bytes_of(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    write(trace, &mut out).unwrap();
    out
}

fn full_trace(seed: u64, events: usize) -> Trace {
    let mut trace = random_trace(seed, events);
    trace.truth = Some(Box::new(random_truth(seed, events as u32)));
    trace.report.format = "random".to_owned();
    trace.report.note(3, "three things");
    trace
}

#[test]
fn an_empty_trace_and_one_of_many_blocks_round_trip() {
    let empty = Trace::default();
    assert_eq!(read(&bytes_of(&empty)[..], "e").unwrap(), empty);
    for events in [BLOCK_EVENTS, 3 * BLOCK_EVENTS + 5] {
        let trace = full_trace(2, events);
        assert_eq!(read(&bytes_of(&trace)[..], "t").unwrap(), trace);
    }
}

#[test]
fn a_stream_holds_one_block_and_gives_the_same() {
    let trace = full_trace(4, 2 * BLOCK_EVENTS + 7);
    let bytes = bytes_of(&trace);
    let mut reader = VltReader::new(&bytes[..], "t").unwrap();
    assert_eq!(reader.head().streams, trace.streams);
    assert!(reader.has_times());
    let (mut events, mut times, mut all) = (Vec::new(), Vec::new(), Vec::new());
    while reader.next_block(&mut events, &mut times).unwrap() {
        assert!(events.len() <= BLOCK_EVENTS && events.len() == times.len());
        all.append(&mut events);
    }
    assert_eq!(all, trace.events);
    assert_eq!(reader.finish().unwrap().ids, trace.ids);
}

#[test]
fn events_take_few_bytes() {
    let mut trace = random_trace(1, 0);
    let requests = 50_000u32;
    for slot in 0..requests {
        let bytes = u64::from(slot % 97) * 512;
        trace.events.push(Event::Alloc {
            slot,
            bytes,
            align_log2: 0,
            stream: 0,
            pool: 0,
            tag: 0,
        });
    }
    trace.events.extend((0..requests).map(|slot| Event::Free {
        slot,
        stream: 0,
        deferred: false,
    }));
    (trace.slots, trace.ids) = (requests, Ids::Ordinal);
    trace.initial_events = 0;
    let length = bytes_of(&trace).len();
    assert!(length < 4 * trace.events.len(), "{length} bytes");
}

#[test]
fn wrong_magic_version_and_length_are_told_with_their_offset() {
    let good = bytes_of(&full_trace(1, 20));
    let broken = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        read(&bytes[..], "x.vlt").unwrap_err()
    };
    let message = broken(0, b"\x89VLT\n\n").to_string();
    assert!(
        message.starts_with("x.vlt, byte 0: '\\x89VLT\\n\\n"),
        "{message}"
    );
    let message = broken(8, &7u32.to_le_bytes()).to_string();
    assert!(message.contains("byte 8: version 7"), "{message}");
    let message = broken(13, &u32::MAX.to_le_bytes()).to_string();
    assert!(
        message.contains("byte 12: a frame of 4294967295 bytes"),
        "{message}"
    );
    let message = broken(20, b"\xff").to_string();
    assert!(message.contains("byte 12: the checksum"), "{message}");
}

#[test]
fn every_cut_is_told_at_the_end_of_what_is_there() {
    let good = bytes_of(&full_trace(6, 30));
    for end in 0..good.len() {
        let error = read(&good[..end], "x").unwrap_err();
        assert_eq!(error.place(), Place::Offset(end as u64), "{error}");
    }
    let longer = [&good[..], b"\0"].concat();
    let error = read(&longer[..], "x").unwrap_err();
    assert_eq!(error.place(), Place::Offset(good.len() as u64), "{error}");
}

/// Writes frames by hand, with right checksums.
fn crafted(frames: &[(u8, Vec<u8>)]) -> Result<Trace, TraceError> {
    let mut writer = FrameWriter::new(Vec::new()).unwrap();
    for (tag, payload) in frames {
        writer.frame(*tag, payload).unwrap();
    }
    read(&writer.finish().unwrap()[..], "x")
}

#[test]
fn payloads_with_right_sums_and_wrong_content_are_errors() {
    let mut head = random_trace(1, 0);
    head.streams = vec![0];
    let head = (tables::HEAD, tables::put_head(&head, false));
    let block = |columns: [&[u8]; 6]| {
        let lengths = columns.map(|column| column.len() as u8);
        (tables::BLOCK, [&lengths[..], &columns.concat()].concat())
    };
    for (frames, what) in [
        (vec![(b'Q', vec![])], "where the head belongs"),
        (
            vec![(tables::HEAD, vec![200])],
            "head: the payload ends too early",
        ),
        (
            vec![head.clone(), block([&[31], &[], &[], &[], &[], &[]])],
            "event kind 31",
        ),
        (
            vec![head.clone(), block([&[0], &[], &[2], &[5], &[], &[]])],
            "event 0: slot 1 is used before",
        ),
        (
            vec![head.clone(), block([&[2], &[], &[0], &[], &[], &[]])],
            "event 0: slot 0 is not live",
        ),
        (
            vec![head.clone(), block([&[19], &[], &[], &[9], &[], &[]])],
            "event 0: label 9",
        ),
        (
            vec![head.clone(), block([&[14], &[], &[], &[9], &[], &[]])],
            "1 bytes are left over",
        ),
        (
            vec![head.clone(), block([&[12], &[], &[1], &[], &[], &[]])],
            "slot -1 is out of range",
        ),
        (vec![head.clone(), (b'Q', vec![1])], "a frame of kind 0x51"),
        (
            vec![head.clone(), (b'F', vec![0; 6])],
            "facts come before their head",
        ),
        (
            vec![head.clone(), (tables::END, vec![5, 0, 0, 0, 0, 0, 0])],
            "0 events came, 5 were",
        ),
        (
            vec![head.clone(), (tables::END, vec![0, 5, 0, 0, 0, 0, 0])],
            "slots: the trace says 5",
        ),
    ] {
        let message = crafted(&frames).unwrap_err().to_string();
        assert!(message.contains(what), "{what}: {message}");
    }
}

#[test]
#[should_panic(expected = "event 1: slot 0 is taken already")]
fn a_generator_that_breaks_a_rule_is_stopped_at_its_event() {
    let head = Trace {
        streams: vec![0],
        pools: vec![(0, 0)],
        ..Trace::default()
    };
    let mut writer = VltWriter::new(Vec::new(), &head, false).unwrap();
    let event = Event::Alloc {
        slot: 0,
        bytes: 1,
        align_log2: 0,
        stream: 0,
        pool: 0,
        tag: 0,
    };
    for _ in 0..2 {
        writer.push(&event, 0).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_the_same(seed in any::<u64>(), events in 0usize..400) {
        let trace = full_trace(seed, events);
        prop_assert_eq!(read(&bytes_of(&trace)[..], "t").unwrap(), trace);
    }

    #[test]
    fn a_changed_byte_is_always_found(seed in 0u64..50, at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = bytes_of(&full_trace(seed, 50));
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(read(&bytes[..], "t").is_err());
    }

    #[test]
    fn random_payloads_never_panic(tag in prop::sample::select(b"BINGRFSLE".to_vec()), payload in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut head = random_trace(1, 0);
        head.streams = vec![0];
        let frames = [(tables::HEAD, tables::put_head(&head, true)), (tag, payload)];
        let error = crafted(&frames);
        prop_assert!(error.is_err() || tag == tables::END);
    }
}
