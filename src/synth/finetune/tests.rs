//! What a step holds, by hand.

use crate::synth::Workload;
use crate::trace::Event;

#[test]
fn a_step_leaves_what_it_found_and_its_largest_tensor_is_the_logits() {
    let text = include_str!("../../../traces/synthetic/finetune-opt-1.3b.toml");
    let workload = Workload::from_toml("finetune", text).expect("a workload");
    let trace = workload.trace(1);
    let (mut live, mut at_steps, mut largest_bytes) = (0u64, Vec::new(), 0);
    for event in &trace.events {
        match *event {
            Event::Alloc { bytes, .. } => {
                live += 1;
                largest_bytes = largest_bytes.max(bytes);
            }
            Event::Free { .. } => live -= 1,
            Event::Mark { label: 0 } => at_steps.push(live),
            _ => {}
        }
    }
    // 160 texts of 512 tokens, 50,272 words, two bytes each.
    assert_eq!(largest_bytes, 8_236_564_480);
    // The embedding, 24 layers of 6 matrices with two thin ones each, Adam's states;
    // from the second step on the last logits and a gathered matrix.
    assert_eq!(at_steps[0], 1 + 24 * 6 * 3 + 3);
    assert!(at_steps.len() > 4);
    assert!(at_steps[1..].iter().all(|live| *live == at_steps[0] + 2));
}

#[test]
fn what_does_not_fit_is_told() {
    let text = include_str!("../../../traces/synthetic/finetune-opt-1.3b.toml");
    let bad = text.replace("shortest = 512", "shortest = 513");
    let error = Workload::from_toml("finetune", &bad).expect_err("longer than the longest");
    assert!(error.to_string().contains("shortest"), "{error}");
}
