//! A trace made larger: sizes by a factor, or several copies of its requests side by side.
//!
//! What a larger batch does to a program, to first order: the tensors of a batch grow with
//! it and the weights do not, so a filter says which requests change. Sizes are exact:
//! bytes times a fraction, rounded down, and at least 1 where they were.
//!
//! A copy is made of the events of a request (its free, completion, uses and pins), right
//! behind the original's, on the same stream: two programs in step. Recorded addresses and
//! the recorded cap no longer hold and are left out; the import report says so.

use std::str::FromStr;

use super::{Event, Ids, Slot, Trace};

/// A positive fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// One: nothing changes.
    pub const ONE: Ratio = Ratio {
        numerator: 1,
        denominator: 1,
    };

    /// `bytes` times the fraction, rounded down, at least 1 where `bytes` is; `None` past
    /// `u64::MAX`.
    #[must_use]
    pub fn of(self, bytes: u64) -> Option<u64> {
        let product = u128::from(bytes) * u128::from(self.numerator);
        let scaled = u64::try_from(product / u128::from(self.denominator)).ok()?;
        Some(scaled.max(bytes.min(1)))
    }
}

impl FromStr for Ratio {
    type Err = String;

    /// Reads `2`, `1.5` or `3/2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let fail = || format!("factor '{text}': expected a number above 0, as 2, 1.5 or 3/2");
        let digits = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (numerator, denominator) = if let Some((above, below)) = text.split_once('/') {
            (digits(above), digits(below))
        } else {
            let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
            let power = 10u64.checked_pow(part.len() as u32);
            (digits(whole).and(digits(&format!("{whole}{part}"))), power)
        };
        match (numerator, denominator) {
            (Some(above @ 1..), Some(below @ 1..)) => {
                let common = common_divisor(above, below);
                Ok(Ratio {
                    numerator: above / common,
                    denominator: below / common,
                })
            }
            _ => Err(fail()),
        }
    }
}

/// The greatest common divisor (Euclid).
fn common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 {
        return one;
    }
    common_divisor(other, one % other)
}

/// What is made larger, and which requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaling {
    /// Sizes change by this.
    pub sizes: Ratio,
    /// So many of each request, the original counted.
    pub copies: u32,
    /// Only requests whose tag holds one of these texts; any where there is none.
    pub tags: Vec<String>,
    /// Only requests of more bytes than this.
    pub larger_than_bytes: Option<u64>,
    /// Only requests after the first mark of this label.
    pub after_mark: Option<String>,
}

/// A request that would pass `u64::MAX`, or a filter that nothing meets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// A size passes what 64 bits hold.
    #[error("event {event}: a request of {bytes} bytes would pass {}", u64::MAX)]
    TooLarge {
        /// Number of the event.
        event: usize,
        /// Bytes before.
        bytes: u64,
    },
    /// No request meets the filter.
    #[error("no request meets the filter")]
    NothingMeets,
}

/// The trace made larger, and how many of its requests were.
///
/// # Errors
/// [`ScaleError`].
pub fn scale(trace: &Trace, scaling: &Scaling) -> Result<(Trace, u64), ScaleError> {
    let mut copier = Copier::new(trace, scaling);
    for (at, event) in trace.events.iter().enumerate() {
        if at == trace.initial_events {
            copier.made.initial_events = copier.made.events.len();
        }
        copier.event(at, event)?;
    }
    if trace.initial_events == trace.events.len() {
        copier.made.initial_events = copier.made.events.len();
    }
    if copier.met == 0 {
        return Err(ScaleError::NothingMeets);
    }
    let met = copier.met;
    Ok((copier.finish(), met))
}

/// Writes the new trace event by event.
struct Copier<'a> {
    old: &'a Trace,
    scaling: &'a Scaling,
    made: Trace,
    /// The new slots of each old one, the original's first.
    slots: Vec<Vec<Slot>>,
    spare: Vec<Slot>,
    /// Which of the old requests each new one comes from.
    origins: Vec<usize>,
    requests: usize,
    marked: bool,
    met: u64,
}

impl<'a> Copier<'a> {
    fn new(old: &'a Trace, scaling: &'a Scaling) -> Self {
        Copier {
            old,
            scaling,
            made: Trace {
                name: old.name.clone(),
                streams: old.streams.clone(),
                pools: old.pools.clone(),
                labels: old.labels.clone(),
                tags: old.tags.clone(),
                device: old.device,
                report: old.report.clone(),
                ..Trace::default()
            },
            slots: vec![Vec::new(); old.slots as usize],
            spare: Vec::new(),
            origins: Vec::new(),
            requests: 0,
            marked: scaling.after_mark.is_none(),
            met: 0,
        }
    }

    /// Whether a request is to be made larger.
    fn meets(&self, bytes: u64, tag: u32) -> bool {
        let Scaling {
            tags,
            larger_than_bytes,
            ..
        } = self.scaling;
        let text = self.old.tags.get(tag as usize).map_or("", String::as_str);
        self.marked
            && larger_than_bytes.is_none_or(|least| bytes > least)
            && (tags.is_empty() || tags.iter().any(|tag| text.contains(tag.as_str())))
    }

    /// The new bytes of a request, and how many of it there are.
    fn grown(&mut self, at: usize, bytes: u64, tag: u32) -> Result<(u64, u32), ScaleError> {
        if !self.meets(bytes, tag) {
            return Ok((bytes, 1));
        }
        self.met += 1;
        let too_large = ScaleError::TooLarge { event: at, bytes };
        let grown = self.scaling.sizes.of(bytes).ok_or(too_large)?;
        Ok((grown, self.scaling.copies))
    }

    fn event(&mut self, at: usize, event: &Event) -> Result<(), ScaleError> {
        let time = self.old.times_ns.get(at).copied();
        match *event {
            Event::Alloc {
                slot, bytes, tag, ..
            } => {
                let (bytes, copies) = self.grown(at, bytes, tag)?;
                self.slots[slot as usize] = (0..copies).map(|_| self.fresh()).collect();
                self.requests += 1;
                self.each(slot, event, time, Some(bytes));
            }
            Event::Attempt { bytes, tag, .. } => {
                let (grown, copies) = self.grown(at, bytes, tag)?;
                self.requests += 1;
                for _ in 0..copies {
                    let mut copy = *event;
                    if let Event::Attempt { bytes, .. } = &mut copy {
                        *bytes = grown;
                    }
                    self.origins.push(self.requests - 1);
                    self.push(copy, time);
                }
            }
            Event::Free { slot, deferred, .. } => {
                self.each(slot, event, time, None);
                if !deferred {
                    self.give_back(slot);
                }
            }
            Event::Complete { slot } => {
                self.each(slot, event, time, None);
                self.give_back(slot);
            }
            Event::Use { slot, .. } | Event::Pin { slot } | Event::Unpin { slot } => {
                self.each(slot, event, time, None);
            }
            Event::Mark { label } => {
                let wanted = self.scaling.after_mark.as_deref();
                let text = self.old.labels.get(label as usize).map(String::as_str);
                self.marked |= text.is_some() && text == wanted;
                self.push(*event, time);
            }
            _ => self.push(*event, time),
        }
        Ok(())
    }

    /// A slot for a new allocation.
    fn fresh(&mut self) -> Slot {
        self.spare.pop().unwrap_or_else(|| {
            self.made.slots += 1;
            self.made.slots - 1
        })
    }

    /// The slots of `slot` may be used again.
    fn give_back(&mut self, slot: Slot) {
        let slots = std::mem::take(&mut self.slots[slot as usize]);
        self.spare.extend(slots.into_iter().rev());
    }

    /// The event for each copy of its allocation; of a request the new bytes.
    fn each(&mut self, old: Slot, event: &Event, time: Option<u64>, grown: Option<u64>) {
        for at in 0..self.slots[old as usize].len() {
            let new = self.slots[old as usize][at];
            let mut copy = *event;
            match &mut copy {
                Event::Alloc { slot, bytes, .. } => {
                    *slot = new;
                    *bytes = grown.unwrap_or(*bytes);
                    self.origins.push(self.requests - 1);
                }
                Event::Free { slot, .. }
                | Event::Complete { slot }
                | Event::Use { slot, .. }
                | Event::Pin { slot }
                | Event::Unpin { slot } => *slot = new,
                _ => {}
            }
            self.push(copy, time);
        }
    }

    fn push(&mut self, event: Event, time: Option<u64>) {
        self.made.events.push(event);
        self.made.times_ns.extend(time);
    }

    fn finish(mut self) -> Trace {
        let old = self.old;
        self.made.ids = match &old.ids {
            // Without copies each request keeps its name.
            _ if self.scaling.copies == 1 => old.ids.clone(),
            Ids::Ordinal | Ids::Numbers(_) => Ids::Ordinal,
            Ids::Names(_) => self.copied_names(),
        };
        let report = &mut self.made.report;
        report.events = self.made.events.len() as u64;
        let facts = u64::from(old.truth.is_some());
        report.note(facts, "recorded addresses left out: sizes changed");
        let cap = u64::from(old.capacity_bytes.is_some());
        report.note(
            cap,
            "the recorded cap left out: it was that of the original",
        );
        self.made
    }

    /// The names of copies: the original's with a number behind it.
    fn copied_names(&self) -> Ids {
        let mut names = Vec::with_capacity(self.origins.len());
        let (mut last, mut copy) = (usize::MAX, 0);
        for origin in &self.origins {
            copy = if *origin == last { copy + 1 } else { 1 };
            last = *origin;
            let name = self.old.ids.name(*origin);
            names.push(if copy == 1 {
                name
            } else {
                format!("{name}#{copy}")
            });
        }
        Ids::Names(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::peak_live_requested_bytes;
    use crate::trace::check::check;
    use crate::trace::random::random_trace;

    fn plain(sizes: &str, copies: u32) -> Scaling {
        Scaling {
            sizes: sizes.parse().expect("a ratio"),
            copies,
            tags: Vec::new(),
            larger_than_bytes: None,
            after_mark: None,
        }
    }

    /// A trace whose sizes leave room to grow.
    fn small(seed: u64) -> Trace {
        let mut trace = random_trace(seed, 400);
        for event in &mut trace.events {
            if let Event::Alloc { bytes, .. } | Event::Attempt { bytes, .. } = event {
                *bytes >>= 24;
            }
        }
        trace
    }

    #[test]
    fn factors_are_read_exactly_and_sizes_rounded_down() {
        for text in ["1.5", "3/2", "1.50", "15/10"] {
            let ratio: Ratio = text.parse().expect("a factor");
            assert_eq!(ratio, "3/2".parse().expect("a factor"), "{text}");
            assert_eq!(ratio.of(5), Some(7), "{text}");
            assert_eq!(ratio.of(0), Some(0));
        }
        assert_eq!("1.0".parse(), Ok(Ratio::ONE));
        let third: Ratio = "1/3".parse().expect("a factor");
        assert_eq!(third.of(1), Some(1));
        assert_eq!(third.of(u64::MAX), Some(u64::MAX / 3));
        assert_eq!("2".parse::<Ratio>().expect("a factor").of(u64::MAX), None);
        for text in ["", "0", "0/2", "1/0", "-1", "+1", "1.5x", "1/2/3", ".5"] {
            let told = text.parse::<Ratio>().expect_err(text);
            assert!(told.contains("3/2"), "{told}");
        }
    }

    #[test]
    fn larger_traces_are_sound_and_peaks_grow_by_the_factor() {
        for seed in 0..24 {
            let trace = small(seed);
            let live = peak_live_requested_bytes(&trace);
            let (double, met) = scale(&trace, &plain("2", 1)).expect("it scales");
            assert_eq!(check(&double), Ok(()));
            assert_eq!(met, trace.requests());
            assert_eq!(double.events.len(), trace.events.len());
            let (three, _) = scale(&trace, &plain("1", 3)).expect("it scales");
            assert_eq!(check(&three), Ok(()));
            assert_eq!(three.requests(), 3 * trace.requests());
            let raw = |event: &Event| matches!(event, Event::FreeAt { .. });
            if !trace.events.iter().any(raw) {
                assert_eq!(peak_live_requested_bytes(&double), 2 * live);
                assert_eq!(peak_live_requested_bytes(&three), 3 * live);
            }
            let (same, _) = scale(&trace, &plain("1", 1)).expect("it scales");
            assert_eq!(same.ids, trace.ids);
            assert_eq!(same.initial_events, trace.initial_events);
            assert_eq!(same.times_ns, trace.times_ns);
        }
    }

    #[test]
    fn filters_spare_what_does_not_grow_with_the_batch() {
        let trace = small(2);
        let tagged = Scaling {
            tags: vec!["x".into()],
            ..plain("3", 1)
        };
        let (made, met) = scale(&trace, &tagged).expect("some have the tag");
        let mut seen = 0;
        for (old, new) in trace.events.iter().zip(&made.events) {
            let (Event::Alloc { bytes, tag, .. }, Event::Alloc { bytes: grown, .. }) = (old, new)
            else {
                continue;
            };
            let has = trace.tags[*tag as usize].contains('x');
            seen += u64::from(has);
            assert_eq!(*grown, if has { 3 * bytes } else { *bytes });
        }
        assert!(0 < seen && seen <= met && met < trace.requests());
        let larger = Scaling {
            larger_than_bytes: Some(u64::MAX),
            ..plain("3", 1)
        };
        assert_eq!(scale(&trace, &larger), Err(ScaleError::NothingMeets));
        let marked = Scaling {
            after_mark: Some("no such mark".into()),
            ..plain("3", 2)
        };
        assert_eq!(scale(&trace, &marked), Err(ScaleError::NothingMeets));
        let marked = Scaling {
            after_mark: Some("warm up".into()),
            ..plain("3", 2)
        };
        let (made, met) = scale(&trace, &marked).expect("requests after it");
        assert_eq!(made.requests(), trace.requests() + met);
        assert!(met < trace.requests());
    }

    #[test]
    fn a_size_past_64_bits_is_told_with_its_event() {
        let mut trace = small(4);
        let at = trace
            .events
            .iter()
            .position(|event| matches!(event, Event::Alloc { .. }))
            .expect("a request");
        if let Event::Alloc { bytes, .. } = &mut trace.events[at] {
            *bytes = u64::MAX / 2 + 1;
        }
        let told = scale(&trace, &plain("2", 1)).expect_err("too large");
        assert!(
            matches!(told, ScaleError::TooLarge { event, .. } if event == at),
            "{told}"
        );
    }
}
