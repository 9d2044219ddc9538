//! The sentences of an explanation: the arithmetic of a verdict, and what to do.

use super::data::{Asked, Explanation, Found, Memory, PartedBy, Reason, Remedy};
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
                "in one piece it would do: live {} and asked {} leave {} of the capacity",
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

/// What the driver would still give.
fn driver(room: u64, wanted: u64) -> String {
    match wanted.checked_sub(room) {
        Some(0) | None => format!("the driver would still give {}", size(room)),
        Some(short) if room == 0 => {
            format!("the driver gives nothing more: short by {}", size(short))
        }
        Some(short) => format!(
            "the driver would still give {}: short by {}",
            size(room),
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
    let rank = |it: &&Remedy| (it.failed > 0, it.setting.is_none(), it.failed, it.cost_ns);
    match it.remedies.serve.iter().min_by_key(rank) {
        Some(best) => sentences.push(use_it(best, it.remedies.own.as_ref())),
        None if reason.verdict == Verdict::Capacity => sentences.push(format!(
            "No policy can serve it within {}: have less live at that moment, or give {} at least.",
            format_bytes(it.capacity_bytes),
            size(it.memory.total.requested_bytes.saturating_add(asked.bytes)),
        )),
        None => sentences.push(
            "Nothing that was tried serves it at this capacity: `vramlab fit` finds the capacity \
             that does."
                .into(),
        ),
    }
    let Some(blockers) = it.blockers.as_ref().filter(|it| it.found == Found::Blocks) else {
        return;
    };
    let count = blockers.blocks.len() as u64;
    if let ([only], true) = (&blockers.blocks[..], count == 1) {
        let made = only.stack.as_deref().and_then(|it| it.split(" < ").next());
        let made = made.map_or(String::new(), |frame| format!(", made by {frame}"));
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

fn use_it(best: &Remedy, own: Option<&Remedy>) -> String {
    let what = match &best.setting {
        Some(setting) if !setting.ends_with('=') => format!("Set {setting}"),
        Some(_) => "Leave PYTORCH_CUDA_ALLOC_CONF unset".to_owned(),
        None => format!("An allocator like '{}' would do", best.policy),
    };
    let rest = match best.failed {
        0 => "serves this request and all others".to_owned(),
        more => format!(
            "serves this request; {} fail elsewhere",
            counted(more, "request")
        ),
    };
    let sure = if best.exact {
        ""
    } else {
        ", though it hangs on addresses of the driver"
    };
    let calls = own.map_or(String::new(), |own| {
        let calls = i128::from(best.driver_calls) - i128::from(own.driver_calls);
        format!(" ({calls:+})")
    });
    let moved = match best.moved_bytes {
        0 => String::new(),
        bytes => format!(", {} moved", format_bytes(bytes)),
    };
    format!(
        "{what}: in a replay it {rest}{sure}, with a peak of {}, {} driver calls{calls}{moved}; \
         calls, moves and stalls cost {}.",
        format_bytes(best.peak_footprint_bytes),
        format_count(best.driver_calls),
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
            && own.is_some_and(|own| remedy.peak_footprint_bytes < own.peak_footprint_bytes)
    });
    if let Some(least) = frugal.min_by_key(|remedy| remedy.peak_footprint_bytes) {
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
        (Some(stack), _) => format!("what {} makes", stack.split(" < ").next().unwrap_or(stack)),
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
