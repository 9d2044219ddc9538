//! The sentences of an explanation: the arithmetic of a verdict, and what to do.

use super::data::{Asked, Explanation, Found, Memory, Reason};
use super::findings::{PartedBy, Remedy};
use crate::observe::{Failure, Verdict};
use crate::units::{format_bytes, format_count, format_nanos};

/// Growth from period to period of this part of the capacity is worth a word.
const WORTH_A_WORD: u64 = 100;

/// A size for people and exactly: `1.50 GiB (1,610,612,736 bytes)`.
#[must_use]
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    format!("{} ({} bytes)", format_bytes(bytes), format_count(bytes))
}

/// A stack in few words: its innermost frame, and the first one of the program's own
/// code, where that is another.
#[must_use]
pub fn gist(stack: &str) -> String {
    let library = |frame: &&str| {
        let places = [
            "site-packages/",
            "dist-packages/",
            "/torch/",
            "<frozen",
            "@??",
        ];
        places.iter().any(|place| frame.contains(place))
    };
    let short = |frame: &str| match frame.split_once("-packages/") {
        Some((before, file)) => {
            let name = before.split('@').next().unwrap_or(before);
            format!("{name}@{file}")
        }
        None => frame.to_owned(),
    };
    let mut frames = stack.split(" < ");
    let innermost = frames.clone().next().unwrap_or(stack);
    match frames.find(|frame| !library(frame)) {
        Some(own) if own != innermost => format!("{} for {own}", short(innermost)),
        _ => short(innermost),
    }
}

/// `1 block`, `61 blocks`.
fn counted(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {what}{ending}", format_count(count))
}

/// Why the request failed, with the arithmetic.
pub(super) fn reason(failure: &Failure, memory: &Memory, capacity_bytes: u64) -> Reason {
    let total = &memory.total;
    let (asked, wanted) = (failure.bytes, failure.wanted_bytes.max(failure.bytes));
    let (largest, room) = (total.largest_free_bytes, memory.room_bytes);
    let nearest = largest.max(room);
    let live = total.requested_bytes;
    let needed = live.saturating_add(asked);
    let mut lines = Vec::new();
    if wanted != asked {
        lines.push(format!(
            "asked {}, as the policy rounds it {}",
            size(asked),
            size(wanted)
        ));
    }
    let mut short_by_bytes = wanted.saturating_sub(nearest);
    match failure.verdict {
        Verdict::Capacity | Verdict::Outside => {
            short_by_bytes = needed.saturating_sub(capacity_bytes);
            lines.push(format!(
                "live {} and asked {} are {} together; the capacity is {}: short by {}",
                size(live),
                size(asked),
                size(needed),
                size(capacity_bytes),
                size(short_by_bytes),
            ));
        }
        Verdict::Overflow => lines.push("the rounded size passes 64 bits".into()),
        _ => {
            lines.push(pieces(memory, wanted));
            lines.push(driver(room, wanted));
            if failure.verdict == Verdict::Rounding {
                lines.push(format!(
                    "as it was asked it would fit: {} are there for {}",
                    size(nearest),
                    size(asked)
                ));
            }
            lines.push(format!(
                "all in one piece it would do: live {} and asked {} leave {} of the capacity",
                size(live),
                size(asked),
                size(capacity_bytes.saturating_sub(needed)),
            ));
        }
    }
    Reason {
        verdict: failure.verdict,
        meaning: failure.verdict.meaning().to_owned(),
        arithmetic: lines,
        short_by_bytes,
    }
}

/// What is free, in how many pieces, and what the largest lacks.
fn pieces(memory: &Memory, wanted: u64) -> String {
    let total = &memory.total;
    let largest = total.largest_free_bytes;
    let held = match (total.pending_bytes, total.retired_bytes) {
        (0, 0) => String::new(),
        (pending, 0) => format!("; {} more wait for streams", size(pending)),
        (_, retired) => format!("; {} more wait for a reset", size(retired)),
    };
    let free = format!(
        "free {} in {}",
        size(total.free_bytes),
        counted(total.free_blocks, "block")
    );
    if total.free_bytes == 0 {
        format!("nothing of what is reserved is free{held}")
    } else if largest >= wanted {
        let over = size(largest - wanted);
        format!(
            "{free}, the largest {}: {over} more than wanted{held}",
            size(largest)
        )
    } else {
        let short = size(wanted - largest);
        format!(
            "{free}, the largest {}: short by {short}{held}",
            size(largest)
        )
    }
}

/// What the driver would still give. A policy may ask it for more at once than it wanted.
fn driver(room: u64, wanted: u64) -> String {
    let room_told = size(room);
    match wanted.saturating_sub(room) {
        0 => format!("the driver would still give {room_told}, less than the policy asks it for"),
        short if room == 0 => format!("the driver gives nothing more: short by {}", size(short)),
        short => format!(
            "the driver would still give {room_told}: short by {}",
            size(short)
        ),
    }
}

/// What to do, in a sentence or two.
pub(super) fn advice(it: &Explanation) -> String {
    let mut sentences = Vec::new();
    match (&it.reason, &it.asked) {
        (Some(reason), Some(asked)) => failed(it, reason, asked, &mut sentences),
        _ => nothing_failed(it, &mut sentences),
    }
    if let Some(leak) = leak(it) {
        sentences.push(leak);
    }
    sentences.join(" ")
}

fn failed(it: &Explanation, reason: &Reason, asked: &Asked, sentences: &mut Vec<String>) {
    // What can be set without another allocator comes first, where it fails nowhere else.
    let own = it.remedies.own.as_ref();
    let foreign =
        |it: &Remedy| own.is_some_and(|own| own.setting.is_some() != it.setting.is_some());
    let rank = |it: &&Remedy| (it.failed > 0, foreign(it), it.failed, it.cost_ns);
    let safe = it.remedies.serve.iter().filter(|it| it.hazards == 0);
    match safe.min_by_key(rank) {
        Some(best) => sentences.push(use_it(best, own)),
        None if reason.verdict == Verdict::Capacity => sentences.push(format!(
            "No policy can serve it within {}: have less live at that moment, or give {} at least.",
            format_bytes(it.capacity_bytes),
            size(it.memory.total.requested_bytes.saturating_add(asked.bytes)),
        )),
        None => sentences.push(
            "Nothing that was tried serves it safely at this capacity: `vramlab fit` finds the \
             capacity that does."
                .into(),
        ),
    }
    let Some(blockers) = it.blockers.as_ref().filter(|it| it.found == Found::Blocks) else {
        return;
    };
    let count = blockers.blocks.len() as u64;
    if let ([only], true) = (&blockers.blocks[..], count == 1) {
        let made = only.stack.as_deref().map(gist);
        let made = made.map_or(String::new(), |gist| format!(", made by {gist}"));
        sentences.push(format!(
            "Or free one block before it: {} of event {}{made}.",
            size(only.bytes),
            format_count(only.event)
        ));
    } else if count <= 8 {
        sentences.push(format!(
            "Or free the {} named above before it, {} together.",
            counted(count, "block"),
            size(blockers.bytes)
        ));
    }
}

/// What to use instead, and what it costs. An option of PyTorch can only be set where
/// PyTorch's allocator runs.
fn use_it(best: &Remedy, own: Option<&Remedy>) -> String {
    let settable = own.is_some_and(|own| own.setting.is_some());
    let what = match best.setting.as_ref().filter(|_| settable) {
        Some(setting) if !setting.ends_with('=') => format!("Set {setting}"),
        Some(_) => "Leave PYTORCH_CUDA_ALLOC_CONF unset".to_owned(),
        None => format!("Take an allocator like '{}'", best.policy),
    };
    let rest = match best.failed {
        0 => "serves this request and all others".to_owned(),
        more => format!("serves this request, while {} not served", others(more)),
    };
    let sure = if best.exact {
        ""
    } else {
        ", though it hangs on addresses of the driver"
    };
    let more = own.map_or(String::new(), |own| {
        let calls = i128::from(best.driver_calls) - i128::from(own.driver_calls);
        format!(" ({calls:+})")
    });
    let moved = match best.moved_bytes {
        0 => String::new(),
        bytes => format!(", {} moved", format_bytes(bytes)),
    };
    format!(
        "{what}: in a replay it {rest}{sure}, with a peak of {}, {}{more}{moved}; calls, moves and \
         stalls cost {}.",
        format_bytes(best.peak_footprint_bytes),
        counted(best.driver_calls, "driver call"),
        format_nanos(best.cost_ns),
    )
}

/// `1 other is`, `7 others are`.
fn others(count: u64) -> String {
    if count == 1 {
        return "1 other is".into();
    }
    format!("{} others are", format_count(count))
}

fn nothing_failed(it: &Explanation, sentences: &mut Vec<String>) {
    if it.moment.failures > 0 {
        let first = it.moment.failed_events.first();
        let first = first.map_or(String::new(), |event| format!("; try --event {event}"));
        sentences.push(format!(
            "Nothing failed at this event{first}, the first that did."
        ));
        return;
    }
    let capacity = format_bytes(it.capacity_bytes);
    let mut text = format!("Nothing failed under {} within {capacity}.", it.policy);
    let own = it.remedies.own.as_ref();
    let frugal = it.remedies.serve.iter().filter(|remedy| {
        remedy.exact
            && remedy.hazards == 0
            && own.is_some_and(|own| remedy.peak_footprint_bytes < own.peak_footprint_bytes)
    });
    let rank = |remedy: &&Remedy| (remedy.setting.is_none(), remedy.peak_footprint_bytes);
    if let Some(least) = frugal.min_by_key(rank) {
        let name = least.setting.as_ref().unwrap_or(&least.policy);
        text += &format!(
            " The least is held with {name}: a peak of {}.",
            format_bytes(least.peak_footprint_bytes)
        );
    }
    sentences.push(text);
}

/// The greatest growth, where it is worth a word.
fn leak(it: &Explanation) -> Option<String> {
    let leaks = &it.leaks;
    if leaks.parted_by == PartedBy::Slices {
        return None;
    }
    let worst = leaks.by_stack.first().or(leaks.by_size.first())?;
    let grown = worst.last_bytes - worst.first_bytes;
    if grown < it.capacity_bytes / WORTH_A_WORD {
        return None;
    }
    let who = match (&worst.stack, worst.from_bytes) {
        (Some(stack), _) => format!("what {} makes", gist(stack)),
        (None, Some(from)) => {
            format!(
                "blocks of {} to {}",
                format_bytes(from),
                format_bytes(from.saturating_mul(2))
            )
        }
        (None, None) => return None,
    };
    Some(format!(
        "Look first at {who}: it grows by {} a period and never falls.",
        size(worst.per_period_bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gist_of_a_stack_names_the_programs_own_frame() {
        let deep = "batch_norm@site-packages/torch/nn/functional.py:2846 < \
                    forward@site-packages/torch/nn/modules/batchnorm.py:194 < main@train.py:40";
        let gist_of_deep = "batch_norm@torch/nn/functional.py:2846 for main@train.py:40";
        assert_eq!(gist(deep), gist_of_deep);
        assert_eq!(
            gist("load@train.py:7 < main@train.py:40"),
            "load@train.py:7"
        );
    }

    #[test]
    fn sizes_are_told_for_people_and_exactly() {
        assert_eq!(size(3 << 29), "1.50 GiB (1,610,612,736 bytes)");
        assert_eq!(size(500), "500 bytes");
    }
}
