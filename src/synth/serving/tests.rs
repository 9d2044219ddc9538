//! Tokens are conserved, budgets hold, and prompts that begin alike share.

use std::io::Write as _;

use crate::synth::Workload;
use crate::trace::{Event, Trace};

/// Three requests; the second has the first's prompt and 88 tokens more.
const REQUESTS: &str = r#"{"timestamp": 0, "input_length": 1024, "output_length": 40, "hash_ids": [1, 2]}
{"timestamp": 10, "input_length": 1112, "output_length": 7, "hash_ids": [1, 2, 3]}
{"timestamp": 9000, "input_length": 100, "output_length": 30, "hash_ids": [4]}
"#;

/// What all layouts have in these tests: a token is 1 KiB, a row of logits 1 byte.
const SMALL: &str = "weights_bytes=240,kv_token_bytes=1KiB,logits_bytes=1,workspace_token_bytes=1,\
    arrivals.file.repeat=false,longest_tokens=2048";

fn play(options: &str) -> Trace {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(REQUESTS.as_bytes()).expect("written");
    let path = file.path().display();
    let text = format!("serving-mooncake:{SMALL},arrivals.file.path={path},{options}");
    Workload::find(&text).expect("it fits").trace(1)
}

/// Requests, bytes and the most live bytes of a tag; and that all was given back.
fn sums(trace: &Trace, name: &str) -> (u64, u64, u64) {
    let wanted = trace
        .tags
        .iter()
        .position(|tag| tag == name)
        .expect("a tag") as u32;
    let (mut count, mut sum, mut live, mut most) = (0, 0, 0, 0);
    let mut slots = vec![0; trace.slots as usize];
    let mut held = 0_i64;
    for event in &trace.events {
        match *event {
            Event::Alloc {
                slot, bytes, tag, ..
            } => {
                held += 1;
                slots[slot as usize] = if tag == wanted { bytes } else { 0 };
                if tag == wanted {
                    (count, sum, live) = (count + 1, sum + bytes, live + bytes);
                    most = most.max(live);
                }
            }
            Event::Free { slot, .. } => {
                held -= 1;
                live -= slots[slot as usize];
            }
            _ => {}
        }
    }
    assert_eq!(held, 0, "everything is given back at the end");
    (count, sum, most)
}

/// Answers have 40 + 7 + 30 tokens, and each token one row of logits.
#[test]
fn every_token_is_generated_once() {
    for layout in ["reserve", "concat", "blocks", "shared"] {
        let trace = play(&format!("layout={layout},block_tokens=16"));
        assert_eq!(sums(&trace, "logits").1, 77, "{layout}");
    }
}

#[test]
fn reservations_are_of_the_longest_and_concatenation_grows_by_a_token() {
    let (count, sum, _) = sums(&play("layout=reserve,kv_tensors=2"), "keys and values");
    assert_eq!((count, sum), (3 * 2, 3 * (2048 << 10)));
    // A request of p and o tokens is held as p, then p + 1 to p + o.
    let (count, sum, _) = sums(&play("layout=concat"), "keys and values");
    let all = |p: u64, o: u64| (p..=p + o).sum::<u64>();
    let tokens = all(1024, 40) + all(1112, 7) + all(100, 30);
    assert_eq!((count, sum), (3 + 77, tokens << 10));
}

/// Blocks of 16: 1064, 1119 and 130 tokens take 67, 70 and 9. Of the second, the 64 whole
/// blocks of the first's prompt are there already.
#[test]
fn blocks_are_as_many_as_tokens_need_and_shared_ones_are_held_once() {
    let (count, _, _) = sums(&play("layout=blocks,block_tokens=16"), "keys and values");
    assert_eq!(count, 67 + 70 + 9);
    let (count, _, _) = sums(&play("layout=shared,block_tokens=16"), "keys and values");
    assert_eq!(count, 67 + 70 + 9 - 64);
}

/// 2,048 tokens of budget hold one of the first two at a time; in blocks, a third of 100
/// tokens beside it.
#[test]
fn who_does_not_fit_waits_and_the_budget_holds() {
    for layout in ["reserve", "concat", "blocks", "shared"] {
        let trace = play(&format!(
            "layout={layout},block_tokens=16,budget_bytes=2MiB"
        ));
        let (_, _, most) = sums(&trace, "keys and values");
        // A copy into a longer tensor holds both for a moment.
        let room = if layout == "concat" { 4 << 20 } else { 2 << 20 };
        assert!(most <= room, "{layout}: {most}");
        assert_eq!(sums(&trace, "logits").1, 77, "{layout}");
    }
}

/// Under a budget that admits more than can grow, the last admitted starts again; every
/// trace stays within the budget and goes on.
#[test]
fn growth_past_the_budget_puts_the_last_admitted_back() {
    let text = "serving-poisson:events=60000,budget_bytes=1GiB,longest_tokens=4096,\
        arrivals.poisson.per_minute=2000,arrivals.poisson.prompt_tokens=100,\
        arrivals.poisson.output_tokens=900,kv_token_bytes=128KiB";
    let trace = Workload::find(text).expect("it fits").trace(1);
    let wanted = trace.tags.iter().position(|tag| tag == "keys and values");
    let mut live = 0_u64;
    let (mut sizes, mut most) = (vec![0; trace.slots as usize], 0);
    for event in &trace.events {
        match *event {
            Event::Alloc {
                slot, bytes, tag, ..
            } => {
                sizes[slot as usize] = if Some(tag as usize) == wanted {
                    bytes
                } else {
                    0
                };
                live += sizes[slot as usize];
                most = most.max(live);
            }
            Event::Free { slot, .. } => live -= sizes[slot as usize],
            _ => {}
        }
    }
    let nearly = (1 << 30) - (2 << 20)..=1 << 30;
    assert!(nearly.contains(&most), "{most}");
}

#[test]
fn a_file_played_in_half_the_time_and_again_comes_in_order() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(REQUESTS.as_bytes()).expect("written");
    let recorded = super::arrivals::Recorded {
        path: file.path().display().to_string(),
        speed_percent: 200,
        repeat: true,
    };
    let arrivals = super::arrivals::Arrivals::File(recorded);
    let jobs: Vec<_> = arrivals.jobs(1, 2048).take(7).collect();
    let gaps: Vec<u64> = jobs
        .windows(2)
        .map(|two| two[1].arrival_ns - two[0].arrival_ns)
        .collect();
    assert_eq!(jobs[0].arrival_ns, 0);
    let twice = [5_000_000, 4_495_000_000, 0];
    assert!(
        (0..3).any(|from| (0..6).all(|at| gaps[at] == twice[(from + at) % 3])),
        "{gaps:?}"
    );
    assert_eq!(jobs[0].prompt_tokens, jobs[3].prompt_tokens);
}
