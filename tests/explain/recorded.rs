//! Explanations of recordings: rebuilt at their addresses, with their stacks.

use super::*;

/// A snapshot of a card that was full: frames, a failure, what the device had free.
fn full_card() -> Vec<u8> {
    let mut snapshot = Snapshot::default();
    let tables = &mut snapshot.tables;
    let frame = |tables: &mut Tables, name: &str, line: u32| {
        let (name, filename) = (tables.add_text(name), tables.add_text("train.py"));
        tables.add_frame(Frame {
            name,
            filename,
            line,
        })
    };
    let frames = [("load", 7), ("main", 40), ("step", 21)];
    let frames = frames.map(|(name, line)| frame(tables, name, line));
    let load = tables.add_stack(&[frames[0], frames[1]]);
    let step = tables.add_stack(&[frames[2], frames[1]]);
    let base = 0x7f00_0000_0000;
    let (mut entries, mut segments) = (Vec::new(), Vec::new());
    for (number, stack) in [load, step].into_iter().enumerate() {
        let address = base + number as u64 * 64 * MIB;
        for action in [Action::SegmentAlloc, Action::Alloc] {
            let mut entry = Entry::new(action, address, 40 * MIB, 0);
            entry.stack = Some(stack);
            entry.set_time_us(Some(1_000_000 * (1 + number as i64)));
            entries.push(entry);
        }
        segments.push(Segment {
            device: 0,
            address,
            total_bytes: 40 * MIB,
            allocated_bytes: 40 * MIB,
            active_bytes: 40 * MIB,
            requested_bytes: Some(40 * MIB),
            stream: 0,
            large: true,
            pool: None,
            expandable: false,
            stack: Some(stack),
            blocks: vec![Block {
                address,
                bytes: 40 * MIB,
                requested_bytes: Some(40 * MIB),
                state: BlockState::ActiveAllocated,
                stack: Some(stack),
            }],
        });
    }
    snapshot.segments = segments;
    let mut oom = Entry::new(Action::Oom, 0, 30 * MIB, 0);
    oom.set_device_free_bytes(Some(20 * MIB));
    oom.stack = Some(step);
    oom.set_time_us(Some(3_000_000));
    entries.push(oom);
    snapshot.device_traces = vec![entries];
    let mut bytes = Vec::new();
    snapshot::write(&snapshot, &mut bytes).expect("it is written");
    bytes
}

#[test]
fn a_snapshot_of_a_full_card_is_explained_with_its_stacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("full.pickle");
    std::fs::write(&path, full_card()).expect("written");
    let trace = open(&path, &OpenOptions::default())
        .expect("it reads")
        .remove(0);
    let given = Given {
        policy: None,
        wanted: Wanted::ByTrace,
        device: Arc::new(Device::bare(GIB)),
    };
    let registry = Registry::default();
    let setup = set_up(trace, &registry, &given).expect("a policy");
    assert!(setup.along);
    let it = explain(&setup, &registry, &alone()).expect("an explanation");
    assert_eq!(it.capacity_bytes, 100 * MIB, "reserved 80 and free 20");
    assert_eq!(it.moment.why, Why::RecordedFailure);
    let Basis::Recorded {
        addresses: 2,
        addresses_matched: 2,
        first_divergence: None,
    } = it.basis
    else {
        panic!("{:?}", it.basis);
    };
    let asked = it.asked.as_ref().expect("a request");
    assert_eq!(
        asked.stack.as_deref(),
        Some("step@train.py:21 < main@train.py:40")
    );
    let reason = it.reason.as_ref().expect("a failure");
    assert_eq!(
        (reason.verdict, reason.short_by_bytes),
        (Verdict::Capacity, 10 * MIB)
    );
    let blockers = it.blockers.as_ref().expect("a failure");
    assert_eq!((blockers.found, blockers.blocks.len()), (Found::Blocks, 1));
    assert!(blockers.blocks[0].stack.is_some());
    assert_eq!(blockers.absent_served, Some(true));
    let holder = &it.holders.by_stack[0];
    assert_eq!(
        holder.stack.as_deref(),
        Some("load@train.py:7 < main@train.py:40")
    );
    assert_eq!(holder.share_ppm, 666_666, "40 MiB for two seconds of three");
}

/// A recording with failures of its own: rebuilt to the last address, and the settings that
/// are said to help are replayed once more.
#[test]
fn a_recorded_failure_is_rebuilt_and_its_remedies_hold() {
    let registry = Registry::default();
    let setup = own(committed("detector-train-cap"));
    assert!(setup.along);
    let others = ["pytorch-expandable", "pytorch-split-512", "best-fit"];
    let others = others.map(|name| registry.find(name).expect("a preset"));
    let question = Question {
        others: Some(others.to_vec()),
        ..Question::default()
    };
    let it = explain(&setup, &registry, &question).expect("an explanation");
    let Basis::Recorded {
        addresses,
        addresses_matched,
        first_divergence: None,
    } = it.basis
    else {
        panic!("{:?}", it.basis);
    };
    assert_eq!(addresses, addresses_matched);
    assert_eq!((it.moment.event, it.moment.failures), (765, 51));
    assert_eq!(it.moment.why, Why::RecordedFailure);
    assert_eq!(it.blockers.as_ref().map(|it| it.found), Some(Found::Blocks));
    let tried = it.remedies.serve.iter().chain(&it.remedies.fail);
    for remedy in tried.chain(&it.remedies.own) {
        let scene = &setup.scene;
        let cut = &scene.trace.events[..=it.moment.event as usize];
        let served = is_served(last_of(scene, &remedy.policy, cut).0);
        assert_eq!(served, remedy.serves, "{}", remedy.policy);
        let (_, mut whole) = last_of(scene, &remedy.policy, &[]);
        vramlab::whatif::feed(&scene.trace, &mut whole, &mut (), &|_| ());
        assert_eq!(whole.totals().failed, remedy.failed, "{}", remedy.policy);
        let counters = whole.space().counters();
        assert_eq!(
            counters.driver_calls, remedy.driver_calls,
            "{}",
            remedy.policy
        );
        assert_eq!(
            counters.moved_bytes, remedy.moved_bytes,
            "{}",
            remedy.policy
        );
        assert_eq!(counters.cost_ns, remedy.cost_ns, "{}", remedy.policy);
    }
    let names = |remedies: &[vramlab::explain::Remedy]| -> Vec<String> {
        remedies.iter().map(|it| it.policy.clone()).collect()
    };
    assert_eq!(
        names(&it.remedies.serve),
        ["pytorch-expandable", "best-fit"]
    );
    assert_eq!(names(&it.remedies.fail), ["pytorch-split-512"]);
    assert!(
        it.advice
            .starts_with("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    );
}

/// The same recording without its cap: the peak of what was reserved stands for it.
#[test]
fn a_cap_that_nobody_tells_is_taken_from_the_recording() {
    let mut trace = committed("detector-train-cap");
    trace.capacity_bytes = None;
    let setup = own(trace);
    assert!(setup.along && setup.capacity_from.starts_with("the recorded peak"));
    let it = explain(&setup, &Registry::default(), &alone()).expect("an explanation");
    assert_eq!((it.moment.event, it.moment.failures), (765, 51));
}

/// Stacks of a real recording name who holds the memory and who is in the way.
#[test]
fn stacks_of_a_recording_are_told() {
    let name = "recordings/torch/resnet50_train_frames.pickle.gz";
    let Some(path) = common::shared(name) else {
        return;
    };
    let trace = open(&path, &OpenOptions::default())
        .expect("it reads")
        .remove(0);
    let given = Given {
        policy: None,
        wanted: Wanted::Bytes(2 * GIB),
        device: vramlab::experiment::source::card_of("h200").expect("a card"),
    };
    let registry = Registry::default();
    let setup = set_up(trace, &registry, &given).expect("a policy");
    assert!(
        !setup.along,
        "the recording cannot have been made under 2 GiB"
    );
    let it = explain(&setup, &registry, &alone()).expect("an explanation");
    let asked = it.asked.as_ref().and_then(|it| it.stack.as_deref());
    assert!(
        asked.is_some_and(|stack| stack.contains(".py:")),
        "{asked:?}"
    );
    assert!(it.holders.by_stack.len() > 3);
    let shares: u64 = it.holders.by_size.iter().map(|it| it.share_ppm).sum();
    assert!(shares <= 1_000_000);
    proven(&setup, &it);
    let blockers = it.blockers.expect("a failure");
    assert!(blockers.blocks.iter().all(|block| block.stack.is_some()));
}
