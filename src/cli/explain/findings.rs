//! What an explanation found, in words: why, what was in the way, what leaks, what helps.

use super::view::{Page, clean, stack};
use crate::cli::load::counted;
use crate::cli::table::{Cell, Column, Mark, Table};
use crate::explain::words::{gist, size};
use crate::explain::{
    Blocker, Blockers, Explanation, Fewest, Found, Growth, Holder, Leaks, PartedBy, Remedy,
};
use crate::units::{format_bytes, format_count, format_nanos, format_ppm};

/// Rows of a table of holders or growth that are shown.
const SHOWN: usize = 5;

/// Why it failed.
/// The verdict and its arithmetic.
pub(super) fn why(it: &Explanation, page: &mut Page) {
    let Some(reason) = &it.reason else {
        return;
    };
    page.part("Why it failed");
    page.say(&format!("{}: {}", reason.verdict.name(), reason.meaning));
    for line in &reason.arithmetic {
        page.say(line);
    }
}

/// The blockers.
pub(super) fn in_the_way(blockers: &Blockers, page: &mut Page) {
    page.part("What was in the way");
    let tried = counted(blockers.tried as usize, "replay");
    match blockers.found {
        Found::Waiting => {
            page.say(
                "no live block: had the program waited for the device first, it would have \
                      been served (proven by a replay)",
            );
            return;
        }
        Found::Never => {
            page.say(
                "nothing: even with every live block freed it is not served (proven by a \
                      replay)",
            );
            return;
        }
        Found::Blocks => {}
    }
    let count = counted(blockers.blocks.len(), "live block");
    let fewest = match blockers.fewest {
        Fewest::Arithmetic => "there can be no fewer",
        Fewest::Exhaustive => "every smaller set was tried, and none does",
        Fewest::Likely => "none of them can be spared; smaller sets were not all tried",
    };
    page.say(&format!(
        "{count}, {}: freed right before the event, the request is served (proven; {fewest}; {tried})",
        size(blockers.bytes)
    ));
    match blockers.absent_served {
        Some(true) => page.say("never allocated at all, the request is served as well (proven)"),
        Some(false) => {
            page.say("never allocated at all, others take their places and it still fails")
        }
        None => {}
    }
    let mut table = Table::new(vec![
        Column::words("block", 0),
        Column::number("bytes", 0),
        Column::number("requested", 1),
        Column::number("age, events", 0),
        Column::number("age", 0),
        Column::number("stream", 0),
        Column::words("freed", 0),
        Column::words("allocated at", 0),
    ]);
    for block in &blockers.blocks {
        table.row(blocker(block));
    }
    page.table(&table);
    if let [only] = &blockers.blocks[..] {
        let several = |stack: &&str| stack.contains(" < ");
        stack(only.stack.as_deref().filter(several), page);
    }
}

fn blocker(block: &Blocker) -> Vec<Cell> {
    let freed = block.freed_event.map_or_else(
        || "never".to_owned(),
        |event| format!("event {}", format_count(event)),
    );
    let made = block.stack.as_deref().map(gist);
    let event = format!("event {}", format_count(block.event));
    let address = format!("0x{:x}", block.address);
    let name = match &block.id {
        Some(id) => format!("'{}' at {address}", clean(id)),
        None => address,
    };
    vec![
        name.into(),
        format_count(block.bytes).into(),
        format_count(block.requested_bytes).into(),
        format_count(block.age_events).into(),
        format_nanos(block.age_ns).into(),
        block.stream.to_string().into(),
        freed.into(),
        made.map_or(event.clone(), |made| format!("{event}, {}", clean(&made)))
            .into(),
    ]
}

/// Who held memory the longest.
pub(super) fn held(it: &Explanation, page: &mut Page) {
    page.part("What held memory the longest, in bytes times time");
    let (by_stack, by_size) = (&it.holders.by_stack, &it.holders.by_size);
    for holders in [by_stack, by_size] {
        if holders.is_empty() {
            continue;
        }
        let mut table = Table::new(vec![
            Column::words("share", 0),
            Column::number("live now", 0),
            Column::number("allocations", 0),
            Column::words("of", 0),
        ]);
        for holder in holders.iter().take(SHOWN) {
            let Holder {
                stack, from_bytes, ..
            } = holder;
            table.row(vec![
                format_ppm(holder.share_ppm).into(),
                format_bytes(holder.live_bytes).into(),
                format_count(holder.allocations).into(),
                named(stack.as_deref(), *from_bytes).into(),
            ]);
        }
        page.table(&table);
    }
    if by_stack.is_empty() {
        page.say("the trace holds no stacks");
    }
}

/// A stack in one line, or a class of sizes.
fn named(stack: Option<&str>, from_bytes: Option<u64>) -> String {
    match (stack, from_bytes) {
        (Some(stack), _) => clean(&gist(stack)),
        (None, Some(from)) => {
            let to = format_bytes(from.saturating_mul(2));
            format!("sizes from {} to {to}", format_bytes(from))
        }
        (None, None) => String::new(),
    }
}

/// What leaks, and what is only cached.
pub(super) fn leaks(leaks: &Leaks, page: &mut Page) {
    page.part("Leaked or cached");
    let periods = format_count(leaks.periods);
    let between = match &leaks.parted_by {
        PartedBy::Marks { word } => {
            format!("{periods} periods between marks '{}'", clean(word.trim()))
        }
        PartedBy::Lows { rise_bytes } => format!(
            "{periods} periods between low points (before a rise of {})",
            format_bytes(*rise_bytes)
        ),
        PartedBy::Slices => format!("{periods} equal slices of the trace"),
    };
    let all = leaks.by_stack.iter().chain(&leaks.by_size);
    let mut table = Table::new(vec![
        Column::words("a period", 0),
        Column::number("from", 0),
        Column::number("to", 0),
        Column::words("what grows and never falls", 0),
    ]);
    let mut some = false;
    for growth in all.take(2 * SHOWN) {
        some = true;
        table.row(grown(growth));
    }
    if some {
        page.say(&format!("live bytes that grow over {between}:"));
        page.table(&table);
    } else {
        page.say(&format!(
            "leaked: nothing; no stack and no size grows over {between}"
        ));
    }
    let cached = &leaks.cached;
    page.say(&format!(
        "cached: right before the event {} were free in what is reserved; a trim (as \
         torch.cuda.empty_cache()) gives {} back, and {} stay reserved (proven by a replay)",
        size(cached.free_bytes),
        size(cached.returned_bytes),
        size(cached.kept_bytes)
    ));
}

fn grown(growth: &Growth) -> Vec<Cell> {
    vec![
        format!("+{}", format_bytes(growth.per_period_bytes)).into(),
        format_bytes(growth.first_bytes).into(),
        format_bytes(growth.last_bytes).into(),
        named(growth.stack.as_deref(), growth.from_bytes).into(),
    ]
}

/// What would have served it.
pub(super) fn remedies(it: &Explanation, page: &mut Page) {
    let asks = it.asked.is_some();
    page.part(if asks && it.reason.is_some() {
        "What would have served it, at the same capacity (each replayed from an empty card)"
    } else {
        "The same under other settings (each replayed from an empty card)"
    });
    let mut table = Table::new(vec![
        Column::words("policy", 0),
        Column::words(if asks { "served" } else { "all served" }, 0),
        Column::number("failed", 0),
        Column::number("peak", 0),
        Column::number("driver\ncalls", 1),
        Column::number("moved", 2),
        Column::number("cost", 1),
        Column::words("", 3),
    ]);
    let own = it.remedies.own.iter();
    for remedy in own.chain(&it.remedies.serve).chain(&it.remedies.fail) {
        table.row(price(remedy));
    }
    page.table(&table);
    let all = it.remedies.serve.iter().chain(&it.remedies.fail);
    let unsafe_ones = all.clone().filter(|it| it.serves && it.hazards > 0);
    let unsafe_ones: Vec<&str> = unsafe_ones.map(|it| &*it.policy).collect();
    if !unsafe_ones.is_empty() {
        page.say(&format!(
            "yes ! but it hands out memory that another stream may still use: {}",
            unsafe_ones.join(", ")
        ));
    }
    let unsure: Vec<&str> = all.filter(|it| !it.exact).map(|it| &*it.policy).collect();
    if !unsure.is_empty() {
        page.say(&format!(
            "~ hangs on addresses of the driver (the worst of {} orders decides): {}",
            crate::whatif::ORDERS.len(),
            unsure.join(", ")
        ));
    }
}

fn price(remedy: &Remedy) -> Vec<Cell> {
    if let Some(trouble) = &remedy.trouble {
        let mut cells = vec![Cell::default(); 8];
        cells[0] = remedy.policy.as_str().into();
        cells[1] = Cell::new("no", Mark::Warn);
        cells[7] = trouble.as_str().into();
        return cells;
    }
    let served = if remedy.serves && remedy.hazards > 0 {
        Cell::new("yes", Mark::Warn)
    } else if remedy.serves {
        Cell::new("yes", Mark::Good)
    } else {
        Cell::new("no", Mark::Warn)
    };
    let sure = if remedy.exact { "" } else { "~" };
    vec![
        remedy.policy.as_str().into(),
        served,
        format_count(remedy.failed).into(),
        format!("{sure}{}", format_bytes(remedy.peak_footprint_bytes)).into(),
        format_count(remedy.driver_calls).into(),
        match remedy.moved_bytes + remedy.paged_bytes {
            0 => "-".into(),
            bytes => format_bytes(bytes).into(),
        },
        format_nanos(remedy.cost_ns).into(),
    ]
}
