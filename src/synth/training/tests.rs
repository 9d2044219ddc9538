//! What the memory of a training run does.

use crate::synth::Workload;
use crate::trace::{Event, Trace};

fn trace(text: &str) -> Trace {
    Workload::find(text).expect("it fits").trace(1)
}

/// Calls `look` before each event with the live bytes of each tag.
fn follow(trace: &Trace, mut look: impl FnMut(&Event, &[u64])) {
    let mut live = vec![0; trace.tags.len()];
    let mut slots = vec![(0, 0); trace.slots as usize];
    for event in &trace.events {
        look(event, &live);
        match *event {
            Event::Alloc {
                slot, bytes, tag, ..
            } => {
                slots[slot as usize] = (bytes, tag as usize);
                live[tag as usize] += bytes;
            }
            Event::Free { slot, .. } => {
                let (bytes, tag) = slots[slot as usize];
                live[tag] -= bytes;
            }
            _ => {}
        }
    }
}

fn tag(trace: &Trace, name: &str) -> usize {
    trace
        .tags
        .iter()
        .position(|tag| tag == name)
        .expect("a tag")
}

/// The most live bytes of a tag.
fn peak(trace: &Trace, name: &str) -> u64 {
    let (mut most, tag) = (0, tag(trace, name));
    follow(trace, |_, live| most = most.max(live[tag]));
    most
}

/// GPT-2's smallest model has 124,439,808 parameters: 50,257 words and 1,024 positions of
/// 768, 12 layers of 12 x 768^2 + 13 x 768, and the last norm. Adam keeps two numbers each.
#[test]
fn gpt2_has_its_parameters_and_adam_twice_as_many() {
    let trace = trace("training-gpt2:events=20000");
    assert_eq!(peak(&trace, "weights"), 124_439_808 * 4);
    assert_eq!(peak(&trace, "optimizer"), 124_439_808 * 8);
}

#[test]
fn between_steps_only_weights_and_the_optimizers_state_live() {
    for text in [
        "training-gpt2:events=30000",
        "training-gpt2:events=30000,recompute=true,attention=eager,layers=3",
        "training-finetune:events=30000,layers=2,micro_batches=1",
    ] {
        let trace = trace(text);
        let [weights, optimizer] = ["weights", "optimizer"].map(|name| tag(&trace, name));
        let forward = trace.labels.iter().position(|label| label == "forward");
        let mut steps = 0;
        follow(&trace, |event, live| {
            if !matches!(event, Event::Mark { label } if Some(*label as usize) == forward) {
                return;
            }
            steps += 1;
            let all: u64 = live.iter().sum();
            assert_eq!(all, live[weights] + live[optimizer], "{text}, step {steps}");
            assert_eq!(
                live[optimizer] > 0,
                steps > 1,
                "the first step makes the state"
            );
        });
        assert!(steps > 10, "{text}: {steps} steps");
    }
}

#[test]
fn gradients_live_through_the_micro_batches_of_a_step() {
    let trace = trace("training-gpt2:events=20000,micro_batches=3,layers=2");
    let gradients = tag(&trace, "gradients");
    let mut at_forward = Vec::new();
    follow(&trace, |event, live| {
        if matches!(
            event,
            Event::Mark {
                label: super::step::FORWARD
            }
        ) {
            at_forward.push(live[gradients]);
        }
    });
    let parameters = peak(&trace, "weights");
    assert_eq!(
        at_forward[..6],
        [0, parameters, parameters, 0, parameters, parameters]
    );
}

#[test]
fn recomputation_trades_activations_for_operations() {
    let kept = trace("training-gpt2:events=6000,batch=[4,4],tokens=[512,512]");
    let again = trace("training-gpt2:events=6000,batch=[4,4],tokens=[512,512],recompute=true");
    let [kept, again] = [kept, again].map(|trace| peak(&trace, "activations"));
    assert!(again * 2 < kept, "{again} bytes against {kept}");
}

/// Rank 16 on 4 matrices of 4096 x (3, 1, 4, 4) x 4096: 16 x 4096 x (4 + 2 + 5 + 5) a layer.
#[test]
fn only_adapters_have_gradients_and_state() {
    let trace = trace("training-finetune:events=8000,layers=2,micro_batches=1");
    assert_eq!(peak(&trace, "optimizer"), 2 * 16 * 4096 * 16 * 2 * 4);
}
