//! Snapshots of every dialect, of the recordings, and broken ones.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use vramlab::trace::snapshot::{self, Action, BlockState, Entry, Frame, Setting, Snapshot};

/// The folder of shared material, if this machine has it.
fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("VRAMLAB_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    if !path.is_dir() {
        println!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}

fn gunzip(path: &std::path::Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// What Python writes for an expression, or what a script answers on bytes; `None` without Python.
fn python(script: &str, input: &[u8]) -> Option<Vec<u8>> {
    let spawned = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!("skipped: python3 is not here");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success(), "python3 failed on {script}");
    Some(output.stdout)
}

fn dumps(expression: &str, protocol: u8) -> Option<Vec<u8>> {
    let script = format!(
        "import pickle,sys; sys.stdout.buffer.write(pickle.dumps({expression}, protocol={protocol}))"
    );
    python(&script, b"")
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Alloc => "alloc",
        Action::FreeRequested => "free_requested",
        Action::FreeCompleted => "free_completed",
        Action::SegmentAlloc => "segment_alloc",
        Action::SegmentFree => "segment_free",
        Action::SegmentMap => "segment_map",
        Action::SegmentUnmap => "segment_unmap",
        Action::Snapshot => "snapshot",
        Action::Oom => "oom",
        Action::Annotate => "annotate",
        Action::Unknown(_) => "unknown",
    }
}

fn written(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot::write(snapshot, &mut bytes).unwrap();
    bytes
}

#[test]
fn every_recording_has_the_actions_that_its_record_counts_and_survives_writing() {
    let Some(shared) = shared() else { return };
    let mut seen = 0;
    for file in std::fs::read_dir(shared.join("recordings/torch")).unwrap() {
        let path = file.unwrap().path();
        let Some(stem) = path.to_str().unwrap().strip_suffix(".pickle.gz") else {
            continue;
        };
        let read = snapshot::read(&gunzip(&path)).unwrap();
        let mut counts = BTreeMap::new();
        for entry in read.device_traces.iter().flatten() {
            *counts.entry(name(entry.action).to_owned()).or_insert(0_u64) += 1;
        }
        let json = std::fs::read_to_string(format!("{stem}.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected: BTreeMap<String, u64> =
            serde_json::from_value(json["actions"].clone()).unwrap();
        assert_eq!(counts, expected, "{stem}");
        assert!(
            read.ignored_keys.is_empty(),
            "{stem}: {:?}",
            read.ignored_keys
        );
        assert!(read.notes.is_empty(), "{stem}: {:?}", read.notes);
        assert!(read.segments.iter().all(|segment| {
            segment.blocks.iter().map(|block| block.bytes).sum::<u64>() == segment.total_bytes
        }));
        assert_eq!(
            snapshot::read(&written(&read)).unwrap().device_traces.len(),
            1
        );
        assert_eq!(
            by_content(&snapshot::read(&written(&read)).unwrap()),
            by_content(&read)
        );
        seen += 1;
    }
    assert!(seen > 0);
}

/// A snapshot with its numbered texts and call stacks written out, because a writer may number anew.
fn by_content(snapshot: &Snapshot) -> String {
    let tables = &snapshot.tables;
    let stack = |id: Option<snapshot::StackId>| -> Vec<String> {
        let frames = id.map_or(&[][..], |id| tables.stack(id));
        let show = |&id| {
            let Frame {
                name,
                filename,
                line,
            } = tables.frame(id);
            format!("{}:{line} {}", tables.text(filename), tables.text(name))
        };
        frames.iter().map(show).collect()
    };
    let mut shown = format!("{:?} {:?}\n", snapshot.settings, snapshot.annotations);
    for segment in &snapshot.segments {
        let pool = segment.pool.map(|id| tables.pool(id));
        let mut bare = segment.clone();
        (bare.pool, bare.stack) = (None, None);
        for block in &mut bare.blocks {
            shown += &format!("{:?}", stack(block.stack));
            block.stack = None;
        }
        shown += &format!("{bare:?} {pool:?} {:?}\n", stack(segment.stack));
    }
    for entry in snapshot.device_traces.iter().flatten() {
        let pool = entry.pool.map(|id| tables.pool(id));
        let text = |id: Option<snapshot::TextId>| id.map(|id| tables.text(id));
        shown += &format!(
            "{} {} {:?} {} {} {:?} {:?} {pool:?} {:?} {:?}\n",
            name(entry.action),
            entry.address(),
            entry.device_free_bytes(),
            entry.bytes,
            entry.stream,
            entry.time_us(),
            stack(entry.stack),
            text(entry.user_metadata),
            text(entry.compile_context),
        );
    }
    shown
}

#[test]
fn call_stacks_are_shared_and_named() {
    let Some(shared) = shared() else { return };
    let path = shared.join("recordings/torch/resnet50_train_frames.pickle.gz");
    let read = snapshot::read(&gunzip(&path)).unwrap();
    let tables = &read.tables;
    let first = tables.stack(read.device_traces[0][0].stack.unwrap());
    let frame = tables.frame(first[0]);
    assert_eq!(tables.text(frame.name), "convert");
    assert_eq!(
        tables.text(frame.filename),
        "site-packages/torch/nn/modules/module.py"
    );
    assert_eq!(frame.line, 1370);
    assert_eq!(first.len(), 6);
    assert!(tables.stack_count() < read.device_traces[0].len());
}

/// One snapshot with everything that a file of 2.14 can hold.
const RICH: &str = r#"{'segments': [{'device': 1, 'address': 1<<63, 'total_size': 2097152, 'allocated_size': 512,
 'active_size': 1024, 'requested_size': 900, 'stream': 7, 'segment_type': 'small', 'segment_pool_id': (0, 3),
 'is_expandable': True, 'frames': [], 'blocks': [
 {'address': 1<<63, 'size': 512, 'requested_size': 400, 'state': 'active_allocated', 'frames': [{'name': 'f', 'filename': 'a.py', 'line': 3}]},
 {'address': (1<<63)+512, 'size': 512, 'requested_size': 500, 'state': 'active_pending_free', 'frames': []},
 {'address': (1<<63)+1024, 'size': 2096128, 'requested_size': 0, 'state': 'inactive', 'frames': []}]}],
 'device_traces': [[], [
 {'action': 'alloc', 'addr': 1<<63, 'size': 400, 'stream': 7, 'time_us': 5, 'compile_context': 'N/A', 'user_metadata': 'step 1',
  'pool_id': (0, 3), 'frames': [{'name': 'f', 'filename': 'a.py', 'line': 3}], 'forward_frames': ['x'], 'category': 'gradient'},
 {'action': 'annotate', 'addr': 1<<63, 'size': 0, 'stream': 7, 'time_us': 6, 'compile_context': '0/1', 'user_metadata': 'note'},
 {'action': 'oom', 'device_free': 123, 'size': 2097152, 'stream': 0, 'time_us': 6},
 {'action': 'teleport', 'where': 3}, {'action': 'teleport'}]],
 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': 'a:b', 'max_split_size': -1, 'garbage_collection_threshold': 0.5,
 'expandable_segments': True, 'pinned_num_register_threads': 1, 'roundup_power2_divisions': {'1': 0, '16': 4, '2': 8}},
 'external_annotations': [{'name': 'fwd', 'stage': 'START', 'device': 1, 'time_us': 4}],
 'host_segments': [], 'host_traces': [[{'action': 'alloc'}]]}"#;

#[test]
fn every_key_of_a_late_release_in_every_protocol() {
    for protocol in 0..=5 {
        let Some(bytes) = dumps(RICH, protocol) else {
            return;
        };
        assert!(snapshot::looks_like_pickle(&bytes), "protocol {protocol}");
        let read = snapshot::read(&bytes).unwrap();
        check_rich(&read);
        check_rich_tables(&read);
        let again = snapshot::read(&written(&read)).unwrap();
        check_rich_tables(&again);
        assert_eq!(by_content(&again), by_content(&read));
    }
}

fn check_rich(read: &Snapshot) {
    assert_eq!(read.device_traces[0], []);
    let [alloc, annotate, oom, unknown, _] = &read.device_traces[1][..] else {
        panic!("five entries");
    };
    assert_eq!(
        (alloc.address(), alloc.bytes, alloc.stream),
        (1 << 63, 400, 7)
    );
    assert_eq!(alloc.time_us(), Some(5));
    assert_eq!(annotate.action, Action::Annotate);
    assert_eq!((oom.device_free_bytes(), oom.address()), (Some(123), 0));
    assert!(matches!(unknown.action, Action::Unknown(_)));
    assert_eq!(unknown.time_us(), None);
    assert_eq!(read.unknown_actions, [("teleport".to_owned(), 2)]);
    let ignored = ["category", "forward_frames", "where"].map(|key| (key.to_owned(), 1));
    assert_eq!(read.ignored_keys, ignored);
    assert_eq!(
        read.notes,
        ["host_traces (pinned host memory) were left out"]
    );
}

fn check_rich_tables(read: &Snapshot) {
    let tables = &read.tables;
    let [alloc, annotate, ..] = &read.device_traces[1][..] else {
        panic!("five entries");
    };
    assert_eq!(tables.text(alloc.user_metadata.unwrap()), "step 1");
    assert_eq!(alloc.compile_context, None);
    assert_eq!(tables.text(annotate.compile_context.unwrap()), "0/1");
    assert_eq!(tables.pool(alloc.pool.unwrap()), (0, 3));
    let segment = &read.segments[0];
    assert_eq!(
        (segment.device, segment.address, segment.large),
        (1, 1 << 63, false)
    );
    assert_eq!(segment.requested_bytes, Some(900));
    assert_eq!(segment.blocks[0].stack, alloc.stack);
    assert_eq!(tables.stack(alloc.stack.unwrap()).len(), 1);
    let states = [
        BlockState::ActiveAllocated,
        BlockState::ActivePendingFree,
        BlockState::Inactive,
    ];
    assert!(segment.blocks.iter().map(|block| block.state).eq(states));
    let settings = read.settings.as_ref().unwrap();
    assert_eq!(settings.max_split_bytes, None);
    assert_eq!(settings.roundup_power2_divisions, [(1, 0), (2, 8), (16, 4)]);
    let other = ("pinned_num_register_threads".to_owned(), Setting::Int(1));
    assert_eq!(settings.others, [other]);
    assert_eq!(read.annotations[0].name, "fwd");
}

#[test]
fn old_dialects_with_history_and_bare_lists() {
    let old = "[{'device': 0, 'address': 16, 'total_size': 1024, 'stream': 0, 'segment_type': 'large', 'blocks': [
        {'address': 16, 'size': 1024, 'state': 'active_awaiting_free', 'history': [{'addr': 16, 'real_size': 1000, 'frames': [{'name': 'g', 'filename': 'b.py', 'line': 1}]}, {'addr': 16, 'real_size': 5}]}]}]";
    let Some(bytes) = dumps(old, 2) else { return };
    let read = snapshot::read(&bytes).unwrap();
    let block = read.segments[0].blocks[0];
    assert_eq!(block.requested_bytes, Some(1000));
    assert_eq!(block.state, BlockState::ActivePendingFree);
    assert_eq!(read.tables.stack(block.stack.unwrap()).len(), 1);
    assert_eq!(
        (read.segments[0].pool, read.segments[0].requested_bytes),
        (None, None)
    );
    assert!(read.notes[0].contains("bare list"));
    assert!(read.device_traces.is_empty());
    let state_only = dumps("{'segments': []}", 4).unwrap();
    assert!(snapshot::read(&state_only).unwrap().notes[0].contains("no device_traces"));
}

/// TorchScript's pickler: protocol 2, BINPUT, addresses with a sign in eight bytes.
#[test]
fn a_negative_address_is_the_unsigned_one_of_the_same_bits() {
    let mut bytes = b"\x80\x02}q\x00(X\x0d\0\0\0device_tracesq\x01]q\x02(]q\x03(}q\x04(".to_vec();
    bytes.extend_from_slice(b"X\x06\0\0\0actionq\x05X\x05\0\0\0allocq\x06X\x04\0\0\0addrq\x07");
    bytes.extend_from_slice(b"\x8a\x08\0\0\0\0\0\0\0\xffX\x04\0\0\0sizeq\x08K\x09ueeu.");
    let read = snapshot::read(&bytes).unwrap();
    assert_eq!(read.device_traces[0][0].address(), 0xff00_0000_0000_0000);
    assert_eq!(read.device_traces[0][0].bytes, 9);
}

#[test]
fn wrong_values_are_named_with_their_place() {
    let cases = [
        (
            "{'device_traces': [[], [{'action': 'alloc', 'addr': 0, 'size': 1}, {'action': 'alloc', 'addr': 0, 'size': 'big'}]]}",
            &[
                "device 1, entry 1",
                "`size` should be a number of bytes",
                "\"big\"",
                "near byte",
            ][..],
        ),
        (
            "{'device_traces': [[{'action': 'alloc', 'addr': 0, 'size': -4}]]}",
            &["entry 0", "-4"],
        ),
        (
            "{'device_traces': [[{'action': 'alloc', 'size': 4}]]}",
            &["entry 0", "`addr` is missing"],
        ),
        ("{'device_traces': [[7]]}", &["device 0, entry 0", "7"]),
        (
            "{'device_traces': 5}",
            &[
                "the top level",
                "`device_traces` should be a list, but is 5",
            ],
        ),
        (
            "{'segments': [{'address': 0}]}",
            &["segment 0", "`total_size` is missing"],
        ),
        (
            "{'segments': [{'address': 0, 'total_size': 1, 'segment_type': 'large', 'blocks': [{'address': 0, 'size': 1, 'state': 'lost'}]}]}",
            &["segment 0, block 0", "`state`", "\"lost\""],
        ),
        ("{'weights': [1]}", &["not a memory snapshot", "weights"]),
        ("[1, 2]", &["not a memory snapshot"]),
        ("3", &["not a memory snapshot", "an integer"]),
    ];
    for (expression, parts) in cases {
        let Some(bytes) = dumps(expression, 4) else {
            return;
        };
        let message = snapshot::read(&bytes).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}

#[test]
fn a_list_that_serves_twice_is_refused_before_it_multiplies() {
    let shared_trace = "(lambda t: {'device_traces': [t] * 100000})([{'action': 'alloc', 'addr': 0, 'size': 1}] * 100000)";
    let Some(bytes) = dumps(shared_trace, 4) else {
        return;
    };
    let message = snapshot::read(&bytes).unwrap_err().to_string();
    assert!(message.contains("already used"), "{message}");
    let long_dict = "{'device_traces': [[{str(i): 0 for i in range(100000)}] * 100000]}";
    let message = snapshot::read(&dumps(long_dict, 4).unwrap())
        .unwrap_err()
        .to_string();
    assert!(message.contains("at most 128 keys"), "{message}");
    let bad_frames = "(lambda f: {'device_traces': [[{'action': 'alloc', 'addr': 0, 'size': 1, 'frames': f} for _ in range(20000)]]})([{'name': 'f', 'filename': 'a', 'line': 1}] * 20000 + [7])";
    let message = snapshot::read(&dumps(bad_frames, 4).unwrap())
        .unwrap_err()
        .to_string();
    assert!(message.contains("device 0, entry 0"), "{message}");
    let shared_blocks = "(lambda b: {'segments': [{'address': 0, 'total_size': 1, 'segment_type': 'large', 'blocks': b} for _ in range(1000)]})([{'address': 0, 'size': 1, 'state': 'inactive'}] * 1000)";
    let bytes = dumps(shared_blocks, 4).unwrap();
    let message = snapshot::read(&bytes).unwrap_err().to_string();
    assert!(message.contains("segment 1, key `blocks`"), "{message}");
}

#[test]
fn python_reads_what_is_written() {
    let Some(bytes) = dumps(RICH, 4) else { return };
    let read = snapshot::read(&bytes).unwrap();
    let script = "import pickle,sys,json; json.dump(pickle.load(sys.stdin.buffer), sys.stdout)";
    let answer = python(script, &written(&read)).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    let alloc = &answer["device_traces"][1][0];
    assert_eq!(alloc["addr"], 1_u64 << 63);
    assert_eq!(alloc["frames"][0]["line"], 3);
    assert_eq!(alloc["pool_id"], serde_json::json!([0, 3]));
    assert_eq!(answer["device_traces"][1][2]["device_free"], 123);
    assert_eq!(answer["device_traces"][1][3]["action"], "teleport");
    assert_eq!(
        answer["segments"][0]["blocks"][1]["state"],
        "active_pending_free"
    );
    assert_eq!(
        answer["allocator_settings"]["roundup_power2_divisions"]["16"],
        4
    );
    assert_eq!(answer["external_annotations"][0]["stage"], "START");
}

/// A snapshot made without any file, large enough to need several pickle frames and batches.
fn made(entries: u64) -> Snapshot {
    let mut made = Snapshot::default();
    let name = made.tables.add_text("main");
    let filename = made.tables.add_text(&"long/".repeat(60));
    let frame = made.tables.add_frame(Frame {
        name,
        filename,
        line: 70_000,
    });
    let stack = made.tables.add_stack(&[frame, frame]);
    let trace = (0..entries).map(|index| {
        let mut entry = Entry::new(Action::Alloc, index << 33, index, index % 3);
        entry.set_time_us(Some(index as i64 * 1_000_003 - 5));
        entry.stack = (index % 2 == 0).then_some(stack);
        entry
    });
    made.device_traces = vec![trace.collect(), vec![Entry::new(Action::Oom, 0, 5, 0)]];
    made
}

#[test]
fn many_entries_survive_writing() {
    let made = made(5000);
    let again = snapshot::read(&written(&made)).unwrap();
    assert_eq!(by_content(&again), by_content(&made));
    let bytes = written(&made);
    let Some(answer) = python(
        "import pickle,sys; t=pickle.load(sys.stdin.buffer)['device_traces'][0]; print(len(t), sum(e['addr'] for e in t), t[4999]['time_us'])",
        &bytes,
    ) else {
        return;
    };
    let sum: u64 = (0..5000_u64).map(|index| index << 33).sum();
    let expected = format!("5000 {sum} {}\n", 4999 * 1_000_003_i64 - 5);
    assert_eq!(String::from_utf8(answer).unwrap(), expected);
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let bytes = written(&made(8));
    for len in 0..bytes.len() {
        let error = snapshot::read(&bytes[..len]).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{len}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn flipped_bytes_never_panic(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = written(&made(8));
        for (index, byte) in flips {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Ok(read) = snapshot::read(&bytes) {
            prop_assert!(read.device_traces.iter().map(Vec::len).sum::<usize>() <= bytes.len());
        }
    }
}
