//! What an explanation starts from where nothing else is asked for: the recording's own
//! policy, settings and capacity, and its own addresses.

use std::sync::Arc;

use super::ExplainError;
use crate::experiment::{Origin, Scene, Wanted};
use crate::fidelity::{recorded_peak_bytes, recorded_policy};
use crate::policy::{Chosen, Registry};
use crate::space::Device;
use crate::trace::truth::TruthKind;
use crate::trace::{Trace, Truth};
use crate::units::format_bytes;

/// A trace under a policy on a card, ready to be explained.
pub struct Setup {
    /// The trace, the card and the capacity.
    pub scene: Scene,
    /// The policy.
    pub chosen: Chosen,
    /// The replay follows the recording, at its addresses; else it starts from an empty card.
    pub along: bool,
    /// Where the capacity comes from, in words.
    pub capacity_from: String,
}

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Given<'a> {
    /// The policy.
    pub policy: Option<&'a str>,
    /// The capacity.
    pub wanted: Wanted,
    /// The card.
    pub device: Arc<Device>,
}

/// Puts a trace on its card.
///
/// A PyTorch recording runs under PyTorch's model with the settings that it tells, and
/// follows the recording as long as the capacity is one under which it can have been made.
/// Where nobody tells the capacity, and the recording holds failures, it is what the
/// recording shows the program could have: what was reserved and what the device had free
/// at the first failure that the card itself caused; under a cap, the peak of what was
/// reserved, which the cap cannot lie below.
///
/// # Errors
/// [`ExplainError`]: the policy is unknown or does not build.
pub fn set_up(
    trace: impl Into<Arc<Trace>>,
    registry: &Registry,
    given: &Given<'_>,
) -> Result<Setup, ExplainError> {
    let trace: Arc<Trace> = trace.into();
    let truth = trace.truth.as_deref();
    let own = truth.and_then(|truth| own_policy(&trace, truth));
    let label = given.policy.or(own.as_deref()).unwrap_or("best-fit");
    let chosen = registry.find(label)?;
    let pytorch = truth.filter(|truth| truth.source == "pytorch");
    let is_own = |truth: &&Truth| {
        let same = own.as_deref() == Some(label);
        truth.source == "pytorch"
            && chosen.algorithm == "pytorch"
            && (given.policy.is_none() || same)
    };
    let told = given.wanted == Wanted::ByTrace && trace.capacity_bytes.is_none();
    let shown = pytorch.filter(|_| told).and_then(shown_capacity);
    let peak_bytes = pytorch.map_or(0, recorded_peak_bytes);
    let follows = truth.is_some_and(|truth| is_own(&truth));
    let mut device = Arc::clone(&given.device);
    let mut wanted = given.wanted;
    if let Some(shown) = &shown {
        wanted = Wanted::Bytes(shown.bytes);
        if shown.whole_card {
            device = Arc::new(Device {
                total_bytes: shown.bytes,
                name: format!("{} of {}", format_bytes(shown.bytes), device.name),
                ..(*device).clone()
            });
        }
    }
    let scene = Scene::new(trace, device, wanted);
    let capacity_from = match (&shown, scene.capacity.origin) {
        (Some(shown), Origin::Asked) => shown.from,
        (_, Origin::Asked) => "as asked with --capacity",
        (_, Origin::Trace) => "the cap that the trace itself tells",
        (_, Origin::Tight) => "1.1 x the peak of live requested bytes",
        (_, Origin::Card) => "the whole card",
    };
    Ok(Setup {
        along: follows && scene.capacity.bytes >= peak_bytes,
        capacity_from: capacity_from.to_owned(),
        chosen,
        scene,
    })
}

/// The policy under which a recording was made.
fn own_policy(trace: &Trace, truth: &Truth) -> Option<String> {
    match truth.source.as_str() {
        "pytorch" => Some(recorded_policy(trace).unwrap_or_else(|| "pytorch".into())),
        "rmm" => Some("rmm-pool".into()),
        _ => None,
    }
}

/// A capacity that a recording shows by its failures.
struct Shown {
    bytes: u64,
    /// The card itself was full.
    whole_card: bool,
    from: &'static str,
}

fn shown_capacity(truth: &Truth) -> Option<Shown> {
    let mut reserved: u64 = truth.initial.iter().map(|segment| segment.bytes).sum();
    let mut failed = false;
    for fact in &truth.entries {
        match fact.kind {
            TruthKind::SegmentAlloc | TruthKind::SegmentMap => {
                reserved = reserved.saturating_add(fact.bytes);
            }
            TruthKind::SegmentFree | TruthKind::SegmentUnmap => {
                reserved = reserved.saturating_sub(fact.bytes);
            }
            // The address of a failure is what the device had free; 0 is not told.
            TruthKind::Oom if fact.address > 0 && fact.address < fact.bytes => {
                return Some(Shown {
                    bytes: reserved.saturating_add(fact.address),
                    whole_card: true,
                    from: "what was reserved and what the device had free when it failed",
                });
            }
            TruthKind::Oom => failed = true,
            _ => {}
        }
    }
    failed.then(|| Shown {
        bytes: recorded_peak_bytes(truth),
        whole_card: false,
        from: "the recorded peak of what was reserved; its cap may lie above: --recorded-cap",
    })
}
