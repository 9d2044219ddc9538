//! Paging against reservation and concatenation: small services counted by hand, and what
//! the PagedAttention paper claims, on its own setting and on recorded requests.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use vramlab::experiment::serve::{Served, Service};
use vramlab::policy::Registry;
use vramlab::space::Device;
use vramlab::synth::serving::{Layout, Spec};
use vramlab::synth::{self, Workload};

const MINUTE_NS: u64 = 60_000_000_000;

fn serving(text: &str) -> Spec {
    match Workload::find(text).expect("a workload").workload {
        synth::Spec::Serving(spec) => spec,
        other => panic!("{text} is of the family {}", other.name()),
    }
}

/// Serves on a card of pages of one byte; what comes before the third minute is not
/// counted where it is a long service.
fn serve(spec: &Spec, layout: Layout, policy: &str, span_ns: u64) -> Served {
    let spec = Spec {
        layout,
        ..spec.clone()
    };
    let service = Service {
        seed: 1,
        warm_up_ns: if span_ns > MINUTE_NS {
            2 * MINUTE_NS
        } else {
            0
        },
        span_ns,
        device: Arc::new(Device::bare(spec.budget_bytes)),
        spec,
    };
    let registry = Registry::default();
    let chosen = registry.find(policy).expect("a policy");
    service.run(&registry, &chosen).expect("it serves")
}

fn paging(spec: &Spec) -> String {
    let block_bytes = spec.block_tokens * spec.kv_token_bytes;
    format!("paging:block={block_bytes},share=100")
}

/// Two requests of 5 tokens and one of 3; each is answered by 3, so that it lasts three
/// iterations of 1 ms. A token is 1 KiB, a block 4 of them; hashes name 512 tokens, so
/// that nothing is shared.
const REQUESTS: &str = r#"{"timestamp": 0, "input_length": 5, "output_length": 3}
{"timestamp": 0, "input_length": 5, "output_length": 3}
{"timestamp": 0, "input_length": 3, "output_length": 3}
"#;

/// A service of these requests; the file lives as long as they are needed.
fn by_hand(requests: &str, options: &str) -> (tempfile::NamedTempFile, Spec) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(requests.as_bytes()).expect("written");
    let spec = serving(&format!(
        "serving-mooncake:arrivals.file.path={},arrivals.file.repeat=false,kv_token_bytes=1KiB,\
         block_tokens=4,kv_tensors=1,longest_tokens=8,iteration=1ms,prompt_token=0s,{options}",
        file.path().display()
    ));
    (file, spec)
}

/// 16 KiB hold two reservations of 8 tokens: two requests for three iterations, then the
/// third for three. Tokens held, with the one that an iteration adds, whichever of the
/// three comes last: a pair of 5 has 12, 14, 16; a pair of 5 and 3 has 10, 12, 14; one of 5
/// has 6, 7, 8; one of 3 has 4, 5, 6.
#[test]
fn reservations_by_hand() {
    let (_file, spec) = by_hand(REQUESTS, "budget_bytes=16KiB");
    let served = serve(&spec, Layout::Reserve, "buddy", 1_000_000_000);
    assert_eq!((served.answered, served.generated_tokens), (3, 9));
    assert_eq!((served.preempted, served.lost), (0, 0));
    assert_eq!(served.mean_running_ppm, 1_500_000);
    // 57 tokens in all either way, of 6 iterations of 16.
    assert_eq!(served.token_ppm, 57 * 1_000_000 / 96);
    // Reserved for later: 2 + 1 for each request; the rest of the 8 is never filled by
    // the request of 3, in 3 iterations, and nobody asks for one half in three.
    assert_eq!(served.later_ppm, 9 * 1_000_000 / 96);
    assert_eq!(served.inside_ppm, 6 * 1_000_000 / 96);
    assert_eq!(served.outside_ppm, 24 * 1_000_000 / 96);
}

/// 20 KiB are 5 blocks. Three prompts of 3 tokens take one each, full after the first
/// iteration; in the second, two of them take one more, and the last has to wait. It comes
/// back with 4 tokens for the one block that is left, is put back once more, and goes on
/// when the others are done.
#[test]
fn growth_without_a_block_puts_the_last_back() {
    let three_alike = r#"{"timestamp": 0, "input_length": 3, "output_length": 3}
{"timestamp": 0, "input_length": 3, "output_length": 3}
{"timestamp": 0, "input_length": 3, "output_length": 3}
"#;
    let (_file, spec) = by_hand(three_alike, "budget_bytes=20KiB");
    let served = serve(&spec, Layout::Blocks, &paging(&spec), 1_000_000_000);
    assert_eq!((served.answered, served.preempted), (3, 2));
    assert_eq!(served.computed_tokens, 3 + 3 + 3 + 4 + 4);
    assert_eq!(served.generated_tokens, 9);
}

/// A request for which there is no memory at all is given up, and the others go on.
#[test]
fn what_finds_no_room_alone_is_given_up() {
    let requests = r#"{"timestamp": 0, "input_length": 3, "output_length": 2}
{"timestamp": 0, "input_length": 3, "output_length": 2}
"#;
    let (_file, spec) = by_hand(requests, "budget_bytes=8KiB");
    // A block of 2 KiB is none of the workload's, of 4 KiB; nothing else is left.
    let served = serve(
        &spec,
        Layout::Blocks,
        "paging:block=2KiB,share=100",
        1_000_000_000,
    );
    assert_eq!((served.answered, served.lost), (0, 2));
    let served = serve(&spec, Layout::Blocks, &paging(&spec), 1_000_000_000);
    assert_eq!((served.answered, served.lost), (2, 0));
}

/// The same prompt of 512 tokens four times, in blocks of 128: it is computed once and held
/// once, and stays when nobody uses it.
#[test]
fn prompts_that_begin_alike_are_computed_once() {
    let line = |timestamp: u64| {
        format!(
            "{{\"timestamp\": {timestamp}, \"input_length\": 513, \"output_length\": 2, \
             \"hash_ids\": [7, 8]}}\n"
        )
    };
    let requests: String = [0, 0, 0, 0].map(line).concat();
    let options = "budget_bytes=1MiB,block_tokens=128,longest_tokens=640";
    let (_file, spec) = by_hand(&requests, options);
    let served = serve(&spec, Layout::Shared, &paging(&spec), 1_000_000_000);
    assert_eq!(served.answered, 4);
    assert_eq!(
        (served.computed_tokens, served.shared_tokens),
        (513 + 3, 3 * 512)
    );
    let served = serve(&spec, Layout::Blocks, &paging(&spec), 1_000_000_000);
    assert_eq!((served.computed_tokens, served.shared_tokens), (4 * 513, 0));
}

/// Figure 2 of the paper: 20.4, 26.8 and 38.2 % of the memory of Orca's three ways of
/// reserving hold tokens, and 96.3 % of vLLM's. Figure 13: 7.00, 9.81, 13.62 and 30.42
/// requests run at once.
#[test]
fn the_papers_setting_gives_the_papers_shares() {
    let spec = serving("serving-opt-13b:kv_tensors=1");
    let span_ns = 10 * MINUTE_NS;
    let reserved = [
        (Layout::Reserve, 204_000, 7_000_000),
        (Layout::ReservePower, 268_000, 9_810_000),
        (Layout::ReserveExact, 382_000, 13_620_000),
    ];
    let mut answered = Vec::new();
    for (layout, paper_token_ppm, paper_running_ppm) in reserved {
        let served = serve(&spec, layout, "buddy", span_ns);
        let off_ppm = served.token_ppm.abs_diff(paper_token_ppm);
        assert!(off_ppm < 50_000, "{layout}: {served:?}");
        let off_ppm = served.mean_running_ppm.abs_diff(paper_running_ppm);
        assert!(off_ppm < 1_500_000, "{layout}: {served:?}");
        answered.push(served.answered);
    }
    let served = serve(&spec, Layout::Blocks, &paging(&spec), span_ns);
    assert!(served.token_ppm > 955_000, "{served:?}");
    assert!(served.asked_token_ppm > 975_000, "{served:?}");
    assert!(served.mean_running_ppm > 30_000_000, "{served:?}");
    // Twice as many as with lengths known beforehand, four times as many as without.
    assert!(served.answered > 2 * answered[2], "{answered:?} {served:?}");
    assert!(served.answered > 4 * answered[0], "{answered:?} {served:?}");
    let parts = [
        served.token_ppm,
        served.kept_ppm,
        served.later_ppm,
        served.inside_ppm,
        served.outside_ppm,
    ];
    let sum: u64 = parts.iter().sum();
    assert!((999_995..=1_000_000).contains(&sum), "{served:?}");
}

/// Recorded requests, faster than they came, on memory for a few: paging serves more than
/// any reservation, and prompts that begin alike share tokens where the file has hashes.
#[test]
fn recorded_requests_are_served_best_by_blocks() {
    let place = std::env::var_os("VRAMLAB_SHARED").unwrap_or_else(|| "../shared".into());
    if !Path::new(&place).join("public").exists() {
        println!(
            "skipped: {} holds no public data",
            Path::new(&place).display()
        );
        return;
    }
    let few = "kv_tensors=1,spare_percent=1,arrivals.file.speed_percent=1000";
    let azure = serving(&format!(
        "serving-azure:{few},budget_bytes=8GiB,running_most=256"
    ));
    let mooncake = serving(&format!(
        "serving-mooncake:{few},budget_bytes=16GiB,block_tokens=128"
    ));
    for (spec, shares) in [(azure, false), (mooncake, true)] {
        let span_ns = 3 * MINUTE_NS;
        let reserve = serve(&spec, Layout::Reserve, "buddy", span_ns);
        let exact = serve(&spec, Layout::ReserveExact, "buddy", span_ns);
        let blocks = serve(&spec, Layout::Blocks, &paging(&spec), span_ns);
        let shared = serve(&spec, Layout::Shared, &paging(&spec), span_ns);
        assert!(reserve.token_ppm < 400_000, "{reserve:?}");
        assert!(blocks.token_ppm > exact.token_ppm, "{exact:?} {blocks:?}");
        assert!(reserve.answered < exact.answered, "{reserve:?} {exact:?}");
        assert!(exact.answered <= blocks.answered, "{exact:?} {blocks:?}");
        assert_eq!(shared.shared_tokens > 0, shares, "{shared:?}");
    }
}
